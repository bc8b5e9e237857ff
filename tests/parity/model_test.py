"""Compares models with transformers: logits, log-probabilities of packed forests, and every gradient by name.

    model_test.py [cpu|cuda]
"""

import json
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM
from transformers.core_model_loading import revert_weight_conversion

import tiny_models

PROBE = os.environ["DPO_MODEL_PROBE"]
DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cpu"

ALL = "DPO_TEST_ALL" in os.environ  # else one model of each family

LOGITS = 1e-5  # relative, float32
GRADIENTS = 1e-4  # relative, float32
LOG_PROBS = 1e-4  # absolute, float32


def random_examples(seed, vocabulary, count=6, longest=24):
    """Makes examples with shared prompts, shared responses, an empty prompt, responses of one token, and one to four
    responses."""
    draw = random.Random(seed)
    ids = lambda low, high: [draw.randrange(3, vocabulary) for _ in range(draw.randint(low, high))]
    examples = []
    for i in range(count):
        prompt = [] if i == 1 else ids(1, longest)
        responses = [ids(2 if i == 1 else 1, longest) for _ in range(draw.choice([1, 2, 2, 4]))]
        examples.append({"prompt": prompt, "responses": responses})
    examples.append({"prompt": examples[0]["prompt"], "responses": [examples[0]["responses"][0], ids(1, 5)]})
    examples.append({"prompt": ids(3, 3), "responses": [ids(1, 1)]})
    for example in examples:
        example["weights"] = [draw.uniform(-1, 1) for _ in example["responses"]]
    return examples


def padded(examples):
    """Returns all prompt + response sequences in one padded batch, with the mask of the response tokens."""
    sequences = [(e["prompt"], r) for e in examples for r in e["responses"]]
    longest = max(len(p) + len(r) for p, r in sequences)
    ids = torch.zeros(len(sequences), longest, dtype=torch.long)
    attention = torch.zeros_like(ids)
    response = torch.zeros_like(ids)
    for i, (p, r) in enumerate(sequences):
        ids[i, : len(p) + len(r)] = torch.tensor(p + r)
        attention[i, : len(p) + len(r)] = 1
        response[i, len(p) : len(p) + len(r)] = 1
    return ids, attention, response


def by_transformers(model, examples):
    ids, attention, response = (x.to(model.device) for x in padded(examples))
    logits = model(input_ids=ids, attention_mask=attention).logits
    distributions = logits[:, :-1].float().log_softmax(-1)
    tokens = distributions.gather(2, ids[:, 1:, None]).squeeze(2) * response[:, 1:]
    log_probs = tokens.sum(1)
    entropy = (-(distributions.exp() * distributions).sum(2) * response[:, 1:]).sum(1) / response[:, 1:].sum(1)
    weights = torch.tensor([w for e in examples for w in e["weights"]], device=model.device)
    model.zero_grad()
    (weights * log_probs).sum().backward()
    # Uses the names of files: in memory the head of GPT-NeoX has another name, and so do experts.
    gradients = {name: p.grad.float().cpu() for name, p in model.named_parameters() if p.grad is not None}
    if "gpt_neox.embed_in.weight" in gradients and "lm_head.weight" in gradients:
        gradients["embed_out.weight"] = gradients.pop("lm_head.weight")
    if any(".experts." in name for name in gradients):  # in memory they are stacked
        gradients = revert_weight_conversion(model, gradients)
    lengths = attention.sum(1).tolist()
    rows = [logits[i, :n].detach().float().cpu() for i, n in enumerate(lengths)]
    return rows, log_probs.detach().float().cpu(), entropy.detach().cpu(), gradients


def answer_of(folder, examples, **settings):
    with tempfile.TemporaryDirectory() as scratch:
        request, answer = Path(scratch, "request.json"), Path(scratch, "answer.safetensors")
        request.write_text(json.dumps({"dtype": "float32", "device": DEVICE, "examples": examples, **settings}))
        subprocess.run([PROBE, folder, request, answer], check=True)
        return load_file(answer)


def by_probe(folder, examples, dtype="float32", recompute=False, logits=True):
    found = answer_of(folder, examples, dtype=dtype, recompute=recompute, logits=logits)
    rows = [found.pop(f"logits.{i}.{j}") for i, e in enumerate(examples) for j in range(len(e["responses"]))] if logits else []
    gradients = {name.removeprefix("gradient."): x for name, x in found.items() if name.startswith("gradient.")}
    return rows, found["log_probs"], found["entropy"], gradients


def error(ours, theirs):
    return ((ours - theirs).norm() / theirs.norm().clamp_min(1e-12)).item()


def worst_error(ours, theirs):
    return max(map(error, ours, theirs))


def load(folder, dtype=torch.float32, attention="eager"):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation=attention).to(DEVICE).eval()


def check_float32(name, folder, examples, recompute=False):
    rows, log_probs, entropy, gradients = by_transformers(load(folder), examples)
    our_rows, our_log_probs, our_entropy, our_gradients = by_probe(folder, examples, recompute=recompute)
    logits = worst_error(our_rows, rows)
    apart = (our_log_probs - log_probs).abs().max().item()
    assert set(gradients) == set(our_gradients), set(gradients) ^ set(our_gradients)
    by_name = {n: error(our_gradients[n], gradients[n]) for n in gradients}
    worst = max(by_name, key=by_name.get)
    print(f"{name:28} logits {logits:.1e}  log-probs {apart:.1e}  worst gradient {by_name[worst]:.1e} ({worst})")
    assert logits < LOGITS and apart < LOG_PROBS and by_name[worst] < GRADIENTS
    assert error(our_entropy, entropy) < LOGITS


def check_bfloat16(name, folder, examples):
    """Checks that our error in bfloat16 against float32 is within that of transformers, by the same measure.

    Returns both errors of the log-probabilities. They are few numbers, so they are checked over all models together.
    """
    exact_rows, exact, _, exact_gradients = by_transformers(load(folder), examples)
    their_rows, theirs, _, their_gradients = by_transformers(load(folder, torch.bfloat16), examples)
    our_rows, ours, _, our_gradients = by_probe(folder, examples, dtype="bfloat16")
    mean = lambda found, expected: sum(map(error, found, expected)) / len(expected)
    both = lambda gradients: [gradients[n] for n in exact_gradients]
    figures = {"logits": (mean(our_rows, exact_rows), mean(their_rows, exact_rows)),
               "log-probs": (error(ours, exact), error(theirs, exact)),
               "gradients": (mean(both(our_gradients), both(exact_gradients)),
                             mean(both(their_gradients), both(exact_gradients)))}
    print(f"{name:28} bfloat16, ours | transformers: " +
          "  ".join(f"{what} {a:.1e} | {b:.1e}" for what, (a, b) in figures.items()))
    for what in ("logits", "gradients"):
        assert figures[what][0] <= 1.1 * figures[what][1], f"{name}: {what}"
    return figures["log-probs"]


VARIANTS = [
    ("gpt2", {}), ("gpt2", {"tie_word_embeddings": False, "activation_function": "relu"}),
    ("gpt2", {"scale_attn_weights": False}),
    ("gpt_neox", {}), ("gpt_neox", {"use_parallel_residual": False, "attention_bias": False}),
    ("gpt_neox", {"tie_word_embeddings": True, "rotary_pct": 1.0, "hidden_act": "gelu_new"}),
    ("gptj", {}),
    ("llama", {}), ("llama", {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True}),
    ("llama", {"num_key_value_heads": 6, "rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}}),
    ("llama", {"num_key_value_heads": 1, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}),
    ("mistral", {}), ("qwen2", {}), ("qwen2", {"tie_word_embeddings": False}),
    ("qwen3", {}), ("qwen3", {"tie_word_embeddings": True, "attention_bias": True}),
    ("gpt2", {"scale_attn_by_inverse_layer_idx": True}),
    ("llama", {"rope_parameters": tiny_models.YARN_ROPE}),
    ("llama", {"rope_parameters": {**tiny_models.YARN_ROPE, "truncate": False, "mscale": 1.0, "mscale_all_dim": 0.5}}),
    ("llama", {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}),
    ("mistral", {"sliding_window": 7}), ("qwen2", {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1}),
    ("gemma2", {}), ("gemma2", {"tie_word_embeddings": False, "attention_bias": True, "num_hidden_layers": 4}),
    ("gemma3_text", {}), ("gemma3_text", {"sliding_window": 2, "layer_types": None, "rope_parameters": None}),
    ("phi3", {}), ("phi3", {"num_key_value_heads": 6, "tie_word_embeddings": True, "original_max_position_embeddings": 2}),
    ("olmo2", {}), ("olmo2", {"num_key_value_heads": 6, "tie_word_embeddings": True}),
    ("olmo3", {}), ("smollm3", {}), ("smollm3", {"no_rope_layers": [0, 1, 0], "use_sliding_window": True, "sliding_window": 5}),
    ("granite", {}), ("granite", {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True}),
    ("cohere", {}), ("cohere", {"use_qk_norm": True, "attention_bias": True, "tie_word_embeddings": False}),
    ("mixtral", {}), ("mixtral", {"sliding_window": 7, "tie_word_embeddings": True, "num_experts_per_tok": 3}),
    ("qwen3_moe", {}), ("qwen3_moe", {"norm_topk_prob": False, "attention_bias": True, "use_sliding_window": True, "sliding_window": 7}),
    ("olmoe", {}), ("olmoe", {"norm_topk_prob": True, "num_key_value_heads": 6, "tie_word_embeddings": True}),
]


def check_balance_loss(family):
    """Checks the balance loss and its gradients. Prompts are not shared, since a forest has a shared one once, a padded
    batch several times."""
    coefficient = 3.0
    draw = random.Random(9)
    ids = lambda: [draw.randrange(3, 131) for _ in range(draw.randint(2, 20))]
    examples = [{"prompt": ids(), "responses": [ids()], "weights": [draw.uniform(-1, 1)]} for _ in range(6)]
    for recompute in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            tiny_models.make(family, folder, seed=5)
            model = load(folder)
            _, _, _, plain = by_transformers(model, examples)
            ids_, attention, _ = (x.to(model.device) for x in padded(examples))
            model.zero_grad()
            loss = model(input_ids=ids_, attention_mask=attention, output_router_logits=True).aux_loss
            loss.backward()
            balance = {name: p.grad.float().cpu() for name, p in model.named_parameters() if p.grad is not None}
            balance = revert_weight_conversion(model, balance)
            found = answer_of(folder, examples, recompute=recompute, router_aux_loss_coef=coefficient)
        wanted = {name: plain[name] + coefficient * balance.get(name, 0) for name in plain}
        worst = max(error(found[f"gradient.{name}"], wanted[name]) for name in wanted)
        print(f"{family:28} balance loss {loss.item():.4f}, ours {found['aux_loss'].item():.4f}  worst gradient {worst:.1e}")
        assert abs(found["aux_loss"].item() - loss.item()) < 1e-5 * loss.item() and worst < GRADIENTS


def check_text_part():
    """Checks the text part of a Gemma 3 for images and text, from files of transformers and from files as on the
    hub."""
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration
    torch.manual_seed(0)
    vision = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28}
    config = Gemma3Config(text_config=tiny_models.config("gemma3_text").to_dict(), vision_config=vision,
                          image_token_index=130, boi_token_index=129, eoi_token_index=128)
    model = Gemma3ForConditionalGeneration(config).to(DEVICE).eval()
    examples = random_examples(8, 128)
    rows, _, _, gradients = by_transformers(model, examples)
    gradients = {name.replace("model.language_model.", "model."): x for name, x in gradients.items()}
    for prefix in (None, "language_model.model.", "model.language_model."):
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            if prefix:
                file = Path(folder, "model.safetensors")
                state = {re.sub("^(language_model.model|model.language_model).", prefix, name): x for name, x in load_file(file).items()}
                save_file(state, file, {"format": "pt"})
            our_rows, _, _, ours = by_probe(folder, examples)
        assert worst_error(our_rows, rows) < LOGITS and max(error(ours[n], gradients[n]) for n in gradients) < GRADIENTS


def check_gpt2_small():
    """Checks the real shape of GPT-2 small, 124 million parameters."""
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        from transformers import GPT2Config, GPT2LMHeadModel
        GPT2LMHeadModel(GPT2Config()).save_pretrained(folder)
        check_float32("gpt2, 124M", folder, random_examples(7, 50257, count=3, longest=60))


def main():
    if DEVICE != "cpu" and not torch.cuda.is_available():
        print(f"not run: there is no {DEVICE} device")
        return 77
    torch.backends.cuda.matmul.allow_tf32 = False
    bfloat16 = []
    for number, (family, changes) in enumerate(VARIANTS):
        if changes and not ALL:
            continue
        name = family + "".join(f", {k}" for k in changes)
        with tempfile.TemporaryDirectory() as folder:
            tiny_models.make(family, folder, seed=number, **changes)
            examples = random_examples(number, 131)
            check_float32(name[:28], folder, examples)
            check_float32("  recomputed", folder, examples, recompute=True)
            if family in tiny_models.EXPERTS:  # rounding would send some tokens to other experts, so every token goes to all
                every = {"num_experts_per_tok": tiny_models.EXPERTS[family]}
                tiny_models.make(family, folder, seed=number, **{**changes, **every})
            bfloat16.append(check_bfloat16("", folder, random_examples(100 + number, 131, count=16)))
    ours, theirs = (sum(x * x for x in errors) ** 0.5 for errors in zip(*bfloat16))
    print(f"log-probs in bfloat16 over all models, ours | transformers: {ours:.2e} | {theirs:.2e}")
    assert ours <= 1.1 * theirs
    check_text_part()
    for family in tiny_models.EXPERTS if ALL else ["mixtral"]:
        check_balance_loss(family)
    if ALL:
        check_gpt2_small()
    return 0


if __name__ == "__main__":
    sys.exit(main())

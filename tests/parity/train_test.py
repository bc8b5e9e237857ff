"""Compares twenty updates on real HH rows with a padded PyTorch script of direct-preference-optimization's training
step.

Covers SFT, DPO, conservative DPO and IPO; rankings; length-desensitised and weighted losses, margins, unscored tokens;
a tiny GPT-NeoX and a tiny Llama; float32. Compares loss, rewards and gradient norm of every update, and the final
weights.
"""

import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # tiny models: threads would only wait for each other

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

import tiny_models

PROBE = os.environ["DPO_TRAIN_PROBE"]
SHARED = Path(os.environ.get("DPO_SHARED_DATA", Path(os.environ["DPO_SOURCE_DIR"], "../shared/data")))
UPDATES, BATCH, VOCABULARY = 20, 8, 131
TOLERANCE = 1e-4
ALL = "DPO_TEST_ALL" in os.environ  # else one family


def hh_batches(count):
    """Returns pairs of real rows. Ids are folded into the tiny models' vocabulary. Lengths are kept, cut to fit."""
    tokenizer = Tokenizer.from_file(str(next(SHARED.glob("**/gpt-neox*/tokenizer.json"), None) or
                                        next(SHARED.glob("**/tokenizer.json"))))
    fold = lambda text, limit, last: [3 + i % (VOCABULARY - 3) for i in tokenizer.encode(text).ids][-limit:] if last else \
        [3 + i % (VOCABULARY - 3) for i in tokenizer.encode(text).ids][:limit]
    rows = []
    for path in sorted(SHARED.glob("**/*.jsonl*")):
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt") as lines:
            for line in lines:
                row = json.loads(line)
                if "chosen" in row and "rejected" in row:
                    rows.append(row)
        if len(rows) > count * 2:
            break
    examples = []
    for row in rows:
        at = row["chosen"].rindex("\n\nAssistant:") + len("\n\nAssistant:")
        prompt, chosen, rejected = row["chosen"][:at], row["chosen"][at:], row["rejected"][at:]
        example = {"prompt": fold(prompt, 40, True),
                   "responses": [fold(chosen, 40, False) + [2], fold(rejected, 40, False) + [2]]}
        if example["responses"][0] != example["responses"][1]:
            examples.append(example)
    return [examples[i * BATCH:(i + 1) * BATCH] for i in range(count)]


def log_probs(model, examples, place):
    """Returns the summed log-probabilities of the responses at a place, in one padded batch. A token beyond the
    shortest response of an example counts with its tail_weight."""
    sequences = [(e["prompt"], e["responses"][place]) for e in examples]
    longest = max(len(p) + len(r) for p, r in sequences)
    ids, mask = (torch.zeros(len(sequences), longest, dtype=torch.long) for _ in range(2))
    labels = torch.zeros(len(sequences), longest)
    for i, (p, r) in enumerate(sequences):
        ids[i, : len(p) + len(r)] = torch.tensor(p + r)
        mask[i, : len(p) + len(r)] = 1
        labels[i, len(p) : len(p) + len(r)] = 1
        shortest = min(len(r) for r in examples[i]["responses"])
        labels[i, len(p) + shortest : len(p) + len(r)] = examples[i].get("tail_weight", 1)
        for begin, end in examples[i].get("unscored", [[]] * (place + 1))[place]:
            labels[i, len(p) + begin : len(p) + min(end, len(r))] = 0
    logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1].float().log_softmax(-1)
    return (logits.gather(2, ids[:, 1:, None]).squeeze(2) * labels[:, 1:]).sum(1)


def loss_of(name, policy, reference, settings, margins):
    sigmoid = torch.nn.functional.logsigmoid
    if name == "sft":
        return -policy[0]
    if name == "plackett_luce":
        scores = settings["beta"] * (torch.stack(policy) - torch.stack(reference))
        return sum(scores[k:].logsumexp(0) - scores[k] for k in range(len(scores)))
    margin = (policy[0] - policy[1]) - (reference[0] - reference[1])
    beta, smoothing = settings["beta"], settings.get("label_smoothing", 0)
    if name == "ipo":
        return (margin - 1 / (2 * beta)) ** 2
    lead = beta * margin - margins
    return -sigmoid(lead) * (1 - smoothing) - sigmoid(-lead) * smoothing


def weights_of(model):
    """Returns the weights by their names in files, which transformers changes in memory."""
    weights = dict(model.named_parameters())
    if "gpt_neox.embed_in.weight" in weights and "lm_head.weight" in weights:
        weights["embed_out.weight"] = weights.pop("lm_head.weight")
    return {n: p.detach() for n, p in weights.items()}


def train_by_pytorch(folder, batches, settings, optimizer_name, lr, warmup, max_norm):
    policy = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    reference = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    optimizer = getattr(torch.optim, optimizer_name)(policy.parameters(), lr=lr)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / (warmup + 1)))
    figures = {"losses": [], "chosen": [], "rejected": [], "norms": []}
    name, beta = settings["name"], settings.get("beta", 0.1)
    for batch in batches:
        places = range(len(batch[0]["responses"]))
        ours = [log_probs(policy, batch, place) for place in places]
        with torch.no_grad():
            theirs = [log_probs(reference, batch, p) if name != "sft" else torch.zeros(len(batch)) for p in places]
        weights, margins = (torch.tensor([e.get(key, otherwise) for e in batch])
                            for key, otherwise in (("weight", 1.0), ("margin", 0.0)))
        loss = (weights * loss_of(name, ours, theirs, settings, margins)).mean()
        loss.backward()
        figures["losses"].append(loss.item())
        figures["chosen"].append(beta * (ours[0] - theirs[0]).mean().item())
        figures["rejected"].append(beta * (ours[-1] - theirs[-1]).mean().item() if len(places) > 1 else 0.0)
        figures["norms"].append(torch.nn.utils.clip_grad_norm_(policy.parameters(), max_norm).item())
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    return figures, weights_of(policy)


def train_by_probe(folder, batches, settings, optimizer, lr, warmup, max_norm, **more):
    with tempfile.TemporaryDirectory() as scratch:
        request, answer = Path(scratch, "request.json"), Path(scratch, "answer.safetensors")
        request.write_text(json.dumps({"batches": batches, "loss": settings, "optimizer": optimizer, "lr": lr,
                                       "warmup_steps": warmup, "max_grad_norm": max_norm, **more}))
        subprocess.run([PROBE, folder, request, answer], check=True)
        found = load_file(answer)
    weights = {n.removeprefix("weight."): x for n, x in found.items() if n.startswith("weight.")}
    return {n: found[n].tolist() for n in ("losses", "chosen", "rejected", "norms")}, weights


def relative(ours, theirs, scale=0.0):
    return max(abs(a - b) / max(abs(b), scale, 1e-8) for a, b in zip(ours, theirs))


def matters(name, weight):
    """Returns 1 where a weight has an influence. The bias of a key's dimensions without rotary embedding has none: it
    adds the same to all scores of a query. Its gradient is rounding noise, which RMSprop scales up to a whole step."""
    mask = torch.ones_like(weight)
    if name.endswith("query_key_value.bias"):
        settings = tiny_models.SETTINGS["gpt_neox"]
        heads, size = settings["num_attention_heads"], settings["hidden_size"] // settings["num_attention_heads"]
        mask.view(heads, 3, size)[:, 1, int(settings["rotary_pct"] * size):] = 0
    return mask


def compare(name, ours, theirs, tolerance=TOLERANCE):
    """Compares the results. Rewards are small differences of large log-probabilities, so their tolerance is absolute,
    and they have a separate one relative to their size."""
    (figures, weights), (expected, expected_weights) = ours, theirs
    largest = max(abs(x) for key in ("chosen", "rejected") for x in expected[key])
    errors = {key: relative(figures[key], expected[key], largest if key in ("chosen", "rejected") else 0) for key in figures}
    assert set(weights) == set(expected_weights), set(weights) ^ set(expected_weights)
    errors["weights"] = max(((weights[n] - w) * matters(n, w)).norm().item() / w.norm().item()
                            for n, w in expected_weights.items())
    absolute = max(abs(a - b) for key in ("chosen", "rejected") for a, b in zip(figures[key], expected[key], strict=True))
    print(f"{name:40} " + "  ".join(f"{key} {value:.1e}" for key, value in errors.items()) + f"  rewards by {absolute:.1e}")
    assert absolute < tolerance, name
    assert all(value < (TOLERANCE if key in ("chosen", "rejected") else tolerance) for key, value in errors.items()), name


def of_one(batches):
    """Returns batches of examples with one response, to imitate."""
    return [[{**e, "responses": e["responses"][:1]} for e in b] for b in batches]


def of_three(batches):
    """Returns rankings: a pair, followed by a text of the next example."""
    return [[{**e, "responses": e["responses"] + [b[i - 1]["responses"][0][:30]]} for i, e in enumerate(b)] for b in batches]


def short_tails(batches):
    return [[{**e, "tail_weight": 0.3} for e in b] for b in batches]


def weighted(batches):
    return [[{**e, "weight": 0.5 * (i % 4), "margin": 0.2 * (i % 3)} for i, e in enumerate(b)] for b in batches]


def of_turns(batches):
    """Returns examples whose responses contain unscored turns of a user. Some lie beyond a short response."""
    return [[{**e, "unscored": [[[1 + i % 2, 4], [9, 12], [30, 100]] for _ in e["responses"]]} for i, e in enumerate(b)]
            for b in batches]


def one_of_turns(batches):
    return of_turns(of_one(batches))


LOSSES = [{"name": "sft"}, {"name": "dpo", "beta": 0.1}, {"name": "dpo", "beta": 0.3, "label_smoothing": 0.1},
          {"name": "ipo", "beta": 0.1}]


def main():
    if not SHARED.is_dir():
        print(f"not run: {SHARED} is not there")
        return 77
    batches = hh_batches(UPDATES)
    for family in ("gpt_neox", "llama") if ALL else ("gpt_neox",):
        with tempfile.TemporaryDirectory() as folder:
            tiny_models.make(family, folder, seed=1)
            for settings in LOSSES:
                arguments = (of_one(batches) if settings["name"] == "sft" else batches, settings, "RMSprop", 1e-4, 5, 10.0)
                expected = train_by_pytorch(folder, *arguments)
                name = f"{family}, {settings['name']}" + (", smoothed" if "label_smoothing" in settings else "")
                compare(name, train_by_probe(folder, *arguments), expected)
                compare("  in 3 uneven parts, recomputed",
                        train_by_probe(folder, *arguments, microbatches=3, recompute=True), expected)
            for change, settings in ((of_three, {"name": "plackett_luce", "beta": 0.1}), (short_tails, LOSSES[1]),
                                     (weighted, LOSSES[1]), (of_turns, LOSSES[1]),
                                     (one_of_turns, LOSSES[0])):
                arguments = (change(batches), settings, "RMSprop", 1e-4, 5, 10.0)
                compare(f"{family}, {settings['name']}, {change.__name__}",
                        train_by_probe(folder, *arguments, microbatches=2), train_by_pytorch(folder, *arguments))
            arguments = (batches, LOSSES[1], "AdamW", 1e-4, 0, 0.5)
            compare(f"{family}, dpo, AdamW, clipped", train_by_probe(folder, *arguments),
                    train_by_pytorch(folder, *arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main())

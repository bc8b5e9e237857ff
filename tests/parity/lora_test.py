"""Compares LoRA with PEFT: PEFT's adapters in dpo, dpo's adapters in PEFT, merged models, and twenty updates.

Covers every family in float32; lists, regular expressions and all-linear as targets, patterns of rank and alpha,
rsLoRA, DoRA, modules_to_save.
"""

import copy
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import train_test  # imported before torch, since it sets the number of threads
import score_test
import tiny_models
import tiny_tokenizer
import torch
from transformers import AutoModelForCausalLM

try:
    from peft import LoraConfig, PeftModel, get_peft_model
except ImportError:
    print("not run: peft is not in the test environment")
    sys.exit(77)

PROGRAM = os.environ["DPO_PROGRAM"]
TOLERANCE = 1e-5  # relative, float32
PREFIX = "base_model.model."
# (optimizer, learning rate, warm-up, clipping)
SGD, RMSPROP = ("SGD", 0.05, 2, 10.0), ("RMSprop", 1e-3, 2, 10.0)

ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
MIXTURES = ("mixtral", "qwen3_moe", "olmoe")  # PEFT's all-linear adds LoRA to their experts, which dpo does not support

# Settings in addition to all-linear.
LLAMA_CASES = {
    "list": {"target_modules": ["q_proj", "v_proj"]},
    "expression": {"target_modules": r".*\.mlp\.(up|down)_proj"},
    "rslora": {"target_modules": ["k_proj"], "use_rslora": True},
    "patterns": {"target_modules": "all-linear", "rank_pattern": {"q_proj": 2, r"layers.1.*v_proj": 7}, "alpha_pattern": {"up_proj": 3}},
    "layers": {"target_modules": ["q_proj"], "layers_to_transform": [0, 2]},
    "dora": {"target_modules": "all-linear", "use_dora": True},
    "modules": {"target_modules": ["o_proj"], "modules_to_save": ["lm_head"]},
    "ends of names": {"target_modules": ["o_proj"], "modules_to_save": ["norm"]},
}


def make_adapter(folder, family, base_seed=1, zero=False, size=1, **settings):
    """Saves a tiny model and a random adapter of PEFT over it. B is zero if `zero`. `size` scales B: PEFT's random
    values are much larger than those after training."""
    model = tiny_models.model(family, base_seed)
    model.save_pretrained(folder / "base")
    tiny_tokenizer.make(folder / "base")
    torch.manual_seed(2)
    config = LoraConfig(task_type="CAUSAL_LM", init_lora_weights=zero, r=4, lora_alpha=8, **settings)
    adapted = get_peft_model(model, config).eval()
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "modules_to_save" in name or "magnitude" in name:
                parameter.mul_(1 + 0.1 * torch.randn(parameter.shape))
            elif "lora_B" in name:
                parameter.mul_(size)
    adapted.save_pretrained(folder / "adapter")
    return adapted


def dpo(*words):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"dpo {' '.join(map(str, words))}: {done.stderr}"
    return done.stdout


def scores_by_dpo(model, *words):
    """Returns the log-probabilities of all responses of score_test's lines, one after the other."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("".join(json.dumps(score_test.as_texts(line)) + "\n" for line in score_test.LINES))
        file.flush()
        out = dpo("score", model, file.name, "--device", "cpu", "--dtype", "float32", *words)
    return [logp for line in out.splitlines() for logp in json.loads(line)["logps"]]


def scores_by_torch(model):
    pairs = [(line["prompt"], response + [score_test.EOS]) for line in score_test.LINES
             for response in score_test.responses_of(line)]
    return [logp for logp, _ in score_test.padded_scores(model, pairs)]


def trained_by(model):
    """Returns the weights of an adapter by our names."""
    ours = lambda name: name.removeprefix(PREFIX).replace(".default", "").replace("magnitude_vector.weight", "magnitude_vector")
    return {ours(name): p.detach() for name, p in model.named_parameters() if p.requires_grad and ".default" in name}


def train_by_peft(policy, reference, batches, beta, optimizer_name, lr, warmup, max_norm):
    """Trains an adapter with the same script as train_test does whole models."""
    parameters = [p for p in policy.parameters() if p.requires_grad]
    optimizer = getattr(torch.optim, optimizer_name)(parameters, lr=lr)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / (warmup + 1)))
    figures = {"losses": [], "chosen": [], "rejected": [], "norms": []}
    for batch in batches:
        ours = [train_test.log_probs(policy, batch, place) for place in range(2)]
        with torch.no_grad():
            theirs = [train_test.log_probs(reference, batch, place) for place in range(2)]
        loss = train_test.loss_of("dpo", ours, theirs, {"beta": beta}, torch.zeros(len(batch))).mean()
        loss.backward()
        figures["losses"].append(loss.item())
        figures["chosen"].append(beta * (ours[0] - theirs[0]).mean().item())
        figures["rejected"].append(beta * (ours[1] - theirs[1]).mean().item())
        figures["norms"].append(torch.nn.utils.clip_grad_norm_(parameters, max_norm).item())
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    return figures, trained_by(policy)


class Lora(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = Path(made.name)

    def expect_close(self, found, expected, name):
        self.assertEqual(len(found), len(expected))
        for one, other in zip(found, expected):
            self.assertLess(abs(one - other), TOLERANCE * max(1, abs(other)), name)

    def compare_scores_and_merge(self, name, family, **settings):
        folder = self.folder / name
        adapted = make_adapter(folder, family, **settings)
        expected = scores_by_torch(adapted)
        plain = scores_by_dpo(folder / "base")
        self.assertGreater(max(abs(a - b) for a, b in zip(plain, expected)), 1e-2, f"{name}: the adapter does nothing")
        self.expect_close(scores_by_dpo(folder / "base", "--adapter", folder / "adapter"), expected, name)
        dpo("merge", folder / "base", folder / "adapter", folder / "merged")
        self.expect_close(scores_by_dpo(folder / "merged"), expected, f"{name}, merged")
        ours = dict(AutoModelForCausalLM.from_pretrained(folder / "merged").named_parameters())
        for key, weight in adapted.merge_and_unload().named_parameters():
            self.assertLess((ours[key] - weight).abs().max().item(), 1e-5, f"{name}: {key}")

    def test_adapters_of_peft_in_every_family(self):
        for family in tiny_models.FAMILIES:
            with self.subTest(family):
                targets = ATTENTION if family in MIXTURES else "all-linear"
                self.compare_scores_and_merge(family, family, target_modules=targets)

    def test_experts_are_refused(self):
        make_adapter(self.folder, "mixtral", target_modules="all-linear")
        done = subprocess.run([PROGRAM, "merge", self.folder / "base", self.folder / "adapter", self.folder / "merged"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("LoRA of experts and routers is not supported", done.stderr)

    def test_adapters_of_peft_of_every_kind(self):
        for name, settings in LLAMA_CASES.items():
            with self.subTest(name):
                self.compare_scores_and_merge(name, "llama", **settings)

    def test_the_head_that_has_another_name_in_memory(self):
        self.compare_scores_and_merge("head", "gpt_neox", target_modules="all-linear", modules_to_save=["lm_head"])

    def test_adapters_of_dpo_in_peft(self):
        draw = random.Random(3)
        text = lambda low, high: tiny_tokenizer.text([draw.randrange(3, 131) for _ in range(draw.randint(low, high))])
        rows = [{"prompt": text(2, 9), "chosen": text(2, 9), "rejected": text(2, 9)} for _ in range(64)]
        for number, (family, more) in enumerate((
                ("llama", ["adapter.dora=true"]), ("gpt2", ["adapter.rslora=true"]), ("phi3", ["adapter.targets=[qkv_proj]"]),
                ("llama", ['adapter.targets=[".*self_attn.*"]', "adapter.modules_to_save=[norm]"]),
                ("gpt2", ["adapter.targets=['.*mlp.c_proj']"]), ("gpt_neox", ["adapter.modules_to_save=[embed_out]"]))):
            with self.subTest(f"{family} {more}"):
                folder = self.folder / str(number)
                tiny_models.make(family, folder / "base", seed=1)
                tiny_tokenizer.make(folder / "base")
                (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
                dpo("train", "model=blank_model", f"model.name_or_path={folder / 'base'}", f"datasets=[{folder / 'pairs.jsonl'}]",
                    "loss=dpo", "loss.beta=0.1", "exp_name=lora", f"local_dirs=[{folder}]", f"local_run_dir={folder / 'run'}",
                    "batch_size=8", "n_epochs=4", "eval_every=null", "lr=1e-2", "warmup_steps=0", "max_length=64",
                    "max_prompt_length=32", "adapter=lora", "adapter.r=4", *more)
                adapter = folder / "run" / "LATEST"
                base = AutoModelForCausalLM.from_pretrained(folder / "base", attn_implementation="eager").eval()
                untrained = scores_by_torch(base)
                expected = scores_by_torch(PeftModel.from_pretrained(base, adapter).eval())
                self.assertGreater(max(abs(a - b) for a, b in zip(untrained, expected)), 1e-2, "nothing was learned")
                self.expect_close(scores_by_dpo(folder / "base", "--adapter", adapter), expected, family)

    def compare_updates(self, name, family, batches, zero, **settings):
        """Compares updates of an adapter. With `zero` it is new, and the reference is the model. Otherwise it is like
        one after SFT, and the reference is the model with it."""
        folder = self.folder / f"{family} {name}"
        adapted = make_adapter(folder, family, zero=zero, size=0.2, target_modules="all-linear", **settings)
        adapter = str(folder / "adapter")
        reference = tiny_models.model(family, 1) if zero else copy.deepcopy(adapted)
        expected = train_by_peft(adapted, reference, batches, 0.1, *SGD)
        more = {} if zero else {"reference_adapter": adapter}
        ours = train_test.train_by_probe(folder / "base", batches, {"name": "dpo", "beta": 0.1}, *SGD, adapter=adapter, **more)
        train_test.compare(f"{family}, {name}", ours, expected, TOLERANCE)

    def test_twenty_updates(self):
        if not train_test.SHARED.is_dir():
            self.skipTest(f"{train_test.SHARED} is not there")
        batches = train_test.hh_batches(train_test.UPDATES)
        for family in ("gpt_neox", "llama"):
            self.compare_updates("new", family, batches, zero=True)
            self.compare_updates("from SFT", family, batches, zero=False)
            self.compare_updates("DoRA", family, batches, zero=True, use_dora=True)

    def test_twenty_updates_of_trl(self):
        """Starts from an adapter, like one after SFT. TRL's DPOTrainer keeps a copy of it as the reference."""
        if not train_test.SHARED.is_dir():
            self.skipTest(f"{train_test.SHARED} is not there")
        import trl_train_test
        batches = train_test.hh_batches(train_test.UPDATES)
        # RMSprop divides by the size of a gradient, so rounding of a small gradient counts as much as that of a large
        # one.
        for family, settings, tolerance in (("gpt_neox", SGD, TOLERANCE), ("llama", SGD, TOLERANCE), ("llama", RMSPROP, train_test.TOLERANCE)):
            folder = self.folder / f"{family} TRL {settings[0]}"
            make_adapter(folder, family, size=0.2, target_modules="all-linear")
            adapter = str(folder / "adapter")
            load = lambda model: PeftModel.from_pretrained(model, adapter, is_trainable=True)
            expected = trl_train_test.train_by_trl(folder / "base", batches, {"name": "dpo", "trl": "sigmoid", "beta": 0.1}, *settings,
                                                   adapted=load, weights_of=trained_by)
            ours = train_test.train_by_probe(folder / "base", batches, {"name": "dpo", "beta": 0.1}, *settings, adapter=adapter,
                                             reference_adapter=adapter)
            train_test.compare(f"{family}, TRL, {settings[0]}", ours, expected, tolerance)


if __name__ == "__main__":
    unittest.main()

"""Runs the commands of docs/recipes and the README, in order as a reader types them, on a tiny model and made-up data.

Blocks marked sh are run; blocks marked console download and build, which is done here instead. The rows of the block
marked json are in the file that is trained on. To the long commands of hh-pythia.md arguments are added that make the
model tiny and the run short; what the page says stays in front of them.
"""

import gzip
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = Path(os.environ["DPO_PROGRAM"])
SOURCE = Path(os.environ["DPO_SOURCE_DIR"])
OWN_JSONL, HH_PYTHIA, CHAT = "docs/recipes/own-jsonl.md", "docs/recipes/hh-pythia.md", "docs/recipes/chat.md"
ONE_GPU = "docs/recipes/one-gpu.md"
os.environ["OMP_NUM_THREADS"] = "1"  # tiny models: threads would only wait for each other
CONFIG = {"architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "hidden_size": 32, "intermediate_size": 64,
          "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 260, "max_position_embeddings": 512}

QWEN = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 32, "intermediate_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 264, "rms_norm_eps": 1e-6,
        "max_position_embeddings": 512, "rope_theta": 1000000.0, "tie_word_embeddings": True}

LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "intermediate_size": 64,
         "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 260,
         "max_position_embeddings": 512}


def blocks(page, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", (SOURCE / page).read_text(), re.MULTILINE | re.DOTALL)


def byte_letters():
    """Returns GPT-2's letters for bytes: printable bytes stand for themselves, the others have letters after U+00FF."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def make_model(folder, name="pythia-70m", config=CONFIG, turns=()):
    """Saves a model with random weights, and a tokenizer with a token for each byte and for the marks of turns."""
    source = folder / f"{name}-source"
    source.mkdir()
    (source / "config.json").write_text(json.dumps(config))
    vocabulary = {letter: i + 1 for i, letter in enumerate(byte_letters())} | {"<|endoftext|>": 0}
    bytes_in = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    added = [{"id": i, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, content in [(0, "<|endoftext|>"), *enumerate(turns, start=257)]]
    (source / "tokenizer.json").write_text(json.dumps(
        {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
         "pre_tokenizer": bytes_in, "post_processor": None, "decoder": bytes_in,
         "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                   "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocabulary, "merges": []}}))
    (source / "tokenizer_config.json").write_text(json.dumps({"eos_token": turns[-1] if turns else "<|endoftext|>"}))
    subprocess.run([PROGRAM, "init", source, folder / name], check=True, capture_output=True)


def make_pairs(file, rows, shown):
    """Writes sums as prompts, each answered with a number and with a complaint."""
    draw = random.Random(3)
    with open(file, "w") as lines:
        lines.write(shown)
        for _ in range(rows):
            a, b = draw.randrange(1000), draw.randrange(1000)
            lines.write(json.dumps({"prompt": f"Q: What is {a} + {b}?\nA:", "chosen": f" {a + b}.",
                                    "rejected": " I cannot do sums."}) + "\n")


def make_chats(file, rows, shown):
    """Writes the same sums as messages."""
    draw = random.Random(5)
    with open(file, "w") as lines:
        lines.write(shown)
        for _ in range(rows):
            a, b = draw.randrange(1000), draw.randrange(1000)
            turns = [{"role": "user", "content": f"What is {a} + {b}?"}]
            lines.write(json.dumps({"prompt": turns, "chosen": [{"role": "assistant", "content": f"{a + b}."}],
                                    "rejected": [{"role": "assistant", "content": "I cannot do sums."}]}) + "\n")


def shared_template(name):
    beside = SOURCE.parent / "shared" / "data"
    return Path(os.environ.get("DPO_SHARED_DATA", beside)) / "chat_templates" / f"{name}.jinja"


def make_hh(folder, rows):
    """Writes conversations in HH's layout."""
    draw = random.Random(4)
    folder.mkdir()
    for split in ("train", "test"):
        with gzip.open(folder / f"{split}.jsonl.gz", "wt") as lines:
            for i in range(rows):
                talk = f"\n\nHuman: {split} {i}, a number please\n\nAssistant:"
                lines.write(json.dumps({"chosen": f"{talk} {draw.randrange(1000)}", "rejected": f"{talk} no"}) + "\n")


def page_as_script(page, before=""):
    return "set -euo pipefail\n" + before + "".join(blocks(page, "sh"))


class Recipes(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = Path(made.name)
        make_model(self.folder)

    def type(self, script):
        environment = os.environ | {"PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
        done = subprocess.run(["bash", "-c", script], cwd=self.folder, env=environment, capture_output=True)
        output, errors = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
        self.assertEqual(done.returncode, 0, output[-2000:] + errors[-4000:])
        return output, errors

    def metrics(self, run):
        return [json.loads(line) for line in (self.folder / run / "metrics.jsonl").read_text().splitlines()]

    def make_instruct(self, name):
        template = shared_template("Qwen-Qwen2.5-7B-Instruct")
        if not template.exists():
            self.skipTest(f"there is no {template}")
        make_model(self.folder, name, QWEN, ["<|im_start|>", "<|im_end|>"])
        (self.folder / name / "chat_template.jinja").write_bytes(template.read_bytes())
        return template

    def test_readme(self):
        """Runs the short form of the commands. Its run is complete, and resuming it needs only its folder."""
        self.make_instruct("my-instruct")
        (row,) = blocks("README.md", "json")
        make_chats(self.folder / "chats.jsonl", 100, row)
        _, errors = self.type(page_as_script("README.md"))
        self.assertIn("note: defaults=modern, where you gave no value: exp_name=dpo-my-instruct ", " ".join(errors.split()))
        run = self.folder / "runs/dpo-my-instruct"
        metrics = self.metrics(run)
        self.assertAlmostEqual(next(line["loss/train"] for line in metrics if "loss/train" in line), 0.693147, places=5)
        self.type("dpo train resume=runs/dpo-my-instruct")
        self.assertEqual(self.metrics(run), metrics)

    def test_own_jsonl(self):
        (shown,) = blocks(OWN_JSONL, "json")
        make_pairs(self.folder / "pairs.jsonl", 400, shown)
        _, errors = self.type(page_as_script(OWN_JSONL))
        self.assertNotIn("no length statistics", errors)
        metrics = self.metrics("runs/dpo")
        updates = [line for line in metrics if "loss/train" in line]
        self.assertAlmostEqual(updates[0]["loss/train"], 0.693147, places=5)
        evaluations = [line["loss/eval"] for line in metrics if "loss/eval" in line]  # not every update is logged
        self.assertLess(evaluations[-1], evaluations[0])
        self.assertEqual(metrics[0]["rewards_eval/accuracies"], 0)
        names = re.findall(r"`((?:loss|rewards|drift|tokens)_?\w*/\w+)`", (SOURCE / OWN_JSONL).read_text())
        self.assertGreater(len(names), 5)
        self.assertLessEqual(set(names), {name for line in metrics for name in line})
        self.assertTrue(list((self.folder / "runs/dpo/eval").glob("step-*.jsonl")))
        self.assertTrue(list((self.folder / "runs/dpo/samples").glob("step-*.jsonl")))
        scores = (self.folder / "scores.jsonl").read_text().splitlines()
        self.assertEqual(len(scores), 400 + len(shown.splitlines()))
        self.assertEqual(json.loads((self.folder / "my-model/config.json").read_text())["dtype"], "bfloat16")

    def test_chat(self):
        template = self.make_instruct("qwen2.5-0.5b-instruct")
        (shown,) = blocks(CHAT, "json")
        make_chats(self.folder / "chats.jsonl", 200, shown)
        output, errors = self.type(page_as_script(CHAT))
        self.assertIn("read as pairs of chosen and rejected, as conversations", errors)
        self.assertIn("[<|im_end|>]", output)
        metrics = self.metrics("runs/chat-dpo")
        self.assertAlmostEqual(metrics[0]["loss/eval"], 0.693147, places=5)
        self.assertEqual((self.folder / "runs/chat-dpo/LATEST/chat_template.jinja").read_bytes(), template.read_bytes())
        self.assertEqual(len((self.folder / "scores.jsonl").read_text().splitlines()), 202)

    def test_one_gpu(self):
        make_model(self.folder, "llama-3.1-8b", LLAMA)
        make_pairs(self.folder / "pairs.jsonl", 200, "")
        output, errors = self.type(page_as_script(ONE_GPU))
        self.assertIn("base-dtype", output)
        metrics = self.metrics("runs/one-gpu")
        self.assertAlmostEqual(metrics[0]["loss/eval"], 0.693147, places=5)
        self.assertTrue((self.folder / "runs/one-gpu/LATEST/adapter_model.safetensors").exists())
        self.assertTrue((self.folder / "my-model/model.safetensors").exists())

    def test_hh_pythia(self):
        make_hh(self.folder / "hh", 80)
        short = "batch_size=8 eval_batch_size=8 n_eval_examples=8 eval_every=32 n_examples=64 warmup_steps=0 local_dirs=[.] " \
                "minimum_log_interval_secs=0 model.name_or_path=pythia-70m dataset_paths.hh=hh"
        output, _ = self.type(page_as_script(HH_PYTHIA, f"""
            dpo() {{
              case $1 in
                train | plan | data) command dpo "$@" {short} ;;
                *) command dpo "$@" ;;
              esac
            }}
        """))
        for run in ("sft", "dpo", "small"):
            self.assertEqual(self.metrics(f"runs/{run}")[-1]["counters/examples"], 64)
        self.assertAlmostEqual(self.metrics("runs/dpo")[0]["loss/eval"], 0.693147, places=5)
        self.assertIn('"rewards":[', output)
        self.assertTrue((self.folder / "pythia28-hh-dpo/model.safetensors").exists())
        self.assertTrue((self.folder / "policy.pt").exists())


if __name__ == "__main__":
    if not Path(f"{PROGRAM}-engine").exists():
        print("not run: built without LibTorch")
        sys.exit(77)
    unittest.main()

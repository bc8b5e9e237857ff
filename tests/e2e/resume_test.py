"""A run that is killed again and again, also while it saves, ends with the very weights of the run that never was.

Tiny model, tiny tokenizer, made-up preferences. Also: a signal ends a run in order, a damaged checkpoint and another
configuration are refused, and two runs of one seed are equal.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

PROGRAM = os.environ["DPO_PROGRAM"]
os.environ["OMP_NUM_THREADS"] = "1"  # tiny models: threads would only wait for each other
KILLS = 20
EXAMPLES = 1600
CONFIG = {"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 64, "max_position_embeddings": 128}


def make_tokenizer(folder):
    """One id for each character of an alphabet."""
    letters = [chr(0x100 + i) for i in range(62)]
    vocabulary = {letter: i + 2 for i, letter in enumerate(letters)} | {"<s>": 0, "</s>": 1}
    added = [{"id": 1, "content": "</s>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True}]
    folder.joinpath("tokenizer.json").write_text(json.dumps(
        {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
         "pre_tokenizer": None, "post_processor": None, "decoder": None,
         "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                   "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocabulary,
                   "merges": []}}))
    folder.joinpath("tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>"}))


def make_data(path, rows):
    draw = random.Random(5)
    text = lambda low, high: "".join(chr(0x100 + draw.randrange(62)) for _ in range(draw.randint(low, high)))
    with open(path, "w") as lines:
        for _ in range(rows):
            lines.write(json.dumps({"prompt": text(4, 12), "chosen": text(3, 12), "rejected": text(3, 12)}) + "\n")


class Resume(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.scratch.name)
        source = cls.folder / "source"
        source.mkdir()
        (source / "config.json").write_text(json.dumps(CONFIG))
        make_tokenizer(source)
        subprocess.run([PROGRAM, "init", source, cls.folder / "model"], check=True, capture_output=True)
        make_data(cls.folder / "pairs.jsonl", 400)
        cls.whole = cls.folder / "whole"
        cls.check(cls.train(cls.whole))

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def words(cls, run, *more):
        return [PROGRAM, "train", "model=blank_model", f"model.name_or_path={cls.folder / 'model'}",
                f"datasets=[{cls.folder / 'pairs.jsonl'}]", "loss=dpo", "loss.beta=0.1", "exp_name=resume",
                f"local_dirs=[{cls.folder}]", f"local_run_dir={run}", "batch_size=4", "n_epochs=5", f"n_examples={EXAMPLES}",
                "eval_every=40", "eval_batch_size=2", "n_eval_examples=2", "sample_during_eval=false", "lr=1e-3",
                "warmup_steps=3", "max_length=32", "max_prompt_length=16", "minimum_log_interval_secs=0", *more]

    @classmethod
    def train(cls, run, *more):
        return subprocess.run(cls.words(run, *more), capture_output=True, text=True)

    @staticmethod
    def check(done):
        assert done.returncode == 0, done.stderr

    def weights(self, run):
        return (run / "LATEST" / "model.safetensors").read_bytes()

    @staticmethod
    def updates(run):
        """The numbers of the updates whose metrics were written."""
        lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        return [line["counters/updates"] for line in lines if "grad_norm" in line]

    def kill_after(self, run, updates, seconds):
        """Kills a run so many updates after its start, and then a moment: it may be saving, or still starting."""
        process = subprocess.Popen(self.words(run, "resume=auto"), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                   text=True)
        with process.stderr as lines:
            seen = 0
            while seen < updates:
                line = lines.readline()
                self.assertTrue(line, "the run ended by itself")
                seen += line.startswith("update ")
            time.sleep(seconds)
            process.send_signal(signal.SIGKILL)
        self.assertEqual(process.wait(), -signal.SIGKILL)

    def test_killed_many_times(self):
        run, draw = self.folder / "killed", random.Random(11)
        for _ in range(KILLS):  # together fewer updates than the run has
            self.kill_after(run, draw.randint(0, 10), draw.uniform(0, 0.03))
        self.check(self.train(run, "resume=auto"))
        self.assertEqual(self.weights(run), self.weights(self.whole))
        self.assertEqual(self.updates(run), self.updates(self.whole))
        self.assertEqual(self.updates(run), sorted(set(self.updates(run))))

    def test_two_runs_of_one_seed_are_equal_and_another_order_differs(self):
        self.check(self.train(self.folder / "again"))
        self.assertEqual(self.weights(self.folder / "again"), self.weights(self.whole))
        self.check(self.train(self.folder / "other", "data_seed=1"))
        self.assertNotEqual(self.weights(self.folder / "other"), self.weights(self.whole))

    def test_a_signal_ends_in_order(self):
        run = self.folder / "stopped"
        process = subprocess.Popen(self.words(run), stderr=subprocess.PIPE, text=True)
        with process.stderr as lines:
            for line in lines:
                if line.startswith("update 3 "):
                    process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(), 143)
        self.check(self.train(run, f"resume={run}"))
        self.assertEqual(self.weights(run), self.weights(self.whole))

    def test_what_cannot_be_resumed_is_refused(self):
        run = self.folder / "refused"
        self.check(self.train(run))
        other = self.train(run, f"resume={run}", "lr=1e-4")
        self.assertEqual(other.returncode, 1)
        self.assertIn("resume: lr is 0.001 in", other.stderr)
        file = run / "LATEST" / "state" / "optimizer.safetensors"
        damaged = bytearray(file.read_bytes())
        damaged[-5] ^= 1
        file.write_bytes(damaged)
        found = self.train(run, f"resume={run}")
        self.assertEqual(found.returncode, 1)
        self.assertIn("optimizer.safetensors is damaged", found.stderr)
        (run / "LATEST" / "COMPLETE").unlink()
        older = self.train(run, f"resume={run}")
        self.check(older)
        self.assertIn(f"{os.readlink(run / 'LATEST')} is not complete and is left aside", older.stderr)
        self.assertTrue((run / "LATEST" / "COMPLETE").exists())
        self.assertEqual(self.weights(run), self.weights(self.whole))
        missing = self.train(run, f"resume={run}/nowhere")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("there is no such folder", missing.stderr)


if __name__ == "__main__":
    if not Path(PROGRAM + "-engine").exists():
        print("not run: built without LibTorch")
        sys.exit(77)
    unittest.main()

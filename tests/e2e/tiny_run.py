"""Helpers of tests of whole runs: a tiny model, a tiny tokenizer, made-up preferences, and commands to train on
them."""

import hashlib
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = os.environ["DPO_PROGRAM"]
FAULTS = os.environ.get("DPO_FAULTS")  # the library of faults.cpp; absent without LibTorch
os.environ["OMP_NUM_THREADS"] = "1"  # tiny models: threads would only wait for each other
os.environ.setdefault("WANDB_MODE", "disabled")  # keeps these runs out of the user's project
HANGS = 900  # seconds; no step of a test takes this long, also on a machine that is many times slower
EXAMPLES = 1600
ENDLESS = ("n_epochs=2000", "n_examples=720000", "eval_every=360000")  # more than any machine finishes before a test acts
TRAINING_FAILED, STOPPED = 2, 143  # equal to src/base/exit_status.h
CONFIG = {"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 64, "max_position_embeddings": 512}


METRICS = "write */metrics.jsonl"  # one line of metrics, in the names that faults.cpp gives to changes


def disturbed(folder, kind, at, match="*", log=""):
    """Returns the environment in which the `at`-th matching change below the folder is disturbed (faults.cpp)."""
    return os.environ | {"LD_PRELOAD": FAULTS, "DPO_FAULT_UNDER": str(folder), "DPO_FAULT": kind, "DPO_FAULT_AT": str(at),
                         "DPO_FAULT_MATCH": match, "DPO_FAULT_LOG": str(log)}


def is_whole(checkpoint):
    """Returns True if a checkpoint has its marker and the files that the marker names are undamaged."""
    marker = checkpoint / "COMPLETE"
    if not marker.exists():
        return False
    files = json.loads(marker.read_text())["files"]
    return all(hashlib.sha256((checkpoint / name).read_bytes()).hexdigest() == file["sha256"]
               for name, file in files.items())


def make_tokenizer(folder):
    """Writes a tokenizer with one id for each character of an alphabet."""
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


class TinyRuns(unittest.TestCase):
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

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def spoilt_model(cls, value=float("nan")):
        """Writes a model with one token whose embedding is NaN, or too large. Only sequences with that token compute
        NaN."""
        folder = cls.folder / f"spoilt-{value}"
        if folder.exists():
            return folder
        shutil.copytree(cls.folder / "model", folder)
        data = bytearray((folder / "model.safetensors").read_bytes())
        size = struct.unpack("<Q", data[:8])[0]
        embedding = json.loads(data[8:8 + size])["model.embed_tokens.weight"]
        row = 8 + size + embedding["data_offsets"][0] + 5 * embedding["shape"][1] * 4
        data[row:row + 4] = struct.pack("<f", value)
        (folder / "model.safetensors").write_bytes(data)
        return folder

    @classmethod
    def train_command(cls, run, *more):
        return [PROGRAM, "train", "model=blank_model", f"model.name_or_path={cls.folder / 'model'}",
                f"datasets=[{cls.folder / 'pairs.jsonl'}]", "loss=dpo", "loss.beta=0.1", "exp_name=tiny",
                f"local_dirs=[{cls.folder}]", f"local_run_dir={run}", "batch_size=4", "n_epochs=5", f"n_examples={EXAMPLES}",
                "eval_every=40", "eval_batch_size=2", "n_eval_examples=2", "data.test_share=0.01",
                "sample_during_eval=false", "lr=1e-3", "warmup_steps=3", "max_length=32", "max_prompt_length=16", "minimum_log_interval_secs=0", *more]

    @classmethod
    def train(cls, run, *more, **options):
        return subprocess.run(cls.train_command(run, *more), capture_output=True, text=True, **options)

    @classmethod
    def train_disturbed(cls, run, words, *fault, log="", **options):
        """Trains with a fault: its kind, the number of the change, and which changes are counted (see `disturbed`)."""
        return subprocess.run(cls.train_command(run, *words), env=disturbed(run, *fault, log=log), capture_output=True, text=True,
                              **options)

    @classmethod
    def signalled(cls, run, sent, line, *words, **options):
        """Trains a run that gets a signal when it is about to write its `line`-th line of metrics, from 1."""
        return cls.train_disturbed(run, words, f"signal-{int(sent)}", line, METRICS, **options)

    def stop_at(self, run, line, *words):
        """Stops a run with SIGTERM when it is about to write that line of metrics. Checks its exit status."""
        done = self.signalled(run, signal.SIGTERM, line, *words)
        self.assertEqual(done.returncode, STOPPED, done.stderr)

    @staticmethod
    def check(done):
        assert done.returncode == 0, done.stderr

    @staticmethod
    def weights(run):
        return (run / "LATEST" / "model.safetensors").read_bytes()

    @staticmethod
    def metrics(run):
        return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]

    @classmethod
    def updates(cls, run):
        """Returns the numbers of the updates whose metrics were written."""
        return [line["counters/updates"] for line in cls.metrics(run) if "grad_norm" in line]


def main():
    if not Path(PROGRAM + "-engine").exists():
        print("not run: built without LibTorch")
        sys.exit(77)
    unittest.main()

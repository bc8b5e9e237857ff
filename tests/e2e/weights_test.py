"""dpo convert and dpo init: the input they reject, and the messages. A failure leaves no files."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from tiny_run import PROGRAM, disturbed

CONFIG = {"model_type": "gpt2", "n_layer": 2, "n_embd": 16, "n_head": 2, "vocab_size": 40, "n_positions": 8,
          "tie_word_embeddings": False}


def dpo(*words, **settings) -> subprocess.CompletedProcess:
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, check=False, **settings)


class Weights(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.model = self.make("model", CONFIG)

    def make(self, name: str, config: dict, *words: str) -> Path:
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps(config))
        answer = dpo("init", file, self.folder / name, *words)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return self.folder / name

    def expect_failure(self, messages: list[str], *words, **settings) -> None:
        before = sorted(self.folder.rglob("*"))
        answer = dpo(*words, **settings)
        self.assertEqual(answer.returncode, 1, answer.stderr)
        self.assertEqual(answer.stdout, "")
        for message in messages:
            self.assertIn(message, answer.stderr)
        self.assertNotIn("bug in dpo", answer.stderr)
        for line in answer.stderr.splitlines():
            self.assertTrue(line.startswith("error: "), line)
        self.assertEqual(sorted(self.folder.rglob("*")), before, "files were left")

    def test_done(self) -> None:
        for out in ("folder", "policy.pt"):
            answer = dpo("convert", self.model, self.folder / out, "--dtype", "bfloat16")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertEqual(answer.stdout, f"{self.folder / out}: GPT-2, 8,000 parameters, bfloat16, 16.0 kB\n")
            self.assertEqual(answer.stderr, "")
        self.assertEqual(sorted(file.name for file in (self.folder / "folder").iterdir()),
                         ["config.json", "model.safetensors"])
        (self.folder / "empty").mkdir()
        self.assertEqual(dpo("convert", self.model, self.folder / "empty").returncode, 0)

    def test_help(self) -> None:
        for command in ("convert", "init"):
            answer = dpo(command, "--help")
            self.assertEqual(answer.returncode, 0)
            self.assertIn("--dtype", answer.stdout)

    def test_places_that_are_taken(self) -> None:
        (self.folder / "policy.pt").write_text("mine")
        out = self.folder / "out"
        self.expect_failure(["exists and is not empty; choose another path"], "convert", self.model, self.model)
        # An existing output is rejected before anything else is checked.
        self.expect_failure(["exists; choose another path"], "convert", "no/such", self.folder / "policy.pt")
        self.expect_failure(["exists and is not empty"], "init", "no/such", self.model)
        self.expect_failure(["there is no folder"], "convert", self.model, out / "deeper")
        self.assertEqual((self.folder / "policy.pt").read_text(), "mine")

    def test_weights_files_that_are_not_written(self) -> None:
        for name in ("model.safetensors", "model.bin", "MODEL.BIN"):
            self.expect_failure([f"{name}: expected a folder, or a file NAME.pt or NAME.gguf"], "convert", self.model, self.folder / name)
        self.expect_failure(["no tokenizer in"], "convert", self.model, self.folder / "model.gguf")
        self.expect_failure(["--dtype q4_0: only for a GGUF file"], "convert", self.model, self.folder / "out", "--dtype", "q4_0")

    def test_inputs_that_are_none(self) -> None:
        out = self.folder / "out"
        nowhere = {**os.environ, "HF_HUB_CACHE": str(self.folder / "cache"), "HF_HUB_OFFLINE": "1"}
        self.expect_failure(["no model of that name in the Hugging Face cache", "org/model' downloads it"],
                            "convert", "org/model", out, env=nowhere)
        self.expect_failure(["--config must name the config.json"], "convert", self.model / "model.safetensors", out)
        self.expect_failure(["there is no folder /no/such"], "convert", "/no/such", out)
        self.expect_failure(["expected one of float32, bfloat16, float16, q8_0, q4_0, got int8"], "convert", self.model, out, "--dtype", "int8")
        self.expect_failure(["--shard-size"], "convert", self.model, out, "--shard-size", "0")
        self.expect_failure(["--shard-size"], "convert", self.model, out, "--shard-size", "big")
        self.expect_failure(["OUT is required"], "convert", self.model)
        self.expect_failure(["--seed"], "init", self.model, out, "--seed", "x")
        empty = self.folder / "nothing"
        empty.mkdir()
        self.expect_failure(["config.json: No such file"], "convert", empty, out)
        shutil.copy(self.model / "config.json", empty)
        self.expect_failure(["no weights in this folder, expected one of model.safetensors"], "convert", empty, out)
        (empty / "model.safetensors").write_bytes(b"\xff" * 20)
        self.expect_failure(["not a valid safetensors file: its header claims"], "convert", empty, out)

    def test_every_difference_is_listed(self) -> None:
        out = self.folder / "out"
        (self.folder / "other.json").write_text(json.dumps({**CONFIG, "n_layer": 3, "vocab_size": 41}))
        self.expect_failure(
            ["tensor 'transformer.wte.weight' has the shape [40, 16], expected [41, 16] (from config.json)",
             "tensor 'lm_head.weight' has the shape [40, 16], expected [41, 16] (from config.json)",
             "the model's tensor 'transformer.h.2.ln_1.weight' is missing",
             "the model's tensor 'transformer.h.2.mlp.c_proj.bias' is missing"],
            "convert", self.model / "model.safetensors", out, "--config", self.folder / "other.json")
        (self.folder / "other.json").write_text(json.dumps({**CONFIG, "n_layer": 1}))
        self.expect_failure(["the model has no tensor 'transformer.h.1.ln_1.weight'"], "convert",
                            self.model / "model.safetensors", out, "--config", self.folder / "other.json")

    def test_a_pickle_that_runs_something(self) -> None:
        bad = self.folder / "bad.bin"
        bad.write_bytes(b"\x80\x02cos\nsystem\n")
        self.expect_failure(["not a torch.save archive"], "convert", bad, self.folder / "out", "--config",
                            self.model)

    def test_a_full_disk(self) -> None:
        larger = self.make("larger", {**CONFIG, "vocab_size": 4000})
        size = (larger / "model.safetensors").stat().st_size

        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))

        for out in ("out", "out.pt"):
            # Python keeps the limit's signal ignored, so writing fails as on a full disk.
            self.expect_failure(["writing ", "File too large"], "convert", larger, self.folder / out, preexec_fn=limit,
                                restore_signals=False)
        shards = dpo("convert", larger, self.folder / "shards", "--shard-size", size // 3, preexec_fn=limit,
                     restore_signals=False)
        self.assertEqual(shards.returncode, 0, shards.stderr)

    def test_a_signal(self) -> None:
        before = sorted(self.folder.rglob("*"))
        for kind in (signal.SIGTERM, signal.SIGINT):
            for at in (1, 3):  # the signal comes while this write begins
                fault = disturbed(self.folder / "out.tmp.", f"signal-{int(kind)}", at, "write */model.safetensors")
                answer = dpo("convert", self.model, self.folder / "out", env=fault)
                self.assertEqual(answer.returncode, 143, answer.stderr)
                self.assertIn("stopped by a signal", answer.stderr)
                self.assertEqual(sorted(self.folder.rglob("*")), before)


if __name__ == "__main__":
    if "built without LibTorch" in dpo("init", "/", "/").stderr:
        print("not run: the program was built without LibTorch")
        sys.exit(77)
    unittest.main()

"""Helpers of tests of downloads: a Hugging Face hub on this machine (hub_server.py), a cache, dpo and the Python
client."""

import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from huggingface_hub import scan_cache_dir

from hub_server import Hub
from tiny_run import PROGRAM, make_tokenizer

SNAPSHOT = """
import sys
from huggingface_hub import snapshot_download
print(snapshot_download(sys.argv[1], repo_type=sys.argv[2], allow_patterns=sys.argv[3:] or None))
"""


def noise(size, seed=1):
    return random.Random(seed).randbytes(size)


def tokenizer_files():
    with tempfile.TemporaryDirectory() as folder:
        make_tokenizer(Path(folder))
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


MODEL = {"config.json": json.dumps({"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
                                    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 64,
                                    "max_position_embeddings": 512}),
         **tokenizer_files()}
OTHERS = {"README.md": "# It", "pytorch_model.bin": noise(3000), "model.gguf": noise(3000), "onnx/model.bin": noise(500)}
INDEX = "model.safetensors.index.json"
SHARDS = {f"model-0000{i}-of-00002.safetensors": noise(5000 + i, i) for i in (1, 2)}
SHARDED = {INDEX: json.dumps({"weight_map": {f"w{i}": name for i, name in enumerate(SHARDS)}}), **SHARDS}


class OnTheHub(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = Path(made.name)
        self.cache = self.folder / "hub"
        self.hub = Hub()
        self.addCleanup(self.hub.close)
        hidden = ("HF_", "HUGGING", "TRANSFORMERS_", "HTTP", "http", "ALL_PROXY", "all_proxy")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        self.environment |= {"HF_ENDPOINT": self.hub.url, "HF_HUB_CACHE": str(self.cache), "HF_HOME": str(self.folder / "home"),
                             "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}

    def tearDown(self):
        if self.cache.exists():
            self.assertEqual(scan_cache_dir(self.cache).warnings, [])

    def dpo(self, *arguments, status=0, **more):
        done = subprocess.run([PROGRAM, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              cwd=self.folder, env=self.environment | more)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def refused(self, *arguments, **more):
        return self.dpo(*arguments, status=1, **more).stderr

    def fetch(self, *names, **more):
        return [Path(line) for line in self.dpo("fetch", *names, **more).stdout.splitlines()]

    def python(self, name, kind="model", *patterns, **more):
        done = subprocess.run([sys.executable, "-c", SNAPSHOT, name, kind, *patterns], capture_output=True, text=True,
                              env=self.environment | more)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return Path(done.stdout.strip())

    def layout(self, cache):
        """Returns the content of a cache: links by their targets, files by their bytes."""
        found = {}
        for path in sorted(cache.rglob("*")):
            name = path.relative_to(cache).as_posix()
            if path.is_symlink():
                found[name] = os.readlink(path)
            elif path.is_file() and path.name != "CACHEDIR.TAG":
                found[name] = json.loads(path.read_bytes()) if path.parent.name == "trees" else path.read_bytes()
        return found

    def partial(self):
        return sum(path.stat().st_size for path in self.cache.rglob("*.incomplete"))


def main():
    report = json.loads(subprocess.run([PROGRAM, "doctor", "--json"], capture_output=True).stdout)
    if any(item["what"] == "libcurl" for item in report["missing"]):
        print("not run: built without libcurl")
        sys.exit(77)
    unittest.main()

"""Downloads from a Hugging Face hub on this machine (hub_server.py), in one cache with the Python client."""

import gzip
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

from hub_server import TOKEN, Hub
from tiny_run import PROGRAM, STOPPED, make_tokenizer

CHUNK = 8 << 20  # src/hub/download.cpp
HAS_ENGINE = Path(PROGRAM + "-engine").exists()
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

    def dpo(self, *arguments, status=0, **more):
        done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, cwd=self.folder,
                              env=self.environment | more)
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
        """All of a cache: links by their targets, files by their bytes. Without the list of a commit's files."""
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


class Caches(OnTheHub):
    def test_the_layout_is_the_python_clients(self):
        commit = self.hub.add("model", "org/it", MODEL | SHARDED | OTHERS)
        (snapshot,) = self.fetch("org/it")
        self.assertEqual(snapshot, self.cache / "models--org--it/snapshots" / commit)
        needed = {**MODEL, **SHARDED}
        self.assertEqual({path.name for path in snapshot.iterdir()}, set(needed))
        for name, data in needed.items():
            self.assertEqual((snapshot / name).read_bytes(), data.encode() if isinstance(data, str) else data)
        other = self.folder / "other"
        self.python("org/it", "model", *needed, HF_HUB_CACHE=str(other))
        self.assertEqual(self.layout(self.cache), self.layout(other))

    def test_python_uses_what_dpo_downloaded(self):
        self.hub.add("model", "org/it", MODEL | SHARDED)
        self.hub.add("dataset", "org/rows", {"data/train.jsonl.gz": gzip.compress(b"{}")})
        self.fetch("org/it", "datasets/org/rows")
        before = len(self.hub.log)
        self.python("org/it")
        self.python("org/rows", "dataset")
        asked = [path for _, _, path, _ in self.hub.log[before:]]
        self.assertTrue(all("/revision/" in path for path in asked), asked)  # whether there is a newer commit
        self.python("org/it", HF_HUB_OFFLINE="1")

    def test_dpo_uses_what_python_downloaded(self):
        self.hub.add("model", "org/it", MODEL | SHARDED)
        theirs = self.python("org/it")
        before = len(self.hub.log)
        self.dpo("tokenize", "org/it", HF_HUB_OFFLINE="1")
        self.dpo("tokenize", "org/it")
        self.assertEqual(len(self.hub.log), before)
        self.assertEqual(self.fetch("org/it"), [theirs])
        self.assertEqual(self.hub.requests("store"), [entry for entry in self.hub.log[:before] if entry[0] == "store"])

    def test_several_processes_download_a_file_once(self):
        data = noise(3 * CHUNK)
        self.hub.add("model", "org/it", MODEL | {"model.safetensors": data})
        self.hub.rate = 8 << 20
        command = [PROGRAM, "fetch", "org/it"]
        started = [subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
        started.append(subprocess.Popen([sys.executable, "-c", SNAPSHOT, "org/it", "model"], env=self.environment,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        outputs = [process.communicate() for process in started]
        self.assertEqual([process.returncode for process in started], [0] * 5, outputs)
        self.assertEqual(len({out for out, _ in outputs}), 1)
        self.assertEqual((Path(outputs[0][0].decode().strip()) / "model.safetensors").read_bytes(), data)
        self.assertLessEqual(len(self.hub.requests("store", "GET")), 3)

    def test_a_newer_revision_is_for_dpo_fetch(self):
        self.hub.add("model", "org/it", MODEL | SHARDED)
        (old,) = self.fetch("org/it")
        self.hub.add("model", "org/it", MODEL | SHARDED | {"generation_config.json": "{}"})
        self.dpo("tokenize", "org/it")
        self.assertEqual(self.cache.joinpath("models--org--it/refs/main").read_text(), old.name)
        (new,) = self.fetch("org/it")
        self.assertNotEqual(old, new)
        self.assertEqual(self.cache.joinpath("models--org--it/refs/main").read_text(), new.name)

    def test_revisions(self):
        main = self.hub.add("model", "org/it", MODEL | SHARDED)
        tag = self.hub.add("model", "org/it", MODEL | {"pytorch_model.bin": noise(100)}, "v1.0")
        self.assertEqual([path.name for path in self.fetch("org/it@v1.0", f"org/it@{main}")], [tag, main])
        self.assertEqual(self.cache.joinpath("models--org--it/refs/v1.0").read_text(), tag)
        self.dpo("tokenize", "org/it@v1.0", HF_HUB_OFFLINE="1")
        self.assertIn("'org/it' has no revision 'v9'", self.refused("fetch", "org/it@v9"))
        self.assertIn("is not a name on the Hugging Face hub", self.refused("fetch", "org/it@"))

    def test_a_list_of_many_pages(self):
        self.hub.page_size = 2
        self.hub.add("model", "org/it", MODEL | SHARDED | OTHERS)
        (snapshot,) = self.fetch("org/it")
        self.assertTrue(all((snapshot / name).exists() for name in SHARDED))


class Faults(OnTheHub):
    def setUp(self):
        super().setUp()
        self.data = noise(3 * CHUNK + 12345)
        self.hub.add("model", "org/big", MODEL | {"model.safetensors": self.data})

    def check(self, **more):
        (snapshot,) = self.fetch("org/big", **more)
        self.assertTrue((snapshot / "model.safetensors").read_bytes() == self.data)
        self.assertFalse(list(self.cache.rglob("*.incomplete")))

    def test_rate_limits_are_obeyed(self):
        self.hub.faults = [("hub", "/revision/", (429, {"Retry-After": "2"})), ("store", "", (429, {"Retry-After": "1"}))]
        start = time.monotonic()
        self.check()
        self.assertGreaterEqual(time.monotonic() - start, 3)
        self.hub.faults = [("hub", "/revision/", (429, {"Retry-After": "4000"}))]
        self.assertIn("limits the number of requests (HTTP status 429): try again in 4000 s; with a token the limits are higher",
                      self.refused("fetch", "org/big"))

    def test_errors_of_the_server_pass(self):
        self.hub.faults = [("hub", "/tree/", (500, {})), ("hub", "/resolve/", (503, {})), ("store", "", (502, {})), ("store", "", (408, {}))]
        self.check()

    def test_errors_of_the_server_that_stay(self):
        self.hub.faults = [("hub", "/revision/", (500, {}))] * 10
        self.assertIn("has a problem (HTTP status 500): try again later", self.refused("fetch", "org/big"))

    def test_connections_that_end_early(self):
        self.hub.cut_off = 3
        self.check()

    def test_connections_that_stall(self):
        self.hub.stall = 1
        self.check(HF_HUB_DOWNLOAD_TIMEOUT="1")

    def test_a_store_without_ranges(self):
        self.hub.ranges = False
        self.check()

    def test_addresses_that_expire(self):
        self.hub.faults = [("store", "", (403, {}))] * 2
        self.check()

    def test_damaged_content_is_not_used(self):
        self.hub.corrupt = set(self.hub.contents)
        message = self.refused("fetch", "org/big")
        self.assertIn("model.safetensors was downloaded twice, and its content does not match its hash", message)
        self.assertFalse(list(self.cache.rglob("model.safetensors")))
        self.hub.corrupt = set()
        self.check()

    def interrupted(self, send):
        self.hub.rate = 2 << 20
        with subprocess.Popen([PROGRAM, "fetch", "org/big"], env=self.environment, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and self.partial() < 1 << 20:
                time.sleep(0.05)
            send(process)
        self.hub.rate = None
        kept = self.partial()
        self.assertGreaterEqual(kept, 1 << 20)
        before = len(self.hub.log)
        self.check()
        asked = [headers["Range"] for server, _, _, headers in self.hub.log[before:] if server == "store" and "Range" in headers]
        self.assertEqual(min(int(text.removeprefix("bytes=").split("-")[0]) for text in asked), kept)
        return process.returncode

    def test_ctrl_c_leaves_what_can_be_continued(self):
        self.assertEqual(self.interrupted(lambda process: process.send_signal(signal.SIGINT)), STOPPED)

    def test_so_does_sigkill(self):
        self.interrupted(lambda process: process.kill())

    def test_a_beginning_that_is_wrong_is_downloaded_again(self):
        self.test_so_does_sigkill()
        (blob,) = (path for path in self.cache.rglob("blobs/*") if path.stat().st_size == len(self.data))
        blob.rename(blob.parent / f"{blob.name}.64706f00.incomplete")
        partial = blob.parent / f"{blob.name}.64706f00.incomplete"
        partial.write_bytes(b"x" * CHUNK)
        self.check()

    def test_progress(self):
        self.hub.rate = 400_000
        done = self.dpo("fetch", "org/big")
        self.assertRegex(done.stderr, r"downloading org/big: [\d.]+ MB of 25\.2 MB, [\d.]+ [kM]B/s, \d+ s left\n")


class Messages(OnTheHub):
    def test_names_that_are_not_there(self):
        message = self.refused("fetch", "org/none")
        self.assertIn(f"there is no model 'org/none' at {self.hub.url}/org/none, or it is private: check the name; if it is "
                      "private, set HF_TOKEN", message)
        self.assertIn("whether your token may read it", self.refused("fetch", "org/none", HF_TOKEN=TOKEN))
        self.assertIn("there is no data set 'org/none' at", self.refused("fetch", "datasets/org/none"))
        for command in (["tokenize"], ["plan", "exp_name=x"], ["data"]):
            arguments = ["org/none"] if command == ["tokenize"] else ["model.name_or_path=org/none"]
            self.assertIn("there is no model 'org/none' at", self.refused(*command, *arguments))
        self.assertIn("'a b' is not a name on the Hugging Face hub", self.refused("fetch", "a b"))

    def test_gated(self):
        self.hub.add("model", "org/gated", MODEL | SHARDED)
        self.hub.gated = {"org/gated"}
        self.assertIn(f"model 'org/gated' is gated: accept its conditions at {self.hub.url}/org/gated, then set HF_TOKEN",
                      self.refused("fetch", "org/gated"))
        self.assertIn("is gated, and your token gives no access", self.refused("fetch", "org/gated", HF_TOKEN=TOKEN))

    def test_tokens(self):
        self.hub.add("model", "org/it", MODEL | SHARDED)
        self.assertIn("rejects your token: check HF_TOKEN", self.refused("fetch", "org/it", HF_TOKEN="hf_wrong"))
        self.folder.joinpath("home").mkdir()
        self.folder.joinpath("home/token").write_text(TOKEN + "\n")
        self.hub.log.clear()
        self.fetch("org/it")
        of = lambda server: {headers.get("Authorization") for _, _, _, headers in self.hub.requests(server)}
        self.assertEqual(of("hub"), {f"Bearer {TOKEN}"})
        self.assertEqual(of("store"), {None})

    def test_offline(self):
        self.hub.add("model", "org/it", MODEL | SHARDED)
        offline = {"HF_HUB_OFFLINE": "1"}
        self.assertIn("model 'org/it' is not in the Hugging Face cache", self.refused("fetch", "org/it", **offline))
        self.assertIn("run 'HF_HUB_OFFLINE=0 dpo fetch org/it' where the hub can be reached",
                      self.refused("fetch", "org/it", **offline))
        self.assertIn("download it with 'HF_HUB_OFFLINE=0 dpo fetch org/it'",
                      self.refused("plan", "model.name_or_path=org/it", "exp_name=x", **offline))
        self.assertEqual(self.hub.log, [])
        self.fetch("--small", "org/it")
        self.assertIn("is not completely in the Hugging Face cache", self.refused("fetch", "org/it", **offline))
        self.fetch("org/it")
        self.assertEqual(self.fetch("org/it"), self.fetch("org/it", **offline))

    def test_unreachable(self):
        start = time.monotonic()
        message = self.refused("fetch", "org/it", HF_ENDPOINT="http://127.0.0.1:9")
        self.assertIn("cannot reach http://127.0.0.1:9: ", message)
        self.assertLess(time.monotonic() - start, 5)

    def test_not_a_hub(self):
        self.hub.faults = [("hub", "/revision/", (200, {}))]
        self.assertIn("not an answer of a Hugging Face hub", self.refused("fetch", "org/it"))

    def test_a_disk_that_is_too_small(self):
        self.hub.add("model", "org/it", MODEL | {"model.safetensors": noise(100)})
        self.hub.sizes = {"model.safetensors": 1 << 49}
        self.assertRegex(self.refused("fetch", "org/it"), r"the download needs 563 TB, and .* has only .* free: free some space, or "
                                                          r"set HF_HUB_CACHE=DIR")

    def test_a_cache_that_cannot_be_written(self):
        self.hub.add("model", "org/it", MODEL | SHARDED)
        self.assertIn("cannot create /proc/x", self.refused("fetch", "org/it", HF_HUB_CACHE="/proc/x"))

    def test_models_without_weights(self):
        self.hub.add("model", "org/it", MODEL | {"model.gguf": b"x"})
        self.assertIn("has no weights that dpo reads: expected model.safetensors or pytorch_model.bin, or several files with an "
                      "index; it has model.gguf", self.refused("fetch", "org/it"))


def hh_rows(count):
    return gzip.compress("".join(
        json.dumps({"chosen": f"\n\nHuman: {i}\n\nAssistant: yes", "rejected": f"\n\nHuman: {i}\n\nAssistant: no"}) + "\n"
        for i in range(count)).encode())


class DataSets(OnTheHub):
    def data(self, name, *more, **environment):
        done = self.dpo("data", f"datasets=[{name}]", "model.tokenizer_name_or_path=org/it", "loss=dpo", "data.eos_in_text=keep",
                        "--json", f"local_dirs=[{self.folder}]", *more, **environment)
        return json.loads(done.stdout)

    def setUp(self):
        super().setUp()
        letters = [chr(c) for c in range(32, 127)] + ["\n"]
        tokenizer = json.loads(MODEL["tokenizer.json"])
        tokenizer["model"]["vocab"] = {letter: i + 2 for i, letter in enumerate(letters)} | {"<s>": 0, "</s>": 1}
        self.hub.add("model", "org/it", MODEL | {"tokenizer.json": json.dumps(tokenizer), "model.safetensors": noise(100)})

    def test_only_data_files(self):
        rows = "".join(json.dumps({"prompt": f"p{i}", "chosen": "a", "rejected": "b"}) + "\n" for i in range(50))
        self.hub.add("dataset", "org/rows", {"README.md": "x", "rows.py": "raise SystemExit", "dataset_infos.json": "{}",
                                             "data/train.jsonl": rows, "data/test.jsonl": rows, "image.png": b"x"})
        self.data("org/rows")
        (snapshot,) = self.fetch("datasets/org/rows")
        self.assertEqual(sorted(path.name for path in snapshot.rglob("*.*")), ["test.jsonl", "train.jsonl"])

    def test_hh_by_its_short_name(self):
        self.hub.add("dataset", "Anthropic/hh-rlhf", {f"{part}/{split}.jsonl.gz": hh_rows(20 if split == "train" else 10)
                                                      for part in ("harmless-base", "helpful-base") for split in ("train", "test")} |
                     {"red-team-attempts/red_team_attempts.jsonl.gz": hh_rows(5)})
        self.data("hh")
        self.assertFalse(list(self.cache.rglob("red_team*")))
        before = len(self.hub.log)
        self.data("hh")
        self.assertEqual(len(self.hub.log), before)
        self.fetch("hh")

    def test_the_parquet_copy_of_a_script(self):
        import pyarrow
        import pyarrow.parquet
        self.hub.add("dataset", "org/script", {"script.py": "raise SystemExit", "dataset_infos.json": "{}"})
        message = self.refused("fetch", "datasets/org/script")
        self.assertIn("has no data files that dpo reads (a script is never run), and its Parquet copy is not available", message)
        files = {}
        for split in ("train", "test"):
            table = pyarrow.table({"prompt": [f"{split}{i}" for i in range(30)], "chosen": ["a"] * 30, "rejected": ["b"] * 30})
            sink = pyarrow.BufferOutputStream()
            pyarrow.parquet.write_table(table, sink)
            files[f"default/{split}/0000.parquet"] = sink.getvalue().to_pybytes()
        self.hub.add("dataset", "org/script", files, "refs/convert/parquet")
        self.data("org/script")
        before = len(self.hub.log)
        self.data("org/script", HF_HUB_OFFLINE="1")
        self.data("org/script")
        self.assertEqual(len(self.hub.log), before)

    def test_no_data_files(self):
        self.hub.add("dataset", "org/empty", {"README.md": "x"}, "v1")
        self.assertIn("has no data files that dpo reads: expected", self.refused("fetch", "datasets/org/empty@v1"))


class Plans(OnTheHub):
    def test_a_plan_downloads_kilobytes(self):
        self.hub.add("model", "org/it", MODEL | SHARDED)
        (self.folder / "pairs.jsonl").write_text("".join(
            json.dumps({"prompt": chr(0x100 + i), "chosen": "\u0101", "rejected": "\u0102"}) + "\n" for i in range(50)))
        done = self.dpo("plan", "model.name_or_path=org/it", "datasets=[pairs.jsonl]", "loss=sft", "exp_name=x", "max_length=64",
                        "max_prompt_length=32", "data.test_share=0.2", "warmup_steps=0")
        self.assertIn("org/it", done.stdout)
        self.assertEqual(self.hub.requests("store"), [])
        self.assertTrue(list(self.cache.rglob("tokenizer.json")))

    def test_a_plan_of_a_known_model_downloads_nothing(self):
        self.dpo("plan", "model=pythia28", "loss=sft", "exp_name=x", "--device", "h100", "--gpus", "1")
        self.assertEqual(self.hub.log, [])


@unittest.skipUnless(HAS_ENGINE, "built without LibTorch")
class Runs(OnTheHub):
    """The commands of the original's README, on tiny models and data of the same names."""

    CONFIG = {"architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "hidden_size": 32, "intermediate_size": 64,
              "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 300, "max_position_embeddings": 2048}

    def setUp(self):
        super().setUp()
        from recipes_test import byte_letters
        source = self.folder / "source"
        source.mkdir()
        make_tokenizer(source)
        tokenizer = json.loads((source / "tokenizer.json").read_text())
        tokenizer["model"]["vocab"] = {letter: i + 2 for i, letter in enumerate(byte_letters())} | {"<s>": 0, "</s>": 1}
        tokenizer["pre_tokenizer"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        (source / "tokenizer.json").write_text(json.dumps(tokenizer))
        (source / "config.json").write_text(json.dumps(self.CONFIG))
        self.dpo("init", source, "tiny")
        files = {path.name: path.read_bytes() for path in (self.folder / "tiny").iterdir()}
        self.hub.add("model", "EleutherAI/pythia-2.8b", files | OTHERS)
        self.hub.add("dataset", "Anthropic/hh-rlhf", {f"{part}/{split}.jsonl.gz": hh_rows(96)
                                                      for part in ("harmless-base", "helpful-base") for split in ("train", "test")})
        self.hub.log.clear()

    def train(self, *arguments):
        return self.dpo("train", *arguments, "local_dirs=[.]", "n_examples=128", "n_eval_examples=32", "eval_every=64")

    def test_the_originals_commands(self):
        sft = self.train("model=pythia28", "datasets=[hh]", "loss=sft", "exp_name=anthropic_dpo_pythia28", "local_run_dir=sft",
                         "gradient_accumulation_steps=2", "batch_size=64", "eval_batch_size=32", "trainer=BasicTrainer",
                         "sample_during_eval=false")
        self.assertIn("Plan: loss=sft, EleutherAI/pythia-2.8b", sft.stderr)
        self.assertFalse(list(self.cache.rglob("pytorch_model.bin")))
        before = len(self.hub.log)
        self.train("model=pythia28", "datasets=[hh]", "loss=dpo", "loss.beta=0.1", "exp_name=anthropic_dpo_pythia28",
                   "local_run_dir=dpo", "gradient_accumulation_steps=2", "batch_size=32", "eval_batch_size=32",
                   "trainer=BasicTrainer", "sample_during_eval=false", "model.archive=sft/LATEST/policy.pt")
        self.assertEqual(len(self.hub.log), before)

    def test_weights_and_data_come_after_the_plan(self):
        refused = self.dpo("train", "model=pythia28", "datasets=[hh]", "loss=sft", "exp_name=x", "batch_size=3",
                           "gradient_accumulation_steps=2", "local_dirs=[.]", status=1)
        self.assertIn("Plan: loss=sft", refused.stderr)
        self.assertEqual(self.hub.requests("store"), [])
        self.assertTrue(list(self.cache.rglob("tokenizer.json")))

    def test_other_commands(self):
        name = "EleutherAI/pythia-2.8b"
        self.dpo("convert", name, "out")
        self.assertTrue((self.folder / "out/model.safetensors").exists())
        self.dpo("sample", name, "--prompt", "a", "--max-new-tokens", 2)
        self.assertIn("there is no model 'org/none' at", self.refused("sample", "org/none", "--prompt", "a"))


if __name__ == "__main__":
    report = json.loads(subprocess.run([PROGRAM, "doctor", "--json"], capture_output=True).stdout)
    if any(item["what"] == "libcurl" for item in report["missing"]):
        print("not run: built without libcurl")
        sys.exit(77)
    unittest.main()

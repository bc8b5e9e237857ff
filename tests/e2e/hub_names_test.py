"""Names on the Hugging Face hub in commands: data sets, plans, and the runs of the original's README."""

import gzip
import json
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from on_the_hub import MODEL, OTHERS, SHARDED, OnTheHub, main, noise
from recipes_test import byte_letters
from tiny_run import PROGRAM, make_tokenizer


def hh_rows(count):
    return gzip.compress("".join(
        json.dumps({"chosen": f"\n\nHuman: {i}\n\nAssistant: yes", "rejected": f"\n\nHuman: {i}\n\nAssistant: no"}) + "\n"
        for i in range(count)).encode())


def pairs(name, count):
    return "".join(json.dumps({"prompt": f"{name} {i}", "chosen": "a", "rejected": "b"}) + "\n" for i in range(count))


def prompts(report):
    return [sum(source["prompts"] for source in split["sources"]) for split in report["splits"].values()]


class DataSets(OnTheHub):
    def command(self, name):
        return ["data", f"datasets=[{name}]", "model.tokenizer_name_or_path=org/it", "loss=dpo", "data.eos_in_text=keep",
                "--json", f"local_dirs=[{self.folder}]"]

    def data(self, name, **environment):
        return json.loads(self.dpo(*self.command(name), **environment).stdout)

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

    def test_a_cache_with_some_of_the_files(self):
        self.hub.add("dataset", "org/rows", {f"{split}-0000{i}-of-00002.jsonl": pairs(f"{split}{i}", 30)
                                             for split in ("train", "test") for i in range(2)})
        download = ("from huggingface_hub import hf_hub_download\n"
                    "for split in ('train', 'test'):\n    hf_hub_download('org/rows', f'{split}-00000-of-00002.jsonl', repo_type='dataset')")
        subprocess.run([sys.executable, "-c", download], env=self.environment, check=True, capture_output=True)
        self.fetch("--small", "org/it")
        partly = self.dpo(*self.command("org/rows"), HF_HUB_OFFLINE="1")
        self.assertIn("data set 'org/rows' is used as it is in the cache, which may have only some of its files", partly.stderr)
        self.assertEqual(prompts(json.loads(partly.stdout)), [30, 30])
        self.assertEqual(prompts(self.data("org/rows")), [60, 60])
        before = len(self.hub.log)
        self.data("org/rows")
        self.assertEqual(len(self.hub.log), before)
        next(self.cache.rglob("train-00001*")).unlink()
        self.assertIn("is not completely in the Hugging Face cache", self.refused(*self.command("org/rows"), HF_HUB_OFFLINE="1"))

    def test_several_training_splits(self):
        files = {f"data/{split}_{part}-00000-of-00001.jsonl": pairs(f"{split}{part}", 30)
                 for split in ("train", "test") for part in ("gen", "prefs", "sft")}
        self.hub.add("dataset", "org/uf", files)
        message = self.refused(*self.command("org/uf"))
        self.assertIn("'org/uf' has several configurations or training splits: choose one of org/uf:gen, org/uf:prefs, org/uf:sft",
                      message)
        self.assertFalse(list(self.cache.rglob("*.jsonl")))
        self.assertEqual(prompts(self.data("org/uf:prefs")), [30, 30])
        self.assertEqual(sorted(path.name for path in self.cache.rglob("*.jsonl")),
                         ["test_prefs-00000-of-00001.jsonl", "train_prefs-00000-of-00001.jsonl"])
        self.data("org/uf:prefs", HF_HUB_OFFLINE="1")
        self.assertIn("has no such part; it has org/uf:gen", self.refused(*self.command("org/uf:none")))
        self.assertEqual(prompts(self.data("org/uf:all")), [90, 90])
        self.fetch("datasets/org/uf:sft")

    def test_files_that_name_no_split(self):
        self.hub.add("dataset", "org/rows", {"train.jsonl": pairs("a", 30), "test.jsonl": pairs("b", 30), "other/x.jsonl": "not rows"})
        done = self.dpo(*self.command("org/rows"))
        self.assertIn("not used, since other files are called train: other/x.jsonl", done.stderr)
        self.assertFalse(list(self.cache.rglob("x.jsonl")))

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


@unittest.skipUnless(Path(PROGRAM + "-engine").exists(), "built without LibTorch")
class Runs(OnTheHub):
    """Runs the commands of the original's README on tiny models and data of the same names."""

    CONFIG = {"architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "hidden_size": 32, "intermediate_size": 64,
              "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 300, "max_position_embeddings": 2048}

    def setUp(self):
        super().setUp()
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
        self.commits = {"EleutherAI/pythia-2.8b": self.hub.add("model", "EleutherAI/pythia-2.8b", files | OTHERS)}
        self.commits["datasets/Anthropic/hh-rlhf"] = self.hub.add("dataset", "Anthropic/hh-rlhf", {f"{part}/{split}.jsonl.gz": hh_rows(96)
                                                      for part in ("harmless-base", "helpful-base") for split in ("train", "test")})
        self.hub.log.clear()

    def train(self, *arguments):
        return self.dpo("train", *arguments, "local_dirs=[.]", "n_examples=128", "n_eval_examples=32", "eval_every=64")

    def test_the_originals_commands(self):
        sft = self.train("model=pythia28", "datasets=[hh]", "loss=sft", "exp_name=anthropic_dpo_pythia28", "local_run_dir=sft",
                         "gradient_accumulation_steps=2", "batch_size=64", "eval_batch_size=32", "trainer=FSDPTrainer",
                         "sample_during_eval=false", "model.fsdp_policy_mp=bfloat16")
        self.assertIn("train   loss=sft, EleutherAI/pythia-2.8b", sft.stderr)
        self.assertFalse(list(self.cache.rglob("pytorch_model.bin")))
        before = len(self.hub.log)
        self.train("model=pythia28", "datasets=[hh]", "loss=dpo", "loss.beta=0.1", "exp_name=anthropic_dpo_pythia28",
                   "local_run_dir=dpo", "gradient_accumulation_steps=2", "batch_size=32", "eval_batch_size=32",
                   "trainer=FSDPTrainer", "sample_during_eval=false", "model.fsdp_policy_mp=bfloat16",
                   "model.archive=sft/LATEST/policy.pt")
        self.assertEqual(len(self.hub.log), before)

    def test_weights_and_data_come_after_the_plan(self):
        refused = self.dpo("train", "model=pythia28", "datasets=[hh]", "loss=sft", "exp_name=x", "batch_size=3",
                           "gradient_accumulation_steps=2", "local_dirs=[.]", status=1)
        self.assertIn("Plan: loss=sft", refused.stderr)
        self.assertEqual(self.hub.requests("store"), [])
        self.assertTrue(list(self.cache.rglob("tokenizer.json")))

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun")
    def test_two_ranks_download_once(self):
        self.train("model=pythia28", "datasets=[hh]", "loss=dpo", "loss.beta=0.1", "exp_name=two", "batch_size=32",
                   "eval_batch_size=32", "trainer=FSDPTrainer", "mesh.shard=2", "sample_during_eval=false")
        asked = [path for _, _, path, _ in self.hub.requests("hub") if "/revision/" in path or "/tree/" in path]
        self.assertEqual(len(asked), 4, asked)  # the commit and the file list, for model and data

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun")
    def test_ranks_must_have_the_same_data(self):
        ranks = []
        for rank, count in enumerate((96, 95)):
            folder = self.folder / f"rank{rank}"
            folder.mkdir()
            (folder / "pairs.jsonl").write_text(pairs("p", count))
            ranks += [":"] * rank + ["-np", "1", "-wdir", folder, PROGRAM, "train", f"model.name_or_path={self.folder}/tiny",
                                     "datasets=[pairs.jsonl]", "loss=sft", "exp_name=x", "batch_size=32", "eval_every=null", "data.test_share=0",
                                     "n_examples=64", "trainer=FSDPTrainer", "mesh.shard=2", f"local_dirs=[{self.folder}]"]
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        done = subprocess.run(["mpirun", "--oversubscribe", *map(str, ranks)], env=self.environment | root, capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "has other files than rank 0, or another configuration: here 'prompts of the training data: 95 .*, there 'prompts of the training data: 96")

    def test_a_run_keeps_its_commits(self):
        arguments = ["model=pythia28", "datasets=[hh]", "loss=dpo", "loss.beta=0.1", "exp_name=x", "batch_size=32", "eval_batch_size=32",
                     "sample_during_eval=false", "local_run_dir=run"]
        self.train(*arguments)
        run = self.folder / "run"
        self.assertEqual(json.loads((run / "plan.json").read_text())["commits"], self.commits)
        for name, commit in self.commits.items():
            self.assertIn(f"{name} at commit {commit}", (run / "log.txt").read_text())
        self.dpo("init", "source", "other", "--seed", 7)
        self.hub.add("model", "EleutherAI/pythia-2.8b", {path.name: path.read_bytes() for path in (self.folder / "other").iterdir()})
        self.hub.add("dataset", "Anthropic/hh-rlhf", {f"{split}.jsonl.gz": hh_rows(80) for split in ("train", "test")})
        self.fetch("EleutherAI/pythia-2.8b", "hh")
        self.train(*arguments, "resume=run")
        shutil.rmtree(self.cache)
        self.train(*arguments, "resume=run")
        self.assertEqual(sorted(path.name for path in self.cache.glob("*/snapshots/*")), sorted(self.commits.values()))

    def test_a_resumed_run_without_a_reference_needs_no_weights(self):
        arguments = ["model=pythia28", "datasets=[hh]", "loss=sft", "exp_name=x", "batch_size=32", "eval_batch_size=32",
                     "sample_during_eval=false", "local_run_dir=run"]
        self.train(*arguments)
        shutil.rmtree(self.cache)
        self.train(*arguments, "resume=run")
        self.assertFalse(list(self.cache.rglob("model.safetensors")))

    def test_other_commands(self):
        name = "EleutherAI/pythia-2.8b"
        self.dpo("convert", name, "out")
        self.assertTrue((self.folder / "out/model.safetensors").exists())
        self.dpo("sample", name, "--prompt", "a", "--max-new-tokens", 2)
        self.assertIn("there is no model 'org/none' at", self.refused("sample", "org/none", "--prompt", "a"))


if __name__ == "__main__":
    main()

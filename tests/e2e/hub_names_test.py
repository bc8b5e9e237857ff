"""Names on the Hugging Face hub in commands: data sets, plans, and the runs of the original's README."""

import gzip
import json
import shutil
import unittest
from pathlib import Path

from on_the_hub import MODEL, OTHERS, SHARDED, OnTheHub, main, noise
from recipes_test import byte_letters
from tiny_run import PROGRAM, make_tokenizer


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


@unittest.skipUnless(Path(PROGRAM + "-engine").exists(), "built without LibTorch")
class Runs(OnTheHub):
    """The commands of the original's README, on tiny models and data of the same names."""

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
        self.hub.add("model", "EleutherAI/pythia-2.8b", files | OTHERS)
        self.hub.add("dataset", "Anthropic/hh-rlhf", {f"{part}/{split}.jsonl.gz": hh_rows(96)
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
        asked = [path for _, _, path, _ in self.hub.requests("store", "GET")]
        self.assertEqual(len(asked), len(set(asked)))
        self.assertGreaterEqual(len(asked), 2)

    def test_other_commands(self):
        name = "EleutherAI/pythia-2.8b"
        self.dpo("convert", name, "out")
        self.assertTrue((self.folder / "out/model.safetensors").exists())
        self.dpo("sample", name, "--prompt", "a", "--max-new-tokens", 2)
        self.assertIn("there is no model 'org/none' at", self.refused("sample", "org/none", "--prompt", "a"))


if __name__ == "__main__":
    main()

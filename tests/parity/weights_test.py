"""Compares weights on disk with the real libraries, bit for bit, for every family: transformers, safetensors and torch
read dpo's files, and dpo reads theirs. New models have the same statistics as those of transformers."""

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import safetensors.torch
import tiny_models
import torch
from transformers import AutoConfig, AutoModelForCausalLM

PROGRAM = os.environ["DPO_PROGRAM"]
FAMILIES = tiny_models.FAMILIES if "DPO_TEST_ALL" in os.environ else ["gpt2", "gpt_neox", "qwen3"]
HEADS = {"gpt_neox": "embed_out.weight"}
EMBEDDINGS = {"gpt2": "transformer.wte.weight", "gptj": "transformer.wte.weight",
              "gpt_neox": "gpt_neox.embed_in.weight"}
PREFIXES = {"gpt2": "transformer.", "gptj": "transformer.", "gpt_neox": "gpt_neox."}


def head_of(family: str) -> str:
    return HEADS.get(family, "lm_head.weight")


def embedding_of(family: str) -> str:
    return EMBEDDINGS.get(family, "model.embed_tokens.weight")


def dpo(*words) -> subprocess.CompletedProcess:
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, check=False)


def stored(folder: Path) -> dict[str, torch.Tensor]:
    """Returns the tensors of all safetensors files of a folder."""
    tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors.update(safetensors.torch.load_file(file))
    return tensors


def loaded(folder: Path):
    """Loads a model with transformers, which must find every tensor and no other."""
    model, report = AutoModelForCausalLM.from_pretrained(folder, dtype="auto", output_loading_info=True)
    problems = {key: value for key, value in report.items() if value}
    assert not problems, problems
    return model


class Weights(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def convert(self, *words) -> Path:
        answer = dpo("convert", *words)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return Path(words[1])

    def check_equal(self, got: dict, wanted: dict) -> None:
        self.assertEqual(sorted(got), sorted(wanted))
        for name, tensor in wanted.items():
            self.assertEqual(got[name].dtype, tensor.dtype, name)
            self.assertTrue(torch.equal(got[name], tensor), name)

    def each_family(self):
        for family in FAMILIES:
            for tied in (False, True):
                with self.subTest(family=family, tied=tied):
                    yield family, tied, tiny_models.make(family, self.folder / f"{family}-{tied}", tie_word_embeddings=tied)

    def one_of_each_family(self):
        """Yields one model of each family, every second one tied. Starting dpo takes time, and tying does not matter to
        these tests."""
        for i, family in enumerate(FAMILIES):
            with self.subTest(family=family):
                yield family, tiny_models.make(family, self.folder / family, tie_word_embeddings=i % 2 == 1)

    def test_folder_to_folder(self) -> None:
        for family, tied, source in self.each_family():
            same = self.convert(source, f"{source}-same", *(["--dtype", "float32"] if tied else []))
            self.assertEqual((source / "model.safetensors").read_bytes(), (same / "model.safetensors").read_bytes())
            self.assertEqual(json.loads((source / "config.json").read_text()),
                             json.loads((same / "config.json").read_text()))
            self.assertEqual((source / "generation_config.json").read_text(),
                             (same / "generation_config.json").read_text())
            before = loaded(source).state_dict()
            self.check_equal(loaded(same).state_dict(), before)
            dtype = "float16" if tied else "bfloat16"
            out = self.convert(source, f"{source}-{dtype}", "--dtype", dtype)
            wanted = {name: tensor.to(getattr(torch, dtype)) for name, tensor in before.items()}
            self.check_equal(loaded(out).state_dict(), wanted)
            self.assertEqual(json.loads((out / "config.json").read_text())["dtype"], dtype)
            wider = self.convert(out, f"{source}-{dtype}-wide", "--dtype", "float32")
            self.check_equal(stored(wider), {name: tensor.float() for name, tensor in stored(out).items()})

    def test_shards(self) -> None:
        for _, source in self.one_of_each_family():
            ours = self.convert(source, f"{source}-ours", "--shard-size", "50KB")
            theirs = Path(f"{source}-theirs")
            loaded(source).save_pretrained(theirs, max_shard_size="50KB")
            for folder in (ours, theirs):
                index = json.loads((folder / "model.safetensors.index.json").read_text())
                files = set(index["weight_map"].values())
                self.assertGreater(len(files), 3)
                for name in files:
                    tensors = safetensors.torch.load_file(folder / name)
                    self.assertEqual(set(tensors), {t for t, file in index["weight_map"].items() if file == name})
                    size = sum(tensor.nbytes for tensor in tensors.values())
                    if folder == ours:  # transformers keeps the experts of a layer in one file
                        self.assertTrue(size <= 50_000 or len(tensors) == 1, (name, size))
                self.assertEqual(index["metadata"]["total_size"], sum(t.nbytes for t in stored(folder).values()))
                self.check_equal(loaded(folder).state_dict(), loaded(source).state_dict())
                single = self.convert(folder, f"{folder}-single")
                self.assertEqual((single / "model.safetensors").read_bytes(),
                                 (source / "model.safetensors").read_bytes())

    def test_bin(self) -> None:
        for family, source in self.one_of_each_family():
            state = dict(stored(source))
            if head_of(family) not in state:
                state[head_of(family)] = state[embedding_of(family)]
            single = Path(f"{source}-bin")
            single.mkdir()
            shutil.copy(source / "config.json", single)
            torch.save(state, single / "pytorch_model.bin")
            self.check_equal(stored(self.convert(single, f"{single}-out")), stored(source))

            sharded = Path(f"{source}-bins")
            sharded.mkdir()
            shutil.copy(source / "config.json", sharded)
            names = sorted(state)
            halves = {"pytorch_model-00001-of-00002.bin": names[::2], "pytorch_model-00002-of-00002.bin": names[1::2]}
            for file, part in halves.items():
                torch.save({name: state[name].clone() for name in part}, sharded / file)
            weight_map = {name: file for file, part in halves.items() for name in part}
            (sharded / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": weight_map}))
            self.check_equal(stored(self.convert(sharded, f"{sharded}-out")), stored(source))

    def test_policy(self) -> None:
        for family, _, source in self.each_family():
            policy = self.convert(source, Path(f"{source}.pt"))
            for weights_only in (True, False):
                read = torch.load(policy, weights_only=weights_only)
                self.assertEqual((read["step_idx"], read["metrics"]), (0, {}))
                state = read["state"]
                wanted = stored(source)
                if head_of(family) not in wanted:
                    wanted[head_of(family)] = wanted[embedding_of(family)]
                    self.assertEqual(state[head_of(family)].data_ptr(), state[embedding_of(family)].data_ptr())
                self.check_equal(state, wanted)
            self.check_equal(stored(self.convert(policy, f"{source}-back", "--config", source)), stored(source))
            if family in tiny_models.EXPERTS:
                continue  # in memory they are stacked
            fresh = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(source))
            ours = {"lm_head.weight" if name == "embed_out.weight" else name: t for name, t in state.items()}
            fresh.load_state_dict(ours, strict=True)
            # direct-preference-optimization saves the names that the model has in memory.
            original = Path(f"{source}-original.pt")
            torch.save({"step_idx": 320, "state": loaded(source).state_dict(), "metrics": {"loss": [0.5, 0.25]}},
                       original)
            back = self.convert(original, f"{source}-from", "--config", source / "config.json")
            self.check_equal(stored(back), stored(source))

    def test_views_and_other_dtypes(self) -> None:
        source = tiny_models.make("gpt2", self.folder / "gpt2")
        state = stored(source)
        turned = {name: t.t().contiguous().t() if t.dim() == 2 else t for name, t in state.items()}
        torch.save(turned, self.folder / "turned.bin")
        self.check_equal(stored(self.convert(self.folder / "turned.bin", self.folder / "o1", "--config", source)), state)
        joined = torch.cat([t.flatten() for t in state.values()])
        parts = joined.split([t.numel() for t in state.values()])
        torch.save({name: part.view(t.shape) for part, (name, t) in zip(parts, state.items())}, self.folder / "one.bin")
        self.check_equal(stored(self.convert(self.folder / "one.bin", self.folder / "o2", "--config", source)), state)
        safetensors.torch.save_file({name: t.double() for name, t in state.items()}, self.folder / "wide.safetensors")
        self.check_equal(stored(self.convert(self.folder / "wide.safetensors", self.folder / "o3", "--config", source)),
                         state)

    def test_other_names(self) -> None:
        for family, tied, source in self.each_family():
            if not tied or family == "gptj":
                continue  # a file without the model's head cannot hold these heads
            prefix = PREFIXES.get(family, "model.")
            base = {name.removeprefix(prefix): tensor for name, tensor in stored(source).items()}
            safetensors.torch.save_file(base, self.folder / "base.safetensors")
            out = self.convert(self.folder / "base.safetensors", f"{source}-base", "--config", source)
            self.check_equal(stored(out), stored(source))
            wrapped = {f"module._orig_mod.{name}".replace(".2.", ".2._fsdp_wrapped_module."): tensor
                       for name, tensor in stored(source).items()}
            safetensors.torch.save_file(wrapped, self.folder / "wrapped.safetensors")
            out = self.convert(self.folder / "wrapped.safetensors", f"{source}-wrapped", "--config", source)
            self.check_equal(stored(out), stored(source))

    def test_tied_cases(self) -> None:
        for family in FAMILIES:
            source = tiny_models.make(family, self.folder / family, tie_word_embeddings=True)
            head, embedding, state = head_of(family), embedding_of(family), stored(source)
            self.assertNotIn(head, state)
            cases = {"both": {**state, head: state[embedding].clone()},
                     "head": {head if name == embedding else name: tensor for name, tensor in state.items()},
                     "other": {**state, head: state[embedding] + 1}}
            for case, tensors in cases.items():
                with self.subTest(family=family, case=case):
                    folder = self.folder / f"{family}-{case}"
                    folder.mkdir()
                    shutil.copy(source / "config.json", folder)
                    safetensors.torch.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
                    wanted = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
                    answer = dpo("convert", folder, f"{folder}-out")
                    self.assertEqual(answer.returncode, 0, answer.stderr)
                    self.assertEqual("treated as untied" in answer.stderr, case == "other")
                    out = loaded(Path(f"{folder}-out"))
                    self.check_equal(out.state_dict(), wanted.state_dict())
                    self.assertEqual(out.config.tie_word_embeddings, case != "other")


class NewModels(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def init(self, family: str, name: str, *words: str, **changes) -> Path:
        config = self.folder / f"{family}-config"
        tiny_models.config(family, **changes).save_pretrained(config)
        answer = dpo("init", config, self.folder / name, *words)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return self.folder / name

    def test_statistics(self) -> None:
        """Compares statistics of new models. The embedding has zeros at the padding row if the family's has one, and
        nowhere else."""
        zero_rows = lambda state: {name: (tensor == 0).all(-1).nonzero().flatten().tolist()
                                   for name, tensor in state.items() if tensor.dim() == 2}
        for family in FAMILIES:
            for tied, padding in ((False, {}), (True, {"pad_token_id": 7}), (False, {"pad_token_id": 0}),
                                  (True, {"pad_token_id": -1})):
                with self.subTest(family=family, tied=tied, **padding):
                    changes = {"tie_word_embeddings": tied, "initializer_range": 0.03, **padding}
                    name = "-".join(map(str, [family, tied, *padding.values()]))
                    ours = loaded(self.init(family, name, **changes)).state_dict()
                    torch.manual_seed(0)
                    theirs = AutoModelForCausalLM.from_config(tiny_models.config(family, **changes)).state_dict()
                    self.assertEqual(list(ours), list(theirs))
                    self.assertEqual(zero_rows(ours), zero_rows(theirs))
                    for tensor_name, tensor in theirs.items():
                        self.check_like(tensor_name, ours[tensor_name], tensor)

    def check_like(self, name: str, ours: torch.Tensor, theirs: torch.Tensor) -> None:
        self.assertEqual(ours.shape, theirs.shape, name)
        for value in (0, 1):
            self.assertEqual(bool((ours == value).all()), bool((theirs == value).all()), (name, value))
        if bool((theirs == theirs.flatten()[0]).all()):
            return
        # The deviation of n numbers is off by 1 / sqrt(2n), their mean by 1 / sqrt(n). Five times that is very
        # unlikely.
        count = ours.numel()
        deviation = theirs.std().item()
        self.assertLess(abs(ours.std().item() / deviation - 1), 5 * math.sqrt(1 / count), name)
        self.assertLess(abs(ours.mean().item()), 5 * deviation / math.sqrt(count), name)

    def test_seeds(self) -> None:
        first = stored(self.init("llama", "a", "--seed", "5"))
        again = stored(self.init("llama", "b", "--seed", "5"))
        other = stored(self.init("llama", "c", "--seed", "6"))
        half = stored(self.init("llama", "d", "--seed", "5", "--dtype", "bfloat16"))
        # A tensor does not depend on other tensors.
        longer = stored(self.init("llama", "e", "--seed", "5", num_hidden_layers=4))
        random = [name for name, tensor in first.items() if tensor.dim() == 2]
        for name, tensor in first.items():
            self.assertTrue(torch.equal(tensor, again[name]), name)
            self.assertTrue(torch.equal(tensor.bfloat16(), half[name]), name)
            self.assertTrue(torch.equal(tensor, longer[name]), name)
        for name in random:
            self.assertFalse(torch.equal(first[name], other[name]), name)
        flat = torch.stack([first[name].flatten()[:500] for name in random])
        self.assertEqual(len(flat.unique(dim=0)), len(random))
        self.assertLess(torch.corrcoef(flat).fill_diagonal_(0).abs().max().item(), 6 / math.sqrt(500))


if __name__ == "__main__":
    if "built without LibTorch" in dpo("init", "/", "/").stderr:
        print("not run: the program was built without LibTorch")
        sys.exit(77)
    unittest.main()

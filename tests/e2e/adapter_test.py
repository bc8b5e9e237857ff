"""Runs with adapter=lora: the files they write, how they resume, their reference, and what is rejected."""

import json
import shutil
import struct
import subprocess

from tiny_run import PROGRAM, TinyRuns, main

LORA = ["adapter=lora", "adapter.r=4", "lr=1e-2", "n_examples=160"]


def header(file):
    data = file.read_bytes()
    return json.loads(data[8:8 + int.from_bytes(data[:8], "little")])


def numbers(file, dtype):
    """Returns the values of each tensor of a safetensors file: float32, or bfloat16 as their 16 bits."""
    data, letter = file.read_bytes(), {"F32": "f", "BF16": "H"}[dtype]
    start = 8 + int.from_bytes(data[:8], "little")
    found = {}
    for name, tensor in header(file).items():
        if name != "__metadata__":
            begin, end = (start + offset for offset in tensor["data_offsets"])
            assert tensor["dtype"] == dtype, (name, tensor)
            found[name] = struct.unpack(f"<{(end - begin) // struct.calcsize(letter)}{letter}", data[begin:end])
    return found


def bits_of_bfloat16(number):
    bits, = struct.unpack("<I", struct.pack("<f", number))
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16


class Adapters(TinyRuns):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.whole = cls.folder / "whole"
        cls.check(cls.train(cls.whole, *LORA, "adapter.dropout=0.1"))

    @staticmethod
    def adapter(run):
        return (run / "LATEST" / "adapter_model.safetensors").read_bytes()

    @staticmethod
    def dpo(*words):
        return subprocess.run([PROGRAM, *words], capture_output=True, text=True)

    def sft(self, run, *words):
        command = [word for word in self.train_command(run, "n_examples=8", *words) if not word.startswith("loss")]
        return subprocess.run([*command, "loss=sft"], capture_output=True, text=True)

    def scores(self, model, *words):
        done = self.dpo("score", model, self.folder / "pairs.jsonl", *words)
        self.check(done)
        return [logp for line in done.stdout.splitlines() for logp in json.loads(line)["logps"]]

    def first_update(self, run):
        return next(line for line in self.metrics(run) if "grad_norm" in line)

    def test_a_checkpoint_is_a_peft_folder(self):
        latest = self.whole / "LATEST"
        names = {path.name for path in latest.iterdir()}
        self.assertLessEqual({"adapter_config.json", "adapter_model.safetensors", "tokenizer.json", "state", "COMPLETE"}, names)
        self.assertFalse({"config.json", "model.safetensors"} & names)
        config = json.loads((latest / "adapter_config.json").read_text())
        self.assertEqual((config["peft_type"], config["r"], config["lora_alpha"]), ("LORA", 4, 32))
        tensors = header(latest / "adapter_model.safetensors")
        self.assertEqual(tensors["base_model.model.model.layers.1.mlp.up_proj.lora_B.weight"]["shape"], [64, 4])
        self.assertEqual(len([name for name in tensors if name != "__metadata__"]), 2 * 7 * 2)

    def test_the_loss_begins_at_log_two_and_falls(self):
        run, data = self.folder / "learning", self.folder / "letters.jsonl"
        row = lambda i: {"prompt": chr(0x100 + i % 40) * 3, "chosen": chr(0x140 - 4) * 5, "rejected": chr(0x140 - 8) * 5}
        data.write_text("".join(json.dumps(row(i)) + "\n" for i in range(200)))
        self.check(self.train(run, *LORA, f"datasets=[{data}]"))
        updates = [line for line in self.metrics(run) if "grad_norm" in line]
        self.assertAlmostEqual(updates[0]["loss/train"], 0.6931472, places=5)
        self.assertLess(updates[-1]["loss/train"], 0.5)

    def test_a_stopped_run_ends_with_the_same_bits(self):
        run = self.folder / "stopped"
        words = [*LORA, "adapter.dropout=0.1"]
        self.stop_at(run, 8, *words)
        self.check(self.train(run, *words, f"resume={run}"))
        self.assertEqual(self.adapter(run), self.adapter(self.whole))

    def test_another_adapter_or_base_is_not_resumed(self):
        run = self.folder / "other"
        shutil.copytree(self.whole, run, symlinks=True)
        done = self.train(run, *LORA, "adapter.dropout=0.1", "adapter.alpha=8", f"resume={run}")
        self.assertIn("adapter.alpha is 32", done.stderr)
        done = self.train(run, "adapter=none", "lr=1e-2", "n_examples=160", f"resume={run}")
        self.assertIn("adapter.name is lora", done.stderr)

    def test_from_an_sft_adapter_the_reference_has_it_too(self):
        for kind in ("live", "cached"):
            run = self.folder / f"from-{kind}"
            self.check(self.train(run, *LORA, f"model.archive={self.whole / 'LATEST'}", f"reference={kind}", "adapter.dropout=0.1"))
            self.assertAlmostEqual(self.first_update(run)["loss/train"], 0.6931472, delta=0.2)  # dropout
        done = self.train(self.folder / "wrong", *LORA, f"model.archive={self.whole / 'LATEST'}", "adapter.targets=[q_proj]")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is an adapter with other settings than this run's: it has model.layers.0.mlp.down_proj.lora_A.weight", done.stderr)
        self.assertIn(f"dpo merge {(self.folder / 'model').resolve()} {self.whole / 'LATEST'} OUT", done.stderr)

    def test_from_full_sft_the_adapter_is_of_its_weights(self):
        full, lora, wrong, right = (self.folder / name for name in ("full", "over-full", "wrong-base", "right-base"))
        self.check(self.sft(full))
        self.check(self.sft(lora, *LORA, f"model.archive={full / 'LATEST'}"))
        base = (full / "LATEST").resolve()
        self.assertEqual(json.loads((lora / "LATEST" / "adapter_config.json").read_text())["base_model_name_or_path"], str(base))
        for more in ([*LORA], ["n_examples=8"]):
            done = self.train(wrong, *more, f"model.archive={lora / 'LATEST'}")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f"is an adapter of {base}, but model.name_or_path is", done.stderr)
        self.check(self.train(right, *LORA, f"model.archive={lora / 'LATEST'}", f"model.name_or_path={base}"))
        self.assertAlmostEqual(self.first_update(right)["loss/train"], 0.6931472, places=5)
        for words in (["score", self.folder / "model", "--adapter", lora / "LATEST", self.folder / "pairs.jsonl"],
                      ["sample", self.folder / "model", "--adapter", lora / "LATEST", "--prompt", "\u0101"],
                      ["merge", self.folder / "model", lora / "LATEST", self.folder / "wrong-merge"]):
            done = self.dpo(*words)
            self.assertEqual(done.returncode, 1, words[0])
            self.assertIn(f"is an adapter of {base}, but MODEL is", done.stderr)
        self.assertEqual(len(self.scores(base, "--adapter", lora / "LATEST")), 800)

    def test_a_base_that_has_changed_is_refused(self):
        model, moved = self.folder / "changing", self.folder / "of-changing"
        shutil.copytree(self.folder / "model", model)
        self.check(self.sft(moved, *LORA, f"model.name_or_path={model}"))
        shutil.copy(self.spoilt_model() / "model.safetensors", model)
        done = self.train(self.folder / "changed", *LORA, f"model.name_or_path={model}", f"model.archive={moved / 'LATEST'}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("was trained over other weights", done.stderr)
        shutil.rmtree(model)  # gives only a note, since the model may exist under another name
        done = self.dpo("score", self.folder / "model", "--adapter", moved / "LATEST", self.folder / "pairs.jsonl")
        self.check(done)
        self.assertIn("which is not on this machine: make sure that", done.stderr)

    def test_weights_of_a_file_cannot_be_named(self):
        file = self.folder / "policy.pt"
        self.check(self.dpo("convert", self.folder / "model", file))
        words = [*LORA, f"model.archive={file}"]
        command = self.train_command(self.folder / "of-file", *words)
        for done in (self.train(self.folder / "of-file", *words), self.dpo("plan", *command[2:])):
            self.assertEqual(done.returncode, 1)
            self.assertIn("is a file, but an adapter needs a model folder", done.stderr)
            self.assertNotIn("tokeniz", done.stderr)  # the error comes before the data is read
        done = self.train(self.folder / "of-file", *LORA, f"model.archive={self.folder / 'model' / 'model.safetensors'}")
        self.assertIn(f"use model.archive={self.folder / 'model'}\n", done.stderr)

    def test_a_run_without_reference_resumes_without_its_archive(self):
        first, second = self.folder / "first", self.folder / "second"
        self.check(self.sft(first, *LORA))
        words = [*LORA, f"model.archive={first / 'LATEST'}"]
        self.check(self.sft(second, *words))
        shutil.rmtree(first)
        self.check(self.sft(second, *words, f"resume={second}", "n_examples=200"))

    def test_all_weights_can_be_trained_from_an_adapter(self):
        for name, more in (("merging", []), ("merging-bf16", ["model.fsdp_policy_mp=bfloat16"])):
            run = self.folder / name
            self.check(self.train(run, f"model.archive={self.whole / 'LATEST'}", "n_examples=8", *more))
            self.assertAlmostEqual(self.first_update(run)["loss/train"], 0.6931472, places=5)
            self.assertTrue((run / "LATEST" / "model.safetensors").exists())

    def test_merged_models_score_the_same(self):
        model, adapter, out = self.folder / "model", self.whole / "LATEST", self.folder / "merged"
        self.check(subprocess.run([PROGRAM, "merge", model, adapter, out], capture_output=True, text=True))
        expected = self.scores(model, "--adapter", adapter)
        plain = self.scores(model)
        self.assertGreater(max(abs(a - b) for a, b in zip(plain, expected)), 0.1)
        for one, other in zip(self.scores(out), expected):
            self.assertAlmostEqual(one, other, delta=1e-3)
        # In 16 bits, each value is the float32 sum, rounded once.
        short = self.folder / "merged-bf16"
        self.check(self.dpo("merge", model, adapter, short, "--dtype", "bfloat16"))
        exact = numbers(out / "model.safetensors", "F32")
        for name, values in numbers(short / "model.safetensors", "BF16").items():
            self.assertEqual(list(values), [bits_of_bfloat16(number) for number in exact[name]], name)

    def test_a_run_writes_its_merged_model(self):
        # With LORA's learning rate, activations grow to thousands, and rounding moves a score by up to 1e-3.
        run, words = self.folder / "merges", [*LORA[:2], "lr=1e-3", "n_examples=160", "adapter.merge_on_save=true"]
        plain = self.scores(self.folder / "model")
        for more in ([], [f"resume={run}", "n_examples=200"]):  # a resumed run replaces the merged model
            done = self.train(run, *words, *more)
            self.check(done)
            self.assertIn(f"merged       {run / 'merged'}", done.stderr)
            found, expected = self.scores(run / "merged"), self.scores(self.folder / "model", "--adapter", run / "LATEST")
            self.assertGreater(max(abs(a - b) for a, b in zip(plain, expected)), 0.05)
            for one, other in zip(found, expected):
                self.assertAlmostEqual(one, other, delta=1e-3)
        self.check(self.train(self.folder / "unsaved", *words, "debug=true"))

    def test_the_chat_template_of_the_adapter_is_used(self):
        model, adapter, out = self.folder / "model", self.folder / "chat", self.folder / "merged-chat"
        shutil.copytree(self.whole / "LATEST", adapter)
        (adapter / "chat_template.jinja").write_text("{% for m in messages %}\u0105{{ m.content }}</s>{% endfor %}\u0106")
        self.check(self.dpo("sample", model, "--adapter", adapter, "--chat", "--prompt", "\u0101", "--max-new-tokens", "2"))
        self.check(self.dpo("merge", model, adapter, out))
        self.assertEqual((out / "chat_template.jinja").read_text(), (adapter / "chat_template.jinja").read_text())

    def test_an_adapter_is_not_taken_for_a_model(self):
        done = subprocess.run([PROGRAM, "score", self.whole / "LATEST", self.folder / "pairs.jsonl"], capture_output=True, text=True)
        self.assertIn("is an adapter: 'dpo merge MODEL", done.stderr)
        done = subprocess.run([PROGRAM, "score", self.folder / "model", "--adapter", self.whole, self.folder / "pairs.jsonl"],
                              capture_output=True, text=True)
        self.assertIn("is the folder of a run: try", done.stderr)

    def test_every_trainer_and_sft(self):
        self.check(self.sft(self.folder / "sft", *LORA))
        self.check(self.train(self.folder / "fsdp", "trainer=FSDPTrainer", *LORA))
        self.check(self.train(self.folder / "bf16", "model.fsdp_policy_mp=bfloat16", *LORA))


if __name__ == "__main__":
    main()

"""Runs with adapter=lora: what they write, how they resume, what their reference is, and what is refused."""

import json
import shutil
import signal
import subprocess

from tiny_run import PROGRAM, STOPPED, TinyRuns, main

LORA = ["adapter=lora", "adapter.r=4", "lr=1e-2", "n_examples=160"]


def header(file):
    data = file.read_bytes()
    return json.loads(data[8:8 + int.from_bytes(data[:8], "little")])


class Adapters(TinyRuns):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.whole = cls.folder / "whole"
        cls.check(cls.train(cls.whole, *LORA, "adapter.dropout=0.1"))

    @staticmethod
    def adapter(run):
        return (run / "LATEST" / "adapter_model.safetensors").read_bytes()

    def scores(self, model, *words):
        done = subprocess.run([PROGRAM, "score", model, self.folder / "pairs.jsonl", *words], capture_output=True, text=True)
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
        process = subprocess.Popen(self.train_command(run, *words), stderr=subprocess.PIPE, text=True)
        with process.stderr as lines:
            for line in lines:
                if line.startswith("update 7 "):
                    process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(), STOPPED)
        self.check(self.train(run, *words, f"resume={run}"))
        self.assertEqual(self.adapter(run), self.adapter(self.whole))

    def test_another_adapter_or_base_is_not_resumed(self):
        run = self.folder / "other"
        shutil.copytree(self.whole, run, symlinks=True)
        done = self.train(run, *LORA, "adapter.dropout=0.1", "adapter.alpha=8", f"resume={run}")
        self.assertIn("adapter.alpha is 32", done.stderr)
        done = self.train(run, "lr=1e-2", "n_examples=160", f"resume={run}")
        self.assertIn("adapter.name is lora", done.stderr)

    def test_from_an_sft_adapter_the_reference_has_it_too(self):
        for kind in ("live", "cached"):
            run = self.folder / f"from-{kind}"
            self.check(self.train(run, *LORA, f"model.archive={self.whole / 'LATEST'}", f"reference={kind}", "adapter.dropout=0.1"))
            self.assertAlmostEqual(self.first_update(run)["loss/train"], 0.6931472, delta=0.2)  # with dropout
        done = self.train(self.folder / "wrong", *LORA, f"model.archive={self.whole / 'LATEST'}", "adapter.targets=[q_proj]")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is an adapter with other settings than this run's", done.stderr)

    def test_all_weights_can_be_trained_from_an_adapter(self):
        run = self.folder / "merging"
        self.check(self.train(run, f"model.archive={self.whole / 'LATEST'}", "n_examples=8"))
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

    def test_an_adapter_is_not_taken_for_a_model(self):
        done = subprocess.run([PROGRAM, "score", self.whole / "LATEST", self.folder / "pairs.jsonl"], capture_output=True, text=True)
        self.assertIn("is an adapter: give its model, and --adapter", done.stderr)
        done = subprocess.run([PROGRAM, "score", self.folder / "model", "--adapter", self.whole, self.folder / "pairs.jsonl"],
                              capture_output=True, text=True)
        self.assertIn("is the folder of a run: try", done.stderr)

    def test_every_trainer_and_sft(self):
        command = [word for word in self.train_command(self.folder / "sft", *LORA) if not word.startswith("loss")]
        self.check(subprocess.run([*command, "loss=sft"], capture_output=True, text=True))
        self.check(self.train(self.folder / "fsdp", "trainer=FSDPTrainer", *LORA))
        self.check(self.train(self.folder / "bf16", "model.fsdp_policy_mp=bfloat16", *LORA))


if __name__ == "__main__":
    main()

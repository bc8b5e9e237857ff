"""Resuming and reusing scores require the model that they come from: its weights and its config.json."""

import hashlib
import json
import shutil
import subprocess

from tiny_run import PROGRAM, TinyRuns, main, make_data, make_tokenizer

NEOX = {"model_type": "gpt_neox", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "vocab_size": 64, "max_position_embeddings": 512, "rotary_pct": 1.0, "use_parallel_residual": True}
LORA = ["adapter=lora", "adapter.r=4"]


def forget(checkpoint, forgotten):
    """Rewrites a checkpoint as an earlier version would have written it, without some entries of its identity."""
    state = checkpoint / "state" / "run.json"
    value = json.loads(state.read_text())
    value["identity"] = {key: text for key, text in value["identity"].items() if not forgotten(key)}
    state.write_text(json.dumps(value))
    marker = json.loads((checkpoint / "COMPLETE").read_text())
    content = state.read_bytes()
    marker["files"][str(state.relative_to(checkpoint))] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    marker["sha256"] = hashlib.sha256(json.dumps(marker["files"], separators=(",", ":"), sort_keys=True).encode()).hexdigest()
    (checkpoint / "COMPLETE").write_text(json.dumps(marker))


class SameRun(TinyRuns):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        source = cls.folder / "neox-source"
        source.mkdir()
        (source / "config.json").write_text(json.dumps(NEOX))
        make_tokenizer(source)
        subprocess.run([PROGRAM, "init", source, cls.folder / "neox"], check=True, capture_output=True)
        make_data(cls.folder / "pairs.jsonl", 60)

    def setUp(self):
        self.model = self.folder / f"model-{self._testMethodName}"
        shutil.copytree(self.folder / "neox", self.model)
        self.run = self.folder / f"run-{self._testMethodName}"

    def change(self, **changes):
        config = json.loads((self.folder / "neox" / "config.json").read_text()) | changes
        (self.model / "config.json").write_text(json.dumps(dict(reversed(config.items()))))

    def short(self, run, *words):
        command = self.train_command(run, f"model.name_or_path={self.model}", "n_examples=8", "eval_every=null", *words)
        if "loss=sft" in words:
            command = [word for word in command if not word.startswith("loss")] + ["loss=sft"]
        return subprocess.run(command, capture_output=True, text=True)

    def refused(self, *words):
        done = self.short(self.run, f"resume={self.run}", "n_examples=16", *words)
        self.assertEqual(done.returncode, 1, done.stderr)
        return done.stderr

    def test_a_changed_config_json_is_not_resumed(self):
        for words in ([], LORA, ["loss=sft"], ["reference=cached"]):
            with self.subTest(words):
                shutil.rmtree(self.run, ignore_errors=True)
                self.change()
                self.check(self.short(self.run, *words))
                self.change(use_parallel_residual=False)
                if words == ["loss=sft"]:  # it continues its own checkpoint, which has its config.json
                    self.check(self.short(self.run, f"resume={self.run}", "n_examples=16", *words))
                    continue
                self.assertIn("use_parallel_residual was true, is false. To continue the run,", self.refused(*words))
                self.change(rotary_emb_base=500000, layer_norm_eps=1e-3)
                self.assertIn("config.json is not that of", said := self.refused(*words))
                self.assertIn("norm_eps was 1e-05, is 0.001; rope_theta was 10000, is 500000", said)
                self.change(torch_dtype="float32", initializer_range=0.5)  # also in another order of keys
                done = self.short(self.run, f"resume={self.run}", "n_examples=16", *words)
                self.check(done)
                self.assertNotIn("older dpo", done.stderr)

    def test_checkpoints_of_earlier_versions_are_resumed(self):
        """The checkpoint of a whole model has its config.json. That of an adapter is accepted with a note."""
        new = lambda key: key.startswith("config.json: ") or key in ("fsdp_reduce_dtype", "prompts of the training data")
        for words in ([], LORA):
            with self.subTest(words):
                shutil.rmtree(self.run, ignore_errors=True)
                self.check(self.short(self.run, *words))
                forget(self.run / "step-8", new)
                if not words:
                    self.change(use_parallel_residual=False)
                    self.assertIn("use_parallel_residual was true, is false", self.refused(*words))
                    self.change()
                done = self.short(self.run, f"resume={self.run}", "n_examples=16", "fsdp_reduce_dtype=bfloat16", *words)
                self.check(done)
                self.assertEqual(done.stderr.count("did not record the model's config.json"), len(words) > 0, done.stderr)
                self.assertIn("did not record fsdp_reduce_dtype: it is taken to have been bfloat16, as now", done.stderr)
                done = self.short(self.run, f"resume={self.run}", "n_examples=24", "fsdp_reduce_dtype=float32", *words)
                self.assertIn("resume: fsdp_reduce_dtype is bfloat16", done.stderr)

    def test_cached_scores_are_those_of_the_config_json(self):
        words = ["reference=cached", "model.fsdp_policy_mp=bfloat16", f"local_dirs=[{self.folder / 'scores'}]"]
        self.check(self.short(self.run, *words))
        self.change(use_parallel_residual=False)
        other = self.short(self.folder / "other", *words)
        self.check(other)
        self.assertNotIn("reference scores: read from", other.stderr)
        self.assertEqual(len(list(self.folder.glob("scores/*/references/*.safetensors"))), 2)
        self.change(torch_dtype="float32")
        again = self.short(self.folder / "again", *words)
        self.check(again)
        self.assertIn("reference scores: read from", again.stderr)

    def test_model_archive_is_of_the_same_model(self):
        self.check(self.short(self.run, "loss=sft"))
        archive = self.run / "step-8"
        self.check(self.short(self.folder / "from-sft", f"model.archive={archive}"))
        self.change(use_parallel_residual=False)
        for name in (archive, archive / "policy.pt", archive / "model.safetensors"):
            done = self.short(self.folder / "not-made", f"model.archive={name}")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("use_parallel_residual was true, is false", done.stderr)
            self.assertIn(f"use model.name_or_path={archive} without model.archive", done.stderr)
        self.assertFalse((self.folder / "not-made").exists())
        planned = subprocess.run([PROGRAM, "plan", "model=blank_model", f"model.name_or_path={self.model}", f"model.archive={archive}",
                                  "loss=dpo", "loss.beta=0.1", "exp_name=e", f"datasets=[{self.folder / 'pairs.jsonl'}]"], capture_output=True, text=True)
        self.assertEqual(planned.returncode, 1)
        self.assertIn("use_parallel_residual", planned.stderr)

    def test_damaged_weights_are_not_started_from(self):
        for words, name in ([], "model.safetensors"), (LORA, "adapter_model.safetensors"):
            with self.subTest(name):
                shutil.rmtree(self.run, ignore_errors=True)
                self.check(self.short(self.run, *words))
                file = self.run / "step-8" / name
                damaged = bytearray(file.read_bytes())
                damaged[-5] ^= 1
                file.write_bytes(damaged)
                for source in (f"model.archive={self.run / 'step-8'}", f"model.name_or_path={self.run / 'step-8'}"):
                    if "name_or_path" in source and words:
                        continue  # an adapter is not a model
                    done = self.short(self.folder / "not-started", source, *words)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertIn(f"{name} is damaged: its SHA-256 is not the one in", done.stderr)
                (self.run / "step-8" / "COMPLETE").unlink()
                self.check(self.short(self.folder / f"started-{name}", f"model.archive={self.run / 'step-8'}", *words))

    def test_an_adapter_in_model_archive_is_of_the_same_model(self):
        self.check(self.short(self.run, *LORA))
        words = [f"model.archive={self.run / 'step-8'}", *LORA]
        self.check(self.short(self.folder / "from-adapter", *words))
        self.change(rotary_emb_base=500000)
        done = self.short(self.folder / "over-another", *words)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("rope_theta was 10000, is 500000. Give the model that it was trained over", done.stderr)


if __name__ == "__main__":
    main()

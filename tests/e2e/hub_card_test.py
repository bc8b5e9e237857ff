"""The model card that dpo push writes, and its treatment of other people's models and cards."""

import json

import yaml

from hub_push_test import WHOLE, Pushes
from hub_server import TOKEN
from on_the_hub import main, noise


class Cards(Pushes):
    def card(self, *arguments, **more):
        return self.push("--dry-run", *arguments, **more).stdout

    def test_a_dry_run_sends_nothing(self):
        done = self.push("--dry-run", HF_TOKEN="", HF_HUB_OFFLINE="1")
        self.assertEqual(self.hub.log, [])
        self.assertRegex(done.stderr, r" 20\.0 kB  model\.safetensors\n")
        self.assertIn("nothing was sent", done.stderr)
        self.assertNotIn("optimizer", done.stderr)
        self.push()
        self.assertEqual(self.on_the_hub()["README.md"].decode(), done.stdout)

    def test_what_it_says(self):
        card = self.card("--base-model", "org/base")
        _, front, text = card.split("---\n", 2)
        self.assertEqual(yaml.safe_load(front), {"base_model": "org/base", "library_name": "transformers", "pipeline_tag": "text-generation",
                                                 "datasets": ["Anthropic/hh-rlhf"], "tags": ["dpo"]})
        self.assertIn("[org/base](https://huggingface.co/org/base), from the weights `RUN/LATEST`, trained by direct preference optimization (DPO) on `pairs.jsonl`, `hh`: "
                      "320 examples, 10 updates. On 64 held-out examples: loss 0.6931 → 0.4000, reward accuracy 0.900", text)
        for part in ("| 160 | 0.5000 | 0.750 (n=64) | 0.400 |", "| loss.beta | `0.1` |", "apply_chat_template", "loss.beta=0.1", "exp_name=it",
                     "datasets=[pairs.jsonl,hh]", "model.archive=RUN/LATEST"):
            self.assertIn(part, text)

    def test_adapters(self):
        base = f"{self.folder}/base"
        config = {"peft_type": "LORA", "base_model_name_or_path": base, "r": 4}
        files = {name: data for name, data in self.model.items() if name != "config.json"}
        self.write_run({**files, "adapter_config.json": json.dumps(config), "adapter_model.safetensors": noise(100)}, 640)
        self.assertIn("--base-model ORG/NAME names it", self.refused())
        self.push("--base-model", "org/base")
        there = self.on_the_hub()
        self.assertEqual(json.loads(there["adapter_config.json"])["base_model_name_or_path"], "org/base")
        self.assertIn("adapter_model.safetensors", there)
        card = there["README.md"].decode()
        self.assertEqual(yaml.safe_load(card.split("---\n", 2)[1])["library_name"], "peft")
        for part in ("AutoPeftModelForCausalLM.from_pretrained", "This is a LoRA adapter", "[org/base](https://huggingface.co/org/base)"):
            self.assertIn(part, card)
        for data in there.values():
            self.assertNotIn(str(self.folder).encode(), data)

    def test_what_it_does_not_say(self):
        config = {"model_type": "gpt_neox", "_name_or_path": f"{self.folder}/base", "layer_norm_eps": 1e-05}
        tokenizer = {"name_or_path": "secret_base/x", "eos_token": "<ü>"}
        self.write_run({**self.model, **WHOLE, "config.json": json.dumps(config), "tokenizer_config.json": json.dumps(tokenizer)})
        yaml_file = self.run_folder / "config.yaml"
        yaml_file.write_text(yaml_file.read_text().replace(f"{self.folder}/pairs.jsonl", "secret_client/pairs.jsonl")
                             .replace(f"{self.folder}/base", "secret_base/x"))
        self.push()
        plain = self.folder / "secret_plain"
        plain.mkdir()
        for name, data in {**self.model, **WHOLE}.items():
            (plain / name).write_bytes(data.encode() if isinstance(data, str) else data)
        self.dpo("push", plain, "org/plain")
        there = self.on_the_hub()
        self.assertEqual(json.loads(there["config.json"]), {"model_type": "gpt_neox", "layer_norm_eps": 1e-05})
        self.assertEqual(json.loads(there["tokenizer_config.json"]), {"eos_token": "<ü>"})
        self.assertEqual(self.hub.uploads.summaries, ["Upload model with dpo push (step-320)", "Upload model with dpo push"])
        for data in there.values():
            for secret in (str(self.folder), "hf_secret", TOKEN, "secret_name", "secret_client", "secret_base", "private rows", "local_dirs"):
                self.assertNotIn(secret.encode(), data)

    def test_the_base_model_is_named_if_the_cache_has_it(self):
        self.hub.add("model", "org/base", {**self.model, **WHOLE})
        self.hub.add("dataset", "org/rows", {"train.jsonl": "{}"})
        config = self.run_folder / "config.yaml"
        config.write_text(config.read_text().replace(f"{self.folder}/base", "org/base").replace(f"{self.folder}/pairs.jsonl", "org/rows"))
        self.assertNotIn("base_model", self.card())
        self.fetch("org/base", "datasets/org/rows")
        front = yaml.safe_load(self.card().split("---\n")[1])
        self.assertEqual((front["base_model"], front["datasets"]), ("org/base", ["org/rows", "Anthropic/hh-rlhf"]))

    def test_of_an_earlier_checkpoint_and_without_evaluation(self):
        self.write_run({**self.model, **WHOLE}, 200)
        self.assertIn("loss 0.6931 → 0.5000, reward accuracy 0.750, evaluated after 0 and 160 examples; this model was trained on 40 "
                      "examples more and not evaluated after that.", self.card())
        (self.run_folder / "metrics.jsonl").write_text("")
        card = self.card()
        self.assertIn("It was not evaluated during training.", card)
        self.assertNotIn("## Evaluation", card)

    def test_an_edited_card_stays(self):
        self.push()
        files = dict(self.on_the_hub())
        edited = files["README.md"].replace(b"library_name", b"license: mit\nlibrary_name")
        self.hub.add("model", "org/it", files | {"README.md": edited})
        self.write_run({**self.model, "model.safetensors": b"new"}, 640)
        self.assertIn("or was edited: it stays as it is", self.push().stderr)
        there = self.on_the_hub()
        self.assertEqual((there["README.md"], there["model.safetensors"]), (edited, b"new"))
        own = self.folder / "card.md"
        own.write_bytes(edited)
        self.push("--card", own)
        self.push()
        self.assertEqual(self.on_the_hub()["README.md"], edited)
        self.push("--overwrite-card")
        self.write_run({**self.model, **WHOLE}, 700)
        self.push()  # the card is still as generated, so it is replaced
        self.assertIn(b"700 examples", self.on_the_hub()["README.md"])

    def test_a_card_of_someone_else_stays(self):
        self.push()
        files = dict(self.on_the_hub())
        self.hub.add("model", "org/it", files | {"README.md": "# Mine"})
        done = self.push()
        self.assertIn("README.md on the hub was not generated by dpo, or was edited: it stays as it is; --overwrite-card replaces it", done.stderr)
        self.assertEqual(self.on_the_hub()["README.md"], b"# Mine")
        self.push("--overwrite-card")
        self.assertEqual(self.on_the_hub()["README.md"], files["README.md"])
        own = self.folder / "card.md"
        own.write_text("# My own")
        self.push("--card", own)
        own.write_text("# My own, again")
        self.push("--card", own)
        self.assertEqual(self.on_the_hub()["README.md"], b"# My own, again")


class Others(Pushes):
    def test_the_model_of_someone_else_stays(self):
        theirs = {"README.md": "# Theirs", "config.json": "{}", "model.safetensors": noise(9)}
        before = self.hub.add("model", "org/it", theirs)
        self.assertIn("org/it has a model that was not pushed by dpo (model.safetensors): check the name and the branch; --replace", self.refused())
        self.assertEqual((self.hub.repositories["model", "org/it"]["main"], self.sent()), (before, []))
        self.push("--replace")
        self.assertEqual(self.on_the_hub()["model.safetensors"], WHOLE["model.safetensors"])
        self.assertEqual(self.on_the_hub()["README.md"], b"# Theirs")

    def test_commits_of_others_during_the_upload(self):
        self.push()
        self.write_run({**self.model, "model.safetensors": noise(7)}, 640)
        files = dict(self.on_the_hub()) | {"README.md": "# Written meanwhile", "model-00001-of-00001.safetensors": noise(3)}
        self.hub.uploads.before_commit = [lambda: self.hub.add("model", "org/it", files)]
        refused = self.refused()
        self.assertIn("org/it has changed during the upload: checking again", refused)
        self.assertIn("has a model that was not pushed by dpo", refused)
        self.hub.uploads.before_commit = [lambda: self.hub.add("model", "org/it", files | {"notes.txt": "x"})]
        self.push("--replace")
        there = self.on_the_hub()
        self.assertEqual((there["README.md"], there["notes.txt"], there["model.safetensors"]), (b"# Written meanwhile", b"x", noise(7)))
        self.assertNotIn("model-00001-of-00001.safetensors", there)

    def test_only_removals(self):
        self.push()
        self.hub.add("model", "org/it", dict(self.on_the_hub()) | {"model-00001-of-00001.safetensors": noise(3)})
        done = self.push()
        self.assertIn("removing model-00001-of-00001.safetensors", done.stderr)
        self.assertNotIn("is already up to date", done.stderr)
        self.check()


if __name__ == "__main__":
    main()

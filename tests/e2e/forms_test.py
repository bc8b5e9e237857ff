"""Data for one loss from other trainers' files: labelled responses for KTO, completions and texts for SFT."""

import json
import math
import random
import subprocess

from tiny_run import PROGRAM, TinyRuns, main


class Forms(TinyRuns):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        draw = random.Random(9)
        text = lambda low, high: "".join(chr(0x100 + draw.randrange(62)) for _ in range(draw.randint(low, high)))
        cls.files = {}
        for name, make in (("labels", lambda i: {"prompt": text(4, 12), "completion": text(3, 12), "label": i % 3 != 0}),
                           ("completions", lambda i: {"prompt": text(4, 12), "completion": text(3, 12)}),
                           ("texts", lambda i: {"text": text(5, 20)})):
            cls.files[name] = cls.folder / f"{name}.jsonl"
            with open(cls.files[name], "w") as lines:
                for i in range(300):
                    lines.write(json.dumps(make(i)) + "\n")

    def words(self, form, *more):
        return [f"datasets=[{self.files[form]}]", "data.test_share=0.1", "n_examples=160", "eval_batch_size=8",
                "n_eval_examples=16", *more]

    def lines(self, run):
        metrics = self.metrics(run)
        return [m for m in metrics if "grad_norm" in m], [m for m in metrics if "loss/eval" in m]

    def test_kto_learns_from_labels(self):
        run = self.folder / "kto"
        done = self.train(run, *self.words("labels", "loss=kto", "loss.desirable_weight=1", "n_epochs=null", "n_examples=800"))
        self.check(done)
        # The ratio of 2 to 1 exceeds the 4 to 3 that KTO's authors advise.
        self.assertRegex(" ".join(done.stderr.split()), r"warning labels \d+ good and \d+ bad responses, weighted")
        trained, evaluated = self.lines(run)
        self.assertAlmostEqual(trained[0]["loss/train"], 0.5, places=6)
        self.assertTrue(all(math.isfinite(m["loss/train"]) for m in trained))
        self.assertTrue(all(math.isfinite(m["loss/eval"]) for m in evaluated))
        for name in ("rewards_train/accuracies", "rewards_train/margins"):  # KTO data has no pairs
            self.assertFalse(any(name in m for m in trained))
        mean = lambda name: sum(m[name] for m in trained[-20:] if name in m) / sum(name in m for m in trained[-20:])
        self.assertGreater(mean("rewards_train/chosen"), mean("rewards_train/rejected"))
        lines = [json.loads(line) for line in next(iter(sorted(run.glob("eval/step-*.jsonl")))).read_text().splitlines()]
        self.assertEqual({len(line["rewards"]) for line in lines}, {1})
        self.assertEqual({line.get("desirable", True) for line in lines}, {True, False})

    def test_microbatches_of_labels_change_rounding_alone(self):
        found = []
        for parts in (1, 4):
            run = self.folder / f"parts-{parts}"
            self.check(self.train(run, *self.words("labels", "loss=kto", "batch_size=8", f"gradient_accumulation_steps={parts}")))
            found.append(self.lines(run)[0])
        for one, other in zip(*found, strict=True):
            for name in ("loss/train", "grad_norm"):
                self.assertAlmostEqual(one[name], other[name], delta=1e-5 * max(1, abs(one[name])), msg=name)

    def test_sft_on_completions_and_texts(self):
        for form in ("completions", "texts", "labels"):
            with self.subTest(form=form):
                found = []
                for parts in (1, 2):
                    run = self.folder / f"{form}-{parts}"
                    words = self.train_command(run, *self.words(form, "loss=sft", "n_epochs=null", "n_examples=800", "batch_size=8",
                                                                f"gradient_accumulation_steps={parts}"))
                    words.remove("loss.beta=0.1")
                    self.check(subprocess.run(words, capture_output=True, text=True))
                    found.append(self.lines(run)[0])
                for one, other in list(zip(*found, strict=True))[:20]:  # rounding errors grow in later updates
                    self.assertAlmostEqual(one["loss/train"], other["loss/train"], delta=1e-5 * one["loss/train"])
                per_token = [m["loss/train"] / m["tokens_train/chosen"] for m in found[0]]
                self.assertAlmostEqual(per_token[0], math.log(64), delta=0.3)
                self.assertLess(sum(per_token[-10:]), sum(per_token[:10]))

    def test_resumed_to_the_bit(self):
        words = self.words("labels", "loss=kto", "eval_every=40")
        whole, run = self.folder / "whole", self.folder / "stopped"
        self.check(self.train(whole, *words))
        self.stop_at(run, 8, *words)
        rows = self.files["labels"].read_text().splitlines()
        changed = self.folder / "changed.jsonl"
        changed.write_text("\n".join(row.replace("true", "false") for row in rows) + "\n")
        other = self.train(run, *words, f"resume={run}", f"datasets=[{changed}]")
        self.assertEqual(other.returncode, 1)
        self.assertIn("resume: training data is", other.stderr)
        self.check(self.train(run, *words, f"resume={run}"))
        self.assertEqual(self.weights(run), self.weights(whole))

    def test_another_loss_is_refused_before_anything_is_made(self):
        for form, loss, message in (("labels", "dpo", "has labelled responses: use loss=kto"),
                                    ("completions", "dpo", "has responses without a rejected one: use loss=sft"),
                                    ("texts", "kto", "has responses without a label: use loss=sft")):
            for command in ("train", "plan", "data"):
                with self.subTest(form=form, loss=loss, command=command):
                    run = self.folder / "refused"
                    words = self.train_command(run, *self.words(form, f"loss={loss}"))
                    words[1] = command
                    done = subprocess.run(words, capture_output=True, text=True)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertIn(f"loss={loss} needs", done.stderr)
                    self.assertIn(message, done.stderr)
                    self.assertFalse(run.exists())

    def test_dpo_data_counts_and_orders_labels(self):
        data = lambda *more: subprocess.run(
            [PROGRAM, "data", f"model.name_or_path={self.folder / 'model'}", f"datasets=[{self.files['labels']}]", "loss=kto",
             "loss.beta=0.1", f"local_dirs=[{self.folder}]", "batch_size=8", "data.test_share=0.1", *more],
            capture_output=True, text=True)
        shown = data()
        self.check(shown)
        self.assertRegex(shown.stdout, r"0 pairs, \d+ labelled responses \(\d+ good\); \d+ examples")
        counts = json.loads(data("--json").stdout)["splits"]
        (train,), (test,) = counts["train"]["sources"], counts["test"]["sources"]
        self.assertEqual(train["labels"] + test["labels"], 300)
        self.assertEqual(train["desirable"] + test["desirable"], 200)
        refused = data("--order", "5", "loss=dpo")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("use loss=kto", refused.stderr)
        lines = [json.loads(line) for line in data("--order", "5").stdout.splitlines()]
        self.assertEqual([sorted(line) for line in lines], [["completion", "label", "prompt"]] * 5)


if __name__ == "__main__":
    main()

"""Parts of a run apart from updates: cached reference scores, kept checkpoints, samples, warnings about metrics, and
its output and files when training or the disk fails."""

import json
import math
import os
import re
import resource
import shutil
import signal
import subprocess
from pathlib import Path

from report_page import Page
from tiny_run import PROGRAM, TRAINING_FAILED, TinyRuns, main, make_data


def files_of_at_most(size):
    """Returns a function that limits the size of a process's files. A write beyond it then fails, as on a full disk."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return limit


class Run(TinyRuns):
    def short(self, run, *more, **options):
        return self.train(run, "n_examples=160", *more, **options)

    def test_kto_cuts_a_response_behind_a_foreign_prompt(self):
        """A long prompt and the long response of another pair together exceed the model's context."""
        data = self.folder / "uneven.jsonl"
        letter = lambda i: chr(0x100 + i)
        with open(data, "w") as lines:
            for i in range(160):
                prompt, response = (90, 20) if i % 2 else (8, 100)
                lines.write(json.dumps({"prompt": letter(i % 40) * (prompt - i // 40), "chosen": letter(i % 40) * response,
                                        "rejected": letter(50) * response}) + "\n")
        self.check(self.train(self.folder / "kto", "loss=kto", f"datasets=[{data}]", "max_length=128", "max_prompt_length=100",
                              "n_examples=16", "eval_every=8"))

    def test_how_a_batch_is_divided_changes_rounding_alone(self):
        """The batch is computed at once, in 8 parts, or in 5 parts that cannot be equal. Parts are balanced by
        tokens."""
        runs = []
        for parts in (1, 8, 5):
            run = self.folder / f"parts-{parts}"
            batch = 64 if parts != 5 else 65  # the configuration requires parts of equal size
            self.check(self.train(run, f"batch_size={batch}", f"gradient_accumulation_steps={parts}", "n_examples=640",
                                  "eval_every=650"))
            runs.append([line for line in self.metrics(run) if "grad_norm" in line])
        self.assertGreaterEqual(len(runs[0]), 9)
        for one, two in zip(runs[0], runs[1], strict=True):
            for name in ("loss/train", "grad_norm", "rewards_train/chosen", "logps_train/rejected"):
                self.assertAlmostEqual(one[name], two[name], delta=1e-5 * max(1, abs(one[name])), msg=name)
        whole = self.folder / "parts-whole"
        self.check(self.train(whole, "batch_size=65", "n_examples=640", "eval_every=650"))
        for one, two in zip((line for line in self.metrics(whole) if "grad_norm" in line), runs[2], strict=True):
            self.assertAlmostEqual(one["loss/train"], two["loss/train"], delta=1e-5)

    def test_every_precision_begins_at_ln_2_and_learns(self):
        for name, words in (("f32", []), ("mixed", ["model.fsdp_policy_mp=bfloat16"]),
                            ("bf16", ["model.policy_dtype=bfloat16"]), ("recomputed", ["activation_checkpointing=true"])):
            for reference in ("live", "cached"):
                run = self.folder / f"{name}-{reference}"
                self.check(self.train(run, f"reference={reference}", "n_examples=800", "eval_every=800", *words))
                updates = [line["loss/train"] for line in self.metrics(run) if "grad_norm" in line]
                self.assertAlmostEqual(updates[0], math.log(2), delta=1e-6, msg=run.name)
                self.assertLess(sum(updates[-20:]) / 20, 0.67, run.name)

    def test_recomputed_layers_change_nothing(self):
        runs = {value: self.folder / f"recomputed-{value}" for value in ("false", "1", "true", "auto")}
        for value, run in runs.items():
            self.check(self.short(run, f"activation_checkpointing={value}"))
            self.assertEqual(self.weights(run), self.weights(runs["false"]), value)
        self.assertEqual(json.loads((runs["auto"] / "plan.json").read_text())["resolved"]["recomputed_layers"], 0)
        refused = self.short(self.folder / "recomputed-some", "activation_checkpointing=some")
        self.assertIn("expected true, false, auto, or a number of layers", refused.stderr)

    def test_cached_scores_are_the_live_ones_and_are_found_again(self):
        live, cached, again, other = (self.folder / name for name in ("live", "cached", "again", "other"))
        self.check(self.short(live, "reference=live"))
        first = self.short(cached, "reference=cached")
        self.check(first)
        self.assertIn("reference scores: saved in", first.stderr)
        self.assertEqual(self.weights(cached), self.weights(live))  # equal bits, since the batches are equal
        second = self.short(again, "reference=cached")
        self.check(second)
        self.assertEqual(second.stderr.count("reference scores: read from"), 2)  # for training and evaluation
        self.assertEqual(self.weights(again), self.weights(live))
        # Other batches of the same examples use the same file, and training on more examples adds missing scores.
        more = self.train(other, "reference=cached", "batch_size=8", "n_epochs=2", "n_examples=null")
        self.check(more)
        self.assertEqual(more.stderr.count("reference scores: saved in"), 1)
        self.assertEqual(len(list(self.folder.glob("*/references/*.safetensors"))), 2)
        same = self.folder / "same"
        self.check(self.train(same, "reference=live", "batch_size=8", "n_epochs=2", "n_examples=null"))
        for one, two in zip(self.metrics(other), self.metrics(same), strict=True):
            for name in one:
                if name.startswith(("loss", "rewards", "logps")):
                    self.assertAlmostEqual(one[name], two[name], delta=1e-4 * max(1, abs(two[name])), msg=name)

    def test_kto_cannot_cache(self):
        refused = self.short(self.folder / "kto", "reference=cached", "loss=kto", "loss.beta=0.1")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("reference=cached does not work with loss=kto", refused.stderr)

    def test_the_last_and_the_best_checkpoints_stay(self):
        run = self.folder / "few"
        self.check(self.train(run, "keep_last=2", "best_metric=loss/eval"))
        evaluations = {line["counters/examples"]: line["loss/eval"] for line in self.metrics(run)
                       if "loss/eval" in line and line["counters/examples"] > 0}
        best = f"step-{int(min(evaluations, key=evaluations.get))}"
        self.assertEqual(os.readlink(run / "BEST"), best)
        newest = int(self.metrics(run)[-1]["counters/examples"])
        self.assertEqual(os.readlink(run / "LATEST"), f"step-{newest}")
        before = sorted(evaluations)[-2]
        self.assertEqual({path.name for path in run.glob("step-*")}, {f"step-{int(before)}", f"step-{newest}", best})

    def test_save_every_saves_by_itself(self):
        """The run evaluates at 40, 80, 120, 160, saves at 60, 120, and does both at the end. Its weights do not depend
        on the interval."""
        often, usual = self.folder / "saved-often", self.folder / "saved-usual"
        self.check(self.short(often, "save_every=60", "n_examples=176"))
        self.check(self.short(usual, "n_examples=176"))
        self.assertEqual({path.name for path in often.glob("step-*")}, {"step-60", "step-120", "step-176"})
        self.assertEqual({path.name for path in usual.glob("step-*")}, {"step-40", "step-80", "step-120", "step-160", "step-176"})
        self.assertEqual(sorted(path.name for path in (often / "eval").iterdir()),
                         ["step-0.jsonl", "step-120.jsonl", "step-160.jsonl", "step-176.jsonl", "step-40.jsonl", "step-80.jsonl"])
        self.assertEqual(self.weights(often), self.weights(usual))
        few = self.folder / "few-saved"
        self.check(self.short(few, "save_every=20", "keep_last=2"))
        self.assertEqual({path.name for path in few.glob("step-*")}, {"step-140", "step-160"})

    def test_the_best_of_the_saved_checkpoints(self):
        run = self.folder / "best-saved"
        self.check(self.short(run, "save_every=80", "best_metric=loss/eval", "keep_last=1", "n_examples=360"))
        evaluations = {int(line["counters/examples"]): line["loss/eval"] for line in self.metrics(run) if "loss/eval" in line}
        saved = [80, 160, 240, 320, 360]  # the last is evaluated and saved at the end
        self.assertEqual(os.readlink(run / "BEST"), f"step-{min(saved, key=evaluations.get)}")
        uneven = self.short(self.folder / "save-uneven", "save_every=60", "best_metric=loss/eval")
        self.assertEqual(uneven.returncode, 1)
        self.assertIn("save_every=60 must be a multiple of eval_every=40", " ".join(uneven.stderr.split()))

    def test_evaluation_can_be_switched_off(self):
        """Without evaluation no test data is needed, and training is the same."""
        off, on, every = (self.folder / name for name in ("eval-off", "eval-on", "eval-off-saved"))
        done = self.short(off, "eval_every=null", "sample_during_eval=true", "reference=cached")
        self.check(done)
        self.assertIn("no evaluation", done.stderr)
        self.check(self.short(on))
        self.assertEqual(self.weights(off), self.weights(on))
        self.assertEqual({path.name for path in off.glob("step-*")}, {"step-160"})
        self.assertFalse((off / "eval").exists() or (off / "samples").exists())
        self.assertFalse([line for line in self.metrics(off) if "loss/eval" in line])
        no_test_data = ("eval_every=null", "data.test_share=0", "save_every=80")
        self.check(self.short(every, *no_test_data))
        self.assertEqual({path.name for path in every.glob("step-*")}, {"step-80", "step-160"})
        self.assertEqual(self.short(self.folder / "untested", "data.test_share=0").returncode, 1)  # no test data
        best = self.short(self.folder / "unevaluated", "eval_every=null", "best_metric=loss/eval")
        self.assertEqual(best.returncode, 1)
        self.assertIn("eval_every=null turns evaluation off", " ".join(best.stderr.split()))

    def test_each_held_out_example_counts_once(self):
        """All 20 test examples count once in batches of at most 8: not 24, and none twice. Fewer may be requested."""
        data = self.folder / "held-out"
        data.mkdir()
        make_data(data / "train.jsonl", 16)
        make_data(data / "test.jsonl", 20)
        for asked, count in ((20, 20), (11, 11), (256, 20)):
            run = self.folder / f"held-out-{asked}"
            self.check(self.short(run, f"datasets=[{data}]", "n_examples=8", "eval_every=8", "eval_batch_size=8", f"n_eval_examples={asked}"))
            self.assertEqual([line["counters/eval_examples"] for line in self.metrics(run) if "loss/eval" in line], [count] * 2)
            for name in ("eval_examples.jsonl", "eval/step-0.jsonl", "eval/step-8.jsonl"):
                examples = [json.loads(line)["example"] for line in (run / name).read_text().splitlines()]
                self.assertEqual((len(examples), len(set(examples))), (count, count), name)
            self.assertIn(f"{count} held-out examples", Page(run / "report.html").text)
        losses = [json.loads(line)["loss"] for line in (run / "eval/step-8.jsonl").read_text().splitlines()]
        self.assertAlmostEqual(sum(losses) / 20, [line["loss/eval"] for line in self.metrics(run) if "loss/eval" in line][1], places=9)

    def test_settings_of_the_optimizer_change_the_run(self):
        plain, said, other = (self.folder / name for name in ("adamw", "adamw-said", "adamw-other"))
        self.check(self.short(plain, "optimizer=AdamW"))
        self.check(self.short(said, "optimizer=AdamW", "optimizer_betas=[0.9,0.999]", "optimizer_eps=1e-8", "weight_decay=0.01"))
        self.assertEqual(self.weights(said), self.weights(plain))
        for setting in ("weight_decay=0.5", "optimizer_betas=[0.8,0.9]", "optimizer_eps=1e-3"):
            self.check(self.short(other, "optimizer=AdamW", setting))
            self.assertNotEqual(self.weights(other), self.weights(plain), setting)
            shutil.rmtree(other)

    def test_policy_and_reference_answer(self):
        run = self.folder / "samples"
        self.check(self.short(run, "sample_during_eval=true", "n_eval_model_samples=2", "eval_every=80"))
        files = sorted(path.name for path in (run / "samples").iterdir())
        self.assertEqual(files, ["step-160.jsonl", "step-4.jsonl", "step-80.jsonl"])  # first after the first update
        first, last = ([json.loads(line) for line in (run / "samples" / f"step-{step}.jsonl").read_text().splitlines()] for step in (4, 160))
        self.assertEqual(len(first), 2)
        for line in first:
            self.assertEqual(list(line), ["prompt", "policy", "policy_tokens", "policy_ended", "reference"])
            self.assertTrue(line["policy"] and line["reference"])
        self.assertEqual([line["reference"] for line in first], [line["reference"] for line in last])
        given = self.folder / "samples-given"  # a cached reference, sampled before the first update, gives the same
        self.check(self.short(given, "sample_during_eval=true", "n_eval_model_samples=2", "eval_every=80", "reference=cached"))
        for name in files:
            self.assertEqual((given / "samples" / name).read_text(), (run / "samples" / name).read_text())

    def test_samples_that_nobody_asked_for_are_few_and_short(self):
        """Training does not depend on the clock. A text of more than 64 tokens is cut, and its line records that."""
        run, plain = self.folder / "samples-auto", self.folder / "samples-none"
        more = ("max_length=500", "max_prompt_length=16", "n_eval_examples=4", "n_examples=1600")
        self.check(self.short(run, "sample_during_eval=auto", *more))
        self.check(self.short(plain, *more))
        self.assertEqual(self.weights(run), self.weights(plain))
        files = sorted((run / "samples").iterdir())
        self.assertIn("step-4.jsonl", [file.name for file in files])
        lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        for line in lines:
            self.assertLessEqual(line["policy_tokens"], 64)
            self.assertEqual(line.get("policy_cut", False), not line["policy_ended"])

    def test_figures_become_words(self):
        run = self.folder / "clipped"
        done = self.train(run, "max_grad_norm=1e-6", "n_examples=400")
        self.check(done)
        self.assertEqual(done.stderr.count("warning: the gradient was clipped in each of the last 50 updates"), 1)
        self.assertIn("warnings of this run:", (run / "log.txt").read_text())
        self.assertTrue(all(line["peak_memory_gib"] > 0 for line in self.metrics(run) if "grad_norm" in line))

    def test_numbers_that_are_not_finite_stop_the_run(self):
        run = self.folder / "diverged"
        words = ("lr=1e25", "warmup_steps=0", "optimizer=SGD", "max_grad_norm=1e30")
        for every, said in {"null": r"error: update \d+: .* is NaN or infinite; .*was not applied",
                            "4": r"error: evaluation after \d+ examples \(\d+ updates?\): .* is NaN or infinite .*was not saved"}.items():
            done = self.train(run, *words, f"eval_every={every}", "overwrite=true")
            self.assertEqual(done.returncode, TRAINING_FAILED, done.stderr)
            self.assertRegex(done.stderr, said)
            self.assertIn("is NaN or infinite", (run / "log.txt").read_text())
            self.assertEqual(list(run.glob("step-*")), [])

    def test_every_run_has_a_report(self):
        run = self.folder / "reported"
        self.check(self.short(run, "sample_during_eval=true", "n_eval_model_samples=2"))
        page = Page(run / "report.html").check()
        self.assertIn("160 examples in 40 updates; finished.", page.text)
        examples = [json.loads(line) for line in (run / "eval_examples.jsonl").read_text().splitlines()]
        evaluated = [json.loads(line)["example"] for line in (run / "eval/step-160.jsonl").read_text().splitlines()]
        self.assertEqual([example["example"] for example in examples], evaluated)
        for example in examples:
            self.assertEqual(len(example["responses"]), 2)
            for text in (example["prompt"], *example["responses"]):
                self.assertIn(text, page.text)
        self.assertEqual([x for x, _ in page.charts()["loss"]["held out"]], [0, 40, 80, 120, 160])
        self.assertEqual(len(page.charts()["loss"]["training"]), 40)
        for part in ("LibTorch", "policy after 160 examples", "time of an update (median)"):
            self.assertIn(part, page.text)
        before = page.source
        (run / "report.html").unlink()
        subprocess.run([PROGRAM, "report", run], check=True, capture_output=True)
        self.assertEqual((run / "report.html").read_text(), before)

    def test_a_report_that_cannot_be_written_stops_nothing(self):
        run = self.folder / "unreported"
        (run / "report.html").mkdir(parents=True)
        done = self.short(run)
        self.check(done)
        self.assertRegex(done.stderr, rf"warning: no report: .*{re.escape(str(run))}/report\.html.*; try: dpo report ")
        self.assertNotRegex(done.stderr, r"\n  report  ")

    def test_a_full_disk_for_metrics_stops_nothing(self):
        run = self.folder / "unlogged"
        self.check(self.short(self.folder / "logged"))  # leaves tokens in the cache
        done = self.short(run, "debug=true", preexec_fn=files_of_at_most(15_000))
        self.check(done)
        self.assertEqual(done.stderr.count("training continues; log, metrics"), 1)
        self.assertLessEqual((run / "metrics.jsonl").stat().st_size, 15_000)
        self.assertIn("update 40 ", done.stderr)

    def test_a_full_disk_costs_nothing_that_was_there(self):
        run = self.folder / "full"
        self.check(self.train(run, "n_examples=80"))
        before = {path: path.read_bytes() for path in sorted(run.glob("step-*/**/*")) if path.is_file()}
        failed = self.short(run, f"resume={run}", preexec_fn=files_of_at_most(50_000))
        self.assertEqual(failed.returncode, TRAINING_FAILED, failed.stderr)
        self.assertRegex(failed.stderr, r"a checkpoint could not be saved: .*step-120.*File too large")
        self.assertEqual({path: path.read_bytes() for path in sorted(run.glob("step-*/**/*")) if path.is_file()}, before)
        self.check(self.short(run, f"resume={run}"))
        whole = self.folder / "whole"
        self.check(self.short(whole))
        self.assertEqual(self.weights(run), self.weights(whole))


if __name__ == "__main__":
    main()

"""dpo report on run folders made by hand: page contents, hostile text, damaged files, long runs, comparisons."""

import json
import re
import shutil
import unittest

from report_page import Page
from report_runs import HOSTILE, TIME, ReportRuns, lines


def luminance(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[i:i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, two):
    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


class Reports(ReportRuns):
    def test_what_it_says(self):
        run = self.make_run("a run")
        done = self.dpo("report", "a run")
        self.assertEqual((done.stdout, done.stderr), ("a run/report.html\n", ""))
        page = Page(run / "report.html").check()
        for part in ("a run", "Did it learn? Yes: after 320 examples the reward accuracy on 40 held-out examples is 0.720 (chance is 0.500, "
                     "give or take 0.158), the mean margin +2.000, and the loss fell from 0.6931 to 0.2310.", "; finished.",
                     "plan: lr: plain", "it is 0 or less for 11 of 40 examples", "margin +0.000 → +58.000", "Human: 39? plain",
                     "11 of 40 examples have a margin of 0 or less; these are the 10 worst.", "margin +0.000 → -20.000", "Human: 0? plain",
                     "good 39 plain", "bad 0 plain", "policy after 160 examples", "policy 2 plain", "reference plain",
                     "0.5 (ties, n=40)", "0.720 (n=40)", "loss.beta=0.1", "exp_name=NAME", "datasets=[pairs.jsonl]", "0123abcd"):
            self.assertIn(part, page.text)
        for secret in ("secret_name", str(self.folder)):
            self.assertNotIn(secret, page.source)
        charts = page.charts()
        self.assertEqual(charts["loss"]["held out"], [(0, 0.6931), (160, 0.34655), (320, 0.23103)])
        self.assertEqual(len(charts["loss"]["training"]), 3)
        for title in ("reward accuracy", "reward margin", "rewards, held out", "share of examples by margin", "gradient norm", "learning rate"):
            self.assertTrue(any(charts[title].values()), title)
        shares = charts["share of examples by margin"]["after 320 examples"]
        self.assertAlmostEqual(sum(share for _, share in shares), 1, delta=1e-3)
        self.assertRegex(page.text, r"time of an update \(median\)\s+0\.16 s\s+0\.32 s\s+\+100 %")

    def test_hostile_text_is_text(self):
        self.make_run("hostile", HOSTILE, keys=["seed=7"])
        self.make_run("hostile2", HOSTILE)
        shown = HOSTILE.replace("\x1b", "·")
        for arguments in (["hostile"], ["hostile", "hostile2"]):
            page = self.report(*arguments)
            self.assertGreater(page.text.count(shown), 8)
        name = self.make_run("<b>\"x' onload=alert(3)")
        page = self.report(name)
        self.assertIn("<b>\"x' onload=alert(3)", page.text)

    def test_every_special_character(self):
        """A special character in any place changes neither the elements nor the attributes of the page."""
        shape = None
        for character in "~<>&\"'`=/\\{}()\n\t\x01\x7f\u2028\U0001f600":
            shutil.rmtree(self.folder / "run", ignore_errors=True)
            self.make_run("run", f"a{character}b")
            found = [(tag, sorted(set(attributes) - {"content"})) for tag, attributes in self.report("run").tags]
            shape = shape or found
            self.assertEqual(found, shape, repr(character))

    def test_a_long_run(self):
        """The page of 10,000 evaluations of 1,000 pairs is small."""
        self.make_long_run()
        page = self.report("long")
        self.assertLess(len(page.source), 1_000_000)
        self.assertLess(len(page.tags), 10_000)
        for title, curves in page.charts().items():
            for name, points in curves.items():
                self.assertLessEqual(len(points), 300, (title, name))
        self.assertEqual(page.charts()["loss"]["held out"][-1][0], 32 * 9999)

    def test_a_huge_answer(self):
        run = self.make_run("huge", "x" * 1_000_000, pairs=2)
        page = self.report(run)
        self.assertLess(len(page.source), 500_000)
        self.assertIn("characters more)", page.text)

    def test_what_is_missing_or_damaged(self):
        run = self.make_run("damaged")
        whole = len(self.report("damaged").tags)
        for path in sorted(path for path in run.rglob("*") if path.is_file() and path.name not in ("report.html",)):
            kept = path.read_bytes()
            for content in (kept[:len(kept) // 2], b"", b"\xff\x00{", b"[1, 2]\nnull\n{\"example\": {}}\n", None):
                path.unlink() if content is None else path.write_bytes(content)
                if content is None and path.name == "metrics.jsonl":
                    self.assertIn("is not the folder of a run: it has no metrics.jsonl", self.dpo("report", "damaged", status=1).stderr)
                else:
                    page = self.report("damaged")
                    for part in ("Did it learn? ", "Findings", "Configuration and environment", "dpo train --config RUN/config.yaml"):
                        self.assertIn(part, page.text, path)
                path.write_bytes(kept)
        self.assertEqual(len(self.report("damaged").tags), whole)

    def test_names_on_the_hub(self):
        """Names on the hub come from plan.json, not from the cache of the machine that writes the report."""
        run = self.make_run("hub", keys=["model.name_or_path=org/base", "datasets=[org/pairs,folder/pairs]"])
        plan = json.loads((run / "plan.json").read_text())
        (run / "plan.json").write_text(json.dumps({**plan, "commits": {"org/base": "01", "datasets/org/pairs": "02"}}))
        (run / "environment.json").write_text(json.dumps({"processes": 8}))
        page = self.report("hub")
        for part in ("loss=dpo, org/base, data org/pairs, pairs: 352", "datasets=[org/pairs,pairs]", "model.name_or_path=org/base",
                     "The run had 8 processes.", "NAME@COMMIT names one."):
            self.assertIn(part, page.text)

    def test_a_configuration_that_cannot_be_read(self):
        run = self.make_run("broken")
        self.make_run("whole")
        (run / "config.yaml").write_text("losses: [")
        for arguments in (["broken"], ["broken", "whole"]):
            page = self.report(*arguments)
            self.assertIn("config.yaml of the run cannot be read: 'dpo config --config RUN/config.yaml' says why.", page.text)
            self.assertNotIn("different loss functions", page.text)
            self.assertNotIn(str(self.folder), page.source)
        self.assertNotEqual(self.dpo("config", "--config", "broken/config.yaml", status=1).stderr, "")

    def test_how_it_ended(self):
        run = self.make_run("ended")
        start = f"{TIME}run folder {run}\n"
        for end, shown in (("", "; running, or killed."), (f"{TIME}stopped by a signal after update 3 of 9; x\n", "; stopped by a signal."),
                           (f"{TIME}error: update 4: loss is NaN\n", "; failed: update 4: loss is NaN.")):
            (run / "log.txt").write_text(start + end)
            self.assertIn(shown, self.report(run).text)

    def test_sft_and_no_evaluation(self):
        run = self.make_run("sft")
        shutil.rmtree(run / "eval")
        shutil.rmtree(run / "samples")
        (run / "metrics.jsonl").write_text(lines(
            {"loss/train": 3 - i / 50, "counters/examples": i, "counters/updates": i} for i in range(1, 101)))
        page = self.report("sft")
        self.assertIn("Not known: nothing was evaluated. In training the loss fell from", page.text)
        self.assertNotIn("Samples", page.text)
        (run / "eval").mkdir()
        for step, loss in ((0, 3), (100, 2)):
            (run / f"eval/step-{step}.jsonl").write_text(lines(
                {"example": i, "loss": loss + i / 10, "logps": [-5], "reference": [0], "tokens": [3], "rewards": [0]} for i in range(20)))
        with open(run / "metrics.jsonl", "a") as metrics:
            metrics.write(lines([{"loss/eval": 3, "counters/examples": 0}, {"loss/eval": 2, "counters/examples": 100}]))
        page = self.report("sft")
        for part in ("Did it learn? Yes: on held-out examples, the loss fell from 3.0000 to 2.0000 in 100 examples",
                     "Distribution of the losses", "Examples with the highest loss", "loss 4.9000 → 3.9000"):
            self.assertIn(part, page.text)

    def test_contrast(self):
        """WCAG requires contrasts of 4.5 to 1 for text on page and boxes, and of 3 to 1 for curves, in light and
        dark."""
        self.make_run("colours")
        style = "".join(self.report("colours").code["style"])
        themes = [dict(re.findall(r"--(\w+): (#\w+)", block)) for block in re.findall(r":root \{(.*?)\}", style, re.DOTALL)]
        self.assertEqual(len(themes), 2)
        for colours in themes:
            self.assertEqual(set(themes[0]), set(colours))
            for name, colour in colours.items():
                if name in ("page", "box", "line", "grid"):
                    continue
                for background in (colours["page"], colours["box"]):
                    self.assertGreaterEqual(contrast(colour, background), 3 if re.fullmatch(r"c\d", name) else 4.5, (name, background))

    def test_runs_compared(self):
        self.make_run("one", keys=["lr=1e-6"])
        self.make_run("two", keys=["lr=2e-6"])
        (self.folder / "other").mkdir()
        self.make_run("other/one", keys=["lr=3e-6"])
        done = self.dpo("report", "one", "two")
        self.assertEqual(done.stdout, "comparison.html\n")
        page = Page(self.folder / "comparison.html").check()
        for part in ("2 runs compared", "Settings that differ", "learning rate", "2e-06", "policy 2 plain", "one: 2 findings"):
            self.assertIn(part, page.text)
        self.assertEqual(set(page.charts()["loss, held out"]), {"one", "two"})
        self.assertIn("0.720 (n=40)", page.text)
        self.assertIn("each run was evaluated on 40 examples; an older dpo did not record which", page.text)
        page = self.report("one", "other/one", "--output", "both.html")
        self.assertEqual(set(page.charts()["loss, held out"]), {f"{self.folder.name}/one", "other/one"})
        self.assertNotIn(str(self.folder), page.source)
        self.assertFalse((self.folder / "one/report.html").exists())
        for checkpoint in ("one/samples", "one/samples/"):
            self.assertEqual(self.dpo("report", checkpoint, status=1).stderr,
                             f"error: '{checkpoint}' is not the folder of a run: it has no metrics.jsonl; try 'one'\n")
        data = self.folder / "pairs.jsonl"
        data.write_text("{}\n")
        for runs in (["one"], ["one", "two"]):
            refused = self.dpo("report", *runs, "--output", "pairs.jsonl", status=1)
            self.assertIn("pairs.jsonl exists; choose another path, or remove it", refused.stderr)
            self.report(*runs, "--output", "both.html")  # an existing page is replaced
        self.assertEqual(data.read_text(), "{}\n")
        self.assertIn("9 runs given, but a page compares at most 8", self.dpo("report", *["one"] * 9, status=1).stderr)

    def test_runs_with_different_held_out_examples(self):
        for name, pairs, digest in (("a", 16, "01"), ("b", 16, "01"), ("c", 16, "02"), ("d", 5, "03")):
            plan = self.make_run(name, pairs=pairs) / "plan.json"
            plan.write_text(json.dumps({**json.loads(plan.read_text()), "held_out_sha256": digest}))
        same = self.report("a", "b", "--output", "same.html")
        self.assertNotIn("not comparable", same.text)
        for runs, differ in ((("a", "c"), "different held-out sets: 16 examples each, but not the same ones; not comparable"),
                             (("a", "b", "d"), "different held-out sets: 5 and 16 examples; not comparable")):
            page = self.report(*runs, "--output", "differ.html")
            self.assertLess(page.text.index(differ), page.text.index("loss function"))
            for title in ("loss", "reward accuracy", "reward margin"):
                self.assertIn(f"{title}, held out ({differ})", page.charts())
            self.assertIn("loss, training", page.charts())
            for note in ("set 1", "set 2"):
                self.assertIn(note, page.text)


if __name__ == "__main__":
    unittest.main()

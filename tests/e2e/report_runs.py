"""Helpers of tests of reports: run folders made by hand, and dpo report on them."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from report_page import Page
from tiny_run import PROGRAM

HOSTILE = "</script></style></div>\"'`><img src=x onerror=alert(1)><script>alert(2)</script><!-- &amp; \u202e \x1b[31m"
TIME = "2026-11-17 04:25:00  "


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


class ReportRuns(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def dpo(self, *arguments, status=0):
        done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, cwd=self.folder)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def report(self, *arguments):
        return Page(self.folder / self.dpo("report", *arguments).stdout.rstrip("\n")).check()

    def make_run(self, name, text="plain", evaluations=(0, 160, 320), pairs=40, keys=()):
        """Writes a DPO run whose margins grow: (i - pairs / 4) * e for pair i at evaluation e."""
        run = self.folder / name
        (run / "eval").mkdir(parents=True)
        (run / "samples").mkdir()
        (run / "config.yaml").write_text(self.dpo(
            "config", "exp_name=secret_name", f"model.name_or_path={self.folder}/base", f"datasets=[{self.folder}/pairs.jsonl]",
            "loss=dpo", "loss.beta=0.1", f"local_dirs=[{self.folder}]", *keys).stdout)
        metrics = []
        for e, seen in enumerate(evaluations):
            metrics.append({"loss/eval": 0.6931 / (1 + e), "rewards_eval/accuracies": 0.72 if e else 0, "rewards_eval/margins": e,
                            "rewards_eval/chosen": e / 2, "rewards_eval/rejected": -e / 2, "counters/eval_examples": pairs,
                            "counters/examples": seen, "counters/updates": seen // 32})
            metrics.append({"loss/train": 0.5, "grad_norm": 3, "learning_rate": 1e-6, "examples_per_second": 100, "tokens_per_second": 9000,
                            "peak_memory_gib": 2, "counters/examples": seen + 32, "counters/updates": seen // 32 + 1})
            (run / f"eval/step-{seen}.jsonl").write_text(lines(
                {"example": i, "loss": 0.5, "logps": [-1, -2], "reference": [-1, -2], "tokens": [3, 4], "rewards": [(i - pairs // 4) * e, 0]}
                for i in range(pairs)))
            (run / f"samples/step-{seen}.jsonl").write_text(lines(
                {"prompt": f"{text} {i}", "policy": f"policy {e} {text}", "reference": f"reference {text}"} for i in range(3)))
        (run / "metrics.jsonl").write_text(lines(metrics))
        (run / "eval_examples.jsonl").write_text(lines(
            {"example": i, "prompt": f"Human: {i}?\n\n{text}", "responses": [f"good {i} {text}", f"bad {i} {text}"]} for i in range(pairs)))
        (run / "plan.json").write_text(json.dumps(
            {"rules": [{"id": "lr", "verdict": "warning", "message": text}],
             "time": {"updates": 10, "evaluations": 3, "step_seconds": 0.16, "examples_per_second": 200, "tokens_per_second": 10000,
                      "training_hours": 1, "model_flops_utilization": 0.4},
             "memory": {"total_bytes": 2 ** 30}, "resolved": {"batch_size": 32}, "commits": {text: "0123abcd"}}))
        (run / "environment.json").write_text(json.dumps({"dpo": "0.1", "CPU": text}))
        (run / "log.txt").write_text(f"{TIME}dpo 0.1\n{TIME}run folder {run}\n{TIME}warning: {text}\n{TIME}done: 10 updates, 320 examples\n")
        return run

    def make_long_run(self):
        """Writes a run of 10,000 evaluations of 1,000 pairs."""
        run = self.make_run("long", "word " * 500, evaluations=(0, 32), pairs=1000)
        records, samples = run / "eval/step-32.jsonl", run / "samples/step-32.jsonl"
        with open(run / "metrics.jsonl", "a") as metrics:
            for i in range(2, 10_000):
                os.link(records, run / f"eval/step-{32 * i}.jsonl")
                os.link(samples, run / f"samples/step-{32 * i}.jsonl")
                metrics.write(lines([{"loss/eval": 1 / i, "rewards_eval/accuracies": 0.9, "rewards_eval/margins": 1, "counters/examples": 32 * i},
                                     {"loss/train": 1 / i, "grad_norm": 1, "counters/examples": 32 * i + 32, "counters/updates": i,
                                      **{f"logps_train/{name}": 1 / i for name in range(15)}}]))
        return run

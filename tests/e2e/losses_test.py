"""Trains with every preset of configs/loss. Before the first update, each loss equals its formula at D = 0."""

import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import tiny_run

PROGRAM = os.environ["DPO_PROGRAM"]
PRESETS = sorted(p.stem for p in Path(os.environ["DPO_SOURCE_DIR"], "configs/loss").glob("*.yaml"))
BETA = 0.1
LN2 = math.log(2)
HALF = 1 / (2 * BETA)
# With policy = reference, u = v = 0. Losses without a reference start at a value that depends on the model.
AT_START = {"dpo": LN2, "ipo": HALF**2, "hinge": 1, "robust": LN2, "nca_pair": 2 * LN2, "sppo_hard": 2 * HALF**2,
            "exo_pair": -LN2 - 0.5 * (math.log(1 - 1e-3) + math.log(1e-3)), "apo_zero": 1, "apo_down": 1,
            "discopop": 0.5 * LN2 + 0.5, "sigmoid_norm": LN2, "bco_pair": 2 * LN2, "aot": LN2, "kto": 0.5,
            "plackett_luce": LN2}
WITHOUT_REFERENCE = {"sft", "simpo", "cpo", "orpo"}


class Losses(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.scratch.name)
        source = cls.folder / "source"
        source.mkdir()
        (source / "config.json").write_text(json.dumps(tiny_run.CONFIG))
        tiny_run.make_tokenizer(source)
        subprocess.run([PROGRAM, "init", source, cls.folder / "model"], check=True, capture_output=True)
        tiny_run.make_data(cls.folder / "pairs.jsonl", 300)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def train(self, loss, *more, data="pairs.jsonl"):
        return [line["loss/train"] for line in self.metrics(loss, *more, data=data)]

    def metrics(self, loss, *more, data="pairs.jsonl"):
        run = Path(tempfile.mkdtemp(dir=self.folder))
        beta = [] if loss == "sft" else [f"loss.beta={BETA}"]
        done = subprocess.run(
            [PROGRAM, "train", "model=blank_model", f"model.name_or_path={self.folder / 'model'}",
             f"datasets=[{self.folder / data}]", f"loss={loss}", *beta, "exp_name=e", f"local_dirs=[{self.folder}]",
             f"local_run_dir={run}", "batch_size=8", "n_examples=32", "eval_every=null", "sample_during_eval=false",
             "lr=1e-3", "warmup_steps=0",
             "max_length=32", "max_prompt_length=16", "minimum_log_interval_secs=0", *more],
            capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]

    def test_every_preset_trains(self):
        self.assertEqual(set(PRESETS), set(AT_START) | WITHOUT_REFERENCE)
        for loss in PRESETS:
            with self.subTest(loss=loss):
                losses = self.train(loss)
                self.assertEqual(len(losses), 4)
                self.assertTrue(all(math.isfinite(x) for x in losses), losses)
                self.assertEqual(len(set(losses)), 4, "nothing moved")
                if loss in AT_START:
                    self.assertAlmostEqual(losses[0], AT_START[loss], places=6)

    def test_microbatches_change_nothing(self):
        """Dividing a batch changes nothing, also for losses that compare examples or look at the whole batch."""
        for loss in ("aot", "kto", "bco_pair", "orpo", "plackett_luce"):
            with self.subTest(loss=loss):
                for one, other in zip(self.train(loss), self.train(loss, "gradient_accumulation_steps=4")):
                    self.assertAlmostEqual(one, other, delta=1e-5 * abs(one))

    def test_evaluation_compares_the_whole_batch(self):
        """The loss aot sorts over the evaluation's batch, however it is divided."""
        words = ("loss.beta=3", "data.test_share=0.2", "eval_every=8", "eval_batch_size=16", "n_eval_examples=16",
                 "do_first_eval=false")
        runs = [[line["loss/eval"] for line in self.metrics("aot", *words, *more) if "loss/eval" in line]
                for more in ([], ["gradient_accumulation_steps=4"])]
        self.assertEqual(len(runs[0]), 4)
        for one, other in zip(*runs):
            self.assertNotEqual(one, LN2)
            self.assertAlmostEqual(one, other, delta=1e-4 * one)

    def test_nothing_to_evaluate_is_said_before_anything_is_made(self):
        with self.assertRaisesRegex(AssertionError, "fell into the test split"):
            self.train("dpo", "eval_every=1000", "data.test_share=0", f"local_run_dir={self.folder / 'not-made'}")
        self.assertFalse((self.folder / "not-made").exists())

    def test_a_ranking_of_two_is_dpo(self):
        """Both losses give the same batches, metrics and gradient norms in the whole program, up to rounding."""
        times = ("examples_per_second", "tokens_per_second", "peak_memory_gib", "mfu")
        for one, other in zip(self.metrics("dpo"), self.metrics("plackett_luce")):
            self.assertEqual(one.keys(), other.keys())
            for name in one.keys() - set(times):
                self.assertAlmostEqual(one[name], other[name], delta=1e-6 * max(1, abs(one[name])), msg=name)

    def test_tails_that_count_less(self):
        """Sets loss.length_alpha. Before the first update only the log-probabilities change, since the reference is
        weighted alike. With 0 both responses count as many tokens."""
        whole, part, head = (self.metrics("dpo", f"loss.length_alpha={alpha}")[:2] for alpha in (1, 0.5, 0))
        for run in (whole, part, head):
            self.assertAlmostEqual(run[0]["loss/train"], LN2, places=6)
        self.assertNotEqual(whole[1]["loss/train"], part[1]["loss/train"])
        for name in ("logps_train/chosen", "logps_train/rejected"):
            self.assertAlmostEqual(part[0][name], (whole[0][name] + head[0][name]) / 2, places=4)
            self.assertLess(whole[0][name], head[0][name])

    def test_weights_and_margins(self):
        """A weight scales the loss of its pair, and a margin shifts it. A loss without margins rejects them."""
        rows = [json.loads(line) for line in (self.folder / "pairs.jsonl").read_text().splitlines()]
        write = lambda name, **more: (self.folder / name).write_text(
            "".join(json.dumps({**row, **more}) + "\n" for row in rows))
        write("half.jsonl", weight=0.5)
        write("ahead.jsonl", margin=0.25)
        self.assertAlmostEqual(self.train("dpo", data="half.jsonl")[0], LN2 / 2, places=6)
        self.assertAlmostEqual(self.train("dpo", data="ahead.jsonl")[0], math.log(1 + math.exp(0.25)), places=6)
        self.assertAlmostEqual(self.train("hinge", data="ahead.jsonl")[0], 1.25, places=6)
        with self.assertRaisesRegex(AssertionError, r"\d+ pairs with a margin, which loss=ipo does not use"):
            self.train("ipo", data="ahead.jsonl")
        write("bad.jsonl", weight=-1)
        with self.assertRaisesRegex(AssertionError, r"bad.jsonl:1: 'weight' is -1, expected a number >= 0"):
            self.train("dpo", data="bad.jsonl")

    def test_rankings(self):
        """Ranks three and four responses. With policy = reference all orders have the same probability, 1/3! or
        1/4!."""
        rows = [json.loads(line) for line in (self.folder / "pairs.jsonl").read_text().splitlines()]
        with (self.folder / "rankings.jsonl").open("w") as file:
            for i, row in enumerate(rows[:200]):
                length = 3 + i % 2
                texts = [rows[i + k]["chosen"] for k in range(length)]
                file.write(json.dumps({"prompt": row["prompt"], "responses": texts, "scores": [-k for k in range(length)]})
                           + "\n")
        runs = [self.metrics("plackett_luce", "data.test_share=0.1", *more, data="rankings.jsonl")
                for more in ([], ["gradient_accumulation_steps=2", "activation_checkpointing=true"])]
        possible = [(k * math.log(6) + (8 - k) * math.log(24)) / 8 for k in range(9)]
        self.assertLess(min(abs(runs[0][0]["loss/train"] - x) for x in possible), 1e-6)
        for one, other in zip(*runs):
            self.assertAlmostEqual(one["loss/train"], other["loss/train"], delta=1e-5 * one["loss/train"])
            self.assertAlmostEqual(one["grad_norm"], other["grad_norm"], delta=1e-4 * one["grad_norm"])


if __name__ == "__main__":
    if not Path(PROGRAM + "-engine").exists():
        print("not run: built without LibTorch")
        sys.exit(77)
    unittest.main()

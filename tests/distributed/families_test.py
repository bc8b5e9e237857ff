"""Trains a small random model of every family with SFT and DPO. Two tensor-parallel ranks compute what one process
does.

    families_test.py [DEVICE]      with cuda: on the GPU, bfloat16 against float32
"""

import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE.parent / "parity"), str(HERE.parent / "e2e")]

import torch  # noqa: E402

import tiny_models  # noqa: E402
import tiny_run  # noqa: E402
from ranks import need_mpirun  # noqa: E402

PROGRAM = os.environ["DPO_PROGRAM"]
DEVICE = sys.argv.pop(1) if len(sys.argv) > 1 else "cpu"
UPDATES = 10
RUNS_AT_ONCE = max(1, len(os.sched_getaffinity(0)) // 2)
COMPARED, TOLERANCE = (2, 0.02) if DEVICE == "cuda" else (UPDATES, 1e-4)
TWO_RANKS = ["trainer=TensorParallelTrainer", "mesh.tensor=2"]
BFLOAT16 = ["model.fsdp_policy_mp=bfloat16"]
# These families have routers, which rounding can make choose other experts, also on a CPU.
EXPERTS, EXPERTS_TOLERANCE = ("mixtral", "qwen3_moe", "olmoe"), 0.05


class Families(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.scratch.name)
        tiny_run.make_data(cls.folder / "pairs.jsonl", 100)
        for family in tiny_models.FAMILIES:
            tiny_run.make_tokenizer(tiny_models.make(family, cls.folder / family))

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def losses(self, model, loss, *more):
        run = Path(tempfile.mkdtemp(dir=self.folder))
        words = ["loss=sft"] if loss == "sft" else [f"loss={loss}", "loss.beta=0.5"]
        done = subprocess.run(
            [PROGRAM, "train", "model=blank_model", f"model.name_or_path={model}", f"datasets=[{self.folder / 'pairs.jsonl'}]",
             *words, "exp_name=e", f"local_dirs=[{self.folder}]", f"local_run_dir={run}", "batch_size=4",
             f"n_examples={4 * UPDATES}", "eval_every=null", "lr=1e-4", "warmup_steps=0", "max_length=32",
             "max_prompt_length=16", "minimum_log_interval_secs=0", "wandb.enabled=false", "tensorboard=false", *more],
            capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        losses = [json.loads(line)["loss/train"] for line in (run / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual(len(losses), UPDATES)
        self.assertTrue(all(math.isfinite(x) for x in losses), losses)
        return losses

    def both(self, family, loss):
        """Returns the losses of one process, and those of two ranks or in bfloat16."""
        model = self.folder / family
        other = BFLOAT16 if DEVICE == "cuda" else TWO_RANKS
        return self.losses(model, loss), self.losses(model, loss, *other)

    def check(self, loss):
        with ThreadPoolExecutor(RUNS_AT_ONCE) as runs:
            results = {family: runs.submit(self.both, family, loss) for family in tiny_models.FAMILIES}
        for family, result in results.items():
            with self.subTest(family=family):
                one, other = result.result()
                print(f"{family} {loss}: {one[0]:.4f} -> {one[-1]:.4f}, {other[0]:.4f} -> {other[-1]:.4f}")
                # Rounding errors grow from update to update, so bfloat16 is compared only before and after the first
                # update.
                tolerance = EXPERTS_TOLERANCE if DEVICE == "cuda" and family in EXPERTS else TOLERANCE
                for a, b in zip(one[:COMPARED], other[:COMPARED], strict=True):
                    self.assertAlmostEqual(a, b, delta=tolerance * max(1, abs(a)))

    def test_sft(self):
        self.check("sft")

    def test_dpo(self):
        self.check("dpo")


if __name__ == "__main__":
    if DEVICE == "cpu":
        need_mpirun()
    elif not torch.cuda.is_available():
        print("not run: there is no GPU")
        sys.exit(77)
    unittest.main()

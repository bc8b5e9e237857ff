"""Checks that the LibTorch of the program and the torch of the parity tests are one installation."""

import json
import os
import subprocess
import unittest
from pathlib import Path

import torch


class Installation(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        answer = subprocess.run([os.environ["DPO_PROGRAM"], "doctor", "--json"], check=True, capture_output=True)
        cls.libtorch = json.loads(answer.stdout)["libtorch"]

    def test_is_the_one_of_the_program(self) -> None:
        self.assertEqual(Path(torch.__file__).resolve().parent, Path(self.libtorch["folder"]).resolve())
        self.assertEqual(torch.__version__.split("+")[0], self.libtorch["version"])

    def test_computes_differentiates_and_optimizes(self) -> None:
        weights = torch.eye(3, requires_grad=True)
        optimizer = torch.optim.SGD([weights], lr=0.5)
        (weights @ torch.tensor([1.0, 2.0, 3.0])).sum().backward()
        optimizer.step()
        expected = torch.eye(3) - 0.5 * torch.tensor([1.0, 2.0, 3.0])
        torch.testing.assert_close(weights.detach(), expected)

    def test_asks_for_a_gpu_without_harm(self) -> None:
        self.assertEqual(torch.cuda.is_available(), torch.cuda.device_count() > 0)


if __name__ == "__main__":
    unittest.main()

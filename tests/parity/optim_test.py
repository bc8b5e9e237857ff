"""Fifty updates of every optimizer against torch.optim with its defaults."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

PROBE = os.environ["DPO_OPTIM_PROBE"]
STEPS = 50
SHAPES = [(7, 5), (11,), (3, 16)]


def check(name, lr):
    torch.manual_seed(3)
    weights = [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    start = {f"w.{i}": w.detach().clone() for i, w in enumerate(weights)}
    gradients = {f"g.{step}.{i}": torch.randn(shape) * 10 ** (step % 4 - 2) for step in range(STEPS)
                 for i, shape in enumerate(SHAPES)}
    optimizer = getattr(torch.optim, name)(weights, lr=lr)
    for step in range(STEPS):
        for i, w in enumerate(weights):
            w.grad = gradients[f"g.{step}.{i}"].clone()
        optimizer.step()
    with tempfile.TemporaryDirectory() as scratch:
        given, found = Path(scratch, "in.safetensors"), Path(scratch, "out.safetensors")
        save_file({**start, **gradients}, given)
        subprocess.run([PROBE, name, str(lr), given, found], check=True)
        ours = load_file(found)
    # Of the way that the weights went, not of their size.
    error = max(((ours[f"w.{i}"] - w).norm() / (w - start[f"w.{i}"]).norm()).item() for i, w in enumerate(weights))
    print(f"{name:10} lr {lr:g}: {error:.1e} of the way")
    assert error < 1e-5, name


def main():
    for name in ("RMSprop", "Adam", "AdamW", "SGD", "Adafactor"):
        check(name, 1e-2)
        check(name, 3e-4)
    return 0


if __name__ == "__main__":
    sys.exit(main())

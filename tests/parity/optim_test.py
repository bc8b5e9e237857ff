"""Fifty updates of every optimizer equal those of torch.optim, bit for bit, with its defaults and with other settings."""

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


def check(name, lr, **settings):
    torch.manual_seed(3)
    weights = [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    start = {f"w.{i}": w.detach().clone() for i, w in enumerate(weights)}
    gradients = {f"g.{step}.{i}": torch.randn(shape) * 10 ** (step % 4 - 2) for step in range(STEPS)
                 for i, shape in enumerate(SHAPES)}
    optimizer = getattr(torch.optim, name)(weights, lr=lr, **settings)
    for step in range(STEPS):
        for i, w in enumerate(weights):
            w.grad = gradients[f"g.{step}.{i}"].clone()
        optimizer.step()
    numbers = [*settings.get("betas", (None, None)), settings.get("eps"), settings.get("weight_decay")]
    words = ["null" if number is None else repr(number) for number in numbers]
    with tempfile.TemporaryDirectory() as scratch:
        given, found = Path(scratch, "in.safetensors"), Path(scratch, "out.safetensors")
        save_file({**start, **gradients}, given)
        subprocess.run([PROBE, name, str(lr), *words, given, found], check=True)
        ours = load_file(found)
    for i, w in enumerate(weights):
        # Relative to the distance that the weights moved, not to their size.
        error = ((ours[f"w.{i}"] - w).norm() / (w - start[f"w.{i}"]).norm()).item()
        assert torch.equal(ours[f"w.{i}"], w), f"{name} lr {lr:g} {settings}: off by {error:.1e} of the way"


def main():
    for name in ("RMSprop", "Adam", "AdamW", "SGD", "Adafactor"):
        check(name, 1e-2)
        check(name, 3e-4)
        check(name, 1e-2, weight_decay=0.3)
        check(name, 1e-2, weight_decay=0.0)
    for name in ("RMSprop", "Adam", "AdamW"):
        check(name, 1e-2, eps=1e-2)
        check(name, 3e-4, eps=1e-2, weight_decay=0.1)
    for name in ("Adam", "AdamW"):
        check(name, 1e-2, betas=(0.8, 0.95))
        check(name, 1e-2, betas=(0.0, 0.5))
        check(name, 1e-2, betas=(0.3, 0.9), eps=1e-3, weight_decay=0.2)
    return 0


if __name__ == "__main__":
    sys.exit(main())

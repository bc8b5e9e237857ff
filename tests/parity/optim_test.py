"""Compares fifty updates of every optimizer with torch.optim, bit for bit, with its defaults and with other settings.

With optimizer state in 8 bits, they equal the block-wise algorithm that bitsandbytes publishes, written out here.
"""

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
    ours = updated(name, lr, settings, "null", {**start, **gradients})
    for i, w in enumerate(weights):
        # The error is relative to the distance that the weights moved, not to their size.
        error = ((ours[f"w.{i}"] - w).norm() / (w - start[f"w.{i}"]).norm()).item()
        assert torch.equal(ours[f"w.{i}"], w), f"{name} lr {lr:g} {settings}: off by {error:.1e} of the way"


def updated(name, lr, settings, state, tensors):
    numbers = [*settings.get("betas", (None, None)), settings.get("eps"), settings.get("weight_decay")]
    words = ["null" if number is None else repr(number) for number in numbers]
    with tempfile.TemporaryDirectory() as scratch:
        given, found = Path(scratch, "in.safetensors"), Path(scratch, "out.safetensors")
        save_file(tensors, given)
        subprocess.run([PROBE, name, str(lr), *words, state, given, found], check=True)
        return load_file(found)


def dynamic_map(signed):
    """Returns the 8-bit numbers: 0, 1 and seven decades of the middles of 1, 2, 4, ... equal parts of [0.1, 1]. Without
    signs there are twice as many parts."""
    values = [0.0, 1.0]
    for decade in range(7):
        borders = torch.linspace(0.1, 1, (1 if signed else 2) * 2 ** decade + 1)
        middles = ((borders[:-1] + borders[1:]) / 2 * 10 ** (decade - 6)).tolist()
        values += middles + [-value for value in middles if signed]
    return torch.tensor(sorted(values))


class Eight:
    """Holds an array in 8 bits, in blocks of 256."""

    def __init__(self, count, signed):
        self.map, self.absmax = dynamic_map(signed), torch.zeros(count // 256, 1)
        self.codes = torch.zeros(count // 256, 256, dtype=torch.long)

    def load(self):
        return (self.map[self.codes] * self.absmax).flatten()

    def store(self, values):
        blocks = values.view(-1, 256)
        self.absmax = blocks.abs().amax(1, keepdim=True)
        distance = (blocks / self.absmax).unsqueeze(-1) - self.map
        # A negative number does not become 0. Without signs, no nonzero number does.
        nonzero = blocks < 0 if self.map[0] < 0 else blocks > 0
        keeps_sign = ~(nonzero.unsqueeze(-1) & (self.map == 0))
        self.codes = torch.where(keeps_sign, distance.abs(), 9).argmin(-1)


def check_eight_bits(name, lr, decay=0.0):
    torch.manual_seed(4)
    count, eps = 1024, 1e-8
    w = torch.randn(count)
    tensors = {"w.0": w.clone(), **{f"g.{step}.0": torch.randn(count) * torch.linspace(1e-3, 1, count) for step in range(STEPS)}}
    average, square = Eight(count, True), Eight(count, False)
    for step in range(STEPS):
        g = tensors[f"g.{step}.0"]
        if name == "RMSprop":
            s = square.load() * 0.99 + 0.01 * g * g
            w = w - lr * g / (s.sqrt() + eps)
        else:
            a, s = torch.lerp(average.load(), g, 0.1), square.load() * 0.999 + 0.001 * g * g
            correction1, correction2 = 1 - 0.9 ** (step + 1), 1 - 0.999 ** (step + 1)
            w = w * (1 - lr * decay) - lr / correction1 * a / (s.sqrt() / correction2 ** 0.5 + eps)
            average.store(a)
        square.store(s)
    ours = updated(name, lr, {"weight_decay": decay}, "8bit", tensors)["w.0"]
    # Another order of summation may move a number to the next code. Such numbers are few, and the change is small.
    error = ((ours - w).norm() / (w - tensors["w.0"]).norm()).item()
    assert error < 1e-3, f"{name} with 8 bits: off by {error:.1e} of the way"
    exact = updated(name, lr, {"weight_decay": decay}, "float32", tensors)["w.0"]
    rounding = ((exact - w).norm() / (w - tensors["w.0"]).norm()).item()
    assert 0.005 < rounding < 0.2, f"{name}: 8 bits change the way by {rounding:.1e}"


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
    check_eight_bits("RMSprop", 1e-3)
    check_eight_bits("Adam", 1e-3)
    check_eight_bits("AdamW", 1e-3, decay=0.1)
    return 0


if __name__ == "__main__":
    sys.exit(main())

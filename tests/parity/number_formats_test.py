"""Compares quantized matrices: nf4 with bitsandbytes, int8 and fp8 with torch.

Codes, scales and values equal bitsandbytes' bit for bit, with one exception. On a CPU, bitsandbytes finds the 8-bit
codes of scales in a table that is a little coarse, so a scale in the middle between two numbers gets the other one. On
a GPU, and in its definition, it gets the nearest.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

try:
    import bitsandbytes.functional as bnb
except ImportError:
    print("not run: bitsandbytes is not in the test environment")
    sys.exit(77)

PROBE = os.environ["DPO_NUMBER_FORMATS_PROBE"]


def parts_of(matrices, dtype):
    with tempfile.TemporaryDirectory() as scratch:
        given, found = Path(scratch, "in.safetensors"), Path(scratch, "out.safetensors")
        save_file(matrices, given)
        subprocess.run([PROBE, dtype, given, found], check=True)
        return load_file(found)


def matrices():
    torch.manual_seed(4)
    made = {f"{rows}x{columns}": torch.randn(rows, columns) * 0.02 for rows, columns in ((1, 64), (64, 64), (96, 384), (300, 1024))}
    made["outliers"] = torch.randn(256, 256) * torch.exp(2 * torch.randn(256, 256))
    made["zeros"] = torch.cat([torch.zeros(8, 128), torch.randn(8, 128)])
    made["levels"] = bnb.get_4bit_type("nf4", "cpu").repeat(64, 16)
    return made | {name + "/bf16": matrix.bfloat16() for name, matrix in made.items()}


def check_nf4(name, matrix, ours):
    packed, state = bnb.quantize_4bit(matrix, blocksize=64, compress_statistics=True, quant_type="nf4")
    codes, scales, nested, offset, values = (ours[f"{name}.{part}"] for part in ("codes", "scales", "nested", "offset", "values"))
    assert torch.equal(codes, packed.flatten()), f"{name}: codes"
    # The mean of the scales is summed in another order.
    assert abs(offset.item() - state.offset.item()) <= 2e-7 * state.offset.item(), f"{name}: offset"
    relative = bnb.quantize_4bit(matrix, blocksize=64, quant_type="nf4")[1].absmax - offset
    blocks = torch.nn.functional.pad(relative, (0, -len(relative) % 256)).view(-1, 256)
    assert torch.equal(nested, blocks.abs().amax(1)), f"{name}: scales of scales"
    numbers = state.state2.code
    nearest = (relative / nested.clamp(min=1e-38).repeat_interleave(256)[:len(relative)])[:, None].sub(numbers).abs()
    ours_distance = nearest.gather(1, scales.long()[:, None])[:, 0]
    assert (ours_distance <= nearest.amin(1) + 1e-7).all(), f"{name}: codes of scales"
    if torch.equal(offset, state.offset.view(1)) and nested.min() > 0:  # zeros have the same value with any code
        other = (scales.int() - state.absmax.int()).abs()
        assert other.max() <= 1 and (other > 0).float().mean() < 0.02, f"{name}: codes of scales"
    # bitsandbytes computes the same values from the same codes.
    state.absmax, state.offset, state.state2.absmax = scales, offset[0], nested
    assert torch.equal(values, bnb.dequantize_4bit(packed, state)), f"{name}: values"


def check_rows(name, matrix, ours, dtype):
    largest = 127 if dtype == "int8" else 448
    wide = matrix.float()
    scales = wide.abs().amax(1) * torch.tensor(1 / largest)
    scaled = wide / scales.clamp(min=1e-38)[:, None]
    codes = scaled.round().to(torch.int8) if dtype == "int8" else scaled.to(torch.float8_e4m3fn)
    assert torch.equal(ours[f"{name}.scales"], scales), f"{name}: scales"
    assert torch.equal(ours[f"{name}.codes"], codes.view(torch.uint8).flatten()), f"{name}: codes"
    assert torch.equal(ours[f"{name}.values"], (codes.float() * scales[:, None]).to(matrix.dtype)), f"{name}: values"


def main():
    given = matrices()
    ours = parts_of(given, "nf4")
    for name, matrix in given.items():
        check_nf4(name, matrix, ours)
    for dtype in ("int8", "fp8"):
        ours = parts_of(given, dtype)
        for name, matrix in given.items():
            check_rows(name, matrix, ours, dtype)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs with adapter.base_dtype, whose frozen matrices are quantized. LoRA over them equals LoRA over a model with the
dequantized values, computed here from the published definitions of the formats."""

import json
import shutil
import struct
import subprocess

from tiny_run import PROGRAM, TinyRuns, main

LORA = ["adapter=lora", "adapter.r=4", "lr=1e-2", "n_examples=80"]
NF4 = [*LORA, "adapter.base_dtype=nf4"]
LEVELS = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
          -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
          0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]


def single(number):
    """Rounds to float32."""
    return struct.unpack("<f", struct.pack("<f", number))[0]


def dynamic_map():
    """Returns the 8-bit numbers: for each power of ten from -6 to 0, the middles of 1, 2, 4, ... 64 equal parts of
    [0.1, 1], and their negatives."""
    numbers = [0.0, 1.0]
    for power in range(7):
        for part in range(2 ** power):
            number = single(10.0 ** (power - 6) * (0.1 + 0.9 * (part + 0.5) / 2 ** power))
            numbers += [number, -number]
    return sorted(numbers)


def in_blocks(values, size, numbers):
    """Returns the largest absolute value of each block and, for each value, the nearest of the numbers relative to
    it."""
    nearest, scales = [], []
    for begin in range(0, len(values), size):
        block = values[begin:begin + size]
        scales.append(max(map(abs, block)))
        nearest += [min(numbers, key=lambda number: abs(value / scales[-1] - number)) for value in block]
    return nearest, scales


def nf4(values, _):
    """Rounds to NF4 in blocks of 64. Scales have their mean subtracted and 8 bits in blocks of 256."""
    levels, scales = in_blocks(values, 64, LEVELS)
    mean = single(sum(scales) / len(scales))
    relative, nested = in_blocks([single(scale - mean) for scale in scales], 256, dynamic_map())
    scales = [single(single(number * nested[i // 256]) + mean) for i, number in enumerate(relative)]
    return [single(single(level) * scales[i // 64]) for i, level in enumerate(levels)]


def int8(values, columns):
    """Rounds to int8 with a scale for each row."""
    result = []
    for begin in range(0, len(values), columns):
        row = values[begin:begin + columns]
        scale = single(max(map(abs, row)) * single(1 / 127))
        result += [single(round(single(value / scale)) * scale) for value in row]
    return result


def tensors_of(file):
    """Returns name, shape, and the range of the values in the file's bytes."""
    data = file.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    return [(name, tensor["shape"], *(8 + size + offset for offset in tensor["data_offsets"]))
            for name, tensor in json.loads(data[8:8 + size]).items() if name != "__metadata__"]


def values_of(file):
    data = file.read_bytes()
    return {name: struct.unpack(f"<{(end - begin) // 4}f", data[begin:end]) for name, _, begin, end in tensors_of(file)}


class SmallBase(TinyRuns):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.whole = cls.folder / "whole"
        cls.check(cls.train(cls.whole, *NF4, "adapter.merge_on_save=true"))

    @staticmethod
    def adapter(run):
        return run / "LATEST" / "adapter_model.safetensors"

    def first_loss(self, run):
        return next(line for line in self.metrics(run) if "grad_norm" in line)["loss/train"]

    def rounded_model(self, name, rounded):
        """Saves the model with the matrices of its layers rounded."""
        folder = self.folder / name
        shutil.copytree(self.folder / "model", folder)
        file = folder / "model.safetensors"
        data = bytearray(file.read_bytes())
        for tensor, shape, begin, end in tensors_of(file):
            if tensor.startswith("model.layers.") and len(shape) == 2:
                values = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
                data[begin:end] = struct.pack(f"<{len(values)}f", *rounded(values, shape[1]))
        file.write_bytes(data)
        return folder

    def test_int8_trains_as_over_the_same_values(self):
        small, plain = self.folder / "int8", self.folder / "plain-int8"
        self.check(self.train(small, *LORA, "adapter.base_dtype=int8"))
        self.check(self.train(plain, *LORA, f"model.name_or_path={self.rounded_model('model-int8', int8)}"))
        self.assertEqual(self.adapter(small).read_bytes(), self.adapter(plain).read_bytes())
        self.assertEqual([line["loss/train"] for line in self.metrics(small) if "grad_norm" in line],
                         [line["loss/train"] for line in self.metrics(plain) if "grad_norm" in line])

    def test_nf4_trains_as_over_the_same_values(self):
        # The 8-bit map in use differs from its definition in the last bit of some numbers. SGD is used because
        # optimizers that divide by the gradient's size turn rounding into full updates.
        small, plain, other = (self.folder / name for name in ("small-nf4", "plain-nf4", "plain"))
        sgd = [*LORA, "optimizer=SGD", "lr=0.05"]
        self.check(self.train(small, *sgd, "adapter.base_dtype=nf4"))
        self.check(self.train(plain, *sgd, f"model.name_or_path={self.rounded_model('model-nf4', nf4)}"))
        self.check(self.train(other, *sgd))
        expected, found, unquantized = (values_of(self.adapter(run)) for run in (plain, small, other))
        self.assertEqual(len([line for line in self.metrics(plain) if "grad_norm" in line]), 20)
        distance = lambda one, two: max(abs(a - b) for name in one for a, b in zip(one[name], two[name]))
        self.assertLess(distance(found, expected), 1e-6)
        self.assertGreater(distance(found, unquantized), 1e-4)

    def test_the_policy_begins_as_the_reference(self):
        for words in (["reference=live"], ["reference=cached"], ["adapter.base_dtype=fp8"], ["adapter.dora=true"],
                      ["adapter.modules_to_save=[down_proj]", "adapter.targets=[q_proj]"]):
            run = self.folder / f"begins-{len(list(self.folder.glob('begins-*')))}"
            self.check(self.train(run, *NF4, *words))
            self.assertAlmostEqual(self.first_loss(run), 0.6931472, places=6, msg=words)

    def test_an_sft_adapter_is_trained_further(self):
        run = self.folder / "further"
        self.check(self.train(run, *NF4, f"model.archive={self.whole / 'LATEST'}"))
        self.assertAlmostEqual(self.first_loss(run), 0.6931472, places=5)

    def test_a_stopped_run_ends_with_the_same_bits(self):
        run = self.folder / "stopped"
        self.stop_at(run, 8, *NF4)
        done = self.train(run, *LORA, "adapter.base_dtype=int8", f"resume={run}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("adapter.base_dtype is nf4", done.stderr)
        self.check(self.train(run, *NF4, f"resume={run}"))
        self.assertEqual(self.adapter(run).read_bytes(), self.adapter(self.whole).read_bytes())

    def test_merges_into_the_weights_of_the_files(self):
        merged = self.folder / "merged"
        done = subprocess.run([PROGRAM, "merge", self.folder / "model", self.whole / "LATEST", merged], capture_output=True, text=True)
        self.check(done)
        self.assertEqual((merged / "model.safetensors").read_bytes(), (self.whole / "merged" / "model.safetensors").read_bytes())

    def test_random_weights(self):
        words = [word for word in self.train_command(self.folder / "bench", *NF4) if not word.startswith("local_run_dir")]
        done = subprocess.run([PROGRAM, "bench", *words[1:], "--json"], capture_output=True, text=True)
        self.check(done)
        self.assertGreater(json.loads(done.stdout)["pairs_per_second"], 0)

    def test_needs_an_adapter(self):
        done = self.train(self.folder / "none", "adapter.base_dtype=nf4")
        self.assertEqual(done.returncode, 1)
        self.assertIn("adapter.base_dtype applies only to adapter=lora", done.stderr)


if __name__ == "__main__":
    main()

"""Compares the order of examples with Python's and NumPy's random numbers, for many seeds, sizes and epochs."""

import tempfile
import unittest
from pathlib import Path

import data_reference as reference
from data_program import order, write_lines


class Order(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def check(self, prompts: int, pairs: int, **limits) -> None:
        rows = [{"prompt": f"p{i}", "chosen": f"c{i} {k}", "rejected": f"r{i} {k}"}
                for i in range(prompts) for k in range(1 + i % pairs)]
        file = write_lines(self.folder / "rows.jsonl", rows)
        entries: dict[str, reference.Entry] = {}
        for row in rows:
            entry = entries.setdefault(row["prompt"], reference.Entry())
            first = len(entry.responses)
            entry.responses += [row["chosen"], row["rejected"]]
            entry.pairs.append((first, first + 1))
            entry.target = row["chosen"]
        sft = limits.pop("sft", False)
        wanted = [e for b in reference.batches([(entries, "keep_start")], sft=sft, **limits) for e in b]
        seed = limits.pop("seed", 0)
        words = [f"{key}={'null' if value is None else value}" for key, value in limits.items()]
        got = order(10**9, f"datasets=[{file}]", "data.test_share=0", f"data_seed={seed}",
                    f"loss={'sft' if sft else 'dpo'}", *words)
        self.assertEqual([(e["prompt"], e["chosen"], e.get("rejected")) for e in got],
                         [(e.prompt, e.chosen, e.rejected) for e in wanted])
        self.assertTrue(wanted)

    def test_seeds_and_sizes(self) -> None:
        for seed in (0, 1, 42, 2**31, 2**32 - 1):
            for prompts in (1, 2, 3, 7, 64, 65, 1000):
                with self.subTest(seed=seed, prompts=prompts):
                    self.check(prompts, 1, seed=seed, batch_size=1, n_epochs=2, n_examples=None)

    def test_epochs_shuffle_what_was_shuffled(self) -> None:
        self.check(100, 1, batch_size=7, n_epochs=6, n_examples=None)

    def test_pairs_of_a_prompt_follow_each_other(self) -> None:
        self.check(50, 4, batch_size=8, n_epochs=3, n_examples=None)

    def test_sft_has_one_example_a_prompt(self) -> None:
        self.check(50, 4, sft=True, batch_size=8, n_epochs=2, n_examples=None)

    def test_whichever_ends_first(self) -> None:
        self.check(30, 2, batch_size=4, n_epochs=2, n_examples=33)
        self.check(30, 2, batch_size=4, n_epochs=1, n_examples=1000)
        self.check(30, 2, batch_size=4, n_epochs=None, n_examples=200)

    def test_large(self) -> None:
        self.check(70_000, 1, batch_size=64, n_epochs=2, n_examples=None)


if __name__ == "__main__":
    unittest.main()

"""Checks benchmarks/fsdp_rule: its thresholds are where the planner's figures cross, and its measurement confirms the
plan if it is given times that follow the plan exactly."""

import os
import sys
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

SOURCE = Path(os.environ["DPO_SOURCE_DIR"])
sys.path.insert(0, str(SOURCE / "benchmarks"))
import fsdp_rule as rule


class Simulated(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_thresholds_are_where_the_gain_crosses(self):
        rows = rule.simulate(["h200"], [10, 100], self.folder)
        for name, link, wins, half, tokens in rows:
            device = rule.device_file(self.folder, name, link_gbytes_per_second=link)
            gain = lambda examples: rule.planned_gain(device, rule.GPUS, examples, tuple(rule.SIMULATED))
            self.assertGreater(gain(wins), 1)
            self.assertLessEqual(gain(wins - 1), 1)
            self.assertGreater(gain(half), rule.GPUS / 2)
            self.assertLessEqual(gain(half - 1), rule.GPUS / 2)
            self.assertAlmostEqual(tokens, 210, delta=1)  # tokens of a mean pair of HH
        slow, fast = rows
        self.assertGreater(slow[2], fast[2])

    def test_a_link_too_slow_is_said(self):
        (row,) = rule.simulate(["h200"], [0.01], self.folder)
        self.assertIsNone(row[2])
        self.assertEqual(rule.shown(row[2], row[4]), "more than 4096")

    def test_the_figure_is_xml_with_a_line_for_each(self):
        figure = rule.simulated_figure(rule.simulate(["h200"], [50, 100], self.folder))
        texts = [element.text for element in ElementTree.fromstring(figure).iter() if element.text]
        for line in ("h200: faster", "h200: half of 8 GPUs", "the original's rule"):
            self.assertIn(line, texts)

    def test_first_above(self):
        self.assertEqual(rule.first_above(lambda n: n, 5), 6)
        self.assertEqual(rule.first_above(lambda n: n + 5, 5), 1)
        self.assertEqual(rule.first_above(lambda n: n, rule.MOST_EXAMPLES - 1), rule.MOST_EXAMPLES)
        self.assertIsNone(rule.first_above(lambda n: n, rule.MOST_EXAMPLES))


class Measured(unittest.TestCase):
    """Replaces the clock by one that follows the plan of a core at half of its peak."""

    def test_times_as_planned_give_gains_as_planned(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)

            def planned_seconds(keys, trainer, ranks, examples, updates, link=5):
                device = rule.device_file(folder, "cpu", cores=1, efficiency=0.5, link_gbytes_per_second=link)
                return rule.plan(device, trainer, ranks, examples, keys)["step_seconds"]

            self.addCleanup(setattr, rule, "bench", rule.bench)
            rule.bench = planned_seconds
            rows = rule.measure([0.1, 2], [1, 8], 1, 2, folder)
        for link, examples, one, all_ranks, planned in rows:
            self.assertAlmostEqual(all_ranks / one, planned, places=2)
        self.assertLess(rows[0][4], 1)  # one pair per rank over 0.1 GB/s
        self.assertGreater(rows[-1][4], 1)  # eight pairs over 2 GB/s
        slow, fast = ([row for row in rows if row[0] == link] for link in (0.1, 2))
        self.assertIsNone(rule.wins_from(slow[:1], lambda row: row[4]))
        self.assertIsNotNone(rule.wins_from(fast, lambda row: row[4]))
        ElementTree.fromstring(rule.measured_figure(rows))


if __name__ == "__main__":
    unittest.main()

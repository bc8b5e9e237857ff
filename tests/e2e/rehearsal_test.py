"""Checks `dpo bench train --as`: one rank's share of runs of many ranks, in small. No times are compared."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tiny_run import PROGRAM, TinyRuns, main

sys.path.insert(0, str(Path(os.environ["DPO_SOURCE_DIR"]) / "benchmarks"))
import rehearsal

FAST = ("--link", "1000", "--network", "1000")


class Rehearsal(TinyRuns):
    def rehearse(self, machines, *arguments, **environment):
        words = [PROGRAM, "bench", "train", f"model.name_or_path={self.folder / 'model'}", "loss=dpo", "loss.beta=0.1", "max_length=64",
                 "max_prompt_length=32", "batch_size=8", "--updates", "2", "--as", machines, *map(str, arguments)]
        return subprocess.run(words, capture_output=True, text=True, env=os.environ | environment)

    def rehearsed(self, machines, *arguments):
        done = self.rehearse(machines, "--json", *arguments)
        self.check(done)
        return json.loads(done.stdout)

    def refused(self, machines, *arguments, **environment):
        done = self.rehearse(machines, *arguments, **environment)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        return done.stderr

    def test_each_batch_size_has_its_row(self):
        report = self.rehearsed("2x2xcpu", "trainer=FSDPTrainer", "mesh.replica=2", "reference=live", "gradient_accumulation_steps=2",
                                "--pairs-per-gpu", "2,1", *FAST)
        self.assertEqual((report["as"], report["ranks"]), ("2x2xcpu", 4))
        self.assertEqual(report["mesh"], {"replica": 2, "shard": 2, "tensor": 1})
        self.assertEqual((report["link_gbytes_per_second"], report["network_gbytes_per_second"]), (1000, 1000))
        rows = report["rehearsals"]
        self.assertEqual([row["examples_per_gpu"] for row in rows], [1, 2])
        self.assertEqual([row["batch_size"] for row in rows], [8, 16])
        for row in rows:
            self.assertEqual((len(row["seconds"]), len(row["instant_seconds"])), (2, 2))
            self.assertAlmostEqual(row["update_seconds"], sum(row["seconds"]) / 2)
            self.assertAlmostEqual(row["pairs_per_second"], row["batch_size"] / row["update_seconds"], delta=1e-6 * row["pairs_per_second"])
            self.assertAlmostEqual(row["pairs_per_second_per_gpu"], row["pairs_per_second"] / 4)
            self.assertGreater(row["communication_seconds"], 0)
            self.assertTrue(0 <= row["hidden"] <= 1)
            self.assertGreater(row["peak_gib"], 0)
            self.assertGreater(row["planned"]["update_seconds"], 0)
            self.assertGreater(row["planned"]["gib"], 0)

    def test_time_on_the_wires_is_that_of_the_bytes(self):
        seconds = lambda *arguments: self.rehearsed("4xcpu", "trainer=FSDPTrainer", *arguments)["rehearsals"][0]["communication_seconds"]
        slow, fast = seconds("--link", "0.1", "reference=cached"), seconds("--link", "0.2", "reference=cached")
        self.assertAlmostEqual(slow, 2 * fast, delta=0.01 * slow)
        every_pass = ("--link", "0.1", "fsdp_reshard=pass")
        self.assertGreater(seconds(*every_pass, "reference=live"), 1.1 * seconds(*every_pass, "reference=cached"))

    def test_every_kind_of_mesh_stays_finite(self):
        nf4 = ("adapter=lora", "adapter.base_dtype=nf4")
        for keys in (("trainer=TensorParallelTrainer", "mesh.replica=2"), ("trainer=FSDPTrainer", "mesh.tensor=2"),
                     ("trainer=FSDPTrainer", *nf4), ("trainer=FSDPTrainer", "mesh.shard=1", "mesh.replica=4"),
                     ("trainer=FSDPTrainer", "fsdp_accumulate=whole")):
            report = self.rehearsed("4xcpu", *keys, *FAST)
            self.assertGreater(report["rehearsals"][0]["communication_seconds"], 0, keys)

    def test_one_gpu_sends_nothing(self):
        (row,) = self.rehearsed("1xcpu")["rehearsals"]
        self.assertEqual((row["communication_seconds"], row["hidden"], row["batch_size"]), (0, 1, 8))

    def test_the_table_has_a_line_for_each_batch_size(self):
        done = self.rehearse("4xcpu", "trainer=FSDPTrainer", "--pairs-per-gpu", "1,2", "--link", "100")
        self.check(done)
        self.assertRegex(done.stdout, r"(?m)^One of 4 ranks of 4xcpu \(4 shards\), rehearsed: 100 GB/s between GPUs$")
        self.assertRegex(done.stdout, r"(?m)^ +1 +[\d.]+ s +[\d.]+ s .* GiB .* GiB +[\d.]+ +[\d.]+\n +2 ")

    def test_wrong_arguments_are_explained(self):
        self.assertIn("--as is 'h100', expected GPUSxDEVICE or MACHINESxGPUSxDEVICE, such as 8xh100", self.refused("h100"))
        self.assertIn("no device named 'h10'", self.refused("8xh10", "trainer=FSDPTrainer"))
        self.assertIn("--as is '0xh100', expected", self.refused("0xh100"))
        self.assertIn("expected at most 1000000 GPUs in all", self.refused("100000x100xh100", "trainer=FSDPTrainer"))
        self.assertIn("trainer=BasicTrainer is one process, but there are 8 ranks", self.refused("8xh100"))
        self.assertIn("mesh.shard=16 needs 16 ranks, but there are 8", self.refused("8xh100", "trainer=FSDPTrainer", "mesh.shard=16"))
        self.assertIn("--link is 0, expected GB/s", self.refused("8xh100", "trainer=FSDPTrainer", "--link", "0"))
        self.assertIn("--pairs-per-gpu", self.refused("8xh100", "trainer=FSDPTrainer", "--pairs-per-gpu", "0"))
        self.assertIn("cannot be given together with", self.refused("2xcpu", "trainer=FSDPTrainer", "--profile"))
        ranks = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
        self.assertIn("--as rehearses one rank in one process, but 2 processes were started", self.refused("2xcpu", "trainer=FSDPTrainer", **ranks))
        alone = subprocess.run([PROGRAM, "bench", "train", "model=pythia28", "--link", "5"], capture_output=True, text=True)
        self.assertIn("--link is given without --as, which it needs", alone.stderr)


class Script(TinyRuns):
    """Checks benchmarks/rehearsal.py with a clock that follows the plan."""

    def test_comparison_of_equal_times_is_exact(self):
        self.addCleanup(setattr, rehearsal, "measured", rehearsal.measured)
        rehearsal.measured = lambda *_: 2.0
        rows = rehearsal.compare([0.1, 1], [1, 2], 1, 1)
        self.assertEqual([row[:2] for row in rows], [(0.1, 1), (0.1, 2), (1, 1), (1, 2)])
        self.assertEqual({row[4] for row in rows}, {0})


if __name__ == "__main__":
    main()

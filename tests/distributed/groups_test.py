"""Groups over MPI: every collective operation in every dtype, with several numbers of ranks, whole and in small
pieces."""

import os
import unittest

from ranks import main, mpirun, run

PROBE = os.environ["DPO_GROUP_PROBE"]


class Groups(unittest.TestCase):
    def check(self, ranks, *arguments):
        done = run(mpirun(ranks, PROBE, "cpu", *arguments))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, f"{ranks} ranks, {ranks} here: all operations correct\n")

    def test_every_operation(self):
        for ranks in (1, 2, 3, 4):
            with self.subTest(ranks=ranks):
                self.check(ranks)

    def test_in_pieces(self):
        """Small limits divide every operation into many MPI calls, as gigabytes do."""
        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                self.check(ranks, 4096, 10_000)


if __name__ == "__main__":
    main()

"""Groups over MPI: every exchange in every type at several numbers of ranks, in one go and in small pieces."""

import os
import unittest

from ranks import main, mpirun, run

PROBE = os.environ["DPO_GROUP_PROBE"]


class Groups(unittest.TestCase):
    def check(self, ranks, *arguments):
        done = run(mpirun(ranks, PROBE, "cpu", *arguments))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, f"{ranks} ranks, {ranks} here: all exchanges as they should be\n")

    def test_every_exchange(self):
        for ranks in (1, 2, 3, 4):
            with self.subTest(ranks=ranks):
                self.check(ranks)

    def test_in_pieces(self):
        """Limits that divide every exchange in many calls, as an exchange of gigabytes is."""
        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                self.check(ranks, 4096, 10_000)


if __name__ == "__main__":
    main()

"""A rank that is killed, stopped or fails ends all others, with its name and its last words, and leaves no process."""

import os
import re
import signal
import subprocess
import tempfile
import time
import unittest
import uuid

from ranks import main, mpirun, processes_of, wait_until

PROBE = os.environ["DPO_WATCH_PROBE"]
RANKS = 4
# The launcher is told to leave the end to the ranks, so that what ends them is the watch and nothing else.
ALONE = ("--mca", "orte_abort_on_non_zero_status", "0", "--continuous")


class Failures(unittest.TestCase):
    def start(self, seconds, failure, culprit, options=()):
        """Starts ranks; waits until all of them work. Their ids, by rank."""
        self.mark = f"DPO_TEST_MARK={uuid.uuid4()}"
        name, _, value = self.mark.partition("=")
        self.out, self.err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        self.addCleanup(self.out.close)
        self.addCleanup(self.err.close)
        self.ranks = subprocess.Popen(mpirun(RANKS, PROBE, seconds, failure, culprit, options=options), stdout=self.out,
                                      stderr=self.err, env=os.environ | {name: value})
        self.addCleanup(self.end)
        pids = {}

        def all_work():
            self.assertIsNone(self.ranks.poll() if failure == "wait" else None, self.said())
            for rank, pid in re.findall(r"rank (\d+) pid (\d+) works", self.text(self.out)):
                pids[int(rank)] = int(pid)
            return len(pids) == RANKS

        wait_until(all_work, "all ranks work")
        return pids

    def end(self):
        self.ranks.kill()
        self.ranks.wait()
        for pid in processes_of(self.mark):
            os.kill(pid, signal.SIGKILL)

    @staticmethod
    def text(file):
        file.seek(0)
        return file.read()

    def said(self):
        return self.text(self.err)

    def check_end(self, culprit, words, pid=None):
        """All ranks end, with a status that is not 0, and every other one knows why."""
        wait_until(lambda: self.ranks.poll() is not None, "the launcher ends")
        self.assertNotEqual(self.ranks.returncode, 0)
        wait_until(lambda: not processes_of(self.mark), "no process is left")
        who = rf"rank {culprit} \(host \S+, pid {pid or '[0-9]+'}\) {words}"
        endings = dict(re.findall(r"rank (\d) ends: (.*)", self.said()))
        return who, endings

    def check_all_said(self, culprit, words, pid=None):
        who, endings = self.check_end(culprit, words, pid)
        for rank in range(RANKS):
            if rank != culprit:
                self.assertRegex(endings.get(str(rank), "silence"), who, self.said())

    def test_a_rank_that_throws(self):
        for culprit in (0, 2):
            with self.subTest(culprit=culprit):
                pids = self.start(60, "throw", culprit)
                self.check_first_said(culprit, "failed: the data is not to my liking", pids[culprit])

    def check_first_said(self, culprit, words, pid=None):
        """The launcher ends the others too when the first has ended, so that one of them may not come to say it."""
        who, endings = self.check_end(culprit, words, pid)
        self.assertRegex(endings.get("0", "silence"), who, self.said())

    def test_a_rank_without_memory(self):
        self.start(60, "memory", 1)
        self.check_first_said(1, "failed: std::bad_alloc")

    def test_a_rank_that_is_killed(self):
        for culprit in (1, 3):
            with self.subTest(culprit=culprit):
                pids = self.start(60, "wait", 0)
                os.kill(pids[culprit], signal.SIGKILL)
                who, endings = self.check_end(culprit, "died without a word", pids[culprit])
                # The launcher sees it as well and may be faster; then it is the one who says so.
                self.assertRegex(endings.get("0", self.said()), rf"{who}|rank {culprit}.*signal 9", self.said())

    def test_a_rank_that_is_stopped(self):
        for culprit in (0, 2):
            with self.subTest(culprit=culprit):
                pids = self.start(3, "wait", 0)
                before = time.monotonic()
                os.kill(pids[culprit], signal.SIGSTOP)
                who, endings = self.check_end(culprit, "gave no sign of life for 3 s", pids[culprit])
                self.assertTrue(any(re.search(who, text) for text in endings.values()), self.said())
                self.assertGreater(time.monotonic() - before, 2)

    def test_nothing_happens_to_ranks_that_work(self):
        self.start(3, "none", 0)
        wait_until(lambda: self.ranks.poll() is not None, "the launcher ends")
        self.assertEqual(self.ranks.returncode, 0, self.said())
        self.assertNotIn("ends", self.said())


if __name__ == "__main__":
    main()

"""A rank that is killed, stopped or fails ends all others, with its name and its last words, and leaves no process."""

import os
import re
import signal
import subprocess
import tempfile
import unittest
import uuid

from ranks import main, mpirun, processes_of, wait_until

PROBE = os.environ["DPO_WATCH_PROBE"]
RANKS = 4
# The launcher is told to leave the end to the ranks: what ends them is the watch and nothing else. (It then forgets
# their status as well.)
LEFT_ALONE = ("--enable-recovery",)


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

    def check_end(self, culprit, words, pid, speakers):
        """All ranks end; of them the speakers say why."""
        wait_until(lambda: self.ranks.poll() is not None, "the launcher ends")
        wait_until(lambda: not processes_of(self.mark), "no process is left")
        endings = dict(re.findall(r"rank (\d) ends: (.*)", self.said()))
        for rank in speakers:
            self.assertRegex(endings.get(str(rank), "silence"), rf"rank {culprit} \(host \S+, pid {pid}\) {words}",
                             self.said())

    def test_a_rank_that_throws(self):
        for culprit in (0, 2):
            with self.subTest(culprit=culprit):
                pids = self.start(60, "throw", culprit, LEFT_ALONE)
                self.check_end(culprit, "failed: the data is not to my liking", pids[culprit], range(RANKS))

    def test_the_status_of_a_failure(self):
        pids = self.start(60, "throw", 1)
        self.check_end(1, "failed: the data is not to my liking", pids[1], [0])
        self.assertEqual(self.ranks.returncode, 2, self.said())

    def test_a_rank_without_memory(self):
        pids = self.start(60, "memory", 1, LEFT_ALONE)
        self.check_end(1, "failed: std::bad_alloc", pids[1], range(RANKS))

    def test_a_rank_that_is_killed(self):
        for culprit in (0, 1, 3):
            with self.subTest(culprit=culprit):
                pids = self.start(60, "wait", 0, LEFT_ALONE)
                os.kill(pids[culprit], signal.SIGKILL)
                self.check_end(culprit, "died without a word", pids[culprit], set(range(RANKS)) - {culprit})

    def test_a_rank_that_is_killed_under_a_launcher_that_sees_it(self):
        """It ends the others as well and may be faster; then it is the one who says so."""
        pids = self.start(60, "wait", 0)
        os.kill(pids[2], signal.SIGKILL)
        self.check_end(2, "", pids[2], ())
        self.assertNotEqual(self.ranks.returncode, 0, self.said())
        self.assertRegex(self.said(), "rank 2 .*(died without a word|signal 9)")

    def test_a_rank_that_is_stopped(self):
        """The launcher ends it when the others have ended, so that one of these may not come to say it."""
        for culprit in (0, 2):
            with self.subTest(culprit=culprit):
                pids = self.start(3, "wait", 0)
                os.kill(pids[culprit], signal.SIGSTOP)
                self.check_end(culprit, "", pids[culprit], ())
                self.assertEqual(self.ranks.returncode, 2, self.said())
                self.assertRegex(self.said(), rf"ends: rank {culprit} .*gave no sign of life for 3 s")

    def test_nothing_happens_to_ranks_that_work(self):
        self.start(3, "none", 0)
        wait_until(lambda: self.ranks.poll() is not None, "the launcher ends")
        self.assertEqual(self.ranks.returncode, 0, self.said())
        self.assertNotIn("ends", self.said())


if __name__ == "__main__":
    main()

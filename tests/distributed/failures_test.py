"""A rank that fails, is killed or is stopped ends all others. The message names the rank and its error, and no process
survives."""

import os
import re
import signal
import subprocess
import tempfile
import unittest
import uuid

from ranks import main, mpirun, processes_of, wait_until

PROBE = os.environ["DPO_WATCHDOG_PROBE"]
RANKS = 4
# This option keeps mpirun from ending the ranks, so only the watchdog does. mpirun also ignores their exit status then.
ONLY_WATCHDOG = ("--enable-recovery",)


class Failures(unittest.TestCase):
    def start(self, timeout, failure, failing_rank, options=(), standstill=()):
        """Starts ranks and waits until all of them work. Returns their process ids by rank."""
        self.mark = f"DPO_TEST_MARK={uuid.uuid4()}"
        name, _, value = self.mark.partition("=")
        self.out, self.err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        self.addCleanup(self.out.close)
        self.addCleanup(self.err.close)
        self.ranks = subprocess.Popen(mpirun(RANKS, PROBE, timeout, failure, failing_rank, *standstill, options=options), stdout=self.out,
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

    def check_end(self, failed, error, pid, reporters):
        """Checks that all ranks end and that the reporters print why."""
        wait_until(lambda: self.ranks.poll() is not None, "the launcher ends")
        wait_until(lambda: not processes_of(self.mark), "no process is left")
        endings = dict(re.findall(r"rank (\d) ends: (.*)", self.said()))
        for rank in reporters:
            self.assertRegex(endings.get(str(rank), "nothing"), rf"rank {failed} \(host \S+, pid {pid}\) {error}",
                             self.said())

    def test_a_rank_that_throws(self):
        for failed in (0, 2):
            with self.subTest(failed=failed):
                pids = self.start(60, "throw", failed, ONLY_WATCHDOG)
                self.check_end(failed, "failed: the data is bad", pids[failed], range(RANKS))

    def test_the_status_of_a_failure(self):
        pids = self.start(60, "throw", 1)
        self.check_end(1, "failed: the data is bad", pids[1], [0])
        self.assertEqual(self.ranks.returncode, 2, self.said())

    def test_a_rank_without_memory(self):
        pids = self.start(60, "memory", 1, ONLY_WATCHDOG)
        self.check_end(1, "failed: std::bad_alloc", pids[1], range(RANKS))

    def test_a_rank_that_is_killed(self):
        for failed in (0, 1, 3):
            with self.subTest(failed=failed):
                pids = self.start(60, "wait", 0, ONLY_WATCHDOG)
                os.kill(pids[failed], signal.SIGKILL)
                self.check_end(failed, "exited without reporting an error", pids[failed], set(range(RANKS)) - {failed})

    def test_a_rank_that_is_killed_under_a_launcher_that_sees_it(self):
        """mpirun also ends the others and may be faster than the watchdog. Then mpirun prints the reason."""
        pids = self.start(60, "wait", 0)
        os.kill(pids[2], signal.SIGKILL)
        self.check_end(2, "", pids[2], ())
        self.assertNotEqual(self.ranks.returncode, 0, self.said())
        self.assertRegex(self.said(), "rank 2 .*(exited without reporting an error|signal 9)")

    def test_a_rank_that_is_stopped(self):
        """mpirun ends the rank once others have exited, so some of the others may not print the reason."""
        for failed in (0, 2):
            with self.subTest(failed=failed):
                pids = self.start(10, "wait", 0)
                os.kill(pids[failed], signal.SIGSTOP)
                self.check_end(failed, "", pids[failed], ())
                self.assertEqual(self.ranks.returncode, 2, self.said())
                self.assertRegex(self.said(), rf"ends: rank {failed} .*sent no heartbeat for 10 s")

    def test_a_rank_whose_training_thread_is_stuck(self):
        """The watchdog of the stuck rank still sends heartbeats. The message names that rank, not those that wait for
        it."""
        for failed in (0, 2):
            with self.subTest(failed=failed):
                pids = self.start(60, "hang", failed, ONLY_WATCHDOG, standstill=[5])
                self.check_end(failed, "has made no progress for 5 s while other ranks wait for it", pids[failed],
                               range(RANKS))
                self.assertRegex(self.said(), rf"warning: rank {failed} .* has made no progress for 2.5 s")

    def test_a_rank_that_is_busy_for_long_is_left_alone(self):
        self.start(60, "busy", 1, standstill=[3])
        wait_until(lambda: self.ranks.poll() is not None, "the launcher ends")
        self.assertEqual(self.ranks.returncode, 0, self.said())
        self.assertNotIn("ends", self.said())

    def test_working_ranks_are_left_alone(self):
        self.start(3, "none", 0)
        wait_until(lambda: self.ranks.poll() is not None, "the launcher ends")
        self.assertEqual(self.ranks.returncode, 0, self.said())
        self.assertNotIn("ends", self.said())


if __name__ == "__main__":
    main()

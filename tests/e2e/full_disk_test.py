"""Fills a file system while a checkpoint is saved, with one rank and with two. It is a small tmpfs, mounted for this
test only."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

from tiny_run import TRAINING_FAILED, TinyRuns, main

SAVING = ("save_every=40", "eval_every=null")
LONG = ("n_epochs=null", "n_examples=8000", "reference=live")  # a run that fails after a few checkpoints


def enter_own_mounts():
    """Starts this script again in a mount namespace, where the file systems it mounts are private."""
    if os.environ.get("DPO_OWN_MOUNTS"):
        return
    alone = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    with tempfile.TemporaryDirectory() as folder:
        probe = subprocess.run([*alone, "mount", "-t", "tmpfs", "none", folder], capture_output=True, text=True)
    if probe.returncode != 0:
        print(f"not run: mounting is not permitted ({probe.stderr.strip()})")
        sys.exit(77)
    os.environ["DPO_OWN_MOUNTS"] = "1"
    os.execvp(alone[0], [*alone, sys.executable, *sys.argv])


class FullDisk(TinyRuns):
    def setUp(self):
        self.disk = self.folder / f"disk-{self._testMethodName}"
        self.disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128m", "none", self.disk], check=True)

    def tearDown(self):
        subprocess.run(["umount", self.disk], check=True)

    def leave(self, free):
        """Changes the size of the disk so that this many bytes are free. Returns False if a run has written more
        meanwhile."""
        found = os.statvfs(self.disk)
        used = (found.f_blocks - found.f_bfree) * found.f_frsize
        return subprocess.run(["mount", "-o", f"remount,size={used + free}", self.disk], capture_output=True).returncode == 0

    @staticmethod
    def files_in(folder):
        return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}

    def full_after(self, run, mark, *ranks):
        """Leaves room for half a checkpoint once the run prints `mark`. Returns the run's output."""
        process = subprocess.Popen(self.train_command(run, *SAVING, *LONG, *ranks), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                   text=True)
        said, before = "", None
        with process.stderr as lines:
            for line in lines:
                said += line
                if line.startswith(mark) and before is None:
                    before = self.files_in(run / "step-40")
                    while not self.leave(sum(map(len, before.values())) // 2):
                        pass
        self.assertEqual(process.wait(), TRAINING_FAILED, said)
        self.assertEqual(self.files_in(run / "step-40"), before)
        return said

    def fill_and_continue(self, *ranks):
        run, whole = self.disk / "run", self.folder / f"whole-{len(ranks)}"
        said = self.full_after(run, "saving step-80", *ranks)
        failed = re.search(rf"error: a checkpoint could not be saved: .*{run}/step-(\d+)\.tmp\S* failed: No space left on device\S* "
                           rf".*Older checkpoints are intact; {run}/LATEST is the newest", said)
        self.assertTrue(failed, said)
        self.assertEqual("rank " in failed[0], bool(ranks), failed[0])
        step = int(failed[1])
        self.assertEqual(os.readlink(run / "LATEST"), f"step-{step - 40}")
        self.assertEqual(sorted(path.name for path in run.glob("step-*") if ".signs" not in path.name),
                         sorted(f"step-{at}" for at in range(40, step, 40)))
        # Ranks report failures to each other in a folder of a few bytes, which the next start removes.
        self.assertEqual([path.name for path in run.rglob("*.tmp*") if not path.name.endswith(".signs")], [])
        self.assertTrue(self.leave(64 << 20))
        length = f"n_examples={step + 40}"
        self.check(self.train(run, *SAVING, *LONG, *ranks, length, f"resume={run}"))
        self.check(self.train(whole, *SAVING, *LONG, *ranks, length))
        self.assertEqual(self.weights(run), self.weights(whole))
        self.assertEqual(self.updates(run), self.updates(whole))
        self.assertEqual(list(run.rglob("*.tmp*")), [])

    def test_with_one_rank(self):
        self.fill_and_continue()

    def test_with_two_ranks(self):
        if not shutil.which("mpirun"):
            self.skipTest("there is no mpirun")
        self.fill_and_continue("trainer=FSDPTrainer", "mesh.shard=2")

    def test_before_the_run(self):
        run = self.disk / "run"
        self.assertTrue(self.leave(1 << 12))
        done = self.train(run, *SAVING)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, rf"error: the plan fails: disk: .* free in {self.disk}")
        self.assertFalse(run.exists())


if __name__ == "__main__":
    enter_own_mounts()
    main()

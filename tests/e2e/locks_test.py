"""A run owns its folder from the start. Covers runs of the same second, a second run in one folder, file systems
without locks, and runs that end before they begin."""

import errno
import fcntl
import os
import pwd
import shutil
import subprocess
import sys

from tiny_run import STOPPED, TRAINING_FAILED, TinyRuns, main

LIBRARY = sys.argv.pop()
SHORT = ("n_examples=16", "save_every=8", "eval_every=null")


class Locks(TinyRuns):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.whole = cls.folder / "whole"
        cls.check(cls.train(cls.whole, *SHORT))

    @staticmethod
    def faults(under, **variables):
        return os.environ | {"LD_PRELOAD": LIBRARY, "DPO_FAULT_UNDER": str(under)} | {f"DPO_{name}": str(value) for name, value in variables.items()}

    def named_by_time(self, local, *more):
        """Returns the command of a run in local_dirs=[LOCAL], without local_run_dir."""
        return [word for word in self.train_command("", *SHORT, f"local_dirs=[{local}]", *more) if not word.startswith("local_run_dir=")]

    @staticmethod
    def tokens_in(local):
        return local / pwd.getpwuid(os.getuid()).pw_name / "tokens"

    @staticmethod
    def runs_in(local):
        return sorted(path for path in local.glob("*/*") if path.name not in ("tokens", "references"))

    def test_a_file_system_without_locks(self):
        for code in (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL):
            with self.subTest(errno.errorcode[code]):
                run = self.folder / f"unlocked-{code}"
                done = self.train(run, *SHORT, env=self.faults(run, FAULT_LOCK=code))
                self.check(done)
                self.assertEqual(done.stderr.count(f"warning: {run}: its file system cannot lock files ({os.strerror(code)})"), 1)
                self.assertIn("cannot lock files", (run / "log.txt").read_text())
                self.assertEqual(self.weights(run), self.weights(self.whole))

    def test_an_interrupted_lock_is_tried_again(self):
        run = self.folder / "interrupted"
        done = self.train(run, *SHORT, env=self.faults(run, FAULT_LOCK=errno.EINTR))
        self.check(done)
        self.assertNotIn("lock", done.stderr)

    def test_a_file_system_that_cannot_sync(self):
        """A file system without fsync is not a broken disk, so the run goes on."""
        for code, status in ((errno.EINVAL, 0), (errno.ENOSYS, 0), (errno.EIO, TRAINING_FAILED)):
            with self.subTest(errno.errorcode[code]):
                run = self.folder / f"unsynced-{code}"
                done = self.train(run, *SHORT, env=self.faults(f"{run}/step-", FAULT_SYNC=code))
                self.assertEqual(done.returncode, status, done.stderr)
                if status == 0:
                    self.assertEqual(self.weights(run), self.weights(self.whole))

    def test_a_second_run_is_refused_at_once(self):
        """The second run is rejected before it reads data, whether it would begin, continue or replace the run."""
        local = self.folder / "untouched"
        begun = self.folder / "begun"
        begun.mkdir()
        for run, more in ((begun, []), (self.whole, [f"resume={self.whole}"]), (self.whole, ["overwrite=true"])):
            with self.subTest(more), open(run / ".lock", "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                before = sorted(path.name for path in run.iterdir())
                done = self.train(run, *SHORT, f"local_dirs=[{local}]", *more)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(f"{run}: another process is writing to this run", done.stderr)
                self.assertEqual(sorted(path.name for path in run.iterdir()), before)
        self.assertEqual([str(path) for path in local.rglob("*")], [])
        new = self.folder / "new"
        refused = self.train(new, *SHORT, env=self.faults(new, FAULT_LOCK=errno.EWOULDBLOCK))
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertIn("another process is writing", refused.stderr)

    def test_runs_of_the_same_second(self):
        local, count = self.folder / "same", 4
        env = self.faults(local, FAULT_TIME=1_700_000_000)
        started = [subprocess.Popen(self.named_by_time(local), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                   for _ in range(count)]
        said = [process.communicate() for process in started]
        for process, (_, messages) in zip(started, said):
            self.assertEqual(process.returncode, 0, messages)
        runs = self.runs_in(local)
        self.assertEqual([run.name[len("tiny_0000-00-00_00-00-00"):] for run in runs], ["", "-2", "-3", "-4"])
        self.assertEqual({path.strip() for path, _ in said}, {str(run / "LATEST") for run in runs})
        for run in runs:
            self.assertEqual(self.weights(run), self.weights(self.whole))
            self.assertEqual(self.updates(run), self.updates(self.whole))
        for path, messages in said:
            named = path.strip().removesuffix("/LATEST")
            self.assertEqual(f"another run has started in the same second; this one writes to {named}\n" in messages,
                             named != str(runs[0]))

    def test_a_run_that_fails_before_it_begins_leaves_no_folder(self):
        local = self.folder / "failed"
        small = self.folder / "small"  # a model with a vocabulary of 40
        shutil.copytree(self.folder / "source", small / "source")
        config = (small / "source" / "config.json").read_text()
        (small / "source" / "config.json").write_text(config.replace('"vocab_size": 64', '"vocab_size": 40'))
        subprocess.run([self.train_command("")[0], "init", small / "source", small / "model"], check=True, capture_output=True)
        done = subprocess.run(self.named_by_time(local, f"model.name_or_path={small / 'model'}"), capture_output=True, text=True)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("the model has only 40 tokens", done.stderr)
        self.assertEqual(self.runs_in(local), [])
        nested = self.folder / "nested" / "run"
        self.assertEqual(self.train(nested, *SHORT, f"model.name_or_path={small / 'model'}").returncode, 1)
        self.assertFalse(nested.parent.exists())
        given = self.folder / "given"
        given.mkdir()
        self.assertEqual(self.train(given, *SHORT, f"model.name_or_path={small / 'model'}").returncode, 1)
        self.assertEqual(list(given.iterdir()), [])

    def test_a_run_that_is_stopped_while_it_tokenizes(self):
        local, run = self.folder / "stopped", self.folder / "stopped-run"
        words = (*SHORT, f"local_dirs=[{local}]", "resume=auto")
        done = self.train(run, *words, env=self.faults(self.tokens_in(local), FAULT="signal-15", FAULT_AT=1))
        self.assertEqual(done.returncode, STOPPED, done.stderr)
        self.assertFalse(run.exists())
        self.check(self.train(run, *words))
        self.assertEqual(self.weights(run), self.weights(self.whole))

    def test_a_run_that_is_killed_while_it_tokenizes(self):
        """The empty folder of the killed run is neither resumed nor mentioned, and the next run is independent of
        it."""
        local, again = self.folder / "killed", self.folder / "killed-run"
        tokens = self.tokens_in(local)
        begin = lambda second, *more, **variables: subprocess.run(
            self.named_by_time(local, *more), env=self.faults(tokens, FAULT_TIME=1_700_000_000 + second, **variables),
            capture_output=True, text=True)
        first = begin(0)
        self.check(first)
        shutil.rmtree(tokens)
        killed = begin(1, FAULT="last", FAULT_AT=1)
        self.assertEqual(killed.returncode, 9, killed.stderr)
        self.assertEqual([path.name for path in self.runs_in(local)[1].iterdir()], [".lock"])
        resumed = begin(2, "resume=auto")
        self.check(resumed)
        self.assertEqual(resumed.stdout, first.stdout)
        self.assertNotIn("is newer", resumed.stderr)
        killed = self.train(again, *SHORT, env=self.faults(again, FAULT="last", FAULT_AT=2))
        self.check(self.train(again, *SHORT))
        self.assertEqual(self.weights(again), self.weights(self.whole))


if __name__ == "__main__":
    main()

"""A disk or a process that fails at any moment of saving leaves the previous checkpoint or the new one intact.

Each write, fsync, rename, creation and removal in the run folder in turn fails, is the last thing that happens, or is cut
short; then the run is resumed and must end with the weights of a run without failures. Also: the order in which things reach
the disk, and signals at any moment, also a second one.
"""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

from tiny_run import ENDLESS, STOPPED, TinyRuns, disturbed, is_whole, main

SHORT = ("n_examples=16", "save_every=8", "eval_every=null", "keep_last=1", "batch_size=4", "resume=auto")


class Faults(TinyRuns):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.whole = cls.folder / "whole"
        cls.check(cls.train(cls.whole, *SHORT))  # also leaves the tokens, which all runs share
        cls.changes = cls.log_of(cls.folder / "logged")

    @classmethod
    def log_of(cls, run, *words):
        """Returns the changes of a run without faults."""
        log = run.with_suffix(".changes")
        cls.check(cls.train_disturbed(run, (*SHORT, *words), "", 0, log=log))
        return cls.lines_of(log)

    @staticmethod
    def lines_of(log):
        return [line.split(" ", 1) for line in log.read_text().splitlines()]

    @classmethod
    def different_changes(cls):
        """Returns the numbers, from 1, of the changes to disturb: the first and the last write of each file, all writes
        of the metrics, which a resumed run continues, and a quarter of the first checkpoint, since the second repeats
        its changes."""
        writes, first_checkpoint, chosen = {}, [], []
        for at, (what, path) in enumerate(cls.changes, 1):
            if what == "write" and not path.endswith("/metrics.jsonl"):
                writes.setdefault(path, []).append(at)
        inner = {at for ats in writes.values() for at in ats[1:-1]}
        for at, (_, path) in enumerate(cls.changes, 1):
            if at not in inner:
                (first_checkpoint if "/step-8.tmp." in path and "removed" not in path else chosen).append(at)
        return sorted(chosen + first_checkpoint[::4])

    def test_every_change_in_turn(self):
        different = self.different_changes()
        self.assertGreater(len(different), 50)
        for kind in ("fail", "last", "cut"):
            for at in different:
                what, path = self.changes[at - 1]
                # Ending after a sync leaves the files that ending before it leaves, so it is not tried.
                if (kind == "cut" and what != "write") or (kind == "last" and what == "sync"):
                    continue
                with self.subTest(kind=kind, at=at, what=what, path=os.path.basename(path)):
                    self.disturb_and_resume(kind, at)

    def disturb_and_resume(self, kind, at):
        run, log = self.folder / f"{kind}-{at}", self.folder / f"{kind}-{at}.changes"
        done = self.train_disturbed(run, SHORT, kind, at, log=log)
        begun = "run folder " in done.stderr
        self.assertIn(done.returncode, (9,) if kind != "fail" else (0, 2) if begun else (0, 1), done.stderr)
        checkpoints = [path for path in run.glob("step-*") if path.name in ("step-8", "step-16")]
        # Two threads change files in an order that varies, so the log of this run decides.
        if ["rename", f"{run}/step-8"] in self.lines_of(log)[:at - 1]:
            self.assertTrue(any(is_whole(checkpoint) for checkpoint in checkpoints), done.stderr)
        for checkpoint in checkpoints:
            self.assertTrue(is_whole(checkpoint), "a folder with the name of a checkpoint is one")
        if (run / "LATEST").is_symlink():
            self.assertTrue(is_whole(run / "LATEST"))
        self.check(self.train(run, *SHORT))
        self.assertEqual(self.weights(run), self.weights(self.whole))
        self.assertEqual(self.updates(run), self.updates(self.whole))

    def test_order_on_disk(self):
        """Files are synced before their folder gets its name, the name before LATEST changes, and all of it before an
        older checkpoint is removed."""
        order = {}
        for i, (what, path) in enumerate(self.changes):
            order.setdefault((what, path), []).append(i)
        run = str(self.folder / "logged")
        renamed = order["rename", f"{run}/step-16"][0]
        inside = [(what, path) for what, path in self.changes[:renamed] if "/step-16.tmp" in path]
        last = max(i for i, (what, _) in enumerate(inside) if what == "rename")
        synced = [os.path.basename(path) for what, path in inside[last:] if what == "sync"]
        self.assertTrue(any(name.startswith("step-16.tmp") for name in synced) and "state" in synced, synced)
        linked = max(order["rename", f"{run}/LATEST"])
        synced = [i for i in order["sync", run] if renamed < i]
        self.assertLess(synced[0], linked)
        removed = order["rename", f"{run}/step-8.tmp.removed"][0]
        self.assertLess(linked, removed)
        self.assertTrue(any(linked < i < removed for i in synced))

    @staticmethod
    def moments(changes, run):
        """Returns the number of the first change of each kind, such as "write step-N.tmp/model.safetensors"."""
        found = {}
        for at, (what, path) in enumerate(changes, 1):
            name = re.sub(r"\.tmp\.\w{6}\b|\.\w{6}\.tmp$", ".tmp", str(Path(path).relative_to(run)))
            name = re.sub(r"^(tensorboard|\.start).*", r"\1", re.sub(r"step-\d+", "step-N", name))
            if what != "sync":  # a signal in a sync equals one before the next change
                found.setdefault(f"{what} {name}", at)
        return found

    def test_signals_at_any_moment(self):
        """A signal comes in the first change of each kind. The second checkpoint waits until the first one is complete,
        so training is not over in any of them, however slow a thread is."""
        words = (*SHORT, "n_examples=40", "eval_every=8")
        whole = self.folder / "signals"
        changes = self.log_of(whole, *words[len(SHORT):])
        moments = self.moments(changes[:changes.index(["rename", f"{whole}/step-24"])], whole)
        self.assertLessEqual({"rename config.yaml", "write metrics.jsonl", "rename eval/step-N.jsonl", "rename report.html",
                              "write step-N.tmp/model.safetensors", "rename step-N", "rename LATEST",
                              "rename step-N.tmp.removed"}, set(moments))
        for moment, at in moments.items():
            with self.subTest(moment=moment):
                run = self.folder / f"signal-{at}"
                done = self.train_disturbed(run, words, f"signal-{int(signal.SIGTERM)}", at)
                self.assertEqual(done.returncode, STOPPED, done.stderr)
                if moment == "make .":  # the run has not begun, so it leaves no folder
                    self.assertFalse(run.exists(), done.stderr)
                else:
                    self.assertTrue(is_whole(run / "LATEST"), done.stderr)
                self.check(self.train(run, *words))
                self.assertEqual(self.weights(run), self.weights(whole))
                self.assertEqual(self.updates(run), self.updates(whole))

    def test_signals_while_a_run_starts(self):
        """A signal comes after each printed line. Before the first line, the program may still have no signal
        handlers."""
        for lines in range(10):
            process = subprocess.Popen(self.train_command(self.folder / f"early-{lines}", *ENDLESS), stderr=subprocess.PIPE,
                                       stdout=subprocess.DEVNULL, text=True)
            said = "".join(process.stderr.readline() for _ in range(lines))
            process.send_signal(signal.SIGTERM)
            said += process.communicate()[1]
            self.assertIn(process.returncode, (STOPPED,) if lines else (STOPPED, -signal.SIGTERM), said)

    def wait_for(self, condition):
        while not condition():
            time.sleep(0.01)

    def receives(self, process, sent):
        """Sends a signal and waits until the process has received it."""
        process.send_signal(sent)
        pending = lambda: int(re.search(r"ShdPnd:\s*(\w+)", Path(f"/proc/{process.pid}/status").read_text())[1], 16)
        self.wait_for(lambda: process.poll() is not None or not pending() & 1 << (sent - 1))

    def saving(self, name, release):
        """Starts a run whose first checkpoint is not complete until the file `release` exists."""
        run, log = self.folder / name, self.folder / f"{name}.changes"
        match = "sync */step-8.tmp.*"
        process = subprocess.Popen(self.train_command(run, *SHORT), env=disturbed(run, f"wait-{release}", 1, match, log),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        is_held = lambda: log.exists() and any(what == "sync" and "/step-8.tmp." in path for what, path in self.lines_of(log))
        self.wait_for(lambda: self.assertIsNone(process.poll()) or is_held())
        return run, process

    def test_the_first_signal_waits_for_the_checkpoint(self):
        release = self.folder / "release"
        run, process = self.saving("first", release)
        self.receives(process, signal.SIGTERM)
        self.assertIsNone(process.poll())
        self.assertFalse((run / "step-8").exists())
        release.touch()
        self.assertEqual(process.wait(), STOPPED)
        self.assertTrue(is_whole(run / "LATEST"))
        self.check(self.train(run, *SHORT))
        self.assertEqual(self.weights(run), self.weights(self.whole))

    def test_a_second_signal_ends_a_run_that_saves(self):
        """The disk never answers. Signals soon after the first count as that one, so they are repeated until the run
        ends."""
        run, process = self.saving("second", self.folder / "never")
        while process.poll() is None:
            self.receives(process, signal.SIGTERM)
            time.sleep(0.1)
        self.assertEqual(process.returncode, STOPPED)
        self.assertFalse((run / "step-8").exists())
        self.check(self.train(run, *SHORT))
        self.assertEqual(self.weights(run), self.weights(self.whole))


if __name__ == "__main__":
    main()

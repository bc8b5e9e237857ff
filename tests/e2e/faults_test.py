"""A disk or a process that fails at any moment of saving leaves the previous checkpoint or the new one intact.

Each write, fsync, rename, creation and removal in the run folder in turn fails, is the last thing that happens, or is cut
short; then the run is resumed and must end with the weights of a run without failures. Also: the order in which things reach
the disk, and signals at any moment, also a second one.
"""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time

from tiny_run import STOPPED, TinyRuns, main

LIBRARY = sys.argv.pop()
SHORT = ("n_examples=16", "save_every=8", "eval_every=null", "keep_last=1", "batch_size=4", "resume=auto")


def is_whole(checkpoint):
    marker = checkpoint / "COMPLETE"
    if not marker.exists():
        return False
    files = json.loads(marker.read_text())["files"]
    return all(hashlib.sha256((checkpoint / name).read_bytes()).hexdigest() == file["sha256"]
               for name, file in files.items())


class Faults(TinyRuns):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.whole = cls.folder / "whole"
        cls.check(cls.train(cls.whole, *SHORT))  # also leaves the tokens, which all runs share
        cls.changes = cls.log_of(cls.folder / "logged")

    @classmethod
    def disturbed(cls, run, kind="", at=0, log="", **options):
        variables = {"LD_PRELOAD": LIBRARY, "DPO_FAULT_UNDER": str(run), "DPO_FAULT": kind, "DPO_FAULT_AT": str(at),
                     "DPO_FAULT_LOG": str(log)}
        return dict(env=os.environ | variables, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, **options)

    @classmethod
    def log_of(cls, run):
        log = cls.folder / "changes"
        done = subprocess.run(cls.train_command(run, *SHORT), **cls.disturbed(run, log=log))
        assert done.returncode == 0, done.stderr
        return cls.lines_of(log)

    @staticmethod
    def lines_of(log):
        return [line.split(" ", 1) for line in log.read_text().splitlines()]

    @classmethod
    def different_changes(cls):
        """Their numbers, from 1. Of the writes of a file, the first and the last; of the metrics, which a resumed run
        continues, all. Of the first checkpoint a quarter, since the second repeats its changes."""
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
                # A process that ends after a sync leaves the files that one leaves which ends before it.
                if (kind == "cut" and what != "write") or (kind == "last" and what == "sync"):
                    continue
                with self.subTest(kind=kind, at=at, what=what, path=os.path.basename(path)):
                    self.disturb_and_resume(kind, at)

    def disturb_and_resume(self, kind, at):
        run, log = self.folder / f"{kind}-{at}", self.folder / f"{kind}-{at}.changes"
        done = subprocess.run(self.train_command(run, *SHORT), **self.disturbed(run, kind, at, log))
        begun = "run folder " in done.stderr
        self.assertIn(done.returncode, (9,) if kind != "fail" else (0, 2) if begun else (0, 1), done.stderr)
        checkpoints = [path for path in run.glob("step-*") if path.name in ("step-8", "step-16")]
        # According to the log of this run: two threads change files, and their order is not always the same.
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
        """Files before their folder's name, that name before LATEST, and all of it before an older checkpoint is removed."""
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

    def test_signals_at_any_moment(self):
        run, draw = self.folder / "signals", random.Random(3)
        words = self.train_command(run, "resume=auto", "save_every=40")
        for _ in range(40):
            process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
            time.sleep(draw.uniform(0, 1.0))
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate()
            self.assertIn(process.returncode, (0, STOPPED, -signal.SIGTERM), said)  # the last: before main() began
            if process.returncode == 0:
                break
        self.check(self.train(run, "resume=auto", "save_every=40"))
        whole = self.folder / "signals-whole"
        self.check(self.train(whole, "save_every=40"))
        self.assertEqual(self.weights(run), self.weights(whole))

    def test_a_second_signal_while_saving(self):
        run = self.folder / "second"
        at = next(i for i, (what, path) in enumerate(self.changes, 1) if what == "sync" and "step-8.tmp" in path)
        process = subprocess.Popen(self.train_command(run, *SHORT), **self.disturbed(run, "wait", at))
        with process.stderr as lines:
            for line in lines:
                if line.startswith("saving step-8"):
                    break
            process.send_signal(signal.SIGTERM)
            time.sleep(2.5)
            self.assertIsNone(process.poll(), "the first signal waits for the checkpoint")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(timeout=20), STOPPED)
        self.check(self.train(run, *SHORT))
        self.assertEqual(self.weights(run), self.weights(self.whole))


if __name__ == "__main__":
    main()

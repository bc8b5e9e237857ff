"""Checkpoints and runs that were moved to another disk and replaced by a link are used where they are."""

import os
import shutil
import subprocess

from tiny_run import PROGRAM, TinyRuns, main

WORDS = ("n_examples=40", "eval_every=20", "best_metric=loss/eval")


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != ".lock"}


class Links(TinyRuns):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.disk = cls.folder / "disk"
        cls.disk.mkdir()
        cls.whole = cls.folder / "whole"
        cls.check(cls.train(cls.whole, *WORDS, "n_examples=80"))

    def run_of(self, name, *more):
        run = self.folder / name
        self.check(self.train(run, *WORDS, *more))
        return run

    def move(self, path):
        """Moves a path to the other disk under another name."""
        place = self.disk / f"{path.parent.name}-{path.name}"
        shutil.move(path, place)
        path.symlink_to(place)
        return place

    def refused(self, done, *texts):
        self.assertEqual(done.returncode, 1, done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr)

    def test_a_moved_checkpoint_is_resumed(self):
        for i, asked in enumerate(("", "LATEST", "step-40")):
            with self.subTest(asked):
                run = self.run_of(f"moved-{i}")
                place = self.move(run / "step-40")
                before = contents(place)
                done = self.train(run, *WORDS, "n_examples=80", f"resume={run / asked}")
                self.check(done)
                self.assertIn(f"resuming {run}\n", done.stderr)
                self.assertEqual(self.weights(run), self.weights(self.whole))
                self.assertEqual(self.updates(run), self.updates(self.whole))
                self.assertEqual(done.stderr.count("update 11 "), 1, "it went on behind the checkpoint")
                self.assertNotIn("update 10 ", done.stderr)
                self.assertTrue((run / "step-40").is_symlink())
                self.assertEqual(contents(place), before)
        self.assertEqual(sorted(path.name for path in self.disk.iterdir() if "COMPLETE" not in os.listdir(path)), [])

    def test_a_checkpoint_on_a_disk_that_is_not_there(self):
        """The run is rejected, since resuming from an older checkpoint would lose later updates."""
        run = self.run_of("lost")
        place = self.move(run / "step-40")
        away = place.rename(self.disk / "unmounted")
        before = contents(run)
        for more in ((f"resume={run}",), ("resume=auto",)):
            self.refused(self.train(run, *WORDS, *more), f"{run / 'step-40'} is a link to {place}, which is not there", "remove the link")
        self.assertEqual(contents(run), before)
        away.rename(place)
        self.check(self.train(run, *WORDS, "n_examples=80", f"resume={run}"))
        self.assertEqual(self.weights(run), self.weights(self.whole))
        place.rename(away)  # a checkpoint older than LATEST is not needed
        self.check(self.train(run, *WORDS, "n_examples=80", f"resume={run}"))

    def test_moved_checkpoints_are_not_removed(self):
        run = self.run_of("kept", "eval_every=8", "best_metric=null")
        places = [self.move(run / f"step-{step}") for step in (8, 16)]
        self.check(self.train(run, *WORDS, "eval_every=8", "best_metric=null", "keep_last=2", "n_examples=48", f"resume={run}"))
        self.assertEqual(sorted(path.name for path in run.glob("step-*")), ["step-16", "step-40", "step-48", "step-8"])
        for place in places:
            self.assertTrue((place / "COMPLETE").exists())

    def test_a_moved_checkpoint_that_is_damaged(self):
        run = self.run_of("damaged")
        place = self.move(run / "step-40")
        weights = bytearray((place / "model.safetensors").read_bytes())
        weights[-1] ^= 1
        (place / "model.safetensors").write_bytes(weights)
        self.refused(self.train(run, *WORDS, f"resume={run}"), "is damaged", f"move {run / 'step-40'} away", "resumes from step-20")

    def test_a_moved_run_is_replaced_where_it_is(self):
        run = self.run_of("linked")
        place = self.move(run)
        before = contents(place)
        self.refused(self.train(run, *WORDS), "already contains a run")
        done = self.train(run, *WORDS, "lr=1e-2", "overwrite=true")
        self.check(done)
        self.assertIn(f"the old run was renamed to {place}.old-1", done.stderr)
        self.assertEqual(os.readlink(run), str(place))
        self.assertEqual(contents(self.disk / f"{place.name}.old-1"), before)
        self.assertTrue((place / "LATEST" / "COMPLETE").exists())
        self.assertFalse((self.folder / "linked.old-1").is_symlink())
        self.check(self.train(run, *WORDS, "lr=1e-2", "n_examples=80", f"resume={run}"))
        self.assertTrue((place / "step-80").exists())

    def test_a_run_on_a_disk_that_is_not_there(self):
        link = self.folder / "dangling"
        link.symlink_to(self.disk / "absent")
        for more in ((), ("resume=auto",), ("overwrite=true",)):
            self.refused(self.train(link, *WORDS, *more), f"local_run_dir={link} is a link to {self.disk / 'absent'}", "not mounted?")
        self.assertFalse((self.disk / "absent").exists())
        (self.disk / "absent").mkdir()
        self.check(self.train(link, *WORDS))

    def test_other_commands_follow_links(self):
        run = self.run_of("used")
        self.move(run / "step-40")
        self.move(run)
        done = subprocess.run([PROGRAM, "report", run], capture_output=True, text=True)
        self.check(done)
        self.assertIn("step", (run / "report.html").read_text())
        for checkpoint in (run / "LATEST", run / "step-40", run):
            card = subprocess.run([PROGRAM, "push", checkpoint, "org/name", "--dry-run"], capture_output=True, text=True,
                                  env=os.environ | {"HF_HUB_OFFLINE": "1"})
            self.check(card)
            self.assertIn("40 examples, 10 updates", card.stdout, "the card knows the run")
        copy = self.folder / "copy"
        self.check(subprocess.run([PROGRAM, "convert", run / "LATEST", copy], capture_output=True, text=True))
        self.assertTrue((copy / "model.safetensors").exists())


if __name__ == "__main__":
    main()

"""Run folders: another run's folder is never changed, and a run is resumed only with the settings that it started with.

Also: damage is found and named, diverged weights are not saved, and exit statuses mean what the documents say.
"""

import json
import os
import resource
import shutil
import subprocess
import unittest

from tiny_run import CONFIG, TRAINING_FAILED, TinyRuns, main

SHORT = ("n_examples=40", "eval_every=20")


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != ".lock"}


class Folders(TinyRuns):
    def refused(self, done, *texts, status=1):
        self.assertEqual(done.returncode, status, done.stderr)
        for text in texts:
            self.assertIn(text, done.stderr)
        return done

    def run_of(self, name, *more):
        run = self.folder / name
        self.check(self.train(run, *SHORT, *more))
        return run

    def test_a_folder_that_holds_a_run_is_not_touched(self):
        run = self.run_of("taken")
        before = contents(run)
        self.refused(self.train(run, *SHORT, "lr=1e-2"), f"{run} already contains a run", f"resume={run}", "overwrite=true")
        self.assertEqual(contents(run), before)
        foreign = self.folder / "foreign"  # the files that direct-preference-optimization leaves
        (foreign / "step-20").mkdir(parents=True)
        (foreign / "step-20" / "policy.pt").write_bytes(b"weights")
        self.refused(self.train(foreign, *SHORT), "already contains a run (step-20)")
        (foreign / "LATEST").mkdir()  # LATEST is no link here
        self.check(self.train(foreign, *SHORT, "resume=auto"))  # there is nothing to resume
        self.assertEqual((self.folder / "foreign.old-1" / "step-20" / "policy.pt").read_bytes(), b"weights")
        self.assertEqual(os.readlink(foreign / "LATEST"), "step-40")

    def test_what_a_run_reads_is_not_renamed(self):
        run = self.run_of("read")
        before = contents(run)
        self.refused(self.train(run, *SHORT, "overwrite=true", f"model.archive={run / 'LATEST'}"), "model.archive=", "is in",
                     "another local_run_dir")
        self.assertEqual(contents(run), before)

    def test_a_run_needs_a_folder_of_its_own(self):
        data = self.folder / "data"
        data.mkdir()
        shutil.copy(self.folder / "pairs.jsonl", data)
        of_data = f"datasets=[{data}]"
        for run, more, message in ((self.folder / "model", (), "is also model.name_or_path="), (data, (of_data,), "is also datasets="),
                                   (data / "runs" / "a", (of_data,), "is in datasets="), (self.folder, (), "contains model.name_or_path="),
                                   (data, (f"datasets=[{data / 'pairs.jsonl'}]",), "contains datasets=")):
            for resume in ((), ("resume=auto",)):
                self.refused(self.train(run, *SHORT, *more, *resume), message, "a separate folder")
        self.assertEqual(os.listdir(data), ["pairs.jsonl"])

    def test_the_folder_in_which_a_command_is_started_is_not_renamed(self):
        run = self.run_of("started-here")
        self.refused(self.train(".", *SHORT, "overwrite=true", cwd=run), f"start it in another one, with local_run_dir={run}")
        spaced = self.run_of("sp ace")
        self.refused(self.train("sp ace", *SHORT, cwd=self.folder), "dpo train 'resume=sp ace' resumes it")
        self.assertIn(f"Ctrl-C saves and stops, dpo train 'resume={spaced}' continues", self.train(spaced, *SHORT, f"resume={spaced}").stderr)

    def test_a_limit_on_the_size_of_files_is_as_a_full_disk(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        run = self.folder / "limited"
        self.refused(self.train(run, *SHORT, preexec_fn=limit), "File too large", status=TRAINING_FAILED)
        self.assertEqual(list(run.glob("*.tmp*")), [])

    def test_files_of_the_user_are_not_replaced(self):
        for name in ("config.yaml", "report.html", "log.txt"):
            project = self.folder / f"project-{name}"
            project.mkdir()
            (project / name).write_text("mine")
            for more in ([], ["resume=auto"], ["overwrite=true"]):
                self.refused(self.train(project, *SHORT, *more), f"has a file {name}", "give another folder")
            self.assertEqual(contents(project), {name: b"mine"})
        (project / "log.txt").rename(project / "notes.txt")  # no run has a file of this name
        self.check(self.train(project, *SHORT))
        self.assertEqual((project / "notes.txt").read_text(), "mine")

    def test_a_run_that_was_killed_while_it_started_is_started_again(self):
        run = self.run_of("early")
        for path in [*run.glob("step-*"), run / "tensorboard", run / "eval", run / "samples"]:
            shutil.rmtree(path, ignore_errors=True)
        (run / "LATEST").unlink()
        (run / "metrics.jsonl").write_text("")
        self.check(self.train(run, *SHORT))

    def test_a_run_that_lost_its_checkpoints_is_kept(self):
        run = self.run_of("lost")
        for step in run.glob("step-*"):
            shutil.rmtree(step)
        (run / "LATEST").unlink()
        before = contents(run)
        self.check(self.train(run, *SHORT, "resume=auto", "lr=1e-4"))
        self.assertEqual(contents(self.folder / "lost.old-1"), before)

    def test_a_run_that_was_killed_in_its_first_save_begins_again_where_it_is(self):
        run = self.run_of("saving", "eval_every=40")
        (run / "LATEST").unlink()
        (run / "step-40").rename(run / "step-40.tmp.kIlLed")
        (run / "log.txt").write_text((run / "log.txt").read_text().partition("saved step-")[0])
        (run / "eval" / "step-20.jsonl").write_text("{}\n")  # left by an attempt with another eval_every
        (run / "merged.tmp.kIlLed").mkdir()
        unfinished = [run / "metrics.jsonl.kIlLed.tmp", run / "eval" / "step-40.jsonl.kIlLed.tmp"]
        for path in [*unfinished, run / "notes.tmp", run / "config.yaml.tmp"]:
            path.write_text("")
        started = [path.name for path in (run / "tensorboard").iterdir()]
        self.check(self.train(run, *SHORT, "eval_every=40", "resume=auto"))
        self.assertFalse((self.folder / "saving.old-1").exists())
        self.assertTrue((run / "LATEST" / "model.safetensors").exists())
        self.assertEqual(self.updates(run), list(range(1, 11)))
        self.assertLess(set(started), {path.name for path in (run / "tensorboard").iterdir()})
        self.assertEqual(sorted(path.name for path in (run / "eval").iterdir()), ["step-0.jsonl", "step-40.jsonl"])
        self.assertEqual(sorted(path.name for path in run.glob("*tmp*")), ["config.yaml.tmp", "notes.tmp"])  # not ours

    def test_what_has_no_checkpoint_is_not_resumed(self):
        self.refused(self.train(self.folder / "true", "resume=true"), "resume=true: no such folder", "resume=auto")
        done = self.refused(self.train(self.folder / "true", f"resume={self.folder / 'model'}"), "it is not the folder of a run")
        self.assertNotIn("overwrite", done.stderr)
        run = self.run_of("hollow", "eval_every=40")
        (run / "step-40" / "COMPLETE").unlink()
        self.refused(self.train(run, *SHORT, f"resume={run / 'step-40'}"), f"this checkpoint is incomplete: dpo train resume={run} continues")
        words = f"local_run_dir={run} overwrite=true"
        self.refused(self.train(run, *SHORT, f"resume={run}"), f"; to rename the old run and start again, give {words} instead of resume")
        self.check(self.train(run, *SHORT, *words.split()))
        self.assertTrue((self.folder / "hollow.old-1" / "metrics.jsonl").exists())

    def test_links_and_old_checkpoints_after_the_end(self):
        """A process may end after its last checkpoint is complete, but before links are set and old checkpoints
        removed."""
        words = (*SHORT, "n_examples=80", "eval_every=40", "lr=1e-30", "best_metric=rewards_eval/accuracies")  # it is always 0
        run = self.run_of("linked", *words)
        self.assertEqual(os.readlink(run / "BEST"), "step-40")
        for more in ([], ["keep_last=1"]):
            self.check(self.train(run, *words, *more, f"resume={run}"))
            self.assertEqual(os.readlink(run / "BEST"), "step-40")
            self.assertEqual(sorted(path.name for path in run.glob("step-*")), ["step-40", "step-80"])
        other = self.run_of("kept")
        self.check(self.train(other, *SHORT, "keep_last=1", f"resume={other}"))
        self.assertEqual([path.name for path in other.glob("step-*")], ["step-40"])

    def test_the_best_is_of_one_set_of_examples(self):
        """A checkpoint that was evaluated on other examples cannot be compared with the best so far, which keep_last
        then keeps."""
        words = ("best_metric=loss/eval", "keep_last=1", "data.test_share=0.1", "n_eval_examples=8")
        run = self.run_of("compared-sets", *words)
        best = os.readlink(run / "BEST")
        same = self.train(run, *SHORT, *words, "eval_batch_size=4", f"resume={run}", "n_examples=80")
        self.check(same)
        self.assertNotIn("a new comparison begins", same.stderr)
        self.assertFalse((run / "BEST.old-1").is_symlink())
        best = os.readlink(run / "BEST")
        for i, (more, examples) in enumerate(((["n_eval_examples=2"], 120), (["n_eval_examples=8"], 160)), 1):
            done = self.train(run, *SHORT, *words, *more, f"resume={run}", f"n_examples={examples}")
            self.check(done)
            self.assertEqual(done.stderr.count(f"note: {best} is the best by loss/eval of "), 1, done.stderr)
            self.assertIn("a new comparison begins", (run / "log.txt").read_text())
            self.assertEqual(os.readlink(run / f"BEST.old-{i}"), best)
            self.assertTrue((run / best / "COMPLETE").exists())
            self.assertGreater(int(os.readlink(run / "BEST").partition("-")[2]), examples - 40)
            best = os.readlink(run / "BEST")
        self.assertLessEqual(len(list(run.glob("step-*"))), 4)

    def test_overwrite_moves_the_old_run_aside(self):
        run = self.run_of("moved")
        before = contents(run)
        for number in (1, 2):
            self.check(self.train(run, *SHORT, f"lr={number}e-2", "overwrite=true"))
        self.assertEqual(contents(self.folder / "moved.old-1"), before)
        self.assertTrue((self.folder / "moved.old-2" / "LATEST").exists())
        self.assertNotEqual(contents(run)["step-40/model.safetensors"], before["step-40/model.safetensors"])
        self.assertEqual(self.updates(run), list(range(1, 11)))
        self.refused(self.train(run, *SHORT, "overwrite=true", f"resume={run}"), "give one of them")

    def test_the_configuration_can_be_used_again(self):
        run = self.run_of("first")
        self.check(self.train(run, *SHORT, f"resume={run}"))
        whole = self.folder / "whole"
        self.check(self.train(whole, *SHORT, "n_examples=80"))
        continued = subprocess.run([self.train_command(run)[0], "train", f"resume={run}", "n_examples=80"], capture_output=True, text=True)
        self.check(continued)
        self.assertEqual(self.weights(run), self.weights(whole))
        self.refused(subprocess.run([self.train_command(run)[0], "train", f"resume={run}", "seed=9"], capture_output=True, text=True),
                     "seed")
        again = self.folder / "second"
        done = subprocess.run([self.train_command(run)[0], "train", "--config", run / "config.yaml", f"local_run_dir={again}"],
                              capture_output=True, text=True)
        self.check(done)
        self.assertEqual(self.weights(again), self.weights(whole))

    def test_a_resumed_run_saves_the_same_files(self):
        """This also holds when the checkpoint it resumed from is gone, or when BEST was not yet made for its best
        checkpoint."""
        words = ("eval_every=20", "keep_last=1", "best_metric=loss/eval")
        whole, run = self.folder / "undisturbed", self.folder / "disturbed"
        self.check(self.train(whole, *words, "n_examples=80"))
        self.check(self.train(run, *words, "n_examples=20"))
        (run / "BEST").unlink()
        self.check(self.train(run, *words, "n_examples=20", f"resume={run}"))
        self.assertEqual(os.readlink(run / "BEST"), "step-20")
        self.check(self.train(run, *words, "n_examples=80", f"resume={run}"))
        mine, other = contents(run / "LATEST"), contents(whole / "LATEST")
        self.assertIn("tokenizer.json", mine)
        self.assertEqual(mine.keys(), other.keys())
        self.assertEqual(mine["model.safetensors"], other["model.safetensors"])
        copy = self.folder / "copies" / "good"
        shutil.copytree(run / "LATEST", copy)
        self.refused(self.train(copy.parent, *words, f"resume={copy}"), "where it is called step-N")

    def test_resume_elsewhere_is_refused(self):
        run = self.run_of("here")
        self.refused(self.train(self.folder / "elsewhere", *SHORT, f"resume={run}"), f"continues in {run}", "local_run_dir")
        self.assertFalse((self.folder / "elsewhere").exists())

    def test_auto_finds_exactly_this_experiment(self):
        def words(name, *more):
            kept = [word for word in self.train_command("", *SHORT) if not word.startswith(("local_run_dir=", "exp_name="))]
            return subprocess.run([*kept, f"exp_name={name}", "resume=auto", *more], capture_output=True, text=True)

        first = words("dpo_v2")
        self.check(first)
        other = words("dpo")
        self.check(other)
        self.assertNotIn("resuming", other.stderr)
        nested = words("a/b")
        self.check(nested)
        again = words("a/b")
        self.check(again)
        folder = os.path.dirname(nested.stdout.strip())
        self.check(words("a/b", f"local_run_dir={folder}", "overwrite=true", "resume=null"))
        self.assertTrue(os.path.exists(folder + ".old-1"))
        newest = words("a/b")
        self.assertIn(f"resuming {folder}\n", newest.stderr)
        self.assertIn("resuming " + os.path.dirname(nested.stdout.strip()), again.stderr)

    def test_what_decides_the_result_is_compared(self):
        """Rejects the same arguments if sft/LATEST now points elsewhere, rows were changed, or the schedule has another
        length."""
        sft = self.folder / "sft"
        self.check(self.train_sft(sft))
        data = self.folder / "own.jsonl"
        shutil.copy(self.folder / "pairs.jsonl", data)
        words = (*SHORT, f"model.archive={sft}/LATEST", f"datasets=[{data}]", "lr_schedule=linear")
        run = self.folder / "compared"
        self.check(self.train(run, *words))
        self.check(self.train(run, *words, f"resume={run}"))
        self.refused(self.train(run, *words, f"resume={run}", "n_examples=80"), "number of updates is 10 in", "but 20 now")
        latest = os.readlink(sft / "LATEST")
        self.assertEqual(latest, "step-40")
        (sft / "LATEST").unlink()
        (sft / "LATEST").symlink_to("step-20")
        self.refused(self.train(run, *words, f"resume={run}"), "reference is ", "LATEST now points elsewhere")
        (sft / "LATEST").unlink()
        (sft / "LATEST").symlink_to(latest)
        rows = data.read_text().splitlines(keepends=True)
        data.write_text("".join([rows[-1], *rows[1:-1], rows[0]]))
        self.refused(self.train(run, *words, f"resume={run}"), "training data is ", "the data")
        constant = self.run_of("longer")
        self.check(self.train(constant, f"resume={constant}", "n_examples=80", "eval_every=20"))
        self.refused(self.train(constant, f"resume={constant}", "n_examples=8", "eval_every=20"), "is at update 20")
        self.refused(self.train(constant, f"resume={constant}", "n_examples=null", "n_epochs=1", "batch_size=4", "eval_every=20",
                                "data.test_share=0.9"), "training data is ")

    def train_sft(self, run):
        words = [word for word in self.train_command(run, *SHORT, "n_epochs=1") if not word.startswith("loss")]
        return subprocess.run([*words, "loss=sft"], capture_output=True, text=True)

    def test_a_flipped_byte_is_found_in_any_file(self):
        run = self.run_of("flipped")
        checkpoint = run / "step-40"
        for file in sorted(path for path in checkpoint.rglob("*") if path.is_file()):
            whole = file.read_bytes()
            for at in {0, len(whole) // 3, len(whole) // 2, len(whole) - 2}:
                damaged = bytearray(whole)
                damaged[at] ^= 1
                file.write_bytes(damaged)
                with self.subTest(file=file.name, at=at):
                    self.refused(self.train(run, *SHORT, f"resume={run}"), str(file), f"move {checkpoint} away",
                                 f"resume={run} resumes from step-20")
            file.write_bytes(whole)
        self.check(self.train(run, *SHORT, f"resume={run}"))

    def test_tokens_that_the_model_does_not_have_are_refused(self):
        small = self.folder / "small"
        small.mkdir()
        shutil.copytree(self.folder / "source", small / "source")
        (small / "source" / "config.json").write_text(json.dumps(CONFIG | {"vocab_size": 40}))
        subprocess.run([self.train_command("")[0], "init", small / "source", small / "model"], check=True, capture_output=True)
        run = self.folder / "words"
        self.refused(self.train(run, *SHORT, f"model.name_or_path={small / 'model'}"), "the model has only 40 tokens")
        self.assertFalse(run.exists())

    def test_what_is_not_finite_is_not_saved(self):
        """The update with the first example that computes NaN fails and changes nothing."""
        model = self.spoilt_model()
        for name, words in {"update": (), "microbatches": ("gradient_accumulation_steps=4",)}.items():
            run = self.folder / f"nan-{name}"
            done = self.train(run, f"model.name_or_path={model}", "eval_every=null", "n_examples=400", *words)
            self.refused(done, "is NaN or infinite", "was not applied", status=2)
            self.assertFalse((run / "LATEST").exists())
        run = self.folder / "nan-evaluation"
        done = self.train(run, f"model.name_or_path={model}", "data.test_share=0.3",
                          "n_eval_examples=64", "eval_batch_size=64")
        self.refused(done, "evaluation after 0 examples", "the weights or the reference already produce NaN", status=2)

    def test_diverged_weights_are_not_saved(self):
        run = self.folder / "diverged"
        words = ("eval_every=null", "save_every=4", "keep_last=1", "n_examples=8", "warmup_steps=0")
        self.refused(self.train(run, *words, "lr=1e38"), "the weights of the policy are NaN or infinite", status=2)
        self.assertEqual(list(run.glob("step-*")), [])
        again = self.refused(self.train(run, *words, "lr=1e-3"), "already contains a run (metrics.jsonl)")
        self.assertNotIn("resume=", again.stderr)
        self.check(self.train(run, *words, "lr=1e-3", "overwrite=true"))

    @unittest.skipIf(os.geteuid() != 0, "only root gives files away")
    def test_what_another_user_could_have_written_is_not_trusted(self):
        shared = self.folder / "shared"  # stands for LOCAL_DIR on a shared disk
        words = (*SHORT, f"local_dirs=[{shared}]", "reference=cached")
        self.check(self.train(self.folder / "as-root", *words))
        caches = [file for name in ("tokens", "references") for file in shared.glob(f"*/{name}/*") if file.suffix != ".lock"]
        self.assertEqual(len(caches), 4)
        for file in caches:
            os.chown(file, 65534, 65534)
        again = self.train(self.folder / "again", *words)
        self.check(again)
        self.assertIn("the cached tokens are another user's; tokenizing again", again.stderr)
        self.assertNotIn("reference scores: read from", again.stderr)
        self.assertEqual(self.weights(self.folder / "again"), self.weights(self.folder / "as-root"))
        os.chown(caches[0].parent, 65534, 65534)
        self.refused(self.train(self.folder / "foreign-folder", *words), "it belongs to another user")

    @unittest.skipIf(os.geteuid() != 0, "only root becomes another user")
    def test_a_second_user_shares_the_folder(self):
        shared = self.folder / "common"
        shared.mkdir()
        shared.chmod(0o1777)
        self.folder.chmod(0o755)
        self.check(self.train(shared / "one", *SHORT, f"local_dirs=[{shared}]"))
        other = self.train(shared / "two", *SHORT, f"local_dirs=[{shared}]", user=65534, group=65534, extra_groups=[])
        self.check(other)
        self.assertEqual(self.weights(shared / "one"), self.weights(shared / "two"))

    def test_a_run_ends_with_an_evaluation_and_a_summary(self):
        run = self.folder / "summed-up"
        done = self.train(run, "n_examples=48", "eval_every=20")
        self.check(done)
        last = [line for line in self.metrics(run) if "loss/eval" in line][-1]
        self.assertEqual(last["counters/examples"], 48)
        self.assertRegex(done.stderr, r"\ndone: 12 updates, 48 examples in \d+ s, .*\nevaluation: loss \S+ -> \S+, accuracy")

    def test_a_refused_plan_ends_with_the_reason(self):
        run = self.folder / "unplanned"
        done = self.refused(self.train(run, "batch_size=4", "gradient_accumulation_steps=3"))
        self.assertTrue(done.stderr.splitlines()[-1].startswith("error: "), done.stderr)
        self.assertFalse(run.exists())


if __name__ == "__main__":
    main()

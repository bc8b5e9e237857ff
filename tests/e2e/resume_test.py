"""A run that is killed again and again, also while it saves, ends with the weights of a run that was never killed.

Also: a signal stops a run cleanly, a damaged checkpoint and another configuration are rejected, and two runs of one
seed are equal.
"""

import json
import os
import random
import shutil
import signal
import struct
import subprocess

from tiny_run import CONFIG, METRICS, PROGRAM, STOPPED, TinyRuns, main, make_data, make_tokenizer

KILLS = 20 if "DPO_TEST_ALL" in os.environ else 6


class Resume(TinyRuns):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.whole = cls.folder / "whole"
        cls.check(cls.train(cls.whole))

    def evaluations(self, run):
        return [(line["counters/examples"], line["loss/eval"]) for line in self.metrics(run) if "loss/eval" in line]

    def killed(self, run, at, match):
        """Kills a run at the `at`-th change that matches. Returns that change."""
        log = self.folder / "changes"
        log.unlink(missing_ok=True)
        done = self.train_disturbed(run, ["resume=auto"], f"signal-{int(signal.SIGKILL)}", at, match, log=log)
        self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
        return log.read_text().splitlines()[-1]

    def test_killed_many_times(self):
        """Kills come while the run starts, trains and saves, in turn. Together they leave it fewer updates than the run
        has."""
        run, draw, hit = self.folder / "killed", random.Random(11), []
        moments = [("*", 30), (METRICS, 16), ("* */step-*.tmp.*", 60)]  # (match, highest number of a change to kill at)
        for i in range(KILLS):
            match, most = moments[i % len(moments)]
            hit.append(self.killed(run, draw.randint(1, most), match))
        self.assertTrue(any(change.endswith("/metrics.jsonl") for change in hit) and any("/step-" in change for change in hit), hit)
        self.check(self.train(run, "resume=auto"))
        self.assertEqual(self.weights(run), self.weights(self.whole))
        self.assertEqual(self.updates(run), self.updates(self.whole))
        self.assertEqual(self.updates(run), sorted(set(self.updates(run))))

    def test_two_runs_of_one_seed_are_equal_and_another_order_differs(self):
        self.check(self.train(self.folder / "again"))
        self.assertEqual(self.weights(self.folder / "again"), self.weights(self.whole))
        self.check(self.train(self.folder / "other", "data_seed=1"))
        self.assertNotEqual(self.weights(self.folder / "other"), self.weights(self.whole))

    def test_a_signal_ends_in_order(self):
        run = self.folder / "stopped"
        self.stop_at(run, 4)
        self.check(self.train(run, f"resume={run}"))
        self.assertEqual(self.weights(run), self.weights(self.whole))

    def long_samples(self, run, stop_at, *words):
        """Sends a signal when the run prints this line. Returns the output. The last of its samples would have 20,000
        tokens."""
        source, model = self.folder / "long", self.folder / "long-model"
        if not model.exists():
            source.mkdir()
            (source / "config.json").write_text(json.dumps(CONFIG | {"vocab_size": 20000, "max_position_embeddings": 30000}))
            make_tokenizer(source)
            subprocess.run([PROGRAM, "init", source, model], check=True, capture_output=True)
        process = subprocess.Popen(
            self.train_command(run, f"model.name_or_path={model}", "max_length=30000", "sample_during_eval=true",
                               "n_eval_model_samples=16", *words), stderr=subprocess.PIPE, text=True)
        said = ""
        with process.stderr as lines:
            for line in lines:
                if line.startswith(stop_at) and stop_at not in said:  # a second signal would end it at once
                    process.send_signal(signal.SIGINT)
                said += line
        self.assertEqual(process.wait(), STOPPED, said)
        return said

    def test_a_signal_while_the_reference_samples(self):
        """Samples of a cached reference come before the first update, so there is nothing to save. Those of a live one
        come after it."""
        said = self.long_samples(self.folder / "long-cached", "sampling from the reference: ", "reference=cached")
        self.assertIn("stopped by a signal while sampling from the reference", said)
        run = self.folder / "long-run"
        said = self.long_samples(run, "sampling from the reference: ", "reference=live")
        self.assertIn("stopped by a signal after update 1 of", said)
        self.assertEqual((run / "LATEST").readlink().name, "step-4")

    def test_a_signal_while_the_policy_samples(self):
        """The run abandons the evaluation and ends without more updates."""
        run = self.folder / "long-policy"
        said = self.long_samples(run, "sampling: ", "loss=simpo", "do_first_eval=false")
        self.assertIn("stopped by a signal after update 10 of", said)
        self.assertEqual((run / "LATEST").readlink().name, "step-40")
        self.assertEqual(self.evaluations(run), [])

    def test_a_lost_terminal_and_lost_output(self):
        """SIGHUP saves and ends a run, unless nohup ignores it. A run goes on if its output is not read or cannot be
        stored."""
        for ignored, status in ((False, STOPPED), (True, 0)):
            run = self.folder / f"hangup-{ignored}"
            prepare = (lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) if ignored else None
            done = self.signalled(run, signal.SIGHUP, 4, "n_examples=400", preexec_fn=prepare)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertTrue((run / "LATEST").exists())
        run = self.folder / "unread"
        process = subprocess.Popen(self.train_command(run, "n_examples=100"), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        process.stderr.readline()
        process.stderr.close()
        self.assertEqual(process.wait(), 0)
        self.assertTrue((run / "step-100").exists())
        run = self.folder / "full"
        with open("/dev/full", "w") as full:
            done = subprocess.run(self.train_command(run, "n_examples=40"), stderr=full, stdout=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 0)
            told = subprocess.run([PROGRAM, "config", "lr"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(told.returncode, 1)
        self.assertIn("cannot write all of the output (No space left on device)", told.stderr)
        closed = self.folder / "closed"  # no other file gets stderr's descriptor
        command = " ".join(f"'{word}'" for word in self.train_command(closed, "n_examples=40"))
        self.assertEqual(subprocess.run(["sh", "-c", command + " <&- >&- 2>&-"]).returncode, 0)
        self.assertTrue(all("examples/s" not in (closed / name).read_text() for name in ("config.yaml", "plan.json", "metrics.jsonl")))

    def test_small_optimizer_states(self):
        """Optimizer state in bfloat16 or 8 bits learns like float32. It resumes bit for bit, but only in the same
        dtype."""
        last, few = {}, self.folder / "few.jsonl"
        make_data(few, 32)
        for state in ("float32", "bfloat16", "8bit"):
            words = ["optimizer=AdamW", f"optimizer_state={state}", f"datasets=[{few}]", "data.test_share=0", "eval_every=null",
                     "n_epochs=null", "n_examples=800", "batch_size=16", "lr=3e-3"]
            whole, run = self.folder / f"whole-{state}", self.folder / f"stopped-{state}"
            self.check(self.train(whole, *words))
            self.stop_at(run, 13, *words)
            other = self.train(run, f"resume={run}", *words, "optimizer_state=null" if state != "float32" else "optimizer_state=8bit")
            self.assertEqual(other.returncode, 1)
            self.assertIn("resume: optimizer_state is " + ("null" if state == "float32" else state), other.stderr)
            self.check(self.train(run, f"resume={run}", *words))
            self.assertEqual(self.weights(run), self.weights(whole))
            losses = [line["loss/train"] for line in self.metrics(whole) if "grad_norm" in line]
            self.assertEqual(len(losses), 50)
            last[state] = sum(losses[-10:]) / 10
        self.assertLess(last["float32"], 0.1)
        for state in ("bfloat16", "8bit"):
            self.assertNotEqual(self.weights(self.folder / f"whole-{state}"), self.weights(self.folder / "whole-float32"))
            self.assertAlmostEqual(last[state], last["float32"], delta=0.003)

    def test_float32_weights_over_bfloat16(self):
        """A checkpoint has all 32 bits of the weights, and a run that was stopped ends like one that was not."""
        words = ["model.fsdp_policy_mp=bfloat16", "optimizer=AdamW", "n_examples=400"]
        whole, run = self.folder / "whole-mixed", self.folder / "stopped-mixed"
        self.check(self.train(whole, *words))
        self.check(self.train(run, *words, "n_examples=200"))
        self.check(self.train(run, *words, f"resume={run}"))
        self.assertEqual(self.weights(run), self.weights(whole))
        data = self.weights(whole)
        low = data[8 + struct.unpack("<Q", data[:8])[0]:][::4]  # the lowest byte of each number
        self.assertLess(low.count(0), len(low) / 50)

    def test_without_clipping(self):
        """Without clipping, gradients are freed block by block. The weights equal those of a run that keeps gradients
        and never clips, also when resumed."""
        words = ["model.fsdp_policy_mp=bfloat16", "optimizer=AdamW", "n_examples=400"]
        kept, run = self.folder / "never-clipped", self.folder / "unclipped"
        self.check(self.train(kept, *words, "max_grad_norm=1e30"))
        self.check(self.train(run, *words, "max_grad_norm=null", "n_examples=200"))
        self.check(self.train(run, *words, "max_grad_norm=null", f"resume={run}"))
        self.assertEqual(self.weights(run), self.weights(kept))
        norms = [[line["grad_norm"] for line in self.metrics(folder) if "grad_norm" in line] for folder in (run, kept)]
        self.assertEqual(*norms)
        self.assertEqual(self.train(run, *words, "max_grad_norm=10", f"resume={run}").returncode, 1)

    def test_a_signal_near_an_evaluation_loses_none(self):
        run = self.folder / "evaluated"
        for line in (11, 12):  # line 11 is update 10, before an evaluation; line 12 is the evaluation after update 20
            self.stop_at(run, line, "resume=auto")
        self.check(self.train(run, f"resume={run}"))
        self.assertEqual(self.evaluations(run), self.evaluations(self.whole))

    def test_a_checkpoint_between_evaluations_goes_on(self):
        """The run saves after 28, 56, ... examples and evaluates after 40, 80, ... Killed after a save, it evaluates as
        usual."""
        run = self.folder / "between"
        for line in (19, 16):  # line 19 is update 17, after two saves and an evaluation; line 16 comes later
            done = self.signalled(run, signal.SIGKILL, line, "resume=auto", "save_every=28")
            self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
            self.assertTrue((run / "LATEST").exists())
        self.check(self.train(run, f"resume={run}", "save_every=28"))
        self.assertEqual(self.weights(run), self.weights(self.whole))
        self.assertEqual(self.evaluations(run), self.evaluations(self.whole))
        self.assertEqual(self.updates(run), self.updates(self.whole))

    def test_without_evaluation(self):
        run = self.folder / "unevaluated"
        words = ("eval_every=null", "save_every=28")
        self.stop_at(run, 30, *words)
        self.check(self.train(run, f"resume={run}", *words))
        self.assertEqual(self.weights(run), self.weights(self.whole))
        self.assertEqual(self.evaluations(run), [])

    def test_many_metrics_take_no_memory(self):
        """A run that has logged 60 MB before its checkpoint needs no more memory to resume than one without logs, and
        keeps all of it."""
        run = self.folder / "logged"
        process = subprocess.Popen(self.train_command(run), stderr=subprocess.PIPE, text=True)
        with process.stderr as lines:
            for line in lines:
                if line.startswith("update 30 "):
                    process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(), STOPPED)
        short = self.folder / "logged-little"
        shutil.copytree(run, short, symlinks=True)
        rest = "".join(f', "metric_{i}": {i}.123456' for i in range(24))
        logged = "".join(f'{{"loss/train": 0.5{rest}, "counters/examples": {i / 1e6}}}\n' for i in range(120_000))
        (run / "metrics.jsonl").write_text(logged + (run / "metrics.jsonl").read_text())

        def peak(folder):
            process = subprocess.Popen(self.train_command(folder, f"resume={folder}"), stderr=subprocess.DEVNULL)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0)
            return 1024 * used.ru_maxrss

        self.assertGreater(len(logged), 60e6)
        self.assertLess(peak(run) - peak(short), 0.5 * len(logged))
        with open(run / "metrics.jsonl") as metrics:
            self.assertEqual(metrics.read(len(logged)), logged)
        self.assertEqual(self.weights(run), self.weights(self.whole))

    def test_what_cannot_be_resumed_is_refused(self):
        run = self.folder / "refused"
        self.check(self.train(run))
        older = self.train(run, f"resume={run}/step-40")
        self.assertEqual(older.returncode, 1)
        self.assertIn(f"{os.readlink(run / 'LATEST')} is newer", older.stderr)
        other = self.train(run, f"resume={run}", "lr=1e-4")
        self.assertEqual(other.returncode, 1)
        self.assertIn("resume: lr is 0.001 in", other.stderr)
        decayed = self.train(run, f"resume={run}", "weight_decay=0.1", "optimizer_eps=1e-6")
        self.assertEqual(decayed.returncode, 1)
        self.assertIn("resume: weight_decay is null in", decayed.stderr)
        self.assertIn("resume: optimizer_eps is null in", decayed.stderr)
        self.assertIn("but 1e-06 now", decayed.stderr)
        file = run / "LATEST" / "state" / "optimizer.safetensors"
        damaged = bytearray(file.read_bytes())
        damaged[-5] ^= 1
        file.write_bytes(damaged)
        found = self.train(run, f"resume={run}")
        self.assertEqual(found.returncode, 1)
        self.assertIn("optimizer.safetensors is damaged", found.stderr)
        (run / "LATEST" / "COMPLETE").unlink()
        older = self.train(run, f"resume={run}")
        self.check(older)
        self.assertIn(f"{os.readlink(run / 'LATEST')} is not complete and is ignored", older.stderr)
        self.assertTrue((run / "LATEST" / "COMPLETE").exists())
        self.assertEqual(self.weights(run), self.weights(self.whole))
        shorter = self.train(run, f"resume={run}", "n_examples=80")
        self.assertEqual(shorter.returncode, 1, shorter.stderr)
        self.assertRegex(shorter.stderr, r"is at update 399, but with the current n_epochs and n_examples the run has only 20")
        missing = self.train(run, f"resume={run}/nowhere")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("no such folder", missing.stderr)


if __name__ == "__main__":
    main()

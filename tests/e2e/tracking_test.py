"""The programs that send runs to trackers: what they send, that they neither delay nor fail a run, and that they end with
it. The packages of the trackers are stand-ins; the real ones are in tests/parity."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

from tiny_run import ENDLESS, HANGS, PROGRAM, STOPPED, TRAINING_FAILED, TinyRuns, main

STEP = "counters/examples"


def is_running(process):
    """Returns False also for a process whose parent has not waited for it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(condition):
    while not condition():
        time.sleep(0.02)


class Tracking(TinyRuns):
    def setUp(self):
        self.log = self.folder / f"{self.id()}.jsonl"
        self.log.touch()
        self.run_folder = self.folder / self.id()
        changed = mock.patch.dict(os.environ, PYTHONPATH=str(Path(__file__).parent / "stand_ins"), STAND_IN_LOG=str(self.log),
                                  DPO_TRACKER_SECONDS=str(HANGS))
        changed.start()
        self.addCleanup(changed.stop)
        os.environ.pop("WANDB_MODE", None)

    def run_it(self, *words, **variables):
        return self.train(self.run_folder, *words, env=os.environ | variables)

    def track(self, *words, **variables):
        return subprocess.run([PROGRAM, "track", self.run_folder, *words], env=os.environ | variables, capture_output=True,
                              text=True)

    def calls(self, name=None):
        calls = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [call for call in calls if name in (None, call["call"])]

    def rows(self):
        """Returns the lines of metrics.jsonl by step. An update and an evaluation are one row."""
        rows = {}
        for line in self.metrics(self.run_folder):
            rows.setdefault(line[STEP], {}).update(line)
        return rows

    def check_sent(self, names=None):
        """Checks that each step was sent once, with its metrics or only those in `names`."""
        sent = [(call["step"], call["values"]) for call in self.calls("log")]
        expected = self.rows()
        self.assertEqual([step for step, _ in sent], list(expected))
        for step, values in sent:
            for name in expected[step].keys() & set(names or expected[step]):
                self.assertEqual(values[name], expected[step][name], (step, name))

    def test_a_run_is_sent_while_it_trains(self):
        done = self.run_it("n_examples=80", "sample_during_eval=true", "n_eval_model_samples=2", "wandb.entity=team")
        self.check(done)
        self.check_sent()
        begin, = self.calls("init")
        self.assertEqual((begin["given"]["name"], begin["given"]["project"], begin["given"]["entity"], begin["given"]["resume"]),
                         ("tiny", "direct-preference-optimization", "team", "allow"))
        self.assertEqual(begin["given"]["config"]["loss"]["beta"], 0.1)
        self.assertIn(f"  wandb        https://wandb.test/{begin['id']}\n", done.stderr)
        end, = self.calls("finish")
        self.assertEqual(end["exit_code"], 0)
        last = self.calls("log")[-1]["values"]
        samples = [json.loads(line) for line in (self.run_folder / "samples/step-80.jsonl").read_text().splitlines()]
        for name, model in (("policy_samples", "policy"), ("reference_samples", "reference")):
            self.assertEqual(last[name], {"columns": ["step", "prompt", "sample"],
                                          "data": [[80, sample["prompt"], sample[model]] for sample in samples]})
        evaluated = [json.loads(line) for line in (self.run_folder / "eval/step-80.jsonl").read_text().splitlines()]
        lengths = last["eval_tokens/rejected"]
        self.assertEqual(lengths["edges"][0], min(example["tokens"][-1] for example in evaluated))
        self.assertEqual(sum(lengths["counts"]), len(evaluated))
        self.assertEqual(sum(last["eval_rewards/margins"]["counts"]), len(evaluated))
        self.assertEqual((self.run_folder / "track-wandb.log").read_text(), "")

    def test_a_killed_run_ends_its_sender_and_the_resumed_run_goes_on(self):
        # Line 24 is written after step-80 was begun, which waits until step-40 is complete.
        killed = self.signalled(self.run_folder, signal.SIGKILL, 24, "n_examples=120")
        self.assertEqual(killed.returncode, -signal.SIGKILL, killed.stderr)
        wait_for(lambda: self.calls("finish"))
        wait_for(lambda: not is_running(self.calls("finish")[0]["process"]))
        self.assertEqual(self.calls("finish")[0]["exit_code"], 137)
        self.check(self.run_it("n_examples=120", "resume=auto"))
        self.assertEqual([end["exit_code"] for end in self.calls("finish")], [137, 0])
        self.assertEqual(len({call["id"] for call in self.calls()}), 1)
        self.check_sent(["loss/train", "loss/eval", "grad_norm", STEP])

    def test_a_run_that_begins_again_is_another_run_at_the_tracker(self):
        killed = self.signalled(self.run_folder, signal.SIGKILL, 5, "n_examples=40", "eval_every=40")
        self.assertEqual(killed.returncode, -signal.SIGKILL, killed.stderr)
        wait_for(lambda: self.calls("finish"))
        self.check(self.run_it("n_examples=40", "eval_every=40", "lr=5e-4", "resume=auto"))
        first, second = self.calls("init")
        self.assertNotEqual(first["id"], second["id"])
        self.assertEqual([call["step"] for call in self.calls("log") if call["id"] == second["id"]], list(self.rows()))

    def test_a_run_that_is_stopped_or_fails(self):
        stopped = self.signalled(self.run_folder, signal.SIGTERM, 16, "n_examples=120")
        self.assertEqual(stopped.returncode, STOPPED, stopped.stderr)
        self.check(self.run_it("n_examples=120", "resume=auto"))
        self.check_sent(["loss/train", "loss/eval", "grad_norm", STEP])
        self.run_folder = self.folder / "failed"
        failed = self.run_it("n_examples=80", f"model.name_or_path={self.spoilt_model()}", "do_first_eval=false")
        self.assertEqual(failed.returncode, TRAINING_FAILED, failed.stderr)
        self.assertEqual([end["exit_code"] for end in self.calls("finish")], [143, 0, 2])

    def test_a_tracker_that_hangs_does_not_keep_the_run_from_ending(self):
        done = self.run_it("n_examples=8", STAND_IN="hang", DPO_TRACKER_SECONDS="1")
        self.check(done)
        self.assertIn(f"warning: Weights & Biases: not finished 1 s after the end of the run ({self.run_folder}/track-wandb.log); "
                      f"'dpo track {self.run_folder} --to wandb' sends what is missing\n", done.stderr)
        self.assertFalse(is_running(self.calls("init")[0]["process"]))
        self.check(self.track("--to", "wandb"))
        self.check_sent()

    def test_a_tracker_that_fails_is_told_once(self):
        done = self.run_it("n_examples=8", STAND_IN="fail")
        self.check(done)
        self.assertEqual(done.stderr.count("warning: Weights & Biases: RuntimeError: as the test asked ("), 1)
        self.assertIn("Traceback", (self.run_folder / "track-wandb.log").read_text())
        failed = self.track("--to", "wandb", STAND_IN="fail")
        self.assertEqual(failed.returncode, 1)
        self.assertTrue(failed.stderr.endswith("RuntimeError: as the test asked\n"), failed.stderr)

    def test_without_the_package_there_is_one_note(self):
        wrapper = self.folder / "bin/python3"
        wrapper.parent.mkdir()
        wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
        wrapper.chmod(0o755)
        path = f"{wrapper.parent}:{os.environ['PATH']}"
        done = self.run_it("n_examples=8", PATH=path)
        self.check(done)
        note = (f"note: the run is not sent to Weights & Biases, because there is no python3 with the package wandb; with it, 'dpo "
                f"track {self.run_folder} --to wandb' sends the run, now or later, and wandb.enabled=false turns this note off\n")
        self.assertEqual(done.stderr.count(note), 1, done.stderr)
        sent = self.track("--to", "wandb", PATH=path)
        self.assertEqual((sent.returncode, sent.stderr),
                         (1, "error: python3 has no package wandb: install it, for example with pip\n"))

    def test_they_can_be_turned_off(self):
        for words, variables in ((["wandb.enabled=false"], {}), (["debug=true"], {}), ([], {"WANDB_MODE": "disabled"})):
            done = self.run_it("n_examples=8", "overwrite=true", *words, **variables)
            self.check(done)
            self.assertNotIn("wandb", done.stderr)
            self.assertEqual([*self.run_folder.glob("track-*")], [])

    def test_nothing_counts_as_sent_if_the_package_is_turned_off(self):
        done = self.run_it("n_examples=8", STAND_IN="disabled")
        self.check(done)
        self.assertNotIn("Weights & Biases", done.stderr)
        sent = self.track("--to", "wandb", STAND_IN="disabled")
        self.assertEqual((sent.returncode, sent.stderr), (1, "error: W&B is turned off by its settings or by WANDB_MODE\n"))
        self.check(self.track("--to", "wandb"))
        self.check_sent()

    def test_a_copied_run_with_unusual_texts_and_values(self):
        self.check(self.run_it("n_examples=80", "sample_during_eval=true", "n_eval_model_samples=1", "wandb.enabled=false"))
        (self.run_folder / ".lock").unlink()
        sample, evaluated = (self.run_folder / folder / "step-80.jsonl" for folder in ("samples", "eval"))
        sample.write_text(json.dumps({"prompt": "\x85", "policy": "a\u2028b"}, ensure_ascii=False) + "\n", encoding="utf-8")
        records = [json.loads(line) for line in evaluated.read_text().splitlines()]
        records[0]["rewards"][0] = None  # as NaN is written
        evaluated.write_text("".join(json.dumps(record) + "\n" for record in records))
        self.check(self.track("--to", "wandb"))
        self.check_sent()
        last = self.calls("log")[-1]["values"]
        self.assertEqual(last["policy_samples"]["data"], [[80, "\x85", "a\u2028b"]])
        self.assertEqual([sum(last[f"eval_rewards/{name}"]["counts"]) for name in ("chosen", "rejected", "margins")],
                         [len(records) - 1, len(records), len(records) - 1])

    def test_a_state_that_cannot_be_used(self):
        self.check(self.run_it("n_examples=8", "wandb.enabled=false"))
        state, other = self.run_folder / "track-wandb.json", self.folder / "other.json"
        state.write_text("damaged")
        done = self.track("--to", "wandb")
        self.assertEqual((done.returncode, done.stderr),
                         (1, f"error: {state} is damaged; remove it, and the run is sent as another one\n"))
        state.rename(other)
        os.link(other, state)
        done = self.track("--to", "wandb")
        self.assertEqual((done.returncode, done.stderr),
                         (1, f"error: {state} is not a regular file with one name; remove it\n"))
        self.assertEqual(other.read_text(), "damaged")

    def test_a_folder_with_the_name_of_a_package_is_no_package(self):
        (self.folder / "path/trackio").mkdir(parents=True)
        python = self.folder / "path/python3"
        python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')  # without the packages of the test environment
        python.chmod(0o755)
        self.check(self.run_it("n_examples=8", "wandb.enabled=false"))
        done = self.track("--to", "trackio", PYTHONPATH=str(self.folder / "path"), PATH=f"{python.parent}:{os.environ['PATH']}")
        self.assertEqual((done.returncode, done.stderr),
                         (1, "error: python3 has no package trackio: install it, for example with pip\n"))

    def test_a_run_is_sent_later(self):
        self.check(self.run_it("n_examples=80", "wandb.enabled=false"))
        done = self.track("--to", "wandb")
        self.check(done)
        self.assertEqual(done.stdout, f"https://wandb.test/{self.calls('init')[0]['id']}\n")
        self.check_sent()
        self.check(self.track("--to", "wandb"))
        self.check_sent()
        self.assertEqual(self.calls("finish")[-1]["exit_code"], 0)

    def test_a_run_of_another_process_is_followed_to_its_end(self):
        run = subprocess.Popen(self.train_command(self.run_folder, *ENDLESS, "wandb.enabled=false"),
                               stderr=subprocess.DEVNULL)
        wait_for(lambda: (self.run_folder / "metrics.jsonl").exists() and len(self.metrics(self.run_folder)) > 2)
        command = [PROGRAM, "track", self.run_folder, "--to", "wandb"]
        sender = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_for(lambda: len(self.calls("log")) > 2)
        second = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual((second.returncode, second.stderr), (1, "error: another process sends this run\n"))
        run.send_signal(signal.SIGTERM)
        self.assertEqual(run.wait(), STOPPED)
        self.assertEqual(sender.wait(), 0)
        self.check_sent()
        self.assertEqual(self.calls("finish")[0]["exit_code"], 143)

    def test_swanlab(self):
        done = self.run_it("n_examples=80", "sample_during_eval=true", "n_eval_model_samples=1", "wandb.enabled=false",
                           "swanlab.enabled=true")
        self.check(done)
        self.check_sent()
        begin, = self.calls("init")
        self.assertEqual(begin["given"]["experiment_name"], "tiny")
        self.assertEqual(self.calls("finish")[0]["state"], "success")
        sample = json.loads((self.run_folder / "samples/step-80.jsonl").read_text())
        self.assertEqual(self.calls("log")[-1]["values"]["samples"], [{"content": sample["policy"], "caption": sample["prompt"]}])
        self.assertIn("  swanlab      https://swanlab.test/run\n", done.stderr)

    def test_what_track_rejects(self):
        self.run_folder.mkdir()
        done = self.track("--to", "wandb")
        self.assertEqual((done.returncode, done.stderr),
                         (1, f"error: {self.run_folder}: not a run folder: there is no metrics.jsonl in it\n"))
        self.assertEqual(self.track("--to", "aim").returncode, 1)


if __name__ == "__main__":
    main()

"""An MLflow server gets every value of a run once, also if it was down for a while; and it never delays or stops a run."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "e2e"))
from tiny_run import PROGRAM, TinyRuns, main
from mlflow_server import RealServer, TestServer

PROBE = os.environ["DPO_MLFLOW_PROBE"]
STEP = "counters/examples"
KEPT = ("PATH", "HOME", "OMP_NUM_THREADS", "LD_LIBRARY_PATH", "TMPDIR")
NOT_DELAYED = 0.5  # seconds that logging may take, on a busy machine


class Probe:
    """A program that logs like a run."""

    def __init__(self, folder, url, **variables):
        self.folder = folder
        environment = {name: os.environ[name] for name in KEPT if name in os.environ}
        self.process = subprocess.Popen([PROBE, folder], env=environment | {"MLFLOW_TRACKING_URI": url} | variables,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.notes = []

    def do(self, line):
        """Returns how long it took."""
        print(line, file=self.process.stdin, flush=True)
        while (answer := self.process.stdout.readline()).startswith("note: "):
            self.notes.append(answer)
        return float(answer)

    def log(self, *steps):
        for step in steps:
            seconds = self.do(f"update {step} {1 / (1 + step)}")
            assert seconds < NOT_DELAYED, seconds

    def wait_for(self, condition):
        for _ in range(200):
            if condition():
                return
            self.do("sleep 0.05")
        raise AssertionError(f"it did not happen; notes: {self.notes}")

    def close(self, how=None):
        if self.process.poll() is None:
            if how:
                self.process.send_signal(how)
            self.process.communicate()


def track(run, *arguments, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW")}
    return subprocess.run([PROGRAM, "track", run, *arguments], env=environment | variables, capture_output=True, text=True)


def losses(*steps):
    return [(step, 1 / (1 + step)) for step in steps]


class Failures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.scratch.name)

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def serve(self, **options):
        server = TestServer(**options)
        self.addCleanup(server.stop)
        return server

    def start(self, name, url, *history, **variables):
        probe = Probe(self.folder / name, url, **variables)
        self.addCleanup(probe.close, signal.SIGKILL)
        for line in (*history, "open"):
            probe.do(line)
        return probe

    def sent(self, server):
        return [(step, value) for step, name, value in server.metrics if name == "loss/train"]

    def test_down_at_the_start_and_back_later(self):
        server = TestServer()
        server.stop()
        run = self.start("down", server.url)
        run.log(4, 8)
        run.wait_for(lambda: run.notes)
        self.assertIn(f"warning: MLflow at {server.url}: Couldn't connect to server; training continues", run.notes[0])
        server = self.serve(port=server.server_port)
        run.log(12)
        run.wait_for(lambda: len(self.sent(server)) == 3)
        run.do("finish 0")
        self.assertEqual(self.sent(server), losses(4, 8, 12))
        self.assertEqual((len(run.notes), server.params["loss.beta"], server.statuses), (1, "0.1", ["FINISHED"]))

    def test_down_in_the_middle_and_at_the_end(self):
        server = TestServer()
        run = self.start("middle", server.url)
        run.log(4, 8)
        run.wait_for(lambda: len(self.sent(server)) == 2)
        server.stop()
        first = self.sent(server)
        run.log(*range(12, 4000, 4))
        self.assertLess(run.do("finish 0"), 2)
        self.assertRegex(run.notes[-1], rf"\d+ values were not sent: 'dpo track {run.folder}' sends them")
        remaining = 2 * len(range(12, 4000, 4))
        self.assertIn(f" {remaining} values", run.notes[-1])
        run.close()
        failed = track(run.folder)
        self.assertEqual(failed.returncode, 1)
        self.assertIn(f"{remaining} values are left to send", failed.stderr)
        back = self.serve(port=server.server_port)
        done = track(run.folder)
        self.assertEqual((done.returncode, done.stderr), (0, f"sent {remaining:,} values\n"))
        self.assertEqual(done.stdout, f"{server.url}/#/experiments/5/runs/run0\n")
        self.assertEqual(first + self.sent(back), losses(*range(4, 4000, 4)))
        self.assertEqual((back.statuses, len(back.runs)), (["FINISHED"], 0))
        self.assertEqual(track(run.folder).stderr, "sent 0 values\n")
        # Another server gets all of it.
        other = self.serve()
        self.assertEqual(track(run.folder, "--uri", other.url).returncode, 0)
        self.assertEqual(self.sent(other), losses(*range(4, 4000, 4)))

    def test_a_killed_run_is_continued_by_the_resumed_one(self):
        server = self.serve(fail=lambda path: 503)
        run = self.start("killed", server.url)
        run.log(4, 8, 12)
        run.wait_for(lambda: run.notes)
        self.assertIn("HTTP status 503: as the test asked", run.notes[0])
        run.close(signal.SIGKILL)
        server.fail = lambda path: None
        run = self.start("killed", server.url, "history 4 0.2")
        run.log(8, 12, 16)  # after the checkpoint
        run.do("finish 0")
        self.assertEqual(self.sent(server), losses(4, 8, 12, 16))
        self.assertEqual((server.statuses, len(server.runs)), (["RUNNING", "FINISHED"], 1))

    def test_slow(self):
        server = self.serve(fail=lambda path: time.sleep(30))
        run = self.start("slow", server.url)
        run.log(*range(4, 400, 4))
        self.assertLess(run.do("finish 0"), 5)  # the probe waits for 3 s
        self.assertIn("no answer yet; 201 values were not sent", run.notes[-1])

    def test_what_the_server_rejects_does_not_keep_the_rest_back(self):
        rejected = []
        def fail(path):
            if path == "runs/log-batch" and len(rejected) < 2:
                rejected.append(path)
                return 400
            return None
        server = self.serve(fail=fail)
        run = self.start("rejected", server.url)
        run.wait_for(lambda: rejected)  # the parameters
        run.log(4)
        run.wait_for(lambda: len(rejected) == 2)
        run.log(8, 12)
        run.do("finish 0")
        self.assertEqual(self.sent(server), losses(8, 12))
        self.assertIn("does not accept what this run logs: HTTP status 400: as the test asked", run.notes[0])
        self.assertIn("did not accept 5 values: HTTP status 400", run.notes[-1])
        self.assertEqual(len(run.notes), 2)

    def test_artifacts_that_fail_do_not_keep_metrics_back(self):
        server = self.serve(fail=lambda path: 500 if "artifacts" in path else None)
        run = self.start("artifacts", server.url)
        run.do("samples 4 text")
        run.log(4)
        run.do("finish 0")
        self.assertEqual(self.sent(server), losses(4))

    def test_credentials_are_sent_and_never_written(self):
        server = self.serve(fail=lambda path: 401)
        run = self.start("unauthorized", server.url, MLFLOW_TRACKING_TOKEN="hidden-token")
        run.log(4)
        run.do("finish 0")
        self.assertIn("HTTP status 401: as the test asked; check MLFLOW_TRACKING_USERNAME", run.notes[-1])
        self.assertEqual(set(server.authorization), {"Bearer hidden-token"})
        run.close()
        server.fail = lambda path: None
        done = track(run.folder, MLFLOW_TRACKING_USERNAME="me", MLFLOW_TRACKING_PASSWORD="pässword", MLFLOW_TRACKING_TOKEN="other")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(server.authorization[-1], "Basic bWU6cMOkc3N3b3Jk")
        self.assertEqual(self.sent(server), losses(4))
        texts = "".join(run.notes) + done.stderr + done.stdout
        for file in run.folder.rglob("*"):
            texts += file.read_text() if file.is_file() else ""
        for secret in ("hidden-token", "pässword", "bWU6"):
            self.assertNotIn(secret, texts)

    def test_a_stop_signal_does_not_end_the_last_requests(self):
        server = self.serve()
        run = self.start("stopped", server.url)
        run.process.send_signal(signal.SIGTERM)
        run.log(4)
        run.do("finish 143")
        self.assertEqual((self.sent(server), server.statuses, run.notes), (losses(4), ["KILLED"], []))

    def test_track_says_what_it_needs(self):
        done = track(self.folder / "none")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no run that was sent to MLflow", done.stderr)


class Real(TinyRuns):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        data = cls.folder / "server"
        data.mkdir()
        cls.server = RealServer(data)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        super().tearDownClass()

    def run_named(self, name):
        run, = [run for run in self.server.runs() if run["info"]["run_name"] == name]
        return run

    def check_metrics(self, run, folder, names=None):
        expected = {}
        for line in self.metrics(folder):
            for name, value in line.items():
                expected.setdefault(name, {})[line[STEP]] = value
        for name in names or expected:
            self.assertEqual(self.server.history(run, name), list(expected[name].items()), name)

    def test_a_run_that_is_killed_and_resumed(self):
        folder, arguments = self.folder / "killed", ["n_examples=120", "exp_name=killed", f"mlflow.tracking_uri={self.server.url}/",
                                                     "sample_during_eval=true", "n_eval_model_samples=2"]
        process = subprocess.Popen(self.train_command(folder, *arguments), stderr=subprocess.PIPE, text=True)
        with process.stderr as lines:
            for line in lines:
                if line.startswith("update 17 "):
                    process.send_signal(signal.SIGKILL)
        self.assertEqual(process.wait(), -signal.SIGKILL)
        done = self.train(folder, "resume=auto", *arguments)
        self.check(done)
        run = self.run_named("killed")
        page = f"{self.server.url}/#/experiments/{run['info']['experiment_id']}/runs/{run['info']['run_id']}"
        self.assertIn(f"  mlflow       {page}\n", done.stderr)
        self.assertEqual(run["info"]["status"], "FINISHED")
        self.assertGreater(int(run["info"]["end_time"]), int(run["info"]["start_time"]))
        # Speeds were measured again after the checkpoint; the server has the first of them.
        self.check_metrics(run, folder, ["loss/train", "loss/eval", "grad_norm", "learning_rate", STEP, "rewards_eval/margins"])
        params = {param["key"]: param["value"] for param in run["data"]["params"]}
        self.assertEqual((params["loss.beta"], params["exp_name"], params["n_examples"]), ("0.1", "killed", "120"))
        sample = json.loads((folder / "samples/step-120.jsonl").read_text().splitlines()[1])
        table = json.loads(self.server.artifact(run, "samples/step-120.json"))
        self.assertEqual(table["columns"], ["step", "prompt", "policy", "reference"])
        self.assertEqual(table["data"][1], [120, sample["prompt"], sample["policy"], sample["reference"]])

    def test_every_metric_and_the_environment(self):
        folder = self.folder / "whole"
        done = self.train(folder, "n_examples=40", "exp_name=whole", env=os.environ | {
            "MLFLOW_TRACKING_URI": self.server.url, "MLFLOW_EXPERIMENT_NAME": "an experiment & more"})
        self.check(done)
        run, = self.server.runs("an experiment & more")
        self.check_metrics(run, folder)

    def test_a_run_that_fails(self):
        done = self.train(self.folder / "fails", "n_examples=80", "exp_name=fails", f"mlflow.tracking_uri={self.server.url}",
                          f"model.name_or_path={self.spoilt_model()}", "do_first_eval=false")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(self.run_named("fails")["info"]["status"], "FAILED")

    def test_what_is_not_a_server_is_refused_before_the_run(self):
        folder = self.folder / "refused"
        done = self.train(folder, "mlflow.tracking_uri=sqlite:///a.db")
        self.assertEqual(done.returncode, 1)
        self.assertIn("mlflow.tracking_uri=sqlite:///a.db: expected the address of an MLflow server", done.stderr)
        self.assertFalse(folder.exists())
        self.check(self.train(folder, "mlflow.tracking_uri=sqlite:///a.db", "n_examples=8", "debug=true"))
        self.assertFalse((folder / "mlflow").exists())

    def test_values_that_are_not_numbers_and_many_at_once(self):
        probe = Probe(self.folder / "probe", self.server.url, MLFLOW_EXPERIMENT_NAME="probe")
        probe.do("open")
        probe.log(*range(0, 6000, 4))
        probe.do("update 6000 nan")
        probe.do("evaluation 6000 0.5")
        probe.do("finish 143")
        self.assertEqual(probe.notes, [])
        probe.close()
        run, = self.server.runs("probe")
        points = self.server.history(run, "loss/train")
        self.assertEqual(points[:-1], losses(*range(0, 6000, 4)))
        self.assertEqual(str(points[-1]), "(6000, nan)")
        self.assertEqual(self.server.history(run, "counters/examples")[-1], (6000, 6000))
        self.assertEqual(len(self.server.history(run, "counters/examples")), 1501)
        self.assertEqual(run["info"]["status"], "KILLED")
        # A run that is resumed is running again.
        probe = Probe(self.folder / "probe", self.server.url)
        probe.do("open")
        probe.wait_for(lambda: self.server.runs("probe")[0]["info"]["status"] == "RUNNING")
        probe.log(6004)
        probe.do("finish 0")
        probe.close()
        run, = self.server.runs("probe")
        self.assertEqual(self.server.history(run, "loss/train")[-1], (6004, 1 / 6005))
        self.assertEqual(run["info"]["status"], "FINISHED")


if __name__ == "__main__":
    report = json.loads(subprocess.run([PROGRAM, "doctor", "--json"], capture_output=True).stdout)
    if any(item["what"] == "libcurl" for item in report["missing"]):
        print("not run: built without libcurl")
        sys.exit(77)
    main()

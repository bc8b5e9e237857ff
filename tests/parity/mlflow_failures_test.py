"""MLflow servers that fail or are down never delay or stop a run, and no value is lost."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

from mlflow_server import TestServer

PROGRAM = os.environ["DPO_PROGRAM"]
PROBE = os.environ["DPO_MLFLOW_PROBE"]
KEPT = ("PATH", "HOME", "OMP_NUM_THREADS", "LD_LIBRARY_PATH", "TMPDIR")
SHORT, LONG = 100, 3_600_000  # milliseconds that a run waits at its end for a server that does not answer, and for one that does


class Probe:
    """Runs a program that logs like a run."""

    def __init__(self, folder, url, finish=LONG, **variables):
        self.folder = folder
        environment = {name: os.environ[name] for name in KEPT if name in os.environ}
        self.process = subprocess.Popen([PROBE, folder, str(finish)], env=environment | {"MLFLOW_TRACKING_URI": url} | variables,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.notes = []

    def do(self, line):
        print(line, file=self.process.stdin, flush=True)
        while (answer := self.process.stdout.readline()).startswith("note: "):
            self.notes.append(answer)
        assert answer == "done\n", answer

    def log(self, *steps):
        for step in steps:
            self.do(f"update {step} {1 / (1 + step)}")

    def wait_for(self, condition):
        while not condition():
            self.do("sleep 0.05")

    def wait_until_sent(self):
        """Waits until the run knows that the server has received all logged values."""
        state, queue = self.folder / "mlflow/run.json", self.folder / "mlflow/queue.jsonl"
        self.wait_for(lambda: json.loads(state.read_text())["sent"] == queue.stat().st_size)

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
        self.addCleanup(server.reserved.close)
        self.addCleanup(server.stop)
        return server

    def start(self, name, url, *history, **options):
        probe = Probe(self.folder / name, url, **options)
        self.addCleanup(probe.close, signal.SIGKILL)
        for line in (*history, "open"):
            probe.do(line)
        self.assertIn(f"are sent to {url} (MLFLOW_TRACKING_URI)", probe.notes.pop(0))
        return probe

    def sent(self, server):
        return [(step, value) for step, name, value in server.metrics if name == "loss/train"]

    def test_down_at_the_start_and_back_later(self):
        server = self.serve()
        server.stop()
        run = self.start("down", server.url)
        run.log(4, 8)
        run.wait_for(lambda: run.notes)
        self.assertIn(f"warning: MLflow at {server.url}: Couldn't connect to server; training continues", run.notes[0])
        server = self.serve(before=server)
        run.log(12)
        run.wait_for(lambda: len(self.sent(server)) == 3)
        run.do("finish 0")
        self.assertEqual(self.sent(server), losses(4, 8, 12))
        self.assertEqual((len(run.notes), server.params["loss.beta"], server.statuses), (1, "0.1", ["FINISHED"]))

    def test_down_in_the_middle_and_at_the_end(self):
        server = self.serve()
        run = self.start("middle", server.url)
        run.log(4, 8)
        run.wait_until_sent()
        server.stop()
        first = self.sent(server)
        self.assertEqual(first, losses(4, 8))
        run.log(*range(12, 4000, 4))
        run.do("finish 0")
        self.assertRegex(run.notes[-1], rf"\d+ values were not sent: 'dpo track {run.folder}' sends them")
        remaining = 2 * len(range(12, 4000, 4))
        self.assertIn(f" {remaining} values", run.notes[-1])
        run.close()
        failed = track(run.folder)
        self.assertEqual(failed.returncode, 1)
        self.assertIn(f"{remaining} values are left to send", failed.stderr)
        back = self.serve(before=server)
        done = track(run.folder)
        self.assertEqual((done.returncode, done.stderr), (0, f"sent {remaining:,} values\n"))
        self.assertEqual(done.stdout, f"{server.url}/#/experiments/5/runs/run0\n")
        self.assertEqual(first + self.sent(back), losses(*range(4, 4000, 4)))
        self.assertEqual((back.statuses, len(back.runs)), (["FINISHED"], 0))
        self.assertEqual(track(run.folder).stderr, "sent 0 values\n")
        # Another server gets all values.
        other = self.serve()
        self.assertEqual(track(run.folder, "--uri", other.url).stdout, f"{other.url}/#/experiments/5/runs/run0\n")
        self.assertEqual(self.sent(other), losses(*range(4, 4000, 4)))
        # The run still belongs to the first server, which can get all values again.
        self.assertEqual(track(run.folder).stdout, f"{server.url}/#/experiments/5/runs/run0\n")
        self.assertEqual(track(run.folder, "--uri", server.url).returncode, 0)
        self.assertEqual(self.sent(back)[-1:], losses(3996))

    def test_a_killed_run_is_continued_by_the_resumed_one(self):
        server = self.serve(fail=lambda path: 503)
        run = self.start("killed", server.url)
        run.log(4, 8, 12)
        run.wait_for(lambda: run.notes)
        self.assertIn("HTTP status 503: as the test asked", run.notes[0])
        run.close(signal.SIGKILL)
        server.stop()  # the server has handled its last requests
        server = self.serve(before=server)
        run = self.start("killed", server.url, "history 4 0.2")
        run.log(8, 12, 16)  # these steps follow the checkpoint
        run.do("finish 0")
        self.assertEqual(self.sent(server), losses(4, 8, 12, 16))
        self.assertEqual((server.statuses, len(server.runs)), (["RUNNING", "FINISHED"], 1))

    def hanging(self):
        """Returns a function that does not return before the end of the test."""
        ended = threading.Event()
        self.addCleanup(ended.set)
        return lambda: ended.wait() and None

    def test_a_server_that_never_answers(self):
        """Logging and the end of the run do not wait for the server."""
        hang = self.hanging()
        server = self.serve(fail=lambda path: hang())
        run = self.start("slow", server.url, finish=SHORT)
        run.log(*range(4, 400, 4))
        run.do("finish 0")
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
        run.wait_for(lambda: rejected)  # the server rejects the parameters
        run.log(4)
        run.wait_for(lambda: len(rejected) == 2)
        run.log(8, 12)
        run.do("finish 0")
        self.assertEqual(self.sent(server), losses(8, 12))
        self.assertIn("does not accept what this run logs: HTTP status 400: as the test asked", run.notes[0])
        self.assertIn("did not accept 5 values: HTTP status 400", run.notes[-1])
        self.assertEqual(len(run.notes), 2)

    def test_artifacts_that_fail_do_not_keep_metrics_back(self):
        failures = {"fails": lambda: 500, "hangs": self.hanging()}
        for name, failure in failures.items():
            asked = []
            def fail(path, failure=failure, asked=asked):
                if "artifacts" not in path:
                    return None
                asked.append(path)
                return failure()
            server = self.serve(fail=fail)
            run = self.start(f"artifacts {name}", server.url, MLFLOW_HTTP_REQUEST_TIMEOUT="1")
            run.do("samples 4 text")
            run.log(4)
            run.wait_for(lambda server=server: self.sent(server))
            run.do("finish 0")
            # A request that a busy machine does not answer within a second is sent again.
            self.assertEqual(set(self.sent(server)), set(losses(4)))
            self.assertTrue(asked)
            self.assertIn("did not accept the samples of 1 evaluations: artifacts: ", run.notes[-1])

    def test_addresses_of_artifacts_are_escaped(self):
        server = self.serve()
        run = self.start("escaped", server.url)
        run.do("samples 4 text")
        run.do("finish 0")
        self.assertEqual(list(server.uploads), ["/api/2.0/mlflow-artifacts/artifacts/5%20%23/run/samples/step-4%2Ejson"])

    def test_a_status_404_drops_nothing(self):
        server = self.serve()
        run = self.start("proxy", server.url)
        run.log(4)
        run.wait_for(lambda: self.sent(server))
        server.fail = lambda path: 404
        run.log(8, 12)
        run.wait_for(lambda: run.notes)
        self.assertIn("HTTP status 404: as the test asked; training continues", run.notes[0])
        server.fail = lambda path: None
        run.wait_for(lambda: len(self.sent(server)) == 3)
        run.do("finish 0")
        self.assertEqual((self.sent(server), len(run.notes)), (losses(4, 8, 12), 1))

    def test_a_server_with_a_new_database_gets_all(self):
        server = self.serve()
        run = self.start("new database", server.url)
        run.log(4)
        run.wait_for(lambda: self.sent(server))
        server.runs, server.metrics, server.params = [], [], {}
        server.fail = lambda path: None if server.runs or "log-batch" not in path else (404, "RESOURCE_DOES_NOT_EXIST")
        run.log(8)
        run.wait_for(lambda: len(self.sent(server)) == 2)
        run.do("finish 0")
        self.assertEqual((self.sent(server), server.params["loss.beta"], len(server.runs)), (losses(4, 8), "0.1", 1))

    def test_an_unusable_variable_does_not_stop_a_run(self):
        for uri in ("databricks", "file:./mlruns", "sqlite:///mlflow.db", "http://me:hidden@host"):
            run = Probe(self.folder / "unusable", uri)
            self.addCleanup(run.close, signal.SIGKILL)
            run.do("open")
            self.assertIn("warning: nothing is sent to MLflow: MLFLOW_TRACKING_URI=", run.notes[0])
            self.assertNotIn("hidden", run.notes[0])
            run.log(4)
            run.do("finish 0")
            self.assertFalse((run.folder / "mlflow").exists())

    def test_a_run_starts_while_another_process_sends(self):
        server = self.serve()
        folder = self.folder / "locked"
        (folder / "mlflow").mkdir(parents=True)
        with open(folder / "mlflow/.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            run = self.start("locked", server.url)
            run.log(4)
            run.wait_for(lambda: run.notes)
            self.assertIn("another process is writing to this run; training continues", run.notes[0])
            self.assertEqual(server.runs, [])
        run.wait_for(lambda: self.sent(server))
        refused = track(folder)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("another process is writing to this run", refused.stderr)
        run.log(8)
        run.do("finish 0")
        self.assertEqual(self.sent(server), losses(4, 8))

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


def main():
    report = json.loads(subprocess.run([PROGRAM, "doctor", "--json"], capture_output=True).stdout)
    if any(item["what"] == "libcurl" for item in report["missing"]):
        print("not run: built without libcurl")
        sys.exit(77)
    unittest.main()


if __name__ == "__main__":
    main()

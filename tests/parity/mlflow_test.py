"""An MLflow server gets every value of a run once, also if the run was killed and resumed, or the server was down."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "e2e"))
from tiny_run import HANGS, PROGRAM, TinyRuns, main
from mlflow_server import RealServer

STEP = "counters/examples"
SAME = ("loss/train", "loss/eval", "grad_norm", "learning_rate", STEP, "rewards_eval/margins")  # in each attempt at a step
NO_SERVER = "http://127.0.0.1:1"
os.environ |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "DPO_TRACKER_SECONDS": str(HANGS),
               "MLFLOW_DISABLE_TELEMETRY": "true"}


class Mlflow(TinyRuns):
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

    @staticmethod
    def track(run, **variables):
        return subprocess.run([PROGRAM, "track", run, "--to", "mlflow"], env=os.environ | variables, capture_output=True, text=True)

    def test_a_run_that_is_killed_and_resumed(self):
        folder, arguments = self.folder / "killed", ["n_examples=120", "exp_name=killed", f"mlflow.tracking_uri={self.server.url}/",
                                                     "sample_during_eval=true", "n_eval_model_samples=2"]
        # Update 21 comes after step-80 was begun, which waits until step-40 is complete.
        killed = self.signalled(folder, signal.SIGKILL, 24, *arguments)
        self.assertEqual(killed.returncode, -signal.SIGKILL, killed.stderr)
        done = self.train(folder, "resume=auto", *arguments)
        self.check(done)
        run = self.run_named("killed")
        page = f"{self.server.url}/#/experiments/{run['info']['experiment_id']}/runs/{run['info']['run_id']}"
        self.assertIn(f"  mlflow       {page}\n", done.stderr)
        self.assertEqual(run["info"]["status"], "FINISHED")
        self.assertGreater(int(run["info"]["end_time"]), int(run["info"]["start_time"]))
        self.check_metrics(run, folder, SAME)
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
        # A server that does not have the run gets all of it.
        database = f"sqlite:///{self.folder}/other.db"
        done = self.track(folder, MLFLOW_TRACKING_URI=database)
        self.assertEqual((done.returncode, done.stdout), (0, f"{database}\n"), done.stderr)
        import mlflow
        client = mlflow.MlflowClient(tracking_uri=database)
        id = json.loads((folder / "track-mlflow.json").read_text())["id"]
        self.assertEqual([point.step for point in client.get_metric_history(id, "loss/train")], list(range(4, 44, 4)))
        self.assertEqual(client.get_run(id).data.params["loss.beta"], "0.1")

    def test_a_run_that_fails(self):
        done = self.train(self.folder / "fails", "n_examples=80", "exp_name=fails", f"mlflow.tracking_uri={self.server.url}",
                          f"model.name_or_path={self.spoilt_model()}", "do_first_eval=false")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(self.run_named("fails")["info"]["status"], "FAILED")

    def test_a_server_that_is_down(self):
        folder = self.folder / "down"
        done = self.train(folder, "n_examples=40", "exp_name=down", env=os.environ | {
            "MLFLOW_TRACKING_URI": NO_SERVER, "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"})
        self.check(done)
        self.assertIn(f"'dpo track {folder} --to mlflow' sends what is missing\n", done.stderr)
        self.assertEqual(done.stderr.count("warning: MLflow: "), 1)
        self.check(self.track(folder, MLFLOW_TRACKING_URI=self.server.url))
        self.check_metrics(self.run_named("down"), folder)
        self.check(self.track(folder, MLFLOW_TRACKING_URI=self.server.url))
        self.check_metrics(self.run_named("down"), folder)

    def test_a_password_in_the_address_is_rejected(self):
        folder = self.folder / "password"
        done = self.train(folder, "mlflow.tracking_uri=http://me:hidden@host")
        self.assertEqual(done.returncode, 1)
        self.assertIn("mlflow.tracking_uri: the address contains a user name or password", done.stderr)
        self.assertFalse(folder.exists())
        done = self.train(folder, "n_examples=8", env=os.environ | {"MLFLOW_TRACKING_URI": "http://me:hidden@host"})
        self.check(done)
        self.assertIn("warning: nothing is sent to MLflow: MLFLOW_TRACKING_URI: the address contains", done.stderr)
        self.assertNotIn("hidden", done.stderr)
        self.assertFalse((folder / "track-mlflow.json").exists())
        self.assertEqual(self.track(folder, MLFLOW_TRACKING_URI="").returncode, 1)


if __name__ == "__main__":
    main()

"""An MLflow server gets every value of a run once, also if the run was killed and resumed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "e2e"))
from tiny_run import PROGRAM, TinyRuns, main
from mlflow_failures_test import Probe, losses
from mlflow_server import RealServer

STEP = "counters/examples"


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
        killed = self.signalled(folder, signal.SIGKILL, 19, *arguments)  # update 17, after two evaluations
        self.assertEqual(killed.returncode, -signal.SIGKILL, killed.stderr)
        done = self.train(folder, "resume=auto", *arguments)
        self.check(done)
        run = self.run_named("killed")
        page = f"{self.server.url}/#/experiments/{run['info']['experiment_id']}/runs/{run['info']['run_id']}"
        self.assertIn(f"  mlflow       {page}\n", done.stderr)
        self.assertEqual(run["info"]["status"], "FINISHED")
        self.assertGreater(int(run["info"]["end_time"]), int(run["info"]["start_time"]))
        # Speeds were measured again after the checkpoint, but the server has the first values.
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
        self.assertEqual(len(probe.notes), 1)
        probe.log(*range(0, 6000, 4))
        probe.do("update 6000 nan")
        probe.do("evaluation 6000 0.5")
        probe.do("finish 143")
        self.assertEqual(len(probe.notes), 1)
        probe.close()
        run, = self.server.runs("probe")
        points = self.server.history(run, "loss/train")
        self.assertEqual(points[:-1], losses(*range(0, 6000, 4)))
        self.assertEqual(str(points[-1]), "(6000, nan)")
        self.assertEqual(self.server.history(run, "counters/examples")[-1], (6000, 6000))
        self.assertEqual(len(self.server.history(run, "counters/examples")), 1501)
        self.assertEqual(run["info"]["status"], "KILLED")
        # A resumed run has status RUNNING again. It is found even if the server's answer to its creation was lost.
        state = self.folder / "probe/mlflow/run.json"
        state.write_text(json.dumps(json.loads(state.read_text()) | {"run_id": ""}))
        probe = Probe(self.folder / "probe", self.server.url)
        probe.do("history 6000 nan")
        probe.do("open")
        probe.wait_for(lambda: self.server.runs("probe")[0]["info"]["status"] == "RUNNING")
        probe.log(6004)
        probe.do("finish 0")
        probe.close()
        run, = self.server.runs("probe")
        self.assertEqual(self.server.history(run, "loss/train")[-1], (6004, 1 / 6005))
        self.assertEqual(run["info"]["status"], "FINISHED")

    def test_a_run_that_begins_again_is_another_run(self):
        folder, arguments = self.folder / "again", ["n_examples=40", "exp_name=again", f"mlflow.tracking_uri={self.server.url}",
                                                    "mlflow.experiment=again"]
        killed = self.signalled(folder, signal.SIGKILL, 6, *arguments, "lr=1e-3", "eval_every=40")  # update 5
        self.assertEqual(killed.returncode, -signal.SIGKILL, killed.stderr)
        self.assertFalse((folder / "LATEST").exists())
        self.check(self.train(folder, "resume=auto", *arguments, "lr=5e-4", "eval_every=40"))
        run, = [run for run in self.server.runs("again") if run["info"]["status"] == "FINISHED"]
        self.assertEqual({param["key"]: param["value"] for param in run["data"]["params"]}["lr"], "0.0005")
        self.check_metrics(run, folder)


if __name__ == "__main__":
    report = json.loads(subprocess.run([PROGRAM, "doctor", "--json"], capture_output=True).stdout)
    if any(item["what"] == "libcurl" for item in report["missing"]):
        print("not run: built without libcurl")
        sys.exit(77)
    main()

"""MLflow's own server, for tests."""

import json
import os
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path

HANGS = 900  # seconds; no answer takes this long, also on a machine that is many times slower
API = "/api/2.0/mlflow/"


class RealServer:
    """Runs MLflow's own server, with a database in `folder`."""

    def __init__(self, folder):
        # The command 'mlflow server' sets these variables, but needs more packages.
        variables = {"_MLFLOW_SERVER_FILE_STORE": f"sqlite:///{folder}/mlflow.db", "_MLFLOW_SERVER_SERVE_ARTIFACTS": "true",
                     "_MLFLOW_SERVER_ARTIFACT_ROOT": "mlflow-artifacts:/",
                     "_MLFLOW_SERVER_ARTIFACT_DESTINATION": f"{folder}/artifacts", "MLFLOW_DISABLE_TELEMETRY": "true"}
        self.log = Path(folder, "server.log")
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([sys.executable, __file__], env=os.environ | variables, stdout=subprocess.PIPE,
                                            stderr=log, text=True)
        port = self.process.stdout.readline().strip()
        assert port, self.log.read_text()
        self.url = f"http://127.0.0.1:{port}"
        self.call("experiments/search", max_results=1)  # creates the database

    def call(self, path, **body):
        request = urllib.request.Request(f"{self.url}{API}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request, timeout=HANGS))

    def get(self, path, **query):
        return json.load(urllib.request.urlopen(f"{self.url}{API}{path}?{urllib.parse.urlencode(query)}", timeout=HANGS))

    def runs(self, experiment="direct-preference-optimization"):
        found = self.get("experiments/get-by-name", experiment_name=experiment)["experiment"]
        return self.call("runs/search", experiment_ids=[found["experiment_id"]]).get("runs", [])

    def history(self, run, metric):
        """Returns (step, value) in the order of logging."""
        points = self.get("metrics/get-history", run_id=run["info"]["run_id"], metric_key=metric)["metrics"]
        return [(point["step"], float(point["value"])) for point in points]

    def artifact(self, run, path):
        prefix = run["info"]["artifact_uri"].removeprefix("mlflow-artifacts:")
        return urllib.request.urlopen(f"{self.url}/api/2.0/mlflow-artifacts/artifacts{prefix}/{path}", timeout=HANGS).read()

    def stop(self):
        self.process.terminate()
        self.process.communicate()


def serve():
    from mlflow.server import app
    from werkzeug.serving import make_server
    server = make_server("127.0.0.1", 0, app, threaded=True)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve()

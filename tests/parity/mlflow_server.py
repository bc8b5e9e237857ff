"""MLflow servers for tests: the real one, and one that fails on request."""

import http.server
import json
import os
import socket
import subprocess
import sys
import threading
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


class TestServer(http.server.ThreadingHTTPServer):
    """Implements the part of the interface that dpo needs, and keeps what it accepts. `fail(path)` may return a status
    to answer with, or status and code, and may block. `before` is a stopped server, whose address this one takes."""

    allow_reuse_port = True

    def __init__(self, before=None, fail=lambda path: None):
        self.reserved = before.reserved if before else self.reserve()
        super().__init__(self.reserved.getsockname(), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.fail = fail
        self.connections = []
        self.runs, self.metrics, self.params, self.statuses, self.uploads, self.authorization = [], [], {}, [], {}, []
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    @staticmethod
    def reserve():
        """Returns a socket that never listens. It keeps other processes from taking its port while the server is
        down."""
        reserved = socket.socket()
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind(("127.0.0.1", 0))
        return reserved

    def handle_error(self, *_):
        pass  # the other side may close a connection at any time

    def stop(self):
        self.shutdown()
        self.server_close()
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # closed already

    def answer(self, path, sent):
        if path.startswith("experiments/get-by-name"):
            return {"experiment": {"experiment_id": "5"}}
        if path == "runs/search":
            return {"runs": self.runs} if self.runs else {}
        if path == "runs/create":
            self.runs.append({"info": {"run_id": f"run{len(self.runs)}", "artifact_uri": "mlflow-artifacts:/5 #/run"}})
            return {"run": self.runs[-1]}
        if path == "runs/log-batch":
            self.metrics += [(metric["step"], metric["key"], metric["value"]) for metric in sent.get("metrics", [])]
            self.params |= {param["key"]: param["value"] for param in sent.get("params", [])}
        if path == "runs/update":
            self.statuses.append(sent["status"])
        return {}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        self.server.connections.append(self.request)
        super().setup()

    def log_message(self, *_):
        pass

    def reply(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.authorization.append(self.headers.get("Authorization"))
        path = self.path.removeprefix(API)
        status = self.server.fail(path)
        if status:
            status, code = status if isinstance(status, tuple) else (status, "SOME_ERROR")
            answer = {"error_code": code, "message": "as the test asked"}
        elif self.command == "PUT":
            self.server.uploads[self.path] = body
            answer = {}
        else:
            answer = self.server.answer(path, json.loads(body or "{}"))
        text = json.dumps(answer).encode()
        self.send_response(status or 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = reply


def serve():
    from mlflow.server import app
    from werkzeug.serving import make_server
    server = make_server("127.0.0.1", 0, app, threaded=True)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve()

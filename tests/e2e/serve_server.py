"""Helpers of tests of dpo serve: run folders, the server as a process, and a plain HTTP client."""

import http.client
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from report_runs import ReportRuns
from tiny_run import HANGS, PROGRAM


def skip_without_server():
    if "built without cpp-httplib" in subprocess.run([PROGRAM, "serve", "/nowhere"], capture_output=True, text=True).stderr:
        print("not run: built without cpp-httplib")
        sys.exit(77)


class Server:
    """Runs dpo serve as a process. `address` is the one that it printed."""

    def __init__(self, *arguments, cwd):
        self.process = subprocess.Popen([PROGRAM, "serve", "--port", "0", *map(str, arguments)], cwd=cwd, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        if not self.address:
            raise RuntimeError(self.process.communicate()[1])
        self.host = urlsplit(self.address).netloc

    def connect(self, timeout=HANGS):
        port = urlsplit(self.address).port
        return http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)

    def ask(self, path, method="GET", body=None, **headers):
        """Returns status, headers and text of an answer. The path is sent unchanged."""
        connection = self.connect()
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        length = {} if body is None else {"Content-Length": str(len(body.encode()))}
        headers = {"Host": self.host, **length, **{name.replace("_", "-"): value for name, value in headers.items()}}
        for name, value in headers.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(body.encode() if body is not None else None)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, answer.headers, text

    def json(self, path, **headers):
        status, _, text = self.ask(path, **headers)
        assert status == 200, (status, text)
        return json.loads(text)

    def bytes_read(self):
        """Returns the bytes that the server has read from files and connections since it started."""
        return self.number_in("io", "rchar")

    def most_memory(self):
        return self.number_in("status", "VmHWM") * 1024

    def number_in(self, file, name):
        return int(re.search(rf"{name}:\s+(\d+)", Path(f"/proc/{self.process.pid}/{file}").read_text())[1])

    def stop(self):
        """Sends Ctrl-C. Returns the exit status."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.errors = self.process.communicate(timeout=HANGS)[1]
            finally:
                self.process.kill()
        return self.process.returncode


class Events:
    """Reads the events of a server one after the other."""

    def __init__(self, server, runs):
        self.connection = server.connect()
        self.connection.request("GET", "/api/events?runs=" + ",".join(runs), headers={"Host": server.host})
        self.answer = self.connection.getresponse()

    def next(self, name):
        """Returns the data of the next event of this name."""
        kind, end = None, time.monotonic() + HANGS
        while line := self.answer.readline():
            if time.monotonic() > end:
                raise TimeoutError(f"no event {name}")
            field, _, value = line.decode().rstrip("\n").partition(": ")
            kind = value if field == "event" else kind
            if field == "data" and kind == name:
                return json.loads(value)
        raise EOFError("the stream ended")

    def close(self):
        self.answer.close()
        self.connection.close()


class ServedRuns(ReportRuns):
    def serve(self, *arguments):
        server = Server(*(arguments or [self.folder]), cwd=self.folder)
        self.addCleanup(server.stop)
        return server

    def id_of(self, server, name):
        return next(run["id"] for run in server.json("/api/runs") if run["name"] == name)

"""Stands in for the package wandb, as if it reached its server: every call is a line of the file STAND_IN_LOG. STAND_IN
names a fault."""

import json
import os
import threading

Settings = dict


class errors:
    class UsageError(Exception):
        pass


def record(call, **values):
    with open(os.environ["STAND_IN_LOG"], "a") as log:
        log.write(json.dumps({"call": call, "process": os.getpid()} | values, default=vars) + "\n")


class Histogram:
    def __init__(self, np_histogram):
        self.counts, self.edges = np_histogram


class Table:
    def __init__(self, columns, data):
        self.columns, self.data = columns, data


class Run:
    def __init__(self, id):
        self.offline, self.url = False, f"https://wandb.test/{id}"
        self.disabled = os.environ.get("STAND_IN") == "disabled"
        calls = [json.loads(line) for line in open(os.environ["STAND_IN_LOG"])]
        self.step = max([call["step"] + 1 for call in calls if call["call"] == "log" and call["id"] == id], default=0)
        self.id = id

    def log(self, values, step):
        record("log", id=self.id, step=step, values=values)

    def finish(self, exit_code):
        record("finish", id=self.id, exit_code=exit_code)


def init(id, **given):
    record("init", id=id, given={name: value if name != "dir" else str(value) for name, value in given.items()})
    fault = os.environ.get("STAND_IN")
    if fault == "hang":
        threading.Event().wait()
    if fault == "fail":
        raise RuntimeError("as the test asked")
    return Run(id)

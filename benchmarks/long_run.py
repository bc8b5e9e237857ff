"""Measures `dpo serve`, `dpo report` and resuming for a run of UPDATES logged updates (default 800000).

A run of a tiny model is stopped after a few updates. Its files are then changed as if it had logged UPDATES updates and
400 evaluations, including a checkpoint. It is resumed twice: first with TensorBoard, which gets the whole history, then as
usual. Prints seconds and peak memory of each, and of the pages.

Usage: ./run benchmark long_run, or: DPO_PROGRAM=build/dpo python3 benchmarks/long_run.py [UPDATES]
"""

import hashlib
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
os.environ.setdefault("DPO_PROGRAM", str(ROOT / "build" / "dpo"))
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from tiny_run import PROGRAM, STOPPED, TinyRuns, make_data  # noqa: E402

BATCH, EVALUATIONS, PAIRS = 4, 400, 64
NO_TRACKERS = ("tensorboard=false",)
NAMES = ("rewards_{}/chosen", "rewards_{}/rejected", "rewards_{}/accuracies", "rewards_{}/margins", "logps_{}/chosen",
         "logps_{}/rejected", "tokens_{}/chosen", "tokens_{}/rejected", "kl_{}/chosen", "kl_{}/rejected", "kl_{}/per_token")
TRAINING = ("examples_per_second", "tokens_per_second", "mfu", "peak_memory_gib", "grad_norm", "learning_rate")


def line_of(stage, updates, names=(), **more):
    values = {f"loss/{stage}": 0.5 + random.random() / 10}
    values |= {name.format(stage): random.random() for name in (*NAMES, *names)}
    return json.dumps(values | more | {"counters/examples": BATCH * updates, "counters/updates": updates}, separators=(",", ":")) + "\n"


def write_history(run, updates):
    """Writes metrics.jsonl, log.txt and the evaluations of a run of `updates` updates."""
    every = max(1, updates // EVALUATIONS)
    evaluation = "".join(json.dumps({"example": i, "loss": 0.5, "logps": [-1, -2], "rewards": [i - 16, 0]}) + "\n" for i in range(PAIRS))
    (run / "eval").mkdir(exist_ok=True)
    with open(run / "metrics.jsonl", "w") as metrics, open(run / "log.txt", "w") as log:
        log.write(f"2026-11-17 04:25:00  run folder {run}\n")
        for i in range(1, updates + 1):
            metrics.write(line_of("train", i, TRAINING))
            log.write(f"2026-11-17 04:25:00  update {i} of {updates + 5}  {BATCH * i:>9} examples  loss 0.5412  accuracy 0.750  margin +0.412  "
                      "norm 5.35  lr 0.0005  212.1 examples/s, 3 days left\n")
            if i % every == 0:
                metrics.write(line_of("eval", i, **{"counters/eval_examples": PAIRS}))
                (run / "eval" / f"step-{BATCH * i}.jsonl").write_text(evaluation)


def move_checkpoint(run, updates):
    """Renames and edits the run's checkpoint so that it looks like one after `updates` updates."""
    old = run / os.readlink(run / "LATEST")
    new = run / f"step-{BATCH * updates}"
    old.rename(new)
    (run / "LATEST").unlink()
    (run / "LATEST").symlink_to(new.name)
    state = json.loads((new / "state/run.json").read_text())
    state |= {"updates": updates, "examples": BATCH * updates, "evaluated": BATCH * updates}
    text = json.dumps(state)
    (new / "state/run.json").write_text(text)
    marker = json.loads((new / "COMPLETE").read_text())
    marker["files"]["state/run.json"] = {"size": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    del marker["sha256"]  # hash of the file names and sizes above
    (new / "COMPLETE").write_text(json.dumps(marker))


def measured(what, command, status=0):
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    messages = process.stderr.read()
    _, ended, used = os.wait4(process.pid, 0)
    seconds = time.monotonic() - begin
    if os.waitstatus_to_exitcode(ended) != status:
        sys.exit(f"{what}: {messages[-2000:]}")
    print(f"{what:<46} {seconds:8.2f} s {used.ru_maxrss / 1024:8.0f} MB", flush=True)


def serve(run):
    process = subprocess.Popen([PROGRAM, "serve", run, "--port", "0"], stdout=subprocess.PIPE, text=True)
    address = re.match(r"http://([^/]+)/", process.stdout.readline())[1]

    def ask(path):
        connection = http.client.HTTPConnection(address, timeout=600)
        connection.request("GET", path)
        return connection.getresponse()

    def page(what):
        begin = time.monotonic()
        runs = json.loads(ask("/api/runs").read())
        events = ask(f"/api/events?runs={runs[0]['id']}")
        while not events.readline().startswith(b"event: points"):
            pass
        points = events.readline()
        ask(f"/api/runs/{runs[0]['id']}").read()
        seconds = time.monotonic() - begin
        peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())[1]
        print(f"{what:<46} {seconds:8.2f} s {int(peak) / 1024:8.0f} MB, {len(points) / 1024:.0f} KB of points", flush=True)
        return runs[0]["id"]

    identifier = page("dpo serve: the first page")
    page("dpo serve: another page")
    begin = time.monotonic()
    ask(f"/api/runs/{identifier}/report").read()
    print(f"{'dpo serve: the report':<46} {time.monotonic() - begin:8.2f} s", flush=True)
    process.send_signal(signal.SIGINT)
    process.wait()


class LongRun(TinyRuns):
    def stop_soon(self, run, updates, *words):
        """Trains and stops the run after a few updates."""
        data = self.folder / "data"  # the batches of each epoch are whole
        data.mkdir()
        make_data(data / "train.jsonl", 100 * BATCH)
        make_data(data / "test.jsonl", BATCH)
        command = self.train_command(run, *words, f"datasets=[{data}]", f"n_examples={BATCH * (updates + 5)}", "n_epochs=null", "eval_every=null",
                                     f"save_every={BATCH}", "keep_last=1")
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for line in process.stderr:
            if line.startswith("update 3 "):
                process.send_signal(signal.SIGTERM)
        if process.wait() != STOPPED:
            sys.exit("the run did not stop")
        return command

    def measure(self, updates):
        run = self.folder / "long"
        command = self.stop_soon(run, updates, *NO_TRACKERS)
        begin = time.monotonic()
        write_history(run, updates)
        size = (run / "metrics.jsonl").stat().st_size
        print(f"a run of {updates:,} updates: {size / 2 ** 20:.0f} MB of metrics, written in {time.monotonic() - begin:.0f} s", flush=True)
        serve(run)
        measured("dpo report", [PROGRAM, "report", run])
        move_checkpoint(run, updates)
        command = [word for word in command if word not in NO_TRACKERS] + [f"resume={run}"]
        measured("resuming, TensorBoard gets the whole history", command)
        measured("resuming, with TensorBoard", command)
        measured("resuming without TensorBoard", [*command, *NO_TRACKERS])


def main():
    updates = int(sys.argv[1]) if len(sys.argv) > 1 else 800_000
    LongRun.setUpClass()
    try:
        LongRun().measure(updates)
    finally:
        LongRun.tearDownClass()


if __name__ == "__main__":
    main()

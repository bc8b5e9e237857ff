"""Sends a run to W&B, MLflow, trackio or SwanLab with the user's own package, while the run writes its files or later.

dpo starts this program as `python3 - RUN TRACKER [DESCRIPTOR SECONDS]`, with the call of main() as its last line. The
descriptor is readable once the process of the run has ended, and the seconds limit the work after that. Without them,
'dpo track' has started the program, for a run of another process or of the past.
"""

import sys

sys.path[:] = [folder for folder in sys.path if folder]  # a folder named wandb in the current folder is no package

import fcntl
import importlib.util
import json
import math
import os
import random
import re
import select
import shlex
import signal
import stat
import string
import threading
import time
import traceback
from bisect import bisect
from pathlib import Path

POLL = 0.5  # seconds between two looks at the run's files
LONGEST_PAUSE = 60  # seconds between two attempts after failures
STEPS_AT_ONCE = 100
NO_PACKAGE = 3  # exit status, read by src/track/senders.cpp
EXIT_CODES = {"finished": 0, "failed": 2, "stopped": 143, "killed": 137}


def whole_lines(file):
    """Yields the lines that a file has grown by since the last call."""
    line = file.readline()
    while line.endswith(b"\n"):
        yield line
        line = file.readline()
    file.seek(-len(line), os.SEEK_CUR)


def json_lines(path):
    # Bytes are split only at line feeds and carriage returns, which JSON escapes. Text would also be split at
    # U+2028, which a model may write.
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []


class Run:
    """The files of a run folder, which grow until the run has ended."""

    STARTS = ("run folder ", "resuming ")  # lines of log.txt
    ENDS = {"done: ": "finished", "stopped by a signal ": "stopped", "error: ": "failed"}
    TIME = len("2026-01-31 12:00:00  ")  # begins each line

    def __init__(self, folder, process=None, limit=None):
        self.folder, self.process, self.limit = Path(folder), process, limit
        self.metrics, self.log = (open(self.folder / name, "rb") for name in ("metrics.jsonl", "log.txt"))
        self.complete = 0  # bytes of metrics.jsonl up to the last step
        self.status = None  # how the run ended
        self.ended = threading.Event()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        """Waits for the end of the run, and then ends this process if it takes too long, even if a library hangs."""
        while True:
            lives, status = self.lives(), None
            try:
                for line in whole_lines(self.log):
                    status = self.status_after(line.decode(errors="replace")[self.TIME:], status)
            except OSError:  # the end of the run must be noticed also if its disk fails
                pass
            self.status = status or (None if lives else "killed")
            if self.status:
                break
            time.sleep(POLL)
        self.ended.set()
        if self.limit is not None:
            time.sleep(self.limit)
            print(f"not finished {self.limit:g} s after the end of the run", file=sys.stderr, flush=True)
            os._exit(1)

    def status_after(self, message, status):
        if message.startswith(self.STARTS):
            return None
        return next((end for start, end in self.ENDS.items() if message.startswith(start)), status)

    def lives(self):
        if self.process is not None:
            return not select.select([self.process], [], [], 0)[0]
        try:
            with open(self.folder / ".lock", "rb") as lock:  # the process of the run holds it
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return False
        except FileNotFoundError:  # a copy of a run
            return False
        except OSError:
            return True

    def steps(self, after):
        """Yields (step, metrics) of each complete step after `after`. An update and an evaluation may have the same step,
        so a step is complete when the next one has begun, or at the end. If a run was stopped or killed, a resumed run
        may continue its last step, which is then left to it or to 'dpo track'."""
        is_whole = self.ended.is_set() and (self.process is None or self.status in ("finished", "failed"))
        step, metrics = None, {}
        self.metrics.seek(self.complete)
        for line in whole_lines(self.metrics):
            try:
                row = json.loads(line)
                step_of_row = int(row["counters/examples"])
            except (ValueError, KeyError, TypeError):  # damaged by a crash
                continue
            if step_of_row != step:
                if metrics and step > after:
                    yield step, metrics
                self.complete = self.metrics.tell() - len(line)
                step, metrics = step_of_row, {}
            metrics |= {name: math.nan if value is None else value for name, value in row.items()}
        if is_whole and metrics and step > after:
            yield step, metrics

    def rewind(self):
        self.complete = 0

    def samples(self, step):
        """Returns (prompt, text of the policy, text of the reference or None) of each sample at a step."""
        return [(row["prompt"], *(row[model] + (" [cut]" if row.get(f"{model}_cut") else "") if model in row else None
                                  for model in ("policy", "reference")))
                for row in json_lines(self.folder / "samples" / f"step-{step}.jsonl")]

    def distributions(self, step, metrics):
        """Returns the rewards and lengths of the responses of an evaluation, by name."""
        values = {}

        def add(name, record, response):
            if "rewards_eval/chosen" in metrics or "rewards_eval/rejected" in metrics:
                values.setdefault(f"eval_rewards/{name}", []).append(record["rewards"][response])
            values.setdefault(f"eval_tokens/{name}", []).append(record["tokens"][response])

        for record in json_lines(self.folder / "eval" / f"step-{step}.jsonl"):
            is_pair = len(record["tokens"]) > 1
            if is_pair or record.get("desirable", True):
                add("chosen", record, 0)
            if is_pair or not record.get("desirable", True):
                add("rejected", record, -1)
            if is_pair and "rewards_eval/margins" in metrics and None not in record["rewards"]:  # null is NaN
                values.setdefault("eval_rewards/margins", []).append(record["rewards"][0] - record["rewards"][-1])
        return values


def histogram(values, bins=30):
    """Returns counts and edges in the form of numpy.histogram, which not every tracker requires."""
    values = [value for value in values if value is not None and math.isfinite(value)] or [0]
    least, most = min(values), max(values)
    edges = [least + (most - least) * i / bins for i in range(bins)] + [most]
    counts = [0] * bins
    for value in values:
        counts[min(bisect(edges, value) - 1, bins - 1)] += 1
    return counts, edges


class State:
    """RUN/track-NAME.json: the tracker's id of the run, the last step that was sent, and where the run is shown. One process
    at a time holds it."""

    def __init__(self, file, wait):
        self.file = os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "r+")
        found = os.fstat(self.file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:  # another user's link to a file of this user
            sys.exit(f"error: {file} is not a regular file with one name; remove it")
        while True:
            try:
                fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:  # perhaps the sender of the killed process that this run resumes
                if not wait:
                    sys.exit("error: another process sends this run")
                time.sleep(POLL)
            except OSError:  # a file system without locks
                break
        line = self.file.readline()  # a killed process may have left more lines
        try:
            known = json.loads(line) if line else {}
            self.id, self.sent, self.where = known.get("id"), known.get("sent", -1), known.get("where")
        except (ValueError, AttributeError):
            sys.exit(f"error: {file} is damaged; remove it, and the run is sent as another one")

    def save(self):
        self.file.seek(0)
        self.file.write(json.dumps({"id": self.id, "sent": self.sent, "where": self.where}) + "\n")
        self.file.truncate()
        self.file.flush()


def new_id(length):
    return "".join(random.SystemRandom().choices(string.ascii_lowercase + string.digits, k=length))


class Tracker:
    """One class for each package. start(run, config, state) begins the run or continues state.id, and sets state.where;
    log(step, metrics, distributions, samples) sends a step, and finish(status) ends this part of the run."""

    def flush(self):
        """Sends what log() has kept."""


class Wandb(Tracker):
    """Uses the names and tables of direct-preference-optimization."""

    def start(self, run, config, state):
        import wandb
        self.wandb = wandb
        if run.process is None:
            os.environ.setdefault("WANDB_X_DISABLE_STATS", "true")  # this machine may not be that of the run
        state.id = state.id or new_id(8)
        project, entity = config["wandb"]["project"], config["wandb"]["entity"]
        settings = wandb.Settings(console="off", disable_git=True)
        begin = lambda **more: wandb.init(project=project, entity=entity, name=config["exp_name"], id=state.id, config=config,
                                          dir=run.folder, settings=settings, **more)
        try:
            self.run = begin(resume="allow")
        except wandb.errors.UsageError as error:  # without a login
            print(f"W&B: {error}; the run is written offline", file=sys.stderr)
            self.run = begin(mode="offline")
        if getattr(self.run, "disabled", False):  # by 'wandb disabled', for example; nothing must count as sent
            sys.exit(None if run.process is not None else "error: W&B is turned off by its settings or by WANDB_MODE")
        if self.run.offline:
            state.where = f"wandb sync {shlex.quote(str(run.folder))}/wandb/offline-run-*-{state.id}"
        else:
            state.sent, state.where = self.run.step - 1, self.run.url

    def log(self, step, metrics, distributions, samples):
        wandb = self.wandb
        values = metrics | {name: wandb.Histogram(np_histogram=histogram(numbers)) for name, numbers in distributions.items()}
        for i, name in enumerate(("policy_samples", "reference_samples"), 1):
            rows = [[step, sample[0], sample[i]] for sample in samples if sample[i] is not None]
            if rows:
                values[name] = wandb.Table(columns=["step", "prompt", "sample"], data=rows)
        self.run.log(values, step=step)

    def finish(self, status):
        self.run.finish(exit_code=EXIT_CODES[status])


class Mlflow(Tracker):
    METRICS_AT_ONCE, PARAMETERS_AT_ONCE = 1000, 100  # limits of the server
    STATUS = {"finished": "FINISHED", "failed": "FAILED", "stopped": "KILLED", "killed": "KILLED"}

    def start(self, run, config, state):
        import mlflow
        self.entities, self.kept = mlflow.entities, {}
        self.client = mlflow.MlflowClient(tracking_uri=config["mlflow"]["tracking_uri"])
        try:
            known = state.id and self.client.get_run(state.id)
        except mlflow.exceptions.MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            known = None  # a server with a new database
        if known:
            self.client.update_run(state.id, status="RUNNING")
        else:
            known = self.create(config)
            state.id, state.sent = known.info.run_id, -1
            state.save()  # another attempt must not begin another run
        self.add_parameters(known, config)
        uri = self.client.tracking_uri.rstrip("/")
        state.where = f"{uri}/#/experiments/{known.info.experiment_id}/runs/{state.id}" if uri.startswith("http") else uri
        self.id = state.id

    def create(self, config):
        name = config["mlflow"]["experiment"] or os.environ.get("MLFLOW_EXPERIMENT_NAME") or "direct-preference-optimization"
        experiment = self.client.get_experiment_by_name(name)
        return self.client.create_run(experiment.experiment_id if experiment else self.client.create_experiment(name),
                                      run_name=config["exp_name"],
                                      tags={"mlflow.user": os.environ.get("USER", ""), "mlflow.source.name": "dpo train",
                                            "mlflow.source.type": "LOCAL"})

    def add_parameters(self, run, config):
        """Adds those that the run does not have. A server rejects another value of one that it has."""
        values = {re.sub(r"[^\w./ -]", "_", key)[:250]: self.text(value)[:6000] for key, value in self.flat(config).items()}
        parameters = [self.entities.Param(key, value) for key, value in values.items() if key not in run.data.params]
        for i in range(0, len(parameters), self.PARAMETERS_AT_ONCE):
            self.client.log_batch(run.info.run_id, params=parameters[i:i + self.PARAMETERS_AT_ONCE])

    @staticmethod
    def flat(config):
        """Returns {"loss": {"beta": 0.1}} as {"loss.beta": 0.1}."""
        flat = {}
        for key, value in config.items():
            flat |= {f"{key}.{name}": inner for name, inner in value.items()} if isinstance(value, dict) else {key: value}
        return flat

    @staticmethod
    def text(value):
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    def log(self, step, metrics, distributions, samples):
        if step in self.kept:  # a failed attempt, perhaps only without an answer: the same times make the same points
            return
        if samples:
            table = {"columns": ["step", "prompt", "policy", "reference"], "data": [[step, *sample] for sample in samples]}
            try:
                self.client.log_dict(self.id, table, f"samples/step-{step}.json")  # as mlflow.log_table writes it
            except Exception:  # an artifact store that fails must not keep the metrics back
                traceback.print_exc()
        now = int(time.time() * 1000)
        self.kept[step] = [self.entities.Metric(name, value, now, step) for name, value in metrics.items()]

    def flush(self):
        metrics = [metric for of_step in self.kept.values() for metric in of_step]
        for i in range(0, len(metrics), self.METRICS_AT_ONCE):
            self.client.log_batch(self.id, metrics=metrics[i:i + self.METRICS_AT_ONCE])
        self.kept = {}

    def finish(self, status):
        self.client.set_terminated(self.id, self.STATUS[status])


class Trackio(Tracker):
    def start(self, run, config, state):
        import trackio
        self.trackio = trackio
        state.id = state.id or f"{config['exp_name']}-{new_id(6)}"  # trackio resumes runs by their name
        project = config["wandb"]["project"]
        hardware = {} if run.process is not None else {"auto_log_cpu": False, "auto_log_gpu": False}
        trackio.init(project=project, name=state.id, config=config, resume="allow", embed=False, **hardware)
        state.where = f"trackio show --project {shlex.quote(project)}"

    def log(self, step, metrics, distributions, samples):
        values = metrics | {name: self.trackio.Histogram(np_histogram=histogram(numbers))
                            for name, numbers in distributions.items()}
        if samples:
            values["samples"] = self.trackio.Table(columns=["prompt", "policy", "reference"], data=[list(row) for row in samples])
        self.trackio.log(values, step=step)

    def finish(self, status):
        self.trackio.finish()


class Swanlab(Tracker):
    def start(self, run, config, state):
        import swanlab
        self.swanlab = swanlab
        state.id = state.id or new_id(21)
        shown = swanlab.init(project=config["wandb"]["project"], experiment_name=config["exp_name"], id=state.id, resume="allow",
                             config=config, logdir=str(run.folder / "swanlog"))
        try:
            state.where = shown.url
        except Exception:  # not online
            state.where = f"swanlab sync {shlex.quote(str(run.folder / 'swanlog'))}/run-*"

    def log(self, step, metrics, distributions, samples):
        values = dict(metrics)
        if samples:
            values["samples"] = [self.swanlab.Text(policy, caption=prompt) for prompt, policy, _ in samples]
        self.swanlab.log(values, step=step)

    def finish(self, status):
        self.swanlab.finish(state={"finished": "success", "failed": "crashed"}.get(status, "aborted"))


TRACKERS = {"wandb": Wandb, "mlflow": Mlflow, "trackio": Trackio, "swanlab": Swanlab}


def send(run, tracker, state):
    """Sends the steps that are complete and not sent."""
    sent = state.sent

    def flush():
        tracker.flush()
        state.sent = sent
        state.save()

    for count, (step, metrics) in enumerate(run.steps(state.sent), 1):
        tracker.log(step, metrics, run.distributions(step, metrics), run.samples(step))
        sent = step
        if count % STEPS_AT_ONCE == 0:
            flush()
    if sent != state.sent:
        flush()


def follow(run, tracker, config, state):
    """Sends a run until it has ended. What fails is tried again, since a server may come back."""
    is_started, pause = False, POLL
    while True:
        is_last = run.ended.is_set()
        try:
            if not is_started:
                tracker.start(run, config, state)
                state.save()
                is_started = True
            send(run, tracker, state)
            if is_last:
                return tracker.finish(run.status)
            pause = POLL
        except Exception:
            if is_last or run.process is None:
                raise
            traceback.print_exc()
            run.rewind()
            pause = min(2 * pause, LONGEST_PAUSE)
        run.ended.wait(pause)


def main(config):
    folder, name, *live = sys.argv[1:]
    package = importlib.util.find_spec(name)
    if package is None or package.origin is None:  # a folder of that name in PYTHONPATH is no package
        sys.exit(NO_PACKAGE if live else f"error: python3 has no package {name}: install it, for example with pip")
    if live:  # the run ends this process, also after a signal to all processes of a job
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.nice(10)  # training comes first
    run = Run(folder, *(int(live[0]), float(live[1])) if live else ())
    state = State(run.folder / f"track-{name}.json", wait=bool(live))
    try:
        follow(run, TRACKERS[name](), json.loads(config), state)
    except Exception as error:
        traceback.print_exc()
        print(f"{type(error).__name__}: {error}".partition("\n")[0], file=sys.stderr, flush=True)
        os._exit(1)  # threads of a library may wait for a server
    except KeyboardInterrupt:  # only of 'dpo track', which can be called again
        sys.exit(130)
    if state.where and not live:
        print(state.where)

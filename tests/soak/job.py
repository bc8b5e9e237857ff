"""One start of a run for the soak: its processes, the events that it prints, and its use of resources."""

import json
import os
import re
import signal
import subprocess
import sys
import uuid
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path += [str(TESTS / "e2e"), str(TESTS / "distributed")]
from ranks import processes_of, wait_until  # noqa: E402


class Job:
    def __init__(self, command, errors, environment=os.environ):
        """Starts the command. The file `errors` gets its stderr."""
        self.mark = f"DPO_SOAK_MARK={uuid.uuid4()}"
        name, _, value = self.mark.partition("=")
        self.errors = errors
        with open(errors, "w") as file:
            self.process = subprocess.Popen([*command, "--json-log"], stdout=subprocess.PIPE, stderr=file, text=True,
                                            env=environment | {name: value})

    def said(self):
        return self.errors.read_text()

    def updates(self):
        """Yields the number of each update as it is made, until the run ends."""
        for line in self.process.stdout:
            event = json.loads(line)
            if event["event"] == "update" and "grad_norm" in event:
                yield int(event["counters/updates"])

    def after(self, updates):
        """Waits until the run has made this many updates or has ended. Returns the number of the last one."""
        last = None
        for last in self.updates():
            updates -= 1
            if updates == 0:
                break
        return last

    def ranks(self):
        """Returns the process ids by rank. A run of one process is rank 0."""
        found = {}
        for pid in processes_of(self.mark):
            try:
                rank = re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", Path(f"/proc/{pid}/environ").read_bytes())
            except OSError:
                continue  # the process has ended
            if rank:
                found[int(rank[1])] = pid
        return found or {0: self.process.pid}

    def send_all(self, sent):
        for pid in processes_of(self.mark):
            self.send(pid, sent)

    @staticmethod
    def send(pid, sent):
        try:
            os.kill(pid, sent)
        except ProcessLookupError:
            pass  # the process has ended

    def status(self):
        """Waits for the end of all processes. Returns the exit status."""
        self.process.stdout.read()
        self.process.stdout.close()
        status = self.process.wait()
        wait_until(lambda: not processes_of(self.mark), "no process is left")
        return status

    def end(self):
        """Ends the processes that a failed test has left."""
        self.process.kill()
        self.process.wait()
        self.send_all(signal.SIGKILL)


def usage_of(pid):
    """Returns memory without that of files [KB], threads, and open descriptors."""
    status = Path(f"/proc/{pid}/status").read_text()
    number = lambda name: int(re.search(rf"{name}:\s+(\d+)", status)[1])
    return {"memory": number("RssAnon"), "threads": number("Threads"), "descriptors": len(os.listdir(f"/proc/{pid}/fd"))}

"""Helpers of tests with several processes: they start ranks and check that none survives."""

import os
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path

# Ranks in tests wait more than they compute.
os.environ["OMP_NUM_THREADS"] = "1"
HANGS = 900  # seconds; no step of a test takes this long, also on a machine that is many times slower


def mpirun(count, *command, options=()):
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", "-n", str(count), "--oversubscribe", "--bind-to", "none", *root, *options, *map(str, command)]


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=HANGS, **options)


def processes_of(mark):
    """Returns the ids of the processes with this variable in their environment, however they were started."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            alive = (folder / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
            if alive and mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            pass  # the process has ended, or belongs to another user
    return found


def wait_until(condition, what):
    end = time.monotonic() + HANGS
    while not condition():
        assert time.monotonic() < end, f"not within {HANGS} s: {what}"
        time.sleep(0.02)


def need_mpirun():
    if not shutil.which("mpirun"):
        print("not run: there is no mpirun")
        sys.exit(77)


def main():
    need_mpirun()
    unittest.main()

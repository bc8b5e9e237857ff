"""Runs one job on two hosts over TCP. The hosts are network namespaces of this machine, joined by a virtual cable. A
script replaces ssh. Skipped where namespaces cannot be created."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import uuid
from pathlib import Path

from ranks import main, run

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))
from tiny_run import TRAINING_FAILED, TinyRuns  # noqa: E402

GROUP_PROBE, WATCHDOG_PROBE = os.environ["DPO_GROUP_PROBE"], os.environ["DPO_WATCHDOG_PROBE"]
PREFIX = f"dpo{uuid.uuid4().hex[:6]}"
HOSTS = [f"{PREFIX}a", f"{PREFIX}b"]
ADDRESSES = ["10.123.45.1", "10.123.45.2"]


def ip(*arguments):
    return subprocess.run(["ip", *arguments], capture_output=True, text=True)


def make_hosts():
    """Creates the namespaces and the cable. Returns the error, or None."""
    cables = [f"{PREFIX}v{i}" for i in range(2)]
    commands = [["netns", "add", host] for host in HOSTS]
    commands.append(["link", "add", cables[0], "type", "veth", "peer", "name", cables[1]])
    for host, cable, address in zip(HOSTS, cables, ADDRESSES):
        commands += [["link", "set", cable, "netns", host],
                     ["-n", host, "addr", "add", f"{address}/24", "dev", cable],
                     ["-n", host, "link", "set", cable, "up"],
                     ["-n", host, "link", "set", "lo", "up"]]
    for command in commands:
        done = ip(*command)
        if done.returncode != 0:
            return f"ip {' '.join(command)}: {done.stderr.strip()}"
    return None


def remove_hosts():
    for host in HOSTS:
        ip("netns", "delete", host)


class Hosts(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        # mpirun calls this script like ssh: with the host's address, then a command.
        shell = self.folder / "shell"
        cases = "".join(f"  {address}) host={host} ;;\n" for host, address in zip(HOSTS, ADDRESSES))
        shell.write_text('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\n'
                         f'case $1 in\n{cases}esac\nshift\nexec ip netns exec "$host" sh -c "$*"\n')
        shell.chmod(0o755)
        self.shell = shell

    def mpirun(self, *command):
        """Returns a command that starts two ranks on each host, run on the first host."""
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        network = ["--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "10.123.45.0/24",
                   "--mca", "oob_tcp_if_include", "10.123.45.0/24"]
        return ["ip", "netns", "exec", HOSTS[0], "mpirun", *root, "--host", ",".join(f"{a}:2" for a in ADDRESSES),
                "-n", "4", "--bind-to", "none", "--mca", "plm_rsh_agent", str(self.shell), *network, *map(str, command)]

    def test_every_operation(self):
        done = run(self.mpirun(GROUP_PROBE, "cpu"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "4 ranks, 2 here: all operations correct\n")

    def test_training(self):
        """Shards communicate over the cable and tensor ranks within a host. Losses and norms equal those of one
        process."""
        TinyRuns.setUpClass()
        self.addCleanup(TinyRuns.tearDownClass)
        short = ["batch_size=12", "n_examples=120", "eval_every=60", "eval_batch_size=12", "n_eval_examples=12",
                 "data.test_share=0.1", "optimizer=SGD", "lr=0.01"]
        alone, many = TinyRuns.folder / "alone", TinyRuns.folder / "many"
        TinyRuns.check(TinyRuns.train(alone, *short))
        done = run(self.mpirun(*TinyRuns.train_command(many, *short, "trainer=FSDPTrainer", "mesh.tensor=2")))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.strip(), str(many / "LATEST"))
        found, expected = TinyRuns.metrics(many), TinyRuns.metrics(alone)
        self.assertEqual(len(found), len(expected))
        for mine, theirs in zip(found, expected):
            for key in theirs:
                if key.startswith(("loss", "logps", "grad_norm")):
                    self.assertLessEqual(abs(mine[key] - theirs[key]), 1e-5 * max(1e-3, abs(theirs[key])), key)

    def test_watchdog_over_the_network(self):
        done = run(self.mpirun(WATCHDOG_PROBE, 30, "none", 0))
        self.assertEqual(done.returncode, 0, done.stderr)
        done = run(self.mpirun(WATCHDOG_PROBE, 30, "throw", 3))
        self.assertEqual(done.returncode, TRAINING_FAILED, done.stderr)
        self.assertRegex(done.stderr, r"rank 0 ends: rank 3 \(host .*\) failed: the data is bad")


if __name__ == "__main__":
    if not shutil.which("ip"):
        print("not run: there is no ip (iproute2) to make network namespaces with")
        sys.exit(77)
    problem = make_hosts()
    try:
        if problem:
            print(f"not run: {problem}")
            sys.exit(77)
        main()
    finally:
        remove_hosts()

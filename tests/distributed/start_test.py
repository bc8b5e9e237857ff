"""Starts dpo train with several ranks, by dpo itself and by mpirun: output that appears once, signals, failures."""

import ctypes
import os
import platform
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import uuid
from pathlib import Path

from ranks import main, mpirun, processes_of, run, wait_until

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))
from tiny_run import ENDLESS, PROGRAM, STOPPED, TinyRuns, make_data  # noqa: E402

FSDP = "trainer=FSDPTrainer"


class StoppedThread:
    """Stops one thread, like a debugger."""
    SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
    ANY_THREAD = 0x40000000  # __WALL

    def __init__(self, thread):
        self.thread = thread
        self.library = ctypes.CDLL(None, use_errno=True)
        self.is_stopped = self.ptrace(self.SEIZE) and self.ptrace(self.INTERRUPT)
        if self.is_stopped:
            os.waitpid(thread, self.ANY_THREAD)

    def ptrace(self, request):
        return self.library.ptrace(ctypes.c_long(request), ctypes.c_long(self.thread), None, None) == 0

    def release(self):
        assert self.ptrace(self.DETACH), os.strerror(ctypes.get_errno())


class Start(TinyRuns):
    def setUp(self):
        self.run_folder = self.folder / uuid.uuid4().hex
        self.mark = f"DPO_TEST_MARK={uuid.uuid4()}"
        name, _, value = self.mark.partition("=")
        self.environment = os.environ | {name: value}

    def command(self, *more):
        return self.train_command(self.run_folder, FSDP, *more)

    def begin(self, command):
        """Starts a long run and waits for its first updates. Returns the process ids by rank."""
        self.out = tempfile.TemporaryFile("w+")
        self.addCleanup(self.out.close)
        self.process = subprocess.Popen(command, stdout=self.out, stderr=subprocess.STDOUT, env=self.environment)
        self.addCleanup(self.end)
        wait_until(lambda: "update 3" in self.said() or self.process.poll() is not None, "the first updates")
        self.assertIsNone(self.process.poll(), self.said())
        pids = {}
        for pid in processes_of(self.mark):
            found = re.search(rb"OMPI_COMM_WORLD_RANK=(\d+)", Path(f"/proc/{pid}/environ").read_bytes())
            if found:
                pids[int(found[1])] = pid
        return pids

    def said(self):
        self.out.seek(0)
        return self.out.read()

    def end(self):
        self.process.kill()
        self.process.wait()
        for pid in processes_of(self.mark):
            os.kill(pid, signal.SIGKILL)

    def wait_for_end(self):
        wait_until(lambda: self.process.poll() is not None, "the end of the run")
        wait_until(lambda: not processes_of(self.mark), "no process is left")
        return self.process.returncode

    def check_once(self, done):
        """Checks that output of rank 0 alone appears once."""
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, f"{self.run_folder / 'LATEST'}\n")
        for text in ("\nneeds ", "run folder ", "update 1 ", "saving step-40"):
            self.assertEqual(done.stderr.count(text), 1, text + "\n" + done.stderr)
        self.assertEqual(len(self.updates(self.run_folder)), 10)

    def test_started_by_itself(self):
        self.check_once(run(self.command("mesh.shard=2", "n_examples=40", "n_epochs=null")))

    def test_started_by_mpirun(self):
        self.check_once(run(mpirun(2, *self.command("n_examples=40", "n_epochs=null"))))

    def test_a_folder_named_by_the_time(self):
        """Every rank has its own clock, but all agree on one folder."""
        command = [argument for argument in self.command("mesh.shard=2", "n_examples=8", "n_epochs=null", "eval_every=8")
                   if not argument.startswith("local_run_dir")]
        done = run(command)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((Path(done.stdout.strip()) / "COMPLETE").exists(), done.stdout)

    def test_one_rank_under_mpirun(self):
        self.check_once(run(mpirun(1, *self.command("n_examples=40", "n_epochs=null"))))

    def test_errors_are_printed_once(self):
        for arguments, text in ((["no_such_key=1"], "error: no_such_key: unknown key"),
                            (["trainer=BasicTrainer"], "error: trainer=BasicTrainer is one process, but there are 2 ranks"),
                            (["model.name_or_path=/nowhere"], "error: ")):
            with self.subTest(arguments=arguments):
                done = run(mpirun(2, *self.command(*arguments), options=["--quiet"]))
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertEqual(done.stderr.count(text), 1, done.stderr)
                self.assertFalse(self.run_folder.exists())

    def run_different(self, first, other, command="train"):
        """Runs two ranks with different arguments."""
        both = [self.command("rank_timeout_secs=10", *more) for more in (first, other)]
        both[1][1:2] = command.split()
        done = run(mpirun(1, *both[0], ":", "-n", "1", *both[1], options=["--quiet"]), env=self.environment)
        wait_until(lambda: not processes_of(self.mark), "no process is left")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertFalse(self.run_folder.exists())
        self.assertEqual(done.stderr.count("error: "), 1, done.stderr)
        return done.stderr

    def test_different_configurations_are_named(self):
        host = re.escape(platform.node())
        for first, other, text in (
                (["eval_every=40"], ["eval_every=20"],
                 rf"error: eval_every is 20 on rank 1 \(host {host}\), but 40 on rank 0 \(host {host}\)"),
                ([], ["rank_timeout_secs=20"], "rank_timeout_secs is 20 on rank 1 .* but 10 on rank 0"),
                ([], ["sample_during_eval=true"], "sample_during_eval is true on rank 1 .* but false on rank 0"),
                ([], ["fsdp_port=1234"], "fsdp_port is 1234 on rank 1 .* but null on rank 0"),
                ([], ["no_such_key=1"], r"rank 1 \(host .*\): no_such_key: unknown key"),
                (["no_such_key=1"], [], r"rank 0 \(host .*\): no_such_key: unknown key")):
            with self.subTest(first=first, other=other):
                self.assertRegex(self.run_different(first, other), text)

    def test_different_commands_are_named(self):
        self.assertRegex(self.run_different([], [], "bench train"),
                         "rank 1 .* was started for 'dpo bench train --updates 5', but rank 0 .* for 'dpo train'")

    def test_a_rank_that_never_comes(self):
        """Rank 1 runs `plan`, which needs no other rank. Rank 0 warns. The end of the wait comes after thirty seconds
        and has the same words."""
        train = self.command("rank_timeout_secs=1")
        plan = [train[0], "plan", *train[2:]]
        self.out = tempfile.TemporaryFile("w+")
        self.addCleanup(self.out.close)
        self.process = subprocess.Popen(mpirun(1, *train, ":", "-n", "1", *plan), stdout=self.out,
                                        stderr=subprocess.STDOUT, env=self.environment)
        self.addCleanup(self.end)
        wait_until(lambda: "the 2 ranks of this run have not found each other within 5 s" in self.said(), "a warning")

    def test_folders_for_caches_may_differ(self):
        (self.folder / "other").mkdir(exist_ok=True)
        short = ["n_examples=40", "n_epochs=null"]
        self.check_once(run(mpirun(1, *self.command(*short), ":", "-n", "1",
                                   *self.command(*short, f"local_dirs=[{self.folder / 'other'}]"))))

    def test_ranks_that_chose_other_values_end(self):
        """Two machines have files of one name with 200 and 2,000 pairs, for which dpo chooses other batch sizes."""
        folders = [self.folder / uuid.uuid4().hex for _ in range(2)]
        for folder, rows in zip(folders, (200, 2000)):
            folder.mkdir()
            make_data(folder / "rows.jsonl", rows)
        train = [PROGRAM, "train", f"model={self.folder / 'model'}", "data=rows.jsonl", "loss=dpo", FSDP,
                 f"local_dirs=[{self.folder}]", f"local_run_dir={self.run_folder}"]
        done = run(mpirun(1, "--wdir", folders[0], *train, ":", "-n", "1", "--wdir", folders[1], *train))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"batch_size is 16 on rank 1 \(host .*\), but 8 on rank 0")
        self.assertIn("give them on the command line", done.stderr)
        self.assertFalse(self.run_folder.exists())

    def test_contradicting_variables_are_named(self):
        done = run(self.command(), env=os.environ | {"RANK": "3", "WORLD_SIZE": "2"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("RANK=3 must be below WORLD_SIZE=2", done.stderr)

    def test_torchrun_without_gpus(self):
        variables = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
        done = run(self.command(), env=os.environ | variables | {"CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual(done.returncode, 1)
        self.assertIn("start them with mpirun -n 2", done.stderr)

    def test_a_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("", 0))
            taken.listen()
            port = taken.getsockname()[1]
            done = run(self.command("mesh.shard=2", f"fsdp_port={port}"))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"fsdp_port={port} cannot be used", done.stderr)

    def test_a_signal_stops_all_ranks(self):
        """The signal goes to the process that the user started, or to one rank."""
        for signal_sent, to_rank in ((signal.SIGTERM, None), (signal.SIGINT, None), (signal.SIGUSR1, 1)):
            with self.subTest(signal=signal_sent, to_rank=to_rank):
                pids = self.begin(self.command("mesh.shard=2", *ENDLESS, f"local_run_dir={self.run_folder}{signal_sent}"))
                os.kill(self.process.pid if to_rank is None else pids[to_rank], signal_sent)
                self.assertEqual(self.wait_for_end(), STOPPED, self.said())
                self.assertEqual(self.said().count("stopped by a signal"), 1, self.said())
                self.assertTrue((Path(f"{self.run_folder}{signal_sent}") / "LATEST" / "COMPLETE").exists())

    def test_a_signal_while_ranks_start(self):
        """The signal comes while mpirun starts, or while its ranks do. None is lost, although mpirun drops signals that
        come before its ranks."""
        links = lambda: [Path(f"/proc/{pid}/exe") for pid in processes_of(self.mark)]
        names = lambda: [os.path.realpath(link) for link in links()]  # an ended process: the link itself
        for name, count in (("run", 1), ("dpo-engine", 2), ("dpo-engine", 3)):
            with self.subTest(name=name, count=count):
                self.process = subprocess.Popen(self.command("mesh.shard=2", *ENDLESS), stdout=subprocess.DEVNULL,
                                                stderr=subprocess.DEVNULL, env=self.environment)
                self.addCleanup(self.end)
                wait_until(lambda: sum(found.endswith(name) for found in names()) >= count, "the process")
                self.process.send_signal(signal.SIGTERM)
                self.assertEqual(self.wait_for_end(), STOPPED)

    def test_a_rank_that_is_killed(self):
        pids = self.begin(self.command("mesh.shard=3", *ENDLESS, "batch_size=6"))
        os.kill(pids[2], signal.SIGKILL)
        self.assertEqual(self.wait_for_end(), 2, self.said())
        self.assertRegex(self.said(), rf"error: rank 2 \(host .*, pid {pids[2]}\) exited without reporting an error")

    def test_a_rank_that_is_stopped(self):
        pids = self.begin(self.command("mesh.shard=2", *ENDLESS, "rank_timeout_secs=10"))
        os.kill(pids[1], signal.SIGSTOP)
        self.assertEqual(self.wait_for_end(), 2, self.said())
        self.assertRegex(self.said(), rf"error: rank 1 \(host .*, pid {pids[1]}\) sent no heartbeat for 10 s")

    def test_a_training_thread_that_is_stuck(self):
        """Only one thread of the process is stopped, and then goes on. failures_test.py tests with shorter limits what
        ends a run whose thread stays stopped."""
        pids = self.begin(self.command("mesh.shard=2", *ENDLESS, "rank_timeout_secs=2"))
        thread = StoppedThread(pids[1])
        if not thread.is_stopped:
            self.skipTest("this system does not let a process stop a thread of another (ptrace)")
        wait_until(lambda: "no progress for 10 s" in self.said(), "a warning")
        self.assertRegex(self.said(), rf"warning: rank 1 \(host .*, pid {pids[1]}\) has made no progress for 10 s while "
                                      r"other ranks wait for it; .* The run ends if this lasts 60 s")
        thread.release()
        wait_until(lambda: "the run makes progress again" in self.said(), "the end of the standstill")
        self.process.terminate()
        self.assertEqual(self.wait_for_end(), STOPPED, self.said())

    def test_the_starting_process_is_killed(self):
        self.begin(self.command("mesh.shard=2", *ENDLESS))
        self.process.kill()
        self.wait_for_end()

    @unittest.skipIf(platform.machine() == "aarch64",
                     "on ARM the libraries under LibTorch (NVPL, oneDNN) crash where they get no memory")
    def test_out_of_memory_on_one_rank(self):
        # These settings make every allocation go to the system, where it fails.
        self.environment |= {"MALLOC_MMAP_THRESHOLD_": "4096", "MALLOC_ARENA_MAX": "1"}
        pids = self.begin(self.command("mesh.shard=2", "batch_size=64", "n_epochs=2000", "n_examples=640000", "eval_every=320000"))
        resource.prlimit(pids[1], resource.RLIMIT_AS, (1 << 20, 1 << 20))
        self.assertEqual(self.wait_for_end(), 2, self.said())
        self.assertRegex(self.said(), r"error: rank 1 \(host .*\) failed: out of memory")
        self.assertEqual(self.said().count("Memory per process, "), 1, self.said())  # the start shows five lines of the plan


if __name__ == "__main__":
    main()

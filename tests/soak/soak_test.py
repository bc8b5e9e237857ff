"""Runs that are killed, stopped, frozen and restarted at random, also with other numbers of ranks, end like undisturbed
runs. A process that makes thousands of updates keeps its memory, threads and open files.

New runs begin for DPO_SOAK_SECONDS (default 180). That decides how much is tried, never whether it passes. Random
choices depend only on the seed, DPO_SOAK_SEED. The instruction at which a signal arrives does not repeat.
"""

import os
import random
import shlex
import signal
import statistics
import sys
import time
import unittest
from pathlib import Path

from job import Job, usage_of

import tiny_run
from ranks import need_mpirun
from safetensors.numpy import load_file
from tiny_run import METRICS, STOPPED, TRAINING_FAILED, TinyRuns, disturbed, is_whole

SECONDS = float(os.environ.get("DPO_SOAK_SECONDS", "180"))
SEED = int(os.environ.get("DPO_SOAK_SEED", random.SystemRandom().randrange(10**6)))
BEGIN = time.monotonic()

LAYOUTS = {1: ["trainer=BasicTrainer"], 2: ["trainer=FSDPTrainer", "mesh.shard=2"], 4: ["trainer=FSDPTrainer", "mesh.shard=4"]}
# Every number of ranks divides these batches. There are 10 updates between checkpoints.
RUN = ["batch_size=12", "n_examples=2880", "n_epochs=9", "eval_every=240", "save_every=120", "keep_last=2", "eval_batch_size=12",
       "n_eval_examples=12", "data.test_share=0.1", "resume=auto"]
UPDATES = 240
TOLERANCE = 1e-5  # relative, of float32 sums in another order. Needs SGD: AdamW turns rounding into whole updates.
STARTS, ROUNDS = 10, 1000  # limits: disturbed starts of a run, runs

# Numbers of updates: before the first window, in each window, and of a process (least, most). The summary of metrics
# for reports (Series) has the capacity for all of its 4,096 groups after 2,049 updates.
WARM, WINDOW, LEAST, MOST = 2100, 500, 4100, 100_000
# Memory is in KB. A leak may allocate from freed memory that the process keeps, so "memory" shows only large leaks.
BOUNDS = {"allocated": lambda updates: 256 + updates / 4, "memory": lambda updates: 1024 + updates,
          "threads": lambda updates: 2, "descriptors": lambda updates: 3}


def say(text):
    print(f"{time.monotonic() - BEGIN:6.0f} s  {text}", flush=True)


def is_time_left(share=1.0):
    return time.monotonic() - BEGIN < share * SECONDS


def growth(samples):
    """Returns the updates between the window after the start and the last one, and by how much each median has
    grown."""
    last = samples[-1][0]
    first = [usage for updates, usage in samples if WARM <= updates < WARM + WINDOW]
    final = [usage for updates, usage in samples if last - WINDOW < updates]
    medians = lambda window, name: statistics.median(usage[name] for usage in window)
    return last - WARM - WINDOW, {name: medians(final, name) - medians(first, name) for name in samples[-1][1]}


def too_much(samples):
    updates, grown = growth(samples)
    return {name: by for name, by in grown.items() if by > BOUNDS[name](updates)}


class Soak(TinyRuns):
    def start(self, run, ranks, *words, environment=os.environ):
        job = Job(self.train_command(run, *words, *LAYOUTS[ranks]), run.with_suffix(".said"), environment)
        self.addCleanup(job.end)
        return job


class Constant(Soak):
    """Measures resources that all grow with a leak in each update or each checkpoint."""

    def test_what_a_process_uses_does_not_grow(self):
        for ranks, share in ((1, 0.25), (2, 0.5)):
            with self.subTest(ranks=ranks):
                self.check_usage(ranks, share)

    def check_usage(self, ranks, share):
        run, memory = self.folder / f"constant-{ranks}", self.folder / f"memory-{ranks}"
        job = self.start(run, ranks, "n_epochs=20000", "n_examples=7200000", "eval_every=400", "save_every=400", "keep_last=2",
                         environment=disturbed(run, "", 0, METRICS) | {"DPO_FAULT_MEMORY": str(memory)})
        samples, last = {}, 0
        for last in job.updates():
            if last == 1:
                processes = job.ranks()
                self.assertEqual(len(processes), ranks, job.said())
            if last % 10 == 0:
                for rank, pid in processes.items():
                    samples.setdefault(rank, []).append((last, usage_of(pid)))
            if last >= MOST or last >= LEAST and not is_time_left(share):
                break
        self.assertGreaterEqual(last, LEAST, job.said())
        job.process.send_signal(signal.SIGTERM)
        self.assertEqual(job.status(), STOPPED, job.said())
        # Rank 0 writes the metrics. The evaluation after each 100 updates also has a line.
        allocated = [int(line) / 1024 for line in memory.read_text().splitlines()]
        samples["0, allocated"] = [(line, {"allocated": kilobytes}) for line, kilobytes in enumerate(allocated)]
        for rank, values in samples.items():
            updates, grown = growth(values)
            say(f"{ranks} ranks, rank {rank}: in {updates} updates grown by {grown}, to {values[-1][1]}")
            self.assertEqual(too_much(values), {})
            self.check_bounds(values)

    def check_bounds(self, samples):
        """Checks that the bounds would show one descriptor or thread for each checkpoint, and 1 KB allocated in each
        update."""
        leaks = {"allocated": 1, "memory": 4, "threads": 0.01, "descriptors": 0.01}
        for name, each in ((name, leaks[name]) for name in samples[-1][1]):
            leaking = [(updates, usage | {name: usage[name] + each * updates}) for updates, usage in samples]
            self.assertIn(name, too_much(leaking))


class Disturbed(Soak):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.draw = random.Random(SEED)
        cls.undisturbed = {}

    def words(self, changing):
        return [*RUN, *(["optimizer=SGD", "lr=0.01"] if changing else ["optimizer=AdamW"])]

    def undisturbed_run(self, ranks, changing):
        """Trains one undisturbed run for each layout. All disturbed runs are compared with it."""
        if (ranks, changing) not in self.undisturbed:
            run = self.folder / f"whole-{ranks}-{changing}"
            job = self.start(run, ranks, *self.words(changing))
            self.assertEqual(job.status(), 0, job.said())
            self.undisturbed[ranks, changing] = run
        return self.undisturbed[ranks, changing]

    def test_disturbed_runs_end_as_others(self):
        kinds = [(1,), (2,), (1, 2, 4), (4,)]  # numbers of ranks of a run
        for number in range(ROUNDS):
            if number >= len(kinds) and not is_time_left():
                break
            ranks = kinds[number % len(kinds)]
            whole = self.undisturbed_run(ranks[0], len(ranks) > 1)
            run = self.folder / f"disturbed-{number}"
            say(f"run {number} on {' or '.join(map(str, ranks))} ranks")
            for _ in range(STARTS):
                if self.disturb(run, self.draw.choice(ranks), len(ranks) > 1) == 0:
                    break
            job = self.start(run, self.draw.choice(ranks), *self.words(len(ranks) > 1))
            self.assertEqual(job.status(), 0, job.said())
            self.compare(run, whole, len(ranks) > 1)

    def disturb(self, run, ranks, changing):
        """Starts or resumes the run and disturbs it at a random moment. Returns its exit status."""
        moment = self.draw.choice((0, *range(1, 40)) + (0,) * 8)  # number of updates; often 0, while the run starts
        pause = self.draw.uniform(0, 0.03 if moment else 1.5)  # seconds; reaches any point of an update or of the start
        what = self.draw.choice(("kill all", "kill the first", "kill a rank", "SIGTERM", "SIGINT"))
        victim, frozen = self.draw.randrange(ranks), self.draw.random() < 0.3
        was_over = (run / "LATEST").exists() and self.updates(run)[-1:] == [UPDATES]
        job = self.start(run, ranks, *self.words(changing))
        last = job.after(moment) if moment else None
        time.sleep(pause)
        if frozen:
            self.freeze(job)
        sent = {"SIGTERM": signal.SIGTERM, "SIGINT": signal.SIGINT}.get(what, signal.SIGKILL)
        if what == "kill all":
            job.send_all(sent)
        else:
            job.send(job.ranks().get(victim, job.process.pid) if what == "kill a rank" else job.process.pid, sent)
        status = job.status()
        say(f"  {ranks} ranks, {f'update {last}' if moment else 'start'}{', frozen' * frozen}, {what}: status {status}")
        self.check_status(status, sent, ranks, started=bool(last), said=job.said())
        self.assertTrue(status or moment or was_over, "a signal while the run starts is not lost")
        for checkpoint in run.glob("step-*"):
            self.assertTrue(".tmp" in checkpoint.name or is_whole(checkpoint), checkpoint)
        if (run / "LATEST").is_symlink():
            self.assertTrue(is_whole(run / "LATEST"))
        return status

    @staticmethod
    def freeze(job):
        """Stops all processes, then continues them. One rank alone that is frozen for longer than rank_timeout_secs
        would be a failure."""
        job.send_all(signal.SIGSTOP)
        time.sleep(0.2)
        job.send_all(signal.SIGCONT)

    def check_status(self, status, sent, ranks, started, said):
        """Checks the exit status. It is 0 if the run ended before the signal came. Before the program has installed its
        handlers, a signal ends it at once."""
        allowed = {0, -sent}
        if sent == signal.SIGKILL and ranks > 1:
            allowed.add(TRAINING_FAILED)  # a killed rank makes the others end with this status
        if sent != signal.SIGKILL:
            allowed = {0, STOPPED} if started else {0, STOPPED, -sent}
        self.assertIn(status, allowed, said)

    def compare(self, run, whole, changing):
        self.assertEqual(self.updates(run), list(range(1, UPDATES + 1)))
        evaluated = lambda folder: [line["counters/examples"] for line in self.metrics(folder) if "loss/eval" in line]
        self.assertEqual(evaluated(run), evaluated(whole))
        if changing:
            off = self.difference(run / "LATEST", whole / "LATEST")
            say(f"  the weights differ by {off:.1e}, at most {TOLERANCE:.0e}")
            self.assertLessEqual(off, TOLERANCE)
            before = sorted(whole.glob("step-*"), key=lambda path: int(path.name[5:]))[-2]
            self.assertGreater(self.difference(before, whole / "LATEST"), 10 * TOLERANCE)  # ten updates would be seen
        else:
            self.assertEqual(self.weights(run), self.weights(whole))
        self.assertEqual(self.names(run), self.names(whole))

    @staticmethod
    def difference(one, two):
        """Returns the largest difference, relative to the largest weight of the tensor."""
        mine, theirs = (load_file(folder / "model.safetensors") for folder in (one, two))
        return max(abs(mine[name] - theirs[name]).max() / abs(theirs[name]).max() for name in theirs)

    @staticmethod
    def names(run):
        """Returns the names in a run folder, but for checkpoints (a signal makes them at other steps) and the files of
        TensorBoard, whose names have the time."""
        names = {str(path.relative_to(run)) for path in run.rglob("*")}
        return {name for name in names if not name.startswith(("step-", "tensorboard/")) or ".tmp" in name}


if __name__ == "__main__":
    need_mpirun()
    repeat = ["DPO_SOAK_SEED=" + str(SEED), "./run", "test", "soak", f"{SECONDS:.0f}"]
    say(f"seed {SEED}, {SECONDS:.0f} s; the same choices again: {' '.join(map(shlex.quote, repeat))}")
    tiny_run.main()

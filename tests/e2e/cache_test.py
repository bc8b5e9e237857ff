"""Cached tokens and reference scores: damage, two runs at once, and the files that 'dpo cache' lists and removes."""

import fcntl
import hashlib
import json
import math
import os
import re
import shutil
import struct
import subprocess
import time
from pathlib import Path

from tiny_run import PROGRAM, TinyRuns, main, make_data


def tensors_of(file):
    """Returns the tensors of a safetensors file as bytes, and where each begins."""
    content = file.read_bytes()
    data = 8 + int.from_bytes(content[:8], "little")
    header = {name: entry["data_offsets"] for name, entry in json.loads(content[8:data]).items() if name != "__metadata__"}
    return {name: content[data + begin:data + end] for name, (begin, end) in header.items()}, \
           {name: data + begin for name, (begin, _) in header.items()}


def scores_of(file):
    scores = tensors_of(file)[0]["scores"]
    return struct.unpack(f"<{len(scores) // 8}d", scores)


def change_scores(file, change, keeps_checksum=False):
    tensors, begins = tensors_of(file)
    scores = tensors["scores"] = struct.pack(f"<{len(tensors['scores']) // 8}d", *map(change, scores_of(file)))
    content = bytearray(file.read_bytes())
    content[begins["scores"]:begins["scores"] + len(scores)] = scores
    if not keeps_checksum:
        parts = [tensors[name] for name in ("key", "about", "starts", "scores")]
        whole = b"".join(b"%d\n" % len(part) + part for part in parts)
        content[begins["sha256"]:begins["sha256"] + 64] = hashlib.sha256(whole).hexdigest().encode()
    file.write_bytes(content)


class Cache(TinyRuns):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        make_data(cls.folder / "pairs.jsonl", 60)

    def setUp(self):
        self.local = self.folder / f"local-{self._testMethodName}"
        self.keys = [f"local_dirs=[{self.local}]"]

    def command(self, run, *words):
        return self.train_command(self.folder / run, "reference=cached", "eval_every=null", "n_examples=8", *self.keys, *words)

    def score(self, run, *words):
        done = subprocess.run(self.command(run, *words), capture_output=True, text=True)
        self.check(done)
        return done.stderr

    def files(self, kind):
        return sorted(file for file in self.local.glob(f"*/{kind}/*") if file.suffix in (".safetensors", ".tokens"))

    def dpo(self, *arguments, status=0):
        done = subprocess.run([PROGRAM, "cache", *map(str, arguments), *self.keys], capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def test_a_changed_score_is_noticed(self):
        """A damaged score is computed again. A wrong score with a right checksum ends the run."""
        self.score("first")
        [file] = self.files("references")
        good = file.read_bytes()
        raised = iter([40.0])
        change_scores(file, lambda score: score if math.isnan(score) else score + next(raised, 0), keeps_checksum=True)
        said = self.score("second")
        self.assertIn(f"note: {file}: the cached reference scores are damaged; computing them again", said)
        self.assertIn("reference scores: saved in", said)
        self.assertEqual(file.read_bytes(), good)
        self.assertEqual(self.weights(self.folder / "second"), self.weights(self.folder / "first"))
        change_scores(file, lambda score: -score)
        done = subprocess.run(self.command("third"), capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("but the reference computes", done.stderr)
        self.assertFalse((self.folder / "third").exists())

    def test_two_runs_that_score_at_once_keep_the_scores_of_both(self):
        """Both runs have scored and wait for the lock before the first one may write."""
        self.score("before", "n_examples=4")
        [file] = self.files("references")
        known = {i for i, score in enumerate(scores_of(file)) if not math.isnan(score)}
        with open(f"{file}.lock", "r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            inode = f":{os.fstat(lock.fileno()).st_ino} "
            runs = [subprocess.Popen(self.command(f"seed-{seed}", f"data_seed={seed}"), stdout=subprocess.DEVNULL,
                                     stderr=subprocess.PIPE, text=True) for seed in (1, 2)]
            waiting = lambda: sum("->" in line and inode in line for line in Path("/proc/locks").read_text().splitlines())
            while waiting() < 2 and all(run.poll() is None for run in runs):
                time.sleep(0.05)
            self.assertEqual([run.poll() for run in runs], [None, None])
            fcntl.flock(lock, fcntl.LOCK_UN)
            for run in runs:
                said = run.communicate()[1]
                self.assertEqual(run.returncode, 0, said)
        after = {i for i, score in enumerate(scores_of(file)) if not math.isnan(score)}
        for seed in (1, 2):
            shutil.rmtree(self.local)
            self.score(f"alone-{seed}", f"data_seed={seed}")
            [alone] = self.files("references")
            known |= {i for i, score in enumerate(scores_of(alone)) if not math.isnan(score)}
            self.assertEqual(self.weights(self.folder / f"seed-{seed}"), self.weights(self.folder / f"alone-{seed}"))
        self.assertEqual(after, known)
        self.assertGreater(len(after), 2 * 8)  # more than the scores of the pairs of one run

    def test_caches_are_listed(self):
        self.assertIn("0 files, 0 B in", self.dpo().stdout)
        self.score("listed")
        [tokens], [scores] = self.files("tokens"), self.files("references")
        listed = self.dpo().stdout
        for part in (f"{tokens}\n  tokens, ", f"train of {self.folder / 'pairs.jsonl'}, in tokens of {self.folder / 'model'}",
                     f"{scores}\n  reference scores, ", f"scored by {self.folder / 'model'}", "2 files, "):
            self.assertIn(part, listed)
        self.assertEqual(len(re.findall(r", written [\d.]+ \w+ ago, used [\d.]+ \w+ ago\n", listed)), 2, listed)
        values = json.loads(self.dpo("--json").stdout)
        self.assertEqual({entry["file"]: entry["bytes"] for entry in values["files"]},
                         {str(file): file.stat().st_size for file in (tokens, scores)})
        self.assertEqual(set(values["hub"]), {"folder", "bytes"})
        self.assertIn("Hugging Face hub", self.dpo().stderr)

    def test_only_what_was_not_used_for_long_is_removed(self):
        self.score("aged")
        [tokens], [scores] = self.files("tokens"), self.files("references")
        for file in (tokens, scores):
            os.utime(file, (1e9, 1e9))
        self.score("used-again")  # uses both files, also on file systems where reading does not set the time
        self.dpo()
        self.assertIn("0 files", self.dpo("--older-than", "30d").stdout)
        os.utime(scores, (1e9, 1e9))
        self.dpo()  # listing does not use the files
        listed = self.dpo("--older-than", "30d").stdout
        self.assertTrue(scores.exists())
        self.assertNotIn(str(tokens), listed)
        self.assertIn(str(scores), listed)
        self.assertIn(f"removed {scores}", self.dpo("--older-than", "30d", "--remove").stdout)
        self.assertEqual((self.files("tokens"), self.files("references")), ([tokens], []))

    def test_only_cache_files_are_removed(self):
        self.score("removed")
        [tokens], [scores] = self.files("tokens"), self.files("references")
        others = [tokens.parent / "notes.tokens", scores.parent / "model.safetensors", scores.parent / (64 * "a"),
                  tokens.parent.parent / tokens.name]
        for other in others:
            other.write_text("mine")
        link = tokens.parent / (32 * "b" + ".tokens")
        link.symlink_to(others[0])
        leftover = tokens.parent / (tokens.name + ".Ab12cd.tmp")
        leftover.write_text("half")
        self.assertIn("give the files to remove", self.dpo("--remove", status=1).stderr)
        self.assertIn("not a cache file of dpo", self.dpo("--remove", others[0], status=1).stderr)
        self.assertIn("expected a number and m, h, d or w", self.dpo("--remove", "--older-than", "soon", status=1).stderr)
        self.assertIn(f"removed {scores}", self.dpo("--remove", scores.name).stdout)
        self.assertIn("left by a process that was killed", self.dpo().stdout)
        done = self.dpo("--remove", "--all")
        self.assertIn(f"removed {leftover}", done.stdout)
        self.assertEqual(sorted(tokens.parent.iterdir()), sorted([others[0], link]))
        self.assertEqual(sorted(scores.parent.iterdir()), sorted([others[1], others[2]]))
        self.assertTrue(others[3].exists())
        self.score("made-again")

    def test_what_a_run_uses_is_left(self):
        """A running run maps its tokens, and locks its scores while it writes them."""
        self.score("short")
        [tokens], [scores] = self.files("tokens"), self.files("references")
        with open(f"{scores}.lock", "r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            run = subprocess.Popen(self.command("waiting", "data_seed=1"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            inode = f":{os.fstat(lock.fileno()).st_ino} "
            while run.poll() is None and not any("->" in line and inode in line
                                                 for line in Path("/proc/locks").read_text().splitlines()):
                time.sleep(0.05)
            self.assertIsNone(run.poll())
            done = self.dpo("--remove", "--all")
            self.assertIn(f"note: {tokens} is kept: a run is using it", done.stderr)
            self.assertIn(f"note: {scores} is kept: a run is writing it", done.stderr)
            self.assertIn("0 files, 0 B removed", done.stderr)
            self.assertEqual(self.dpo("--remove", tokens, status=1).stdout, "")
            fcntl.flock(lock, fcntl.LOCK_UN)
            said = run.communicate()[1]
            self.assertEqual(run.returncode, 0, said)
        self.assertIn("2 files", self.dpo("--remove", "--all").stderr)


if __name__ == "__main__":
    main()

"""Measures tokenizing, compared with the Python library `tokenizers` (Rust), on the same text.

The text is the HH rows of the shared data, repeated to about MEGABYTES (default 60), one conversation per text. Both
sides have the texts in memory before the clock starts: dpo with `dpo tokenize DIR --bench FILE`, the library with
encode_batch_fast, its faster call (ids without offsets). They alternate for ROUNDS rounds, and the best of each counts.
The last column compares CPU time instead, which depends less on what else the machine does.

Usage: ./run benchmark, or: DPO_PROGRAM=build/dpo .deps/venv/bin/python benchmarks/tokenizers_speed.py [MEGABYTES [ROUNDS]]
"""

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get("DPO_PROGRAM", str(ROOT / "build" / "dpo"))
NAMES = ["gpt2", "gpt-neox", "llama"]


def shared_data():
    folder = Path(os.environ.get("DPO_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "tokenizers").is_dir():
        print(f"tokenizers_speed: skipped: no tokenizers in {folder}; set DPO_SHARED_DATA to the folder of real data")
        sys.exit(77)
    return folder


def read_texts(folder, megabytes):
    rows = []
    for file in sorted((folder / "hh").glob("*.jsonl.gz")):
        with gzip.open(file, "rt") as lines:
            for row in map(json.loads, lines):
                rows += [row["chosen"], row["rejected"]]
    size = sum(len(row.encode()) for row in rows)
    return rows * max(1, round(megabytes * 1e6 / size))


def time_library(folder, file):
    """Times the library in a separate process, since its number of threads is fixed by the first use."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    if (folder / "tokenizer.json").exists():
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    else:
        tokenizer = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    with open(file) as lines:
        texts = [json.loads(line) for line in lines]
    start, cpu_start = time.perf_counter(), time.process_time()
    encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu_seconds,
                      "tokens": sum(len(encoding.ids) for encoding in encodings)}))


def measure(command, threads):
    environment = {**os.environ, "RAYON_NUM_THREADS": str(threads),
                   "TOKENIZERS_PARALLELISM": "false" if threads == 1 else "true"}
    done = subprocess.run([str(word) for word in command], env=environment, capture_output=True, check=True, text=True)
    return json.loads(done.stdout)


def main():
    megabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    data = shared_data()
    texts = read_texts(data, megabytes)
    size = sum(len(text.encode()) for text in texts) / 1e6
    cores = len(os.sched_getaffinity(0))
    print(f"{len(texts)} texts, {size:.1f} MB; {cores} cores; MB/s, best of {rounds}")
    print(f"{'tokenizer':<10} {'threads':>7} {'tokenizers':>11} {'dpo':>8} {'ratio':>7} {'by CPU time':>12}")
    with tempfile.TemporaryDirectory() as made:
        file = Path(made) / "texts.jsonl"
        file.write_text("".join(json.dumps(text) + "\n" for text in texts))
        for name in NAMES:
            folder = data / "tokenizers" / name
            for threads in sorted({1, cores}):
                theirs, ours = [], []
                for _ in range(rounds):
                    theirs.append(measure([sys.executable, __file__, "--library", folder, file], threads))
                    ours.append(measure([PROGRAM, "tokenize", folder, "--json", "--bench", file, "--threads", threads], threads))
                assert theirs[0]["tokens"] == ours[0]["tokens"], f"{name}: the numbers of tokens differ"
                slow, fast = (size / min(run["seconds"] for run in runs) for runs in (theirs, ours))
                cpu = min(run["cpu_seconds"] for run in theirs) / min(run["cpu_seconds"] for run in ours)
                print(f"{name:<10} {threads:>7} {slow:>11.1f} {fast:>8.1f} {fast / slow:>6.1f}x {cpu:>11.1f}x", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--library"]:
        time_library(Path(sys.argv[2]), sys.argv[3])
    else:
        main()

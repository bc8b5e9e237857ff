"""Measures reading a model's weights, compared with dd on the same file, with a cold and a warm page cache.

`dpo init` creates a model of about GIGABYTES (default 2) in bfloat16 in a temporary folder. In each of ROUNDS (default 5) it
is read by dd with blocks of 1 MiB (a buffer that stays in the CPU's cache), by dd with blocks of 256 MiB (one that does
not), and by dpo into the weights' final memory; the best of each counts. Cold: the page cache is dropped before each. Also
prints dpo's peak memory relative to the weights.

Usage: ./run benchmark, or: DPO_PROGRAM=build/dpo python3 benchmarks/weights_read.py [GIGABYTES [ROUNDS]]
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = Path(os.environ.get("DPO_PROGRAM", ROOT / "build" / "dpo"))
ENGINE = PROGRAM.with_name("dpo-engine")
LAYER_PARAMETERS = 44_044_288  # for the sizes below
SIZES = {"model_type": "llama", "hidden_size": 2048, "intermediate_size": 5632, "num_attention_heads": 32,
         "num_key_value_heads": 4, "vocab_size": 32000, "max_position_embeddings": 2048, "dtype": "bfloat16",
         "tie_word_embeddings": False}


def give_up(why):
    print(f"weights_read: skipped: {why}")
    sys.exit(77)


def make_model(folder, gigabytes):
    layers = max(1, round((gigabytes * 1e9 / 2 - 2 * 32000 * 2048) / LAYER_PARAMETERS))
    config = folder / "config.json"
    config.write_text(json.dumps({**SIZES, "num_hidden_layers": layers}))
    made = subprocess.run([PROGRAM, "init", config, folder / "model"], capture_output=True, text=True)
    if made.returncode != 0:
        give_up(made.stderr.strip())
    return folder / "model"


def forget(file):
    """Drops the file from the page cache. Root drops the whole cache; other users call posix_fadvise."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        with open(file, "rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def time_dd(file, piece):
    start = time.perf_counter()
    subprocess.run(["dd", f"if={file}", "of=/dev/null", f"bs={piece}"], check=True, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def read(model, *words):
    return json.loads(subprocess.run([ENGINE, "read", model, *words], check=True, capture_output=True).stdout)


def main():
    gigabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 2
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    if not ENGINE.exists():
        give_up(f"{ENGINE} not found: it is built only with LibTorch")
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(Path(folder), gigabytes)
        file = model / "model.safetensors"
        size = file.stat().st_size / 1e9
        runs = {"dd, 1 MiB": lambda: time_dd(file, "1M"), "dd, 256 MiB": lambda: time_dd(file, "256M"),
                "dpo": lambda: read(model)["seconds"],
                "dpo to float32": lambda: read(model, "--dtype", "float32")["seconds"]}
        for state in ("cold", "warm"):
            best = {name: float("inf") for name in runs}
            for _ in range(rounds):
                for name, run in runs.items():
                    if state == "cold":
                        forget(file)
                    best[name] = min(best[name], run())
            print(f"{state}: " + ", ".join(f"{name} {size / seconds:.2f} GB/s" for name, seconds in best.items()) +
                  f"; dpo / dd: {best['dd, 1 MiB'] / best['dpo']:.2f} (1 MiB), "
                  f"{best['dd, 256 MiB'] / best['dpo']:.2f} (256 MiB)")
        report = read(model)
        print(f"peak memory: {report['peak_bytes'] / report['weights_bytes']:.2f} times the weights' {size:.1f} GB; "
              f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Rehearses one rank of runs of many ranks (`dpo bench train --as`), and compares a rehearsal with a real run.

`compare` times FSDPTrainer on two ranks of one core each over MPI, with the link slowed down (DPO_LINK_GBYTES_PER_SECOND), and a
rehearsal of one of the two ranks over the same link. The ranks of a real run share the memory and caches of their machine, unlike
GPUs, so two rehearsals run at the same time, one on each core. All pairs are equally long; the fastest update of each counts, as
the least disturbed one.

`tables` rehearses runs on eight GPUs over NVLink, PCIe and two networks, at 1, 2 and 4 pairs per GPU, and compares them with one GPU
that has the whole model. It needs one GPU with the memory for that, such as an H200, where it takes about five minutes.

    ./run benchmark rehearsal                                     # compare
    ./run benchmark rehearsal compare --links 0.5,2 --pairs 1,4 --updates 5 --rounds 3
    ./run benchmark rehearsal tables --gpu h200 --figure docs/rehearsal.svg
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks" / "compare")]
import fsdp_rule
import plot

PROGRAM = os.environ.get("DPO_PROGRAM", str(ROOT / "build" / "dpo"))
RANKS, GPUS = 2, 8
DPO = ("loss=dpo", "loss.beta=0.1")
MODELS = (("Pythia-2.8B, cached reference", ("model=pythia28", "reference=cached")),
          ("Pythia-2.8B, live reference", ("model=pythia28", "reference=live")),
          ("Llama-3.1-8B, cached reference", ("model=blank_model", "model.name_or_path=meta-llama/Llama-3.1-8B", "reference=cached")))
# Name, machines and GPUs of each, GB/s; None: the device's own link.
WIRES = (("NVLink", f"{GPUS}x", None), ("PCIe 4, 25 GB/s", f"{GPUS}x", ("--link", "25")),
         ("network, 400 Gb/s per GPU", f"{GPUS}x1x", ("--network", "50")),
         ("network, 100 Gb/s per GPU", f"{GPUS}x1x", ("--network", "12.5")))


def start(words, **environment):
    return subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, **environment})


def report_of(process):
    """Waits for a command with --json and returns its object."""
    out, errors = process.communicate()
    if process.returncode != 0:
        sys.exit(f"{' '.join(process.args)}:\n{out}{errors}")
    return json.loads(next(line for line in out.splitlines() if line.startswith("{")))


def bench(*words):
    return [PROGRAM, "bench", "train", "exp_name=rehearsal", *words, "--json"]


def measured(folder, kind, link, pairs, updates):
    """Returns the seconds of the fastest update of a real or rehearsed run."""
    (folder / "lengths.yaml").write_text(fsdp_rule.LENGTHS)
    keys = (*fsdp_rule.MEASURED, f"plan.lengths={folder / 'lengths.yaml'}")
    if kind == "real":
        return fsdp_rule.bench(keys, "FSDPTrainer", RANKS, pairs, updates, link)
    device = fsdp_rule.device_file(folder, "cpu", cores=1)
    words = bench(*keys, "trainer=FSDPTrainer", "--as", f"{RANKS}x{device}", "--link", f"{link:g}", "--pairs-per-gpu", pairs,
                  "--updates", updates)
    running = [start(words, OMP_NUM_THREADS="1") for _ in range(RANKS)]
    return max(min(report["rehearsals"][0]["seconds"]) for report in [report_of(process) for process in running])


def compare(links, counts, updates, rounds):
    """Returns rows of (link, pairs per rank, real seconds, rehearsed seconds, difference relative to the real ones)."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for link in links:
            for pairs in counts:
                best = {}
                for _ in range(rounds):
                    for kind in ("real", "rehearsed"):
                        seconds = measured(Path(folder), kind, link, pairs, updates)
                        best[kind] = min(best.get(kind, seconds), seconds)
                rows.append((link, pairs, best["real"], best["rehearsed"], best["rehearsed"] / best["real"] - 1))
    return rows


def print_comparison(rows):
    print(f"\n{' '.join(fsdp_rule.MEASURED)}, {RANKS} ranks of one core: over MPI, and one of them rehearsed\n")
    print("| link, GB/s | pairs per rank | real update, s | rehearsed, s | difference |")
    print("|---|---|---|---|---|")
    for link, pairs, real, played, difference in rows:
        print(f"| {link:g} | {pairs} | {real:.3f} | {played:.3f} | {100 * difference:+.0f} % |")


def rehearsals(machines, keys, wires, counts, updates):
    """Returns the rows of one rehearsal, by pairs per GPU."""
    words = bench(*DPO, "model.fsdp_policy_mp=bfloat16", *keys, "--as", machines, *(wires or ()), "--updates", updates,
                  "--pairs-per-gpu", ",".join(map(str, counts)))
    return {row["examples_per_gpu"]: row for row in report_of(start(words))["rehearsals"]}


def tables(gpu, counts, updates):
    """Returns rows of (model, wires, rehearsal, pairs/s of one GPU that has the whole model)."""
    rows = []
    for model, keys in MODELS:
        alone = rehearsals(f"1x{gpu}", (*keys, "trainer=BasicTrainer"), None, counts, updates)
        for name, machines, wires in WIRES:
            found = rehearsals(machines + gpu, (*keys, "trainer=FSDPTrainer"), wires, counts, updates)
            rows += [(model, name, row, alone[pairs]["pairs_per_second"]) for pairs, row in found.items()]
    return rows


def print_tables(rows):
    print("| model | wires | pairs per GPU | update, s | planned | without transfers | transfers, s | hidden | memory, GiB | planned "
          "| pairs/s per GPU | of one GPU alone |")
    print("|" + "---|" * 12)
    for model, wires, row, alone in rows:
        planned, each = row["planned"], row["pairs_per_second_per_gpu"]
        print(f"| {model} | {wires} | {row['examples_per_gpu']:g} | {row['update_seconds']:.3f} | {planned['update_seconds']:.3f} "
              f"| {row['instant_update_seconds']:.3f} | {row['communication_seconds']:.3f} | {100 * row['hidden']:.0f} % "
              f"| {row['peak_gib']:.1f} | {planned['gib']:.1f} | {each:.2f} | {100 * each / alone:.0f} % |")


def figure(rows):
    """Draws the share of one GPU's speed that each of eight reaches. A chart has six colours, so the slowest wires are left out."""
    lines = {}
    for model, wires, row, alone in rows:
        if "live" not in model and wires != WIRES[-1][0]:
            lines.setdefault(f"{model.split('-')[0]}, {wires.split(' per')[0]}", []).append((row["examples_per_gpu"], 100 * row["pairs_per_second_per_gpu"] / alone))
    return plot.line_chart(f"Speed of each of {GPUS} GPUs relative to one alone, rehearsed (DPO, cached reference)", "pairs per GPU",
                           "per cent", lines)


def numbers(text):
    return [int(word) for word in text.split(",")]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("what", nargs="?", choices=["compare", "tables"], default="compare", help="default: compare")
    arguments.add_argument("--links", type=fsdp_rule.numbers, default=[0.1, 0.5, 2], help="GB/s, for compare (default: 0.1,0.5,2)")
    arguments.add_argument("--pairs", type=numbers, help="pairs per GPU (default: 1,4 for compare, 1,2,4 for tables)")
    arguments.add_argument("--updates", type=int, default=3, help="updates per timed run (default: 3)")
    arguments.add_argument("--rounds", type=int, default=2, help="how often compare repeats each measurement (default: 2)")
    arguments.add_argument("--gpu", default="h200", help="the device of this machine, for tables (default: h200)")
    arguments.add_argument("--figure", type=Path, help="SVG file to write, for tables")
    asked = arguments.parse_args()
    if asked.what == "compare":
        if not shutil.which("mpirun"):
            print("rehearsal: not compared: mpirun not found")
            sys.exit(77)
        print_comparison(compare(asked.links, asked.pairs or [1, 4], asked.updates, asked.rounds))
        return
    began = time.monotonic()
    rows = tables(asked.gpu, asked.pairs or [1, 2, 4], asked.updates)
    print_tables(rows)
    print(f"\n{time.monotonic() - began:.0f} s")
    if asked.figure:
        asked.figure.write_text(figure(rows))


if __name__ == "__main__":
    main()

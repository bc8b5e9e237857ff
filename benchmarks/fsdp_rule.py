"""When is sharding worth it? Tests the rule of direct-preference-optimization: "FSDPTrainer needs 2 or more examples per GPU".

FSDPTrainer is faster when its GPUs together train more examples per second than BasicTrainer on one of them, with the same
number of examples per GPU.

`simulate` asks the planner: Pythia-2.8B, DPO, bfloat16, eight GPUs of each of DEVICES, links from 1 to 400 GB/s. It prints
from how many examples per GPU FSDPTrainer is faster, and from how many it reaches half of the eight GPUs' combined speed.

`measure` times `dpo bench train` on this machine: BasicTrainer on one core, and FSDPTrainer on two ranks of one core each
over MPI, with the link slowed down (DPO_LINK_GBYTES_PER_SECOND). All pairs are equally long (a mean pair of HH), so all
updates do the same work; the trainers alternate, and the fastest update of each counts, as the least disturbed one. It also
prints the planner's prediction: the speed of a core is set from BasicTrainer's time with the most examples, everything else is
predicted.

    ./run benchmark fsdp_rule                                     # both
    ./run benchmark fsdp_rule simulate --figure docs/fsdp_rule.svg
    ./run benchmark fsdp_rule measure --links 0.2,1 --examples 1,2,4,8 --updates 3 --rounds 3 --figure docs/fsdp_rule_measured.svg
"""

import argparse
import functools
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks" / "compare"))
import plot

PROGRAM = os.environ.get("DPO_PROGRAM", str(ROOT / "build" / "dpo"))
LINKS = (1, 2, 5, 10, 25, 50, 100, 200, 400)  # GB/s
MOST_EXAMPLES = 4096
GPUS = 8
SIMULATED = ["model=pythia28", "loss=dpo", "loss.beta=0.1", "model.fsdp_policy_mp=bfloat16", "reference=live"]
MEASURED = ["model=blank_model", "model.name_or_path=EleutherAI/pythia-70m", "loss=dpo", "loss.beta=0.1", "reference=cached"]
LENGTHS = """train: {prompts: 100000, pairs: 100000}
test: {prompts: 1000, pairs: 1000}
longest: {prompt: 100, response: 55}
prompt: [100]
response: [55]
"""
RANKS = 2


def numbers(text):
    return [float(word) if "." in word else int(word) for word in text.split(",")]


def device_file(folder, name, **figures):
    """Writes the description of a shipped device with other figures, as a file for --device."""
    text = (ROOT / "configs" / "device" / f"{name}.yaml").read_text()
    for key, value in figures.items():
        line = f"{key}: {value:g}"
        text, found = re.subn(rf"^{key}:.*$", line, text, flags=re.MULTILINE)
        if not found:
            text += line + "\n"
    path = folder / f"{name}-{'-'.join(f'{value:g}' for value in figures.values())}.yaml"
    path.write_text(text)
    return path


@functools.cache
def plan(device, trainer, gpus, examples, words):
    """Returns the `time` part of a plan with this many examples on each of this many GPUs."""
    command = [PROGRAM, "plan", *words, "exp_name=rule", f"trainer={trainer}", "fsdp_reshard=pass", f"batch_size={gpus * examples}",
               f"eval_every={gpus * examples}", "--gpus", str(gpus), "--device", str(device), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        sys.exit(f"{' '.join(command)}:\n{done.stderr}")
    return json.loads(done.stdout)["time"]


def planned_gain(device, gpus, examples, words):
    """Returns the speed of FSDPTrainer on all GPUs relative to one GPU, according to the plan."""
    one = plan(device, "BasicTrainer", 1, examples, words)["examples_per_second"]
    return plan(device, "FSDPTrainer", gpus, examples, words)["examples_per_second"] / one


def first_above(gain, bound):
    """Returns the smallest number of examples with a gain above the bound, or None if it exceeds MOST_EXAMPLES. The
    gain rises with examples."""
    if gain(MOST_EXAMPLES) <= bound:
        return None
    low, high = 0, MOST_EXAMPLES  # gain(low) <= bound < gain(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if gain(middle) > bound else (middle, high)
    return high


def simulate(devices, links, folder):
    """Returns rows of (device, link, examples to be faster, examples for half of the combined speed, tokens per
    example)."""
    rows = []
    for name in devices:
        for link in links:
            device = device_file(folder, name, link_gbytes_per_second=link)
            gain = lambda examples: planned_gain(device, GPUS, examples, tuple(SIMULATED))
            time = plan(device, "FSDPTrainer", GPUS, 1, tuple(SIMULATED))
            tokens = time["tokens_per_second"] / time["examples_per_second"]
            rows.append((name, link, first_above(gain, 1), first_above(gain, GPUS / 2), tokens))
    return rows


def shown(examples, tokens):
    return f"more than {MOST_EXAMPLES}" if examples is None else f"{examples} ({examples * tokens:.0f} tokens)"


def print_simulated(rows):
    print(f"\nPlanned: {' '.join(SIMULATED)}, {GPUS} GPUs; examples per GPU per microbatch\n")
    print("| device | link, GB/s | faster than one GPU from | half of the combined speed from | rule of direct-preference-optimization |")
    print("|---|---|---|---|---|")
    for name, link, wins, half, tokens in rows:
        print(f"| {name} | {link:g} | {shown(wins, tokens)} | {shown(half, tokens)} | 2 |")


def simulated_figure(rows):
    lines = {}
    for name, link, wins, half, _ in rows:
        for what, examples in ((f"{name}: faster", wins), (f"{name}: half of 8 GPUs", half)):
            if examples is not None:
                lines.setdefault(what, []).append((link, examples))
    lines["the original's rule"] = [(link, 2) for link in sorted({row[1] for row in rows})]
    return plot.line_chart("Pairs per GPU from which FSDPTrainer is faster, as planned (Pythia-2.8B, DPO)", "link, GB/s",
                           "pairs per GPU per microbatch", lines)


def bench(keys, trainer, ranks, examples, updates, link=None):
    """Returns the seconds of the fastest update."""
    words = [PROGRAM, "bench", "train", *keys, "exp_name=rule", f"trainer={trainer}", "fsdp_reshard=pass", f"batch_size={ranks * examples}",
             f"eval_every={ranks * examples}", "--updates", str(updates), "--json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if link is not None:
        environment["DPO_LINK_GBYTES_PER_SECOND"] = f"{link:g}"
    if ranks > 1:
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        words = ["mpirun", *root, "--oversubscribe", "--bind-to", "none", "-n", str(ranks), *words]
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}:\n{done.stdout}{done.stderr}")
    report = next(line for line in done.stdout.splitlines() if line.startswith("{"))
    return min(json.loads(report)["seconds"])


def calibrated_efficiency(folder, keys, examples, seconds):
    """Returns the efficiency with which the planner's BasicTrainer takes this many seconds on one core."""
    efficiency = 0.7
    time = plan(device_file(folder, "cpu", cores=1, efficiency=efficiency), "BasicTrainer", 1, examples, keys)
    return min(1, efficiency * time["microbatch_compute_seconds"] / (seconds - time["optimizer_seconds"]))


def measure(links, counts, updates, rounds, folder):
    """Returns rows of (link, examples per rank, examples/s of one core, of two ranks, planned gain)."""
    (folder / "lengths.yaml").write_text(LENGTHS)
    keys = (*MEASURED, f"plan.lengths={folder / 'lengths.yaml'}")
    one, several = {}, {}  # seconds
    for _ in range(rounds):
        for examples in counts:
            one[examples] = min(one.get(examples, math.inf), bench(keys, "BasicTrainer", 1, examples, updates))
            for link in links:
                seconds = bench(keys, "FSDPTrainer", RANKS, examples, updates, link)
                several[link, examples] = min(several.get((link, examples), math.inf), seconds)
    efficiency = calibrated_efficiency(folder, keys, max(counts), one[max(counts)])
    rows = []
    for link in links:
        device = device_file(folder, "cpu", cores=1, efficiency=efficiency, link_gbytes_per_second=link)
        for examples in counts:
            rows.append((link, examples, examples / one[examples], RANKS * examples / several[link, examples],
                         planned_gain(device, RANKS, examples, keys)))
    return rows


def wins_from(rows, gain):
    return next((row[1] for row in sorted(rows, key=lambda row: row[1]) if gain(row) > 1), None)


def print_measured(rows):
    print(f"\nMeasured: {' '.join(MEASURED)}, {RANKS} ranks of one core over MPI\n")
    print("| link, GB/s | pairs per rank | BasicTrainer, pairs/s | FSDPTrainer, pairs/s | gain | planned gain |")
    print("|---|---|---|---|---|---|")
    for link, examples, one, all_ranks, planned in rows:
        print(f"| {link:g} | {examples} | {one:.2f} | {all_ranks:.2f} | {all_ranks / one:.2f} | {planned:.2f} |")
    print()
    for link in sorted({row[0] for row in rows}):
        own = [row for row in rows if row[0] == link]
        measured, planned = wins_from(own, lambda row: row[3] / row[2]), wins_from(own, lambda row: row[4])
        said = lambda count: "never" if count is None else f"from {count} pairs per rank"
        print(f"{link:g} GB/s: FSDPTrainer is faster {said(measured)}; planned: {said(planned)}")


def measured_figure(rows):
    lines = {}
    for link, examples, one, all_ranks, planned in rows:
        lines.setdefault(f"{link:g} GB/s, measured", []).append((examples, all_ranks / one))
        lines.setdefault(f"{link:g} GB/s, planned", []).append((examples, planned))
    return plot.line_chart("Speed of FSDPTrainer on two cores / BasicTrainer on one (Pythia-70M, DPO)", "pairs per rank",
                           "times as fast", lines)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("what", nargs="?", choices=["simulate", "measure"], help="default: both")
    arguments.add_argument("--devices", default="h200,a100-80gb", help="names in configs/device, for simulate (default: h200,a100-80gb)")
    arguments.add_argument("--links", type=numbers, help="link speeds in GB/s, separated by commas")
    arguments.add_argument("--examples", type=numbers, default=[1, 2, 4, 8], help="examples per rank, for measure (default: 1,2,4,8)")
    arguments.add_argument("--updates", type=int, default=3, help="updates per timed run, for measure (default: 3)")
    arguments.add_argument("--rounds", type=int, default=2, help="how often each measurement is repeated (default: 2)")
    arguments.add_argument("--figure", type=Path, help="SVG file to write")
    asked = arguments.parse_args()
    if asked.figure and not asked.what:
        arguments.error("--figure needs 'simulate' or 'measure': there is one figure for each")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        if asked.what != "measure":
            rows = simulate(asked.devices.split(","), asked.links or LINKS, folder)
            print_simulated(rows)
            if asked.figure:
                asked.figure.write_text(simulated_figure(rows))
        if asked.what != "simulate":
            if not shutil.which("mpirun"):
                print("fsdp_rule: not measured: mpirun not found")
                sys.exit(77)
            rows = measure(asked.links or (0.1, 0.5, 2.0), asked.examples, asked.updates, asked.rounds, folder)
            print_measured(rows)
            if asked.figure:
                asked.figure.write_text(measured_figure(rows))


if __name__ == "__main__":
    main()

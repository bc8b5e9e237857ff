"""Compares one DPO step on this CPU: dpo, transformers used like direct-preference-optimization, TRL as documented, and
tuned Python.

The model has the shape of Pythia-70M and random weights. One step has 64 preference pairs of HH (at most 512 tokens,
256 of them for a long prompt): policy and live reference forward, backward, AdamW update. All contenders get the same
tokens and the same number of threads. Start-up, loading and tokenizing are not timed, and each has a warm-up. They
alternate for ROUNDS rounds, and the medians count. Memory is the peak of a process (ru_maxrss). The contenders'
log-probabilities are compared, so that a fast wrong answer does not count. A measurement during which other virtual
machines took more than 3 % of the CPU time (steal) is repeated. TRL is skipped if it is not installed.

The slow ones (transformers, TRL) compute only the first --slow-pairs of the step, and an update; the table says how many.

    ./run benchmark compare/cpu                 # the table
    ./run benchmark compare/cpu --sweep         # time by batch size and by length of the prompt: JSON and SVG in --out
    ./run benchmark compare/cpu --pairs 4 --slow-pairs 2 --rounds 1      # does it work?
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import plot  # the parent imports nothing large: a child's peak memory includes what it has when it forks

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROGRAM = os.environ.get("DPO_PROGRAM", str(ROOT / "build" / "dpo"))
OURS, TRL, TUNED = "dpo, bfloat16", "TRL, as documented", "tuned Python, bfloat16"
# Maps a name in the table to (name for contenders.py or our dtype, whether it is slow).
CONTENDERS = {OURS: ("bfloat16", False), "dpo, float32": ("float32", False), TUNED: ("tuned", False),
              "transformers, float32": ("original float32", True), "transformers, bfloat16": ("original bfloat16", True),
              TRL: ("trl", True)}
if not importlib.util.find_spec("trl"):
    del CONTENDERS[TRL]
MOST_STOLEN = 0.03
BATCH_SIZES, PROMPT_LENGTHS, RESPONSE_LENGTH = (4, 16, 64), (32, 64, 128, 256), 48


def shared_data():
    folder = Path(os.environ.get("DPO_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "hh").is_dir():
        print(f"compare/cpu: skipped: no hh in {folder}; set DPO_SHARED_DATA to the folder of real data")
        sys.exit(77)
    return folder


def dpo(*words, **more):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"dpo {' '.join(map(str, words))}:\n{done.stderr}")
    return done.stdout


def make_model(folder, data):
    source = folder / "source"
    source.mkdir()
    shape = json.loads((ROOT / "configs" / "architecture" / "EleutherAI--pythia-70m.json").read_text())
    shape["architectures"] = ["GPTNeoXForCausalLM"]  # TRL creates the class of this name
    (source / "config.json").write_text(json.dumps(shape))
    shutil.copy(data / "tokenizers" / "gpt-neox" / "tokenizer.json", source)
    dpo("init", source, folder / "model")
    return folder / "model"


class Step:
    """Holds the pairs of a step, which follow those of a warm-up: configuration keys for dpo, and a token file for the
    others."""

    def __init__(self, folder, model, batch, data_words):
        self.model, self.batch = model, batch
        self.words = ["model=blank_model", f"model.name_or_path={model}", *data_words, "loss=dpo", "loss.beta=0.1",
                      f"batch_size={batch}", "eval_batch_size=1", f"local_dirs=[{folder}]", "exp_name=compare"]
        rows = [json.loads(line) for line in dpo("data", *self.words, "--order", 2 * batch, "--tokens").splitlines()]
        assert len(rows) == 2 * batch, f"there are only {len(rows)} pairs"
        keep = lambda row: {key: row[key] for key in ("prompt_ids", "chosen_ids", "rejected_ids")}
        self.pairs = [keep(row) for row in rows[batch:]]
        self.file = folder / f"step-{batch}.json"
        self.file.write_text(json.dumps({"pairs": self.pairs, "warm_up": [keep(row) for row in rows[:2]]}))
        self.run = folder / "run"


def spawn(words, threads):
    """Runs a process. Returns its standard output and its peak memory in bytes."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(list(map(str, words)), stdout=out, stderr=err, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        if process.returncode != 0:
            sys.exit(f"{' '.join(map(str, words))}: exit {process.returncode}\n{err.read()[-3000:]}")
        return out.read(), usage.ru_maxrss * 1024


def measure_dpo(step, dtype, count, options):
    """Runs two updates and measures the second. debug=true: no checkpoints are written."""
    shutil.rmtree(step.run, ignore_errors=True)
    parts = max(1, step.batch // options.pairs_at_once)
    _, peak = spawn([PROGRAM, "train", *step.words, f"local_run_dir={step.run}", f"n_examples={2 * step.batch}", "debug=true",
                     f"eval_every={1000 * step.batch}", "n_eval_examples=1", "do_first_eval=false", "sample_during_eval=false",
                     "optimizer=AdamW", "lr=1e-8", "warmup_steps=0", "minimum_log_interval_secs=0", "reference=live",
                     f"gradient_accumulation_steps={parts}", f"model.fsdp_policy_mp={dtype}"], options.threads)
    updates = [json.loads(line) for line in (step.run / "metrics.jsonl").read_text().splitlines()]
    last = [update for update in updates if "grad_norm" in update][-1]
    return {"pairs": step.batch, "seconds": step.batch / last["examples_per_second"],
            "chosen": last["logps_train/chosen"], "peak_bytes": peak}


def measure(step, contender, options):
    name, slow = CONTENDERS[contender]
    count = min(step.batch, options.slow_pairs) if slow else step.batch
    if contender.startswith("dpo"):
        return measure_dpo(step, name, count, options)
    text, peak = spawn([sys.executable, HERE / "contenders.py", name, step.model, step.file, count, options.threads],
                       options.threads)
    return json.loads(text.splitlines()[-1]) | {"peak_bytes": peak}


def processor_times():
    """Returns two counts of CPU ticks since the machine started: those taken by other virtual machines (steal), and
    all."""
    ticks = list(map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]))
    return ticks[7], sum(ticks)


def timed(step, contender, options):
    """Measures a contender, with the share of CPU time that other virtual machines took meanwhile."""
    stolen, total = processor_times()
    found = measure(step, contender, options)
    stolen, total = (after - before for after, before in zip(processor_times(), (stolen, total), strict=True))
    return found | {"stolen": stolen / max(1, total)}


def least_disturbed(step, contender, options):
    """Repeats a measurement while other virtual machines disturb it, for any contender. Returns the least disturbed
    one."""
    turns = []
    while not turns or (turns[-1]["stolen"] > MOST_STOLEN and len(turns) < options.tries):
        turns.append(timed(step, contender, options))
        print(f"  {contender}: {turns[-1]['pairs']} pairs in {turns[-1]['seconds']:.1f} s, "
              f"steal {turns[-1]['stolen']:.1%}", file=sys.stderr, flush=True)
    return min(turns, key=lambda turn: turn["stolen"])


def rounds_of(step, contenders, options):
    results = {contender: [] for contender in contenders}
    for i in range(options.rounds):
        print(f"round {i + 1}", file=sys.stderr)
        for contender in contenders:
            results[contender].append(least_disturbed(step, contender, options))
    return results


def pairs_per_second(runs):
    return statistics.median(run["pairs"] / run["seconds"] for run in runs)


def check_same_work(step, results, options):
    """Checks that contenders that computed the same pairs agree about the chosen responses; bfloat16 may differ a
    little."""
    by_count = {}
    for contender, runs in results.items():
        by_count.setdefault(runs[0]["pairs"], {})[contender] = runs[0]["chosen"]
    if len(by_count) > 1:  # the tuned version computes the expected value for the first pairs of the step
        for count in set(by_count) - {step.batch}:
            text, _ = spawn([sys.executable, HERE / "contenders.py", "tuned", step.model, step.file, count, options.threads],
                            options.threads)
            by_count[count][TUNED] = json.loads(text.splitlines()[-1])["chosen"]
    for count, chosen in by_count.items():
        spread = max(chosen.values()) - min(chosen.values())
        assert spread < 0.01 * abs(min(chosen.values())), f"contenders disagree about the first {count} pairs: {chosen}"


def summary(results):
    ours = pairs_per_second(results[OURS]) if OURS in results else None
    return {contender: {"pairs_per_second": pairs_per_second(runs), "pairs_timed": runs[0]["pairs"],
                        "peak_bytes": max(run["peak_bytes"] for run in runs),
                        "ours_is_faster_by": ours and ours / pairs_per_second(runs), "runs": runs}
            for contender, runs in results.items()}


def print_table(rows, batch):
    print(f"| | pairs/s | pairs timed, of {batch} | memory, GiB | dpo, bfloat16, is faster by |\n|---|---|---|---|---|")
    for name, row in rows.items():
        print(f"| {name} | {row['pairs_per_second']:.2f} | {row['pairs_timed']} | {row['peak_bytes'] / 2**30:.2f} | "
              f"{row['ours_is_faster_by']:.1f}x |")


def describe_machine(options):
    processor = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                      if line.startswith("model name")), platform.processor())
    versions = {name: importlib.metadata.version(name) for name in ("torch", "transformers", "trl")
                if importlib.util.find_spec(name)}
    return {"processor": processor, "threads": options.threads, "versions": versions | {"dpo": dpo("--version").strip()},
            "load_at_start": os.getloadavg()[0]}


def hh_words(data):
    return ["datasets=[hh]", f"dataset_paths.hh={data / 'hh'}", "max_length=512", "max_prompt_length=256"]


def compare(folder, model, data, options):
    step = Step(folder, model, options.pairs, hh_words(data))
    results = rounds_of(step, CONTENDERS, options)
    check_same_work(step, results, options)
    rows = summary(results)
    print_table(rows, options.pairs)
    return {"pairs": options.pairs, "rounds": options.rounds, "contenders": rows}


def made_pairs(folder, data, prompt_length, count):
    """Cuts pairs of equal lengths out of HH's text. Tokenizing them again changes some lengths by a token."""
    import gzip

    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(data / "tokenizers" / "gpt-neox" / "tokenizer.json"))
    with gzip.open(data / "hh" / "train.jsonl.gz", "rt") as lines:
        ids = tokenizer.encode("".join(json.loads(line)["chosen"] for line in lines)).ids
    target = folder / f"prompts-{prompt_length}"
    target.mkdir()
    size = prompt_length + 2 * RESPONSE_LENGTH
    rows = []
    for i in range(count):
        at = i * size % (len(ids) - size)
        cut = lambda start, length: tokenizer.decode(ids[at + start:at + start + length])
        rows.append(json.dumps({"prompt": f"{i}{cut(0, prompt_length)}", "chosen": cut(prompt_length, RESPONSE_LENGTH),
                                "rejected": cut(prompt_length + RESPONSE_LENGTH, RESPONSE_LENGTH)}) + "\n")
    (target / "train.jsonl").write_text("".join(rows))
    (target / "test.jsonl").write_text("".join(rows[:2]))
    return ["max_length=512", "max_prompt_length=384", f"datasets=[{target}]"]


def sweep(folder, model, data, options):
    contenders = [name for name in (OURS, TUNED, "transformers, float32", TRL) if name in CONTENDERS]
    charts = {"batch": {}, "prompt": {}}
    for kind, values in (("batch", options.batch_sizes), ("prompt", options.prompt_lengths)):
        for value in values:
            print(f"{kind} {value}", file=sys.stderr)
            inner = folder / f"{kind}-{value}"
            inner.mkdir()
            step = Step(inner, model, value, hh_words(data)) if kind == "batch" else \
                Step(inner, model, options.sweep_pairs, made_pairs(inner, data, value, 2 * options.sweep_pairs))
            for contender, row in summary(rounds_of(step, contenders, options)).items():
                charts[kind].setdefault(contender, []).append((value, 1 / row["pairs_per_second"]))
    options.out.mkdir(parents=True, exist_ok=True)
    for kind, x_label, title in (("batch", "pairs in a step", "HH, Pythia-70M shape: seconds per pair"),
                                 ("prompt", f"tokens of the prompt, two responses of {RESPONSE_LENGTH}",
                                  f"Pythia-70M shape, {options.sweep_pairs} pairs per step: seconds per pair")):
        file = options.out / f"cpu-by-{kind}.svg"
        file.write_text(plot.line_chart(title, x_label, "seconds per pair", charts[kind]))
        print(f"{file}: " + "; ".join(f"{name} " + ", ".join(f"{x}: {y:.3f}" for x, y in line)
                                      for name, line in charts[kind].items()))
    return {"seconds_per_pair": charts}


def read_arguments():
    numbers = lambda text: tuple(map(int, text.split(",")))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweep", action="store_true", help="plot by batch size and prompt length instead of printing the table")
    parser.add_argument("--pairs", type=int, default=64, help="pairs in a step (64)")
    parser.add_argument("--slow-pairs", type=int, default=16, help="pairs of a step that slow contenders compute (16)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each contender (3)")
    parser.add_argument("--tries", type=int, default=3, help="attempts at a measurement that other virtual machines disturb (3)")
    parser.add_argument("--threads", type=int, default=2, help="threads of every contender (2)")
    parser.add_argument("--pairs-at-once", type=int, default=16, help="pairs per microbatch of dpo (16)")
    parser.add_argument("--batch-sizes", type=numbers, default=BATCH_SIZES, help="batch sizes of the sweep (4,16,64)")
    parser.add_argument("--prompt-lengths", type=numbers, default=PROMPT_LENGTHS, help="prompt lengths of the sweep (32,64,128,256)")
    parser.add_argument("--sweep-pairs", type=int, default=16, help="pairs per step of the sweep by prompt length (16)")
    parser.add_argument("--out", type=Path, default=Path("compare-cpu"), help="output folder (compare-cpu)")
    return parser.parse_args()


def main():
    options, data = read_arguments(), shared_data()
    about = describe_machine(options)
    print(json.dumps(about))
    if about["load_at_start"] > 0.5:
        print(f"warning: load {about['load_at_start']:.1f}; results are meaningful only on an idle machine", file=sys.stderr)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        model = make_model(folder, data)
        found = (sweep if options.sweep else compare)(folder, model, data, options)
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / ("cpu-sweep.json" if options.sweep else "cpu.json")
    file.write_text(json.dumps(about | found, indent=1) + "\n")
    print(f"written: {file}")


if __name__ == "__main__":
    main()

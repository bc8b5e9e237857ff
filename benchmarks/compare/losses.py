"""Tests whether two versions of dpo learn the same: compares their losses with the spread of seeds, on real data.

`train` makes a model with random weights of Pythia-160M's shape (DIR: tokenizer.json of GPT-NeoX, and train and test files of hh), trains it
with SFT, and from that checkpoint with DPO in bfloat16: each version with each of three seeds, which decide the order of the data. Losses,
accuracies and margins of every update go to a JSON file.

`draw` prints a table from that file, with means over windows of updates: the loss of each version, how far apart the versions are with the
same seed, and how far apart the seeds are with the same version. It draws the same as SVG.

    python3 benchmarks/compare/losses.py train --before OLD/build/dpo --after build/dpo --data DIR --out losses.json
    python3 benchmarks/compare/losses.py draw losses.json [--figure docs/losses_of_versions.svg]
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path
from statistics import mean

ROOT = Path(__file__).resolve().parent.parent.parent
VERSIONS, SEEDS, WINDOW = ("before", "after"), (0, 1, 2), 25
METRICS = {"loss": "loss/train", "accuracy": "rewards_train/accuracies", "margin": "rewards_train/margins",
           "chosen": "logps_train/chosen", "grad_norm": "grad_norm"}


def make_model(program, data, config, folder):
    source = folder / "source"
    source.mkdir()
    shutil.copy(config, source / "config.json")
    shutil.copy(data / "tokenizer.json", source)
    (source / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|endoftext|>"}))
    subprocess.run([program, "init", source, folder / "model"], check=True, capture_output=True)
    return folder / "model"


def train(program, run, settings, model, *more):
    """Trains one run. Returns {metric: a value for each update}."""
    examples = settings.updates * settings.batch_size * 11 // 10  # the partial batch at the end of an epoch counts, but is dropped
    command = [program, "train", "model=blank_model", f"model.name_or_path={model}", "datasets=[hh]", f"dataset_paths.hh={settings.data}",
               f"exp_name={run.name}", f"local_run_dir={run}", f"batch_size={settings.batch_size}", "n_epochs=null",
               f"n_examples={examples}", "model.fsdp_policy_mp=bfloat16", "gradient_accumulation_steps=1", "eval_every=null",
               "warmup_steps=30", "minimum_log_interval_secs=0", *more]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}:\n{done.stderr[-3000:]}")
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if METRICS["loss"] in line][:settings.updates]
    assert len(lines) == settings.updates, f"{run.name}: {len(lines)} updates were logged, expected {settings.updates}"
    return {name: [line[key] for line in lines] for name, key in METRICS.items() if key in lines[0]}


def train_all(settings):
    programs = dict(zip(VERSIONS, (settings.before, settings.after)))
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(settings.at_once) as pool:
        folder = Path(scratch)
        model = make_model(settings.after, settings.data, settings.config, folder)
        sft = train(settings.after, folder / "sft", settings, model, "loss=sft", "optimizer=AdamW", f"lr={settings.sft_lr}")
        print(f"SFT: loss {sft['loss'][0]:.2f} -> {sft['loss'][-1]:.2f}", flush=True)

        def run(version, seed):
            metrics = train(programs[version], folder / f"{version}-{seed}", settings, folder / "sft" / "LATEST", "loss=dpo",
                            "loss.beta=0.1", "reference=live", "optimizer=RMSprop", f"lr={settings.lr}", f"seed={seed}", f"data_seed={seed}",
                            "debug=true")
            print(f"{version}, seed {seed}: loss {metrics['loss'][0]:.4f} -> {metrics['loss'][-1]:.4f}", flush=True)
            return {"version": version, "seed": seed, **metrics}

        runs = list(pool.map(lambda job: run(*job), [(version, seed) for seed in SEEDS for version in VERSIONS]))
    shape = json.loads(settings.config.read_text())
    settings.out.write_text(json.dumps({"shape": shape, "batch_size": settings.batch_size, "sft_lr": settings.sft_lr, "lr": settings.lr,
                                        "sft": sft, "runs": runs}))


def by_version(report, metric):
    """Returns {version: [values of each seed]}."""
    return {version: [run[metric] for run in report["runs"] if run["version"] == version] for version in VERSIONS}


def windows(values, step):
    """Returns means over WINDOW updates, beginning at every `step`th update."""
    size = min(WINDOW, len(values))
    return [mean(values[i:i + size]) for i in range(0, len(values) - size + 1, step)]


def apart(values):
    """Returns, for each window, the mean and the largest difference of the versions with the same seed, and the range
    of the seeds with the same version."""
    before, after = ([list(window) for window in zip(*values[version])] for version in VERSIONS)
    for of_before, of_after in zip(before, after, strict=True):
        differences = [abs(a - b) for a, b in zip(of_after, of_before, strict=True)]
        yield mean(differences), max(differences), mean([max(of_before) - min(of_before), max(of_after) - min(of_after)])


def table(report):
    columns = {metric: {v: [windows(x, WINDOW) for x in seeds] for v, seeds in by_version(report, metric).items()}
               for metric in ("loss", "accuracy", "margin")}
    lines = ["| updates | loss before | after | same seed: mean difference | largest | range of the seeds | accuracy before | after "
             "| margin before | after |", "|---" * 10 + "|"]
    for i, (difference, largest, spread) in enumerate(apart(columns["loss"])):
        of = lambda metric, version: mean(seed[i] for seed in columns[metric][version])
        cells = [f"{of(metric, version):.{digits}f}" for metric, digits in (("loss", 4), ("accuracy", 3), ("margin", 3)) for version in VERSIONS]
        lines.append(f"| {i * WINDOW + 1} to {(i + 1) * WINDOW} | " +
                     " | ".join([*cells[:2], f"{difference:.5f}", f"{largest:.5f}", f"{spread:.5f}", *cells[2:]]) + " |")
    return "\n".join(lines)


def first_update(report):
    """Compares log-probabilities of the first batch, before any training: they show that both versions saw the same
    examples."""
    before, after = ([seed[0] for seed in by_version(report, "chosen")[version]] for version in VERSIONS)
    seeds = ", ".join(f"{b:.3f} and {a:.3f}" for b, a in zip(before, after, strict=True))
    return f"log-probability of the chosen responses of the first batch, before and after, by seed: {seeds}"


WIDTH, LEFT, RIGHT, HEIGHT = 760, 70, 30, 230
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328; }
  .title { font-size: 15px; font-weight: 600; }
  .card { fill: #ffffff; stroke: #d1d9e0; }
  .grid { stroke: #d1d9e0; }
  path { fill: none; stroke-width: 1.8; }
  .before { stroke-dasharray: 5 4; }
  .seed0, .spread { stroke: #0b6e4f; }
  .seed1 { stroke: #b23a48; }
  .seed2 { stroke: #b26a00; }
  .difference { stroke: #b23a48; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .card { fill: #0d1117; stroke: #3d444d; }
    .grid { stroke: #3d444d; }
    .seed0, .spread { stroke: #3fb68b; }
    .seed1, .difference { stroke: #f0808c; }
    .seed2 { stroke: #f1b24a; }
  }
"""


def panel(title, lines, top, updates):
    """Draws `lines`: (name or nothing, class, values). A value is the mean of WINDOW updates, drawn at the last of
    them."""
    most = max(max(values) for _, _, values in lines)
    x_at = lambda i: LEFT + (WIDTH - LEFT - RIGHT) * (updates - len(lines[0][2]) + 1 + i) / updates
    y_at = lambda value: top + HEIGHT - (HEIGHT - 50) * value / most
    out = [f'<text class="title" x="20" y="{top + 16}">{escape(title)}</text>']
    for tick in (0, most / 2, most):
        out.append(f'<path class="grid" d="M{LEFT} {y_at(tick):.1f}H{WIDTH - RIGHT}"/>'
                   f'<text x="{LEFT - 8}" y="{y_at(tick) + 4:.1f}" text-anchor="end">{tick:.3g}</text>')
    for name, kind, values in lines:
        path = "L".join(f"{x_at(i):.1f} {y_at(value):.1f}" for i, value in enumerate(values))
        out.append(f'<path class="{kind}" d="M{path}"/>')
    names = [(name, kind) for name, kind, _ in lines if name]
    for i, (name, kind) in enumerate(names):
        x = LEFT + 205 * i
        out.append(f'<path class="{kind}" d="M{x} {top + 33}h26"/><text x="{x + 33}" y="{top + 37}">{escape(name)}</text>')
    return out


def figure(report):
    losses = {version: [windows(x, 1) for x in seeds] for version, seeds in by_version(report, "loss").items()}
    updates = len(report["runs"][0]["loss"])
    curves = [(version if seed == 0 else None, f"{version} seed{seed}", losses[version][seed])
              for version in VERSIONS for seed in SEEDS]
    differences, _, spreads = zip(*apart(losses))
    gaps = [("the versions, same seed", "difference", differences), ("the seeds, same version", "spread", spreads)]
    height = 2 * HEIGHT + 110
    body = panel(f"DPO loss, mean of {WINDOW} updates; a colour is a seed", curves, 18, updates)
    body += panel(f"How far apart: losses, means of {WINDOW} updates", gaps, HEIGHT + 58, updates)
    body += [f'<text x="{WIDTH - RIGHT}" y="{height - 12}" text-anchor="end">{updates} updates of {report["batch_size"]} pairs</text>']
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
                      f"<style>{STYLE}</style>",
                      f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6"/>', *body, "</svg>"]) + "\n"


def draw(settings):
    report = json.loads(settings.losses.read_text())
    print(f"{table(report)}\n\n{first_update(report)}")
    if settings.figure:
        settings.figure.write_text(figure(report))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    training = commands.add_parser("train")
    training.set_defaults(run=train_all)
    for name in ("before", "after", "data", "out"):
        training.add_argument(f"--{name}", type=lambda text: Path(text).resolve(), required=True)
    training.add_argument("--config", type=Path, default=ROOT / "configs" / "architecture" / "EleutherAI--pythia-160m.json")
    training.add_argument("--updates", type=int, default=300)
    training.add_argument("--batch-size", type=int, default=64)
    training.add_argument("--sft-lr", type=float, default=5e-4)
    training.add_argument("--lr", type=float, default=5e-6)
    training.add_argument("--at-once", type=int, default=1, help="runs at the same time")
    drawing = commands.add_parser("draw")
    drawing.set_defaults(run=draw)
    drawing.add_argument("losses", type=Path)
    drawing.add_argument("--figure", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    settings = arguments()
    settings.run(settings)

"""Measures scoring and generating on the CPU, compared with transformers on the same weights.

Scoring: PAIRS preference pairs of HH, truncated to 512 tokens as in training (256 of them for the prompt). transformers
computes them like direct-preference-optimization: batches of 16 pairs, all chosen responses, then all rejected ones, padded
to the longest. Generating: TOKENS greedy tokens for each of 16 prompts of HH; transformers pads the prompts on the left.
The model has the shape of Pythia-70M with random weights; both sides compute in float32 and are timed without start-up,
loading and tokenizing, ROUNDS times, alternating. The median counts. The last column compares CPU time instead, which
depends less on what else the machine does.

Usage: ./run benchmark, or: DPO_PROGRAM=build/dpo .deps/venv/bin/python benchmarks/model_speed.py [ROUNDS [PAIRS [TOKENS]]]
"""

import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get("DPO_PROGRAM", str(ROOT / "build" / "dpo"))
ASSISTANT = "\n\nAssistant:"
MAX_LENGTH, MAX_PROMPT_LENGTH, PAIRS_AT_ONCE, PROMPTS = 512, 256, 16, 16
EOS = 0  # GPT-NeoX's end-of-text token


def shared_data():
    folder = Path(os.environ.get("DPO_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "tokenizers").is_dir():
        print(f"model_speed: skipped: no tokenizers in {folder}; set DPO_SHARED_DATA to the folder of real data")
        sys.exit(77)
    return folder


def read_pairs(folder, count):
    pairs = []
    with gzip.open(folder / "hh" / "train.jsonl.gz", "rt") as lines:
        for row in map(json.loads, lines):
            end = row["chosen"].rindex(ASSISTANT) + len(ASSISTANT)
            if row["rejected"][:end] == row["chosen"][:end]:
                pairs.append({"prompt": row["chosen"][:end], "chosen": row["chosen"][end:], "rejected": row["rejected"][end:]})
            if len(pairs) == count:
                break
    return pairs


def make_model(folder, data):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    shape = json.loads((ROOT / "configs" / "architecture" / "EleutherAI--pythia-70m.json").read_text())
    shape |= {"bos_token_id": EOS, "eos_token_id": EOS}
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**shape)).eval()
    model.save_pretrained(folder)
    for file in (data / "tokenizers" / "gpt-neox").iterdir():
        shutil.copy(file, folder)
    return model


def measured(work):
    start, cpu_start = time.perf_counter(), time.process_time()
    result = work()
    return result, {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu_start}


def dpo(*words):
    """Runs a command. Returns the JSON lines of its stdout, and the computing time that it reports."""
    done = subprocess.run([PROGRAM, *map(str, words), "--device", "cpu", "--time"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], json.loads(done.stderr.splitlines()[-1])


def truncated(prompt, chosen, rejected):
    longest = max(len(chosen), len(rejected))
    if len(prompt) + longest > MAX_LENGTH:
        prompt = prompt[-MAX_PROMPT_LENGTH:]
    if len(prompt) + longest > MAX_LENGTH:
        chosen, rejected = chosen[:MAX_LENGTH - MAX_PROMPT_LENGTH], rejected[:MAX_LENGTH - MAX_PROMPT_LENGTH]
    return prompt, chosen, rejected


def score_padded(model, pairs):
    """Returns log-probabilities of the chosen and the rejected response of each pair."""
    import torch

    results = []
    for begin in range(0, len(pairs), PAIRS_AT_ONCE):
        batch = pairs[begin:begin + PAIRS_AT_ONCE]
        rows = [(p, c) for p, c, _ in batch] + [(p, r) for p, _, r in batch]
        longest = max(len(prompt) + len(response) for prompt, response in rows)
        ids = torch.full((len(rows), longest), EOS)
        mask, labels = torch.zeros_like(ids), torch.full_like(ids, -100)
        for i, (prompt, response) in enumerate(rows):
            end = len(prompt) + len(response)
            ids[i, :end] = torch.tensor(prompt + response)
            mask[i, :end] = 1
            labels[i, len(prompt):end] = ids[i, len(prompt):end]
        with torch.no_grad():
            logits = model(ids, attention_mask=mask).logits[:, :-1].to(torch.float32)
            labels = labels[:, 1:].clone()
            counted = labels != -100
            labels[~counted] = 0
            logps = torch.gather(logits.log_softmax(-1), 2, labels.unsqueeze(2)).squeeze(2)
            sums = (logps * counted).sum(-1).tolist()
        results += zip(sums[:len(batch)], sums[len(batch):], strict=True)
    return results


def generate_padded(model, prompts, count):
    import torch

    longest = max(map(len, prompts))
    ids = torch.full((len(prompts), longest), EOS)
    mask = torch.zeros_like(ids)
    for i, prompt in enumerate(prompts):
        ids[i, longest - len(prompt):] = torch.tensor(prompt)
        mask[i, longest - len(prompt):] = 1
    made = model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=count, pad_token_id=EOS)
    return made[:, longest:].tolist()


def show(name, theirs, ours):
    slow, fast = (statistics.median(run["seconds"] for run in runs) for runs in (theirs, ours))
    cpu = statistics.median(run["cpu_seconds"] for run in theirs) / statistics.median(run["cpu_seconds"] for run in ours)
    print(f"{name:<28} {slow:>10.2f} s {fast:>8.2f} s {slow / fast:>6.2f}x {cpu:>11.2f}x", flush=True)


def bench_scoring(model, folder, tokenizer, pairs, rounds):
    file = folder / "pairs.jsonl"
    file.write_text("".join(json.dumps(pair) + "\n" for pair in pairs))

    def ids(text, end=()):
        return tokenizer.encode(text, add_special_tokens=False).ids + list(end)
    tokens = [truncated(ids(pair["prompt"]), ids(pair["chosen"], [EOS]), ids(pair["rejected"], [EOS])) for pair in pairs]
    theirs, ours, difference = [], [], 0.0
    for _ in range(rounds):
        expected, took = measured(lambda: score_padded(model, tokens))
        theirs.append(took)
        got, took = dpo("score", folder, file, "--max-length", MAX_LENGTH, "--max-prompt-length", MAX_PROMPT_LENGTH,
                        "--truncation", "keep_end")
        ours.append(took)
        difference = max(abs(a - b) for wanted, line in zip(expected, got, strict=True)
                         for a, b in zip(wanted, line["logps"], strict=True))
    assert difference < 1e-2, f"the log-probabilities differ by {difference}"
    show(f"scoring {len(pairs)} pairs", theirs, ours)
    print(f"  greatest difference of a summed log-probability: {difference:.1e}")


def bench_generating(model, folder, tokenizer, pairs, rounds, count):
    prompts = list(dict.fromkeys(pair["prompt"] for pair in pairs))[:PROMPTS]
    file = folder / "prompts.jsonl"
    file.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts))
    tokens = [tokenizer.encode(prompt, add_special_tokens=False).ids for prompt in prompts]
    theirs, ours, equal = [], [], 0
    for _ in range(rounds):
        expected, took = measured(lambda: generate_padded(model, tokens, count))
        theirs.append(took)
        got, took = dpo("sample", folder, "--prompts", file, "--greedy", "--json", "--max-new-tokens", count)
        assert all(len(line["tokens"]) == count for line in got), "a text ended early"
        ours.append(took)
        equal = sum(line["tokens"] == wanted for line, wanted in zip(got, expected, strict=True))
    show(f"generating {len(prompts)} x {count} tokens", theirs, ours)
    print(f"  equal to transformers, which computes these in a padded batch: {equal} of {len(prompts)} texts")


def main():
    rounds, pairs, count = (int(word) if word else default
                            for word, default in zip((sys.argv[1:] + [""] * 3)[:3], (5, 64, 64), strict=True))
    data = shared_data()
    import tokenizers
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    cores = len(os.sched_getaffinity(0))
    torch.set_num_threads(cores)
    print(f"transformers {transformers.__version__}, torch {torch.__version__}, {cores} cores, load {os.getloadavg()[0]:.1f}; "
          f"median of {rounds}")
    print(f"{'':<28} {'transformers':>12} {'dpo':>10} {'ratio':>7} {'by CPU time':>12}")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        model = make_model(folder, data)
        tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        texts = read_pairs(data, pairs)
        bench_scoring(model, folder, tokenizer, texts, rounds)
        bench_generating(model, folder, tokenizer, texts, rounds, count)


if __name__ == "__main__":
    main()

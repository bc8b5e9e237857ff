"""Compares `dpo tokenize` with a reference, text for text and id for id."""

import json
import os
import subprocess

PROGRAM = os.environ["DPO_PROGRAM"]


def lines_of(folder, inputs, *options):
    """Returns the output of dpo for these values, one JSON value per line in both directions."""
    text = "".join(json.dumps(value) + "\n" for value in inputs)
    done = subprocess.run([PROGRAM, "tokenize", str(folder), "--json", *options], input=text.encode(),
                          capture_output=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"dpo tokenize {folder}: {done.stderr.decode()}")
    return [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]


def first_difference(name, what, inputs, ours, theirs):
    assert len(ours) == len(theirs) == len(inputs), f"{name}: {len(ours)} answers to {len(inputs)} lines"
    bad = [i for i in range(len(inputs)) if ours[i] != theirs[i]]
    if bad:
        i = min(bad, key=lambda j: len(inputs[j]))
        raise SystemExit(f"{name}: {what} differs for {len(bad)} of {len(inputs)}; the shortest is {inputs[i]!r}\n"
                         f"  dpo:      {ours[i]!r}\n  expected: {theirs[i]!r}")


def compare(name, folder, reference, texts, round_trip=False, special=False):
    """Compares texts with `reference`, a tokenizers.Tokenizer. Returns the number of texts."""
    expected = [encoding.ids for encoding in reference.encode_batch(texts, add_special_tokens=special)]
    options = ["--special"] if special else []
    ours = lines_of(folder, texts, *options)
    first_difference(name, "encoding", texts, ours, expected)
    decoded = reference.decode_batch(expected, skip_special_tokens=special)
    first_difference(name, "decoding", expected, lines_of(folder, expected, "--decode", *options), decoded)
    if round_trip:
        first_difference(name, "decoded encoding", texts, decoded, texts)
    print(f"{name}: {len(texts)} texts and {sum(map(len, expected))} ids equal", flush=True)
    return len(texts)

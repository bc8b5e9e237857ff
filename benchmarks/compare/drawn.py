"""Draws the random batches of compare/gpu.py, with the lengths that 'dpo bench train' draws."""

import random
import re
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent.parent
PAIRS = 64  # pairs or sequences in a step
SEQUENCE = 1024  # tokens in a sequence, for SFT


def lengths():
    text = re.sub(r"#.*", "", (ROOT / "configs" / "lengths" / "hh.yaml").read_text())
    return {name: [float(x) for x in re.search(rf"^{name}: \[([^\]]*)\]", text, re.M)[1].split(",")]
            for name in ("prompt", "response")}


def pairs(vocabulary, seed):
    """Draws pairs of at most 512 tokens. A long prompt is cut to 256."""
    draw, means = random.Random(seed), lengths()
    tokens = lambda kind: [draw.randrange(vocabulary) for _ in range(round(draw.choice(means[kind])))]
    drawn = []
    for _ in range(PAIRS):
        prompt, responses = tokens("prompt"), (tokens("response"), tokens("response"))
        if len(prompt) + max(map(len, responses)) > 512:
            prompt = prompt[-256:]
        drawn.append((prompt, *(r[:512 - len(prompt)] for r in responses)))
    return drawn


def sequences(vocabulary, seed):
    return torch.randint(vocabulary, (PAIRS, SEQUENCE), generator=torch.Generator().manual_seed(seed))


def lengths_of_sequences(folder):
    """Writes a file for 'dpo bench train' whose loss counts all tokens but the first."""
    file = folder / "lengths.yaml"
    file.write_text("train: {prompts: 100000, pairs: 100000}\ntest: {prompts: 1000, pairs: 1000}\n"
                    f"prompt: [1]\nresponse: [{SEQUENCE - 1}]\nlongest: {{prompt: 1, response: {SEQUENCE - 1}}}\n")
    return file

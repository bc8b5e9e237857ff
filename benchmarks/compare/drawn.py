"""The random batches of compare/gpu.py, with the lengths that 'dpo bench train' draws."""

import random
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAIRS = 64  # of a step


def lengths():
    text = re.sub(r"#.*", "", (ROOT / "configs" / "lengths" / "hh.yaml").read_text())
    return {name: [float(x) for x in re.search(rf"^{name}: \[([^\]]*)\]", text, re.M)[1].split(",")]
            for name in ("prompt", "response")}


def pairs(vocabulary, seed):
    """At most 512 tokens, 256 of them for a long prompt."""
    draw, means = random.Random(seed), lengths()
    tokens = lambda kind: [draw.randrange(vocabulary) for _ in range(round(draw.choice(means[kind])))]
    drawn = []
    for _ in range(PAIRS):
        prompt, responses = tokens("prompt"), (tokens("response"), tokens("response"))
        if len(prompt) + max(map(len, responses)) > 512:
            prompt = prompt[-256:]
        drawn.append((prompt, *(r[:512 - len(prompt)] for r in responses)))
    return drawn

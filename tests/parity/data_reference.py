"""Reimplements the data pipeline of direct-preference-optimization from its description, to compare ours with it.

A data set is a dict from prompt to Entry, in order of first appearance.
"""

import gzip
import json
import random
from dataclasses import dataclass, field
from pathlib import Path

import numpy
from bs4 import BeautifulSoup, NavigableString

ASSISTANT = "\n\nAssistant:"


@dataclass
class Entry:
    responses: list[str] = field(default_factory=list)
    pairs: list[tuple[int, int]] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    target: str = ""


def read_lines(path: Path) -> list[dict]:
    opened = gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else open(path, encoding="utf-8")
    with opened as file:
        return [json.loads(line) for line in file]


def hh(rows: list[dict]) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    for row in rows:
        end = row["chosen"].rindex(ASSISTANT) + len(ASSISTANT)
        entry = entries.setdefault(row["chosen"][:end], Entry())
        first = len(entry.responses)
        entry.responses += [row["chosen"][end:], row["rejected"][end:]]
        entry.pairs.append((first, first + 1))
        entry.target = row["chosen"][end:]
    return entries


def best(entry: Entry) -> str:
    return max(entry.responses, key=lambda text: entry.scores[entry.responses.index(text)])


def shp(rows: list[dict]) -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    for row in rows:
        a, b = row["score_A"], row["score_B"]
        if max(a / b, b / a) < 2:
            continue
        entry = entries.setdefault(f"\n\nHuman: {row['history']}{ASSISTANT}", Entry())
        first = len(entry.responses)
        entry.responses += [" " + row["human_ref_A"], " " + row["human_ref_B"]]
        entry.scores += [a, b]
        entry.pairs.append((first, first + 1) if row["labels"] == 1 else (first + 1, first))
    for entry in entries.values():
        entry.target = best(entry)
    return entries


def strip_html(html: str) -> str:
    kept = []
    for element in BeautifulSoup(html, "html.parser").children:
        if isinstance(element, NavigableString):
            continue
        if element.name == "p":
            kept.append("".join(c for c in element.children if isinstance(c, NavigableString)))
        codes = element.find_all("code") if element.name == "pre" else [element] if element.name == "code" else []
        kept += [f"<code>{code.get_text()}</code>" for code in codes]
    return "\n\n".join(kept)


def se(rows: list[dict], split: str) -> dict[str, Entry]:
    shuffled = [rows[i] for i in numpy.random.default_rng(42).permutation(len(rows))]
    tests = int(len(rows) * 0.01)
    entries: dict[str, Entry] = {}
    for row in shuffled[:tests] if split == "test" else shuffled[tests:]:
        entry = entries.setdefault(f"\n\nHuman: {strip_html(row['question'])}{ASSISTANT}", Entry())
        entry.responses = [" " + strip_html(answer["text"]) for answer in row["answers"]]
        entry.scores = [answer["pm_score"] for answer in row["answers"]]
        n = len(entry.responses)
        entry.pairs = [(i, j) if entry.scores[i] > entry.scores[j] else (j, i) for i in range(n) for j in range(i + 1, n)]
        entry.target = best(entry)
    return entries


@dataclass
class Example:
    prompt: str
    chosen: str
    rejected: str | None
    mode: str


def examples_of(prompt: str, entry: Entry, mode: str, sft: bool) -> list[Example]:
    if sft:
        return [Example(prompt, entry.target, None, mode)]
    return [Example(prompt, entry.responses[i], entry.responses[j], mode) for i, j in entry.pairs]


def batches(data_sets, sft=False, batch_size=4, n_epochs=None, n_examples=None, seed=0):
    """Yields batches of examples. `data_sets`: list of (dict of entries, truncation mode)."""
    prompts = [(prompt, entry, mode) for entries, mode in data_sets for prompt, entry in entries.items()]
    numpy.random.seed(seed)
    epoch_seeds = iter(numpy.random.randint(0, 2**32, size=1_000_000))
    given = epoch = 0
    while n_epochs is None or epoch < n_epochs:
        random.seed(int(next(epoch_seeds)))
        random.shuffle(prompts)
        batch = []
        for example in (e for prompt, entry, mode in prompts for e in examples_of(prompt, entry, mode, sft)):
            batch.append(example)
            given += 1
            if len(batch) == batch_size:
                yield batch
                batch = []
                if n_examples is not None and given >= n_examples:
                    return
        epoch += 1


def truncated_ids(example: Example, encode, eos: int, max_length: int, max_prompt_length: int):
    """Returns the ids of the prompt and of each response, as the model gets them."""
    prompt = encode(example.prompt)
    texts = [example.chosen] + ([] if example.rejected is None else [example.rejected])
    responses = [encode(text) + [eos] for text in texts]
    longest = max(len(response) for response in responses)
    if len(prompt) + longest > max_length:
        prompt = prompt[:max_prompt_length] if example.mode == "keep_start" else prompt[-max_prompt_length:]
    if len(prompt) + longest > max_length:
        responses = [response[: max_length - max_prompt_length] for response in responses]
    return prompt, responses

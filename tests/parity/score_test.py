"""Compares `dpo score` with the padded computation of transformers: log-softmax, summed over the responses' tokens."""

import gzip
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import tiny_models
import tiny_tokenizer
import torch

PROGRAM = os.environ["DPO_PROGRAM"]
DEVICE = sys.argv.pop(1) if len(sys.argv) > 1 else "cpu"
EOS = 2

LINES = [
    {"prompt": [5, 17, 3], "responses": [[8, 9, 10], [40], [8, 9, 10], []]},
    {"prompt": [5, 17, 3], "chosen": [8, 9], "rejected": list(range(50, 80))},
    {"prompt": [], "chosen": [30, 31, 32], "rejected": [33]},
    {"prompt": list(range(20, 75)), "responses": [[100, 101]], "more": 1},
    {"prompt": [9], "chosen": [9], "rejected": [9]},
]


def responses_of(line: dict) -> list[list[int]]:
    return line["responses"] if "responses" in line else [line["chosen"], line["rejected"]]


def as_texts(line: dict) -> dict:
    def text(value):
        if isinstance(value, list) and value and isinstance(value[0], list):
            return [tiny_tokenizer.text(ids) for ids in value]
        return tiny_tokenizer.text(value) if isinstance(value, list) else value
    return {key: text(value) for key, value in line.items()}


@torch.no_grad()
def padded_scores(model, pairs: list[tuple[list[int], list[int]]]) -> list[tuple[float, int]]:
    """Scores all sequences in one batch, padded at their ends."""
    longest = max(len(prompt) + len(response) for prompt, response in pairs)
    ids = torch.zeros(len(pairs), longest, dtype=torch.long)
    mask, counted = torch.zeros_like(ids), torch.zeros_like(ids, dtype=torch.bool)
    for i, (prompt, response) in enumerate(pairs):
        ids[i, :len(prompt) + len(response)] = torch.tensor(prompt + response)
        mask[i, :len(prompt) + len(response)] = 1
        counted[i, len(prompt):len(prompt) + len(response)] = True
    logps = model(ids, attention_mask=mask).logits[:, :-1].double().log_softmax(-1)
    picked = logps.gather(2, ids[:, 1:, None])[:, :, 0] * counted[:, 1:]
    return list(zip(picked.sum(1).tolist(), counted[:, 1:].sum(1).tolist(), strict=True))


class Score(unittest.TestCase):
    def setUp(self) -> None:
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = Path(made.name)

    def model(self, name: str, family: str, seed: int):
        folder = self.folder / name
        model = tiny_models.model(family, seed)
        model.save_pretrained(folder)
        return model, tiny_tokenizer.make(folder)

    def run_program(self, folder: Path, *words: str, text: str | None = None) -> subprocess.CompletedProcess:
        return subprocess.run([PROGRAM, "score", str(folder), *words, "--device", DEVICE, "--dtype", "float32"], input=text,
                              capture_output=True, text=True, check=False)

    def scores(self, folder: Path, lines: list[dict], *words: str) -> list[dict]:
        text = "".join(json.dumps(as_texts(line)) + "\n" for line in lines)
        done = self.run_program(folder, "-", *words, text=text)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def expected(self, model, lines: list[dict]) -> list[list[tuple[float, int]]]:
        pairs = [(line["prompt"], response + [EOS]) for line in lines for response in responses_of(line)]
        flat = iter(padded_scores(model, pairs))
        return [[next(flat) for _ in responses_of(line)] for line in lines]

    def compare(self, got: list[dict], expected: list[list[tuple[float, int]]]) -> None:
        self.assertEqual(len(got), len(expected))
        for ours, theirs in zip(got, expected, strict=True):
            self.assertEqual(ours["tokens"], [count for _, count in theirs])
            for logp, (wanted, _) in zip(ours["logps"], theirs, strict=True):
                self.assertAlmostEqual(logp, wanted, delta=1e-4)

    def test_every_family(self) -> None:
        for family in tiny_models.FAMILIES:
            with self.subTest(family):
                model, folder = self.model(family, family, 1)
                got = self.scores(folder, LINES)
                self.compare(got, self.expected(model, LINES))
                self.assertTrue(all(set(line) == {"logps", "tokens"} for line in got))
                self.assertEqual(len({round(logp, 3) for line in got for logp in line["logps"]}), 9)

    def test_batches_change_nothing(self) -> None:
        model, folder = self.model("llama", "llama", 2)
        for tokens in ("1", "60", "100000"):
            self.compare(self.scores(folder, LINES * 3, "--batch-tokens", tokens), self.expected(model, LINES * 3))

    def test_rewards(self) -> None:
        policy, folder = self.model("policy", "gpt_neox", 3)
        reference, other = self.model("reference", "gpt_neox", 4)
        before, after = self.expected(reference, LINES), self.expected(policy, LINES)
        for beta, words in ((0.1, []), (0.5, ["--beta", "0.5"])):
            got = self.scores(folder, LINES, "--reference", str(other), *words)
            self.compare(got, after)
            for ours, old, new in zip(got, before, after, strict=True):
                for reward, (a, _), (b, _) in zip(ours["rewards"], old, new, strict=True):
                    self.assertAlmostEqual(reward, beta * (b - a), delta=1e-4)
        same = self.scores(folder, LINES, "--reference", str(folder))
        self.assertTrue(all(reward == 0 for line in same for reward in line["rewards"]))

    def test_truncation(self) -> None:
        model, folder = self.model("gpt2", "gpt2", 5)
        line = {"prompt": list(range(20, 60)), "chosen": list(range(60, 90)), "rejected": [3, 4]}
        for keep, prompt in (("keep_start", line["prompt"][:10]), ("keep_end", line["prompt"][-10:])):
            got = self.scores(folder, [line], "--max-length", "30", "--max-prompt-length", "10", "--truncation", keep)
            pairs = [(prompt, (line["chosen"] + [EOS])[:20]), (prompt, [3, 4, EOS])]
            self.compare(got, [padded_scores(model, pairs)])

    def test_files_and_their_mistakes(self) -> None:
        model, folder = self.model("gpt2", "gpt2", 6)
        good = json.dumps(as_texts(LINES[0]))
        packed = self.folder / "lines.jsonl.gz"
        packed.write_bytes(gzip.compress((good + "\n\n" + good).encode()))
        done = self.run_program(folder, str(packed))
        self.assertEqual(done.stdout.count("logps"), 2, done.stderr)
        file = self.folder / "lines.jsonl"
        for bad, part in (("{", "not valid JSON"), ("[]", "got a list, expected an object"),
                          ('{"prompt": "x"}', "expected the columns 'prompt, chosen, rejected'"),
                          ('{"prompt": 3, "responses": ["a"]}', "'prompt' is a number"),
                          ('{"prompt": "x", "responses": []}', "0 responses"),
                          ('{"prompt": "x", "chosen": "a"}', "got: prompt, chosen"),
                          (json.dumps({"prompt": "Ā" * 90, "responses": ["Ā", "Ā" * 7]}), "98 tokens")):
            file.write_text(good + "\n\n" + bad + "\n")
            done = self.run_program(folder, str(file))
            self.assertEqual((done.returncode, done.stdout), (1, ""), bad)
            self.assertIn(f"{file}:3: ", done.stderr)
            self.assertIn(part, done.stderr)


if __name__ == "__main__":
    if DEVICE == "cuda" and not torch.cuda.is_available():
        print("not run: there is no GPU")
        sys.exit(77)
    unittest.main()

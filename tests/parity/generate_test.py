"""Compares generation with transformers: greedy tokens of every family, and the tokens that sampling options keep."""

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
from transformers import (LogitsProcessorList, MinPLogitsWarper, RepetitionPenaltyLogitsProcessor,
                          TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper)

PROGRAM = os.environ["DPO_PROGRAM"]
PROBE = os.environ["DPO_SAMPLING_PROBE"]
DEVICE = sys.argv.pop(1) if len(sys.argv) > 1 else "cpu"
PROMPTS = [[5, 17, 3], [8], list(range(20, 50)), [100, 1, 100, 1, 7], [130, 129, 128, 127, 126, 125, 124, 123]]
TOKENS = 40


class NotClear(Exception):
    """Raised if the two most likely tokens are so close that rounding may decide between them."""


def wide_model(family: str, seed: int):
    """Returns a tiny model whose most likely token usually leads by far."""
    model = tiny_models.model(family, seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(3)
    return model


def sample(folder: Path, prompts: list[list[int]], *options: str) -> list[dict]:
    """Returns the lines of `dpo sample --json`."""
    file = folder / "prompts.jsonl"
    file.write_text("".join(json.dumps({"prompt": tiny_tokenizer.text(ids)}) + "\n" for ids in prompts))
    done = subprocess.run([PROGRAM, "sample", str(folder), "--prompts", str(file), "--json", "--device", DEVICE, "--dtype",
                           "float32", *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def greedy(model, prompt: list[int], **options) -> list[int]:
    """Returns the tokens that transformers generates for one prompt."""
    made = model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                          do_sample=False, max_new_tokens=TOKENS, pad_token_id=0, return_dict_in_generate=True,
                          output_scores=True, **options)
    for scores in made.scores:
        first, second = scores[0].topk(2).values
        if first - second < 1e-3:
            raise NotClear
    return made.sequences[0, len(prompt):].tolist()


def clear_model(family: str, eos: int | list[int] = 2, **options):
    """Returns the first model with only clear tokens, and its tokens."""
    for seed in range(4, 30):
        model = wide_model(family, seed)
        model.generation_config.eos_token_id = eos
        try:
            return model, [greedy(model, prompt, **options) for prompt in PROMPTS]
        except NotClear:
            continue
    raise AssertionError("no seed gives a clear model")


class Greedy(unittest.TestCase):
    def check(self, family: str, words: list[str], eos: int | list[int] = 2, **options) -> list[str]:
        """Compares the tokens of a family. Returns how the texts ended."""
        with tempfile.TemporaryDirectory() as made:
            folder = tiny_tokenizer.make(Path(made))
            model, expected = clear_model(family, eos, **options)
            model.save_pretrained(folder)
            got = sample(folder, PROMPTS, "--max-new-tokens", str(TOKENS), "--greedy", *words)
            for prompt, result, tokens in zip(PROMPTS, got, expected, strict=True):
                self.assertEqual(result["tokens"], tokens, f"{family}, prompt {prompt}")
                ended = tokens[-1] in (eos if isinstance(eos, list) else [eos])
                self.assertEqual(result["finish"], "eos" if ended else "length")
                self.assertEqual(result["text"], tiny_tokenizer.text(tokens[:-1] if ended else tokens))
            return [result["finish"] for result in got]

    def test_every_family(self) -> None:
        for family in tiny_models.FAMILIES:
            with self.subTest(family):
                self.check(family, [])

    def test_repetition_penalty(self) -> None:
        for family in tiny_models.FAMILIES:
            with self.subTest(family):
                self.check(family, ["--repetition-penalty", "1.7"], repetition_penalty=1.7)

    def test_several_ends_of_text(self) -> None:
        ends = self.check("llama", ["--repetition-penalty", "1.7"], [2, 60, 61, 62, 63], repetition_penalty=1.7)
        self.assertIn("eos", ends)


class Controls(unittest.TestCase):
    """Compares the logits that sampling options keep, number by number."""

    def check(self, **options) -> None:
        torch.manual_seed(3)
        vocabulary, seen = 400, torch.randint(400, (6, 30))
        logits = 3 * torch.randn(6, vocabulary)
        logits[:, 7] = logits[:, 8]  # a tie
        processors = LogitsProcessorList()
        if "repetition_penalty" in options:
            processors.append(RepetitionPenaltyLogitsProcessor(options["repetition_penalty"]))
        if "temperature" in options:
            processors.append(TemperatureLogitsWarper(options["temperature"]))
        if "top_k" in options:
            processors.append(TopKLogitsWarper(options["top_k"]))
        if "top_p" in options:
            processors.append(TopPLogitsWarper(options["top_p"]))
        if "min_p" in options:
            processors.append(MinPLogitsWarper(options["min_p"]))
        expected = processors(seen, logits.clone())
        request = {"logits": logits.tolist(), "seen": seen.tolist(), "options": options}
        done = subprocess.run([PROBE], input=json.dumps(request), capture_output=True, text=True, check=True)
        got = torch.tensor([[float("-inf") if x is None else x for x in row] for row in json.loads(done.stdout)])
        self.assertTrue(torch.equal(got.isinf(), expected.isinf()), options)
        torch.testing.assert_close(got, expected, rtol=1e-6, atol=0)

    def test_each_alone(self) -> None:
        for options in ({"repetition_penalty": 1.3}, {"repetition_penalty": 0.7}, {"temperature": 0.4}, {"top_k": 5},
                        {"top_k": 10000}, {"top_p": 0.1}, {"top_p": 0.95}, {"min_p": 0.02}, {"min_p": 0.9}):
            with self.subTest(options):
                self.check(**options)

    def test_all_together(self) -> None:
        self.check(repetition_penalty=1.2, temperature=1.6, top_k=50, top_p=0.9, min_p=0.05)
        self.check(temperature=0.3, top_k=300, top_p=0.999, min_p=0.001)


class Program(unittest.TestCase):
    """Tests the parts of `dpo sample` around the generation."""

    def setUp(self) -> None:
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.folder = tiny_tokenizer.make(Path(made.name))
        wide_model("gpt_neox", 4).save_pretrained(self.folder)

    def run_program(self, *words: str, text: str = "") -> subprocess.CompletedProcess:
        return subprocess.run([PROGRAM, "sample", str(self.folder), *words], input=text, capture_output=True, text=True,
                              check=False)

    def test_stop_strings_end_the_text_before_them(self) -> None:
        whole = sample(self.folder, PROMPTS[:1], "--greedy", "--max-new-tokens", "20")[0]
        stop = tiny_tokenizer.text(whole["tokens"][5:8])
        end = whole["text"].index(stop)
        result = sample(self.folder, PROMPTS[:1], "--greedy", "--max-new-tokens", "20", "--stop", "zzz", "--stop", stop)[0]
        self.assertEqual((result["text"], result["finish"]), (whole["text"][:end], "stop"))
        self.assertEqual(result["tokens"], whole["tokens"][:end + 3])

    def test_samples_of_one_seed(self) -> None:
        def tokens(prompts, *options):
            return [r["tokens"] for r in sample(self.folder, prompts, "--max-new-tokens", "12", *options)]
        several = tokens(PROMPTS, "--samples", "3", "--seed", "5")
        self.assertEqual(len(several), 3 * len(PROMPTS))
        self.assertEqual(several, tokens(PROMPTS, "--samples", "3", "--seed", "5", "--batch", "4"))
        self.assertEqual(several[:3], tokens(PROMPTS[:1], "--samples", "3", "--seed", "5"))
        self.assertNotEqual(several, tokens(PROMPTS, "--samples", "3", "--seed", "6"))

    def test_plain_text_streams_to_stdout_alone(self) -> None:
        expected = sample(self.folder, PROMPTS[:1], "--greedy", "--max-new-tokens", "9")[0]["text"]
        prompt = tiny_tokenizer.text(PROMPTS[0])
        for done in (self.run_program("--prompt", prompt, "--temperature", "0", "--max-new-tokens", "9", "--device", "cpu"),
                     self.run_program("--greedy", "--max-new-tokens", "9", "--device", "cpu", text=prompt + "\n")):
            self.assertEqual((done.returncode, done.stdout), (0, expected + "\n"), done.stderr)

    def test_refusals(self) -> None:
        for words, part in ((["--prompt", "Ā", "--device", "tpu"], "--device tpu: expected auto, cpu, cuda or cuda:N"),
                            (["--prompt", "Ā", "--device", "cuda:99"], "--device cuda:99: "),
                            (["--prompt", "Ā", "--top-p", "2"], "top_p is 2, expected"),
                            (["--prompt", "Ā", "--stop", ""], "--stop"),
                            (["--prompt", "Ā" * 96], "a prompt of 96 tokens leaves no room in the model's context of 96"),
                            (["--prompts", str(self.folder / "none")], "none")):
            done = self.run_program(*words)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(part, done.stderr)
            self.assertNotIn("bug", done.stderr)


if __name__ == "__main__":
    if DEVICE == "cuda" and not torch.cuda.is_available():
        print("not run: there is no GPU")
        sys.exit(77)
    unittest.main()

"""Compares tokenized conversations with transformers and TRL's own functions, for every template and form of rows."""

import json
import os
import random
import tempfile
from pathlib import Path

import data_program
from transformers import PreTrainedTokenizerFast
from trl.data_utils import common_prefix_length, extract_prompt

TEMPLATES = ["Qwen-Qwen2.5-7B-Instruct", "Qwen-Qwen3-0.6B", "meta-llama-Llama-3.1-8B-Instruct", "google-gemma-2-2b-it",
             "mistralai-Mistral-Nemo-Instruct-2407", "microsoft-Phi-3.5-mini-instruct", "HuggingFaceTB-SmolLM3-3B",
             "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B"]
SPECIAL = ["<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
           "<start_of_turn>", "<end_of_turn>", "[INST]", "[/INST]", "<|user|>", "<|assistant|>", "<|system|>", "<|end|>",
           "<｜User｜>", "<｜Assistant｜>", "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"]
KWARGS = {"date_string": "26 Jul 2024"}  # templates that print the date must not depend on the day of the test
WORDS = ["sun", " moon", "\n", "\n\n", "  ", "é", "日本", "🙂", "<b>", "\"quoted\"", "1.5", " the", "!", "\t", "<think>", "</think>"]


def make_tokenizer(folder: Path, shared: Path, name: str, template: str) -> PreTrainedTokenizerFast:
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(shared / "tokenizers" / name / "tokenizer.json"),
                                        bos_token="<|begin_of_text|>", eos_token="<|im_end|>")
    tokenizer.add_special_tokens({"additional_special_tokens": SPECIAL})
    tokenizer.chat_template = (shared / "chat_templates" / f"{template}.jinja").read_text(encoding="utf-8")
    tokenizer.save_pretrained(folder)
    return tokenizer


class Rows:
    """Makes random rows. Each has a number that identifies it."""

    def __init__(self, seed: int) -> None:
        self.random, self.count = random.Random(seed), 0

    def text(self) -> str:
        self.count += 1
        return f"{self.count} " + "".join(self.random.choices(WORDS, k=self.random.randrange(8))) + f" end{self.count}"

    def turn(self, role: str) -> dict:
        return {"role": role, "content": self.text()}

    def prompt(self, system: bool) -> list[dict]:
        messages = [self.turn("system")] if system and self.random.random() < 0.5 else []
        for _ in range(self.random.randrange(3)):
            messages += [self.turn("user"), self.turn("assistant")]
        return [*messages, self.turn("user")]

    def answer(self) -> list[dict]:
        messages = [self.turn("assistant")]
        while self.random.random() < 0.2:
            messages += [self.turn("user"), self.turn("assistant")]
        return messages

    def row(self, system: bool) -> dict:
        prompt, chosen, rejected = self.prompt(system), self.answer(), self.answer()
        form = self.random.randrange(4)
        if form == 0:  # whole conversations
            row = {"chosen": prompt + chosen, "rejected": prompt + rejected}
        elif form == 1:  # as form 0 but with the prompt as text, like UltraFeedback
            row = {"prompt": prompt[-1]["content"], "chosen": prompt + chosen, "rejected": prompt + rejected,
                   "score_chosen": 9.0, "score_rejected": 1.0}
        elif form == 2 and len(chosen) == len(rejected) == 1:  # answers as text
            row = {"prompt": prompt, "chosen": chosen[0]["content"], "rejected": rejected[0]["content"]}
        else:
            row = {"prompt": prompt, "chosen": chosen, "rejected": rejected}
        return row


def as_messages(row: dict) -> dict:
    """Returns the row in the form that TRL takes."""
    row = {name: row[name] for name in ("prompt", "chosen", "rejected") if name in row}
    for name in ("chosen", "rejected"):
        if isinstance(row[name], str):
            row[name] = [{"role": "assistant", "content": row[name]}]
    if isinstance(row.get("prompt"), str) or "prompt" not in row:
        row.pop("prompt", None)
        row = extract_prompt(row)
    return row


def expected(row: dict, tokenizer: PreTrainedTokenizerFast) -> dict:
    def ids(messages: list[dict], **more: bool) -> list[int]:
        return tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True, **KWARGS, **more)["input_ids"]

    row = as_messages(row)
    prompt = ids(row["prompt"], add_generation_prompt=True)
    wholes = [ids(row["prompt"] + row[name]) for name in ("chosen", "rejected")]
    length = min(common_prefix_length(prompt, whole) for whole in wholes)
    answers = []
    for whole in wholes:
        answer = whole[length:]
        last = next((i for i in reversed(answer) if tokenizer.decode([i]).strip()), None)
        answers.append(answer if last in tokenizer.all_special_ids else [*answer, tokenizer.eos_token_id])
    return {"prompt": row["prompt"], "chosen": row["chosen"], "prompt_ids": prompt[:length], "chosen_ids": answers[0],
            "rejected_ids": answers[1]}


def scored_text(line: dict, name: str, index: int, tokenizer: PreTrainedTokenizerFast) -> str:
    ids = line[f"{name}_ids"]
    unscored = line.get("unscored", [[], []])[index]
    return tokenizer.decode([t for i, t in enumerate(ids) if not any(b <= i < e for b, e in unscored)])


def check(template: str, kind: str, shared: Path, folder: Path, rows: int) -> int:
    tokenizer = make_tokenizer(folder / "tokenizer", shared, kind, template)
    system = template not in ("google-gemma-2-2b-it",)
    made = Rows(len(template))
    wanted, written = {}, []
    while len(written) < rows:
        row = made.row(system)
        want = expected(row, tokenizer)
        written.append(row)
        wanted[json.dumps([want["prompt"], want["chosen"]], sort_keys=True)] = want
    file = data_program.write_lines(folder / "rows.jsonl", written)
    lines = data_program.order(rows, f"datasets=[{file}]", f"model.tokenizer_name_or_path={folder / 'tokenizer'}", "--tokens",
                               "loss=dpo", "loss.beta=0.1", "data.test_share=0", "eval_every=null", "max_length=100000",
                               "max_prompt_length=50000", "batch_size=1", "data.eos_in_text=keep",
                               f"local_dirs=[{folder / 'cache'}]",
                               "chat_template_kwargs={date_string: 26 Jul 2024}")
    assert len(lines) == rows, (template, kind, len(lines))
    for line in lines:
        want = wanted[json.dumps([line["prompt"], line["chosen"]], sort_keys=True)]
        for name in ("prompt_ids", "chosen_ids", "rejected_ids"):
            assert line[name] == want[name], (template, kind, name, line, tokenizer.decode(line[name]),
                                              tokenizer.decode(want[name]))
        for index, name in enumerate(("chosen", "rejected")):
            text = scored_text(line, name, index, tokenizer)
            for message in line[name]:
                # Templates may strip an answer's thinking and white space, but the ends of contents are unique.
                mark = message["content"].rsplit(" ", 1)[1]
                assert (mark in text) == (message["role"] == "assistant"), (template, kind, name, text, line)
    return rows


def main() -> None:
    rows = 200 if os.environ.get("DPO_TEST_ALL") else 25
    shared = data_program.shared_data()
    total = 0
    for kind in ("gpt-neox", "llama"):
        for template in TEMPLATES:
            with tempfile.TemporaryDirectory() as name:
                total += check(template, kind, shared, Path(name), rows)
    print(f"{total} pairs of conversations, {len(TEMPLATES)} templates, two tokenizers: the same tokens as transformers and TRL")


if __name__ == "__main__":
    main()

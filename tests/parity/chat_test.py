"""Compares dpo render with transformers: the shared templates times many conversations. Texts are equal, or both
fail."""

import os
import sys
import tempfile
from pathlib import Path

from transformers import AutoTokenizer

from chat_conversations import conversations
from chat_reference import difference, dpo_lines, reference_texts, stay_at_noon
from chat_templates import FOLDER_CASES, check_characters, check_generation_marks, check_names, check_small_templates

ALL = "DPO_TEST_ALL" in os.environ
COUNT = 400 if ALL else 200
SMALL_TEMPLATES = 20000 if ALL else 2500


def folder_of_templates():
    shared = Path(os.environ.get("DPO_SHARED_DATA", Path(os.environ["DPO_SOURCE_DIR"]).parent / "shared" / "data"))
    return shared / "chat_templates"


def compare(path, inputs):
    source = path.read_text(encoding="utf-8")
    ours, theirs = dpo_lines(path, inputs), reference_texts(source, inputs)
    bad = [(value, text) for value, *pair in zip(inputs, ours, theirs) if (text := difference(*pair))]
    refused = sum(isinstance(answer, Exception) for answer in theirs)
    print(f"{path.name}: {len(inputs) - len(bad)} of {len(inputs)} equal, {refused} refused by both", flush=True)
    if bad:
        value, text = min(bad, key=lambda pair: len(str(pair[0])))
        print(f"  {value}\n  {text}")
    return len(bad)


def check_folders():
    with tempfile.TemporaryDirectory() as folder:
        for name, make, value, expected in FOLDER_CASES:
            model = Path(folder) / name
            model.mkdir()
            make(model)
            answer = dpo_lines(model, [value])[0]
            if answer != expected:
                sys.exit(f"{name}: dpo renders {answer!r}, expected {expected!r}")
    print(f"{len(FOLDER_CASES)} folders", flush=True)


# This template marks the assistant's turns. The test also removes the marks, so that dpo finds the turns one by one.
MARKED = ("{% for m in messages %}{{ '<|' ~ m.role ~ '|>\\n' }}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{{ eos_token }}"
          "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}{{ '<|assistant|>\\n' if add_generation_prompt }}")


def check_masks(tokenizer_json):
    """Compares ids and mask of dpo render --tokens with transformers' return_assistant_tokens_mask."""
    # transformers marks nothing where a token joins leading whitespace of the answer with the text before it.
    inputs = [value for value in conversations(COUNT, seed=1) if value["messages"][0]["role"] != "assistant" and all(
        isinstance(message.get("content"), str) and message["content"].strip() == message["content"] != ""
        for message in value["messages"] if message["role"] == "assistant")]
    for value in inputs:
        value.pop("eos_token", None)  # use the tokenizer's, which is one token
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "tokenizer.json").write_bytes(tokenizer_json.read_bytes())
        (Path(folder) / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}')
        (Path(folder) / "chat_template.jinja").write_text(MARKED)
        reference = AutoTokenizer.from_pretrained(folder)
        marked = dpo_lines(folder, inputs, "--tokens")
        (Path(folder) / "chat_template.jinja").write_text(MARKED.replace("{% generation %}", "").replace("{% endgeneration %}", ""))
        found = dpo_lines(folder, inputs, "--tokens")
    compared = 0
    for value, by_marks, by_turns in zip(inputs, marked, found):
        if "error" in by_marks:
            continue
        messages = value.pop("messages")
        theirs = reference.apply_chat_template(messages, return_assistant_tokens_mask=True, return_dict=True, **value)
        expected = {"ids": list(theirs["input_ids"]), "trained": list(theirs["assistant_masks"])}
        assert by_marks == expected, f"{messages}: {by_marks}, expected {expected}"
        assert by_turns == expected, f"{messages}: turn by turn {by_turns}, expected {expected}"
        compared += 1
    print(f"{compared} masks of {len(inputs)} conversations", flush=True)


def main():
    stay_at_noon()
    check_folders()
    check_generation_marks()
    check_names()
    check_characters()
    failures = check_small_templates(SMALL_TEMPLATES, seed=int(os.environ.get("DPO_TEST_SEED", "1")))
    folder = folder_of_templates()
    if not folder.is_dir():
        sys.exit(1 if failures else 77)
    check_masks(folder.parent / "tokenizers" / "gpt-neox" / "tokenizer.json")
    for number, path in enumerate(sorted(folder.glob("*.jinja"))):
        failures += compare(path, conversations(COUNT, seed=number))
    sys.exit(1 if failures else 0)


main()

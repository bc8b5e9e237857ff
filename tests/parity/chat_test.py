"""dpo render equals transformers: the shared templates times many conversations, text for text or refusal for refusal."""

import os
import sys
import tempfile
import time
from pathlib import Path

from chat_conversations import conversations
from chat_reference import difference, dpo_lines, near_midnight, reference_texts
from chat_templates import FOLDER_CASES, check_generation_marks, check_small_templates

ALL = "DPO_TEST_ALL" in os.environ
COUNT = 400 if ALL else 200
SMALL_TEMPLATES = 20000 if ALL else 4000


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


def main():
    while near_midnight():
        time.sleep(5)
    check_folders()
    check_generation_marks()
    failures = check_small_templates(SMALL_TEMPLATES, seed=int(os.environ.get("DPO_TEST_SEED", "1")))
    folder = folder_of_templates()
    if not folder.is_dir():
        sys.exit(1 if failures else 77)
    for number, path in enumerate(sorted(folder.glob("*.jinja"))):
        failures += compare(path, conversations(COUNT, seed=number))
    sys.exit(1 if failures else 0)


main()

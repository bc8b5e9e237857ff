"""Renders chat templates in the environment of transformers, and with dpo render."""

import datetime
import json
import os
import subprocess
import time

from transformers.utils.chat_template_utils import _compile_jinja_template, render_jinja_template

PROGRAM = os.environ["DPO_PROGRAM"]


def reference_texts(source, variables_of_lines):
    """Returns, for each line of variables, the text that transformers renders, or an exception."""
    answers = []
    for variables in variables_of_lines:
        variables = dict(variables)
        try:
            conversation = variables.pop("messages")
            if not conversation:
                raise ValueError("empty conversation")
            texts, _ = render_jinja_template([conversation], chat_template=source, **variables)
            answers.append(texts[0])
        except Exception as error:  # pylint: disable=broad-except
            answers.append(error)
    return answers


def reference_marks(source, variables):
    """Returns the text, and the ranges of it that generation blocks wrote [characters]."""
    variables = dict(variables)
    texts, marks = render_jinja_template([variables.pop("messages")], chat_template=source,
                                         return_assistant_tokens_mask=True, **variables)
    return texts[0], marks[0]


def plain_text(source, variables):
    """Renders a template without the checks of conversations."""
    return _compile_jinja_template(source).render(**variables)


def dpo_lines(model, values, *options):
    """Returns the answer of dpo render to each value: text, or {"error": ...}."""
    text = "".join(json.dumps(value) + "\n" for value in values)
    done = subprocess.run([PROGRAM, "render", str(model), *options], input=text.encode(), capture_output=True,
                          check=False)
    lines = done.stdout.decode().split("\n")[:-1]
    if len(lines) != len(values):
        raise SystemExit(f"dpo render {model}: {len(lines)} answers to {len(values)} lines\n{done.stderr.decode()}")
    return [json.loads(line) for line in lines]


def difference(ours, theirs):
    """Returns a message about the difference, or None if both are the same text or both fail (raise_exception with the
    same message)."""
    refused = isinstance(ours, dict)
    if isinstance(theirs, Exception):
        if not refused:
            return f"dpo renders {ours!r}, expected {type(theirs).__name__}: {theirs}"
        if type(theirs).__name__ == "TemplateError" and str(theirs) not in ours["error"]:
            return f"dpo says {ours['error']!r}, expected {str(theirs)!r}"
        return None
    if refused:
        return f"dpo refuses ({ours['error']}), expected {theirs!r}"
    if ours == theirs:
        return None
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
    start = max(0, at - 60)
    return f"differs at character {at}:\n  dpo:      {ours[start:at + 60]!r}\n  expected: {theirs[start:at + 60]!r}"


def stay_at_noon():
    """Chooses a time zone where it is noon, also for programs that are started from now on. Templates print the date,
    which must not change during a comparison."""
    hours = datetime.datetime.now(datetime.timezone.utc).hour - 12
    os.environ["TZ"] = f"NOON{hours:+d}"
    time.tzset()

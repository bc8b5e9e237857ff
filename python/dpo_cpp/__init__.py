"""dpo.cpp in Python: plan, data and train call the program dpo, and Run reads what it wrote.

    import dpo_cpp as dpo

    run = dpo.train(model="my-instruct", data="chats.jsonl", loss="dpo", lr=1e-6, loss__beta=0.1)
    run.metrics(); run.report(); run.sample("What is the capital of Sweden?", chat=True)

Keys are those of `dpo config`; a dot in a key is written as two underscores. Data is a file, a folder, a name on the hub,
a datasets.Dataset, a pandas DataFrame, a list of dicts, or a list of these. torch is not imported.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Union

from dpo_cpp._process import Error, call, follow
from dpo_cpp._rows import is_rows, write_rows

__all__ = ["Error", "Plan", "Report", "Run", "data", "load_run", "plan", "train"]

# The characters of a value that need no quotes on the command line, in addition to letters and digits.
_PLAIN = set("/-+.$%*@?|:_~")
Prompt = Union[str, Sequence[Mapping[str, str]]]


def _quoted(text: str) -> str:
    if text and all(c.isalnum() or c in _PLAIN for c in text):
        return text
    # In quotes, backslashes count only before a quote, where each is written twice.
    parts = [part + "\\" * (len(part) - len(part.rstrip("\\"))) for part in text.split("'")]
    return "'" + "\\'".join(parts) + "'"


def _value(value: Any) -> str:
    """Writes a value as on the command line of dpo."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_quoted(str(key))}:{_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_value, value)) + "]"
    return _quoted(os.fspath(value) if isinstance(value, os.PathLike) else str(value))


def _source(data: Any) -> Any:
    """Replaces rows by the file that they are written to."""
    if isinstance(data, Mapping):
        raise TypeError("data is a dict, such as a DatasetDict; give one of its splits, or a list of rows")
    if is_rows(data):
        return write_rows(data)
    return [_source(one) for one in data] if isinstance(data, (list, tuple)) else data


def _arguments(config: Any, keys: Mapping[str, Any]) -> list[str]:
    words = ["--config", os.fspath(config)] if config is not None else []
    for name, value in keys.items():
        if name in ("data", "datasets"):
            value = _source(value)
            if name == "datasets" and not isinstance(value, (list, tuple)):
                value = [value]
        words.append(f"{name.replace('__', '.')}={_value(value)}")
    return words


class Plan(dict[str, Any]):
    """The object of `dpo plan --json`: "fits", "memory", "time", "rules", ... It is shown as the text of `dpo plan`."""

    def __init__(self, arguments: list[str]) -> None:
        super().__init__(json.loads(call("plan", *arguments, "--json", accepts=(0, 1))))
        self._arguments = arguments

    def __repr__(self) -> str:
        return call("plan", *self._arguments, accepts=(0, 1), quiet=True)


def plan(*, config: Any = None, **keys: Any) -> Plan:
    """Plans a run: memory, time, disk, checks and advice. A plan that fails is returned too: its "fits" is False, or a
    rule has the verdict "error"."""
    return Plan(_arguments(config, keys))


def data(*, config: Any = None, **keys: Any) -> dict[str, Any]:
    """Reads and tokenizes the data of a run. Returns counts, lengths, dropped rows and the first examples."""
    result: dict[str, Any] = json.loads(call("data", *_arguments(config, keys), "--json"))
    return result


def train(*, config: Any = None, **keys: Any) -> Run:
    """Trains a model and shows the progress. Ctrl-C stops the run after its update with a checkpoint, as does the end of
    this process; train(resume=RUN) continues it."""
    return Run(Path(follow(_arguments(config, keys))).resolve())


def load_run(path: str | os.PathLike[str]) -> Run:
    """Returns the run in a folder."""
    folder = Path(path).expanduser().resolve()
    if not (folder / "metrics.jsonl").is_file():
        raise Error(f"{folder} is not the folder of a run: it has no metrics.jsonl")
    return Run(folder)


class Report:
    """The report of a run: an HTML file. A notebook shows it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"Report({str(self.path)!r})"

    def _repr_html_(self) -> str:
        page = escape(self.path.read_text(encoding="utf-8"), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 40em; border: 0"></iframe>'


class Run:
    """A run of `dpo train`. `path` is its folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, finished={self.finished})"

    @property
    def finished(self) -> bool:
        """True if the run has reached its end, False if it was stopped, has failed, or still trains."""
        log = (self.path / "log.txt").read_text(encoding="utf-8", errors="replace")
        ends = re.findall(r"^\S+ \S+  (run folder |resuming |done: |stopped by a signal |error: )", log, re.MULTILINE)
        return bool(ends) and ends[-1] == "done: "

    @property
    def checkpoint(self) -> Path:
        """The newest checkpoint: a Hugging Face model folder, or a PEFT folder for LoRA."""
        if not (self.path / "LATEST").exists():
            raise Error(f"{self.path} has no checkpoint")
        return self.path / "LATEST"

    def metrics(self) -> Any:
        """Returns the logged updates and evaluations: a pandas DataFrame if pandas is installed, else a list of dicts."""
        with open(self.path / "metrics.jsonl", encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines if line.endswith("\n")]  # a running run may be writing one
        try:
            import pandas  # type: ignore[import-untyped, unused-ignore]
        except ImportError:
            return rows
        return pandas.DataFrame(rows)

    def report(self) -> Report:
        """Writes the report from the files of the run, and returns it."""
        call("report", str(self.path), quiet=True)
        return Report(self.path / "report.html")

    def sample(self, prompts: Prompt | Sequence[Prompt], *, chat: bool = False, **options: Any) -> Any:
        """Generates text with the newest checkpoint. A prompt is a text, or a list of messages, which are answered as with
        chat=True. Options are those of `dpo sample`: greedy=True, max_new_tokens=64, temperature=0.7, samples=4. Returns
        one text for one prompt and one sample, otherwise the list of texts, sample after sample of each prompt."""
        one = isinstance(prompts, str) or bool(prompts) and isinstance(prompts[0], Mapping)
        given = [prompts] if one else list(prompts)
        chat = chat or any(not isinstance(prompt, str) for prompt in given)
        words = [*self._model(), "--prompts", "-", "--json", *(["--chat"] if chat else [])]
        for name, value in options.items():
            option = f"--{name.replace('_', '-')}"
            for item in value if isinstance(value, (list, tuple)) else [value]:
                words += [option] if item is True else [] if item is False else [f"{option}={item}"]
        lines = "".join(json.dumps({"prompt": prompt}) + "\n" for prompt in given)
        texts = [json.loads(line)["text"] for line in call("sample", *words, input=lines, quiet=True).splitlines()]
        return texts[0] if one and len(texts) == 1 else texts

    def _model(self) -> list[str]:
        adapter = self.checkpoint / "adapter_config.json"
        if not adapter.exists():
            return [str(self.checkpoint)]
        return [json.loads(adapter.read_text())["base_model_name_or_path"], "--adapter", str(self.checkpoint)]

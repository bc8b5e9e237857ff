"""Writes rows of Python to files that the program reads."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "dpo" / "rows"


def is_rows(data: Any) -> bool:
    """True for a pandas DataFrame, a datasets.Dataset and a list of dicts; False for names and lists of names."""
    if isinstance(data, (str, os.PathLike, Mapping)):
        return False
    if hasattr(data, "columns") or hasattr(data, "column_names"):
        return True
    return isinstance(data, (list, tuple)) and bool(data) and all(isinstance(row, Mapping) for row in data)


def records(data: Any) -> Iterable[Mapping[str, Any]]:
    rows: Iterable[Mapping[str, Any]] = data.to_dict("records") if hasattr(data, "columns") else data
    return rows


def as_json(value: Any) -> Any:
    """Converts the numbers, arrays and missing values of numpy and pandas."""
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(item) for item in value]
    if hasattr(value, "tolist"):
        return as_json(value.tolist())
    if isinstance(value, float) and math.isnan(value) or type(value).__name__ in ("NAType", "NaTType"):
        return None
    return value


def write_rows(data: Any) -> Path:
    """Writes rows as JSON lines, once: the file is named by its contents."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    descriptor, name = tempfile.mkstemp(dir=folder, prefix=".rows-")
    try:
        with open(descriptor, "wb") as file:
            for number, row in enumerate(records(data), 1):
                try:
                    line = json.dumps(as_json(row), ensure_ascii=False).encode() + b"\n"
                except (TypeError, ValueError, UnicodeError) as error:
                    raise TypeError(f"row {number} of the data cannot be written as JSON: {error}") from None
                digest.update(line)
                file.write(line)
        path = folder / f"{digest.hexdigest()[:32]}.jsonl"
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    return path

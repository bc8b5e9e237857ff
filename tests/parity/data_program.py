"""Runs `dpo data` for the tests of data."""

import json
import os
import subprocess
import sys
from pathlib import Path


def dpo_data(*words: str) -> subprocess.CompletedProcess:
    return subprocess.run([os.environ["DPO_PROGRAM"], "data", *words], capture_output=True, text=True, check=False)


def order(count: int, *words: str) -> list[dict]:
    answer = dpo_data("--order", str(count), *words)
    assert answer.returncode == 0, answer.stderr
    return [json.loads(line) for line in answer.stdout.splitlines()]


def write_lines(path: Path, rows: list[dict]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def shared_data() -> Path:
    """Returns the folder of real data. Without it the test is skipped."""
    beside = Path(os.environ["DPO_SOURCE_DIR"]).parent / "shared" / "data"
    folder = Path(os.environ.get("DPO_SHARED_DATA", beside))
    if not (folder / "hh").is_dir():
        print(f"not run: no shared data in {folder}; DPO_SHARED_DATA=DIR names another place")
        sys.exit(77)
    return folder

"""Checks that the folders of src/ include each other only in the directions that the design allows.

The linker catches a wrong call; this catches a wrong header. Usage: layers.py SRC
"""

import re
import sys
from pathlib import Path

# Maps a folder to the folders that it may include. It may also include what those may include.
ALLOWED = {
    "base": [],
    "hardware": ["base"],
    "config": ["base"],
    "text": ["base"],
    "data": ["base", "config", "text", "hub"],
    "ops": ["base", "hardware"],
    "model/spec": ["base"],
    "model": ["data", "ops", "model/spec", "comm"],
    "loss": ["config"],
    "comm": ["base"],
    "shard": ["comm", "model"],
    "optim": ["model", "comm"],
    "checkpoint/formats": ["base"],
    "checkpoint": ["checkpoint/formats", "model", "hub"],
    "http": ["base"],
    "hub": ["base", "http"],
    "plan": ["config", "hardware", "model/spec", "hub"],
    "report": ["base"],
    "serve": ["base", "report"],
    "track": ["base", "http"],
    "demo": ["base", "report", "text"],
    "train": ["config", "data", "ops", "model", "loss", "comm", "shard", "optim", "checkpoint"],
    "run": ["train", "plan", "report", "track"],
    "commands": ["checkpoint/formats", "config", "data", "plan", "report", "serve", "track"],
    "engine": ["commands", "run", "demo"],
}
# These folders build without LibTorch.
LIGHT = {"base", "hardware", "config", "text", "data", "model/spec", "checkpoint/formats", "loss", "plan", "http", "hub", "report", "serve", "track", "demo", "commands"}

QUOTED = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
LIBTORCH = re.compile(r"^\s*#\s*include\s+<(ATen|c10|torch)/")
# Only older versions of a library include these headers on their own, so files that use these names must include them.
NEEDS = {"fmt::join": "#include <fmt/ranges.h>"}


def reachable(folder: str) -> set[str]:
    found = {folder}
    for other in ALLOWED[folder]:
        found |= reachable(other)
    return found


def folder_of(path: str) -> str | None:
    """Returns the folder with the longest name that holds this path: model/spec before model."""
    return max((name for name in ALLOWED if path.startswith(name + "/")), key=len, default=None)


def problems_of(path: Path, src: Path) -> list[str]:
    name = path.relative_to(src).as_posix()
    folder = folder_of(name)
    if folder is None:
        return [f"{name}: no such folder in the design; add it to tests/layers.py with what it may include"]
    text = path.read_text()
    problems = [f"{name}: {used} needs {header} (in newer releases)" for used, header in NEEDS.items()
                if used in text and header not in text]
    for number, line in enumerate(text.splitlines(), 1):
        include = QUOTED.match(line)
        if include:
            other = folder_of(include[1])
            if other not in reachable(folder):
                problems.append(f'{name}:{number}: {folder} may not include "{include[1]}"')
        if LIBTORCH.match(line) and folder in LIGHT:
            problems.append(f"{name}:{number}: {folder} builds without LibTorch")
    return problems


def main() -> int:
    src = Path(sys.argv[1])
    files = [path for suffix in ("h", "cpp", "cu", "cuh") for path in sorted(src.rglob(f"*.{suffix}"))]
    problems = [problem for path in files for problem in problems_of(path, src)]
    print("\n".join(problems) or f"{len(files)} files, all in order")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())

"""Checks that the folders of src/ include each other only in the directions that the design allows.

The CMakeLists.txt of a folder defines which folders it may use; the linker catches a call to any other. This catches a
header of any other, and a table of docs/architecture.md that says something else. Usage: layers.py SOURCE_FOLDER
"""

import re
import sys
from functools import cache
from pathlib import Path

ROOT = Path(sys.argv[1])
SRC = ROOT / "src"
DOCUMENT = "docs/architecture.md"
LIBTORCH = "LibTorch"

COMMENT = re.compile(r"#.*")
TARGET = re.compile(r"\bdpo_(\w+)")
QUOTED = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
LIBTORCH_HEADER = re.compile(r"^\s*#\s*include\s+<(ATen|c10|torch)/")
ROW = re.compile(r"^\| `src/([\w/]+)` \|.*\|([^|]*)\|$", re.MULTILINE)
# Only older versions of a library include these headers on their own, so files that use these names must include them.
NEEDS = {"fmt::join": "#include <fmt/ranges.h>"}


def folders_of_cmake() -> dict[str, set[str]]:
    """Maps each folder to those that its CMakeLists.txt names, and to LibTorch if it names that."""
    files = {file.parent.relative_to(SRC).as_posix(): file for file in SRC.glob("**/CMakeLists.txt") if file.parent != SRC}
    targets = {folder.replace("/", "_"): folder for folder in files}
    used = {}
    for folder, file in files.items():
        text = COMMENT.sub("", file.read_text())
        used[folder] = {targets[name] for name in TARGET.findall(text) if name in targets} - {folder}
        used[folder] |= {LIBTORCH} if "dpo::torch" in text else set()
    return used


USED = folders_of_cmake()


@cache
def reachable(folder: str) -> frozenset[str]:
    """Returns a folder and everything that it may use, directly or not."""
    found, left = set(), [folder]
    while left:
        if (name := left.pop()) not in found:
            found.add(name)
            left += USED.get(name, [])
    return frozenset(found)


def problems_of_cycles() -> list[str]:
    return [f"src/{folder} uses src/{other}, which uses src/{folder}" for folder in USED for other in USED[folder] - {LIBTORCH}
            if folder in reachable(other)]


def problems_of_table() -> list[str]:
    """Compares the table with CMake. A row may leave out what the others in it may use."""
    rows = {folder: {name.split(" (")[0] for name in re.split(r", (?![^(]*\))", used.strip()) if name}
            for folder, used in ROW.findall((ROOT / DOCUMENT).read_text())}
    problems = [f"{DOCUMENT}: no row for src/{folder}" for folder in sorted(USED.keys() - rows.keys())]
    problems += [f"{DOCUMENT}: no such folder: src/{folder}" for folder in sorted(rows.keys() - USED.keys())]
    for folder in sorted(USED.keys() & rows.keys()):
        documented = set().union(*(reachable(name) for name in rows[folder]))
        for name in sorted(documented ^ (reachable(folder) - {folder})):
            says = "may use" if name in documented else "may not use"
            problems.append(f"{DOCUMENT}: the row of src/{folder} says that it {says} {name}; CMake says otherwise")
    return problems


def folder_of(path: str) -> str | None:
    """Returns the folder with the longest name that holds this path: model/spec before model."""
    return max((name for name in USED if path.startswith(name + "/")), key=len, default=None)


def problems_of_file(path: Path) -> list[str]:
    name = path.relative_to(SRC).as_posix()
    folder = folder_of(name)
    if folder is None:
        return [f"src/{name}: no folder of CMake holds this file"]
    text = path.read_text()
    problems = [f"src/{name}: {used} needs {header} (in newer releases)" for used, header in NEEDS.items()
                if used in text and header not in text]
    for number, line in enumerate(text.splitlines(), 1):
        include = QUOTED.match(line)
        if include and folder_of(include[1]) not in reachable(folder):
            problems.append(f'src/{name}:{number}: {folder} may not include "{include[1]}"')
        if LIBTORCH_HEADER.match(line) and LIBTORCH not in reachable(folder):
            problems.append(f"src/{name}:{number}: {folder} builds without LibTorch")
    return problems


def main() -> int:
    files = [path for suffix in ("h", "cpp", "cu", "cuh") for path in sorted(SRC.rglob(f"*.{suffix}"))]
    problems = problems_of_cycles() + problems_of_table() + [problem for path in files for problem in problems_of_file(path)]
    print("\n".join(problems) or f"{len(files)} files of {len(USED)} folders, all in order")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())

"""SECURITY.md names a test for everything that it says others cannot do. All of these tests must exist."""

import os
import re
import sys
from pathlib import Path

SOURCE = Path(os.environ["DPO_SOURCE_DIR"])
TESTS = SOURCE / "tests"


def known_tests():
    """Returns all test names in the page's notation."""
    names = set()
    for file in (TESTS / "unit").rglob("*.cpp"):
        names |= {f"{group}.{test}" for group, test in re.findall(r"^TEST(?:_[FP])?\((\w+),\s*(\w+)\)", file.read_text(), re.MULTILINE)}
    for folder in ("distributed", "e2e", "parity"):
        for file in (TESTS / folder).glob("*_test.py"):
            names |= {f"{file.stem}.{test}" for test in re.findall(r"^    def (test_\w+)", file.read_text(), re.MULTILINE)}
    for targets in re.findall(r"\bTARGETS ([a-z0-9_ ]+)\)", (TESTS / "fuzz/CMakeLists.txt").read_text()):
        names |= {f"fuzz {target}" for target in targets.split()}
    return names


def problems_of(text):
    known = known_tests()
    problems, rows = [], 0
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or cells[-1] == "shown by" or set(line) <= set("|-"):
            continue
        rows += 1
        named = re.findall(r"`([^`]+)`", cells[-1])
        if len(cells) != 2 or not named:
            problems.append(f"SECURITY.md: no test is named in: {line}")
        problems += [f"SECURITY.md: there is no test {name}" for name in named if name not in known]
    return problems if rows else ["SECURITY.md: no table was found"]


if __name__ == "__main__":
    page = (SOURCE / "SECURITY.md").read_text()
    if not problems_of(page.replace("`Guard.Tokens`", "`Guard.Absent`")):
        sys.exit("a name that does not exist was not noticed")
    sys.exit("\n".join(problems_of(page)) or 0)

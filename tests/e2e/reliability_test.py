"""docs/reliability.md names tests and their cases: each must exist in this build, and each of the 35 faults must have a
row."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(os.environ["DPO_SOURCE_DIR"], "docs", "reliability.md")
BUILD = Path(os.environ["DPO_PROGRAM"]).parent
FAULTS = 35


def rows():
    """Returns the cells of the tables, without their heads."""
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and not set(cells[0]) <= set("-") and cells[-1] != "what is asserted":
            yield cells


def commands():
    """Returns the command of each test that ctest lists, by the name of the test."""
    listed = subprocess.run(["ctest", "--test-dir", BUILD, "--show-only=json-v1"], capture_output=True, text=True, check=True)
    return {test["name"]: test.get("command", []) for test in json.loads(listed.stdout)["tests"]}


def cases(name, command):
    """Returns the methods of a script, the cases that a unit test lists, or the targets of the fuzzer."""
    scripts = [Path(word) for word in command if word.endswith(".py")]
    if scripts:
        return re.findall(r"def (test_\w+)", scripts[0].read_text())
    if name.startswith("fuzz."):
        return command[1:]
    listed = subprocess.run([command[0], "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout
    found, suite = [], ""
    for line in listed.splitlines():
        if line.startswith("  "):
            found.append(suite + line.split()[0])
        else:
            suite = line.split()[0]
    return found


def problems():
    known = commands()
    table = list(rows())
    numbers = sorted(int(row[0]) for row in table if row[0].isdigit())
    if numbers != list(range(1, FAULTS + 1)):
        yield f"the rows are {numbers}, expected 1 to {FAULTS}, each once"
    for row in table:
        for part in row[-2].split("<br>"):
            name, *named = re.findall(r"`([^`]+)`", part) or [""]
            if not known.get(name):
                yield f"row '{row[0]}': there is no test '{name}'"
                continue
            found = cases(name, known[name]) if named else []
            yield from (f"row '{row[0]}': {name} has no case '{case}'" for case in named if case not in found)


if __name__ == "__main__":
    if not Path(f"{BUILD}/dpo-engine").exists():
        print("not run: without LibTorch there are fewer tests")
        sys.exit(77)
    sys.exit("\n".join(f"{PAGE}: {problem}" for problem in problems()) or 0)

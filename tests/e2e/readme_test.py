"""Checks that the program still prints the README's plan, docs/benchmarks.md still gives its chart, and the table of
docs/memory.md is that of plans.

In the plan a line `...` stands for lines left out. The README's other commands are run by recipes_test.py.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(os.environ["DPO_SOURCE_DIR"])


def check_plan():
    text = (SOURCE / "README.md").read_text()
    shown = re.search(r"^    \./run (plan (?:.*\\\n)*.*)\n\n```text\n(.*?)```", text, re.MULTILINE | re.DOTALL)
    if not shown:
        return "README.md shows no './run plan' command followed by its output"
    arguments = shlex.split(shown.group(1).replace("\\\n", " "))
    expected = r"(?:.*\n)+?".join(re.escape(part) for part in shown.group(2).split("...\n"))
    # It runs in the root of the file system, so that files in the checkout do not change the plan.
    ran = subprocess.run([os.environ["DPO_PROGRAM"], *arguments], capture_output=True, text=True, cwd="/")
    if ran.returncode != 0 or not re.fullmatch(expected, ran.stdout):
        return (f"dpo {shlex.join(arguments)} (exit {ran.returncode}) does not print what README.md shows, but:\n\n"
                + ran.stdout + ran.stderr)
    return None


def check_chart():
    with tempfile.NamedTemporaryFile() as drawn:
        subprocess.run([sys.executable, SOURCE / "scripts" / "speed_chart.py", drawn.name], check=True)
        if Path(drawn.name).read_bytes() != (SOURCE / "docs" / "speed.svg").read_bytes():
            return "docs/speed.svg is not what docs/benchmarks.md gives; draw it again: python3 scripts/speed_chart.py"
    return None


def check_memory():
    """Checks that each cell of the first table is the plan's total with the arguments at the head of its column."""
    text = (SOURCE / "docs" / "memory.md").read_text()
    command, table = re.search(r"^    dpo (plan (?:.*\\\n)*.*)\n\n((?:\|.*\n)+)", text, re.MULTILINE).groups()
    arguments = shlex.split(command.replace("\\\n", " "))
    head, _, *rows = [[cell.strip(" `") for cell in line.strip("|\n").split("|")] for line in table.splitlines()]
    for model, *cells in rows:
        for more, cell in zip(head[1:], cells, strict=True):
            words = [word.replace("MODEL", model) for word in arguments] + more.split()
            ran = subprocess.run([os.environ["DPO_PROGRAM"], *words, "--json"], capture_output=True, text=True, cwd="/")
            planned = f"{json.loads(ran.stdout)['memory']['total_bytes'] / 2**30:.1f}"
            if planned != cell:
                return f"docs/memory.md says {cell} GiB for {model} with {more}, the plan {planned}"
    return None


if __name__ == "__main__":
    problems = [problem for problem in (check_plan(), check_chart(), check_memory()) if problem]
    sys.exit("\n".join(problems) or 0)

"""The README shows a command with its output: the program must still print exactly that."""

import os
import pathlib
import re
import shlex
import subprocess
import sys


def main() -> int:
    source = pathlib.Path(os.environ["DPO_SOURCE_DIR"])
    text = (source / "README.md").read_text()
    shown = re.search(r"^    \./run (plan (?:.*\\\n)*.*)\n\n```text\n(.*?)```", text, re.MULTILINE | re.DOTALL)
    if not shown:
        print("README.md holds no './run plan' command followed by its output")
        return 1
    words = shlex.split(shown.group(1).replace("\\\n", " "))
    # From the root of the file system, so that files lying about in the checkout do not change the plan.
    ran = subprocess.run([os.environ["DPO_PROGRAM"], *words], capture_output=True, text=True, cwd="/")
    if ran.returncode != 0 or ran.stdout != shown.group(2):
        print(f"dpo {shlex.join(words)} (exit {ran.returncode}) does not print what README.md shows, but:\n")
        print(ran.stdout + ran.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Finds the program dpo and the environment in which it runs."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def program() -> str:
    """Returns the program of this package, or DPO_PROGRAM."""
    return os.environ.get("DPO_PROGRAM") or str(FOLDER / "bin" / "dpo")


def environment() -> dict[str, str]:
    """Returns this process's environment, in which the program finds this Python (for trackers) and its torch."""
    variables = dict(os.environ)
    folders = variables.get("PATH", os.defpath).split(os.pathsep)
    python = os.path.dirname(sys.executable)
    if python and python not in folders:
        variables["PATH"] = os.pathsep.join([python, *folders])
    # Usually torch is next to this package, where the program finds it. It is elsewhere if, for example, torch belongs
    # to the system's Python and this package to the user's. Nothing is imported here.
    if not (FOLDER.parent / "torch").is_dir() and "LIBTORCH" not in variables:
        found = importlib.util.find_spec("torch")
        if found and found.submodule_search_locations:
            variables["LIBTORCH"] = found.submodule_search_locations[0]
    return variables

"""Writes python.lock: the SHA-256 of every file that pip may install for the Python packages of versions.env.

    python3 scripts/lock_python.py      after a version in versions.env has changed; needs the network and a recent pip

pip itself is asked, without installing anything, once for each kind of machine and Python that the project is used with.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LISTS = ["TORCH_PACKAGES", "TORCH_CPU_PACKAGES", "TORCH_GPU_PACKAGES", "ARROW_PACKAGES", "BUILDER_PACKAGES", "TEST_PACKAGES"]
MACHINES = ["x86_64", "aarch64"]
PYTHONS = ["3.11.2", "3.12.3", "3.13.5"]  # of Debian 12, Ubuntu 24.04, Debian 13
GLIBC = 36  # of Debian 12, the oldest system that is built on; a wheel for an older one serves too


def pinned() -> list[str]:
    """NAME==VERSION of every package, read as the shell reads them."""
    script = f'source "{ROOT / "versions.env"}"; echo ' + " ".join(f'"${name}"' for name in LISTS)
    return sorted(set(subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True).stdout.split()))


def platforms(machine: str) -> list[str]:
    names = [f"manylinux_2_{minor}_{machine}" for minor in range(GLIBC, 4, -1)]
    return names + [f"{name}_{machine}" for name in ("manylinux2014", "manylinux2010", "manylinux1", "linux")]


def asked(packages: list[str], machine: str, python: str) -> dict[str, str]:
    """The hash of the file that pip would install of each package."""
    options = [word for name in platforms(machine) for word in ("--platform", name)]
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "report.json")
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps", "--ignore-installed",
                        "--target", scratch, "--python-version", python, *options, "--report", report, *packages],
                       check=True)
        items = json.loads(report.read_text())["install"]
    assert len(items) == len(packages), "pip left out a package"
    name_of = lambda text: text.lower().replace("_", "-").replace(".", "-")
    hashes = {name_of(i["metadata"]["name"]): i["download_info"]["archive_info"]["hashes"]["sha256"] for i in items}
    return {package: hashes[name_of(package.partition("==")[0])] for package in packages}


def main() -> None:
    packages = pinned()
    found: dict[str, set[str]] = {package: set() for package in packages}
    for machine in MACHINES:
        for python in PYTHONS:
            print(f"{machine}, Python {python}", flush=True)
            for package, digest in asked(packages, machine, python).items():
                found[package].add(digest)
    text = "# Made by scripts/lock_python.py from versions.env: what pip may install, by hash. Not to be edited.\n"
    for package in packages:
        text += f"\n{package}" + "".join(f" \\\n    --hash=sha256:{digest}" for digest in sorted(found[package])) + "\n"
    (ROOT / "python.lock").write_text(text)


if __name__ == "__main__":
    main()

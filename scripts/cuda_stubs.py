"""Makes `import torch` work in the test environment of a machine without a GPU.

The torch wheel's Python module is linked with cuBLAS, cuDNN, NCCL and more (about 2 GB of wheels), which it
does not use without a GPU. For each missing one, this script writes a stub library with the symbols that the
loader needs. It also writes a Python module that loads the stubs, and a .pth file that makes every Python of the
environment run that module when it starts. Only the test environment sees the stubs: the program is linked only
with the CPU part of LibTorch. A call into a stub ends the process with a message.

Usage: cuda_stubs.py TORCH_FOLDER SITE_PACKAGES   (writes nothing if no library is missing)
"""

import re
import subprocess
import sys
from pathlib import Path

# Prefixes of the names of NVIDIA's libraries and functions. The driver (libcuda) gets no stub, because torch loads it
# to find out whether there is a GPU.
NVIDIA = re.compile(r"(cu|nccl|nv)")
DRIVER = re.compile(r"libcuda\.so")

STUB = """
#include <stdio.h>
#include <stdlib.h>
static void called(void) {
  fputs("a CUDA library was called, but this test environment has only stubs of CUDA's libraries\\n", stderr);
  abort();
}
"""


def output(*command: object) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main(torch: Path, site_packages: Path) -> None:
    libraries = sorted((torch / "lib").glob("*.so*"))
    nvidia = sorted(torch.parent.glob("nvidia/*/lib/*.so*"))
    present = {path.name for path in libraries + nvidia}
    needed = {name for path in libraries for name in re.findall(r"NEEDED.*\[(.+)\]", output("readelf", "-d", path))}
    absent = sorted(name for name in needed - present if NVIDIA.match(name.removeprefix("lib"))
                    and not DRIVER.match(name))
    if not absent:
        return

    defined = {line.split()[2].split("@")[0] for path in libraries + nvidia
               for line in output("nm", "-D", "--defined-only", path).splitlines()}
    wanted = {line.split()[1] for path in libraries
              for line in output("nm", "-D", "--undefined-only", "--with-symbol-versions", path).splitlines()}
    stubbed = {name for name in wanted if NVIDIA.match(name) and name.split("@")[0] not in defined}

    folder = site_packages / "cuda_stubs"
    folder.mkdir(exist_ok=True)
    versions: dict[str, list[str]] = {}
    source = STUB
    for symbol in sorted(stubbed):
        name, _, version = symbol.partition("@")
        source += f'void {name}(void) __attribute__((alias("called")));\n'
        if version:
            versions.setdefault(version.lstrip("@"), []).append(name)
    (folder / "stub.c").write_text(source)
    (folder / "stub.map").write_text(
        "".join(f"{version} {{ {'; '.join(names)}; }};\n" for version, names in versions.items()))
    subprocess.run(["cc", "-w", "-fPIC", "-fno-builtin", "-c", folder / "stub.c", "-o", folder / "stub.o"], check=True)
    for name in absent:
        subprocess.run(["cc", "-shared", folder / "stub.o", f"-Wl,-soname,{name}",
                        f"-Wl,--version-script,{folder / 'stub.map'}", "-o", folder / name], check=True)
    (folder / "__init__.py").write_text(
        "import ctypes, pathlib\n"
        "for library in pathlib.Path(__file__).parent.glob('*.so*'):\n"
        "    ctypes.CDLL(str(library))\n")
    (site_packages / "cuda_stubs.pth").write_text("import cuda_stubs\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

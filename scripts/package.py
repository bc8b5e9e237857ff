"""Makes a wheel and a tarball of the programs in a build folder, and SHA256SUMS of all packages in the folder OUT.

    python3 scripts/package.py BUILD OUT      ./run package builds and then runs this

Both contain bin/ (dpo, dpo-engine), lib/ (every library that they need, except those of the system and of torch),
package.json (src/commands/package.h reads it) and licenses/. Equal builds give equal bytes: entries are sorted, and
their times are SOURCE_DATE_EPOCH (seconds since 1970), or 1980 without it.
"""

import gzip
import hashlib
import json
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Libraries of every Linux system with glibc. MPI belongs to the machine too, since its mpirun starts the ranks.
SYSTEM = re.compile(r"lib(c|m|dl|rt|pthread|util|resolv|stdc\+\+|gcc_s|mpi)\.so|ld-linux")
# Libraries that pip installs with torch.
TORCH = re.compile(r"lib(torch|c10|gomp|nccl|nv|cu(da|blas|dnn|fft|file|pti|rand|solver|sparse))")
GLIBC = (2, 34)  # of Ubuntu 22.04, RHEL 9 and Debian 12
LIBSTDCXX = "GLIBCXX_3.4.29"  # of RHEL 9
# GCC 12 gave this function a new version when it dropped its noexcept. The older version does the same.
NEW_VERSION, OLD_VERSION, FUNCTION = "GLIBCXX_3.4.30", "GLIBCXX_3.4.11", "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE"


def output(*command: object) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def fail(message: str) -> None:
    sys.exit(f"package: {message}")


# ---------------------------------------------------------------- libraries

def needed(file: Path) -> list[str]:
    return re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-dW", file))


def collect_libraries(build: Path, stage: Path) -> list[Path]:
    """Copies the libraries that the programs need, directly or not, and returns where they come from."""
    paths = {}
    for program in (build / "dpo", build / "dpo-engine"):
        paths |= dict(re.findall(r"^\s*(\S+) => (/\S+)", output("ldd", program), re.MULTILINE))
    (stage / "lib").mkdir()
    left, sources = sorted((stage / "bin").iterdir()), []
    while left:
        for name in needed(left.pop()):
            copy = stage / "lib" / name
            if copy.exists() or SYSTEM.match(name) or TORCH.match(name):
                continue
            if name not in paths:
                fail(f"the library {name} was not found")
            shutil.copyfile(paths[name], copy)
            sources.append(Path(paths[name]))
            left.append(copy)
    return sources


def use_older_version(file: Path) -> None:
    """Makes a program or library ask for the older version of FUNCTION, so that it starts with libstdc++ of GCC 11."""
    symbols = re.findall(r"\bU (\S+)@" + NEW_VERSION, output("nm", "-D", "--with-symbol-versions", file))
    if not symbols:
        return
    if set(symbols) != {FUNCTION}:
        fail(f"{file.name} needs {NEW_VERSION} for {', '.join(symbols)}, so it would not start on RHEL 9")
    data = bytearray(file.read_bytes())
    sections = re.findall(r"\] (\S+) +\S+ +[0-9a-f]+ ([0-9a-f]+) ([0-9a-f]+)", output("readelf", "-SW", file))
    place = {name: int(offset, 16) for name, offset, _ in sections}
    found = {}  # version: offset of its record (hash, flags, index, name, next)
    record = place[".gnu.version_r"]
    while True:  # over the libraries that are needed
        _, _, _, first, following = struct.unpack_from("<HHIII", data, record)
        version = record + first
        while True:  # over the versions of one library
            _, _, _, name, more = struct.unpack_from("<IHHII", data, version)
            start = place[".dynstr"] + name
            found[bytes(data[start:data.index(0, start)]).decode()] = version
            if not more:
                break
            version += more
        if not following:
            break
        record += following
    if OLD_VERSION not in found:
        fail(f"{file.name} needs {NEW_VERSION}, but not {OLD_VERSION}, whose record would replace it")
    checksum, _, _, name, _ = struct.unpack_from("<IHHII", data, found[OLD_VERSION])
    struct.pack_into("<I", data, found[NEW_VERSION], checksum)
    struct.pack_into("<I", data, found[NEW_VERSION] + 8, name)
    file.write_bytes(data)


def newest(files: list[Path], prefix: str) -> tuple[int, ...]:
    """Returns the newest version of a system library's symbols that the files need."""
    found = {(0,)}
    for file in files:
        text = output("readelf", "-VW", file).partition("Version needs section")[2]
        found |= {tuple(map(int, version.split("."))) for version in re.findall(rf"\b{prefix}_([0-9.]+)", text)}
    return max(found)


def glibc_of(files: list[Path]) -> str:
    """Returns the oldest glibc on which the files run, as in the names of wheels. Packages of a release need GLIBC."""
    cxx = newest(files, "GLIBCXX")
    if cxx > tuple(map(int, LIBSTDCXX.split("_")[1].split("."))):
        print(f"package: warning: this needs GLIBCXX_{'.'.join(map(str, cxx))}, which RHEL 9 does not have", file=sys.stderr)
    glibc = max(newest(files, "GLIBC"), GLIBC)
    if glibc > GLIBC:
        print(f"package: warning: this needs glibc {glibc[0]}.{glibc[1]}; build on Debian 12 for glibc 2.34", file=sys.stderr)
    return f"{glibc[0]}_{glibc[1]}"


def collect_licenses(sources: list[Path], stage: Path) -> None:
    """Copies dpo's license and those of the libraries, which require it: a Debian package's, or a wheel's."""
    shutil.copyfile(ROOT / "LICENSE", stage / "LICENSE")
    folder = stage / "licenses"
    folder.mkdir()
    for source in sources:
        wheel = sorted(source.parent.parent.glob(f"{source.parent.name}-*.dist-info"))
        if wheel:
            found = [file for file in sorted(wheel[0].rglob("*")) if re.match("(LICENSE|NOTICE)", file.name)]
        else:
            package = owner_of(source)
            found = [Path("/usr/share/doc", package, "copyright")] if package else []
        found = [file for file in found if file.is_file()]
        if not found:
            print(f"package: warning: the license of {source} was not found", file=sys.stderr)
        for file in found:
            name = source.parent.name if wheel else file.parent.name
            shutil.copyfile(file, folder / f"{name}-{file.name}")


def owner_of(library: Path) -> str:
    """Returns the Debian package of a file. dpkg knows it by its path before /lib became a link to /usr/lib."""
    for path in (library.resolve(), Path(str(library.resolve()).removeprefix("/usr"))):
        done = subprocess.run(["dpkg-query", "-S", path], capture_output=True, text=True)
        if done.returncode == 0:
            return re.match(r"[^:,]+", done.stdout)[0]
    return ""


# ---------------------------------------------------------------- archives

def epoch() -> int:
    return max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), 315532800)  # a zip file begins in 1980


def files_below(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def mode_of(name: str) -> int:
    return 0o755 if re.search(r"(^|/)bin/[^/]+$", name) else 0o644


def write_wheel(path: Path, folder: Path) -> None:
    names = sorted(map(str, files_below(folder)), key=lambda name: (".dist-info/" in name, name))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name in names:
            entry = zipfile.ZipInfo(name, time.gmtime(epoch())[:6])
            entry.create_system = 3  # Unix: the mode is in the upper half
            entry.external_attr = (0o100000 | mode_of(name)) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, (folder / name).read_bytes())


def write_tarball(path: Path, folder: Path, top: str) -> None:
    with open(path, "wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=epoch()) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name in map(str, files_below(folder)):
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mtime, entry.mode = (folder / name).stat().st_size, epoch(), mode_of(name)
            with open(folder / name, "rb") as content:
                tar.addfile(entry, content)


def write_metadata(folder: Path, version: str, torch: str, tag: str) -> None:
    info = folder / f"dpo_cpp-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: dpo-cpp\nVersion: {version}\nSummary: A native trainer for preference optimization\n"
        f"License: Apache-2.0\nRequires-Python: >=3.10\nRequires-Dist: torch=={torch}\n"
        f"Description-Content-Type: text/markdown\n\n{(ROOT / 'README.md').read_text()}")
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: dpo-cpp ({version})\nRoot-Is-Purelib: false\nTag: {tag}\n")
    (info / "entry_points.txt").write_text("[console_scripts]\ndpo = dpo_cpp.__main__:main\n")
    digest = lambda path: urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).rstrip(b"=").decode()
    lines = [f"{name},sha256={digest(folder / name)},{(folder / name).stat().st_size}\n" for name in files_below(folder)]
    (info / "RECORD").write_text("".join(lines) + f"{info.name}/RECORD,,\n")


def write_sums(out: Path) -> None:
    packages = sorted(file for file in out.iterdir() if re.fullmatch(r"dpo[_-]cpp-.*\.(whl|tar\.gz)", file.name))
    (out / "SHA256SUMS").write_text(
        "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in packages))


# ---------------------------------------------------------------- package

def torch_of(build: Path) -> str:
    """Returns the version of the LibTorch that a build folder was configured with."""
    libtorch = Path(re.search(r"^LIBTORCH:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)[1])
    header = libtorch / "include/torch/headeronly/version.h"
    if not header.exists():
        fail(f"{build} was built without LibTorch, or with one older than 2.9: {header} is missing")
    return ".".join(re.search(rf"TORCH_VERSION_{part} (\d+)", header.read_text())[1] for part in ("MAJOR", "MINOR", "PATCH"))


def main(build: Path, out: Path) -> None:
    for program in ("dpo", "dpo-engine"):
        if not (build / program).exists():
            fail(f"{build}/{program} is missing: build it first (./run package)")
    torch = torch_of(build)
    cuda = re.search(r"libcudart\.so\.(\d+)", " ".join(needed(build / "dpo-engine")))
    version = (ROOT / "VERSION").read_text().strip() + ("" if cuda else "+cpu")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        stage = Path(scratch, "site", "dpo_cpp")
        subprocess.run(["cmake", "--install", build, "--prefix", stage, "--strip"], check=True, stdout=subprocess.DEVNULL)
        sources = collect_libraries(build, stage)
        programs = [stage / name for name in files_below(stage)]
        for program in programs:
            use_older_version(program)
        collect_licenses(sources, stage)
        (stage / "package.json").write_text(json.dumps({"torch": torch, "cuda": int(cuda[1]) if cuda else 0}) + "\n")
        name = f"dpo-cpp-{version}-linux-{platform.machine()}"
        made = [out / f"{name}.tar.gz"]
        write_tarball(made[0], stage, name)
        shutil.copytree(ROOT / "python" / "dpo_cpp", stage, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        tag = f"py3-none-manylinux_{glibc_of(programs)}_{platform.machine()}"
        write_metadata(stage.parent, version, torch, tag)
        made.append(out / f"dpo_cpp-{version}-{tag}.whl")
        write_wheel(made[1], stage.parent)
    write_sums(out)
    for file in made:
        print(f"{file}  {file.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())

"""The packages of this build, used from outside: a fresh environment into which pip installs the wheel, and the unpacked
tarball. Both get the torch of this build by links, as if pip had installed it next to dpo."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

from tiny_run import CONFIG, PROGRAM, make_data, make_tokenizer

SOURCE = Path(os.environ["DPO_SOURCE_DIR"])
VARIABLES = {name: value for name, value in os.environ.items() if name not in ("DPO_PROGRAM", "LIBTORCH", "PYTHONPATH", "LD_LIBRARY_PATH")}


def run(*words, **options):
    return subprocess.run([*map(str, words)], capture_output=True, text=True, **{"env": VARIABLES, **options})


def libtorch_of_this_build():
    return Path(json.loads(run(PROGRAM, "doctor", "--json").stdout)["libtorch"]["folder"])


def make_packages(out):
    done = run(sys.executable, SOURCE / "scripts" / "package.py", Path(PROGRAM).parent, out,
               env={**VARIABLES, "SOURCE_DATE_EPOCH": "1700000000"})
    assert done.returncode == 0, done.stderr
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.folder = Path(cls.scratch.name)
        cls.addClassCleanup(os.chdir, os.getcwd())
        os.chdir(cls.folder)  # runs keep their caches in the current folder
        cls.wheel, cls.tarball = make_packages(cls.folder / "dist")
        environment = cls.folder / "environment"
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        cls.pip = [environment / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
        subprocess.run([*cls.pip, cls.wheel], check=True, env=VARIABLES)
        cls.python, cls.dpo = environment / "bin" / "python", environment / "bin" / "dpo"
        cls.site = next(environment.glob("lib/python*/site-packages"))
        cls.torch = libtorch_of_this_build()
        cls.data, cls.model = cls.folder / "pairs.jsonl", cls.folder / "source"
        make_data(cls.data, 60)
        cls.model.mkdir()
        (cls.model / "config.json").write_text(json.dumps(CONFIG))
        make_tokenizer(cls.model)

    def setUp(self):
        for link in (self.site / "torch", self.site / "nvidia"):
            link.unlink(missing_ok=True)
        shutil.rmtree(self.folder / "torch", ignore_errors=True)

    def add_torch(self):
        for name in ("torch", "nvidia"):
            if (self.torch.parent / name).exists():
                (self.site / name).symlink_to(self.torch.parent / name)

    def check_trains(self, dpo, name, **options):
        model, folder = self.folder / f"model-{name}", self.folder / name
        for words in (["init", self.model, model],
                      ["train", f"model={model}", f"data={self.data}", "loss=dpo", f"local_run_dir={folder}", "n_examples=16",
                       "eval_every=null"]):
            done = run(dpo, *words, **options)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((folder / "LATEST" / "COMPLETE").exists())

    def test_equal_inputs_give_equal_bytes(self):
        again = make_packages(self.folder / "again")
        for first, second in zip((self.wheel, self.tarball), again, strict=True):
            self.assertEqual(first.name, second.name)
            self.assertTrue(first.read_bytes() == second.read_bytes(), first.name)
        sums = dict(reversed(line.split("  ")) for line in (self.folder / "dist" / "SHA256SUMS").read_text().splitlines())
        self.assertEqual(sums, {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in (self.wheel, self.tarball)})

    def test_the_wheel_is_complete(self):
        self.assertRegex(self.wheel.name, r"^dpo_cpp-[0-9.]+(\+cpu)?-py3-none-manylinux_2_\d+_(x86_64|aarch64)\.whl$")
        with zipfile.ZipFile(self.wheel) as wheel:
            self.assertIsNone(wheel.testzip())
            names = wheel.namelist()
            metadata = wheel.read(next(name for name in names if name.endswith("/METADATA"))).decode()
            package = json.loads(wheel.read("dpo_cpp/package.json"))
        self.assertIn(f"\nRequires-Dist: torch=={package['torch']}\n", metadata)
        self.assertFalse([name for name in names if re.search(r"lib(torch|c10|stdc\+\+|c\.so)|__pycache__", name)])
        self.assertFalse({file.name for file in (self.site / "dpo_cpp" / "lib").iterdir()} - {Path(name).name for name in names})
        libraries = run("ldd", self.site / "dpo_cpp" / "bin" / "dpo").stdout
        self.assertNotIn("not found", libraries)
        elsewhere = [path for path in re.findall(r"=> (/\S+)", libraries) if not path.startswith(str(self.site))]
        for path in elsewhere:
            self.assertRegex(path, r"/(lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s)\.so|ld-linux)[^/]*$")

    def test_without_torch_it_plans_and_says_what_is_missing(self):
        self.assertEqual(run(self.dpo, "--version").stdout, (SOURCE / "VERSION").read_text())
        self.assertIn("train a model", run(self.dpo, "help").stdout)
        self.assertEqual(run(self.dpo, "config", "lr").returncode, 0)
        missing = run(self.dpo, "train", f"model={self.model}", f"data={self.data}")
        self.assertEqual(missing.returncode, 1)
        self.assertRegex(missing.stderr, r"^error: this dpo needs torch [0-9.]+, and there is none in \S+/site-packages/torch: "
                                         r"python3 -m pip install torch==.*\n$")
        doctor = run(self.dpo, "doctor")
        self.assertEqual(doctor.returncode, 1)
        self.assertIn("this dpo needs torch", doctor.stdout)

    def test_another_torch_is_refused(self):
        other = self.site / "torch"
        (other / "lib").mkdir(parents=True)
        self.addCleanup(shutil.rmtree, other)
        (other / "lib" / "libtorch_cpu.so").touch()
        (other / "version.py").write_text("__version__ = '2.1.0+cu121'\n")
        done = run(self.dpo, "score", self.model, self.data)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^error: this dpo was built for torch [0-9.]+, and \S+/torch is torch 2.1.0\+cu121: .*\n$")

    def test_installed_with_torch_it_trains(self):
        self.add_torch()
        doctor = run(self.dpo, "doctor", "--json")
        self.assertEqual(doctor.returncode, 0, doctor.stdout)
        self.assertNotIn("not found", run("ldd", self.site / "dpo_cpp" / "bin" / "dpo-engine").stdout)
        report = json.loads(doctor.stdout)
        self.assertEqual(report["libtorch"]["folder"], str(self.torch.resolve()))
        if report["arrow"]:
            self.assertEqual(report["arrow"]["folder"], str((self.site / "dpo_cpp" / "lib").resolve()))
        self.assertNotIn("./run build", "".join(item["advice"] for item in report["missing"] if "MPI" not in item["what"]))
        self.check_trains(self.dpo, "wheel")

    def test_a_torch_elsewhere_in_the_path_of_python_is_found(self):
        (self.site / "elsewhere.pth").write_text(f"{self.torch.parent}\n")
        self.addCleanup((self.site / "elsewhere.pth").unlink)
        self.check_trains(self.dpo, "elsewhere")

    def test_the_module_plans_and_trains(self):
        self.add_torch()
        script = ("import sys, dpo_cpp as dpo; assert 'torch' not in sys.modules; "
                  "run = dpo.train(model=sys.argv[1], data=[{'prompt': '\u0100', 'chosen': '\u0101', 'rejected': '\u0102'}] * 20, "
                  "loss='dpo', local_run_dir=sys.argv[2], eval_every=None, n_examples=16, batch_size=4); print(run.finished)")
        model = self.folder / "model-module"
        self.assertEqual(run(self.dpo, "init", self.model, model).returncode, 0)
        done = run(self.python, "-c", script, model, self.folder / "module", env={**VARIABLES, "XDG_CACHE_HOME": str(self.folder / "cache")})
        self.assertEqual((done.returncode, done.stdout), (0, "True\n"), done.stderr)

    def test_the_tarball_trains_with_the_torch_of_libtorch(self):
        with tarfile.open(self.tarball) as tar:
            tar.extractall(self.folder / "unpacked", filter="data")
        dpo = next((self.folder / "unpacked").glob("*/bin/dpo"))
        refused = run(dpo, "train", f"model={self.model}", f"data={self.data}")
        self.assertIn("set LIBTORCH=DIR", refused.stderr)
        self.check_trains(dpo, "tarball", env={**VARIABLES, "LIBTORCH": str(self.torch)})


if __name__ == "__main__":
    if not Path(PROGRAM + "-engine").exists():
        print("not run: built without LibTorch")
        sys.exit(77)
    unittest.main()

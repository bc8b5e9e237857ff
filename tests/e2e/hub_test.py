"""Downloads into a cache shared with the Python client, over a network with faults, and the messages to users."""

import fcntl
import gzip
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

from hub_server import TOKEN, Hub
from on_the_hub import MODEL, OTHERS, SHARDED, SNAPSHOT, OnTheHub, main, noise
from tiny_run import HANGS, PROGRAM, STOPPED

CHUNK = 8 << 20  # equal to the value in src/hub/download.cpp


class Caches(OnTheHub):
    def test_the_layout_is_the_python_clients(self):
        commit = self.hub.add("model", "org/it", MODEL | SHARDED | OTHERS)
        (snapshot,) = self.fetch("org/it")
        self.assertEqual(snapshot, self.cache / "models--org--it/snapshots" / commit)
        needed = {**MODEL, **SHARDED}
        self.assertEqual({path.name for path in snapshot.iterdir()}, set(needed))
        for name, data in needed.items():
            self.assertEqual((snapshot / name).read_bytes(), data.encode() if isinstance(data, str) else data)
        other = self.folder / "other"
        self.python("org/it", "model", *needed, HF_HUB_CACHE=str(other))
        self.assertEqual(self.layout(self.cache), self.layout(other))

    def test_python_uses_what_dpo_downloaded(self):
        self.hub.add("model", "org/it", MODEL | SHARDED)
        self.hub.add("dataset", "org/rows", {"data/train.jsonl.gz": gzip.compress(b"{}")})
        self.fetch("org/it", "datasets/org/rows")
        before = len(self.hub.log)
        self.python("org/it")
        self.python("org/rows", "dataset")
        asked = [path for _, _, path, _ in self.hub.log[before:]]
        self.assertTrue(all("/revision/" in path for path in asked), asked)  # asks only whether there is a newer commit
        self.python("org/it", HF_HUB_OFFLINE="1")

    def test_dpo_uses_what_python_downloaded(self):
        self.hub.add("model", "org/it", MODEL | SHARDED)
        theirs = self.python("org/it")
        before = len(self.hub.log)
        self.dpo("tokenize", "org/it", HF_HUB_OFFLINE="1")
        self.dpo("tokenize", "org/it")
        self.assertEqual(len(self.hub.log), before)
        self.assertEqual(self.fetch("org/it"), [theirs])
        self.assertEqual(self.hub.requests("store"), [entry for entry in self.hub.log[:before] if entry[0] == "store"])

    def test_several_processes_download_a_file_once(self):
        data = noise(3 * CHUNK)
        self.hub.add("model", "org/it", MODEL | {"model.safetensors": data})
        self.hub.rate = 8 << 20
        command = [PROGRAM, "fetch", "org/it"]
        started = [subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
        started.append(subprocess.Popen([sys.executable, "-c", SNAPSHOT, "org/it", "model"], env=self.environment,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        outputs = [process.communicate() for process in started]
        self.assertEqual([process.returncode for process in started], [0] * 5, outputs)
        self.assertEqual(len({out for out, _ in outputs}), 1)
        self.assertEqual((Path(outputs[0][0].decode().strip()) / "model.safetensors").read_bytes(), data)
        self.assertLessEqual(len(self.hub.requests("store", "GET")), 3)

    def test_a_newer_revision_is_for_dpo_fetch(self):
        self.hub.add("model", "org/it", MODEL | SHARDED)
        (old,) = self.fetch("org/it")
        self.hub.add("model", "org/it", MODEL | SHARDED | {"generation_config.json": "{}"})
        self.dpo("tokenize", "org/it")
        self.assertEqual(self.cache.joinpath("models--org--it/refs/main").read_text(), old.name)
        (new,) = self.fetch("org/it")
        self.assertNotEqual(old, new)
        self.assertEqual(self.cache.joinpath("models--org--it/refs/main").read_text(), new.name)

    def test_what_is_missing_comes_from_the_cached_commit(self):
        self.hub.add("model", "org/it", MODEL | SHARDED)
        old = self.python("org/it", "model", "config.json", *SHARDED)
        self.hub.add("model", "org/it", MODEL | SHARDED | {"generation_config.json": "{}"})
        self.dpo("tokenize", "org/it")
        self.assertTrue((old / "tokenizer.json").exists())
        self.assertEqual([path.name for path in self.cache.joinpath("models--org--it/refs").iterdir()], ["main"])
        self.assertEqual(self.cache.joinpath("models--org--it/refs/main").read_text(), old.name)
        self.assertEqual(self.fetch("org/it", HF_HUB_OFFLINE="1"), [old])

    def test_a_cache_without_files_that_are_not_needed(self):
        self.hub.add("model", "org/it", MODEL | SHARDED | {"vocab.json": "{}"})
        cached = self.python("org/it", "model", "config.json", "tokenizer*", *SHARDED)
        for more in ({"HF_HUB_OFFLINE": "1"}, {"HF_ENDPOINT": "http://127.0.0.1:9"}):
            self.assertIn("model 'org/it' is used as it is in the cache, without vocab.json", self.dpo("tokenize", "org/it", **more).stderr)
        self.assertEqual(self.fetch("org/it", HF_HUB_OFFLINE="1"), [cached])
        self.assertNotIn("cache", self.dpo("tokenize", "org/it").stderr)
        self.assertTrue((cached / "vocab.json").exists())

    def test_a_commit_that_is_gone(self):
        self.hub.add("model", "org/it", MODEL | SHARDED)
        old = self.python("org/it", "model", "config.json")
        self.hub.add("model", "org/it", MODEL | SHARDED | {"generation_config.json": "{}"})
        del self.hub.commits["model", "org/it", old.name]
        shutil.rmtree(self.cache / "models--org--it/trees")
        self.assertIn("'dpo fetch org/it' downloads the newest", self.refused("tokenize", "org/it"))

    def test_revisions(self):
        main = self.hub.add("model", "org/it", MODEL | SHARDED)
        tag = self.hub.add("model", "org/it", MODEL | {"pytorch_model.bin": noise(100)}, "v1.0")
        self.assertEqual([path.name for path in self.fetch("org/it@v1.0", f"org/it@{main}")], [tag, main])
        self.assertEqual(self.cache.joinpath("models--org--it/refs/v1.0").read_text(), tag)
        self.dpo("tokenize", "org/it@v1.0", HF_HUB_OFFLINE="1")
        self.assertIn("'org/it' has no revision 'v9'", self.refused("fetch", "org/it@v9"))
        self.assertIn("is not a name on the Hugging Face hub", self.refused("fetch", "org/it@"))

    def test_a_repository_that_was_renamed(self):
        self.hub.add("model", "org/it", MODEL | SHARDED)
        self.hub.renamed = {"old": "org/it"}
        (snapshot,) = self.fetch("old")
        self.assertEqual(snapshot.parents[1], self.cache / "models--old")
        self.python("old", HF_HUB_CACHE=str(self.folder / "other"))
        self.assertEqual(self.layout(self.cache), self.layout(self.folder / "other"))

    def test_a_list_of_many_pages(self):
        self.hub.page_size = 2
        self.hub.add("model", "org/it", MODEL | SHARDED | OTHERS)
        (snapshot,) = self.fetch("org/it")
        self.assertTrue(all((snapshot / name).exists() for name in SHARDED))


class Faults(OnTheHub):
    def setUp(self):
        super().setUp()
        self.data = noise(3 * CHUNK + 12345)
        self.hub.add("model", "org/big", MODEL | {"model.safetensors": self.data})

    def check(self, **more):
        (snapshot,) = self.fetch("org/big", **more)
        self.assertTrue((snapshot / "model.safetensors").read_bytes() == self.data)
        self.assertFalse(list(self.cache.rglob("*.incomplete")))

    def test_rate_limits_are_obeyed(self):
        self.hub.faults = [("hub", "/revision/", (429, {"Retry-After": "2"})), ("store", "", (429, {"Retry-After": "1"}))]
        start = time.monotonic()
        self.check()
        self.assertGreaterEqual(time.monotonic() - start, 3)
        self.hub.faults = [("hub", "/revision/", (429, {"Retry-After": "4000"}))]
        self.assertIn("limits the number of requests (HTTP status 429): try again in 4000 s; with a token the limits are higher",
                      self.refused("fetch", "org/big"))

    def test_errors_of_the_server_pass(self):
        self.hub.faults = [("hub", "/tree/", (500, {})), ("hub", "/resolve/", (503, {})), ("store", "", (502, {})), ("store", "", (408, {}))]
        self.check()

    def test_errors_of_the_server_that_stay(self):
        self.hub.faults = [("hub", "/revision/", (500, {}))] * 10
        self.assertIn("has a problem (HTTP status 500): try again later", self.refused("fetch", "org/big"))

    def test_an_error_ends_the_waits_of_the_others(self):
        self.hub.faults = [("hub", "/tokenizer.json", (429, {"Retry-After": "300"})),
                           ("hub", "/resolve/", (404, {"X-Error-Code": "EntryNotFound"}))]
        start = time.monotonic()
        self.assertIn("the file is not on the hub", self.refused("fetch", "org/big"))
        self.assertLess(time.monotonic() - start, 300)

    def test_waiting_for_another_process_is_said(self):
        (sha256,) = (name for name, data in self.hub.contents.items() if data == self.data)
        lock = self.cache / ".locks/models--org--big" / f"{sha256}.lock"
        lock.parent.mkdir(parents=True)
        with open(lock, "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            with subprocess.Popen([PROGRAM, "fetch", "org/big"], env=self.environment, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True) as process:
                lines = []
                while not lines or "waiting for another process that downloads model.safetensors of org/big" not in lines[-1]:
                    lines.append(process.stderr.readline())
                    self.assertTrue(lines[-1], lines)
                fcntl.flock(file, fcntl.LOCK_UN)
                process.stderr.read()
        self.assertEqual(process.returncode, 0)
        self.check()

    def test_connections_that_end_early(self):
        self.hub.cut_off = 3
        self.check()

    def test_connections_that_stall(self):
        self.hub.stall = 1
        self.check(HF_HUB_DOWNLOAD_TIMEOUT="2")

    def test_a_store_without_ranges(self):
        self.hub.ranges = False
        self.check()

    def test_addresses_that_expire(self):
        self.hub.faults = [("store", "", (403, {}))] * 2
        self.check()

    def test_damaged_content_is_not_used(self):
        self.hub.corrupt = set(self.hub.contents)
        message = self.refused("fetch", "org/big")
        self.assertIn("model.safetensors was downloaded twice, and its content does not match its hash", message)
        self.assertFalse(list(self.cache.rglob("model.safetensors")))
        self.hub.corrupt = set()
        self.check()

    def interrupted(self, send):
        """Interrupts the process when it has a part of the first chunk and waits for the rest."""
        self.hub.hold = hold = threading.Event()
        self.addCleanup(hold.set)
        with subprocess.Popen([PROGRAM, "fetch", "org/big"], env=self.environment | {"HF_HUB_DOWNLOAD_TIMEOUT": str(HANGS)},
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while self.partial() < 1 << 20:
                self.assertIsNone(process.poll())
                time.sleep(0.05)
            send(process)
        self.hub.hold = None
        hold.set()
        kept = self.partial()
        self.assertGreaterEqual(kept, 1 << 20)
        before = len(self.hub.log)
        self.check()
        asked = [headers["Range"] for server, _, _, headers in self.hub.log[before:] if server == "store" and "Range" in headers]
        self.assertEqual(min(int(text.removeprefix("bytes=").split("-")[0]) for text in asked), kept)
        return process.returncode

    def test_ctrl_c_leaves_what_can_be_continued(self):
        self.assertEqual(self.interrupted(lambda process: process.send_signal(signal.SIGINT)), STOPPED)

    def test_so_does_sigkill(self):
        self.interrupted(lambda process: process.kill())

    def test_a_beginning_that_is_wrong_is_downloaded_again(self):
        self.test_so_does_sigkill()
        (blob,) = (path for path in self.cache.rglob("blobs/*") if path.stat().st_size == len(self.data))
        partial = blob.rename(blob.parent / f"{blob.name}.{socket.gethostname()}-0-0123abcd.incomplete")
        partial.write_bytes(b"x" * CHUNK)
        self.check()

    def test_progress(self):
        self.hub.rate = 1_000_000
        done = self.dpo("fetch", "org/big")
        self.assertRegex(done.stderr, r"downloading org/big: [\d.]+ MB of 25\.2 MB, [\d.]+ [kM]B/s, \d+ s left\n")


class Messages(OnTheHub):
    def test_names_that_are_not_there(self):
        message = self.refused("fetch", "org/none")
        self.assertIn(f"there is no model 'org/none' at {self.hub.url}/org/none, or it is private: check the name; if it is "
                      "private, set HF_TOKEN", message)
        self.assertIn("whether your token may read it", self.refused("fetch", "org/none", HF_TOKEN=TOKEN))
        self.assertIn("there is no data set 'org/none' at", self.refused("fetch", "datasets/org/none"))
        for command in (["tokenize", "org/none"], ["render", "org/none"], ["plan", "exp_name=x", "model.name_or_path=org/none"],
                        ["data", "model.name_or_path=org/none"]):
            self.assertIn("there is no model 'org/none' at", self.refused(*command))
        self.assertIn("'a b' is not a name on the Hugging Face hub", self.refused("fetch", "a b"))

    def test_gated(self):
        self.hub.add("model", "org/gated", MODEL | SHARDED)
        self.hub.gated = {"org/gated"}
        self.assertIn(f"model 'org/gated' is gated: accept its conditions at {self.hub.url}/org/gated, then set HF_TOKEN",
                      self.refused("fetch", "org/gated"))
        self.assertIn("is gated, and your token gives no access", self.refused("fetch", "org/gated", HF_TOKEN=TOKEN))

    def test_tokens(self):
        self.hub.add("model", "org/it", MODEL | SHARDED)
        self.assertIn("rejects your token: check HF_TOKEN", self.refused("fetch", "org/it", HF_TOKEN="hf_wrong"))
        self.folder.joinpath("home").mkdir()
        self.folder.joinpath("home/token").write_text(TOKEN + "\n")
        self.hub.log.clear()
        self.fetch("org/it")
        of = lambda server: {headers.get("Authorization") for _, _, _, headers in self.hub.requests(server)}
        self.assertEqual(of("hub"), {f"Bearer {TOKEN}"})
        self.assertEqual(of("store"), {None})

    def test_offline(self):
        self.hub.add("model", "org/it", MODEL | SHARDED)
        offline = {"HF_HUB_OFFLINE": "1"}
        self.assertIn("model 'org/it' is not in the Hugging Face cache", self.refused("fetch", "org/it", **offline))
        self.assertIn("run 'HF_HUB_OFFLINE=0 dpo fetch org/it' where the hub can be reached",
                      self.refused("fetch", "org/it", **offline))
        self.assertIn("download it with 'HF_HUB_OFFLINE=0 dpo fetch org/it'",
                      self.refused("plan", "model.name_or_path=org/it", "exp_name=x", **offline))
        self.assertEqual(self.hub.log, [])
        self.fetch("--small", "org/it")
        self.assertIn("is not completely in the Hugging Face cache", self.refused("fetch", "org/it", **offline))
        self.fetch("org/it")
        self.assertEqual(self.fetch("org/it"), self.fetch("org/it", **offline))

    def test_unreachable(self):
        message = self.refused("fetch", "org/it", HF_ENDPOINT="http://127.0.0.1:9")
        self.assertIn("cannot reach http://127.0.0.1:9: ", message)
        self.assertIn("HF_ENDPOINT=127.0.0.1:9: expected an address that begins with https:// or http://",
                      self.refused("fetch", "org/it", HF_ENDPOINT="127.0.0.1:9"))

    @unittest.skipUnless(shutil.which("openssl"), "no openssl")
    def test_certificates_are_checked(self):
        both = self.folder / "both.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
                        "-subj", "/CN=hub", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", both, "-out", "certificate.pem"],
                       check=True, capture_output=True, cwd=self.folder)
        certificate = self.folder / "certificate.pem"
        both.write_text(both.read_text() + certificate.read_text())
        secure = Hub(both)
        self.addCleanup(secure.close)
        secure.add("model", "org/it", MODEL | SHARDED)
        self.assertIn(f"the certificate of {secure.url} is not trusted", self.refused("fetch", "org/it", HF_ENDPOINT=secure.url))
        self.assertEqual(secure.log, [])
        self.fetch("org/it", HF_ENDPOINT=secure.url, SSL_CERT_FILE=str(certificate))

    def test_not_a_hub(self):
        self.hub.faults = [("hub", "/revision/", (200, {}))]
        self.assertIn("not a response of a Hugging Face hub", self.refused("fetch", "org/it"))

    def test_a_disk_that_is_too_small(self):
        self.hub.add("model", "org/it", MODEL | {"model.safetensors": noise(100)})
        self.hub.sizes = {"model.safetensors": 1 << 49}
        self.assertRegex(self.refused("fetch", "org/it"), r"the download needs 563 TB, and .* has only .* free: free some space, or "
                                                          r"set HF_HUB_CACHE=DIR")

    def test_a_cache_that_cannot_be_written(self):
        self.hub.add("model", "org/it", MODEL | SHARDED)
        self.assertIn("cannot create /proc/x", self.refused("fetch", "org/it", HF_HUB_CACHE="/proc/x"))

    def test_adapters(self):
        self.hub.add("model", "org/it", {"adapter_config.json": b"{}", "adapter_model.safetensors": noise(100),
                                         "adapter_model.bin": noise(100), "optimizer.pt": noise(100)})
        folder, = self.fetch("org/it")
        self.assertEqual({path.name for path in folder.iterdir()}, {"adapter_config.json", "adapter_model.safetensors"})

    def test_models_without_weights(self):
        self.hub.add("model", "org/it", MODEL | {"model.gguf": b"x"})
        self.assertIn("has no weights that dpo reads: expected model.safetensors or pytorch_model.bin, several files with an "
                      "index, or an adapter; it has model.gguf", self.refused("fetch", "org/it"))


if __name__ == "__main__":
    main()

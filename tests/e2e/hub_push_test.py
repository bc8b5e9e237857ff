"""dpo push: the files it uploads, uploads that fail or are interrupted, and the Python client that reads the result."""

import hashlib
import json
import re
import signal
import subprocess
import sys
import time

from hub_server import READ_TOKEN, TOKEN
from on_the_hub import INDEX, MODEL, SHARDED, SHARDS, OnTheHub, main, noise
from tiny_run import PROGRAM, STOPPED

UPLOAD = """
import sys
from huggingface_hub import HfApi
api = HfApi()
api.create_repo(sys.argv[1])
print(api.upload_folder(repo_id=sys.argv[1], folder_path=sys.argv[2]).oid)
"""
WHOLE = {"model.safetensors": noise(20_000)}


class Pushes(OnTheHub):
    def setUp(self):
        super().setUp()
        self.environment["HF_TOKEN"] = TOKEN
        self.run_folder = self.folder / "secret" / "run"
        self.model = MODEL | {"chat_template.jinja": "{{ messages }}", "generation_config.json": '{"eos_token_id": 1}'}
        self.write_run({**self.model, **WHOLE})

    def write_run(self, files, examples=320):
        """Writes the folder of a run with one checkpoint."""
        checkpoint = self.run_folder / f"step-{examples}"
        files = {name: data.encode() if isinstance(data, str) else data for name, data in files.items()}
        files |= {"state/optimizer.safetensors": noise(100), "state/run.json": json.dumps({"examples": examples, "updates": 10}).encode()}
        for name, data in files.items():
            path = checkpoint / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        marker = {name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)} for name, data in files.items()}
        (checkpoint / "COMPLETE").write_text(json.dumps({"files": marker}))
        latest = self.run_folder / "LATEST"
        latest.unlink(missing_ok=True)
        latest.symlink_to(checkpoint.name)
        keys = ["exp_name=secret_name", f"model.name_or_path={self.folder}/base", f"datasets=[{self.folder}/pairs.jsonl,hh]", "loss=dpo",
                "loss.beta=0.1", "+hf_token=hf_secret", f"local_dirs=[{self.folder}]", f"model.archive={self.folder}/sft/LATEST"]
        (self.run_folder / "config.yaml").write_text(self.dpo("config", *keys).stdout)
        evaluations = [{"loss/eval": loss, "rewards_eval/accuracies": right, "rewards_eval/margins": margin, "counters/eval_examples": 64,
                        "counters/examples": seen} for seen, loss, right, margin in ((0, 0.6931, 0, 0), (160, 0.5, 0.75, 0.4), (320, 0.4, 0.9, 1))]
        (self.run_folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in evaluations))
        (self.run_folder / "samples").mkdir(exist_ok=True)
        (self.run_folder / "samples/step-320.jsonl").write_text("private rows")

    def push(self, *arguments, name="org/it", **more):
        return self.dpo("push", self.run_folder, name, *arguments, **more)

    def refused(self, *arguments, **more):
        return super().refused("push", self.run_folder, "org/it", *arguments, **more)

    def on_the_hub(self, name="org/it", revision="main"):
        return self.hub.commits["model", name, self.hub.repositories["model", name][revision]]

    def sent(self):
        """Returns the number of uploads of each content, by its hash."""
        return [re.match(r"/upload/(\w+)", path)[1] for _, _, path, _ in self.hub.requests("store", "PUT")]

    def check(self, files=None):
        files = {name: data.encode() if isinstance(data, str) else data for name, data in (files or {**self.model, **WHOLE}).items()}
        there = self.on_the_hub()
        self.assertEqual(set(there), {*files, "README.md", ".gitattributes"})
        for name, data in files.items():
            self.assertEqual(there[name], data, name)


class Contents(Pushes):
    def test_a_run_and_again(self):
        done = self.push("--private")
        commit = self.hub.repositories["model", "org/it"]["main"]
        self.assertEqual(done.stdout, f"{self.hub.url}/org/it/commit/{commit}\n")
        self.assertIn(f"created the private model {self.hub.url}/org/it", done.stderr)
        self.assertIn("20.0 kB of large files sent", done.stderr)
        self.assertEqual(self.hub.uploads.private, {"org/it"})
        self.check()
        self.assertEqual({headers.get("Authorization") for _, _, _, headers in self.hub.requests("store")}, {None})
        self.hub.log.clear()
        done = self.push()
        self.assertEqual(done.stdout, f"{self.hub.url}/org/it/commit/{commit}\n")
        self.assertIn("org/it is already up to date", done.stderr)
        self.assertEqual(self.sent(), [])
        self.assertFalse([path for _, _, path, _ in self.hub.log if "/commit/" in path or "create" in path])

    def test_generation_stops_at_the_end_of_an_answer(self):
        files = {**self.model, **WHOLE}
        del files["generation_config.json"]
        (self.run_folder / "LATEST" / "generation_config.json").unlink()
        for file, pushed in ((None, {"eos_token_id": [1]}), ({"eos_token_id": 0, "top_p": 0.5}, {"eos_token_id": [0, 1], "top_p": 0.5})):
            self.write_run(files | ({"generation_config.json": json.dumps(file)} if file else {}))
            done = self.push()
            self.assertIn(f"generation_config.json is pushed with eos_token_id {pushed['eos_token_id']}", " ".join(done.stderr.split()))
            self.assertEqual(json.loads(self.on_the_hub()["generation_config.json"]), pushed)
        self.write_run(self.model | WHOLE | {"chat_template.jinja": "{% not a template"})
        self.assertIn("generation_config.json is pushed as it is, since it is not known how an answer ends:",
                      " ".join(self.push().stderr.split()))
        self.assertEqual(self.on_the_hub()["generation_config.json"], b'{"eos_token_id": 1}')

    def test_python_downloads_it(self):
        self.push()
        snapshot = self.python("org/it")
        checkpoint = self.run_folder / "LATEST"
        for name in {**self.model, **WHOLE}:
            self.assertEqual((snapshot / name).read_bytes(), (checkpoint / name).read_bytes())
        self.assertEqual(self.fetch("org/it"), [snapshot])

    def test_python_uploads_to_the_same_server(self):
        folder = self.run_folder / "LATEST"
        for part_size in (1 << 40, 6000):
            self.hub.uploads.part_size = part_size
            self.hub.contents.clear()
            done = subprocess.run([sys.executable, "-c", UPLOAD, f"org/theirs{part_size}", folder], capture_output=True, text=True,
                                  env=self.environment | {"HF_HUB_DISABLE_XET": "1"})
            self.assertEqual(done.returncode, 0, done.stderr[-3000:])
            there = self.on_the_hub(f"org/theirs{part_size}")
            self.assertEqual(there["model.safetensors"], WHOLE["model.safetensors"])
            self.assertIn("state/run.json", there)

    def test_weights_in_several_files_replace_one(self):
        self.push()
        files = {**self.model, **SHARDED}
        self.write_run(files, 640)
        self.assertIn("removing model.safetensors: weights that the model no longer has", self.push().stderr)
        self.check(files)

    def test_parts(self):
        for part_size in (6000, 5000):  # with and without a smaller last part
            with self.subTest(part_size):
                self.hub.uploads.part_size = part_size
                self.hub.contents.clear()
                self.hub.repositories.clear()
                self.hub.log.clear()
                self.push()
                self.check()
                self.assertEqual(len(self.sent()), 4)

    def test_branches(self):
        self.push("--revision", "trial")
        self.assertEqual(set(self.on_the_hub()), {".gitattributes"})
        self.assertIn(b'"org/it", revision="trial"', self.on_the_hub(revision="trial")["README.md"])
        self.assertIn("org/it@trial is already up to date", self.push(name="org/it@trial").stderr)
        self.assertIn("expected a branch", self.refused("--revision", "0" * 40))

    def test_folders(self):
        best = self.run_folder / "BEST"
        self.assertIn("has no BEST; the key best_metric makes it", self.refused("--best"))
        self.write_run({**self.model, "model.safetensors": noise(10)}, 160)
        best.symlink_to("step-320")
        self.push("--best")
        self.check()
        folder = self.folder / "plain"
        folder.mkdir()
        for name, data in {**self.model, **SHARDED, "optimizer.pt": b"x", "rows.jsonl": b"x"}.items():
            (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
        done = self.dpo("push", folder, "alice/plain")
        self.assertIn("is not a checkpoint of a run, so the card says nothing about its training", done.stderr)
        self.assertEqual(set(self.on_the_hub("alice/plain")), {*self.model, *SHARDED, "README.md", ".gitattributes"})
        (folder / sorted(SHARDS)[0]).unlink()
        refused = lambda: OnTheHub.refused(self, "push", folder, "alice/plain")
        self.assertIn(f"{INDEX} names {sorted(SHARDS)[0]}, which is missing", refused())
        (folder / "config.json").unlink()
        self.assertIn("has no config.json, so it is not a Hugging Face model", refused())

    def test_damaged_and_incomplete_checkpoints(self):
        weights = self.run_folder / "step-320/model.safetensors"
        weights.write_bytes(noise(20_000, 2))
        self.assertIn("the file is damaged: its SHA-256 is", self.refused())
        self.assertEqual(self.hub.requests(method="POST"), [])  # not even a repository is created
        (self.run_folder / "step-320/COMPLETE").unlink()
        self.assertIn("is not a complete checkpoint", self.refused())


class Faults(Pushes):
    def setUp(self):
        super().setUp()
        self.shards = {f"model-0000{i}-of-00006.safetensors": noise(300_000 + i, i) for i in range(1, 7)}
        self.files = {**self.model, **self.shards, INDEX: json.dumps({"weight_map": {f"w{i}": name for i, name in enumerate(self.shards)}})}
        self.write_run(self.files, 640)

    def test_an_interrupted_push_continues(self):
        self.hub.uploads.let_through = 3
        self.addCleanup(self.hub.uploads.hold.set)
        with subprocess.Popen([PROGRAM, "push", self.run_folder, "org/it"], env=self.environment, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as process:
            while len(self.hub.contents) < 3:
                self.assertIsNone(process.poll())
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            self.assertIn("run the command again to continue", process.stderr.read())
        self.assertEqual(process.returncode, STOPPED)
        hashes = {hashlib.sha256(data).hexdigest() for data in self.shards.values()}
        missing = hashes - set(self.hub.contents)
        self.assertEqual(len(missing), 3)
        self.assertEqual(set(self.on_the_hub()), {".gitattributes"})
        self.hub.uploads.let_through = None
        self.hub.uploads.hold.set()
        self.hub.log.clear()
        self.push()
        self.assertEqual(sorted(self.sent()), sorted(missing))
        self.check(self.files)

    def test_rate_limits_are_obeyed(self):
        self.hub.faults = [("hub", "/preupload/", (429, {"Retry-After": "1"})), ("hub", "/batch", (429, {"Retry-After": "1"})),
                           ("store", "/upload/", (429, {"Retry-After": "1"})), ("hub", "/commit/", (429, {"Retry-After": "1"}))]
        start = time.monotonic()
        self.push()
        self.assertGreaterEqual(time.monotonic() - start, 4)
        self.check(self.files)
        self.hub.faults = [("hub", "/preupload/", (429, {"Retry-After": "4000"}))]
        self.assertIn("limits the number of requests (HTTP status 429): try again in 4000 s", self.refused())

    def test_errors_of_the_server_pass(self):
        self.hub.uploads.part_size = 100_000
        self.hub.faults = [("hub", "/preupload/", (500, {})), ("hub", "/batch", (502, {})), ("store", "/upload/", (500, {})),
                           ("store", "/upload/", (503, {})), ("hub", "/complete/", (504, {})), ("hub", "/verify", (500, {})),
                           ("hub", "/commit/", (503, {}))]
        self.push()
        self.check(self.files)

    def test_errors_of_the_server_that_stay(self):
        self.hub.faults = [("store", "/upload/", (500, {}))] * 40
        self.assertIn("has a problem (HTTP status 500): try again later; what was uploaded is kept", self.refused())

    def test_addresses_that_expire(self):
        for part_size in (1 << 40, 100_000):
            self.hub.uploads.part_size = part_size
            self.hub.contents.clear()
            self.hub.repositories.clear()
            self.hub.faults = [("store", "/upload/", (403, {}))] * 2
            self.push()
            self.check(self.files)
            self.assertEqual(self.hub.faults, [])
        self.hub.contents.clear()
        self.hub.repositories.clear()
        self.hub.faults = [("store", "/upload/", (403, {}))] * 50
        self.assertRegex(self.refused(), r"the store of large files rejected model-0000\d-of-00006.safetensors 3 times \(HTTP status 403\)")

    def test_a_commit_without_an_answer_is_not_repeated(self):
        self.hub.uploads.lost_commits = 1
        done = self.push()
        self.assertIn("pushed 13 files to org/it", done.stderr)
        commit = done.stdout.strip().rpartition("/")[2]
        self.assertEqual(commit, self.hub.repositories["model", "org/it"]["main"])
        self.check(self.files)
        self.assertEqual(len([path for _, _, path, _ in self.hub.log if "/commit/" in path]), 1)

    def test_parts_without_tags(self):
        self.hub.uploads.part_size = 100_000
        self.hub.uploads.part_headers = False
        self.assertIn("answered without an ETag for part", self.refused())

    def test_contents_that_are_refused(self):
        self.hub.uploads.refused = {hashlib.sha256(self.shards["model-00003-of-00006.safetensors"]).hexdigest()}
        self.assertRegex(self.refused(), r"refuses model-00003-of-00006.safetensors \(300003 bytes, SHA-256 \w{64}\): this content is not allowed")
        self.assertEqual(self.sent(), [])

    def test_contents_that_arrive_damaged(self):
        self.hub.uploads.damage = 1
        self.assertRegex(self.refused(), r"rejects the uploaded model-0000\d-of-00006.safetensors \(HTTP status 422\): the content "
                                         "does not match its hash")
        self.assertEqual(set(self.on_the_hub()), {".gitattributes"})
        self.push()
        self.check(self.files)

    def test_other_protocols(self):
        self.hub.uploads.transfer = "xet"
        self.assertIn("accepts large files only with the transfer 'xet', but dpo supports only 'basic' and 'multipart'", self.refused())

    def test_files_in_gitignore(self):
        self.hub.uploads.ignored = {"tokenizer_config.json"}
        self.assertIn("tokenizer_config.json is not pushed: the repository's .gitignore excludes it", self.push().stderr)
        self.assertNotIn("tokenizer_config.json", self.on_the_hub())
        self.hub.uploads.ignored = {"model-00002-of-00006.safetensors"}
        self.write_run(self.files | {"model-00002-of-00006.safetensors": noise(7)}, 700)
        self.assertIn(".gitignore excludes model-00002-of-00006.safetensors, so the model would be without weights", self.refused())

    def test_progress(self):
        self.hub.uploads.rate = 60_000
        self.assertRegex(self.push().stderr, r"uploading to org/it: [\d.]+ [kM]B of 1\.8 MB, [\d.]+ kB/s, \d+ s left\n")


class Refusals(Pushes):
    def test_tokens(self):
        self.assertIn(f"push: no token: create one with the role 'write' at {self.hub.url}/settings/tokens, then set HF_TOKEN",
                      self.refused(HF_TOKEN=""))
        self.assertEqual(self.hub.log, [])
        self.assertIn("rejects your token: check HF_TOKEN", self.refused(HF_TOKEN="hf_wrong"))
        read_only = "your token can only read: create one with the role 'write' at"
        self.assertIn(read_only, self.refused(HF_TOKEN=READ_TOKEN))
        self.push()
        self.write_run({**self.model, "model.safetensors": noise(7)}, 640)
        self.assertIn(read_only, self.refused(HF_TOKEN=READ_TOKEN))

    def test_names_of_others(self):
        message = OnTheHub.refused(self, "push", self.run_folder, "bob/it")
        self.assertIn("your token may not write there: 'bob' is neither your account (alice) nor one of your organizations (org): push to "
                      "alice/it", message)
        self.assertIn("(the hub says: You don't have the rights", message)
        self.hub.faults = [("hub", "/preupload/", (403, {"X-Error-Message": "the storage is full"}))]
        self.assertIn("your token may not write there (the hub says: the storage is full)", self.refused())
        for name in ("it", "a b/c", "org/it@"):
            self.assertIn("is not a name that a model can have on the hub", OnTheHub.refused(self, "push", self.run_folder, name))

    def test_private_is_for_new_repositories(self):
        self.push("--private")
        self.push("--private")
        self.hub.uploads.private.clear()
        commits = len(self.hub.commits)
        for more in ([], ["--revision", "trial"]):
            self.assertIn("model 'org/it' exists and is public, so --private would not hide what is pushed", self.refused("--private", *more).replace("@trial", ""))
        self.hub.uploads.says_visibility = False
        self.assertIn("exists and the hub does not say who can see it", self.refused("--private"))
        self.assertEqual((len(self.hub.commits), list(self.hub.repositories["model", "org/it"])), (commits, ["main"]))

    def test_private_if_somebody_else_creates_the_repository(self):
        self.hub.faults = [("hub", "/revision/", (404, {"X-Error-Code": "RepoNotFound"}))]
        self.hub.add("model", "org/it", {".gitattributes": ""})
        self.assertIn("exists and is public", self.refused("--private"))
        self.assertEqual(set(self.on_the_hub()), {".gitattributes"})

    def test_the_owner_decides_who_sees_a_new_repository(self):
        self.hub.uploads.default = "private"
        self.assertIn("created the private model", self.push().stderr)
        self.hub.uploads.default = "public"
        self.assertIn("created the public model", self.push(name="org/other").stderr)

    def test_no_network(self):
        self.assertIn("HF_HUB_OFFLINE forbids requests to the hub", self.refused(HF_HUB_OFFLINE="1"))
        message = self.refused(HF_ENDPOINT="http://127.0.0.1:9")
        self.assertIn("cannot reach http://127.0.0.1:9: ", message)
        self.assertNotIn("folder instead", message)

    def test_folders_that_are_none(self):
        self.assertIn("is not a folder; expected a run", OnTheHub.refused(self, "push", "nowhere", "org/it"))
        (self.run_folder / "LATEST").unlink()
        self.assertIn("has no checkpoint yet", self.refused())


if __name__ == "__main__":
    main()

"""Tests dpo serve with a plain HTTP client: runs and their status, live events, examples, and answers to hostile
requests."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

from report_runs import HOSTILE, TIME, lines
from serve_server import Events, Server, ServedRuns, skip_without_server
from tiny_run import PROGRAM, TinyRuns


class Serve(ServedRuns):
    def test_runs_and_their_status(self):
        self.make_run("finished")
        running = self.make_run("group/running")
        (running / "log.txt").write_text(f"{TIME}run folder x\n")
        failed = self.make_run("failed")
        (failed / "log.txt").write_text(f"{TIME}run folder x\n{TIME}error: update 4: loss is NaN\n")
        server = self.serve()
        runs = {run["name"]: run for run in server.json("/api/runs")}
        self.assertEqual({name: run["status"] for name, run in runs.items()},
                         {"finished": "finished", "group/running": "running", "failed": "failed"})
        self.assertEqual(runs["finished"]["values"]["rewards_eval/accuracies"], 0.72)
        self.assertIn("loss is NaN", runs["failed"]["reason"])
        view = server.json(f"/api/runs/{runs['finished']['id']}")
        self.assertTrue(view["learned"].startswith("Yes: after 320 examples"))
        self.assertIn("plan: lr: plain", view["findings"])
        self.assertIn(["loss.beta", "0.1"], view["settings"])
        for secret in ("secret_name", str(self.folder)):
            self.assertNotIn(secret, json.dumps([view, runs]))
        # A run that starts later appears, and one that is removed disappears.
        self.make_run("later")
        shutil.rmtree(failed)
        events = Events(server, [])
        while {run["name"] for run in events.next("runs")} != {"finished", "group/running", "later"}:
            pass
        events.close()

    def test_points_arrive_while_a_run_writes(self):
        run = self.make_run("run")
        server = self.serve()
        identifier = self.id_of(server, "run")
        events = Events(server, [identifier])
        first = events.next("points")
        self.assertEqual((first["run"], first["again"]), (identifier, True))
        self.assertEqual(first["metrics"]["loss/eval"], [[0, 160, 320], [0.6931, 0.34655, 0.231033]])
        for i in range(3):
            with open(run / "metrics.jsonl", "a") as metrics:
                metrics.write(json.dumps({"loss/train": i, "counters/examples": 400 + i}) + "\n")
            self.assertEqual(events.next("points"), {"run": identifier, "again": False, "metrics": {"loss/train": [[400 + i], [i]]}})
        # A resumed run replaces the file.
        kept = (run / "metrics.jsonl").read_text().splitlines()[0]
        (run / "new").write_text(kept + "\n")
        os.rename(run / "new", run / "metrics.jsonl")
        again = events.next("points")
        self.assertTrue(again["again"])
        self.assertEqual(again["metrics"]["loss/eval"], [[0], [0.6931]])
        events.close()

    def test_only_new_lines_are_read(self):
        """The server never reads old lines again, so changing them in place has no effect."""
        run = self.make_run("run")
        server = self.serve()
        events = Events(server, [self.id_of(server, "run")])
        events.next("points")
        text = (run / "metrics.jsonl").read_text()
        with open(run / "metrics.jsonl", "r+") as metrics:
            metrics.write("#" * 20)  # overwrites the first line
            metrics.seek(len(text))
            metrics.write('{"grad_norm": 7, "counters/examples": 999}\n')
        self.assertEqual(events.next("points")["metrics"], {"grad_norm": [[999], [7]]})
        events.close()

    def test_examples_and_samples(self):
        self.make_run("run", HOSTILE)
        server = self.serve()
        base = f"/api/runs/{self.id_of(server, 'run')}"
        view = server.json(base + "/examples?order=worst")
        self.assertEqual((view["found"], view["step"], view["examples"][0]["example"]), (40, 320, 0))
        self.assertIn(HOSTILE, view["examples"][0]["prompt"]["turns"][0]["text"])
        self.assertEqual(server.json(base + "/examples?filter=GOOD%2039")["found"], 1)
        self.assertEqual(server.json(base + "/examples?filter=%3Cscript%3Ealert(2)")["found"], 40)
        self.assertEqual(server.json(base + "/examples?step=160")["step"], 160)
        self.assertEqual(server.json(base + "/samples")["samples"][1]["policy"]["turns"][0]["text"], f"policy 2 {HOSTILE}")
        status, headers, text = server.ask(base + "/report")
        self.assertEqual((status, headers["Content-Security-Policy"]), (200, "sandbox allow-scripts; frame-ancestors 'none'"))
        self.assertIn("Did it learn?", text)

    def test_hostile_paths(self):
        self.make_run("run")
        (self.folder / "secret.txt").write_text("secret text")
        server = self.serve()
        identifier = self.id_of(server, "run")
        for path in ("/secret.txt", "/../secret.txt", "/..%2fsecret.txt", "/%2e%2e/secret.txt", "/.", "/..", "//etc/passwd", "/etc/passwd", "/run/",
                     "/run/config.yaml", f"/api/runs/{identifier}/../../secret.txt", f"/api/runs/{identifier}/..%2f..%2fsecret.txt",
                     "/api/runs/..%2fsecret.txt", "/api/runs/%00", "/serve.js%00.txt", "/api/runs/" + "a" * 5000, "/a%0ab", "/\\..\\secret.txt",
                     f"/api/runs/{identifier}/config.yaml", "/index.html", "/api/", "http://127.0.0.1/secret.txt"):
            status, _, text = server.ask(path)
            self.assertEqual(status, 404, path)
            self.assertNotIn("secret text", text)
        for path in ("/" + "a" * 100_000, "no-slash", ""):
            self.assertIn(self.raw(server, f"GET {path} HTTP/1.1\r\nHost: {server.host}\r\nConnection: close\r\n\r\n"), (400, 404, 414), path[:20])
        for text in ("GET /\r\n\r\n", "\x00\x01\r\n\r\n", "GET / HTTP/9\r\n\r\n", f"GET / HTTP/1.1\r\nHost: {server.host}\r\nRange: bytes=0-1\r\n\r\n"):
            self.assertEqual(self.raw(server, text), 400, text)
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "POST"):
            self.assertEqual(server.ask("/api/runs", method)[0], 405, method)
        self.assertEqual(server.json("/api/runs")[0]["name"], "run")  # the server still answers

    def raw(self, server, text):
        """Sends these bytes. Returns the status of the answer."""
        connection = server.connect()
        connection.connect()
        connection.sock.sendall(text.encode("latin-1"))
        answer = connection.sock.recv(100)
        connection.close()
        return int(answer.split()[1]) if answer else None

    def test_a_body_is_not_a_request(self):
        """Another web site may send any body. The server must not take it for the next request, with the page's
        headers."""
        server = self.serve()
        body = f"POST /api/try HTTP/1.1\r\nHost: {server.host}\r\nOrigin: http://{server.host}\r\nContent-Length: 2\r\n\r\n{{}}"
        for path in ("/", "/api/try", "/nowhere"):
            connection = server.connect()
            connection.connect()
            connection.sock.sendall(f"POST {path} HTTP/1.1\r\nHost: {server.host}\r\nOrigin: http://evil.example\r\n"
                                    f"Content-Length: {len(body)}\r\n\r\n".encode())
            text = connection.sock.recv(10_000)
            with contextlib.suppress(OSError):  # the server may have closed the connection
                connection.sock.sendall(body.encode())
                while part := connection.sock.recv(10_000):
                    text += part
            connection.close()
            self.assertIn(int(text.split()[1]), (403, 405))
            self.assertEqual(text.count(b"HTTP/1.1 "), 1, text)

    def test_hosts(self):
        """A web site whose name resolves to this machine gets no data."""
        self.make_run("run")
        server = self.serve()
        port = server.host.split(":")[1]
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", "localhost", "localhost:9999", f"[::1]:{port}"):
            self.assertEqual(server.ask("/api/runs", Host=host)[0], 200, host)
        for host in ("evil.example", f"evil.example:{port}", "localhost.evil.example", "", None):
            self.assertEqual(server.ask("/api/runs", Host=host)[0], 421, host)

    def test_headers(self):
        self.make_run("run")
        server = self.serve()
        for path in ("/", "/api/runs", "/nowhere", "/serve.js"):
            headers = server.ask(path)[1]
            policy = headers["Content-Security-Policy"]
            for part in ("default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"):
                self.assertIn(part, policy)
            self.assertNotIn("unsafe", policy)
            self.assertEqual((headers["X-Content-Type-Options"], headers["Referrer-Policy"], headers["Cache-Control"]), ("nosniff", "no-referrer", "no-store"))
            self.assertEqual(headers["Cross-Origin-Resource-Policy"], "same-origin")
            self.assertIsNone(headers["Access-Control-Allow-Origin"])
        self.assertIn("MIT License", server.ask("/uplot-license.txt")[2])

    def test_a_token_for_other_addresses(self):
        self.make_run("run")
        server = self.serve("--host", "0.0.0.0", self.folder)
        token = server.address.split("?token=")[1]
        self.assertEqual(len(token), 32)
        host = f"127.0.0.1:{server.host.split(':')[1]}"
        for path, headers in (("/", {}), ("/api/runs", {}), ("/?token=wrong", {}), ("/api/events", {}), ("/?token=", {}), ("/nowhere", {}),
                              ("/", {"Cookie": f"other={token}"}), ("/", {"Authorization": "Bearer wrong"}), ("/", {"Authorization": token})):
            status, _, text = server.ask(path, Host=host, **headers)
            self.assertEqual(status, 401, path)
            self.assertIn("open the address that dpo serve printed", text)
        self.assertEqual(server.ask("/api/try", "POST", "{}", Host=host, Origin=f"http://{host}")[0], 401)
        status, headers, _ = server.ask(f"/?token={token}", Host=host)
        self.assertEqual((status, headers["Location"]), (303, "/"))
        self.assertIn("HttpOnly; SameSite=Strict", headers["Set-Cookie"])
        cookie = headers["Set-Cookie"].split(";")[0]
        self.assertEqual(server.ask("/api/runs", Host=host, Cookie=f"a=b; {cookie}")[0], 200)
        self.assertEqual(server.ask("/api/runs", Host=host, Authorization=f"Bearer {token}")[0], 200)
        self.assertEqual(server.ask("/api/runs", Host="evil.example", Cookie=cookie)[0], 421)

    def test_tokens_that_no_argument_has(self):
        self.make_run("run")
        own = "my-own-token-0123456789"
        file = self.folder / "token"
        file.touch(mode=0o600)
        file.write_text(own + "\n")
        for arguments, environment in (([self.folder, "--token-file", file], {}), ([self.folder], {"DPO_SERVE_TOKEN": own})):
            with mock.patch.dict(os.environ, environment):
                server = self.serve(*arguments)
            self.assertTrue(server.address.endswith("/?token=" + own))
            self.assertEqual(server.ask("/api/runs")[0], 401)
            self.assertEqual(server.ask("/api/runs", Authorization=f"Bearer {own}")[0], 200)
            self.assertNotIn(own, Path(f"/proc/{server.process.pid}/cmdline").read_text())
        made = self.serve(self.folder, "--token")
        token = made.address.split("?token=")[1]
        self.assertEqual(len(token), 32)
        self.assertEqual([made.ask("/api/runs")[0], made.ask("/api/runs", Authorization=f"Bearer {token}")[0]], [401, 200])
        self.assertNotIn(token, Path(f"/proc/{made.process.pid}/cmdline").read_text())
        for arguments in (["--token", own], [f"--token={own}"]):
            self.assertIn("--token takes no value", self.dpo("serve", self.folder, *arguments, status=1).stderr)
        file.chmod(0o644)
        self.assertIn("other users can read it", self.dpo("serve", self.folder, "--token-file", file, status=1).stderr)
        file.chmod(0o600)
        file.write_text("short")
        self.assertIn("--token-file: expected a token of 16 to 200", self.dpo("serve", self.folder, "--token-file", file, status=1).stderr)
        with mock.patch.dict(os.environ, {"DPO_SERVE_TOKEN": "short"}):
            self.assertIn("DPO_SERVE_TOKEN: expected", self.dpo("serve", self.folder, status=1).stderr)

    def test_a_run_of_somebody_else_does_not_read_the_environment(self):
        run = self.make_run("run")
        text = (run / "config.yaml").read_text()
        (run / "config.yaml").write_text(re.sub(r"(name_or_path|chat_template|exp_name): .*", r"\1: ${oc.env:HF_TOKEN}", text) + "\n")
        with mock.patch.dict(os.environ, {"HF_TOKEN": "hf_secret_of_the_viewer"}):
            server = self.serve()
            self.dpo("report", "run")
        view = server.ask(f"/api/runs/{self.id_of(server, 'run')}")[2]
        page = server.ask(f"/api/runs/{self.id_of(server, 'run')}/report")[2]
        for shown in (view, page, (run / "report.html").read_text()):
            self.assertNotIn("hf_secret", shown)
            self.assertIn("${oc.env:HF_TOKEN}", shown)

    def test_wrong_arguments(self):
        for arguments, message in ((["nowhere"], "'nowhere' is not a folder"), ([self.folder, "--token", "--token-file", "x"], "--token"),
                                   ([self.folder, "--host", "192.0.2.1"], "cannot listen on 192.0.2.1"), ([self.folder, "--port", "70000"], "--port")):
            self.assertIn(message, self.dpo("serve", *arguments, status=1).stderr)
        server = self.serve()
        port = server.host.split(":")[1]
        self.assertIn(f"cannot listen on 127.0.0.1 port {port}", self.dpo("serve", self.folder, "--port", port, status=1).stderr)

    def test_it_ends_cleanly(self):
        self.make_run("run")
        server = self.serve()
        streams = [Events(server, [self.id_of(server, "run")]) for _ in range(3)]
        for stream in streams:
            stream.next("points")
            self.addCleanup(stream.close)
        self.assertEqual((server.stop(), server.errors), (0, ""))

    def test_a_long_run(self):
        """A viewer of 10,000 evaluations of 1,000 pairs gets little data, and the server reads the metrics once."""
        metrics = (self.make_long_run() / "metrics.jsonl").stat().st_size
        server = self.serve()
        identifier = self.id_of(server, "long")
        events = Events(server, [identifier])
        points = events.next("points")
        view = server.json(f"/api/runs/{identifier}/examples")
        read = server.bytes_read()
        self.assertLess(read, 2 * metrics)
        server.json(f"/api/runs/{identifier}/examples")
        self.assertLess(server.bytes_read() - read, metrics / 8)
        self.assertLess(server.most_memory(), 200 << 20)
        events.close()
        for xs, ys in points["metrics"].values():
            self.assertEqual(len(xs), len(ys))
            self.assertLessEqual(len(xs), 1000)
        self.assertEqual(points["metrics"]["loss/eval"][0][-1], 32 * 9999)
        self.assertLess(len(json.dumps(view)), 300_000)

    def test_many_updates_are_read_once_and_not_kept(self):
        """Later viewers cause no reading, and no viewer makes the server hold a file in memory."""
        run = self.make_run("updates")
        rest = "".join(f', "metric_{i}": {i}.123456' for i in range(24))
        with open(run / "metrics.jsonl", "a") as metrics:
            for i in range(120_000):
                metrics.write(f'{{"loss/train": 0.5{rest}, "counters/examples": {1000 + i}}}\n')
        size = (run / "metrics.jsonl").stat().st_size
        server = self.serve()
        identifier = self.id_of(server, "updates")
        process = Path(f"/proc/{server.process.pid}")
        read = lambda: int(re.search(r"rchar: (\d+)", (process / "io").read_text())[1])
        peak = lambda: 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", (process / "status").read_text())[1])

        def page():
            before = read()
            events = Events(server, [identifier])
            points = events.next("points")
            events.close()
            self.assertEqual(server.ask(f"/api/runs/{identifier}")[0], 200)
            self.assertEqual(server.ask(f"/api/runs/{identifier}/report")[0], 200)
            self.assertTrue(points["again"])
            self.assertEqual({len(xs) for name, (xs, _) in points["metrics"].items() if name.startswith("metric_")}, {1000})
            return read() - before

        self.assertGreater(size, 60e6)
        self.assertGreater(page(), size)
        for _ in range(3):
            self.assertLess(page(), 0.05 * size)
        self.assertLess(peak(), size)

    def test_a_huge_answer(self):
        self.make_run("huge", "x" * 1_000_000, pairs=2)
        server = self.serve()
        base = f"/api/runs/{self.id_of(server, 'huge')}"
        status, _, text = server.ask(base + "/examples")
        self.assertLess(len(text), 100_000)
        self.assertGreater(json.loads(text)["examples"][0]["prompt"]["more"], 900_000)
        self.assertGreater(len(server.json(base + "/examples?only=1")["examples"][0]["prompt"]["turns"][0]["text"]), 1_000_000)

    def test_many_viewers(self):
        """Each viewer has a stream. The server rejects more streams than it has room for, and still answers."""
        self.make_run("run")
        server = self.serve()
        streams = [Events(server, []) for _ in range(45)]
        self.assertEqual(sorted({stream.answer.status for stream in streams}), [200, 503])
        self.assertEqual(server.ask("/api/runs")[0], 200)
        for stream in streams:
            stream.close()

    def test_trying_without_a_checkpoint(self):
        self.make_run("run")
        server = self.serve()
        prompt = json.dumps({"run": self.id_of(server, "run"), "side": "policy", "prompt": "x"})
        origin = f"http://{server.host}"
        for wrong in (None, "http://evil.example", "null"):
            self.assertEqual(server.ask("/api/try", "POST", prompt, Origin=wrong)[0], 403)
        self.assertEqual(server.ask("/api/try", "GET", Origin=origin)[0], 404)
        status, _, text = server.ask("/api/try", "POST", prompt, Origin=origin)
        self.assertEqual((status, text), (400, "the run has no checkpoint yet\n"))
        self.assertEqual(server.ask("/api/try", "POST", '{"run": "x", "prompt": "x"}', Origin=origin)[0], 404)
        self.assertEqual(server.ask("/api/try", "POST", "x" * 100_000, Origin=origin)[0], 413)
        for header in ({"Transfer_Encoding": "chunked"}, {"Content_Encoding": "gzip"}, {"Content_Length": None}):
            self.assertEqual(server.ask("/api/try", "POST", prompt, Origin=origin, **header)[0], 411, header)
        for body in ("", "[]", '{"prompt": 1}'):
            self.assertEqual(server.ask("/api/try", "POST", body, Origin=origin)[0], 400, body)


@unittest.skipUnless(Path(PROGRAM + "-engine").exists(), "built without LibTorch")
class RealRun(TinyRuns):
    """Follows a run of this program while it trains, then asks its models."""

    def test_a_run_is_followed_and_its_models_answer(self):
        run = self.folder / "followed/run"
        run.mkdir(parents=True)
        server = Server(self.folder / "followed", cwd=self.folder)
        self.addCleanup(server.stop)
        training = threading.Thread(target=lambda: self.check(self.train(run, "n_examples=800")))
        training.start()
        self.addCleanup(training.join)
        events = Events(server, [])
        while not (runs := events.next("runs")):
            pass
        self.assertIn(runs[0]["status"], ("running", "finished"))
        identifier = runs[0]["id"]
        events.close()
        events = Events(server, [identifier])
        seen = []
        while not seen or seen[-1] < 800:
            seen += events.next("points")["metrics"].get("loss/train", [[]])[0]
        self.assertEqual(seen, [line["counters/examples"] for line in self.metrics(run) if "loss/train" in line])
        training.join()
        while server.json("/api/runs")[0]["status"] != "finished":
            time.sleep(0.1)
        events.close()
        for side in ("policy", "reference"):
            body = json.dumps({"run": identifier, "side": side, "prompt": "ĀāĂă", "temperature": 0, "max_new_tokens": 8})
            status, _, text = server.ask("/api/try", "POST", body, Origin=f"http://{server.host}")
            self.assertEqual(status, 200)
            answer = [json.loads(line) for line in text.splitlines()]
            self.assertEqual(answer[-1], {"done": True}, text)
            self.assertTrue("".join(line.get("text", "") for line in answer))

    def test_an_adapter_answers_with_its_model(self):
        run = self.folder / "adapted/run"
        self.check(self.train(run, "n_examples=40", "adapter=lora"))
        server = Server(self.folder / "adapted", cwd=self.folder)
        self.addCleanup(server.stop)
        identifier = server.json("/api/runs")[0]["id"]
        for side in ("policy", "reference"):
            body = json.dumps({"run": identifier, "side": side, "prompt": "ĀāĂă", "temperature": 0, "max_new_tokens": 8})
            status, _, text = server.ask("/api/try", "POST", body, Origin=f"http://{server.host}")
            self.assertEqual((status, json.loads(text.splitlines()[-1])), (200, {"done": True}), text)

    def test_a_run_on_conversations_answers_messages(self):
        """Both models use the run's template, which the model it started from does not have."""
        template = self.folder / "template.jinja"
        template.write_text("{% for m in messages %}{% if m.content == 'Ā' + end %}{{ raise_exception('refused by the template') }}{% endif %}"
                            "{{ m.content }}</s>{% endfor %}")
        message = lambda role, text: [{"role": role, "content": text}]
        (self.folder / "chats.jsonl").write_text(lines(
            {"prompt": message("user", chr(0x110 + i)), "chosen": message("assistant", "Āā"), "rejected": message("assistant", "Ă")} for i in range(40)))
        run = self.folder / "chats/run"
        self.check(self.train(run, "n_examples=40", f"datasets=[{self.folder}/chats.jsonl]", f"chat_template={template}", "chat_template_kwargs={end: Ā}"))
        server = Server(self.folder / "chats", cwd=self.folder)
        self.addCleanup(server.stop)
        identifier = server.json("/api/runs")[0]["id"]
        for side in ("policy", "reference"):
            for prompt, chat, end in (("ĀĀ", True, "refused by the template"), ("Ā", True, "done"), ("ĀĀ", False, "done")):
                body = json.dumps({"run": identifier, "side": side, "prompt": prompt, "chat": chat, "temperature": 0, "max_new_tokens": 8})
                text = server.ask("/api/try", "POST", body, Origin=f"http://{server.host}")[2]
                self.assertIn(end, text.splitlines()[-1], (side, prompt, chat))

    def test_a_model_stops_when_its_viewer_leaves(self):
        run = self.folder / "left/run"
        self.check(self.train(run, "n_examples=40"))
        server = Server(self.folder / "left", cwd=self.folder)
        self.addCleanup(server.stop)
        identifier = server.json("/api/runs")[0]["id"]
        body = json.dumps({"run": identifier, "side": "policy", "prompt": "Ā", "max_new_tokens": 500})
        origin = f"http://{server.host}"
        connection = server.connect()
        connection.request("POST", "/api/try", body, {"Host": server.host, "Origin": origin})
        answer = connection.getresponse()
        self.assertEqual(answer.status, 200)
        children = lambda: subprocess.run(["ps", "--no-headers", "-o", "pid", "--ppid", str(server.process.pid)], capture_output=True, text=True).stdout.split()
        child = int(children()[0])
        while b"sample" not in (words := Path(f"/proc/{child}/cmdline").read_bytes()):  # waits for exec
            pass
        os.kill(child, signal.SIGSTOP)  # keeps the model from finishing
        self.assertIn(b"--prompts=-", words)  # prompts are not arguments, which every user of this machine can see
        self.assertNotIn("Ā".encode(), words)
        self.assertEqual(server.ask("/api/try", "POST", body, Origin=origin)[0], 409)  # only one request at a time
        answer.close()
        connection.close()
        self.assertEqual(server.ask("/api/try", "POST", body, Origin=origin)[0], 200)
        self.assertEqual(children(), [])


if __name__ == "__main__":
    skip_without_server()
    unittest.main()

"""A server that implements the part of W&B's interface that `wandb sync` needs, and keeps what it receives."""

import http.server
import json
import threading


class WandbServer(http.server.ThreadingHTTPServer):
    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.run = {}      # variables of UpsertBucket
        self.lines = {}    # wandb-history.jsonl and others, by line
        self.exit_code = None
        self.uploads = {}  # other files, by name
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass  # wandb resets connections at its end

    def rows(self):
        return [json.loads(self.lines["wandb-history.jsonl"][i]) for i in sorted(self.lines["wandb-history.jsonl"])]

    def summary(self):
        return json.loads(self.lines["wandb-summary.json"][max(self.lines["wandb-summary.json"])])

    def answer(self, query, variables):
        entity = {"id": "1", "name": "team"}
        project = {"id": "2", "name": self.run.get("project"), "entity": entity}
        if "upsertBucket" in query:
            self.run.update({key: value for key, value in variables.items() if value is not None})
            project["name"] = self.run["project"]
            return {"upsertBucket": {"inserted": True, "bucket": {
                "id": "3", "name": variables["name"], "displayName": self.run.get("displayName"), "description": None,
                "config": "{}", "sweepName": None, "project": project, "historyLineCount": 0}}}
        if "createRunFiles" in query:
            files = [{"name": name, "uploadUrl": f"{self.url}/storage/{name}"} for name in variables["files"]]
            return {"createRunFiles": {"runID": "3", "uploadHeaders": [], "files": files}}
        if "serverInfo" in query:
            return {"serverInfo": {"features": [], "cliVersionInfo": {}, "latestLocalVersionInfo": None}}
        if "viewer" in query:
            return {"viewer": {"id": "4", "entity": "team", "username": "me", "flags": "{}", "teams": {"edges": []}}}
        return {"model": None, "project": None}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, answer):
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_GET(self):
        self.reply({})

    def do_PUT(self):
        self.server.uploads[self.path.removeprefix("/storage/")] = self.body()
        self.reply({})

    def do_POST(self):
        sent = json.loads(self.body() or "{}")
        if self.path == "/graphql":
            return self.reply({"data": self.server.answer(sent["query"], sent.get("variables") or {})})
        for name, part in (sent.get("files") or {}).items():
            lines = self.server.lines.setdefault(name, {})
            lines.update({part["offset"] + i: line for i, line in enumerate(part["content"])})
        if sent.get("complete"):
            self.server.exit_code = sent["exitcode"]
        self.reply({})

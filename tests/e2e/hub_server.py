"""Serves a Hugging Face hub on this machine: the part of its interface that downloads and uploads use, and network
faults.

A second server has the large files, like the real hub, where they are on another host.
"""

import hashlib
import json
import re
import ssl
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import hub_uploads

LARGE = re.compile(r"\.(safetensors|bin|gz|parquet|gguf)$")  # stored as large files
TOKEN, READ_TOKEN = "hf_right", "hf_read"
ACCOUNTS = {TOKEN: {"name": "alice", "role": "write"}, READ_TOKEN: {"name": "alice", "role": "read"}}  # both are in "org"


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Hub:
    def __init__(self, certificate=None):
        self.repositories = {}  # (kind, id): {revision: commit}
        self.commits = {}       # (kind, id, commit): {path: bytes}
        self.contents = {}      # SHA-256: bytes
        self.gated, self.page_size = set(), 1000
        self.renamed = {}       # old name: new name
        self.log = []           # (server, method, path, headers)
        self.faults = []        # (server, part of the path, answer): each is used once
        self.cut_off = 0        # number of answers of the store that end early
        self.stall = 0          # number of answers of the store that stop halfway and never go on
        self.hold = None        # an Event that all answers of the store wait for halfway
        self.corrupt = set()    # SHA-256 of contents that arrive damaged
        self.ranges = True      # True if the store supports ranges
        self.rate = None        # bytes per second on each connection
        self.sizes = {}         # path: a false size
        self.uploads = hub_uploads.Uploads()
        self.lock, self.closed = threading.Lock(), threading.Event()
        self.hub, self.store = (self._serve(handler) for handler in (HubHandler, StoreHandler))
        if certificate:  # a file with key and certificate
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.hub.socket = context.wrap_socket(self.hub.socket, server_side=True)
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{self.hub.server_port}"
        self.store_url = f"http://127.0.0.1:{self.store.server_port}"

    def _serve(self, handler):
        server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (handler,), {"world": self}))
        server.daemon_threads = True
        server.handle_error = lambda *_: None  # clients may close connections
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return server

    def close(self):
        self.closed.set()
        for server in (self.hub, self.store):
            server.shutdown()
            server.server_close()

    def add(self, kind, name, files, revision="main"):
        """Adds a commit. Returns its name."""
        files = {path: data.encode() if isinstance(data, str) else data for path, data in files.items()}
        commit = hashlib.sha1(repr((kind, name, sorted(files.items()))).encode()).hexdigest()
        self.repositories.setdefault((kind, name), {})[revision] = commit
        self.commits[kind, name, commit] = files
        self.contents.update({hashlib.sha256(data).hexdigest(): data for data in files.values()})
        return commit

    def requests(self, server=None, method=None):
        return [entry for entry in self.log if server in (None, entry[0]) and method in (None, entry[1])]

    def take(self, name):
        """Counts down a fault. Returns True if it is due."""
        return self.take_from(self, name)

    def take_from(self, owner, name):
        with self.lock:
            count = getattr(owner, name)
            setattr(owner, name, max(0, count - 1))
            return count > 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_name = ""

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.handle_request()

    do_GET = do_POST = do_PUT = do_HEAD

    def handle_request(self):
        with self.world.lock:
            self.world.log.append((self.server_name, self.command, self.path, dict(self.headers)))
            fault = next((f for f in self.world.faults if f[0] == self.server_name and f[1] in self.path), None)
            if fault:
                self.world.faults.remove(fault)
        self.body = self.world.uploads.receive(self)
        if self.body is None:  # the client closed the connection
            self.close_connection = True
            return None
        if fault:
            status, headers = fault[2]
            return self.answer(status, headers=headers)
        return self.serve()

    def answer(self, status, body=b"", headers=None, size=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if size is None else size))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class HubHandler(Handler):
    server_name = "hub"

    def refuse(self, status, code, commit=None):
        headers = {"X-Error-Code": code, "X-Error-Message": code}
        self.answer(status, headers=headers | ({"X-Repo-Commit": commit} if commit else {}))

    def commit_of(self, kind, name, revision):
        """Returns the commit, or None after it rejected the request."""
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        revisions = self.world.repositories.get((kind, name))
        if token and token not in ACCOUNTS:
            return self.answer(401, headers={"X-Error-Message": "Invalid credentials in Authorization header"})
        if revisions is None:
            return self.refuse(404 if token else 401, "RepoNotFound")
        if name in self.world.gated:
            return self.refuse(403 if token else 401, "GatedRepo")
        revision = urllib.parse.unquote(revision)
        commit = revisions.get(revision, revision)
        if (kind, name, commit) not in self.world.commits:
            return self.refuse(404, "RevisionNotFound")
        return commit

    def serve(self):
        path, _, query = self.path.partition("?")
        if self.command == "POST":
            return hub_uploads.serve_post(self, path)
        for old, new in self.world.renamed.items():
            if f"/{old}/" in path:
                return self.answer(307, headers={"Location": self.path.replace(f"/{old}/", f"/{new}/")})
        if path == "/api/whoami-v2":
            account = ACCOUNTS[self.headers["Authorization"].removeprefix("Bearer ")]
            self.answer(200, json.dumps({"type": "user", "name": account["name"], "orgs": [{"name": "org"}],
                                         "auth": {"accessToken": {"role": account["role"]}}}).encode())
        elif found := re.fullmatch(r"/api/(model|dataset)s/(.+)/revision/([^/]+)", path):
            if commit := self.commit_of(*found.groups()):
                self.answer(200, json.dumps({"id": found[2], "sha": commit, "siblings": []}).encode())
        elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)", path):
            if self.commit_of("model", found[1], "main"):
                self.answer(200, json.dumps(self.world.uploads.describe(found[1])).encode())
        elif found := re.fullmatch(r"/api/(model|dataset)s/(.+)/tree/([^/]+)", path):
            if commit := self.commit_of(*found.groups()):
                self.list_files(found[1], found[2], commit, query)
        elif found := re.fullmatch(r"/api/resolve-cache/(model|dataset)s/(.+)/([0-9a-f]{40})/(.+)", path):
            if commit := self.commit_of(*found.groups()[:3]):
                data = self.world.commits[found[1], found[2], commit][urllib.parse.unquote(found[4])]
                self.answer(200, data, {"X-Repo-Commit": commit, "ETag": f'"{git_sha1(data)}"'})
        elif found := re.fullmatch(r"/(datasets/)?(.+)/resolve/([^/]+)/(.+)", path):
            kind = "dataset" if found[1] else "model"
            if commit := self.commit_of(kind, found[2], found[3]):
                self.resolve(kind, found[2], commit, urllib.parse.unquote(found[4]))
        else:
            self.refuse(404, "NotFound")

    def list_files(self, kind, name, commit, query):
        files = sorted(self.world.commits[kind, name, commit].items())
        start = int(urllib.parse.parse_qs(query).get("cursor", ["0"])[0])
        end = start + self.world.page_size
        items = [{"type": "directory", "path": "some", "oid": "0" * 40, "size": 0}]
        for path, data in files[start:end]:
            size = self.world.sizes.get(path, len(data))
            item = {"type": "file", "path": path, "size": size, "oid": git_sha1(data)}
            if LARGE.search(path):
                item["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": size, "pointerSize": 130}
            items.append(item)
        more = f'<{self.world.url}{self.path.partition("?")[0]}?recursive=true&cursor={end}>; rel="next"'
        self.answer(200, json.dumps(items).encode(), {"Link": more} if end < len(files) else {})

    def resolve(self, kind, name, commit, path):
        data = self.world.commits[kind, name, commit].get(path)
        if data is None:
            return self.refuse(404, "EntryNotFound", commit)
        headers = {"X-Repo-Commit": commit}
        if not LARGE.search(path):  # the real hub does this too
            cached = f"/api/resolve-cache/{kind}s/{name}/{commit}/{urllib.parse.quote(path)}?from=https://hub"
            return self.answer(307, headers=headers | {"ETag": f'"{git_sha1(data)}"', "Location": cached})
        sha256 = hashlib.sha256(data).hexdigest()
        size = self.world.sizes.get(path, len(data))
        return self.answer(302, headers=headers | {"X-Linked-Etag": f'"{sha256}"', "X-Linked-Size": str(size),
                                                   "Location": f"{self.world.store_url}/store/{sha256}?signature=1"})


class StoreHandler(Handler):
    server_name = "store"

    def serve(self):
        if self.command == "PUT":
            return hub_uploads.store_content(self)
        sha256 = re.fullmatch(r"/store/(\w+)\?signature=1", self.path)[1]
        data = self.world.contents[sha256]
        if sha256 in self.world.corrupt:
            data = data[:-1] + bytes([data[-1] ^ 1])
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not found or not self.world.ranges:
            return self.send(200, data, {"ETag": f'"{sha256}"'})
        begin, end = int(found[1]), min(int(found[2] or len(data) - 1), len(data) - 1) + 1
        return self.send(206, data[begin:end], {"Content-Range": f"bytes {begin}-{end - 1}/{len(data)}"})

    def send(self, status, data, headers):
        if self.command == "HEAD":
            return self.answer(status, headers=headers, size=len(data))
        half = data[:len(data) // 2]
        if self.world.take("cut_off"):
            self.answer(status, half, headers, len(data))
            self.close_connection = True
        elif self.world.take("stall"):
            self.answer(status, half, headers, len(data))
            self.world.closed.wait()
            self.close_connection = True
        elif self.world.hold:
            self.answer(status, half, headers, len(data))
            self.world.hold.wait()
            self.wfile.write(data[len(half):])
        elif self.world.rate:
            self.answer(status, b"", headers, len(data))
            piece = max(1, self.world.rate // 20)
            for begin in range(0, len(data), piece):
                self.wfile.write(data[begin:begin + piece])
                time.sleep(0.05)
        else:
            self.answer(status, data, headers)

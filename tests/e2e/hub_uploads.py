"""Receives uploads for hub_server.py: repositories, large files (LFS, whole or in parts), commits."""

import base64
import hashlib
import json
import re
import threading
import time
import urllib.parse

WRITE = {"X-Error-Message": "you must use a write token"}


class Uploads:
    def __init__(self):
        self.rate = None          # bytes per second on each connection, at which requests are read
        self.let_through = None   # number of contents to receive; the others wait for `hold`
        self.hold = threading.Event()
        self.part_size = 1 << 40  # bytes; larger contents are sent in parts of this size
        self.transfer = None      # transfer type instead of basic or multipart
        self.refused = set()      # SHA-256 of contents to reject
        self.damage = 0           # number of contents that arrive damaged
        self.part_headers = True  # True if the store answers parts with their ETag
        self.lost_commits = 0     # number of commits that are made without an answer
        self.ignored = set()      # paths in .gitignore
        self.arrived = {}         # SHA-256: bytes that are not yet verified
        self.parts = {}           # (SHA-256, upload): {part: bytes}
        self.private = set()
        self.summaries = []       # summary lines of commits
        self.default = "public"   # visibility of repositories that are created without one
        self.says_visibility = True
        self.before_commit = []   # functions that stand for other users' changes during an upload, each called once

    def describe(self, name):
        return {"id": name} | ({"private": name in self.private} if self.says_visibility else {})

    def receive(self, request):
        """Returns the body of a request, or None if it ends early."""
        if request.command == "PUT" and self.let_through is not None:
            with request.world.lock:
                self.let_through -= 1
            if self.let_through < 0:
                self.hold.wait()
        left, body = int(request.headers.get("Content-Length", 0)), b""
        while left:
            piece = request.rfile.read(min(left, (self.rate or 1 << 22) // 20 + 1))
            if not piece:
                return None
            body, left = body + piece, left - len(piece)
            if self.rate and request.command == "PUT":
                time.sleep(0.05)
        return body


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def may_write(request, name):
    from hub_server import ACCOUNTS
    account = ACCOUNTS.get(request.headers.get("Authorization", "").removeprefix("Bearer "))
    owner = name.partition("/")[0]
    if account is None:
        request.answer(401, headers={"X-Error-Message": "Invalid credentials in Authorization header"})
    elif account["role"] == "read":
        request.answer(403, headers=WRITE)
    elif owner not in (account["name"], "org"):
        request.answer(403, headers={"X-Error-Message": f"You don't have the rights to create a model under the namespace {owner}"})
    else:
        return True
    return False


def send_json(request, value, status=200):
    request.answer(status, json.dumps(value).encode(), {"Content-Type": "application/json"})


def serve_post(request, path):
    for pattern, answer in POSTS.items():
        if found := re.fullmatch(pattern, path):
            return answer(request, *map(urllib.parse.unquote, found.groups()))
    return request.answer(404)


def create_repository(request):
    asked = json.loads(request.body)
    world, name = request.world, f"{asked['organization'] or 'alice'}/{asked['name']}"
    if not may_write(request, name):
        return None
    if ("model", name) in world.repositories:
        return send_json(request, {"error": "You already created this model repo", "url": f"{world.url}/{name}"}, 409)
    if asked.get("visibility", world.uploads.default) == "private":
        world.uploads.private.add(name)
    world.add("model", name, {".gitattributes": "*.safetensors filter=lfs\n"})
    return send_json(request, {"url": f"{world.url}/{name}", "name": name})


def create_branch(request, name, branch):
    if may_write(request, name):
        revisions = request.world.repositories["model", name]
        revisions.setdefault(branch, revisions["main"])
        send_json(request, {})


def files_of(request, name, revision):
    world = request.world
    return world.commits["model", name, world.repositories["model", name][revision]]


def preupload(request, name, revision):
    from hub_server import LARGE
    if not may_write(request, name):
        return
    there, wishes = files_of(request, name, revision), []
    for file in json.loads(request.body)["files"]:
        path, large = file["path"], bool(LARGE.search(file["path"]))
        assert len(base64.b64decode(file["sample"])) == min(512, file["size"])
        wish = {"path": path, "uploadMode": "lfs" if large else "regular", "shouldIgnore": path in request.world.uploads.ignored}
        if path in there:
            wish["oid"] = hashlib.sha256(there[path]).hexdigest() if large else git_sha1(there[path])
        wishes.append(wish)
    send_json(request, {"files": wishes})


def lfs_batch(request, name):
    if not may_write(request, name):
        return None
    asked, world = json.loads(request.body), request.world
    assert asked["operation"] == "upload" and asked["hash_algo"] == "sha256" and "multipart" in asked["transfers"]
    if world.uploads.transfer:
        return send_json(request, {"transfer": world.uploads.transfer, "objects": asked["objects"]})
    return send_json(request, {"transfer": "multipart", "objects": [describe_upload(world, **item) for item in asked["objects"]]})


def describe_upload(world, oid, size):
    if oid in world.uploads.refused:
        return {"oid": oid, "size": size, "error": {"code": 422, "message": "this content is not allowed"}}
    if oid in world.contents:
        return {"oid": oid, "size": size}
    verify = {"href": f"{world.url}/verify", "header": {"X-Upload": "1"}}
    part_size = world.uploads.part_size
    if size <= part_size:
        return {"oid": oid, "size": size, "authenticated": True,
                "actions": {"upload": {"href": f"{world.store_url}/upload/{oid}?signature=1"}, "verify": verify}}
    upload = f"{oid}/{len(world.uploads.parts)}"
    world.uploads.parts[upload] = {}
    header = {str(i + 1).zfill(5): f"{world.store_url}/upload/{upload}/{i + 1}?signature=1" for i in range(-(-size // part_size))}
    return {"oid": oid, "size": size, "authenticated": True,
            "actions": {"upload": {"href": f"{world.url}/complete/{upload}", "header": {"chunk_size": str(part_size), **header}},
                        "verify": verify}}


def store_content(request):
    uploads, body = request.world.uploads, request.body
    found = re.fullmatch(r"/upload/(\w+)(?:/(\d+)/(\d+))?\?signature=1", request.path)
    if request.world.take_from(uploads, "damage"):
        body = body[:-1] + bytes([body[-1] ^ 1])
    with request.world.lock:
        if found[3]:
            uploads.parts[f"{found[1]}/{found[2]}"][int(found[3])] = body
        else:
            uploads.arrived[found[1]] = body
    request.answer(200, headers={"ETag": f'"{hashlib.md5(body).hexdigest()}"'} if uploads.part_headers else {})


def complete(request, sha256, upload):
    uploads, asked = request.world.uploads, json.loads(request.body)
    parts = uploads.parts[f"{sha256}/{upload}"]
    given = {part["partNumber"]: part["etag"].strip('"') for part in asked["parts"]}
    if given != {number: hashlib.md5(body).hexdigest() for number, body in parts.items()}:
        return send_json(request, {"error": "the parts do not match"}, 400)
    uploads.arrived[sha256] = b"".join(parts[number] for number in sorted(parts))
    return send_json(request, {})


def verify(request):
    asked = json.loads(request.body)
    data = request.world.uploads.arrived.get(asked["oid"], b"")
    if hashlib.sha256(data).hexdigest() != asked["oid"] or len(data) != asked["size"]:
        return send_json(request, {"error": "the content does not match its hash"}, 422)
    request.world.contents[asked["oid"]] = data
    return send_json(request, {})


def commit(request, name, revision):
    if not may_write(request, name):
        return None
    world = request.world
    if world.uploads.before_commit:
        world.uploads.before_commit.pop(0)()
    files = dict(files_of(request, name, revision))
    for line in map(json.loads, request.body.splitlines()):
        value = line["value"]
        if line["key"] == "header" and value.get("parentCommit") not in (None, world.repositories["model", name][revision]):
            return send_json(request, {"error": "A commit has happened since"}, 412)
        if line["key"] == "file":
            assert value["encoding"] == "base64"
            files[value["path"]] = base64.b64decode(value["content"])
        elif line["key"] == "lfsFile":
            if value["oid"] not in world.contents:
                return send_json(request, {"error": "a large file was not uploaded"}, 400)
            files[value["path"]] = world.contents[value["oid"]]
        elif line["key"] == "deletedFile":
            del files[value["path"]]
        else:
            assert line["key"] == "header" and value["summary"], line
            world.uploads.summaries.append(value["summary"])
    made = world.add("model", name, files, revision)
    if world.take_from(world.uploads, "lost_commits"):
        request.close_connection = True
        return None
    return send_json(request, {"success": True, "commitOid": made, "commitUrl": f"{world.url}/{name}/commit/{made}"})


POSTS = {r"/api/repos/create": create_repository,
         r"/api/validate-yaml": lambda request: send_json(request, {"warnings": [], "errors": []}),
         r"/api/models/(.+)/branch/([^/]+)": create_branch,
         r"/api/models/(.+)/preupload/([^/]+)": preupload,
         r"/api/models/(.+)/commit/([^/]+)": commit,
         r"/(.+)\.git/info/lfs/objects/batch": lfs_batch,
         r"/complete/(\w+)/(\d+)": complete,
         r"/verify": verify}

# SPDX-License-Identifier: MIT
"""A small S3 server for tests, with what a real one checks and what goes wrong with one.

    with bucket.Server() as server:             # or bucket.start(box)
        server.buckets["b"]["key"] = bucket.Object(b"data")
        server.environment                      # for a client: credentials and the endpoint
        server.fault(lambda request: request.operation == "PUT", status=503, times=3)
        server.requests                         # what came: method, key, query, operation

It checks signatures of version 4 (the scope, the clock, the hash of the body, that path and query
are spelled as they are signed), lists in the order of bytes, page by page, holds conditions
(If-Match, If-None-Match) unless told otherwise, and has multipart uploads, ranges and streamed
uploads in frames.  Denied operations, wrong answers and slow ones are faults.
"""

import bisect
import collections
import contextlib
import hashlib
import hmac
import itertools
import re
import socket
import socketserver
import threading
import time
import urllib.parse
from xml.sax.saxutils import escape

ID, SECRET = "AKTESTTESTTESTTEST", "geheim/+geheim=geheim0123456789"
SKEW = 15 * 60  # seconds


def quote(text, safe=""):
    return urllib.parse.quote(text, safe=safe + "-_.~")


class Object:
    def __init__(self, data, headers=(), modified=None):
        self.data = data
        self.etag = hashlib.md5(data).hexdigest()
        self.headers = dict(headers)
        self.modified = modified or time.time()
        self.size = len(data)

    @property
    def when(self):
        return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(self.modified))


class Bucket(dict):
    """key -> Object, with its keys in the order of their bytes."""

    order = None

    def __setitem__(self, key, found):
        self.order = self.order if key in self else None
        super().__setitem__(key, found)

    def __delitem__(self, key):
        self.order = None
        super().__delitem__(key)

    def pop(self, key, *other):
        self.order = None
        return super().pop(key, *other)

    def between(self, prefix, after):
        """Keys that begin with a prefix, behind another one."""
        self.order = self.order or sorted(key.encode() for key in self)
        at = max(bisect.bisect_left(self.order, prefix.encode()),
                 bisect.bisect_right(self.order, after.encode()))
        for key in itertools.islice(self.order, at, None):
            if not key.startswith(prefix.encode()):
                break
            yield key.decode()


class Refused(Exception):
    def __init__(self, status, code, message="", headers=()):
        super().__init__(code)
        self.status, self.code, self.message, self.headers = status, code, message, dict(headers)


class Request:
    def __init__(self, method, target, headers, body):
        self.method, self.headers, self.body = method, headers, body
        self.path, _, self.raw_query = target.partition("?")
        self.query = dict(urllib.parse.parse_qsl(self.raw_query, keep_blank_values=True))
        self.bucket = self.key = self.operation = None

    def name(self, host_is_bucket):
        """Which bucket and key; what is asked."""
        path = urllib.parse.unquote(self.path, errors="surrogateescape")
        if host_is_bucket:
            self.bucket, self.key = host_is_bucket, path[1:]
        else:
            self.bucket, _, self.key = path[1:].partition("/")
        self.operation = self.method
        if self.method == "GET" and not self.key:
            self.operation = "LIST"
        for word in ("uploads", "uploadId", "delete"):
            if word in self.query:
                self.operation = f"{self.method} {word}"


class Handler(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self):
        with contextlib.suppress(ConnectionError, ValueError):
            while self.one():
                pass

    def one(self):
        line = self.rfile.readline()
        if not line.strip():
            return False
        method, target, _ = line.decode("latin-1").split(" ", 2)
        headers = {}
        while line := self.rfile.readline().strip():
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        body = self.rfile.read(int(headers.get("content-length", 0)))
        request = Request(method, target, headers, body)
        status, answer, data = self.server.owner.answer(request)
        return self.send(request, status, answer, data)

    def send(self, request, status, headers, data):
        fault = self.server.owner.cut(request)
        headers = {"Content-Length": len(data), "x-amz-request-id": "1",
                   "Date": time.strftime("%a, %d %b %Y %H:%M:%S GMT",
                                         time.gmtime(self.server.owner.now()))} | headers
        head = f"HTTP/1.1 {status} X\r\n" + "".join(f"{n}: {v}\r\n" for n, v in headers.items())
        data = b"" if request.method == "HEAD" else data
        if fault is None:
            self.wfile.write(head.encode("latin-1") + b"\r\n" + data)
            return True
        after, pause = fault
        if after >= 0:
            self.wfile.write(head.encode("latin-1") + b"\r\n" + data[:after])
            time.sleep(pause)
            if pause:
                self.wfile.write(data[after:])
                return True
        return False


class Server:
    """See above; region and page may be set at any time."""

    def __init__(self, tls=None):
        self.buckets = collections.defaultdict(Bucket)
        self.uploads = {}
        self.requests = []
        self.faults = []
        self.page = 1000
        self.region = "us-east-1"
        self.conditions = True  # holds If-Match and If-None-Match of a PUT
        self.etag = None  # what all objects have, as it is spelled, instead of their own
        self.keeps_frames = False  # stores a streamed upload as it came
        self.ahead = 0  # seconds of its clock
        self.latency = 0  # seconds before it answers
        self.keys = {ID: (SECRET, None)}  # access key: secret, session token
        self.denied = set()  # operations
        self.before = None  # is called with each request that was signed well, before it counts
        self.lock = threading.RLock()
        self.flying = self.most = 0
        self.derived = {}
        self.tcp = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler, False)
        self.tcp.daemon_threads = True
        self.tcp.block_on_close = False
        self.tcp.request_queue_size = 128
        self.tcp.allow_reuse_address = True
        self.tcp.server_bind()
        self.tcp.server_activate()
        self.tcp.owner = self
        if tls:
            self.tcp.socket = tls.wrap_socket(self.tcp.socket, server_side=True)
        self.port = self.tcp.server_address[1]
        self.url = f"http{'s' if tls else ''}://localhost:{self.port}"
        threading.Thread(target=self.tcp.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tcp.shutdown()
        self.tcp.server_close()

    @property
    def environment(self):
        return {"AWS_ACCESS_KEY_ID": ID, "AWS_SECRET_ACCESS_KEY": SECRET,
                "AWS_ENDPOINT_URL_S3": self.url, "AWS_REGION": self.region}

    def now(self):
        return time.time() + self.ahead

    # Faults

    def fault(self, fits, status=None, code="SlowDown", headers=(), times=1, cut=None, pause=0,
              lose=False):
        """For the next requests that fit: an error, or an answer that ends after so many bytes
        (or goes on after a pause), or that is lost although all was done."""
        self.faults.append({"fits": fits, "status": status, "code": code, "headers": headers,
                            "times": times, "cut": -1 if lose else cut, "pause": pause})

    def find_fault(self, request, kind):
        with self.lock:
            for fault in self.faults:
                if fault["times"] and fault[kind] is not None and fault["fits"](request):
                    fault["times"] -= 1
                    return fault
        return None

    def cut(self, request):
        fault = self.find_fault(request, "cut")
        return fault and (fault["cut"], fault["pause"])

    def count(self, operation):
        return sum(request.operation == operation for request in self.requests)

    # Answers

    def spell(self, found):
        return self.etag or f'"{found.etag}"'

    def answer(self, request):
        host = request.headers.get("host", "").rsplit(":", 1)[0]
        named = host[: -len(".localhost")] if host.endswith(".localhost") else None
        request.name(named)
        with self.lock:
            self.requests.append(request)
            self.flying += 1
            self.most = max(self.most, self.flying)
        try:
            if request.method == "POST" and b"AssumeRoleWithWebIdentity" in request.body:
                return self.assume(request)
            fault = self.find_fault(request, "status")
            if fault:
                raise Refused(fault["status"], fault["code"], headers=fault["headers"])
            time.sleep(self.latency)
            self.check_signature(request)
            if request.operation in self.denied:
                raise Refused(403, "AccessDenied", "Access Denied")
            if request.bucket not in self.buckets:
                raise Refused(404, "NoSuchBucket")
            if self.before:
                self.before(request)
            with self.lock:
                return self.carry_out(request, self.buckets[request.bucket])
        except Refused as refused:
            text = (f"<Error><Code>{refused.code}</Code><Message>{escape(refused.message)}"
                    f"</Message></Error>")
            return refused.status, refused.headers, text.encode()
        finally:
            with self.lock:
                self.flying -= 1

    def assume(self, request):
        form = dict(urllib.parse.parse_qsl(request.body.decode()))
        if form["WebIdentityToken"] != "a.web/token+1":
            raise Refused(400, "InvalidIdentityToken")
        until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + self.lifetime))
        self.assumed = getattr(self, "assumed", 0) + 1
        key = f"ASIA{self.assumed}"
        self.keys[key] = (SECRET + "x", f"token{self.assumed}")
        text = (f"<R><Credentials><AccessKeyId>{key}</AccessKeyId><SecretAccessKey>{SECRET}x"
                f"</SecretAccessKey><SessionToken>token{self.assumed}</SessionToken><Expiration>"
                f"{until}</Expiration></Credentials></R>")
        return 200, {}, text.encode()

    lifetime = 3600

    def check_signature(self, request):
        match = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, ?"
            r"SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})",
            request.headers.get("authorization", ""))
        if not match:
            raise Refused(403, "AccessDenied", "no signature of version 4")
        key, day, region, signed, signature = match.groups()
        if key not in self.keys:
            raise Refused(403, "InvalidAccessKeyId")
        secret, token = self.keys[key]
        if token and request.headers.get("x-amz-security-token") != token:
            raise Refused(400, "InvalidToken")
        if region != self.region:
            raise Refused(400, "AuthorizationHeaderMalformed", f"expecting '{self.region}'",
                          {"x-amz-bucket-region": self.region})
        stamp = request.headers.get("x-amz-date", "")
        try:
            sent = time.mktime(time.strptime(stamp + "UTC", "%Y%m%dT%H%M%SZ%Z")) - time.timezone
        except ValueError:
            raise Refused(403, "AccessDenied", "no date") from None
        if abs(sent - self.now()) > SKEW or not stamp.startswith(day):
            raise Refused(403, "RequestTimeTooSkewed")
        names = signed.split(";")
        if names != sorted(names) or not {"host", "x-amz-date"} <= set(names):
            raise Refused(403, "SignatureDoesNotMatch", "headers that must be signed are not")
        missing = [name for name in request.headers
                   if name.startswith("x-amz-") and name not in names]
        if missing:
            raise Refused(403, "AccessDenied", f"not signed: {missing}")
        decoded = urllib.parse.unquote_to_bytes(request.path)
        query = "&".join(sorted(request.raw_query.split("&"))) if request.raw_query else ""
        spelled = "&".join(
            f"{quote(urllib.parse.unquote_to_bytes(name))}="
            f"{quote(urllib.parse.unquote_to_bytes(value))}"
            for name, _, value in (part.partition("=") for part in query.split("&")) if name)
        hashed = request.headers.get("x-amz-content-sha256", "")
        if hashed == hashlib.sha256(request.body).hexdigest():
            pass
        elif not hashed.startswith(("STREAMING-", "UNSIGNED-PAYLOAD")):
            raise Refused(400, "XAmzContentSHA256Mismatch")
        canonical = "\n".join(
            [request.method, quote(decoded, "/"), spelled]
            + [f"{name}:{' '.join(request.headers.get(name, '').split())}" for name in names]
            + ["", signed, hashed])
        scope = f"{day}/{region}/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope,
                          hashlib.sha256(canonical.encode("utf-8", "surrogateescape")).hexdigest()])
        if (secret, scope) not in self.derived:
            made = ("AWS4" + secret).encode()
            for part in (day, region, "s3", "aws4_request"):
                made = hmac.digest(made, part.encode(), "sha256")
            self.derived[secret, scope] = made
        if hmac.digest(self.derived[secret, scope], text.encode(), "sha256").hex() != signature:
            raise Refused(403, "SignatureDoesNotMatch", canonical)

    def hold(self, request, there):
        """The conditions of a request."""
        match, none = request.headers.get("if-match"), request.headers.get("if-none-match")
        if request.method in ("PUT", "POST", "DELETE") and not self.conditions:
            return
        if none == "*" and there or match and there and match != self.spell(there):
            raise Refused(412, "PreconditionFailed")
        if match and not there:
            raise Refused(404, "NoSuchKey")

    def carry_out(self, request, objects):
        method, query = request.method, request.query
        key = request.key.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        if request.operation == "LIST":
            return self.list(query, objects)
        if request.operation == "POST delete":
            for name in re.findall(r"<Key>([^<]*)</Key>", request.body.decode()):
                objects.pop(name, None)
            return 200, {}, b"<DeleteResult></DeleteResult>"
        if request.operation == "POST uploads":
            self.hold(request, objects.get(key))
            upload = f"upload{len(self.uploads)}"
            self.uploads[upload] = ({}, request.headers)
            return 200, {}, f"<R><UploadId>{upload}</UploadId></R>".encode()
        if "uploadId" in query:
            return self.upload(request, objects, key)
        if method == "PUT":
            self.hold(request, objects.get(key))
            data, headers = self.unframed(request)
            objects[key] = Object(data, headers)
            return 200, {"ETag": self.spell(objects[key])}, b""
        if method == "DELETE":
            if key in objects:
                self.hold(request, objects[key])
            objects.pop(key, None)
            return 204, {}, b""
        if key not in objects:
            raise Refused(404, "NoSuchKey")
        self.hold(request, objects[key])
        return self.get(request, objects[key])

    def get(self, request, found):
        when = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(found.modified))
        headers = {"ETag": self.spell(found), "Last-Modified": when} | found.headers
        data, status = found.data, 200
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("range", ""))
        if match:
            status, first, last = 206, int(match[1]), min(int(match[2]), len(data) - 1)
            headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
            data = data[first : last + 1]
        return status, headers, data

    def unframed(self, request):
        kept = {name: value for name, value in request.headers.items()
                if name.startswith("x-amz-meta-")}
        data = request.body
        framed = request.headers.get("x-amz-content-sha256", "").startswith("STREAMING-")
        if framed and self.keeps_frames:
            kept["Content-Encoding"] = "aws-chunked"
        elif framed:
            data, rest = b"", request.body
            while rest:
                head, _, rest = rest.partition(b"\r\n")
                size = int(head.partition(b";")[0], 16)
                data, rest = data + rest[:size], rest[size + 2 :]
                if not size:
                    break
        return data, kept

    def upload(self, request, objects, key):
        name = request.query["uploadId"]
        if name not in self.uploads:
            raise Refused(404, "NoSuchUpload")
        parts, headers = self.uploads[name]
        if request.method == "PUT":
            part = Object(request.body)
            parts[int(request.query["partNumber"])] = part
            return 200, {"ETag": f'"{part.etag}"'}, b""
        if request.method == "DELETE":
            del self.uploads[name]
            return 204, {}, b""
        listed = re.findall(r"<PartNumber>(\d+)</PartNumber>\s*<ETag>(?:&quot;|\")?([^<&\"]*)",
                            request.body.decode())
        if [int(number) for number, _ in listed] != list(range(1, len(parts) + 1)) or any(
                parts[int(number)].etag != etag for number, etag in listed):
            raise Refused(400, "InvalidPart")
        self.hold(request, objects.get(key))
        if any(parts[number].size < 5 << 20 for number in range(1, len(parts))):
            raise Refused(400, "EntityTooSmall")
        kept = {n: value for n, value in headers.items() if n.startswith("x-amz-meta-")}
        objects[key] = Object(b"".join(parts[i + 1].data for i in range(len(parts))), kept)
        digest = hashlib.md5(b"".join(bytes.fromhex(parts[i + 1].etag) for i in range(len(parts))))
        objects[key].etag = f"{digest.hexdigest()}-{len(parts)}"
        del self.uploads[name]
        return 200, {}, f'<R><ETag>"{objects[key].etag}"</ETag></R>'.encode()

    def list(self, query, objects):
        prefix, after = query.get("prefix", ""), query.get("start-after", "")
        after = query.get("continuation-token", query.get("marker", after))
        delimiter = query.get("delimiter", "")
        most = min(self.page, int(query.get("max-keys", 1000)))
        page, commons, last, cut = [], set(), None, False
        for key in objects.between(prefix, after):
            cut = len(page) + len(commons) == most
            if cut:
                break
            last = key
            end = key.find(delimiter, len(prefix)) if delimiter else -1
            if end >= 0:
                commons.add(key[: end + 1])
            else:
                page.append(key)
        encode = quote if query.get("encoding-type") == "url" else escape
        rows = "".join(
            f"<Contents><Key>{encode(key)}</Key><LastModified>{objects[key].when}</LastModified>"
            f"<ETag>{escape(self.spell(objects[key]), {chr(34): '&quot;'})}</ETag>"
            f"<Size>{objects[key].size}</Size>"
            f"<StorageClass>STANDARD</StorageClass></Contents>" for key in page)
        rows += "".join(f"<CommonPrefixes><Prefix>{encode(name)}</Prefix></CommonPrefixes>"
                        for name in sorted(commons))
        kind = "<EncodingType>url</EncodingType>" if encode is quote else ""
        text = (f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3">'
                f"<Prefix>{encode(prefix)}</Prefix><KeyCount>{len(page)}</KeyCount>{kind}"
                f"<IsTruncated>{str(cut).lower()}</IsTruncated>{rows}"
                + (f"<NextContinuationToken>{escape(last)}</NextContinuationToken>"
                   f"<NextMarker>{escape(last)}</NextMarker>" if cut else "")
                + "</ListBucketResult>")
        return 200, {"Content-Type": "application/xml"}, text.encode()


def closed_port():
    """Where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]

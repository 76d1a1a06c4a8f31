"""`FakeConsul`: the endpoints of Consul's HTTP API that Tickwheel uses, and NOT a Consul.

Written from Consul's documentation and sources because no agent can be had here; what it proves is that our side
speaks the protocol as it is documented. Kept from the original: one index that rises with each write, `lock`
that needs a live session and fails with its words, `cas` that keeps a key's session, writes without a change that
keep the revision, transactions that are rolled back with 409, 404 for a prefix without keys, keys that are
deleted with their session, ACL tokens (403), and 500 while there is no leader.
"""

import base64
import json
import threading
import uuid
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit


class _RolledBack(Exception):
    pass


@dataclass
class _Key:
    value: str
    created: int
    modified: int
    session: str = ""
    lock_index: int = 0


@dataclass
class _State:
    index: int = 10
    keys: dict[str, _Key] = field(default_factory=dict)
    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)


class FakeConsul:
    """Answers on loopback from a thread, until `close`."""

    def __init__(self, token: str = "") -> None:
        self.token = token
        self.has_leader = True
        self.state = _State()
        self.requests: list[str] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def server(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"consul://{self.server}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def expire_sessions(self) -> None:
        """As if every TTL had run out: Behavior "delete" takes the keys along."""
        with self._lock:
            for session in list(self.state.sessions):
                self._destroy(session)

    def answer(self, method: str, target: str, token: str, body: bytes) -> tuple[int, Any]:
        """Status and JSON; None for an empty body."""
        path, query = unquote(urlsplit(target).path), parse_qs(urlsplit(target).query, keep_blank_values=True)
        with self._lock:
            self.requests.append(f"{method} {target}")
            if token != self.token:
                return 403, "Permission denied"
            if not self.has_leader:
                return 500, "No cluster leader"
            if (method, path) == ("PUT", "/v1/txn"):
                return self._transact(json.loads(body))
            if (method, path) == ("PUT", "/v1/session/create"):
                return self._create_session(json.loads(body))
            if method == "PUT" and path.startswith("/v1/session/renew/"):
                session = path.rsplit("/", 1)[1]
                known = self.state.sessions.get(session)
                return (200, [{"ID": session, **known}]) if known else (404, "Session id not found")
            if method == "GET" and path.startswith("/v1/kv/") and "recurse" in query and "consistent" in query:
                prefix = path.removeprefix("/v1/kv/")
                found = [_show(key, entry) for key, entry in self.state.keys.items() if key.startswith(prefix)]
                return (200, found) if found else (404, None)
        raise NotImplementedError(f"{method} {target}")

    def _create_session(self, wish: dict[str, Any]) -> tuple[int, Any]:
        seconds = int(wish["TTL"].removesuffix("s"))
        if not 10 <= seconds <= 86_400:
            return 400, "Invalid Session TTL"
        if wish.get("Checks") is None and wish.get("NodeChecks") is None:
            raise NotImplementedError("a session with the default check, serfHealth")
        if wish["Behavior"] not in ("release", "delete"):
            return 400, "Invalid Behavior"
        session = str(uuid.uuid4())
        self.state.index += 1
        self.state.sessions[session] = wish
        return 200, {"ID": session}

    def _destroy(self, session: str) -> None:
        behavior = self.state.sessions.pop(session)["Behavior"]
        self.state.index += 1
        for key, entry in list(self.state.keys.items()):
            if entry.session == session:
                if behavior == "delete":
                    del self.state.keys[key]
                else:
                    entry.session = ""

    def _transact(self, operations: list[dict[str, Any]]) -> tuple[int, Any]:
        if len(operations) > 64:
            return 413, "Transaction contains too many operations"
        before = {key: _Key(**vars(entry)) for key, entry in self.state.keys.items()}
        self.state.index += 1
        results: list[Any] = []
        errors = []
        for number, operation in enumerate(operations):
            try:
                self._apply(operation["KV"], results)
            except _RolledBack as error:
                errors.append({"OpIndex": number, "What": str(error)})
        if errors:
            self.state.keys = before
            return 409, {"Results": None, "Errors": errors}
        return 200, {"Results": results or None, "Errors": None}

    def _apply(self, wish: dict[str, Any], results: list[Any]) -> None:
        key, verb, index = wish["Key"], wish["Verb"], wish.get("Index", 0)
        entry = self.state.keys.get(key)
        if verb == "check-not-exists":
            if entry is not None:
                raise _RolledBack(f'key "{key}" exists')
            return
        if verb == "check-index":
            if entry is None:
                raise _RolledBack(f'failed to check index, key "{key}" doesn\'t exist')
            if entry.modified != index:
                told = f"current modify index {entry.modified} != {index}"
                raise _RolledBack(f'failed index check for key "{key}", {told}')
        elif verb == "delete-cas":
            if entry is None:
                return  # Consul calls that a success
            if entry.modified != index:
                raise _RolledBack(f'failed to delete key "{key}", index is stale')
            del self.state.keys[key]
            return
        elif verb == "cas":
            if (entry.modified if entry else 0) != index:
                raise _RolledBack(f'failed to set key "{key}", index is stale')
            entry = self._set(key, wish["Value"], entry.session if entry else "")
        elif verb == "lock":
            session = wish["Session"]
            if session not in self.state.sessions:
                raise _RolledBack(f'invalid session "{session}"')
            if entry is not None and entry.session not in ("", session):
                raise _RolledBack(f'failed to lock key "{key}", lock is already held')
            lock_index = (entry.lock_index if entry else 0) + (entry is None or not entry.session)
            entry = self._set(key, wish["Value"], session)
            entry.lock_index = lock_index
        else:
            raise NotImplementedError(verb)
        results.append({"KV": {**_show(key, entry), "Value": None}})

    def _set(self, key: str, value: str, session: str) -> _Key:
        base64.b64decode(value, validate=True)
        entry = self.state.keys.get(key)
        if entry is None:
            entry = self.state.keys[key] = _Key(value, self.state.index, self.state.index, session)
        elif (entry.value, entry.session) != (value, session):
            entry.value, entry.session, entry.modified = value, session, self.state.index
        return entry


def _show(key: str, entry: _Key) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "LockIndex": entry.lock_index,
        "Key": key,
        "Flags": 0,
        "Value": entry.value or None,
        "CreateIndex": entry.created,
        "ModifyIndex": entry.modified,
    }
    if entry.session:
        shown["Session"] = entry.session
    return shown


def _handler(consul: FakeConsul) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 5

        def do_GET(self) -> None:
            self._serve()

        def do_PUT(self) -> None:
            self._serve()

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            token = self.headers.get("X-Consul-Token", "")
            status, answer = consul.answer(self.command, self.path, token, body)
            text = answer if isinstance(answer, str) else "" if answer is None else json.dumps(answer)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class calls it so
            pass

    return Handler

"""A client of the HTTP API that outlives the servers: it repeats a request until one of them answers it."""

import http.client
import json
import time
from typing import Any, Self

RETRY_S = 0.05
TIMEOUT_S = 20
NEXT_NODE_S = 4
"""A node that has not answered by then may be frozen: the next one is asked."""

NOTHING_WRITTEN = (429, 503)
"""A node sheds new jobs for a moment where the machine has too much else to do."""


class Api:
    """One connection at a time; not shared between threads. Closed by `close`, or as a context manager."""

    def __init__(self, *ports: int, patience_s: float = 60) -> None:
        self._ports, self._patience_s = ports, patience_s
        self._turn = 0
        self._connection: http.client.HTTPConnection | None = None
        self.repeated = 0
        """Requests that were sent again, because they failed or were answered 429 or 503."""
        self.longest_s = 0.0
        """The longest that a request took, repeats included."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def another(self, turn: int) -> "Api":
        """One for another thread, which begins with another node."""
        turn %= len(self._ports)
        return Api(*self._ports[turn:], *self._ports[:turn], patience_s=self._patience_s)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def call(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """(status, decoded answer). Connection errors, 429 and 503 are repeated: all requests here may be."""
        data = None if body is None else json.dumps(body).encode()
        began = time.monotonic()
        while True:
            try:
                status, answer = self._once(method, path, data, headers or {})
                if status not in NOTHING_WRITTEN:
                    self.longest_s = max(self.longest_s, time.monotonic() - began)
                    return status, answer
            except (OSError, http.client.HTTPException):
                pass
            self.close()
            self._turn += 1
            self.repeated += 1
            if time.monotonic() > began + self._patience_s:
                raise TimeoutError(f"{method} {path} was not answered in {self._patience_s} s")
            time.sleep(RETRY_S)

    def _once(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> tuple[int, Any]:
        if self._connection is None:
            port = self._ports[self._turn % len(self._ports)]
            timeout_s = TIMEOUT_S if len(self._ports) == 1 else NEXT_NODE_S
            self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
        kind = {"Content-Type": "application/json"} if data is not None else {}
        self._connection.request(method, path, data, {**kind, **headers})
        response = self._connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text else None

    def pages(self, path: str, key: str) -> list[Any]:
        """All items of a list."""
        items: list[Any] = []
        cursor = ""
        while True:
            joint = "&" if "?" in path else "?"
            status, page = self.call("GET", f"{path}{joint}limit=500" + (f"&cursor={cursor}" if cursor else ""))
            assert status == 200, (path, status, page)
            items += page[key]
            cursor = page["next_cursor"]
            if not cursor:
                return items

"""A client of the HTTP API that outlives the server: it repeats a request until it is answered."""

import http.client
import json
import time
from typing import Any, Self

RETRY_S = 0.05


class Api:
    """One connection at a time; not shared between threads. Closed by `close`, or as a context manager."""

    def __init__(self, port: int, patience_s: float = 60) -> None:
        self._port, self._patience_s = port, patience_s
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def call(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """(status, decoded answer). Connection errors and 503 are repeated; safe because all requests here are."""
        data = None if body is None else json.dumps(body).encode()
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                status, answer = self._once(method, path, data, headers or {})
                if status != 503:
                    return status, answer
            except (OSError, http.client.HTTPException):
                self.close()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{method} {path} was not answered in {self._patience_s} s")
            time.sleep(RETRY_S)

    def _once(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> tuple[int, Any]:
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20)
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

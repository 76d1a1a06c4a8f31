"""The target of the crash test: an HTTP server in its own process that writes one line per request it gets.

The line is written before the answer is sent, so whatever the scheduler believes to have succeeded is in the log.
Paths: /ok answers 200 at once, /slow after 400 ms, /long after a minute, /flaky fails the first attempt of each
run, /never always 500.
"""

import asyncio
import contextlib
import json
import sys
import time
from typing import IO

WANTED = ("x-job-id", "webhook-id", "x-fencing-token", "x-attempt", "x-scheduled-at")
WAITS_S = {"/slow": 0.4, "/long": 60}


async def serve(log: IO[str]) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await answer_one(reader, writer, log):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


async def answer_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, log: IO[str]) -> bool:
    head = await reader.readuntil(b"\r\n\r\n")
    received_ms = time.time_ns() // 1_000_000
    request, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    await reader.readexactly(int(headers.get("content-length", 0)))
    path = request.split(" ")[1]
    log.write(json.dumps({"at_ms": received_ms, "path": path, **{n: headers.get(n) for n in WANTED}}) + "\n")
    log.flush()
    if path in WAITS_S:
        await asyncio.sleep(WAITS_S[path])
    failing = path == "/never" or (path == "/flaky" and headers.get("x-attempt") == "1")
    status = "500 Internal Server Error" if failing else "200 OK"
    writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
    await writer.drain()
    return True


if __name__ == "__main__":
    with open(sys.argv[1], "a", encoding="utf-8") as log_file, contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(log_file))

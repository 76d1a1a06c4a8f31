"""`ConsulKeys`: keys with revisions in Consul's KV store.

All changes go through `/v1/txn`: it takes several keys at once, and its answer has the new revisions. Reads ask
for `consistent`, so that an agent whose servers lost their quorum says so instead of showing old beats.

Consul's sessions can't say who is alive: their shortest TTL is ten seconds, and they may last twice as long.
Here a session of ten minutes only sweeps up: a beat's key is written under it at first (`lock`), and is deleted
together with it. The session has no health checks, or a hiccup of the local agent would delete the beats of a
process that is well; and the shortest lock delay, for the same process may write its key again at once.

Blocking queries aren't used: some beat changes every few milliseconds, so each would return at once.
"""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec

from tickwheel.adapters.consul import api
from tickwheel.adapters.coordination.address import Address
from tickwheel.adapters.coordination.http_calls import Answer, HttpCalls, refuse
from tickwheel.adapters.coordination.keys import ABSENT, FLEETING_S, RENEW_MS, Change, Entry
from tickwheel.ports.clock import Clock

T = TypeVar("T")
_NOTHING_WRITTEN: Final = 0
_SESSION: Final = {
    "Name": "tickwheel",
    "TTL": f"{FLEETING_S}s",
    "Behavior": "delete",
    "LockDelay": "1ms",
    "Checks": [],
    "NodeChecks": [],
}


class ConsulKeys:
    """Implements `coordination.keys.KeyStore`."""

    def __init__(self, address: Address, clock: Clock, calls: HttpCalls) -> None:
        self._address, self._clock, self._calls = address, clock, calls
        self._headers = (f"X-Consul-Token: {address.password}",) if address.password else ()
        self._session = ""
        self._renewed_ms = 0

    @property
    def described(self) -> str:
        return self._address.described

    async def read(self) -> Mapping[str, Entry]:
        answer = await self._call("GET", f"/v1/kv/{quote(self._address.prefix)}?recurse=true&consistent")
        if answer.status == api.NOT_FOUND:
            return {}
        pairs = self._decode(answer, list[api.Pair])
        try:
            return {
                pair.Key.removeprefix(self._address.prefix): Entry(
                    b64decode(pair.Value or ""), pair.CreateIndex, pair.ModifyIndex
                )
                for pair in pairs
            }
        except ValueError as error:  # no base64
            raise refuse(self._address, answer) from error

    async def swap(self, changes: Sequence[Change]) -> int | None:
        answer = await self._transact(changes)
        if answer.status == api.CONFLICT:
            failures = self._decode(answer, api.TxnAnswer, status=api.CONFLICT).Errors or []
            if not any(api.INVALID_SESSION in failure.What for failure in failures):
                return None
            self._session = ""  # it ended: this process was held up for ten minutes
            answer = await self._transact(changes)
            if answer.status == api.CONFLICT:
                return None
        written = {change.key for change in changes if change.value is not None}
        revisions = [
            result.KV.ModifyIndex
            for result in self._decode(answer, api.TxnAnswer).Results or []
            if result.KV is not None and result.KV.Key.removeprefix(self._address.prefix) in written
        ]
        return max(revisions, default=_NOTHING_WRITTEN)

    async def aclose(self) -> None:
        await self._calls.aclose()

    async def _transact(self, changes: Sequence[Change]) -> Answer:
        if any(change.fleeting for change in changes):
            await self._keep_session()
        operations = [operation for change in changes for operation in self._operations(change)]
        return await self._call("PUT", "/v1/txn", msgspec.json.encode(operations))

    def _operations(self, change: Change) -> list[dict[str, object]]:
        key = self._address.prefix + change.key
        exists = change.seen != ABSENT
        if change.only_check or (change.value is None and not exists):
            return [api.operation("check-index", key, Index=change.seen) if exists else _absent(key)]
        if change.value is None:
            return [api.operation("delete-cas", key, Index=change.seen)]
        if change.fleeting and not exists:
            return [_absent(key), api.operation("lock", key, change.value, Session=self._session)]
        return [api.operation("cas", key, change.value, Index=change.seen)]

    async def _keep_session(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._session and now_ms - self._renewed_ms < RENEW_MS:
            return
        if self._session:
            answer = await self._call("PUT", f"/v1/session/renew/{self._session}")
            if answer.status == api.NOT_FOUND:
                self._session = ""
        if not self._session:
            answer = await self._call("PUT", "/v1/session/create", msgspec.json.encode(_SESSION))
            self._session = self._decode(answer, api.SessionAnswer).ID
        self._renewed_ms = now_ms

    async def _call(self, method: str, path: str, body: bytes = b"") -> Answer:
        return await self._calls.send(method, path, body, self._headers)

    def _decode(self, answer: Answer, kind: type[T], *, status: int = 200) -> T:
        if answer.status != status:
            raise refuse(self._address, answer)
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except (msgspec.DecodeError, RecursionError) as error:
            raise refuse(self._address, answer) from error


def _absent(key: str) -> dict[str, object]:
    return api.operation("check-not-exists", key)

"""`EtcdKeys`: keys with revisions in etcd.

Reads are linearizable (etcd's default), so a server that lost its quorum says so instead of showing old beats.
Beats hang on one lease of ten minutes, renewed now and then; it only sweeps up after processes that nobody
cleaned up after, and never says who is alive: a new etcd leader lets all leases begin anew.

With a user, a token is fetched and sent along; when etcd doesn't know it any more (it expired, or that server
was restarted) a new one is fetched, once per request.
"""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from tickwheel.adapters.coordination.address import Address
from tickwheel.adapters.coordination.http_calls import Answer, HttpCalls, refuse
from tickwheel.adapters.coordination.keys import FLEETING_S, RENEW_MS, Change, Entry
from tickwheel.adapters.etcd import gateway
from tickwheel.ports.clock import Clock

T = TypeVar("T")
_NO_LEASE: Final = "0"
_LOGIN_PATIENCE: Final = 6


class EtcdKeys:
    """Implements `coordination.keys.KeyStore`."""

    def __init__(self, address: Address, clock: Clock, calls: HttpCalls) -> None:
        self._address, self._clock, self._calls = address, clock, calls
        self._prefix = address.prefix.encode()
        self._token = ""
        self._lease = _NO_LEASE
        self._renewed_ms = 0

    @property
    def described(self) -> str:
        return self._address.described

    async def read(self) -> Mapping[str, Entry]:
        answer = await self._call(
            "/v3/kv/range",
            {"key": gateway.text64(self._prefix), "range_end": gateway.text64(gateway.prefix_end(self._prefix))},
        )
        kvs = self._decode(answer, gateway.RangeAnswer).kvs
        try:
            return {
                b64decode(kv.key)[len(self._prefix) :].decode(errors="replace"): Entry(
                    b64decode(kv.value), int(kv.create_revision), int(kv.mod_revision)
                )
                for kv in kvs
            }
        except ValueError as error:  # no base64, no numbers
            raise refuse(self._address, answer) from error

    async def swap(self, changes: Sequence[Change]) -> int | None:
        lease = await self._fresh_lease() if any(change.fleeting for change in changes) else _NO_LEASE
        answer = await self._call("/v3/kv/txn", self._transaction(changes, lease))
        if self._fault(answer).code == gateway.NOT_FOUND and lease != _NO_LEASE:
            self._lease = _NO_LEASE  # it ended: this process was held up for ten minutes
            answer = await self._call("/v3/kv/txn", self._transaction(changes, await self._fresh_lease()))
        done = self._decode(answer, gateway.TxnAnswer)
        try:
            return int(done.header.revision) if done.succeeded else None
        except ValueError as error:
            raise refuse(self._address, answer) from error

    async def aclose(self) -> None:
        await self._calls.aclose()

    def _transaction(self, changes: Sequence[Change], lease: str) -> object:
        compare, success = [], []
        for change in changes:
            key = gateway.text64(self._prefix + change.key.encode())
            compare.append({"key": key, "target": "MOD", "result": "EQUAL", "mod_revision": str(change.seen)})
            if change.only_check:
                continue
            if change.value is None:
                success.append({"request_delete_range": {"key": key}})
            else:
                put = {"key": key, "value": gateway.text64(change.value)}
                if change.fleeting:
                    put["lease"] = lease
                success.append({"request_put": put})
        return {"compare": compare, "success": success}

    async def _fresh_lease(self) -> str:
        now_ms = self._clock.monotonic_ms()
        if self._lease != _NO_LEASE and now_ms - self._renewed_ms < RENEW_MS:
            return self._lease
        if self._lease != _NO_LEASE:
            answer = await self._call("/v3/lease/keepalive", {"ID": self._lease})
            if self._decode(answer, gateway.KeepAliveAnswer).result.TTL == "0":
                self._lease = _NO_LEASE
        if self._lease == _NO_LEASE:
            answer = await self._call("/v3/lease/grant", {"TTL": str(FLEETING_S)})
            self._lease = self._decode(answer, gateway.LeaseAnswer).ID
        self._renewed_ms = now_ms
        return self._lease

    async def _call(self, path: str, message: object) -> Answer:
        body = msgspec.json.encode(message)
        if not self._address.user:
            return await self._calls.send("POST", path, body)
        if not self._token:
            await self._authenticate()
        answer = await self._calls.send("POST", path, body, (f"Authorization: {self._token}",))
        if self._token_is_unknown(answer):
            await self._authenticate()
            answer = await self._calls.send("POST", path, body, (f"Authorization: {self._token}",))
        return answer

    async def _authenticate(self) -> None:
        message = {"name": self._address.user, "password": self._address.password}
        body = msgspec.json.encode(message)
        answer = await self._calls.send("POST", "/v3/auth/authenticate", body, patience=_LOGIN_PATIENCE)
        self._token = self._decode(answer, gateway.TokenAnswer).token

    def _token_is_unknown(self, answer: Answer) -> bool:
        fault = self._fault(answer)
        if fault.code == gateway.UNAUTHENTICATED:
            return True
        # A server that has restarted since calls it the revision of an older set of users, or sees no user.
        return fault.code == gateway.INVALID_ARGUMENT and (
            "user name is empty" in fault.text or "revision" in fault.text
        )

    def _fault(self, answer: Answer) -> gateway.Fault:
        if answer.status == 200:
            return gateway.Fault()
        try:
            return msgspec.json.decode(answer.body, type=gateway.Fault)
        except (msgspec.DecodeError, RecursionError):
            return gateway.Fault()

    def _decode(self, answer: Answer, kind: type[T]) -> T:
        if answer.status != 200:
            raise refuse(self._address, answer)
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except (msgspec.DecodeError, RecursionError) as error:
            raise refuse(self._address, answer) from error

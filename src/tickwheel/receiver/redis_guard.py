"""Effects that happen once, with the record in Redis.

    with guard.once(client, delivery) as first:
        if first:
            first.connection.incrby("balance", 5)  # in Redis: happens with the record or not at all
            send_mail(...)  # elsewhere: see below

`first.connection` is a pipeline; what is put on it and the record are one MULTI/EXEC, which Redis refuses if
another delivery has taken the run over. That is exactly once, as long as Redis loses no write that it has
confirmed.

An effect elsewhere is not in that transaction. When a process dies between such an effect and the record, the next
attempt makes it again; so hand it the run id as an idempotency key, or the fencing token where it can refuse lower
ones. To keep two deliveries from working at the same time, the run is claimed for `claim_ms`, which should be
longer than the effect takes and than the target's timeout: until then others get `DeliveryInProgress`, after it a
higher token takes over. Whatever Redis forgets (eviction, FLUSHALL, a failover before the write was copied) may
happen again.
"""

import secrets
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final

from tickwheel.receiver.delivery import Delivery
from tickwheel.receiver.refusals import DeliveryInProgress, StaleDelivery
from tickwheel.receiver.turns import Answer, Turn

CLAIM_MS: Final = 60_000
KEEP_MS: Final = 30 * 86_400_000
"""How long a run is remembered after its last delivery."""

# Fields: token (the highest let through), state (claimed, free, done), owner (of the claim), until_ms (of the
# claim), status and body (of the answer). The server's clock counts, so that receivers need not agree on the time.
_CLAIM: Final = """
local f = redis.call('HMGET', KEYS[1], 'token', 'state', 'owner', 'until_ms', 'status', 'body')
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if f[2] == 'done' then return {'done', f[5], f[6]} end
if f[1] and tonumber(ARGV[1]) < tonumber(f[1]) then return {'stale', f[1], ''} end
if f[2] == 'claimed' and f[3] ~= ARGV[2] and now < tonumber(f[4]) then
  return {'busy', tostring(math.ceil((f[4] - now) / 1000)), ''}
end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'state', 'claimed', 'owner', ARGV[2],
           'until_ms', string.format('%d', now + ARGV[3]))
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {'mine', '', ''}
"""
_RELEASE: Final = """
if redis.call('HGET', KEYS[1], 'owner') == ARGV[1] and redis.call('HGET', KEYS[1], 'state') == 'claimed' then
  redis.call('HSET', KEYS[1], 'state', 'free')
end
"""


class _Claims:
    """What both guards have in common."""

    def __init__(self, *, prefix: str = "tickwheel:", claim_ms: int = CLAIM_MS, keep_ms: int = KEEP_MS) -> None:
        self._prefix, self._claim_ms, self._keep_ms = prefix, claim_ms, keep_ms

    def _claim(self, delivery: Delivery, owner: str) -> tuple[str | int, ...]:
        key, token = self._prefix + delivery.run_id, delivery.fencing_token
        return _CLAIM, 1, key, token, owner, self._claim_ms, self._keep_ms

    def _finish(self, pipeline: Any, key: str, turn: Turn) -> None:
        """Queue the record."""
        if not pipeline.explicit_transaction:
            raise RuntimeError("the effect has executed the guard's pipeline: leave that to the guard")
        status, body = turn.kept()
        # As text, so that a client with decode_responses can read it.
        pipeline.hset(key, mapping={"state": "done", "status": status, "body": b64encode(body).decode()})
        pipeline.pexpire(key, self._keep_ms)


class RedisGuard(_Claims):
    """For clients of redis-py. Keys are `prefix` and the run id; they go `keep_ms` after the last delivery."""

    @contextmanager
    def once(self, connection: Any, delivery: Delivery) -> Iterator[Turn]:
        """As `Guard.once`; errors of the client are passed on as they are."""
        key, owner = self._prefix + delivery.run_id, secrets.token_hex(8)
        turn = _turn_of(delivery, connection.eval(*self._claim(delivery, owner)), connection)
        if not turn:
            yield turn
            return
        try:
            with connection.pipeline(transaction=True) as pipeline:
                pipeline.watch(key)
                _is_done(delivery, owner, pipeline.hmget(key, "owner", "state"))
                pipeline.multi()
                turn.connection = pipeline
                yield turn
                self._finish(pipeline, key, turn)
                try:
                    pipeline.execute()
                except Exception:
                    # Refused, or sent and the answer lost: then it may well have happened.
                    if not _is_done(delivery, owner, connection.hmget(key, "owner", "state")):
                        raise
        except Exception:
            with suppress(Exception):  # without it the claim ends by itself
                connection.eval(_RELEASE, 1, key, owner)
            raise


class AsyncRedisGuard(_Claims):
    """The same for clients of `redis.asyncio`."""

    @asynccontextmanager
    async def once(self, connection: Any, delivery: Delivery) -> AsyncIterator[Turn]:
        """As `RedisGuard.once`."""
        key, owner = self._prefix + delivery.run_id, secrets.token_hex(8)
        turn = _turn_of(delivery, await connection.eval(*self._claim(delivery, owner)), connection)
        if not turn:
            yield turn
            return
        try:
            async with connection.pipeline(transaction=True) as pipeline:
                await pipeline.watch(key)
                _is_done(delivery, owner, await pipeline.hmget(key, "owner", "state"))
                pipeline.multi()
                turn.connection = pipeline
                yield turn
                self._finish(pipeline, key, turn)
                try:
                    await pipeline.execute()
                except Exception:
                    if not _is_done(delivery, owner, await connection.hmget(key, "owner", "state")):  # as above
                        raise
        except Exception:
            with suppress(Exception):  # as above
                await connection.eval(_RELEASE, 1, key, owner)
            raise


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _turn_of(delivery: Delivery, answer: Any, connection: Any) -> Turn:
    verdict, first, second = map(_text, answer)
    if verdict == "stale":
        raise StaleDelivery(delivery.fencing_token, int(first))
    if verdict == "busy":
        raise DeliveryInProgress(int(first))
    return Turn(connection, Answer(int(first), b64decode(second)) if verdict == "done" else None)


def _is_done(delivery: Delivery, owner: str, fields: Any) -> bool:
    """Whether our record is there. Raises `StaleDelivery` if another delivery has the run."""
    holder, state = fields
    if holder is not None and _text(holder) != owner:
        raise StaleDelivery(delivery.fencing_token)
    return holder is not None and _text(state) == "done"

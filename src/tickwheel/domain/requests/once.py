"""The quick path for many jobs that run once: one decoding each, and what many have in common is looked at once.

Jobs of a batch differ in their times and payloads; target, retry policy and deadline are mostly the same. So these
stay text in the decoded body (`OnceBody`) and lead to a spec that is kept. What is odd in any way, and every job
that recurs, is left to `domain.requests.request`, which is exact.

Repeated keys are looked for in all texts together (see `domain.requests.request`): a text never shows fewer
members than its body has, so where the sums are equal, all are.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
import numpy as np

from tickwheel.domain.job import DEFAULT_TENANT, Spec
from tickwheel.domain.requests.body import OnceBody, RetryBody, TargetBody
from tickwheel.domain.requests.job_request import JobRequest
from tickwheel.domain.requests.member_count import given_count, visible_members
from tickwheel.domain.requests.request_builder import Doubtful, build_once, build_spec

_DECODER: Final = msgspec.json.Decoder(OnceBody)
_TARGET: Final = msgspec.json.Decoder(TargetBody)
_RETRY: Final = msgspec.json.Decoder(RetryBody)
_KEPT_BYTES: Final = 2_048
"""Longer targets are worked out again each time."""
_SHORT_BYTES: Final = 4_096
"""Longer texts are looked through in columns."""
_COLON, _QUOTE, _BLANK = b':" '


def once_requests(items: Sequence[bytes], tenant_id: str = DEFAULT_TENANT) -> list[JobRequest | None]:
    """The request in each item, a JSON text; None where the exact parser has to look.

    `tenant_id` is the tenant of those that name none.
    """
    requests: list[JobRequest | None] = []
    payloads: list[msgspec.Raw] = []
    counts: list[int] = []
    taken: list[int] = []
    decode = _DECODER.decode
    for number, item in enumerate(items):
        try:
            body = decode(item)
            spec, inner_count = _spec(bytes(body.target), bytes(body.retry_policy), body.deadline_seconds)
            requests.append(build_once(body, spec, tenant_id))
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, Doubtful):
            requests.append(None)
            continue
        taken.append(number)
        payloads.append(body.payload)
        counts.append(_own_count(body) + inner_count)
    texts = items if len(taken) == len(items) else [items[number] for number in taken]
    if _members_of(texts) - _members_of(payloads) != sum(counts):
        for number, payload, count in zip(taken, payloads, counts, strict=True):
            if visible_members(items[number]) - visible_members(bytes(payload)) != count:
                requests[number] = None
    return requests


def _spec(target: bytes, retry: bytes, deadline_seconds: float | None) -> tuple[Spec, int]:
    if len(target) + len(retry) > _KEPT_BYTES:
        return _new_spec(target, retry, deadline_seconds)
    return _kept_spec(target, retry, deadline_seconds)


def _new_spec(target: bytes, retry: bytes, deadline_seconds: float | None) -> tuple[Spec, int]:
    """The spec, and how many members `target` and `retry` have."""
    target_body = _TARGET.decode(target)
    count = given_count(target_body) + len(target_body.headers or ())
    retry_body = None
    if retry:
        retry_body = _RETRY.decode(retry)
        count += given_count(retry_body)
    return build_spec(target_body, retry_body, deadline_seconds), count


_kept_spec: Final = lru_cache(maxsize=1024)(_new_spec)


def _own_count(body: OnceBody) -> int:
    """How many members are given outside of `target` and `retry_policy`; the payload is one."""
    return given_count(body) - (not body.payload) - (not body.retry_policy)


def _members_of(texts: Iterable[Any]) -> int:
    """What `visible_members` gives for all of them in sum, for texts that are JSON."""
    text = b"".join(texts)
    if len(text) < _SHORT_BYTES:
        return visible_members(text)
    characters = np.frombuffer(text, np.uint8)
    before = characters[np.flatnonzero(characters == _COLON) - 1]
    if (before <= _BLANK).any():
        return visible_members(text)
    return int(np.count_nonzero(before == _QUOTE))

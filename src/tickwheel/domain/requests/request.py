"""The strict parser of job requests.

Jobs that run once and have nothing odd about them are taken by `domain.requests.once`. The rest gets the parser
here. It has two halves. The fast one decodes into `body.JobBody` and builds the request, and gives up at the
first thing that looks odd, without saying what. Only then the slow one (`request_problems`) walks the text
field by field and names *every* problem. A property test holds the two together: what the fast half takes, the
slow half finds nothing wrong with, and the other way round.

**Repeated keys.** JSON decoders keep the last of two equal keys, so `{"priority": "LOW", ..., "priority":
"CRITICAL"}` would pass unseen. Every member of an object shows as `":` once blanks are gone; if the text has as
many of them (outside the payload) as the decoded body has members, no key is there twice. A string such as
`\\":` or a null only makes the numbers differ, and then the slow half looks exactly.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from tickwheel.domain import limits
from tickwheel.domain.errors import FieldProblem, InvalidRequest
from tickwheel.domain.job import DEFAULT_TENANT
from tickwheel.domain.requests.batch_items import cut_array
from tickwheel.domain.requests.body import JobBody
from tickwheel.domain.requests.job_request import JobRequest, request_hash
from tickwheel.domain.requests.member_count import given_count, visible_members
from tickwheel.domain.requests.once import once_requests
from tickwheel.domain.requests.request_builder import Doubtful, build_request
from tickwheel.domain.requests.request_problems import MALFORMED, TOO_LARGE, explain, find_problems
from tickwheel.domain.requests.strict_json import JsonFault, load

__all__ = [
    "MALFORMED",
    "TOO_LARGE",
    "JobRequest",
    "parse_exactly",
    "parse_job_request",
    "parse_job_requests",
    "request_hash",
    "split_batch",
]

_DECODER: Final = msgspec.json.Decoder(JobBody)
_BATCH_DECODER: Final = msgspec.json.Decoder(list[msgspec.Raw])


def parse_job_request(raw: bytes, tenant_id: str = DEFAULT_TENANT) -> JobRequest:
    """The request in `raw`, one JSON object, of `tenant_id` if it names no tenant.

    Raises `InvalidRequest` with every problem named.
    """
    [request] = once_requests((raw,), tenant_id)
    return parse_exactly(raw, tenant_id) if request is None else request


def parse_exactly(raw: bytes, tenant_id: str = DEFAULT_TENANT) -> JobRequest:
    """The same without the quick path."""
    try:
        body = _DECODER.decode(raw)
        request = build_request(body, tenant_id)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, Doubtful) as error:
        raise explain(raw, str(error)) from error
    if visible_members(raw) - visible_members(bytes(body.payload)) != _member_count(body):
        problems = find_problems(raw)
        if problems:
            raise InvalidRequest(problems)
    return request


def parse_job_requests(
    items: Sequence[bytes], tenant_id: str = DEFAULT_TENANT
) -> list[JobRequest | InvalidRequest]:
    """The request in each item, or what is wrong with it; each item is judged alone.

    `tenant_id` is the tenant of those that name none.
    """
    requests: list[JobRequest | InvalidRequest] = []
    for item, request in zip(items, once_requests(items, tenant_id), strict=True):
        if request is not None:
            requests.append(request)
            continue
        try:
            requests.append(parse_exactly(item, tenant_id))
        except InvalidRequest as error:
            requests.append(error)
    return requests


def split_batch(raw: bytes) -> Sequence[bytes]:
    """The items of a batch body, a JSON array, each as its own text. Raises `InvalidRequest`."""
    try:
        items: Sequence[bytes] = [bytes(item) for item in _BATCH_DECODER.decode(raw)]
    except (msgspec.MsgspecError, RecursionError):
        items = _cut(raw)
    if len(items) > limits.BATCH_COUNT:
        message = f"has {len(items)} jobs; at most {limits.BATCH_COUNT} are allowed in one batch"
        raise InvalidRequest([FieldProblem("", message, TOO_LARGE)])
    return items


def _cut(raw: bytes) -> Sequence[bytes]:
    """The items of an array that holds something odd; what it is will be told of its item alone."""
    fault_text = "must be a JSON array of job requests in UTF-8"
    try:
        if isinstance(load(raw), list):
            return cut_array(raw)
    except JsonFault as fault:
        fault_text = str(fault)
    raise InvalidRequest([FieldProblem("", f"the body {fault_text}", MALFORMED)])


def _member_count(body: JobBody) -> int:
    count = given_count(body) - (not len(body.payload)) + given_count(body.target)
    if body.target.headers is not None:
        count += len(body.target.headers)
    if body.retry_policy is not None:
        count += given_count(body.retry_policy)
    if body.catch_up is not None:
        count += given_count(body.catch_up)
    if body.concurrency is not None:
        count += sum(map(given_count, body.concurrency))
    return count

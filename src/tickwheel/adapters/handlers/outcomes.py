"""From what a handler returned or raised to the outcome of its attempt."""

from typing import Any, Final

import msgspec

from tickwheel.adapters.handlers.endings import Cancel, Fail, Retry, Snooze
from tickwheel.adapters.handlers.payloads import PayloadMisfit
from tickwheel.domain.limits import PAYLOAD_DEPTH
from tickwheel.domain.outcome import OK, RESULT_LIMIT_BYTES, Outcome, OutcomeClass, clip_text
from tickwheel.domain.requests.json_depth import nests_deeper_than

UNSTARTED: Final = Outcome(outcome_class=OutcomeClass.UNSTARTED, error="handed back: the process is stopping")
CANCELLED: Final = Outcome(outcome_class=OutcomeClass.CANCELLED, error="cancelled")


def outcome_of_return(value: Any) -> Outcome:
    """Success, with what was returned as JSON if it can be kept."""
    if value is None:
        return OK
    try:
        encoded = _encode(value)
    except Exception as error:  # objects of the user's may raise anything, and the work is done all the same
        return _dropped(f"it can't be written as JSON ({told(error)})")
    if len(encoded) > RESULT_LIMIT_BYTES:
        return _dropped(f"it has {len(encoded):,} bytes as JSON; at most {RESULT_LIMIT_BYTES:,} are kept")
    if nests_deeper_than(encoded, PAYLOAD_DEPTH):
        return _dropped(f"it nests deeper than {PAYLOAD_DEPTH} levels")
    return Outcome(outcome_class=OutcomeClass.SUCCESS, result=encoded)


def outcome_of_error(error: BaseException) -> Outcome:
    """How an attempt ends that raised this."""
    text = clip_text(told(error))
    if isinstance(error, Fail):
        return failure(OutcomeClass.PERMANENT if error.permanent else OutcomeClass.RETRYABLE, text)
    if isinstance(error, Cancel):
        return failure(OutcomeClass.CANCELLED, text)
    if isinstance(error, Snooze):
        return Outcome(outcome_class=OutcomeClass.SNOOZE, error=text, retry_after_ms=error.after_ms)
    if isinstance(error, Retry):
        return Outcome(outcome_class=OutcomeClass.RETRYABLE, error=text, retry_after_ms=error.after_ms)
    if isinstance(error, PayloadMisfit):
        return failure(OutcomeClass.PERMANENT, clip_text(str(error)))
    return failure(OutcomeClass.RETRYABLE, text)


def failure(outcome_class: OutcomeClass, error: str) -> Outcome:
    """An end with a reason."""
    return Outcome(outcome_class=outcome_class, error=error)


def told(error: BaseException) -> str:
    """Name and text of an error."""
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except BaseException:  # the user's own __str__ may raise anything, and the attempt has to end all the same
        return name


def _dropped(reason: str) -> Outcome:
    return Outcome(outcome_class=OutcomeClass.SUCCESS, result_dropped=clip_text(reason))


def _plain(value: Any) -> Any:
    """Models of pydantic's kind; whatever else msgspec does not know is refused."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    raise TypeError(f"objects of type {type(value).__name__} are not supported")


_encode: Final = msgspec.json.Encoder(enc_hook=_plain).encode

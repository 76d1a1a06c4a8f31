"""Ids in paths. A text that is no id names nothing, so it is a 404 like an id that nobody has."""

from tickwheel.domain.errors import NotFound
from tickwheel.domain.ids import IdError, parse_job_id, parse_run_id
from tickwheel.interfaces.http.resource import Call


def job_id_of(call: Call) -> bytes:
    """The job id in the path."""
    text = call.path("job_id")
    try:
        return parse_job_id(text)
    except IdError as error:
        hint = "the list finds jobs by name, with name_prefix"
        raise NotFound(f"{text[:80]!a} is not a job id: {error}; {hint}") from error


def run_id_of(call: Call) -> tuple[bytes, int]:
    """(job id, scheduled_ms) of the run id in the path."""
    text = call.path("run_id")
    try:
        return parse_run_id(text)
    except IdError as error:
        raise NotFound(f"{text[:80]!a} is not a run id: {error}") from error

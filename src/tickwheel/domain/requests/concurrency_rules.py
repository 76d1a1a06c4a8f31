"""What must hold between the members of `concurrency`, its items, and the rest of the job."""

from collections.abc import Iterator, Sequence

from tickwheel.domain.concurrency import Scope


def limit_faults(
    items: Sequence[tuple[Scope | None, str | None]], job_name: str
) -> Iterator[tuple[int, str, str, str]]:
    """(index, member, fault, code) of all that is wrong with these (scope, key); a scope of None is left alone."""
    seen: dict[tuple[Scope, str | None], int] = {}
    for index, (scope, key) in enumerate(items):
        if scope is None:
            continue
        if scope is not Scope.KEY and key is not None:
            yield index, "key", f"goes with scope key only; remove it or change scope {scope}", "conflict"
            continue
        if scope is Scope.KEY and not key:
            yield index, "key", 'is required: any text that runs have in common, such as "customer-42"', "required"
            continue
        if scope is Scope.JOB_NAME and not job_name:
            yield index, "scope", "job_name needs a job that has a job_name; give it one", "conflict"
        first = seen.setdefault((scope, key), index)
        if first != index:
            yield index, "scope", f"counts the same as concurrency[{first}]; name each limit once", "conflict"

"""How a message reads: for people as a title and lines, for machines as JSON of the form of Standard Webhooks.

Nothing of what came from outside (names, errors) can break out of its line.
"""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from tickwheel.domain.notifications.groups import Example, Gathered, Group
from tickwheel.domain.notifications.kinds import TRIAL, Kind
from tickwheel.domain.notifications.rule import NotificationRule

NAME_CHARS: Final = 120
DETAIL_CHARS: Final = 300
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Message(msgspec.Struct, frozen=True):
    """What is sent. `id` is the same for all tries. The title is one line without control characters."""

    id: str
    tenant_id: str  # of the rule; "": of the installation
    title: str
    text: str
    body: bytes


def compose(tenant_id: str, rule_name: str, rule: NotificationRule, group: Group, public_url: str) -> Message:
    """The message of a group that is sending."""
    gathered = group.sending
    if gathered is None:
        raise ValueError("the group has nothing to send")
    title = _title(group, gathered)
    url = _url(group, gathered, public_url)
    subject = f"{group.kind}/{group.job_id or group.about}"
    data = {
        "rule": rule_name,
        "tenant_id": group.tenant_id or None,
        "job_id": group.job_id or _only_job(gathered) or None,
        "about": group.about,
        "count": gathered.count,
        "first_at": _iso(gathered.first_ms),
        "last_at": _iso(gathered.last_ms),
        "examples": [_example(example, public_url) for example in gathered.examples],
        "url": url or None,
    }
    lines = [f"{title}.", "", *_lines(gathered)]
    lines += ["", url] if url else []
    lines += ["", _footer(tenant_id, rule_name, rule)]
    return Message(
        id=_message_id(tenant_id, rule_name, subject, group.number, group.began_ms or 0),
        tenant_id=tenant_id,
        title=title,
        text="\n".join(lines) + "\n",
        body=_json(group.kind, gathered.last_ms, f"{title}{_cause(gathered)}", url, data),
    )


def _only_job(gathered: Gathered) -> str:
    """The one job that it is about; one-off jobs of a name share a message, and may be several."""
    jobs = {example.job_id for example in gathered.examples}
    return jobs.pop() if gathered.count == len(gathered.examples) and len(jobs) == 1 else ""


def _cause(gathered: Gathered) -> str:
    """What the last one said of itself."""
    detail = one_line(gathered.examples[-1].detail, DETAIL_CHARS) if gathered.examples else ""
    if not detail:
        return ""
    return f" ({detail})" if gathered.count == 1 else f" (the last one: {detail})"


def compose_trial(tenant_id: str, rule_name: str, now_ms: int, public_url: str) -> Message:
    """What is sent to try a rule out."""
    title = f"Trial message of the rule {rule_name}"
    data = {"rule": rule_name, "tenant_id": tenant_id or None, "url": public_url or None}
    says = (
        "" if public_url else "Messages have no links: the setting public_url says where people reach the server."
    )
    text = f"{title}.\n\nWhat the rule is about would be told this way.\n" + (f"\n{says}\n" if says else "")
    return Message(
        id=_message_id(tenant_id, rule_name, TRIAL, 0, now_ms),
        tenant_id=tenant_id,
        title=title,
        text=text + (f"\n{public_url}\n" if public_url else ""),
        body=_json(TRIAL, now_ms, f"{title}. {says}".rstrip(), public_url, data),
    )


def one_line(text: str, most: int) -> str:
    """The text in one line that can be printed, of so many characters at most."""
    printable = "".join(char if char.isprintable() else " " for char in text)
    joined = " ".join(printable.split())
    return joined if len(joined) <= most else joined[: most - 1] + "…"


def _title(group: Group, gathered: Gathered) -> str:
    about, count = one_line(group.about, NAME_CHARS), gathered.count
    match group.kind:
        case Kind.DEAD_LETTERED:
            return f"Run out of attempts: {about}" if count == 1 else f"{count:,} runs out of attempts: {about}"
        case Kind.FAILING:
            return f"Job failing: {about}"
        case Kind.RECOVERED:
            return f"Job recovered: {about}"
        case Kind.EXHAUSTED:
            return f"Schedule exhausted, it will never fire again: {about}"
        case Kind.BURNING:
            return f"Lateness budget burning: {about}"


def _lines(gathered: Gathered) -> list[str]:
    lines = []
    for example in gathered.examples:
        what = example.run_id or example.job_id
        detail = one_line(example.detail, DETAIL_CHARS)
        lines.append(" ".join(part for part in (_iso(example.at_ms), what, detail) if part))
    more = gathered.count - len(gathered.examples)
    if more:
        lines.insert(0, f"{more:,} more since {_iso(gathered.first_ms)}, then")
    return lines


def _footer(tenant_id: str, rule_name: str, rule: NotificationRule) -> str:
    whose = f"the tenant {one_line(tenant_id, NAME_CHARS)}" if tenant_id else "the installation"
    often = f", at most every {rule.quiet_seconds} seconds" if rule.quiet_seconds else ""
    return f"Sent by the rule {rule_name} of {whose}{often}."


def _url(group: Group, gathered: Gathered, public_url: str) -> str:
    """The page of the dashboard that shows most of it."""
    if not public_url:
        return ""
    if group.kind is Kind.DEAD_LETTERED:
        run_id = gathered.examples[-1].run_id
        return _page(public_url, f"runs/{run_id}" if gathered.count == 1 and run_id else "dead-letters")
    return _page(public_url, f"jobs/{group.job_id}" if group.job_id else "")


def _example(example: Example, public_url: str) -> dict[str, Any]:
    return {
        "at": _iso(example.at_ms),
        "job_id": example.job_id or None,
        "job_name": example.job_name or None,
        "run_id": example.run_id or None,
        "scheduled_at": _iso(example.scheduled_ms) if example.run_id else None,
        "detail": one_line(example.detail, DETAIL_CHARS) or None,
        "url": _page(public_url, f"runs/{example.run_id}") if example.run_id and public_url else None,
    }


def _page(public_url: str, page: str) -> str:
    return f"{public_url.rstrip('/')}/#/{page}"


def _json(kind: str, at_ms: int, title: str, url: str, data: dict[str, Any]) -> bytes:
    """`text` is what chat programs show of what is posted to them."""
    text = f"{title}\n{url}" if url else title
    return msgspec.json.encode({"type": kind, "timestamp": _iso(at_ms), "text": text, "data": data})


def _message_id(tenant_id: str, rule_name: str, subject: str, number: int, began_ms: int) -> str:
    """A group that was forgotten begins to count anew, so the instant is a part of it."""
    named = "\0".join((tenant_id, rule_name, subject, str(number), str(began_ms)))
    return f"ntf_{hashlib.blake2b(named.encode(errors='surrogatepass'), digest_size=16).hexdigest()}"


def _iso(at_ms: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=at_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

"""`/`: what runs here, what is due next, what failed last."""

from html import escape
from typing import Final
from urllib.parse import quote

from tickwheel.domain.errors import TickwheelError
from tickwheel.domain.ids import job_id_text, run_id_text
from tickwheel.domain.job import DEFAULT_TENANT
from tickwheel.domain.zones import tzdata_version
from tickwheel.interfaces.http.deps import Deps
from tickwheel.interfaces.http.pages import cell, page, table
from tickwheel.interfaces.http.resource import Call
from tickwheel.interfaces.http.tenants import tenant_of
from tickwheel.interfaces.http.version import VERSION
from tickwheel.interfaces.http.wire import Answer, iso_text
from tickwheel.ports.store import DeadLetter, JobOrder, JobQuery, JobView
from tickwheel.services.job_status import job_status, overdue_ms

SHOWN_COUNT: Final = 8
REFRESH_SECONDS: Final = 10

_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms"))


class FrontPage:
    """The handler of `/`. It shows what it can: a part that can't be read says so in its place."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    async def __call__(self, call: Call) -> Answer:
        """`?tenant_id=` chooses whose jobs are shown."""
        tenant = tenant_of(call)
        call.query.done()
        parts = [
            f"<h1>What runs here</h1><p class='soft'>Tenant <code>{escape(tenant)}</code>. "
            f"Updated {iso_text(self._deps.clock.now_ms())}, again every {REFRESH_SECONDS} seconds.</p>",
            await self._cards() if call.principal.tenant_id is None else "",
            "<h2>Next due</h2>",
            await self._next_due(tenant),
            "<h2>Last failures</h2>",
            await self._failures(tenant),
            "<h2>Where to go</h2>",
            _links(tenant),
        ]
        about = f"{VERSION} · tzdata {tzdata_version()}"
        return page("Tickwheel", about, "\n".join(parts), refresh_seconds=REFRESH_SECONDS)

    async def _cards(self) -> str:
        try:
            counts = await self._deps.store.counts()
        except TickwheelError as error:
            return _banner(error)
        cards = [
            (counts.jobs, "job", "jobs", ""),
            (counts.waiting, "timer waiting", "timers waiting", ""),
            (counts.dead_letters, "dead letter", "dead letters", " bad" if counts.dead_letters else ""),
        ]
        shown = "".join(
            f'<div class="card{css}"><b>{n:,}</b><span>{one if n == 1 else many}</span></div>'
            for n, one, many, css in cards
        )
        return f'<div class="cards">{shown}</div>'

    async def _next_due(self, tenant: str) -> str:
        query = JobQuery(tenant_id=tenant, limit=SHOWN_COUNT, order=JobOrder.DUE)
        try:
            views = (await self._deps.jobs.list(query)).items
        except TickwheelError as error:
            return _banner(error)
        now_ms = self._deps.clock.now_ms()
        return table(
            ["Due", "Job", "Schedule", "Priority", "Status"],
            [_due_row(view, tenant, now_ms) for view in views],
            "Nothing is scheduled. The first example of the API reference makes a job.",
        )

    async def _failures(self, tenant: str) -> str:
        try:
            letters = (await self._deps.dead_letters.list(tenant, SHOWN_COUNT, None)).items
        except TickwheelError as error:
            return _banner(error)
        now_ms = self._deps.clock.now_ms()
        return table(
            ["Failed", "Run of", "Attempts", "Cause"],
            [_failure_row(letter, tenant, now_ms) for letter in letters],
            "No run has failed for good.",
        )


def _due_row(view: JobView, tenant: str, now_ms: int) -> list[str]:
    job = view.job
    job_id = job_id_text(job.job_id)
    recurrence = f"<code>{escape(job.spec.cron)}</code>" if job.spec.cron else ""
    zone = f'<span class="soft">{escape(job.spec.timezone)}</span>' if job.spec.cron else ""
    return [
        cell(_moment(view.live.due_ms, now_ms) if view.live else "", "when"),
        cell(_link(f"/v1/jobs/{job_id}", tenant, job.name or job_id), "wide"),
        cell(recurrence + zone or job.schedule_type.value),
        cell(job.lane.name),
        _status_cell(view, now_ms),
    ]


def _status_cell(view: JobView, now_ms: int) -> str:
    return cell(job_status(view)) if overdue_ms(view, now_ms) is None else cell("overdue", "bad")


def _failure_row(letter: DeadLetter, tenant: str, now_ms: int) -> list[str]:
    run = letter.run
    run_id = run_id_text(run.job_id, run.scheduled_ms)
    told = run.error if run.error and run.error != letter.cause else ""
    error = f'<span class="soft">{escape(told[:200])}</span>' if told else ""
    return [
        cell(_moment(letter.failed_ms, now_ms), "when"),
        cell(_link(f"/v1/runs/{run_id}", tenant, letter.job_name or job_id_text(run.job_id)), "wide"),
        cell(str(run.attempt)),
        cell(escape(letter.cause) + error, "wide"),
    ]


def _moment(instant_ms: int, now_ms: int) -> str:
    return f'{relative(instant_ms - now_ms)}<span class="soft">{iso_text(instant_ms)}</span>'


def relative(length_ms: int) -> str:
    """`in 5 s`, `3 min ago`: rounded down to the largest unit that fits."""
    if length_ms == 0:
        return "now"
    unit_ms, unit = next(u for u in _UNITS if abs(length_ms) >= u[0])
    amount = f"{abs(length_ms) // unit_ms} {unit}"
    return f"in {amount}" if length_ms > 0 else f"{amount} ago"


def _link(path: str, tenant: str, text: str) -> str:
    query = "" if tenant == DEFAULT_TENANT else f"?tenant_id={quote(tenant, safe='')}"
    return f'<a href="{path}{query}">{escape(text)}</a>'


def _banner(error: TickwheelError) -> str:
    return f'<div class="banner">This can’t be shown now: {escape(str(error) or error.code)}</div>'


def _links(tenant: str) -> str:
    links = [
        ("/docs", "API reference, with a curl line for everything"),
        ("/openapi.json", "the same for machines (OpenAPI 3.1)"),
        ("/v1/jobs", "all jobs"),
        ("/v1/dlq", "the dead-letter queue"),
        ("/metrics", "metrics for Prometheus"),
        ("/healthz", "version and zone data"),
        ("/readyz", "whether the store answers"),
    ]
    rows = [
        [cell(_link(path, tenant if "/v1/" in path else DEFAULT_TENANT, path)), cell(text)] for path, text in links
    ]
    return table(["Path", "What is there"], rows, "")

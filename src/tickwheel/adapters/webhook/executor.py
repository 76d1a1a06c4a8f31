"""The webhook executor: one HTTP request per attempt.

The way of an attempt: its URL is read strictly (`endpoint`) and has to pass the gate of its tenant (`egress`), it
waits for its host's turn (`hosts`), the name is resolved (`lookup`) and every address vetted (`egress` again), a
pooled libcurl handle takes the request to exactly one vetted address (`exchange`, `curl_loop`), and the end
becomes an outcome (`verdicts`). If an address does not connect, the next one is tried within the same attempt,
because nothing was sent yet; anything that happens after the request has left ends the attempt: a target never
sees one token twice.

Outcomes are collected and reported once per loop iteration. `start` never reports itself, so a caller may
start more work from inside its report.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import pycurl

from tickwheel.adapters.curl.curl_loop import CurlLoop, EasyHandle
from tickwheel.adapters.webhook.egress import Gate, Gates
from tickwheel.adapters.webhook.endpoint import Endpoint
from tickwheel.adapters.webhook.excerpts import without_secrets
from tickwheel.adapters.webhook.exchange import Exchange
from tickwheel.adapters.webhook.headers import HeaderLines, HeaderRefused, header_lines
from tickwheel.adapters.webhook.hosts import Host, Turnstile
from tickwheel.adapters.webhook.lookup import DEADLINE_MS, Answer, Found, Lookups, Resolve, system_resolve
from tickwheel.adapters.webhook.settings import WebhookSettings
from tickwheel.adapters.webhook.verdicts import (
    kept_alive_broke,
    never_connected,
    outcome_of,
    permanent,
    retryable,
    timed_out,
    unsent,
)
from tickwheel.domain.outcome import Outcome, OutcomeClass
from tickwheel.domain.run_trace import RunTrace
from tickwheel.ports.clock import Clock
from tickwheel.ports.executor import Report, Work
from tickwheel.ports.vault import CannotOpen, CannotSign, opened_headers

FRESH_CACHE_COUNT: Final = 1024
FRESH_MS: Final = 60_000
"""For how long a host that closed a kept-alive connection under a request gets a new connection each time."""
_ADDRESS_TRIES: Final = 4
_CANCELLED: Final = Outcome(outcome_class=OutcomeClass.CANCELLED, error="cancelled")
_UNSTARTED: Final = Outcome(outcome_class=OutcomeClass.UNSTARTED, error="not started: shutting down")


class _Attempt(msgspec.Struct, gc=False, eq=False):
    """One attempt in flight; `exchange` is set while libcurl has it, `answer` once its host is resolved."""

    work: Work
    gate: Gate
    endpoint: Endpoint
    host: "Host[_Attempt] | None" = None
    admitted: bool = False
    answer: Answer | None = None
    exchange: Exchange | None = None
    address: str = ""
    tried_count: int = 0
    deadline_ms: int = 0  # monotonic; set on admission
    given_ms: int = 0  # what libcurl was allowed


class WebhookExecutor:
    """Implements `ports.executor.Executor`. Made and used on the event loop's thread."""

    def __init__(
        self,
        report: Report,
        clock: Clock,
        settings: WebhookSettings | None = None,
        *,
        resolve: Resolve = system_resolve,
        lines: HeaderLines = header_lines,
    ) -> None:
        self._report, self._lines = report, lines
        self._clock = clock
        self._settings = settings or WebhookSettings()
        self._loop = asyncio.get_running_loop()
        self._turnstile: Turnstile[_Attempt] = Turnstile(
            host_limit_count=self._settings.host_limit_count,
            total_limit_count=self._settings.connection_limit_count,
        )
        self._gates = Gates(self._settings)
        self._lookups = Lookups(self._loop, clock, resolve, ttl_ms=self._settings.dns_ttl_ms)
        self._curl = CurlLoop(self._loop, self._on_done, connection_count=self._settings.connection_limit_count)
        self._attempts: dict[int, _Attempt] = {}
        self._exchanges: dict[EasyHandle, Exchange] = {}
        self._idle: list[Exchange] = []
        self._fresh_until_ms: dict[str, int] = {}
        self._ended: list[tuple[int, Outcome]] = []
        self._flushing = False
        self._pumping = False
        self._closing = False
        self._all_ended: asyncio.Event | None = None

    def start(self, works: Sequence[Work]) -> None:
        """See the port. Refused endpoints are reported as PERMANENT."""
        for work in works:
            if self._closing:
                self._note(work.slot, _UNSTARTED)
                continue
            passed = self._pass_gate(work)
            if isinstance(passed, Outcome):
                self._note(work.slot, passed)
                continue
            gate, endpoint = passed
            attempt = _Attempt(work, gate, endpoint)
            self._attempts[work.slot] = attempt
            attempt.host = self._turnstile.enter(endpoint.authority, work.lane, attempt)
        self._pump()

    def cancel(self, slots: Sequence[int]) -> None:
        """See the port. A request that is on the wire may still reach its target."""
        self._abort(slots, _CANCELLED)

    async def aclose(self, grace_ms: int) -> None:
        """See the port. The rest is told apart by its error text: interrupted, or never started."""
        self._closing = True
        self._abort([slot for slot, a in self._attempts.items() if a.exchange is None], _UNSTARTED)
        if self._attempts:
            await self._wait_for_end(grace_ms)
        interrupted = Outcome(
            outcome_class=OutcomeClass.UNSTARTED,
            error=f"interrupted: shutting down, no answer within the grace time of {grace_ms} ms",
        )
        self._abort(list(self._attempts), interrupted)
        self._flush()
        self._lookups.close()
        for exchange in self._exchanges.values():
            exchange.close()
        self._exchanges.clear()
        self._idle.clear()
        self._curl.close()

    async def _wait_for_end(self, grace_ms: int) -> None:
        self._all_ended = asyncio.Event()
        waits = [
            asyncio.ensure_future(self._all_ended.wait()),
            asyncio.ensure_future(self._clock.sleep_ms(grace_ms)),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    def _pass_gate(self, work: Work) -> tuple[Gate, Endpoint] | Outcome:
        gate = self._gates.of(work.tenant_id)
        endpoint = gate.endpoint(work.target.endpoint)
        if isinstance(endpoint, str):
            return permanent(endpoint)
        return (gate, endpoint) if gate.problem is None else unsent(gate.problem)

    def _pump(self) -> None:
        if self._pumping:  # an attempt that failed at once made room: the loop below sees it
            return
        self._pumping = True
        try:
            while (attempt := self._turnstile.admit()) is not None:
                attempt.admitted = True
                attempt.deadline_ms = self._clock.monotonic_ms() + attempt.work.target.timeout_ms
                self._resolve(attempt)
        finally:
            self._pumping = False

    def _resolve(self, attempt: _Attempt) -> None:
        passed = self._pass_gate(attempt.work)  # once more: it may have waited for long
        if isinstance(passed, Outcome):
            self._end(attempt, passed)
            return
        attempt.gate, endpoint = passed
        if endpoint.address is not None or attempt.gate.leaves_names_alone:
            self._resolved(attempt, Answer(addresses=(endpoint.host,)))
            return
        found = self._lookups.cached(endpoint.host)
        if found is not None:
            self._resolved(attempt, attempt.gate.answer(endpoint, found))
            return
        self._lookups.ask(endpoint.host, lambda found: self._on_found(attempt, found), attempt.work.tenant_id)
        timeout_ms = attempt.work.target.timeout_ms
        if timeout_ms < DEADLINE_MS:
            self._loop.call_later(timeout_ms / 1000, self._on_lookup_overdue, attempt)

    def _on_found(self, attempt: _Attempt, found: Found) -> None:
        self._resolved(attempt, attempt.gate.answer(attempt.endpoint, found))
        self._pump()

    def _on_lookup_overdue(self, attempt: _Attempt) -> None:
        if self._attempts.get(attempt.work.slot) is attempt and attempt.answer is None:
            timeout_ms = attempt.work.target.timeout_ms
            self._end(attempt, timed_out(f"the name did not resolve within {timeout_ms} ms"))
            self._pump()

    def _resolved(self, attempt: _Attempt, answer: Answer) -> None:
        if self._attempts.get(attempt.work.slot) is not attempt:
            return  # cancelled meanwhile
        if answer.problem is not None:
            self._end(attempt, permanent(answer.problem) if answer.refused else retryable(answer.problem))
            return
        attempt.answer = answer
        self._send(attempt, answer.addresses[0])

    def _send(self, attempt: _Attempt, address: str) -> None:
        attempt.given_ms = attempt.deadline_ms - self._clock.monotonic_ms()
        if attempt.given_ms <= 0:
            timeout_ms = attempt.work.target.timeout_ms
            self._end(attempt, timed_out(f"no connection within {timeout_ms} ms"))
            return
        attempt.address = address
        attempt.tried_count += 1
        exchange = self._take_exchange(attempt)
        try:
            self._prepare(exchange, attempt)
            self._curl.add(exchange.handle)
        except HeaderRefused as refusal:
            self._end(attempt, permanent(str(refusal)))
        except (CannotOpen, CannotSign) as error:
            self._end(attempt, unsent(str(error)))
        except (pycurl.error, ValueError, TypeError):
            # One malformed request must not take the rest of its batch along; the texts may hold secrets.
            self._end(attempt, permanent("the request cannot be put together from this target"))

    def _prepare(self, exchange: Exchange, attempt: _Attempt) -> None:
        work, endpoint = attempt.work, attempt.endpoint
        exchange.prepare(
            url=endpoint.url,
            address=attempt.address,
            port=endpoint.port,
            proxy=attempt.gate.proxy,
            fresh=self._fresh_until_ms.get(endpoint.authority, 0) > self._clock.monotonic_ms(),
            method=work.target.method,
            payload=work.payload,
            header_lines=self._lines(
                work, self._clock.now_ms() // 1000, self._signing_keys(work), self._settings.vault
            ),
            timeout_ms=attempt.given_ms,
            connect_timeout_ms=min(attempt.given_ms, self._settings.connect_timeout_ms),
        )

    def _signing_keys(self, work: Work) -> Sequence[bytes]:
        if work.signing_keys is not None:
            return work.signing_keys
        if self._settings.keys_for is not None:
            return self._settings.keys_for(work.tenant_id, work.target.signing_secret)
        if work.target.signing_secret:
            raise CannotSign(f"the signing secret {work.target.signing_secret!r} is not known here")
        return self._settings.signing_keys

    def _take_exchange(self, attempt: _Attempt) -> Exchange:
        if self._idle:
            exchange = self._idle.pop()
        else:
            exchange = Exchange(self._settings)
            self._exchanges[exchange.handle] = exchange
        exchange.attempt = attempt
        attempt.exchange = exchange
        return exchange

    def _on_done(self, handle: EasyHandle, code: int) -> None:
        exchange = self._exchanges[handle]
        attempt: _Attempt = exchange.attempt
        if never_connected(exchange, code) and self._try_next_address(attempt):
            return
        if kept_alive_broke(exchange, code):
            self._stop_keeping_alive(attempt.endpoint.authority)
        if attempt.work.trace is not None:
            self._note_times(attempt, attempt.work.trace)
        outcome = outcome_of(exchange, code, attempt.work.target.timeout_ms, self._clock.now_ms())
        self._end(attempt, self._without_secrets(outcome, attempt.work))
        self._pump()

    def _note_times(self, attempt: _Attempt, trace: RunTrace) -> None:
        took_ms = self._clock.monotonic_ms() - (attempt.deadline_ms - attempt.given_ms)
        trace.answered_ms = now_ms = self._clock.now_ms()
        trace.sent_ms = now_ms - took_ms

    def _without_secrets(self, outcome: Outcome, work: Work) -> Outcome:
        if outcome.excerpt is None or not work.target.headers:
            return outcome
        headers = opened_headers(self._settings.vault, work.tenant_id, work.target)
        return msgspec.structs.replace(outcome, excerpt=without_secrets(outcome.excerpt, headers))

    def _try_next_address(self, attempt: _Attempt) -> bool:
        answer = attempt.answer
        if answer is None or len(answer.addresses) <= attempt.tried_count or attempt.tried_count >= _ADDRESS_TRIES:
            return False
        if attempt.deadline_ms <= self._clock.monotonic_ms():
            return False
        self._release(attempt)
        answer.put_last(attempt.address)
        self._send(attempt, answer.addresses[0])
        return True

    def _stop_keeping_alive(self, authority: str) -> None:
        if len(self._fresh_until_ms) >= FRESH_CACHE_COUNT:
            self._fresh_until_ms.clear()
        self._fresh_until_ms[authority] = self._clock.monotonic_ms() + FRESH_MS

    def _abort(self, slots: Iterable[int], outcome: Outcome) -> None:
        for slot in slots:
            attempt = self._attempts.get(slot)
            if attempt is None:
                continue
            if attempt.exchange is not None:
                self._curl.remove(attempt.exchange.handle)
            self._end(attempt, outcome)
        self._pump()

    def _end(self, attempt: _Attempt, outcome: Outcome) -> None:
        del self._attempts[attempt.work.slot]
        self._release(attempt)
        host = attempt.host
        if host is not None:
            if attempt.admitted:
                self._turnstile.leave(host)
            else:
                self._turnstile.withdraw(host, attempt.work.lane, attempt)
        self._note(attempt.work.slot, outcome)

    def _release(self, attempt: _Attempt) -> None:
        exchange, attempt.exchange = attempt.exchange, None
        if exchange is not None:
            exchange.release()
            self._idle.append(exchange)

    def _note(self, slot: int, outcome: Outcome) -> None:
        self._ended.append((slot, outcome))
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        ended, self._ended = self._ended, []
        if ended:
            self._report([slot for slot, _ in ended], [outcome for _, outcome in ended])
        if self._all_ended is not None and not self._attempts:
            self._all_ended.set()

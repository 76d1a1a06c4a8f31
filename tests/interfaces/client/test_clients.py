"""Both clients against a real server."""

import inspect
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tickwheel import (
    AsyncClient,
    Client,
    Conflict,
    IdempotencyConflict,
    InvalidRequest,
    JobFields,
    NotFound,
    Unauthorized,
    VersionMismatch,
    WaitTimedOut,
)
from tickwheel.domain.requests.fields import FIXED_FIELDS, children
from tickwheel.interfaces.client import explanation_models, models, slo_models
from tickwheel.interfaces.client.job_fields import (
    CatchUpFields,
    EditFields,
    LimitFields,
    RetryFields,
    TargetFields,
)
from tickwheel.interfaces.client.queries import JobFilters, PreviewFields
from tickwheel.interfaces.http.answers import PreviewRequest
from tickwheel.interfaces.http.operations import OPERATIONS
from tickwheel.interfaces.http.schemas import components

from ..cli.server_process import (
    PATIENCE_S,
    ServerProcess,
    wait_until,
    with_handlers,
)

TOKEN = "a-token-of-some-length"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """`tickwheel serve` with a token and handlers."""
    folder = with_handlers(tmp_path_factory.mktemp("client"))
    flags = ("--store", "memory:", "--app", "handlers_of_tests", "--token", TOKEN)
    with ServerProcess(*flags, folder=folder, command="serve") as running:
        yield running


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    """One that may."""
    with Client(server.url, token=TOKEN) as client:
        yield client


def test_job_is_scheduled_read_listed_and_run(client: Client) -> None:
    job = client.schedule(
        job_name="first",
        handler="work",
        payload={"to": "ada@example.org"},
        delay_seconds=timedelta(milliseconds=200),
        tags=["client"],
    )
    assert job.status == "SCHEDULED"
    assert job.schedule_type == "DELAYED"
    assert job.next_run_time_iso is not None
    assert job.next_run_time_iso.tzinfo is not None
    read = client.get(job.job_id)
    assert (read.job_name, read.payload, read.tags) == ("first", {"to": "ada@example.org"}, ("client",))
    assert [found.job_id for found in client.list(tag="client").jobs] == [job.job_id]
    run = client.wait_for(job.job_id, timeout_seconds=PATIENCE_S)
    assert run.succeeded
    assert run.timeline.lateness_ms is not None
    assert client.list_runs(job.job_id, limit=5).runs[0].run_id == run.run_id


def test_job_may_be_a_mapping_as_the_api_takes_it(client: Client) -> None:
    fields: JobFields = {"target": {"type": "HANDLER", "name": "work"}, "schedule_type": "INSTANT"}
    job = client.schedule(fields, job_name="mapped")
    assert client.wait_for(job.job_id, timeout_seconds=PATIENCE_S).succeeded


def test_instants_may_be_datetimes(client: Client) -> None:
    at = datetime(2030, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    job = client.schedule(handler="work", execute_at=at)
    assert job.next_run_time_iso == at
    assert client.list(due_from=at, due_to=at + timedelta(seconds=1), order="due").jobs[0].job_id == job.job_id
    with pytest.raises(InvalidRequest, match="offset") as caught:
        client.schedule(handler="work", execute_at=datetime(2030, 1, 2))
    assert caught.value.problems[0].field == "execute_at"


def test_every_wrong_field_is_named(client: Client) -> None:
    with pytest.raises(InvalidRequest) as caught:
        client.schedule(handler="work", priority="URGENT", cron_expression="* * *", colour="red")  # type: ignore[call-arg,arg-type]
    assert {problem.field for problem in caught.value.problems} == {"priority", "cron_expression", "colour"}


def test_key_makes_one_job_and_refuses_another_request(client: Client) -> None:
    first = client.schedule(handler="work", delay_seconds=60, idempotency_key="client-key")
    again = client.schedule(handler="work", delay_seconds=60, idempotency_key="client-key")
    assert (first.job_id, first.replayed, again.replayed) == (again.job_id, False, True)
    with pytest.raises(IdempotencyConflict):
        client.schedule(handler="work", delay_seconds=61, idempotency_key="client-key")


def test_many_jobs_are_scheduled_at_once_and_bad_ones_named(client: Client) -> None:
    jobs: list[JobFields] = [{"handler": "work", "delay_seconds": 3600} for _ in range(10_050)]
    jobs[10_020] = {"handler": "work", "delay_seconds": -1}
    result = client.schedule_many(iter(jobs))
    assert len(result.results) == 10_050
    assert len(result.created) == 10_049
    assert [index for index, _ in result.refused] == [10_020]
    assert client.schedule_many([]).results == ()


def test_steering(client: Client) -> None:
    job_id = client.schedule(handler="work", cron_expression="0 0 1 1 *", timezone="Europe/Berlin").job_id
    edited = client.edit(job_id, priority="HIGH", if_version=1)
    assert (edited.priority, edited.version) == ("HIGH", 2)
    with pytest.raises(VersionMismatch):
        client.edit(job_id, priority="LOW", if_version=1)
    assert client.pause(job_id).status == "PAUSED"
    assert client.resume(job_id).status == "SCHEDULED"
    run = client.trigger(job_id)
    assert client.wait_for(run.run_id, timeout_seconds=PATIENCE_S).job_id == run.job_id
    client.cancel(job_id)
    client.cancel(job_id)
    assert client.get(job_id).status == "CANCELLED"
    client.delete(job_id)
    with pytest.raises(NotFound):
        client.get(job_id)


def test_put_by_name_makes_one_job(client: Client) -> None:
    first = client.put("deployed/by-client", handler="work", cron_expression="@daily")
    again = client.put("deployed/by-client", handler="work", cron_expression="@daily")
    changed = client.put("deployed/by-client", handler="work", cron_expression="@hourly")
    assert (first.job_id, first.version) == (again.job_id, again.version)
    assert (changed.job_id, changed.cron_expression) == (first.job_id, "@hourly")


def test_run_is_cancelled_while_it_runs(client: Client) -> None:
    job_id = client.schedule(handler="nap", payload=60).job_id
    with pytest.raises(WaitTimedOut):
        client.wait_for(job_id, timeout_seconds=0.5)
    last = wait_until(lambda: client.get(job_id).last_run, why="it has begun")
    client.cancel_run(last.run_id)
    assert client.wait_for(job_id, timeout_seconds=PATIENCE_S).status == "CANCELLED"
    client.cancel_run(last.run_id)
    done = client.wait_for(client.schedule(handler="work").job_id, timeout_seconds=PATIENCE_S)
    with pytest.raises(Conflict):
        client.cancel_run(done.run_id)


def test_dead_letters(client: Client) -> None:
    mine = Client(client._transport.base_url, token=TOKEN, tenant_id="graveyard")
    run = mine.wait_for(mine.schedule(handler="broken").job_id, timeout_seconds=PATIENCE_S)
    assert run.attempts[0].error == "Fail: it is broken"
    assert [letter.run_id for letter in mine.list_dead_letters().dead_letters] == [run.run_id]
    assert mine.redrive_all().redriven == (run.run_id,)
    assert mine.wait_for(run.run_id, timeout_seconds=PATIENCE_S).status == "FAILED"
    assert mine.redrive([run.run_id]).redriven_count == 1
    assert mine.wait_for(run.run_id, timeout_seconds=PATIENCE_S).status == "FAILED"
    mine.delete_dead_letter(run.run_id)
    assert mine.list_dead_letters().dead_letters == ()
    mine.close()


def test_preview_and_health(client: Client) -> None:
    shown = client.preview("30 2 * * *", timezone="Europe/Berlin", start="2026-03-28T12:00:00Z", count=2)
    assert shown.next == (datetime(2026, 3, 29, 1, tzinfo=UTC), datetime(2026, 3, 30, 0, 30, tzinfo=UTC))
    assert len(shown.notes) == 1
    assert client.health().status == "ok"


def test_token_is_needed(server: ServerProcess) -> None:
    for token in (None, "another-token-of-some-length"):
        with Client(server.url, token=token) as client, pytest.raises(Unauthorized):
            client.list()


def test_endpoint_and_handler_exclude_one_another(client: Client) -> None:
    with pytest.raises(TypeError, match="not both"):
        client.schedule(endpoint="http://127.0.0.1:1", handler="work")


async def test_asyncio_client_does_the_same(server: ServerProcess) -> None:
    async with AsyncClient(server.url, token=TOKEN) as client:
        job = await client.schedule(handler="work", delay_seconds=0.2)
        assert (await client.wait_for(job.job_id, timeout_seconds=PATIENCE_S)).succeeded
        jobs: list[JobFields] = [{"handler": "work"}] * 3
        assert len((await client.schedule_many(jobs)).created) == 3
        cron = await client.put("by-async-client", handler="work", cron_expression="@daily")
        assert (await client.pause(cron.job_id)).status == "PAUSED"
        assert (await client.resume(cron.job_id)).status == "SCHEDULED"
        run = await client.trigger(cron.job_id)
        assert (await client.wait_for(run.run_id, timeout_seconds=PATIENCE_S)).succeeded
        await client.cancel(cron.job_id)
        assert (await client.get(cron.job_id)).status == "CANCELLED"
        assert (await client.list(limit=1)).next_cursor is not None
        with pytest.raises(NotFound):
            await client.get("job_01KB87RMR0003MZHB1C9HP8SB6")


def test_both_clients_have_the_same_methods() -> None:
    def methods(kind: type) -> dict[str, Any]:
        public = {name: member for name, member in vars(kind).items() if not name.startswith("_")}
        return {
            name: inspect.signature(member).parameters for name, member in public.items() if "close" not in name
        }

    blocking, asynchronous = methods(Client), methods(AsyncClient)
    assert list(blocking) == list(asynchronous)
    for name, parameters in blocking.items():
        assert str(parameters) == str(asynchronous[name]), name
        assert vars(Client)[name].__doc__ == vars(AsyncClient)[name].__doc__


PAIRS = [
    (models.CreatedJob, "CreatedBody"),
    (models.RefusedJob, "Problem"),
    (models.RetryPolicy, "RetryBody"),
    (models.CatchUp, "CatchUpBody"),
    (models.RunBrief, "RunBrief"),
    (models.TriggeredRun, "TriggeredBody"),
    (models.Job, "JobBody"),
    (models.Timeline, "Timeline"),
    (models.Attempt, "AttemptBody"),
    (models.Run, "RunBody"),
    (models.DeadLetter, "DeadLetterBody"),
    (models.JobPage, "JobList"),
    (models.RunPage, "RunList"),
    (models.DeadLetterPage, "DeadLetterList"),
    (models.RefusedRun, "RefusedBody"),
    (models.Redriven, "RedriveBody"),
    (models.Preview, "PreviewBody"),
    (models.LiveWorker, "WorkerBody"),
    (models.WorkerList, "WorkerList"),
    (slo_models.Objective, "ObjectiveBody"),
    (slo_models.Slo, "SloBody"),
    (explanation_models.Cause, "CauseBody"),
    (explanation_models.Step, "StepBody"),
    (explanation_models.AttemptCall, "CallBody"),
    (explanation_models.AttemptStory, "AttemptStoryBody"),
    (explanation_models.Explanation, "ExplanationBody"),
    (models.Health, "HealthBody"),
]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=lambda value: getattr(value, "__name__", value))
def test_results_have_the_fields_of_the_api(ours: type, theirs: str) -> None:
    unused = {"type", "title", "status"} if theirs == "Problem" else set()
    assert {field.name for field in msgspec.structs.fields(ours)} == set(
        components()[theirs]["properties"]
    ) - unused


def test_keyword_arguments_are_the_fields_of_the_api() -> None:
    assert {field.name for field in msgspec.structs.fields(models.Target)} == set(children("target"))
    own = {"endpoint", "handler"}
    assert set(JobFields.__annotations__) - own == set(children(""))
    assert set(EditFields.__annotations__) == set(children("")) - set(FIXED_FIELDS)
    assert set(TargetFields.__annotations__) == set(children("target"))
    assert set(RetryFields.__annotations__) == set(children("retry_policy"))
    assert set(CatchUpFields.__annotations__) == set(children("catch_up"))
    assert set(LimitFields.__annotations__) == set(children("concurrency[]"))
    assert {field.name for field in msgspec.structs.fields(models.Limit)} == set(children("concurrency[]"))
    (listing,) = (operation for operation in OPERATIONS if operation.name == "list_jobs")
    assert set(JobFilters.__annotations__) == {param.name for param in listing.params} - {"tenant_id"}
    asked = {field.name for field in msgspec.structs.fields(PreviewRequest)}
    assert set(PreviewFields.__annotations__) == asked - {"cron_expression"}

"""Settings of a cluster: what goes together, and what is refused with its remedy."""

from pathlib import Path
from typing import Any

import pytest

from tickwheel.config import Role, Settings, load_settings
from tickwheel.domain.errors import ConfigError

STORE = "postgresql://app@db/jobs"


def load(environ: dict[str, str] | None = None, config_file: Path | None = None, **flags: Any) -> Settings:
    return load_settings(flags=flags, environ=environ or {}, config_file=config_file)


def refusal(**flags: Any) -> dict[str, str]:
    """Flag -> message."""
    with pytest.raises(ConfigError) as caught:
        load(**flags)
    return {problem.field: problem.message for problem in caught.value.problems}


def test_a_node_does_everything_by_default() -> None:
    assert Settings().roles == ("api", "scheduler", "worker")
    assert all(load(store=STORE).has(role) for role in Role)


@pytest.mark.parametrize("given", [0, 65, "two", "1.5", ""])
def test_the_number_of_processes_has_bounds(given: Any) -> None:
    assert refusal(store=STORE, processes=given) == {
        "--processes": f"must be a whole number from 1 to 64, not {given!r}"
    }


def test_the_number_of_processes_is_read_from_all_three_places(tmp_path: Path) -> None:
    assert load().processes == 1
    assert load(store=STORE, processes="4").processes == 4
    assert load({"TICKWHEEL_PROCESSES": "64"}, store=STORE).processes == 64
    config = tmp_path / "tickwheel.toml"
    config.write_text(f'store = "{STORE}"\nprocesses = 3\n')
    assert load(config_file=config).processes == 3


@pytest.mark.parametrize("store", ["", "sqlite:somewhere", "memory:"])
def test_an_embedded_store_has_one_process(store: str) -> None:
    message = refusal(store=store, processes=2)["--processes"]
    assert "an embedded store belongs to one process, not to 2" in message
    assert "leave it out, or name a PostgreSQL store (--store postgresql://" in message
    assert load(store=store, processes=1).processes == 1


def test_the_own_ports_of_processes_must_exist() -> None:
    assert "must be 65533 at most for 2 processes" in refusal(store=STORE, processes=2, port=65_534)["--port"]
    assert load(store=STORE, processes=2, port=65_533).port == 65_533
    assert load(store=STORE, port=65_535).port == 65_535


@pytest.mark.parametrize("given", ["api", "scheduler,worker", " scheduler , worker ", "api,scheduler,worker"])
def test_roles_are_given_by_commas_in_all_three_forms(given: str, tmp_path: Path) -> None:
    wanted = tuple(part.strip() for part in given.split(","))
    assert load(store=STORE, roles=(given,)).roles == wanted
    assert load({"TICKWHEEL_ROLES": given}, store=STORE).roles == wanted
    config = tmp_path / "tickwheel.toml"
    for text in (f'roles = "{given}"', f"roles = {list(wanted)}".replace("'", '"')):
        config.write_text(f'store = "{STORE}"\n{text}\n')
        assert load(config_file=config).roles == wanted


@pytest.mark.parametrize(
    ("roles", "remedy"),
    [
        (("worker",), "add scheduler (scheduler,worker)"),
        (("api", "worker"), "add scheduler"),
        (("api", "dispatcher"), "not 'dispatcher'"),
        ((), "one or more of api, scheduler, worker"),
    ],
)
def test_roles_that_could_do_nothing_are_refused_with_the_remedy(roles: tuple[str, ...], remedy: str) -> None:
    assert remedy in refusal(store=STORE, roles=roles)["--roles"]


@pytest.mark.parametrize(
    "flags",
    [
        {"roles": ("api",)},
        {"coordinator": "etcd://h:2379"},
        {"history": "old"},
        {"store_reads": "postgresql://localhost:6432/reads"},
        {"key_cache": "redis://h"},
        {"lease_cache": "redis://h"},
        {"advertise": "localhost"},
        {"cluster": "a"},
    ],
)
@pytest.mark.parametrize("store", ["", "sqlite:data", "memory:"])
def test_what_needs_a_cluster_is_refused_on_an_embedded_store(flags: dict[str, Any], store: str) -> None:
    given = flags | ({"store": store} if store else {})
    (message,) = refusal(**given).values()
    assert "--store postgresql://" in message
    load(**(flags | {"store": STORE}))


def test_a_raw_at_sign_in_a_password_is_refused_because_drivers_would_show_half_of_it() -> None:
    message = refusal(store="postgresql://app:sec@ret@db/jobs")["--store"]
    assert "%40" in message
    assert "ret" not in message.replace("written", "")


def test_an_address_for_others_on_a_node_that_only_listens_on_loopback_is_refused() -> None:
    assert "--host" in refusal(store=STORE, advertise="10.0.0.1")["--advertise"]
    load(store=STORE, advertise="10.0.0.1", host="0.0.0.0")


def test_wrong_schemes_are_refused_without_showing_the_rest() -> None:
    found = refusal(store="mysql://root:s3cret@db/x", coordinator="redis://:s3cret@h", buffer="etcd://:s3cret@h")
    assert "not 'mysql'" in found["--store"]
    assert "postgresql:" in found["--store"]
    assert "not 'redis'" in found["--coordinator"]
    assert "must start with redis:" in found["--buffer"]
    assert "s3cret" not in str(found)
    assert "s3cret" not in str(refusal(store="s3cret"))


@pytest.mark.parametrize("store", ["postgresql:jobs", "postgres:/jobs", "postgresql://[::1/jobs"])
def test_addresses_that_are_none_are_refused(store: str) -> None:
    assert "postgresql://USER@HOST:PORT/DATABASE" in refusal(store=store)["--store"]


@pytest.mark.parametrize(
    "store", ["postgresql://", "postgres:///jobs?host=/run/pg", "postgresql://a:b@h1:1,h2:2/x"]
)
def test_addresses_of_every_form_are_taken(store: str) -> None:
    assert load(store=store).clustered


@pytest.mark.parametrize("name", ["", "A", "-a", "a b", "a" * 64])
def test_names_of_clusters_are_plain(name: str) -> None:
    assert "small letters" in refusal(store=STORE, cluster=name)["--cluster"]


@pytest.mark.parametrize("scheme", ["redis", "rediss", "redis+cluster", "rediss+cluster", "postgresql"])
def test_a_cluster_takes_a_queue_of_its_own(scheme: str) -> None:
    settings = load(store=STORE, queue=f"{scheme}://:s3cret@host/0")
    assert settings.queue == f"{scheme}://:s3cret@host/0"
    assert "s3cret" not in repr(settings)
    assert f"{scheme}://:***@host/0" in repr(settings)


def test_a_queue_of_an_unknown_kind_is_refused_without_its_password() -> None:
    message = refusal(store=STORE, queue="rabbit://u:s3cret@host")["--queue"]
    assert "redis:" in message
    assert "s3cret" not in message


def test_a_queue_in_one_process_is_no_queue_of_a_cluster() -> None:
    assert "seen by one process only" in refusal(store=STORE, queue="memory:")["--queue"]


@pytest.mark.parametrize("store", ["", "sqlite:somewhere", "memory:"])
def test_an_embedded_store_needs_no_queue_elsewhere(store: str) -> None:
    assert "an embedded store hands work over" in refusal(store=store, queue="redis://host")["--queue"]
    assert load(store=store, queue="memory:").queue == "memory:"

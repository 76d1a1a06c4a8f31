"""What a load needs grows with what asks for it, and with nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from tickwheel.domain.capacity import ARMED_BYTES, BUFFERED_BYTES, NODE_BYTES, Load, needs

LOADS = st.builds(
    Load,
    jobs=st.integers(0, 10**9),
    peak_per_s=st.floats(0, 10**5),
    mean_per_s=st.floats(0, 10**5),
    payload_bytes=st.integers(0, 256_000),
    horizon_days=st.floats(0.05, 3_650),
    retention_days=st.floats(1, 3_650),
)


def test_a_laptop_is_enough_for_a_small_load() -> None:
    needed = needs(Load(jobs=10_000, peak_per_s=10, mean_per_s=1))
    assert (needed.database_cores, needed.processes) == (1, 1)
    assert needed.armed_bytes < 2 * NODE_BYTES


def test_no_more_timers_are_armed_than_wait() -> None:
    assert needs(Load(jobs=500, peak_per_s=10_000, mean_per_s=1, horizon_days=0.05)).armed_timers == 500


def test_an_hour_of_a_month_is_armed() -> None:
    needed = needs(Load(jobs=720_000_000, peak_per_s=0, mean_per_s=0, horizon_days=30))
    assert needed.armed_timers == 1_000_000
    assert needed.armed_bytes == 1_000_000 * ARMED_BYTES + NODE_BYTES


def test_two_hours_of_the_mean_are_buffered_and_no_more_than_wait() -> None:
    busy = needs(Load(jobs=100_000_000, peak_per_s=28_900, mean_per_s=5_787))
    assert busy.buffered_timers == 7_200 * 5_787
    assert busy.buffered_bytes == busy.buffered_timers * BUFFERED_BYTES
    assert needs(Load(jobs=500, peak_per_s=10_000, mean_per_s=1_000)).buffered_timers == 500
    assert needs(Load(jobs=360_000_000, peak_per_s=0, mean_per_s=0, horizon_days=30)).buffered_timers == 1_000_000


@given(LOADS)
def test_more_of_anything_never_needs_less(load: Load) -> None:
    before = needs(load)
    for field, value in load._asdict().items():
        if field != "horizon_days":
            after = needs(load._replace(**{field: value * 2 + 1}))
            assert all(more >= less for more, less in zip(after, before, strict=True)), field


@given(LOADS)
def test_longer_payloads_cost_disk_and_log_only(load: Load) -> None:
    before, after = needs(load), needs(load._replace(payload_bytes=load.payload_bytes + 10_000))
    assert before[:7] == after[:7]

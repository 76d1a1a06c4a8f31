"""The bucket of a tenant: part of what is stored, so it never changes."""

from hypothesis import given
from hypothesis import strategies as st

from tickwheel.domain.columns import FLAG_BUCKET_MASK, FLAG_HANDLER, FLAG_LANE_MASK, FLAG_RECURRING, TIMER, empty
from tickwheel.domain.tenants import BUCKET_COUNT, NO_BUCKET, bucket_flags, tenant_bucket


def test_known_tenants_keep_their_buckets_in_every_version() -> None:
    assert [tenant_bucket(name) for name in ("default", "acme", "ä\u2028", "")] == [174, 1990, 278, 1052]


@given(st.text())
def test_every_tenant_has_a_bucket_that_is_not_the_one_of_old_timers(tenant_id: str) -> None:
    assert NO_BUCKET < tenant_bucket(tenant_id) < BUCKET_COUNT


@given(st.text())
def test_flags_of_buckets_fit_their_bits_and_signed_columns(tenant_id: str) -> None:
    flags = bucket_flags(tenant_id)
    assert flags & ~FLAG_BUCKET_MASK == 0
    assert flags & (FLAG_LANE_MASK | FLAG_RECURRING | FLAG_HANDLER) == 0
    assert flags < 1 << 15
    row = empty(TIMER, 1)
    row["flags"] = flags
    assert int(row["flags"][0]) == flags


def test_a_thousand_tenants_are_spread_evenly() -> None:
    buckets = {tenant_bucket(f"tenant-{number}") for number in range(1_000)}
    assert 750 < len(buckets) < 860, "2,047 * (1 - e ** -(1000 / 2047)) = 791 are expected"

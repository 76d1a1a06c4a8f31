"""Limits of a tenant: read with every fault named, and laid over those of the defaults."""

from typing import Any

import msgspec
import pytest

from tickwheel.domain.egress import EgressPolicy
from tickwheel.domain.errors import InvalidRequest
from tickwheel.domain.quotas import NOTHING_SET, LimitName, TenantLimits, TenantSettings, read_settings


def faults(tree: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(InvalidRequest) as caught:
        read_settings(tree)
    return {problem.field: problem.message for problem in caught.value.problems}


def test_settings_are_read_as_they_are_written() -> None:
    settings = TenantSettings(
        TenantLimits(max_jobs=0, requests_per_second=5, weight=0.5),
        EgressPolicy(allow=("api.example.com",)),
        True,
        "two lines\nof notes",
    )
    text = msgspec.json.encode(settings)
    assert read_settings(msgspec.json.decode(text)) == settings
    assert text.startswith(b'{"limits":{"max_jobs":0,"requests_per_second":5,"weight":0.5},')
    assert read_settings({}) == NOTHING_SET
    assert read_settings({"limits": None, "egress": None}) == NOTHING_SET


def test_everything_that_is_wrong_is_named_at_once() -> None:
    found = faults(
        {
            "limits": {"max_jobs": -1, "wight": 2, "due_per_second": "many", "concurrency": 0, "weight": True},
            "egress": {"allow": ["*"], "deny": []},
            "disabled": "no",
            "colour": 1,
        }
    )
    assert set(found) == {
        "limits.max_jobs",
        "limits.wight",
        "limits.due_per_second",
        "limits.concurrency",
        "limits.weight",
        "egress.allow[0]",
        "egress.deny",
        "disabled",
        "colour",
    }
    assert "known are max_jobs" in found["limits.wight"]


@pytest.mark.parametrize("tree", [{"limits": 3}, {"limits": []}, {"egress": "none"}])
def test_parts_are_objects(tree: dict[str, Any]) -> None:
    assert list(faults(tree).values()) == ["must be an object"]


def test_a_note_is_bounded() -> None:
    assert "at most" in faults({"note": "x" * 1_001})["note"]
    assert "control character" in faults({"note": "a\x1bb"})["note"]


def test_own_limits_lie_over_those_of_the_defaults() -> None:
    defaults = TenantSettings(
        TenantLimits(max_jobs=10, requests_per_second=100, weight=2), EgressPolicy(allow=()), True, "for all"
    )
    own = TenantSettings(TenantLimits(max_jobs=0, due_per_second=7))
    assert own.over(defaults) == TenantSettings(
        TenantLimits(max_jobs=0, requests_per_second=100, due_per_second=7, weight=2), EgressPolicy(allow=())
    )


def test_names_of_limits_are_fields() -> None:
    assert {name.value for name in LimitName} < set(TenantLimits.__struct_fields__)

"""Rates of hosts and handlers as an operator writes them."""

import pytest

from tickwheel.config import load_settings
from tickwheel.config.rates import handler_rates, host_rates
from tickwheel.domain.errors import ConfigError
from tickwheel.domain.rate import RateLimit


def test_hosts_and_handlers_are_read() -> None:
    assert host_rates(["API.example.com=100/s", "10.0.0.7:8080 = 30/m"]) == {
        "api.example.com": RateLimit(100, 1_000, 10),
        "10.0.0.7:8080": RateLimit(30, 60_000, 1),
    }
    assert handler_rates(["handler:a=b=5/h"]) == {"a=b": RateLimit(5, 3_600_000, 1)}


@pytest.mark.parametrize(
    ("setting", "text", "remedy"),
    [
        ("host_rate", "api.example.com", "must look like api.example.com=100/s"),
        ("host_rate", "https://api.example.com=1/s", "write it as in the URL"),
        ("host_rate", "a.example=fast", "no rate such as 100/s"),
        ("queue_rate", "send_mail=1/s", "names no queue such as handler:send_mail"),
        ("queue_rate", "handler:=1/s", "names no queue"),
        ("queue_rate", "handler:x=0/s", "no rate such as"),
    ],
)
def test_wrong_rates_are_refused_with_setting_and_remedy(setting: str, text: str, remedy: str) -> None:
    with pytest.raises(ConfigError, match=remedy) as caught:
        load_settings(flags={setting: (text,)}, environ={})
    assert [problem.field for problem in caught.value.problems] == [f"--{setting.replace('_', '-')}"]


def test_environment_lists_several() -> None:
    settings = load_settings(flags={}, environ={"TICKWHEEL_HOST_RATE": "a.example=1/s,b.example=2/s"})
    assert set(host_rates(settings.host_rate)) == {"a.example", "b.example"}

"""From numbers to what prometheus_client renders."""

from collections.abc import Mapping
from typing import TypeAlias

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from tickwheel.adapters.telemetry.catalogue import FAMILIES, PREFIX, Kind

Values: TypeAlias = Mapping[str, float] | Mapping[tuple[str, ...], float] | float
"""By label value, by label values in the order of the labels, or one number without any."""


def family_of(name: str, values: Values) -> Metric:
    """The counter or gauge of that name in the catalogue, with these values."""
    known = FAMILIES[name]
    make = CounterMetricFamily if known.kind is Kind.COUNTER else GaugeMetricFamily
    family = make(f"{PREFIX}{name}", known.help, labels=known.labels)
    if isinstance(values, Mapping):
        for key, number in values.items():
            family.add_metric([key] if isinstance(key, str) else key, number)
    else:
        family.add_metric([], values)
    return family

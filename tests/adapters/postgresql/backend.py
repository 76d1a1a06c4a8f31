"""A store on a database that the test knows."""

from tickwheel.testing.virtual_clock import VirtualClock

from ...conformance.store.factories import PostgresqlBackend


class UrlBackend(PostgresqlBackend):
    """On the database of that URL, as it is."""

    def __init__(self, url: str, clock: VirtualClock) -> None:
        self._clock, self._url = clock, url

"""The worker's side of the pull protocol: runs from a Tickwheel server, over HTTP."""

from tickwheel.adapters.pull.calls import HttpCalls, Refused, Unauthorized
from tickwheel.adapters.pull.source import HttpSource

__all__ = ["HttpCalls", "HttpSource", "Refused", "Unauthorized"]

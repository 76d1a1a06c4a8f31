"""A model of a database with open transactions, for simulating a cluster on virtual time.

The memory store is the reference for what a verb *means*; here a verb takes *time*, as it does on PostgreSQL:

    client                         server
    call ------- on its way -----> begin: id drawn, row locks waited for, what the statement looks at is read
                                   ... open, for a moment or for seconds ...
                                   commit: what it writes becomes visible, the locks are free
    answer <---- on its way -----

So commits become visible out of order, locks make others wait, and what breaks in between is met too: the call is
refused, the answer is lost though all is written (`OutcomeUnknown`), the server dies with transactions open and
gives out their ids again, a process stops between any two steps and goes on a minute later.

`ModelDatabase` is the server, `ModelStore` one process's connections, `Process` the process as it can be hurt,
`Weather` decides what befalls whom. Rules of the protocol that live in statements can be dropped by name (see
`rules`), to show that a test would notice.
"""

from tickwheel.testing.model.database import ModelDatabase
from tickwheel.testing.model.process import Process, ProcessClock
from tickwheel.testing.model.store import ModelStore
from tickwheel.testing.model.weather import CALM, Fate, Weather

__all__ = ["CALM", "Fate", "ModelDatabase", "ModelStore", "Process", "ProcessClock", "Weather"]

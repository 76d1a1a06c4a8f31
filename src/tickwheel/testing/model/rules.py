"""The rules of the protocol that live in the database's statements, by the names that the protocol gives them.

`Rules.dropped` names those that this database does not keep. A simulation that is worth anything then fails.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple


class Rule(NamedTuple):
    """What holds, and what happens instead when the rule is dropped."""

    holds: str
    dropped: str


IN_STATEMENTS: Final = {
    "A1": Rule("every timer carries the id of its transaction", "one that is far away at its insert carries none"),
    "A2": Rule("due is raised to the database's clock once the id is drawn", "due stays as the API set it"),
    "A3": Rule("the key of a timer has its gen", "a timer of the same run and due time is the same timer"),
    "A4": Rule("the feed leaves nothing out", "it leaves out what this process inserted"),
    "B3": Rule("the snapshot of a poll is that of its rows", "it is read apart, a moment later"),
    "B5": Rule("a snapshot is good in the session that read it", "also in another one, after a crash"),
    "C6": Rule("a leaf goes when no transaction can write into it any more", "when the positions are past it"),
    "D1": Rule("a claim holds its node's row", "it reads owner and epoch without a lock"),
    "D3": Rule("each taking raises the epoch", "the epoch stays"),
    "D4": Rule("only claims draw tokens", "the end of a lost attempt raises the token by one"),
    "D7": Rule("a follow-up starts its run by gen", "any timer of a waiting run starts it"),
    "E1": Rule("a claim holds its recurring job's row", "it reads the job without a lock"),
    "E2": Rule("who inserts a run inserts the next timer", "who finds the run there inserts it too"),
    "E3": Rule("the next instant is one without a run", "runs that are there are not looked at"),
    "E6": Rule("a skipped occurrence is a run, with the next timer", "nothing is written"),
    "E7": Rule("every run that is not over counts as running", "only those in flight do"),
    "E8": Rule("a change looks once it has the lock", "it looked before it waited"),
    "F3": Rule("the last attempt counts from RUNNING on", "it counts from its claim on"),
    "F6": Rule("an attempt ends only while it is in flight", "whatever state its run is in"),
    "L1": Rule("claims that count the same come one after the other", "they count without a lock"),
}


class Rules:
    """Which rules hold."""

    def __init__(self, dropped: Iterable[str] = ()) -> None:
        self.dropped = frozenset(dropped)
        unknown = self.dropped - IN_STATEMENTS.keys()
        if unknown:
            raise ValueError(f"no statement keeps {', '.join(sorted(unknown))}")

    def hold(self, rule: str) -> bool:
        """Whether this rule is kept."""
        return rule not in self.dropped

"""Why a run did not run, ran late or ran twice: from what the ledger, the attempts and the delays say.

`runs.py` explains a run that there is, `absence.py` an instant of a job that has none; `waits.py` and
`attempts.py` are the parts for lateness and for repetitions. `facts.py` says what they ask for, `story.py` what
they answer. Whatever can't be told from records is said to be unknown, not guessed.
"""

from tickwheel.domain.explanation.absence import explain_absence
from tickwheel.domain.explanation.facts import Circumstances, Held, Nearby
from tickwheel.domain.explanation.runs import explain_run
from tickwheel.domain.explanation.story import AttemptStory, Cause, Code, Explanation, Reached, Step, Verdict

__all__ = [
    "AttemptStory",
    "Cause",
    "Circumstances",
    "Code",
    "Explanation",
    "Held",
    "Nearby",
    "Reached",
    "Step",
    "Verdict",
    "explain_absence",
    "explain_run",
]

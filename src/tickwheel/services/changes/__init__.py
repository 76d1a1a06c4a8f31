"""What happens to a job or run when somebody edits, pauses, resumes, cancels, deletes or redrives it.

Pure decisions: `Store.change_job` and its neighbours call them under the job's lock and write what they return in
the same transaction. They raise a domain error where the thing is not in a state for it; nothing is written then.

Two rules run through all of them. A one-off's run is named by its instant, so whoever takes that instant away
writes its ledger row (SKIPPED, PAUSED, CANCELLED): the old timer then finds its row taken, wherever it is held. A
recurring job's old timers die of `version`, which every edit, pause and resume raises.
"""

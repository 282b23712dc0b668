"""easy: first come, first served with EASY backfill.

The first job that does not fit is promised a start, and jobs that start before it must not delay that: D. Lifka, "The
ANL/IBM SP Scheduling System", 1995. Ends are predicted from declared durations and time limits; a job without either
never ends as far as is known.
"""

from scheduler.policy.published.rule import Backfill, Rule

RULE = Rule(backfill=Backfill.EASY)

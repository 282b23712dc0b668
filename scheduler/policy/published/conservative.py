"""conservative: every waiting job is promised a start, and no job that starts earlier delays one of them.

A. Mu'alem and D. Feitelson, "Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling the IBM
SP2 with Backfilling", 2001. Promises come from a profile of free slots over time; ends are predicted as for easy. The
profile counts slots by GPU type: a job that it lets start, and that finds no room on the nodes, waits all the same.
"""

from scheduler.policy.published.rule import Backfill, Rule

RULE = Rule(backfill=Backfill.CONSERVATIVE)

"""fifo: first come, first served, at the preferred size; whoever behind fits into what is free starts, too.

The order of arrival is the baseline of the literature. Nobody is stopped for an equal.
"""

from scheduler.policy.published.rule import Rule

RULE = Rule()

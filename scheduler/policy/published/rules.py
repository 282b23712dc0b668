"""All published policies by name."""

from collections.abc import Mapping

from scheduler.config import PolicyName
from scheduler.policy.published import afs, conservative, easy, edl, elastic_fifo, fifo, shortest, tiresias
from scheduler.policy.published.rule import Rule

RULES: Mapping[PolicyName, Rule] = {
    "fifo": fifo.RULE,
    "easy": easy.RULE,
    "conservative": conservative.RULE,
    "elastic-fifo": elastic_fifo.RULE,
    "edl": edl.RULE,
    "afs": afs.RULE,
    "tiresias": tiresias.RULE,
    "shortest": shortest.RULE,
}

"""Why nodes and single slots take no new workers, for people."""

from collections import Counter
from collections.abc import Iterable

from scheduler.model.node import Node, NodeHealth, NodeIntent
from scheduler.model.slot import ClosedSlot

#: Limit on the reasons that are named.
_REASONS_MAX = 3


def why_away(node: Node) -> str:
    """Why a node is not schedulable."""
    if node.health is not NodeHealth.UP:
        return node.health
    return node.closed if node.intent is NodeIntent.ACTIVE else node.intent


def those_closed(nodes: Iterable[Node]) -> str:
    """A sentence on the nodes that the cluster has closed; empty if there are none."""
    closed = Counter(node.closed for node in nodes if node.closed)
    told = [f"{count} {'node' if count == 1 else 'nodes'} ({why})" for why, count in closed.most_common(_REASONS_MAX)]
    return f" Closed to new workers: {', '.join(told)}." if told else ""


def why_closed(node: Node, closed: ClosedSlot) -> str:
    """The slot, and why it takes no new workers."""
    told = f": {closed.detail}" if closed.detail else ""
    return f"slot {closed.slot} of {node.name} ({closed.closure}{told})"

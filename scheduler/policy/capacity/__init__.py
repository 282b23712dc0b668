"""Capacity of nodes and what is left of it, in slots, CPUs and memory.

Lives here: amounts of resources, the ledger of what is free now or soon, the journal that undoes a draft, the placement
of workers on nodes, and the two pools of an oversold node. Nothing here knows priorities, or which job should get
anything.
"""

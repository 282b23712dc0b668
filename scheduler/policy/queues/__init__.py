"""Queues: how the slots of the cluster are divided among their jobs.

Lives here: the tree of queues, what each is entitled to, and what each holds in a draft. Who takes from whom for it is
decided in `preempt` and `resize`.
"""

"""From a plan to workers: records of new workers, and the calls to the cluster that follow.

Lives here: everything after the decision. Nothing here considers other decisions.
"""

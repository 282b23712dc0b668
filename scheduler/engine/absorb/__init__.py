"""Turns observations, reports and requests since the last tick into changes of jobs and nodes.

Lives here: one module for each source of news. Nothing here plans, and nothing calls the store or the cluster.
"""

"""Metrics, and everything that is made of them: dashboards, rules, alerts."""

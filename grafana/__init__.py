"""Dashboards as code: `python -m grafana` writes grafana/dashboards from grafana/boards. Standard library only."""

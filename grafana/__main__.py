"""`python -m grafana` writes every dashboard to grafana/dashboards."""

from pathlib import Path

from grafana.boards import BOARDS

DASHBOARDS = Path(__file__).parent / "dashboards"

for board in BOARDS:
    (DASHBOARDS / f"{board.uid}.json").write_text(board.text())

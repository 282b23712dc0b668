"""One request for each of a list."""

import json
from contextlib import ExitStack
from pathlib import Path

import pytest

from scheduler.cli.command import Session
from scheduler.cli.commands.batch import ask_each
from scheduler.cli.exits import Unreachable
from scheduler.cli.render.output import Format
from tests.http.site import Site


def test_what_was_accepted_is_told_where_the_daemon_goes_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site(tmp_path)
    served = ExitStack()
    served.enter_context(site.served())
    one, two, three = site.submit(), site.submit(), site.submit()
    session = Session(url=site.url, output=Format.JSON)

    def ask(text: str) -> int:
        session.client.post(f"/v1/jobs/{text}/cancel")
        served.close()
        return int(text)

    with pytest.raises(Unreachable) as raised:
        ask_each(session, [str(one), str(two), str(three)], ask, str)
    session.close()
    site.close()
    assert json.loads(capsys.readouterr().out) == {
        "accepted": [one],
        "refused": [
            {"name": str(two), "message": str(raised.value)},
            {"name": str(three), "message": f"not asked: {raised.value}"},
        ],
    }

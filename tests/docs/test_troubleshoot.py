"""docs/troubleshoot.md: the messages that it quotes are said by the code, and the reasons exist."""

import re
from pathlib import Path

import pytest

from scheduler.model.job_state import WaitReason
from tests.docs.blocks import ROOT
from tests.docs.said import said

PAGE = ROOT / "docs" / "troubleshoot.md"
#: What comes from torchrun, Python, or the system: the code does not say it.
OF_OTHERS = {"rendezvous backend 'sched' is not registered", "No module named 'torch'", "Address already in use"}
_ROW = re.compile(r"^\| (?!you see|reason|-)(.+?) \|", re.MULTILINE)
_QUOTED = re.compile(r"`([^`]+)`")
_PART_MIN = 4


SAID = said()
CELLS = [cell for cell in _ROW.findall(PAGE.read_text()) if "`" in cell]
MESSAGES = [quoted for cell in CELLS for quoted in _QUOTED.findall(cell) if " " in quoted.strip()]


@pytest.mark.parametrize("message", MESSAGES)
def test_a_quoted_message_is_said_by_the_code(message: str) -> None:
    parts = [part.strip(" :") for part in message.split("…")]
    own = [part for part in parts if len(part) >= _PART_MIN and part not in OF_OTHERS]
    assert not [part for part in own if part not in SAID and part.removeprefix("Address already in use: ") not in SAID]


@pytest.mark.parametrize("reason", re.findall(r"^\| `([A-Z_]+)` \|", PAGE.read_text(), re.MULTILINE))
def test_a_reason_exists(reason: str) -> None:
    assert reason in WaitReason.__members__


def test_messages_are_found_in_the_page() -> None:
    assert len(MESSAGES) >= 10
    assert Path(PAGE).exists()

"""Queues of a simulation from a file: what is read, and what is refused in one line that says where."""

from pathlib import Path

import pytest

from scheduler.errors import UserError
from scheduler.model.queue import ANY_GPU
from scheduler.simulate.queues import read_queues


def test_a_file_has_queues_with_their_guarantees_and_limits(tmp_path: Path) -> None:
    path = tmp_path / "queues.yaml"
    path.write_text("queues:\n- {path: lab/vision, weight: 2}\n- {path: lab, guarantee: {H100: 4}, limit: {'*': 8}}\n")
    lab, vision = read_queues(path)
    assert (lab.path, lab.guarantee, lab.limit) == ("lab", (("H100", 4),), ((ANY_GPU, 8),))
    assert (vision.path, vision.weight) == ("lab/vision", 2.0)


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        (
            "{path: lab, guarantee: {H100: 8}, limit: {'*': 4}}",
            "guarantee 8 slots of GPU type H100 cannot be guaranteed beside the limit of 4 slots of any GPU type",
        ),
        ("{path: lab/vision}", "path: queue lab, which contains lab/vision, is not in the file"),
    ],
)
def test_a_queue_that_cannot_be_is_refused_with_its_place(tmp_path: Path, queue: str, said: str) -> None:
    path = tmp_path / "queues.yaml"
    path.write_text(f"queues:\n- {queue}\n")
    with pytest.raises(UserError) as refused:
        read_queues(path)
    assert str(refused.value).startswith(f"{path}:2: ")
    assert said in str(refused.value)

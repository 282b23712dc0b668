"""What a rule lets through, and how it tells what it does not: the path, and what would be right."""

import math
from typing import Any

import pytest

from scheduler.model.field_rules import (
    FLAG,
    QUANTITY,
    TEXT,
    WHOLE,
    Leave,
    ListOf,
    MapOf,
    Only,
    Record,
    Refused,
    Rule,
)

NOBODY, TRUSTED = Leave(), Leave(trusted=True)


@pytest.mark.parametrize(
    ("rule", "allowed", "refused"),
    [
        (TEXT, ["", "x"], [None, 1, True, ["x"]]),
        (FLAG, [True, False], [None, 0, 1, "true"]),
        (WHOLE, [0, -1, 2**63 - 1, 1 - 2**63], [None, True, 1.0, "1", 2**63, -(2**64)]),
        (QUANTITY, ["2Gi", 0, 0.5, 2**63 - 1], [None, False, math.nan, math.inf, -math.inf, 2.0**63, 2**63]),
    ],
)
def test_a_value_is_of_its_kind_and_a_number_is_one_that_the_api_reads(
    rule: Rule, allowed: list[Any], refused: list[Any]
) -> None:
    assert [value for value in allowed if rule.broken(value, "a", NOBODY) is not None] == []
    assert [value for value in refused if rule.broken(value, "a", TRUSTED) is None] == []


def test_trust_reaches_every_field_however_deep_it_stands() -> None:
    rule = Record({"a": ListOf(MapOf(Record({"b": Refused("not for you")})))})
    document = {"a": [{}, {"x": {"b": 1}}]}
    assert rule.broken(document, "top", NOBODY) == ("top.a.1.x.b", "not for you")
    assert rule.broken(document, "top", TRUSTED) is None


def test_who_is_trusted_may_give_other_values_but_not_of_another_kind() -> None:
    rule = Only(WHOLE, lambda value: value == 0, "must be 0")
    assert rule.broken(0, "a", NOBODY) is None
    assert rule.broken(7, "a", NOBODY) == ("a", "must be 0")
    assert rule.broken(7, "a", TRUSTED) is None
    assert rule.broken("7", "a", TRUSTED) == rule.broken("7", "a", NOBODY) == ("a", "must be an integer")


def test_a_name_in_a_mapping_may_be_refused_and_its_value_is_still_checked_for_who_is_trusted() -> None:
    rule = MapOf(TEXT, lambda name, leave: None if name in leave.resources else f"{name} is not yours")
    assert rule.broken({"mine": "1"}, "a", Leave(resources=("mine",))) is None
    assert rule.broken({"mine": "1", "other": 2}, "a", Leave(resources=("mine",))) == ("a.other", "other is not yours")
    assert rule.broken({"other": "2"}, "a", TRUSTED) is None
    assert rule.broken({"other": 2}, "a", TRUSTED) == ("a.other", "must be a string")
    assert rule.broken(["other"], "a", TRUSTED) == ("a", "must be a mapping")


@pytest.mark.parametrize(
    ("document", "who", "broken"),
    [
        ({"command": "x"}, NOBODY, None),
        ({}, NOBODY, ("a", "must have command")),
        ([], NOBODY, ("a", "must be a mapping")),
        ({"command": "x", "COMMAND": "y"}, NOBODY, ("a.COMMAND", "unknown field: did you mean command?")),
        ({"comand": "x"}, NOBODY, ("a.comand", "unknown field: did you mean command?")),
        ({"commas": "x"}, NOBODY, ("a.commas", "unknown field: not among the fields that a pod template may have")),
        # A newer API may have a field of another name, never one that differs by its case.
        ({"command": "x", "comand": "y"}, TRUSTED, None),
        ({"command": "x", "Command": "y"}, TRUSTED, ("a.Command", "unknown field: did you mean command?")),
    ],
)
def test_a_record_has_its_fields_and_no_others(document: Any, who: Leave, broken: tuple[str, str] | None) -> None:
    rule = Record({"command": TEXT, "image": TEXT}, required=("command",))
    assert rule.broken(document, "a", who) == broken


def test_the_first_wrong_item_of_a_list_is_named() -> None:
    assert ListOf(TEXT).broken(["a", 1, 2], "list", NOBODY) == ("list.1", "must be a string")
    assert ListOf(TEXT).broken({"a": 1}, "list", NOBODY) == ("list", "must be a list")
    assert ListOf(TEXT).broken([], "list", NOBODY) is None

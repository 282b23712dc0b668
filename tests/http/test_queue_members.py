"""Members of queues over HTTP: who may be one, and changes beside each other."""

from typing import Any

import pytest

from scheduler.http.schemas.queue_requests import MEMBERS_MAX
from scheduler.model.queue import Queue
from tests.http.site import Site
from tests.http.test_queues import create


@pytest.mark.parametrize("member", ["a b", " ann", "ann ", "@", "@@lab", "@ lab", "@lab "])
def test_a_member_is_a_user_or_a_group_and_who_is_one_already_can_be_removed(site: Site, member: str) -> None:
    site.store.set_queue("lab", lambda _: Queue("lab", 0.0, members=("@my group", member)), site.clock.now())
    for fields in ({"members": [member]}, {"add_members": [member]}):
        error = site.client.patch("/v1/queues/lab", json=fields).json()["error"]
        said = "must be the name of a user, without spaces and commas"
        assert said in error["message"]
    kept = site.client.patch("/v1/queues/lab", json={"remove_members": [member]}).json()["members"]
    assert kept == site.client.patch("/v1/queues/lab", json={"add_members": ["@my group"]}).json()["members"]
    assert kept == ["@my group"]


def test_members_are_added_and_removed_beside_each_other(site: Site) -> None:
    create(site, "lab", members=["ann", "bob"])

    def changed(**fields: Any) -> Any:
        answer = site.client.patch("/v1/queues/lab", json=fields).json()
        return answer["members"] if "members" in answer else answer["error"]["message"]

    assert changed(add_members=["carl", "ann"]) == ["ann", "bob", "carl"]
    assert changed(remove_members=["bob"], weight=2.0) == ["ann", "carl"]
    assert changed(remove_members=["bob"]) == "remove_members: bob is not a member of lab"
    assert changed(add_members=["bob"], remove_members=["bob"]) == (
        "remove_members: must not name bob, who is to be added as well"
    )
    assert changed(members=[], add_members=["bob"]).startswith("members: must not be given together with add_members")
    more = [f"user-{number}" for number in range(MEMBERS_MAX - 1)]
    assert changed(add_members=more) == "add_members: there may be at most 1000 members, not 1001"
    assert changed(add_members=more[1:], remove_members=["ann"])[0] == "carl"

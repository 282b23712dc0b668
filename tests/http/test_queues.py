"""Queues over HTTP: what is set and refused, whose jobs come where, and what a queue takes."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from scheduler.http.admission.owner import Submitter
from scheduler.http.admission.queues import into_queues
from scheduler.model.event import EventKind
from scheduler.model.identity import IdentifiedBy, Identity, Role
from scheduler.model.ids import NodeName
from scheduler.model.observation import NodeObservation
from scheduler.model.queue import ANY_GPU, Queue
from scheduler.model.queue_tree import Queues, default_queue
from tests.http.site import Site
from tests.specs import spec_of
from tests.store import garbage

FIELDS: dict[str, Any] = {
    "guarantee": {"*": 4, "H100": 2},
    "limit": {"*": 16},
    "weight": 2.0,
    "share_users": True,
    "user_limit": 3,
    "priority_max": 5,
    "max_jobs": 7,
    "budget": 5000,
    "members": ["@lab", "ann"],
}


def create(site: Site, path: str, **fields: Any) -> None:
    answer = site.client.post("/v1/queues", json={"path": path, **fields})
    assert answer.status_code == 201, answer.text


def submitted(site: Site, headers: dict[str, str], **fields: Any) -> str | None:
    """The queue of a new job."""
    answer = site.client.post("/v1/jobs", json={"command": ["true"], **fields}, headers=headers)
    assert answer.status_code == 201, answer.text
    queue: str | None = site.client.get(f"/v1/jobs/{answer.json()['id']}").json()["queue"]
    return queue


def refused(site: Site, headers: dict[str, str], **fields: Any) -> tuple[int, str, str]:
    """Status, field and message of a refused submission."""
    answer = site.client.post("/v1/jobs", json={"command": ["true"], **fields}, headers=headers)
    error = answer.json()["error"]
    return answer.status_code, error["field"], error["message"]


def test_every_field_of_a_queue_comes_back(site: Site) -> None:
    answer = site.client.post("/v1/queues", json={"path": "lab", **FIELDS})
    assert answer.status_code == 201
    assert site.woken.is_set()
    view = site.client.get("/v1/queues/lab").json()
    assert {**view, "warnings": answer.json()["warnings"]} == answer.json()
    assert {key: view[key] for key in FIELDS} == FIELDS
    assert (view["path"], view["jobs_waiting"], view["jobs_running"], view["slots_held"]) == ("lab", 0, 0, 0)


def test_only_what_is_given_changes_and_null_puts_it_back(site: Site) -> None:
    create(site, "lab", **FIELDS)
    create(site, "lab/vision")
    given = {"limit": {"H100": 8}, "guarantee": {"H100": None}, "user_limit": None, "weight": None, "members": None}
    view = site.client.patch("/v1/queues/lab", json=given).json()
    assert (view["limit"], view["guarantee"], view["user_limit"]) == ({"*": 16, "H100": 8}, {"*": 4}, None)
    assert (view["weight"], view["members"], view["max_jobs"]) == (1.0, [], 7)
    assert site.client.patch("/v1/queues/lab", json={"limit": None}).json()["limit"] == {}
    put = site.client.put("/v1/queues/lab/vision", json={"weight": 3.0}).json()
    assert (put["path"], put["weight"]) == ("lab/vision", 3.0)
    assert site.client.put("/v1/queues/lab/text", json={}).json()["weight"] == 1.0


def test_the_tree_outlives_a_restart_and_ends_queue_by_queue(site: Site) -> None:
    for path in ("lab", "lab/vision"):
        create(site, path)
    site.tick()
    assert site.engine.world is not None
    assert set(site.engine.world.queues) == {"lab", "lab/vision"}
    site.kill_engine()
    site.tick()
    assert site.engine.world is not None
    assert set(site.engine.world.queues) == {"lab", "lab/vision"}
    assert site.client.delete("/v1/queues/lab").status_code == 409
    for path in ("lab/vision", "lab"):
        assert site.client.delete(f"/v1/queues/{path}").json() == {"path": path}
    site.tick()
    assert site.engine.world.queues == {}
    kinds = [event.kind for _, event in site.store.list_events() if event.kind.startswith("QUEUE")]
    assert kinds == [EventKind.QUEUE_SET] * 2 + [EventKind.QUEUE_DELETED] * 2


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"path": "lab"}, 409, "queue lab already exists: change it, or use another path"),
        (
            {"path": "Lab"},
            422,
            "path: each name must be 1 to 63 of a-z, 0-9, _, . and -, the first a letter or a digit",
        ),
        ({"path": "/".join("abcdefghi")}, 422, "path: must have at most 8 levels, not 9"),
        (
            {"path": "team/vision"},
            422,
            "path: queue 'team' does not exist: there is lab; create the outer queue first",
        ),
        (
            {"path": "a", "guarantee": {"*": 5}, "limit": {"*": 4}},
            422,
            "guarantee: 5 slots of any GPU type cannot be guaranteed beside the limit of 4 slots of any GPU type",
        ),
        (
            {"path": "a", "guarantee": {"H100": 5}, "limit": {"*": 4}},
            422,
            "guarantee: 5 slots of GPU type H100 cannot be guaranteed beside the limit of 4 slots of any GPU type",
        ),
        ({"path": "a", "weight": 0}, 422, "weight: must be at least 0.000001, not 0"),
        ({"path": "a", "weight": 1e30}, 422, "weight: must be at most 1000000, not 1e+30"),
        ({"path": "a", "guarantee": {"*": 10**20}}, 422, f"guarantee.*: must be at most 10000000, not {10**20}"),
        ({"path": "a", "max_jobs": -(10**20)}, 422, f"max_jobs: must be at least 0, not -{10**20}"),
        ({"path": "a", "limit": {"*": -1}}, 422, "limit.*: must be at least 0"),
        ({"path": "a", "max_jobs": 1.5}, 422, "max_jobs: must be an integer"),
        ({"path": "a", "members": ["@"]}, 422, "members.0: must be the name of a user, without spaces and commas"),
        ({"path": "a", "colour": "red"}, 422, "colour: unknown field"),
    ],
)
def test_what_no_queue_can_be_is_refused_in_one_line(site: Site, body: dict[str, Any], status: int, said: str) -> None:
    create(site, "lab")
    answer = site.client.post("/v1/queues", json=body)
    assert answer.status_code == status
    assert answer.json()["error"]["message"].startswith(said)


def test_a_guarantee_that_can_never_be_met_is_refused_where_it_or_the_limit_is_set(site: Site) -> None:
    create(site, "lab", guarantee={"H100": 8})

    def changed(path: str, **fields: Any) -> tuple[int, str | None]:
        answer = site.client.patch(f"/v1/queues/{path}", json=fields)
        return answer.status_code, answer.json()["error"]["field"] if "error" in answer.json() else None

    assert changed("lab", limit={"*": 4}) == changed("lab", limit={"H100": 4}) == (422, "limit")
    assert changed("lab", limit={"*": 8}) == (200, None)
    assert changed("lab", guarantee={"A100": 9}) == changed("lab", guarantee={"*": 9}) == (422, "guarantee")
    assert changed("lab", guarantee={"H100": 9}, limit={"*": 8}) == (422, "guarantee")
    assert site.client.put("/v1/queues/lab", json={"guarantee": {"H100": 9}, "limit": {"*": 8}}).status_code == 422
    create(site, "team", guarantee={"*": 8}, limit={"H100": 4})
    for given in ({"guarantee": {"H100": 3, "A100": 3}, "limit": {"*": 4}}, {"limit": {"A100": 0}}):
        assert site.client.put("/v1/queues/lab", json=given).status_code == 200


def test_a_queue_that_was_stored_with_a_guarantee_that_cannot_be_met_takes_other_changes(site: Site) -> None:
    promised = Queue("lab", 0.0, guarantee=(("H100", 8),), limit=((ANY_GPU, 4),))
    site.store.set_queue("lab", lambda _: promised, site.clock.now())
    assert site.client.patch("/v1/queues/lab", json={"weight": 2.0}).json()["guarantee"] == {"H100": 8}
    assert site.client.patch("/v1/queues/lab", json={"limit": {"H100": 9}}).json()["error"]["field"] == "limit"


def test_a_queue_that_does_not_exist_is_not_found(site: Site) -> None:
    for method, body in (("GET", None), ("PATCH", {"weight": 2.0}), ("DELETE", None)):
        answer = site.client.request(method, "/v1/queues/lab/vision", json=body)
        assert answer.status_code == 404, method
    assert site.client.patch("/v1/queues/lab", json={}).status_code == 422


def test_a_queue_shows_the_jobs_and_slots_of_those_inside(site: Site) -> None:
    for path in ("lab", "lab/vision", "team"):
        create(site, path)
    site.submit(queue="lab/vision", workers=2)
    site.submit(queue="lab", workers=1000)
    site.tick()
    views = {view["path"]: view for view in site.client.get("/v1/queues").json()["queues"]}
    numbers = {
        path: [view[key] for key in ("jobs_running", "jobs_waiting", "slots_held")] for path, view in views.items()
    }
    assert numbers == {"lab": [1, 1, 2], "lab/vision": [1, 0, 2], "team": [0, 0, 0]}


def test_jobs_are_listed_by_queue(site: Site) -> None:
    for path in ("lab", "lab/vision", "labs"):
        create(site, path)
    for queue in (None, "lab", "lab/vision", "labs"):
        site.submit(name="train", queue=queue)
    site.advance(1)

    def ids(query: str) -> list[int]:
        return [job["id"] for job in site.client.get(f"/v1/jobs?{query}").json()["jobs"]]

    assert ids("queue=lab") == ids("queue=lab&active=true&name=train") == [2, 3]
    assert ids("queue=lab&order=desc&limit=1") == [3]
    assert (ids("queue=lab/vision"), ids("queue=labs&state=RUNNING"), ids("queue=other")) == ([3], [4], [])
    error = site.client.get("/v1/jobs?queue=lab/").json()["error"]
    assert error["field"] == "queue"
    assert "each name must be 1 to 63 of" in error["message"]


def test_only_administrators_set_queues(known: Site) -> None:
    for role in (Role.VIEWER, Role.USER, Role.OPERATOR):
        headers = known.user_header("ann", role)
        assert known.client.post("/v1/queues", json={"path": "lab"}, headers=headers).status_code == 403
        assert known.client.get("/v1/queues", headers=headers).status_code == 200


def test_a_job_comes_into_the_innermost_queue_of_its_user(known: Site) -> None:
    create(known, "lab", members=["ann", "bob"])
    create(known, "lab/vision", members=["ann"])
    create(known, "team", members=["carl", "bob"])
    assert submitted(known, known.user_header("ann")) == "lab/vision"
    assert submitted(known, known.user_header("ann"), queue="lab/vision") == "lab/vision"
    assert submitted(known, known.user_header("dora")) is None
    assert submitted(known, {}, user="carl") == "team"
    said = "queue: bob is a member of lab, team: name the one to submit to"
    assert refused(known, known.user_header("bob")) == (422, "queue", said)
    assert submitted(known, known.user_header("bob"), queue="team") == "team"


def test_a_token_names_the_queue_of_its_user(known: Site) -> None:
    create(known, "lab")
    answer = known.client.post("/v1/tokens", json={"user": "ann", "queue": "lab"})
    headers = {"authorization": f"Bearer {answer.json()['token']}"}
    assert known.client.get("/v1/whoami", headers=headers).json()["queue"] == "lab"
    assert known.client.get("/v1/tokens").json()["tokens"][0]["queue"] == "lab"
    assert submitted(known, headers) == "lab"
    wrong = known.client.post("/v1/tokens", json={"user": "ann", "queue": "team"})
    assert wrong.json()["error"]["message"] == "queue: queue 'team' does not exist: there is lab"


def test_members_are_those_of_the_innermost_queue_that_has_any(known: Site) -> None:
    create(known, "lab", members=["ann"])
    create(known, "lab/vision")
    create(known, "lab/text", members=["bob"])
    assert submitted(known, known.user_header("ann"), queue="lab/vision") == "lab/vision"
    said = "queue: ann is not a member of lab/text: its members are bob"
    assert refused(known, known.user_header("ann"), queue="lab/text") == (403, "queue", said)
    assert submitted(known, known.user_header("ann", Role.OPERATOR), queue="lab/text") == "lab/text"


def test_what_a_queue_does_not_take_is_refused_in_one_line(known: Site) -> None:
    create(known, "lab", max_jobs=1, priority_max=5)
    create(known, "lab/vision", priority_max=9)
    ann = known.user_header("ann")
    said = "queue: queue 'lab/visoin' does not exist: in lab there is lab/vision"
    assert refused(known, ann, queue="lab/visoin") == (422, "queue", said)
    said = "priority: must be at most 5, as queue lab says, not 6"
    assert refused(known, ann, queue="lab/vision", priority=6) == (422, "priority", said)
    assert submitted(known, ann, queue="lab/vision", priority=5) == "lab/vision"
    status, _, message = refused(known, ann, queue="lab")
    assert (status, message) == (
        429,
        "queue: lab contains 1 job that has not ended, of at most 1: wait until some have ended",
    )
    changed = known.client.patch("/v1/jobs/1", json={"priority": 6}, headers=ann)
    assert changed.json()["error"]["message"] == "priority: must be at most 5, as queue lab says, not 6"
    batch = known.client.post("/v1/jobs/batch", json={"jobs": [{"command": "true"}, {"command": "true", "queue": "x"}]})
    assert batch.json()["error"]["field"] == "jobs.1.queue"


def test_a_queue_that_something_names_is_not_deleted(known: Site) -> None:
    create(known, "lab")
    job = {"cron": "0 3 * * *", "job": {"command": "true", "queue": "lab"}}
    nightly = known.client.post("/v1/recurring", json=job).json()["id"]
    token = known.client.post("/v1/tokens", json={"user": "ann", "queue": "lab"}).json()["id"]
    answer = known.client.delete("/v1/queues/lab")
    assert answer.status_code == 409
    said = f"queue lab is named by the recurring job {nightly} and the token {token} (ann): "
    assert answer.json()["error"]["message"] == said + "cancel and revoke what names it first"
    known.client.delete(f"/v1/recurring/{nightly}")
    known.client.delete(f"/v1/tokens/{token}")
    assert known.client.delete("/v1/queues/lab").status_code == 200


def test_a_login_comes_into_the_queue_of_its_group(site: Site) -> None:
    create(site, "lab", members=["@vision"])
    services = replace(site.services, groups_of=lambda login: {"vision"} if login == "ann" else set())
    ann, bob = (Submitter(Identity(name, Role.USER, IdentifiedBy.LOGIN)) for name in ("ann", "bob"))
    [job] = into_queues(services, ann, {"": spec_of("j", user="ann")}).values()
    [other] = into_queues(services, bob, {"": spec_of("j", user="bob")}).values()
    assert (job.queue, other.queue) == ("lab", "")


def test_the_jobs_of_a_batch_come_into_a_queue_that_is_looked_for_once(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(site, "lab", members=["@vision"])
    asked: list[str] = []

    def groups_of(login: str) -> set[str]:
        asked.append(login)
        return {"vision"}

    looked: list[str] = []

    def looking(queues: Queues, user: str, groups: Collection[str]) -> str:
        looked.append(user)
        return default_queue(queues, user, groups)

    monkeypatch.setattr("scheduler.http.admission.queues.default_queue", looking)
    ann = Submitter(Identity("ann", Role.USER, IdentifiedBy.LOGIN))
    batch = {f"jobs.{k}.": spec_of(f"j{k}", user="ann") for k in range(100)}
    placed = into_queues(replace(site.services, groups_of=groups_of), ann, batch)
    assert {spec.queue for spec in placed.values()} == {"lab"}
    assert (asked, looked) == (["ann"], ["ann"])


def test_a_queue_whose_row_cannot_be_read_takes_no_jobs_until_it_is_replaced(known: Site) -> None:
    create(known, "lab", members=["ann"])
    create(known, "lab/vision")
    create(known, "team", members=["bob"])
    with garbage.connected(f"sqlite:///{known.store.file}") as session:
        session.execute("UPDATE queues SET members = '[[' WHERE path = 'lab'")
    ann, bob, dora = (known.user_header(user) for user in ("ann", "bob", "dora"))
    said = "queue: the row of queue lab cannot be read"
    anew = "set all of it anew with sched queue create lab (see sched db unreadable)"
    for headers in (ann, bob, {}):
        assert refused(known, headers, queue="lab") == (503, None, f"{said}: {anew}")
        assert refused(known, headers, queue="lab/vision") == (
            503,
            None,
            f"{said}, and lab/vision is inside it: {anew}",
        )
    unknown = f"{said}, so that it is not known whether dora is a member of it: name the queue to submit to"
    assert refused(known, dora) == (503, None, unknown)
    assert submitted(known, bob) == "team"
    views = {view["path"]: view["readable"] for view in known.client.get("/v1/queues").json()["queues"]}
    assert views == {"lab": False, "lab/vision": True, "team": True}
    assert known.client.get("/v1/queues/lab").status_code == 503
    assert known.client.patch("/v1/queues/lab", json={"weight": 2.0}).json()["error"]["message"].endswith(anew)
    create(known, "lab", members=["ann"])
    assert submitted(known, ann) == "lab"
    assert submitted(known, dora) is None


def test_a_retry_finds_its_job_whatever_has_become_of_the_rules_of_its_queue(known: Site) -> None:
    create(known, "lab", members=["ann"], priority_max=5)
    ann, job = known.user_header("ann"), {"command": ["true"], "queue": "lab", "priority": 5}

    def sent(*keys: str) -> tuple[int, Any]:
        one = known.client.post("/v1/jobs", json={**job, "client_key": keys[0]}, headers=ann)
        batch = {"jobs": [{**job, "client_key": key} for key in keys]}
        many = known.client.post("/v1/jobs/batch", json=batch, headers=ann)
        return one.status_code, many.json()

    assert sent("one") == (201, {"ids": [1]})
    assert sent("two", "one") == (201, {"ids": [2, 1]})
    for change, field in (
        ({"max_jobs": 2}, None),
        ({"priority_max": 3}, "jobs.2.priority"),
        ({"priority_max": None, "members": ["bob"]}, "jobs.2.queue"),
    ):
        known.client.patch("/v1/queues/lab", json=change).raise_for_status()
        assert sent("one", "two") == (200, {"ids": [1, 2]})
        status, answer = sent("one", "two", "new")
        assert (status, answer["error"]["field"]) == (200, field)


def test_what_has_no_effect_for_now_is_a_warning_where_it_is_set(site: Site) -> None:
    site.cluster.add_node(NodeObservation(NodeName("gpus"), "gpus", 4, gpu_type="H100"))
    site.tick()

    def warned(method: str, address: str, **fields: Any) -> Any:
        answer = site.client.request(method, f"/v1/queues{address}", json=fields)
        return answer.json()["warnings"]

    unknown = "no node has GPU type H1OO now, and it counts once one has (nodes have H100)"
    assert warned("POST", "", path="lab", guarantee={"H1OO": 4}, limit={"H100": 8}) == [unknown]
    assert warned("PATCH", "/lab", limit={"H1OO": 8}) == [unknown]
    assert warned("PATCH", "/lab", weight=2.0) == warned("PATCH", "/lab", guarantee={"H1OO": None, "*": 2}) == []
    beyond = "the guarantee of 9 slots of GPU type H100 is met up to 8, as queue lab around it is limited"
    assert warned("PUT", "/lab/vision", guarantee={"H100": 9, "*": 9}) == [beyond]
    assert warned("PUT", "/lab/vision", guarantee={"H100": 8}, limit={"H1OO": 0}) == [unknown]

"""The live page without a browser: its files, the stream that feeds it, and the last hour."""

import gc
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from scheduler.http.live import live
from scheduler.http.live.snapshot import Drawer, Snapshot
from scheduler.http.schemas.node_views import node_views
from scheduler.http.static import files
from scheduler.model.job_state import JobState, WaitReason
from tests.http.site import Site
from tests.poison import HARMS, POINTS, poisoned
from tests.world import World

PAGE = Path(live.__file__).parents[1] / "page"


class Stream:
    """One who listens."""

    def __init__(self, answer: httpx.Response) -> None:
        self.status = answer.status_code
        self._lines = answer.iter_lines()
        self.id = ""

    def message(self) -> tuple[str, dict[str, Any]]:
        """The next one: its kind and what it says."""
        fields: dict[str, str] = {}
        for line in self._lines:
            if line == "" and "data" in fields:
                self.id = fields["id"]
                return fields["event"], json.loads(fields["data"])
            name, _, value = line.partition(": ")
            fields[name] = value
        raise AssertionError("the stream has ended")

    def next_with(self, name: str) -> tuple[str, dict[str, Any]]:
        """The next message that has this."""
        while True:
            kind, said = self.message()
            if name in said:
                return kind, said

    def until(self, name: str) -> Any:
        """What the next message that has this says of it."""
        return self.next_with(name)[1][name]


@pytest.fixture
def stream(site: Site) -> Iterator[Stream]:
    with site.client.stream("GET", "/v1/live") as answer:
        yield Stream(answer)


def test_first_comes_the_whole_picture_then_what_changes(site: Site, stream: Stream) -> None:
    kind, snapshot = stream.message()
    assert (kind, snapshot["slots_total"], snapshot["slots_used"]) == ("picture", 4, 0)
    assert [(node["name"], node["held"]) for node in snapshot["nodes"]] == [("a", [])]
    job = site.submit(min_workers=1, max_workers=2)
    assert [event["kind"] for event in stream.until("events")] == ["JOB_SUBMITTED"]
    site.tick()
    # Who looks in the middle of a tick sees its events first.
    kind, change = stream.next_with("slots_used")
    assert (kind, change["slots_used"], change["jobs"][0]["id"]) == ("change", 2, job)
    assert change["nodes"][0]["held"] == [[job, "starting", [0]], [job, "starting", [1]]]
    site.client.post(f"/v1/jobs/{job}/cancel")
    site.advance(60)
    assert stream.until("jobs_gone") == [job]


def test_workers_of_a_held_job_go_on_and_hold_their_slots_in_the_picture(tmp_path: Path) -> None:
    w = World(tmp_path, careful=True)
    w.node("a", slots=4)
    job_id = w.job("j", workers=2)
    w.settle()
    w.kill_engine()
    with poisoned(lambda each: each == job_id, POINTS[5], HARMS["raise"]):
        w.advance(10)
    w.expect(job_id, JobState.HELD)
    assert w.board.world is not None
    picture = Drawer().draw(w.board.world, (), w.settings.policy, w.clock.now())
    assert (picture.slots_total, picture.slots_used) == (4, 2)
    assert picture.nodes["a"]["held"] == [(job_id, "ready", [0]), (job_id, "ready", [1])]
    (node,) = node_views(w.board.world.nodes.values(), w.board.world)
    assert (node["slots_used"], node["held"], node["workers"]) == (2, [(job_id, 2)], ["1-1", "1-2"])
    w.ask_cancel(job_id)
    w.tick()
    picture = Drawer().draw(w.board.world, (), w.settings.policy, w.clock.now())
    assert picture.nodes["a"]["held"] == [(job_id, "leaving", [0]), (job_id, "leaving", [1])]
    w.close()


def test_a_picture_is_drawn_anew_only_where_more_than_progress_has_changed(tmp_path: Path) -> None:
    w = World(tmp_path)
    for name in ("a", "b"):
        w.node(name, slots=4)
    drawer, pictures = Drawer(), list[Snapshot]()

    def draw() -> None:
        assert w.board.world is not None
        drawn = (w.board.world, (), w.settings.policy, w.clock.now())
        pictures.append(drawer.draw(*drawn))
        assert pictures[-1] == Drawer().draw(*drawn)

    w.advance(1)
    job_id = w.job("j", workers=(1, 2))
    for step in range(60):
        w.advance(1)
        draw()
        if step == 40:
            w.ask_cancel(job_id)
        if step == 50:
            w.cluster.lose_node(w.node_name("b"))
    nodes = [id(picture.nodes) for picture in pictures]
    assert w.get(job_id).state is JobState.CANCELLED
    assert len(set(nodes[10:40])) == 1
    assert len(set(nodes[40:])) > 1
    w.close()


def test_whoever_comes_back_gets_what_came_meanwhile(site: Site) -> None:
    with site.client.stream("GET", "/v1/live") as answer:
        first = Stream(answer)
        first.message()
        with site.client.stream("GET", "/v1/live", headers={"last-event-id": first.id}) as again:
            site.submit(workers=9)
            site.tick()
            back = Stream(again)
            kind, change = back.next_with("jobs")
            assert kind == "change"
            assert "nodes" not in change
    with site.client.stream("GET", "/v1/live", headers={"last-event-id": "another-run-7"}) as strange:
        assert Stream(strange).message()[0] == "picture"


def test_whoever_comes_back_is_told_at_once_that_nothing_has_changed(site: Site) -> None:
    with site.client.stream("GET", "/v1/live") as answer:
        first = Stream(answer)
        first.message()
    site.clock.advance(5)
    back = Stream(site.client.get("/v1/live", params={"wait": 0}, headers={"last-event-id": first.id}))
    assert back.message() == ("change", {"time": site.clock.now()})
    assert back.id == first.id


def test_waiting_jobs_come_in_the_order_in_which_they_are_served(site: Site) -> None:
    site.submit(workers=4, preemptible=False, priority=9)
    late, soon = site.submit(workers=2), site.submit(workers=2, priority=3)
    site.advance(1)
    with site.client.stream("GET", "/v1/live") as answer:
        _, snapshot = Stream(answer).message()
    assert snapshot["queue"] == [soon, late]
    reasons = {job["id"]: job["reason"] for job in snapshot["jobs"]}
    assert reasons[soon] == "INSUFFICIENT_SLOTS"


def test_queues_come_with_what_they_hold_and_are_entitled_to(site: Site, stream: Stream) -> None:
    assert stream.message()[1]["queues"] == []
    for path, fields in (("lab", {"guarantee": {"*": 1}}), ("lab/vision", {"share_users": True}), ("text", {})):
        assert site.client.post("/v1/queues", json={"path": path, **fields}).status_code == 201
    site.tick()
    new = {"slots_held": 0, "slots_entitled": None, "slots_guaranteed": None, "jobs_running": 0, "jobs_waiting": 0}
    assert stream.until("queues")[0] == {"path": "lab", **new, "users": [], "users_more": 0, "trouble": None}
    site.submit(min_workers=1, max_workers=2, queue="lab/vision", user="ann")
    site.submit(workers=3, queue="lab", preemptible=False)
    site.advance(5)
    while (changed := stream.until("queues"))[0]["slots_entitled"] is None or changed[0]["jobs_waiting"] == 0:
        pass
    with site.client.stream("GET", "/v1/live") as answer:
        _, picture = Stream(answer).message()
    lab, vision, text = picture["queues"]
    assert (lab["path"], lab["slots_held"], lab["jobs_running"], lab["jobs_waiting"]) == ("lab", 2, 1, 1)
    assert (lab["slots_entitled"], lab["slots_guaranteed"]) == (2, 1), "the job of three can never start"
    assert (vision["slots_held"], vision["users"]) == (2, [["ann", 2, 2]])
    assert text == {"path": "text", **new, "users": [], "users_more": 0, "trouble": None}
    assert [job["queue"] for job in picture["jobs"]] == ["lab/vision", "lab"]
    site.client.delete("/v1/queues/text")
    site.tick()
    assert stream.until("queues_gone") == ["text"]


def test_slots_held_for_a_job_and_nodes_that_take_nobody_are_told(site: Site) -> None:
    site.submit(workers=4, priority=1, grace_seconds=60)
    site.advance(1)
    urgent = site.submit(workers=2, priority=9)
    site.client.post("/v1/nodes/a/cordon")
    site.tick()
    with site.client.stream("GET", "/v1/live") as answer:
        _, snapshot = Stream(answer).message()
    node = snapshot["nodes"][0]
    assert node["away"] == "CORDONED"
    assert node["reserved"] in ([], [[urgent, 2]])


def test_no_more_slots_are_used_than_there_are_while_a_node_is_down_with_its_workers(site: Site) -> None:
    node = site.node("b", slots=8)
    site.submit(workers=12)
    site.advance(5)
    site.cluster.lose_node(node, remembered=True)
    site.advance(5)
    seen = site.client.get("/v1/cluster").json()
    with site.client.stream("GET", "/v1/live") as answer:
        _, snapshot = Stream(answer).message()
    for view in (seen, snapshot):
        assert (view["slots_used"], view["slots_total"]) == (4, 4)
    assert [node["held"] != [] for node in snapshot["nodes"]] == [True, True]


def test_only_the_newest_picture_is_kept_however_much_changed(site: Site, stream: Stream) -> None:
    def kept() -> int:
        gc.collect()
        return sum(type(each) is Snapshot for each in gc.get_objects())

    stream.message()
    before = kept()
    for _ in range(4):
        job = site.submit()
        site.tick()
        stream.until("jobs")
        site.client.post(f"/v1/jobs/{job}/cancel")
        site.advance(60)
        stream.until("jobs_gone")
    assert kept() <= before + 2, "of eight"


def test_no_more_than_so_many_listen(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LISTENERS_MAX", 1)
    with site.client.stream("GET", "/v1/live") as answer:
        listening = Stream(answer)
        listening.message()
        refused = site.client.get("/v1/live")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")


def test_streams_end_when_the_server_stops(site: Site) -> None:
    with site.client.stream("GET", "/v1/live") as answer:
        stream = Stream(answer)
        stream.message()
        threading.Thread(target=site.services.wake_all).start()
        with pytest.raises(AssertionError, match="has ended"):
            stream.message()


@pytest.mark.parametrize("ends", ["revoked", "expired"])
def test_a_stream_ends_when_its_token_does(guarded: Site, ends: str) -> None:
    ann = guarded.user_header("ann", seconds=60)
    with guarded.client.stream("GET", "/v1/live", headers=ann) as answer:
        stream = Stream(answer)
        assert stream.message()[0] == "picture"
        if ends == "revoked":
            [token] = guarded.store.list_tokens().tokens
            guarded.store.revoke_token(token.id, guarded.clock.wall())
            guarded.tokens.look()
        else:
            guarded.clock.advance(61)
        with pytest.raises(AssertionError, match="the stream has ended"):
            stream.next_with("nothing has this")


def test_the_last_hour_is_computed_of_the_workers_that_lived_in_it(site: Site) -> None:
    gone = site.submit(workers=2)
    site.advance(1)
    site.clock.advance(1799)
    site.client.post(f"/v1/jobs/{gone}/cancel")
    site.advance(60)
    job = site.submit(workers=4)
    site.advance(1)
    site.clock.advance(600)
    view = site.client.get("/v1/history").json()
    assert [view["slots_used"][at] for at in (0, 60, 119)] == [0, 2, 4]
    assert [view["slots_total"][at] for at in (0, 60, 119)] == [0, 4, 4]
    assert list(view["jobs"]) == [str(job)]
    assert [size for _, size in view["jobs"][str(job)]] == [4]


def test_the_page_needs_no_token_and_may_load_nothing_from_elsewhere(tmp_path: Path) -> None:
    site = Site(tmp_path, token="0123456789abcdef")
    with site.served():
        answer = site.client.get("/")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert site.client.get("/v1/live").status_code == 401
        assert site.client.get("/v1/history").status_code == 401
    site.close()


def test_files_of_the_page_are_asked_for_again_only_where_they_changed(still_site: Site) -> None:
    assert {"index.html", "main.js", "page.css", "icon.svg"} <= set(files())
    for name in files():
        answer = still_site.client.get(f"/page/{name}")
        assert answer.status_code == 200
        again = still_site.client.get(f"/page/{name}", headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    for name in ("nothing.js", "..%2Fapp.py", "__init__.py"):
        assert still_site.client.get(f"/page/{name}").status_code == 404


def test_no_file_of_the_page_holds_scripts_or_styles_in_its_markup_or_makes_markup_of_text() -> None:
    index = (PAGE / "index.html").read_text()
    assert not any(inline in index for inline in (" style=", "<style", " onclick=", "javascript:"))
    modules = {path.name for path in PAGE.glob("*.js")}
    assert all(f"/page/{name}" in index for name in modules)
    for name in modules:
        text = (PAGE / name).read_text()
        assert not any(risky in text for risky in ("innerHTML", "insertAdjacent", "document.write", "eval("))


def test_every_reason_to_wait_has_its_words() -> None:
    words = (PAGE / "words.js").read_text()
    assert [reason for reason in WaitReason if f"  {reason}: " not in words] == []

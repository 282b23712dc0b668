"""discover_hosts: what Horovod and elastic workers may rely on."""

import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack

import httpx
import pytest

from scheduler.model.ids import JobId
from tests.eventually import SECONDS_MAX, eventually
from tests.http.site import Site

JSON = {"accept": "application/json"}


def published(site: Site, **fields: object) -> JobId:
    """A running job with a published list."""
    job_id = site.submit(**fields)
    site.advance(1)
    return job_id


def hosts(site: Site, job_id: int, query: str = "", **headers: str) -> httpx.Response:
    return site.client.get(f"/v1/jobs/{job_id}/discover_hosts{query}", headers=headers)


#: The first is answered on the short way, the second by the route.
WAYS = pytest.mark.parametrize("way", ["", "?wait=0"])


@WAYS
def test_one_host_and_its_slots_a_line_newline_at_the_end(site: Site, way: str) -> None:
    answer = hosts(site, published(site, workers=2), way)
    assert (answer.status_code, answer.text) == (200, "host-a:2\n")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-sched-generation"] == "1"


@WAYS
def test_json_gives_members_in_rank_order_and_bounds(site: Site, way: str) -> None:
    answer = hosts(site, published(site, min_workers=1, max_workers=2), way, **JSON)
    assert answer.headers["content-type"] == "application/json"
    view = answer.json()
    assert [(member["rank"], member["id"]) for member in view["workers"]] == [(0, "1-1"), (1, "1-2")]
    assert (view["generation"], view["min"], view["max"], view["leaving"]) == (1, 1, 2, [])


@WAYS
@pytest.mark.parametrize("accept", ["text/plain", "application/json"])
def test_a_known_list_is_not_sent_again(site: Site, way: str, accept: str) -> None:
    job_id = published(site)
    first = hosts(site, job_id, way, accept=accept)
    again = hosts(site, job_id, way, accept=accept, **{"if-none-match": f'"other", W/{first.headers["etag"]}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    assert hosts(site, job_id, way, accept=accept, **{"if-none-match": '"other"'}).status_code == 200


@WAYS
def test_questions_are_counted_by_outcome(site: Site, way: str) -> None:
    job_id = published(site)
    tag = hosts(site, job_id, way).headers["etag"]
    before = dict(site.app.asked)
    hosts(site, job_id, way)
    hosts(site, job_id, way, **{"if-none-match": tag})
    hosts(site, 99, way)
    hosts(site, job_id, way, origin="http://elsewhere.example")
    counted = {outcome: count - before[outcome] for outcome, count in site.app.asked.items()}
    assert counted == {"given": 1, "unchanged": 1, "none": 1, "refused": 1}


def test_the_two_forms_have_different_tags(site: Site) -> None:
    job_id = published(site)
    assert hosts(site, job_id).headers["etag"] != hosts(site, job_id, **JSON).headers["etag"]


@WAYS
def test_never_an_empty_list(site: Site, way: str) -> None:
    waiting = site.submit(workers=99)
    answer = hosts(site, waiting, way)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    site.tick()
    assert hosts(site, waiting, way).status_code == 503
    assert hosts(site, 12345, way).status_code == 404
    site.client.post(f"/v1/jobs/{waiting}/cancel")
    site.tick()
    assert hosts(site, waiting, way).status_code == 410
    site.board.clear()
    assert hosts(site, 12345, way).status_code == 503


def test_a_worker_that_asks_while_its_job_starts_is_told_how_to_wait(site: Site) -> None:
    job_id = site.submit()
    waiting = hosts(site, job_id).json()["error"]["message"]
    site.tick()
    answer = hosts(site, job_id)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    told = answer.json()["error"]["message"]
    assert told.startswith(f"job {job_id} is STARTING: its hosts are published when its workers are ready")
    query = "wait=60&generation=0"
    assert query in told
    assert query in waiting
    first = in_background(lambda: hosts(site, job_id, f"?{query}"))
    until_listening(site)
    site.advance(1)
    assert first().text == hosts(site, job_id, f"?{query}").text == "host-a:1\n"


def test_an_answer_follows_the_newest_generation(site: Site) -> None:
    job_id = published(site, min_workers=1, max_workers=4)
    assert hosts(site, job_id).text == "host-a:4\n"
    site.client.patch(f"/v1/jobs/{job_id}", json={"max_workers": 2})
    site.tick()
    answer = hosts(site, job_id)
    assert (answer.text, answer.headers["x-sched-generation"]) == ("host-a:2\n", "2")
    leaving = hosts(site, job_id, **JSON).json()["leaving"]
    assert [worker["id"] for worker in leaving] == ["1-4", "1-3"] or len(leaving) == 2


def in_background(call: Callable[[], httpx.Response]) -> Callable[[], httpx.Response]:
    """Start the call now; the result waits for its end."""
    answers: list[httpx.Response] = []
    thread = threading.Thread(target=lambda: answers.append(call()))
    thread.start()

    def result() -> httpx.Response:
        thread.join(SECONDS_MAX)
        return answers[0]

    return result


def until_listening(site: Site, count: int = 1) -> None:
    """Wait until `count` requests are waiting."""
    bells = (site.services.hosts_bell, site.services.events_bell)
    eventually(lambda: sum(notifier.listening() for notifier in bells) >= count, f"fewer than {count} wait")


def test_waiting_ends_with_the_next_generation(site: Site) -> None:
    job_id = published(site, min_workers=1, max_workers=4)
    answer = in_background(lambda: hosts(site, job_id, "?wait=30&generation=1"))
    until_listening(site)
    site.client.patch(f"/v1/jobs/{job_id}", json={"max_workers": 3})
    site.tick()
    assert answer().headers["x-sched-generation"] == "2"


def test_waiting_for_the_first_list_ends_when_there_is_one(site: Site) -> None:
    job_id = site.submit()
    answer = in_background(lambda: hosts(site, job_id, "?wait=30&generation=0"))
    until_listening(site)
    site.advance(1)
    assert answer().text == "host-a:1\n"


def test_another_generation_than_the_known_one_is_given_at_once(site: Site) -> None:
    assert hosts(site, published(site), "?wait=60&generation=7").status_code == 200


def test_nothing_new_within_the_wait_gives_the_list_again_or_503(site: Site) -> None:
    assert hosts(site, published(site), "?wait=0.05&generation=1").status_code == 200
    assert hosts(site, site.submit(workers=99), "?wait=0.05&generation=0").status_code == 503


def test_an_end_of_the_job_ends_the_wait(site: Site) -> None:
    job_id = published(site, grace_seconds=0)
    answer = in_background(lambda: hosts(site, job_id, "?wait=30&generation=1"))
    until_listening(site)
    site.client.post(f"/v1/jobs/{job_id}/cancel")
    site.settle()
    assert answer().status_code in (410, 503)


def test_a_server_that_stops_answers_those_that_wait(site: Site) -> None:
    job_id = published(site)
    answers = [in_background(lambda: hosts(site, job_id, "?wait=60&generation=1")) for _ in range(3)]
    until_listening(site, 3)
    assert site.server is not None
    site.server.should_exit = True
    assert [answer().status_code for answer in answers] == [200, 200, 200]


def test_hundreds_of_workers_that_wait_are_all_told_of_one_resize(site: Site) -> None:
    job_id = published(site, min_workers=1, max_workers=4)
    count = 300
    address = ("127.0.0.1", int(site.url.rpartition(":")[2]))
    request = f"GET /v1/jobs/{job_id}/discover_hosts?wait=60&generation=1 HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    with ExitStack() as stack:
        waiting = [stack.enter_context(socket.create_connection(address, timeout=SECONDS_MAX)) for _ in range(count)]
        for connection in waiting:
            connection.sendall(request.encode())
        until_listening(site, count)
        site.client.patch(f"/v1/jobs/{job_id}", json={"max_workers": 3})
        site.tick()
        answers = [connection.recv(4096) for connection in waiting]
    assert all(answer.startswith(b"HTTP/1.1 200") and b"x-sched-generation: 2" in answer for answer in answers)


@pytest.mark.parametrize("query", ["?wait=61", "?wait=-1", "?wait=nan", "?generation=-1", "?generation=x"])
def test_what_cannot_be_waited_for_is_refused(still_site: Site, query: str) -> None:
    assert hosts(still_site, 1, query).status_code == 422


@pytest.mark.parametrize("number", ["0", "-1", "1.5", "x", "9" * 30, "1%00"])
def test_odd_ids_do_no_harm_on_the_short_way(still_site: Site, number: str) -> None:
    assert still_site.client.get(f"/v1/jobs/{number}/discover_hosts").status_code in (404, 422, 503)

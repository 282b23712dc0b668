"""What Prometheus is answered."""

import pytest

from tests.http.site import Site

OPENMETRICS = "application/openmetrics-text"


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("*/*", "text/plain"),
        ("text/plain;version=0.0.4", "text/plain"),
        (f"{OPENMETRICS};version=1.0.0,{OPENMETRICS};version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5", OPENMETRICS),
    ],
)
def test_a_scrape_gets_the_format_that_it_asks_for(site: Site, accept: str, content_type: str) -> None:
    site.tick()
    answer = site.client.get("/metrics", headers={"accept": accept})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith(content_type)
    assert "sched_leading 1" in answer.text
    assert answer.text.endswith("# EOF\n") == (content_type == OPENMETRICS)

"""The generated pages are those that the code gives, and hold everything that they list."""

import json
import re
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from docs.generate.comments import member_comments
from docs.generate.markdown import COMMAND
from docs.generate.pages import DOCS, PAGES
from docs.generate.settings import variable
from scheduler.config import Settings, WebhookSettings, load_settings
from scheduler.http.app import routes
from scheduler.model import booking, event, intent, job, node, worker


@cache
def made(name: str) -> str:
    return PAGES[name]()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_the_one_that_the_code_gives(name: str) -> None:
    path = DOCS / name
    text = path.read_text() if path.exists() else ""
    # The whole page would be the message otherwise.
    assert (text == PAGES[name]()) is True, f"docs/{name} is stale, run: {COMMAND}"


def leaves(model: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every setting below a model."""
    found = []
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and hasattr(field.annotation, "model_fields"):
            found += leaves(field.annotation, (*path, name))
        elif name != "webhooks":
            found.append((*path, name))
    return found


EVERY_SETTING = [*leaves(Settings), *leaves(WebhookSettings, ("webhooks", "NAME"))]


@pytest.mark.parametrize("path", EVERY_SETTING, ids=".".join)
def test_every_setting_has_a_meaning_and_stands_on_the_page(path: tuple[str, ...]) -> None:
    (row,) = [line for line in made("settings.md").splitlines() if row_of(path, line)]
    name, kind, default, meaning = re.split(r" (?<!\\)\| ", row.strip("| "))
    assert all((name, kind, default, meaning))
    assert meaning.endswith(".")


def row_of(path: tuple[str, ...], line: str) -> bool:
    tables = path == ("kubernetes", "tolerations")
    return line.startswith(f"| `{path[-1]}` |" if tables else f"| `{path[-1]}`<br>`{variable(path)}` |")


#: Values that suit the rules of settings whose defaults cannot be written into a variable.
VALUES = {
    ("webhooks", "NAME", "url"): "https://example.org/hook",
    ("webhooks", "NAME", "secret"): "0123456789abcdef",
    ("database_url",): "sqlite:///x.db",
    ("http", "advertised_url"): "http://a:1",
    ("http", "workers_url"): "http://a:1",
    ("http", "token"): "0123456789abcdef",
    ("http", "metrics_token"): "fedcba9876543210",
    ("http", "socket"): "/run/sched/sched.sock",
    ("oidc", "issuer"): "https://login.example.org",
    ("oidc", "default_role"): "viewer",
    ("policy", "aging_ceilings"): "10,100",
    ("policy", "fair_stop_seconds"): "60.0",
    ("policy", "oversell_utilization_max"): "0.5",
    ("local", "slots"): "3",
    ("system", "uid_min"): "500",
    ("system", "umask"): "077",
    ("kubernetes", "yield_to_priority"): "7",
    ("usage", "prices"): "H100=2.5,*=1.0",
    ("kubernetes", "kubeconfig"): "/k",
    ("kubernetes", "gpu_exporter"): "gpu-operator/app=dcgm",
}


@pytest.mark.parametrize("path", [path for path in EVERY_SETTING if path[-1] != "tolerations"], ids=".".join)
def test_the_variable_on_the_page_sets_the_setting(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    if path[0] == "webhooks":
        for name in ("url", "secret"):
            monkeypatch.setenv(variable(("webhooks", "NAME", name)), VALUES["webhooks", "NAME", name])
    default = value_at(load_settings(), path)
    given = VALUES.get(path) or ("x" if default is None else text_of(default))
    monkeypatch.setenv(variable(path), given)
    after = value_at(load_settings(), path)
    assert text_of(after) == given
    if path in VALUES and path[0] != "webhooks":
        assert after != default


def value_at(settings: Settings, path: tuple[str, ...]) -> Any:
    value: Any = settings
    for name in path:
        value = value["name"] if name == "NAME" else getattr(value, name)
    return value


def text_of(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{name}={each}" for name, each in value.items())
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


ENUMERATIONS: list[type[StrEnum]] = [
    *(event.EventKind, event.Cause, job.JobState, job.StopReason, job.WaitReason, intent.IntentKind),
    *(worker.WorkerState, worker.LeaveReason, worker.ExitReason, node.NodeHealth, node.NodeIntent),
    booking.BookingState,
]


@pytest.mark.parametrize("kind", ENUMERATIONS)
def test_every_member_is_explained_by_one_sentence_on_the_page(kind: type[StrEnum]) -> None:
    comments = member_comments(kind)
    page = made("events.md")
    for member in kind:
        sentence = comments[member.name]
        assert sentence.endswith("."), member
        assert re.search(rf"^\| `{member.value}` \|.*{re.escape(sentence)} \|$", page, re.MULTILINE), member


def test_comments_of_inherited_members_are_seen_and_those_of_others_are_not() -> None:
    comments = member_comments(routes_view("JobDetail"))
    assert comments.items() >= member_comments(routes_view("JobView")).items()
    assert "dimensions" not in comments


def routes_view(name: str) -> type:
    from docs.generate.schemas import _kinds

    (found,) = _kinds()[name]
    return found


def test_every_route_parameter_and_body_stands_on_the_page() -> None:
    page = made("http-api.md")
    document = routes().openapi()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            section = page.partition(f"### `{method.upper()} {path}`\n")[2].partition("\n### ")[0]
            assert section, f"{method} {path}"
            named = [f"| `{each['name']}` | {each['in']}" for each in operation.get("parameters", ())]
            named += [f"| {status} |" for status in operation["responses"] if status in ("200", "201", "404", "409")]
            missing = [each for each in named if each not in section]
            assert not missing, f"{method} {path}"
    for name, schema in document["components"]["schemas"].items():
        title = name.rpartition("__")[2]
        assert f"### {title}" in page
        assert all(f"| `{field}` |" in page for field in schema.get("properties", {})), name


def test_every_field_and_parameter_of_the_api_is_described() -> None:
    rows = [line for line in made("http-api.md").splitlines() if line.startswith("| `")]
    assert [row for row in rows if re.search(r"\| [\s.]*(?:Default: `[^`]*`\.)?\s*\|$", row)] == []
    assert len(rows) > 400


def test_every_link_inside_the_api_page_has_one_target() -> None:
    page = made("http-api.md")
    titles = re.findall(r"^### (\w[\w-]*)$", page, re.MULTILINE)
    assert len(titles) == len(set(titles))
    assert set(re.findall(r"\]\(#([\w-]+)\)", page)) <= {title.lower() for title in titles}


def test_the_pages_say_how_they_are_made() -> None:
    for name in PAGES:
        assert (DOCS / name).read_text().startswith(f"<!-- made by {COMMAND} -->\n"), name


def test_the_default_on_the_page_is_valid_toml(tmp_path: Path) -> None:
    rows = re.findall(r"^\| `(\w+)`<br>`SCHED_POLICY__\w+` \| .* \| `(.+?)` \| ", made("settings.md"), re.MULTILINE)
    file = tmp_path / "settings.toml"
    file.write_text("[policy]\n" + "".join(f"{name} = {default}\n" for name, default in rows))
    assert load_settings(file).policy == Settings().policy
    assert len(rows) > 20
    assert json.dumps("elastic") in dict(rows)["name"]

"""The figures of the documents are the published ones, in tables and in charts."""

import json
import re
from pathlib import Path

import pytest

from benchmarks import publish
from benchmarks.__main__ import MEASURED, SIMULATED
from benchmarks.figure import PUBLISHED, Figure, load
from docs.generate.bars import LETTERS_MAX, Bar, draw
from docs.generate.charts import charts, digests
from docs.generate.comparison import BEGIN, END, Compared, compared, fragment, published, with_fragment
from docs.generate.markdown import COMMAND
from docs.generate.pages import DOCS, PAGES, README
from docs.generate.sections import MEASURED as SECTIONS
from docs.generate.simulated_sections import SIMULATED as SIMULATED_SECTIONS


@pytest.mark.parametrize("name", list(charts()))
def test_a_chart_shows_the_figures_as_they_are(name: str) -> None:
    path = DOCS / name
    text = path.read_text() if path.exists() else ""
    assert f"<!-- made by {COMMAND}: {digests()[name]} -->" in text, f"docs/{name} is stale, run: {COMMAND}"


@pytest.mark.parametrize("name", list(charts()))
def test_a_chart_holds_the_words_that_it_is_drawn_with(name: str) -> None:
    assert words((DOCS / name).read_text()) == words(charts()[name]()), f"run: {COMMAND}"


def words(drawing: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", drawing)


def test_there_is_no_chart_that_nothing_draws() -> None:
    assert {path.name for path in DOCS.glob("figures-*.svg")} | {"comparison.svg"} == set(charts())


def test_labels_fit_beside_their_bars() -> None:
    labels = [
        label for section in (*SECTIONS, *SIMULATED_SECTIONS) for chart in section.charts for label, _ in chart.bars
    ]
    labels += [each.comparison.label for each in compared()]
    assert [label for label in labels if len(label) > LETTERS_MAX] == []


def test_every_chart_stands_on_a_page() -> None:
    text = PAGES["figures.md"]() + fragment()
    assert all(f"({name})" in text or f"(docs/{name})" in text for name in charts())


def test_a_chart_of_another_value_is_another_chart() -> None:
    bars = [Bar("a", 1.0, "1 s", True), Bar("b", 2.0, "2 s", False)]
    first = draw("title", bars, log=False, note="note")
    assert first == draw("title", bars, log=False, note="note")
    second = draw("title", [bars[0], Bar("b", 3.0, "2 s", False)], log=False, note="note")
    assert first.splitlines()[0] != second.splitlines()[0]


def test_a_chart_can_be_read_on_light_and_on_dark_paper_and_names_no_other_site() -> None:
    drawing = draw("title", [Bar("a", 2.0, "2 ×", True)], log=True, note="note")
    assert "prefers-color-scheme: dark" in drawing
    assert not set(re.findall(r"#[0-9a-f]{6}", drawing.partition("</style>")[2]))
    assert re.findall(r"https?://[\w.]+", drawing) == ["http://www.w3.org"] * drawing.count("http://www.w3.org")


def test_the_page_has_every_benchmark_that_is_published_and_every_figure() -> None:
    assert sorted(section.name for section in SECTIONS) == sorted(MEASURED)
    assert sorted(section.name for section in SIMULATED_SECTIONS) == sorted(SIMULATED)
    page = PAGES["figures.md"]()
    published_names = sorted(path.stem for path in PUBLISHED.glob("*.json"))
    assert set(published_names) <= {*MEASURED, *SIMULATED}
    for name in published_names:
        rows = page.partition(f"`python -m benchmarks {name}`\n")[2].partition("\n### ")[0]
        assert all(f"| {figure.what} | {figure.measured.strip()} |" in rows for figure in load(name)), name


def test_the_readme_shows_six_figures_as_they_are() -> None:
    text = README.read_text()
    assert BEGIN in text, f"README.md needs the lines {BEGIN!r} and {END!r}"
    assert text.partition(BEGIN)[2].partition(END)[0].strip() == fragment()[len(BEGIN) : -len(END)].strip(), (
        f"run: {COMMAND}"
    )
    assert len(list(compared())) == 6


def test_the_readme_is_written_between_its_marks() -> None:
    assert with_fragment(f"before {BEGIN} old {END} after") == f"before {fragment()} after"
    with pytest.raises(ValueError, match=r"README\.md needs"):
        with_fragment("no marks")


@pytest.mark.parametrize("each", list(compared()), ids=lambda each: each.comparison.label)
def test_every_figure_of_the_readme_is_better_here(each: Compared) -> None:
    assert each.ratio > 1


def test_what_others_published_is_read_with_its_unit() -> None:
    assert published(Figure("x", 1.0, "s", published="Pollux: 2,706 s")) == (2706.0, "2,706 s")
    assert published(Figure("x", 1.0, "s", published="280.5 s")) == (280.5, "280.5 s")


def test_a_result_is_published_without_the_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"what": "a", "value": 1.5, "unit": "s", "at_most": 2.0, "at_least": None, "note": "", "published": ""}
    document = {"name": "tick", "measured_at": "now", "machine": "m", "figures": [{**row, "verdict": "reached"}]}
    (tmp_path / "tick.json").write_text(json.dumps(document))
    target = tmp_path / "published"
    target.mkdir()
    monkeypatch.setattr(publish, "RESULTS", tmp_path)
    monkeypatch.setattr(publish, "PUBLISHED", target)
    publish.publish("tick")
    assert json.loads((target / "tick.json").read_text()) == {"name": "tick", "machine": "m", "figures": [row]}

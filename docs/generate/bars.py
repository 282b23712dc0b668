"""A chart of horizontal bars as SVG that can be read on light and on dark paper: the same values give the same text."""

import hashlib
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from docs.generate.markdown import COMMAND

WIDTH_INCHES, ROW_INCHES, HEAD_INCHES, FOOT_INCHES = 7.6, 0.34, 0.46, 0.34
#: Where bars begin and end, as shares of the width; labels and values stand beside them.
LEFT, RIGHT = 0.38, 0.87
#: More do not fit beside a bar.
LETTERS_MAX = 34
#: What the drawing calls each colour, and what it is on light and on dark paper.
_COLOURS = {
    "#010203": ("paper", "#ffffff", "#1e2129"),
    "#020304": ("ink", "#24292f", "#dfe3ea"),
    "#030405": ("faint", "#57606a", "#a4adba"),
    "#040506": ("ours", "#1f77b4", "#5aa9e6"),
    "#050607": ("others", "#a8b0ba", "#6b7480"),
}
_PAPER, _INK, _FAINT, _OURS, _OTHERS = _COLOURS
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    value: float
    #: The value for people.
    text: str
    ours: bool


def draw(title: str, bars: Sequence[Bar], *, log: bool, note: str) -> str:
    """The SVG. `note` stands below the bars. With `log` they begin at 1, which all values exceed."""
    height = HEAD_INCHES + ROW_INCHES * len(bars) + FOOT_INCHES
    figure = Figure(figsize=(WIDTH_INCHES, height), dpi=100, facecolor=_PAPER)
    axes = figure.add_axes((LEFT, FOOT_INCHES / height, RIGHT - LEFT, ROW_INCHES * len(bars) / height))
    axes.set_facecolor("none")
    axes.axis("off")
    places = [-float(place) for place in range(len(bars))]
    axes.set_ylim(-len(bars) + 0.5, 0.5)
    least = 1.0 if log else 0.0
    if log:
        axes.set_xscale("log")
    axes.set_xlim(least, max(bar.value for bar in bars))
    for place, bar in zip(places, bars, strict=True):
        axes.barh(place, bar.value - least, left=least, height=0.62, color=_OURS if bar.ours else _OTHERS)
        _write(axes, bar.label, bar.ours, place, left=0.0)
        _write(axes, bar.text, bar.ours, place, left=bar.value)
    figure.text(0.02, 1 - 0.26 / height, title, fontsize=11.5, weight="bold", color=_INK, va="center")
    figure.text(0.98, 0.16 / height, note, fontsize=8.5, color=_FAINT, ha="right", va="center")
    return _plain(_svg(figure), title, digest(title, bars, log=log, note=note))


def _write(axes: Axes, text: str, bold: bool, place: float, *, left: float) -> None:
    """Beside the axis where `left` is 0, else beside the end of the bar of that value."""
    axes.annotate(
        text,
        (left, place),
        xycoords="data" if left else ("axes fraction", "data"),
        xytext=(6 if left else -8, 0),
        textcoords="offset points",
        ha="left" if left else "right",
        va="center",
        fontsize=10,
        weight="bold" if bold else "normal",
        color=_INK,
    )


def digest(title: str, bars: Sequence[Bar], *, log: bool, note: str) -> str:
    """What a chart shows, in a few letters: a drawing of other values has another."""
    return hashlib.sha256(repr((title, tuple(bars), log, note)).encode()).hexdigest()[:16]


def _svg(figure: Figure) -> str:
    file = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "charts", "svg.fonttype": "none", "font.family": "DejaVu Sans"}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Type": None, "Format": None})
    return file.getvalue()


def _plain(text: str, title: str, shown: str) -> str:
    """Without what names other sites, with colours that follow the reader's, in the reader's font."""
    body = text[text.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, flags=re.DOTALL)
    body = re.sub(r"font-family: [^;\"]*", f"font-family: {_FONT}", body)
    for colour, (name, _, _) in _COLOURS.items():
        body = body.replace(colour, f"var(--{name})")
    light, dark = (
        "".join(f"--{colour[0]}: {colour[place]}; " for colour in _COLOURS.values()).strip() for place in (1, 2)
    )
    style = (
        f"<style>svg {{ {light} }} @media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }}</style>\n"
        f"<title>{title}</title>\n"
    )
    head, rest = body.split(">", 1)
    return f'<!-- made by {COMMAND}: {shown} -->\n{head} role="img">\n{style}{rest.lstrip()}'

"""Plots as inline SVG: areas over time, columns over time, bars. Colours come from the page's style."""

from collections.abc import Mapping, Sequence

from scheduler.cli.render.output import markup

WIDTH, HEIGHT = 860, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 10, 26
_ROW = 26
_NAME, _NAME_LENGTH = 150, 20
#: Classes of the page's style: `.c0` to `.c5`.
COLOURS = 6


def areas(
    title: str, series: Mapping[str, Sequence[float]], limit: Sequence[float], times: Sequence[str], unit: str
) -> str:
    """What each series adds to those before it, below a line of what there was."""
    top = max([*limit, *(sum(column) for column in zip(*series.values(), strict=True)), 0.0]) or 1.0
    below = [0.0] * len(limit)
    parts = []
    for index, (name, values) in enumerate(series.items()):
        above = [low + value for low, value in zip(below, values, strict=True)]
        outline = [*_steps(above, top), *reversed(_steps(below, top))]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in outline)
        mean = sum(values) / max(1, len(values))
        parts.append(
            f'<polygon class="c{index % COLOURS}" points="{points}">'
            f"<title>{markup(name)}: {mean:,.1f} {markup(unit)} on average</title></polygon>"
        )
        below = above
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in _steps(limit, top))
    parts.append(f'<polyline class="limit" points="{line}"/>')
    return _framed(title, parts, top, times)


def columns(title: str, series: Mapping[str, Sequence[float]], times: Sequence[str], unit: str) -> str:
    """A column for each part of the span, the series on top of each other."""
    count = max(map(len, series.values()), default=0)
    top = max([sum(column) for column in zip(*series.values(), strict=True)], default=0.0) or 1.0
    step = (WIDTH - _LEFT - _RIGHT) / max(1, count)
    below = [0.0] * count
    parts = []
    for index, (name, values) in enumerate(series.items()):
        for part, value in enumerate(values):
            if value:
                y, height = _y(below[part] + value, top), _y(0, top) - _y(value, top)
                parts.append(
                    f'<rect class="c{index % COLOURS}" x="{_LEFT + part * step:.1f}" y="{y:.1f}" '
                    f'width="{max(step - 1, 1):.1f}" height="{height:.1f}">'
                    f"<title>{markup(name)}: {value:,.6g} {markup(unit)}</title></rect>"
                )
                below[part] += value
    return _framed(title, parts, top, times)


def bars(title: str, rows: Sequence[tuple[str, Sequence[tuple[float, str]]]]) -> str:
    """For each name some bars of its own: a length, and what it is in words."""
    top = max((length for _, each in rows for length, _ in each), default=0.0) or 1.0
    height = sum(_ROW * len(each) + 8 for _, each in rows) + 8
    parts, y = [], 8
    for name, each in rows:
        parts.append(f'<text x="{_NAME - 8}" y="{y + 17}" text-anchor="end">{markup(_short(name))}</text>')
        for index, (length, text) in enumerate(each):
            width = max(1.0, (WIDTH - _NAME - 230) * length / top)
            parts.append(f'<rect class="c{index}" x="{_NAME}" y="{y}" width="{width:.1f}" height="{_ROW - 6}"/>')
            parts.append(f'<text x="{_NAME + width + 6:.1f}" y="{y + 15}">{markup(text)}</text>')
            y += _ROW
        y += 8
    return _svg(title, height, parts)


def _steps(values: Sequence[float], top: float) -> list[tuple[float, float]]:
    step = (WIDTH - _LEFT - _RIGHT) / max(1, len(values))
    corners = []
    for part, value in enumerate(values):
        corners += [(_LEFT + part * step, _y(value, top)), (_LEFT + (part + 1) * step, _y(value, top))]
    return corners


def _short(name: str) -> str:
    return name if len(name) <= _NAME_LENGTH else f"{name[: _NAME_LENGTH - 1]}…"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _y(value: float, top: float) -> float:
    return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / top


def _framed(title: str, parts: Sequence[str], top: float, times: Sequence[str]) -> str:
    frame = []
    for share in (0.0, 0.5, 1.0):
        y = _y(top * share, top)
        frame.append(f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{WIDTH - _RIGHT}" y2="{y:.1f}"/>')
        frame.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_number(top * share)}</text>')
    for index, text in enumerate(times):
        x = _LEFT + (WIDTH - _LEFT - _RIGHT) * index / max(1, len(times) - 1)
        anchor = "start" if index == 0 else "end" if index == len(times) - 1 else "middle"
        frame.append(f'<text x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">{markup(text)}</text>')
    return _svg(title, HEIGHT, [*frame, *parts])


def _svg(title: str, height: int, parts: Sequence[str]) -> str:
    name = markup(title)
    head = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{name}"><title>{name}</title>'
    return "\n".join([head, *parts, "</svg>"])

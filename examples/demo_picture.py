"""The timeline as an SVG picture."""

from xml.sax.saxutils import escape

from demo_record import Record
from demo_timeline import Bar, bars, marks

_WIDTH, _LEFT, _RIGHT, _TOP, _ROW, _GAP = 900, 64, 16, 58, 34, 6
_COLOURS = {"low": "#4e79a7", "high": "#e15759"}
_FONT = 'font-family="system-ui, sans-serif"'


def picture(record: Record, slots: int) -> str:
    """Rows are slots; a pale bar is a worker that starts up, a full one trains."""
    shown = list(bars(record))
    total = max((bar.end for bar in shown), default=1.0)
    scale = (_WIDTH - _LEFT - _RIGHT) / total
    bottom = _TOP + slots * (_ROW + _GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {bottom + 40}" role="img">',
        "<title>Slots over time: a low-priority job gives up workers for a high-priority one and regains them</title>",
        f'<rect width="{_WIDTH}" height="{bottom + 40}" fill="#ffffff"/>',
    ]
    for slot in range(slots):
        y = _TOP + slot * (_ROW + _GAP)
        width = _WIDTH - _LEFT - _RIGHT
        parts.append(f'<rect x="{_LEFT}" y="{y}" width="{width}" height="{_ROW}" fill="#f1f1f1"/>')
        parts.append(_text(8, y + _ROW / 2 + 5, f"slot {slot}"))
    for bar in shown:
        parts += _bar(bar, scale)
    parts += _marks(record, scale, bottom)
    parts += _axis(total, scale, bottom)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bar(bar: Bar, scale: float) -> list[str]:
    y = _TOP + bar.slot * (_ROW + _GAP)
    begin, ready, end = (_LEFT + at * scale for at in (bar.begin, bar.ready, bar.end))
    colour = _COLOURS[bar.job]
    parts = [
        f'<rect x="{begin:.1f}" y="{y}" width="{ready - begin:.1f}" height="{_ROW}" fill="{colour}" opacity="0.35"/>',
        f'<rect x="{ready:.1f}" y="{y}" width="{end - ready:.1f}" height="{_ROW}" fill="{colour}"/>',
    ]
    if end - ready > 40:
        parts.append(_text(ready + 6, y + _ROW / 2 + 5, bar.job, colour="#ffffff"))
    if bar.killed:
        parts.append(_text(end - 7, y + _ROW / 2 + 6, "✕", size=18, colour="#000000"))
    return parts


def _marks(record: Record, scale: float, bottom: int) -> list[str]:
    parts = []
    for number, mark in enumerate(marks(record)):
        x = _LEFT + mark.at * scale
        y = 20 if number % 2 == 0 else 38
        last = x > _WIDTH - 120
        parts.append(
            f'<line x1="{x:.1f}" y1="{y + 4}" x2="{x:.1f}" y2="{bottom}" stroke="#333333" stroke-dasharray="3 3"/>'
        )
        parts.append(_text(x, y, mark.text, anchor="end" if last else "middle"))
    return parts


def _axis(total: float, scale: float, bottom: int) -> list[str]:
    step = 5 if total <= 60 else 10
    return [
        _text(_LEFT + second * scale, bottom + 18, f"{second} s", size=12, anchor="middle")
        for second in range(0, int(total) + 1, step)
    ]


def _text(x: float, y: float, text: str, *, size: int = 14, colour: str = "#222222", anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}"'
    return f"<text {place} {_FONT}>{escape(text)}</text>"

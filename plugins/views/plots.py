"""Small plots: numbers to coordinates. ``templates/plots.html`` draws them as SVG, with their numbers in a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

WIDE, NARROW = 720, 352
"""Width in user units of a plot that has the page's whole width, and of one of two side by side."""
MAX_POINTS = 400
MAX_ROWS = 20
"""Rows of the table beside a curve."""

Point = tuple[float, float]
Interval = tuple[float, float]


@dataclass(frozen=True)
class Tick:
    """A labelled place on an axis."""

    at: float
    label: str


@dataclass(frozen=True)
class Plot:
    """What all plots have: words for those who see it and those who do not, and its numbers."""

    title: str
    description: str
    width: int
    height: int
    series: list[str]
    """Names of what is compared, in the order of their colours; one without a name needs no legend."""
    header: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Curve(Plot):
    """Lines, and marks where a value is known at few places only."""

    left: int = 0
    right: int = 0
    bottom: int = 0
    x_label: str = ""
    y_label: str = ""
    lines: list[str] = field(default_factory=list)
    """For each series the points of its line as SVG wants them; empty for one that is drawn as marks."""
    marks: list[list[Point]] = field(default_factory=list)
    x_ticks: list[Tick] = field(default_factory=list)
    y_ticks: list[Tick] = field(default_factory=list)


@dataclass(frozen=True)
class Bar:
    """One bar; ``series`` is the number of its colour, ``whisker`` an interval around its end."""

    y: float
    width: float
    series: int
    text: str
    text_at: float
    whisker: Interval | None = None


@dataclass(frozen=True)
class Group:
    """Bars that belong to one name."""

    label: str
    y: float
    bars: list[Bar]


@dataclass(frozen=True)
class Bars(Plot):
    """Horizontal bars from zero, one group below the other."""

    left: int = 0
    thickness: int = 0
    groups: list[Group] = field(default_factory=list)


@dataclass(frozen=True)
class Scale:
    """A linear scale from numbers to coordinates."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / ((self.high - self.low) or 1)
        return round(self.start + share * (self.end - self.start), 1)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten apart) from ``low`` to ``high``, at most ``most`` of them."""
    span = (high - low) or 1.0
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if span / (power * factor) <= most - 1)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


def thinned(points: Sequence[Point], most: int) -> list[Point]:
    """At most ``most`` of the points, evenly chosen, the last always among them."""
    stride = max(1, math.ceil(len(points) / most))
    return list(points[::-1][::stride][::-1])


def plain_number(value: float) -> str:
    """A number as short as it can be read: four digits, thousands apart."""
    return f"{value:,.0f}" if abs(value) >= 1000 or float(value).is_integer() else f"{value:.4g}"


def curve(
    title: str,
    description: str,
    lines: Mapping[str, Sequence[Point]],
    marks: Mapping[str, Sequence[Point]],
    *,
    x_label: str,
    y_label: str,
) -> Curve:
    """Lines and marks over one axis. Both axes end at their data, the lower one of x at zero."""
    height, left, right, top, bottom = 300, 52, 24, 28, 40
    drawn = {name: thinned(points, MAX_POINTS) for name, points in lines.items()}
    points = [point for one in (*drawn.values(), *marks.values()) for point in one]
    ys = [y for _, y in points]
    x = Scale(0, max(x for x, _ in points), left, WIDE - right)
    y = Scale(min(ys), max(ys), height - bottom, top)
    return Curve(
        title=title,
        description=description,
        width=WIDE,
        height=height,
        series=[*lines, *marks],
        header=[x_label, *lines, *marks],
        rows=rows_of({**lines, **marks}),
        left=left,
        right=WIDE - right,
        bottom=height - bottom,
        x_label=x_label,
        y_label=y_label,
        lines=[" ".join(f"{x(one)},{y(two)}" for one, two in points) for points in drawn.values()] + [""] * len(marks),
        marks=[[] for _ in lines] + [[(x(one), y(two)) for one, two in points] for points in marks.values()],
        x_ticks=[Tick(x(value), plain_number(value)) for value in ticks(x.low, x.high)],
        y_ticks=[Tick(y(value), plain_number(value)) for value in ticks(y.low, y.high)],
    )


def rows_of(series: Mapping[str, Sequence[Point]]) -> list[list[str]]:
    """A table of the series by x, thinned to what one reads."""
    values = {name: dict(points) for name, points in series.items()}
    places = thinned([(x, 0) for x in sorted({x for points in series.values() for x, _ in points})], MAX_ROWS)
    return [
        [plain_number(x), *(plain_number(one[x]) if x in one else "" for one in values.values())] for x, _ in places
    ]


def bars(
    title: str,
    description: str,
    values: Mapping[str, Sequence[float]],
    *,
    series: Sequence[str] = ("",),
    intervals: Mapping[str, Interval] | None = None,
    text: Callable[[float], str] = plain_number,
    width: int = NARROW,
) -> Bars:
    """One group for each name with one bar for each series; ``intervals`` puts whiskers on a group's first bar."""
    intervals = intervals or {}
    left, right, thickness, gap = (168 if width == WIDE else 128), 72, 14, 10
    top = max((0.0, *(high for _, high in intervals.values()), *(one for group in values.values() for one in group)))
    x = Scale(0, top, 0, width - left - right)
    step = len(series) * thickness + gap
    groups = []
    for number, (name, group) in enumerate(values.items()):
        y = number * step + gap / 2
        whisker = tuple(x(one) for one in intervals[name]) if name in intervals else None
        drawn = [
            bar(y + place * thickness, x(one), place, text(one), whisker if place == 0 else None)
            for place, one in enumerate(group)
        ]
        groups.append(Group(name, y + len(group) * thickness / 2, drawn))
    return Bars(
        title=title,
        description=description,
        width=width,
        height=round(len(values) * step + gap),
        series=list(series),
        header=["", *series] if len(series) > 1 else ["", title],
        rows=[[name, *(text(one) for one in group)] for name, group in values.items()],
        left=left,
        thickness=thickness,
        groups=groups,
    )


def bar(y: float, width: float, series: int, text: str, whisker: Iterable[float] | None) -> Bar:
    """A bar with its number behind it, behind its whisker too."""
    low, high = whisker or (0.0, 0.0)
    return Bar(y, width, series, text, max(width, high) + 6, (low, high) if whisker else None)

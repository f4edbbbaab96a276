"""Charts as SVG: lines and distributions over two axes, and bars with names. Nothing is loaded from elsewhere and nothing runs in them."""

import html
import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760.0, 430.0, 78.0, 24.0, 88.0, 62.0
INK, FAINT, GRID = "#24292f", "#6e7781", "#e4e8ec"

# Colours that colour-blind readers can tell apart, too: Okabe's and Ito's, and two that differ from these in lightness.
COLOURS = ["#0072b2", "#e69f00", "#d55e00", "#009e73", "#cc79a7", "#56616b", "#56b4e9", "#6a3d9a", "#8c6d1f", "#111111"]

# Pixels from one line of a legend to the next, and from one bar to the next.
LEGEND_LINE, PITCH = 18.0, 26.0

# The longest bar divided by the shortest, above which an axis is logarithmic: the shortest would vanish.
VANISHES = 30.0


def trimmed(text):
    return text.rstrip("0").rstrip(".")


def thousands(number):
    """A number with its thousands apart, and two decimals where it is small and not whole."""
    return trimmed(f"{number:.2f}") if abs(number) < 100.0 else f"{number:,.0f}".replace(",", " ")


def duration(microseconds):
    """Microseconds as a person says them."""
    for above, divisor, unit in [(1e6, 1e6, "s"), (1e3, 1e3, "ms"), (-math.inf, 1.0, "µs")]:
        if microseconds >= above:
            return f"{trimmed(f'{microseconds / divisor:.3f}')} {unit}"


class Axis:
    """An axis for certain values: from zero, or logarithmic from one power of ten to another."""

    def __init__(self, label, values, logarithmic=False, durations=False):
        self.label, self.logarithmic, self.durations = label, logarithmic, durations
        values = [value for value in values if math.isfinite(value) and value > 0.0]
        if logarithmic:
            low, high = (min(values), max(values)) if values else (1.0, 10.0)
            self.low, self.step = math.floor(math.log10(low)), 1.0
            self.high = max(math.ceil(math.log10(high) - 1e-9), self.low + 1.0)
        elif values:
            power = 10.0 ** math.floor(math.log10(max(values)))
            part = max(values) / power
            self.low, self.step = 0.0, power * (0.2 if part <= 1.2 else 0.5 if part <= 2.0 else 1.0 if part <= 5.0 else 2.0)
            self.high = math.ceil(max(values) / self.step - 1e-9) * self.step
        else:
            self.low, self.high, self.step = 0.0, 1.0, 0.2

    def place(self, value):
        """Where a value lies, from 0 at the axis's beginning to 1 at its end."""
        value = math.log10(max(value, 5e-324)) if self.logarithmic else value
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)

    def ticks(self):
        """The values that are written beside the axis, with what is written."""
        count = 0
        while (at := self.low + count * self.step) <= self.high + self.step * 1e-6:
            value = 10.0**at if self.logarithmic else at
            if self.durations:
                yield value, duration(value)
            else:
                yield value, trimmed(f"{value:.6f}") if self.step < 1.0 else thousands(value)
            count += 1


def line(x1, y1, x2, y2, stroke):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}"/>\n'


def text(x, y, anchor, fill, size, words):
    words = html.escape(words).replace("&#x27;", "'")
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{fill}">{words}</text>\n'


def width(words, size):
    """About how many pixels these words take in letters of this size."""
    return 0.56 * size * len(words)


def begin(title, subtitle, height):
    title = html.escape(title).replace("&#x27;", "'")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {WIDTH:.0f} {height:.0f}" role="img" aria-label="{title}" '
        "font-family=\"system-ui, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', sans-serif\">\n"
        '<rect width="100%" height="100%" fill="#ffffff"/>\n'
        f'<text x="24.0" y="28" font-size="17" font-weight="600" fill="{INK}">{title}</text>\n'
        + text(24.0, 48.0, "start", FAINT, 12, subtitle)
    )


def legend(series):
    """The legend, in as many lines as its names take, and how much higher than one line that is."""
    svg, at, more = "", LEFT, 0.0
    for name, colour, _, _ in series:
        takes = 44.0 + width(name, 12)
        if at > LEFT and at + takes - 24.0 > WIDTH - RIGHT:
            at, more = LEFT, more + LEGEND_LINE
        svg += f'<rect x="{at:.1f}" y="{TOP + more - 21.0:.1f}" width="14" height="5" rx="2" fill="{COLOURS[colour % 10]}"/>\n'
        svg += text(at + 20.0, TOP + more - 14.0, "start", INK, 12, name)
        at += takes
    return svg, more


def chart(title, subtitle, x, y, series):
    """A chart of series over two axes (keyword arguments of Axis). A series is (name, colour, mark, points); a mark is `line`, points that
    are joined, `trace`, a line without them, or `steps` with the area beneath, each point where a bar begins and the last its end."""
    x = Axis(values=[point[0] for *_, points in series for point in points], **x)
    y = Axis(values=[point[1] for *_, points in series for point in points], **y)
    names, more = legend(series)
    top, floor, height = TOP + more, HEIGHT + more - BOTTOM, HEIGHT + more

    def across(value):
        return LEFT + x.place(value) * (WIDTH - LEFT - RIGHT)

    def down(value):
        return floor - y.place(value) * (floor - top)

    svg = begin(title, subtitle, height)
    for value, label in y.ticks():
        svg += line(LEFT, down(value), WIDTH - RIGHT, down(value), GRID)
        svg += text(LEFT - 8.0, down(value) + 4.0, "end", FAINT, 12, label)
    for value, label in x.ticks():
        svg += line(across(value), top, across(value), floor, GRID)
        svg += text(across(value), floor + 18.0, "middle", FAINT, 12, label)
    svg += line(LEFT, floor, WIDTH - RIGHT, floor, FAINT)
    svg += text((LEFT + WIDTH - RIGHT) / 2, height - 18.0, "middle", INK, 13, x.label)
    svg += f'<g transform="translate(20 {(top + floor) / 2:.1f}) rotate(-90)">' + text(0.0, 0.0, "middle", INK, 13, y.label) + "</g>\n"
    for _, colour, mark, points in series:
        svg += drawn(COLOURS[colour % 10], mark, [(across(value), down(height)) for value, height in points], floor)
    return svg + names + "</svg>\n"


def drawn(colour, mark, places, floor):
    if mark == "steps":
        if not places:
            return ""
        outline = "".join(f"{a:.1f},{height:.1f} {b:.1f},{height:.1f} " for (a, height), (b, _) in zip(places, places[1:]))
        return (
            f'<polygon points="{places[0][0]:.1f},{floor:.1f} {outline}{places[-1][0]:.1f},{floor:.1f}" fill="{colour}" '
            f'fill-opacity="0.22" stroke="{colour}" stroke-width="1.5" stroke-linejoin="round"/>\n'
        )
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    thickness = "2.4" if mark == "line" else "1.2"
    svg = (
        f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="{thickness}" stroke-linejoin="round" '
        'stroke-linecap="round"/>\n'
    )
    if mark == "line":
        for x, y in places:
            svg += f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.6" fill="{colour}" stroke="#ffffff" stroke-width="1.2"/>\n'
    return svg


def bars(title, subtitle, label, groups):
    """Bars with names, one below the other. A group is (what its bars have in common, [(name, value, colour)])."""
    every = [bar for _, of_group in groups for bar in of_group]
    values = [value for _, value, _ in every if value > 0.0]
    least, most = min(values, default=math.inf), max(values, default=0.0)
    logarithmic = most > VANISHES * least
    # On a logarithmic axis, the shortest is to be seen, too.
    axis = Axis(label, values + ([least * 0.7] if logarithmic else []), logarithmic)
    names = 34.0 + max([80.0, *(width(name, 13) for name, _, _ in every)])
    top = TOP - 14.0
    floor = top + 6.0 + PITCH * (len(every) + sum(1 for heading, _ in groups if heading))

    def across(value):
        return names + axis.place(value) * (WIDTH - names - 90.0)

    svg = begin(title, subtitle, floor + BOTTOM)
    for value, words in axis.ticks():
        svg += line(across(value), top, across(value), floor, GRID)
        svg += text(across(value), floor + 18.0, "middle", FAINT, 12, words)
    at = top + 6.0
    for heading, of_group in groups:
        if heading:
            svg += text(24.0, at + 17.0, "start", FAINT, 13, heading)
            at += PITCH
        for name, value, colour in of_group:
            svg += text(names - 10.0, at + 15.0, "end", INK, 13, name)
            svg += (
                f'<rect x="{names:.1f}" y="{at:.1f}" width="{across(value) - names:.1f}" height="20" rx="2" '
                f'fill="{COLOURS[colour % 10]}"/>\n'
            )
            svg += text(across(value) + 8.0, at + 15.0, "start", INK, 12, thousands(value))
            at += PITCH
    svg += line(names, top, names, floor, FAINT)
    svg += text((names + WIDTH - 90.0) / 2, floor + 42.0, "middle", INK, 13, label + (" (logarithmic)" if logarithmic else ""))
    return svg + "</svg>\n"

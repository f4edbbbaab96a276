#!/usr/bin/env python3
"""Pages and charts of what `campanile-bench` has stored (`--results`).

    lab/pages.py performance          # docs/performance/tables.md and its charts, of the latest report in lab/results
    lab/pages.py endurance            # docs/performance/endurance.md
    lab/pages.py experiments          # docs/experiments.md and its charts
    lab/pages.py charts REPORT... --into FOLDER    # the charts of any reports
"""

import argparse
import collections
import gzip
import itertools
import json
import pathlib
import sys
import textwrap

import charts

ROOT = pathlib.Path(__file__).resolve().parent.parent


def at(value, path):
    """What the names in this path, with dots between, lead to; None where there is nothing."""
    for name in path.split("."):
        if isinstance(value, list) and name.isdigit():
            value = value[int(name)] if int(name) < len(value) else None
        else:
            value = value.get(name) if isinstance(value, dict) else None
    return value


def read(path):
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def latest(folder, name):
    """The latest report of this name, and the day of its run; a date has ten characters."""
    found = [path for path in folder.iterdir() if path.name.removesuffix(".gz").endswith(f"-{name}.json") and "-" not in
             path.name.removesuffix(".gz").removesuffix(f"-{name}.json")[11:]]
    return (read(max(found)), max(found).name[:10]) if found else (None, None)


def number(value):
    """A number as a person reads it: four significant digits, never in powers of ten."""
    size = abs(value)
    return f"{value:.{0 if size >= 1000.0 else 1 if size >= 100.0 else 2 if size >= 10.0 else 3}f}"


def markdown(headings, rows):
    """A table; columns without texts are aligned right."""
    def cell(value):
        if isinstance(value, bool):
            return "yes" if value else "no"
        return "–" if value is None else number(value) if isinstance(value, float) else str(value)

    texts = [any(isinstance(row[column], (str, bool)) for row in rows) for column in range(len(headings))]
    lines = [headings, ["---" if is_text else "---:" for is_text in texts], *([cell(value) for value in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def table(rows, columns):
    """A table with a row for each of these; a column is what stands above it, and the path to its values."""
    def figure(value):
        return None if isinstance(value, (dict, list)) else value

    return markdown([heading for heading, _ in columns], [[figure(at(row, path)) for _, path in columns] for row in rows])


def wrapped(paragraph):
    indent = "  " if paragraph.startswith("- ") else ""
    return textwrap.fill(paragraph, 140, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def counted(count, thing):
    return f"1 {thing}" if count == 1 else f"{count} {thing}s"


def met(aim):
    return {True: "yes", False: "no", None: "–"}[aim["met"]]


# ---- charts ----

LOGARITHMIC, DURATIONS = {"logarithmic": True}, {"logarithmic": True, "durations": True}


def subtitle(report, what):
    cores = "all on one core" if report["core"] is not None else counted(at(report, "machine.cores"), "core")
    return f"{what}; {cores}, {at(report, 'machine.processor')}"


def points(rows, x, y, **where):
    """The points of the rows that have these values, where both figures are there."""
    found = [(at(row, x), at(row, y)) for row in rows if all(row[name] == value for name, value in where.items())]
    return [(a, b) for a, b in found if a is not None and b is not None]


def load_axis(report):
    return {"label": f"load, units of {report['unit_us']:.0f} µs of work for each event"}


CLASSES = ["high", "medium", "low"]


def draw_load(report):
    for service, title in [("plain", "Plain service"), ("real-time", "Real-time service")]:
        series = [
            (f"{name} priority", colour, "line", points(report["rows"], "load", f"{name}_rate", service=service))
            for colour, name in enumerate(CLASSES)
        ]
        under = subtitle(report, "three paths, each supplied with 100 events/s")
        yield f"paths-load-{service}", charts.chart(
            f"{title}: load and throughput", under, load_axis(report), {"label": "events processed per second"}, series
        )


def draw_latency(report):
    for service, title in [("plain", "Plain service"), ("real-time", "Real-time service")]:
        series = []
        for row in report["rows"]:
            if row["service"] != service:
                continue
            steps = [(bar["from_us"], bar["percent"]) for bar in row["distribution"]]
            # The last ends where the last bar does: ten bars to a decade.
            steps.extend([(steps[-1][0] * 10**0.1, 0.0)] if steps else [])
            name = f"{row['path']} priority" + ("" if steps else " (no events)")
            series.append((name, CLASSES.index(row["path"]), "steps", steps))
        yield f"paths-latency-{service}", charts.chart(
            f"{title}: latency",
            subtitle(report, f"three paths, each 100 events/s of load {report['load']}"),
            {"label": "latency from supplier to consumer", **DURATIONS},
            {"label": "share of the path's events, %"},
            series,
        )


def draw_jitter(report):
    lifted = at(report, "real_time.throttling_lifted")
    name, more = ("paths-jitter-without-throttling", ", without the kernel's throttling") if lifted else ("paths-jitter", "")
    series = [
        (f"{service}: {what}", colour, "line", points(report["rows"], "load", f"high_latency.{figure}", service=service))
        for service, what, figure, colour in [
            ("real-time", "deviation", "standard_deviation_us", 0), ("real-time", "p99.9", "p999_us", 3),
            ("plain", "deviation", "standard_deviation_us", 2), ("plain", "p99.9", "p999_us", 1),
        ]
    ]
    yield name, charts.chart(
        f"Load and jitter of the high path{more}", subtitle(report, "three paths, each 100 events/s"), load_axis(report),
        {"label": "high path's latency", **DURATIONS}, series,
    )


def draw_number(report):
    series = [
        (f"{service}: {name}", colour, "line", points(report["rows"], "low_paths", f"{name}_rate", service=service))
        for service, name, colour in [("real-time", "high", 0), ("real-time", "medium", 3), ("plain", "high", 2), ("plain", "medium", 1)]
    ]
    under = subtitle(report, f"one high, one medium and many low paths, each 100 events/s of load {report['load']}")
    yield "paths-number", charts.chart(
        "Number of low paths and throughput", under, {"label": "low paths", **LOGARITHMIC}, {"label": "events processed per second"}, series
    )


def named(row):
    """The name of a contender of `overhead`."""
    if row["between"] == "service":
        return "real-time service" if row["real_time"] else "plain service"
    return row["between"] + (" with priorities" if row["real_time"] else "")


def draw_overhead(report):
    under = subtitle(report, "structured events of 64 octets, one supplier, one consumer")
    for name, title, label, figure in [
        ("overhead-throughput", "Highest throughput", "events per second", "events_per_second.median"),
        ("overhead-latency", "Latency at 1,000 events per second", "median latency, µs", "median_us.median"),
    ]:
        found = [(named(row), at(row, figure), 0 if row["real_time"] else 5) for row in report["rows"]]
        yield name, charts.bars(title, under, label, [("", [bar for bar in found if bar[1] is not None])])


def draw_isolation(report):
    # Reports of before 2026-11-23 do not have what the charts show.
    for publisher in ["well-behaved", "misbehaving"] if report.get("courses") else []:
        series = []
        for course in report["courses"]:
            if course["publisher"] == publisher:
                colours = [0, 3] if course["sharing"] == "equal shares" else [2, 1]
                for (what, figure), colour in zip([("median", "median_us"), ("longest", "max_us")], colours):
                    series.append((f"{course['sharing']}: {what}", colour, "trace", points(course["slices"], "at_seconds", figure)))
        start, end = report["flood_seconds"]
        yield f"isolation-{publisher}", charts.chart(
            f"Delay of the {publisher} publisher's events", subtitle(report, f"flood from {start:g} s to {end:g} s"),
            {"label": "time, seconds"}, {"label": "end-to-end delay in each tenth of a second", **DURATIONS}, series,
        )


def draw_rates(report):
    series = [
        (f"{transport}: {what}", colour, "line", points(report["rows"], "rate", figure, transport=transport))
        for transport, colours in [("tcp", [0, 6]), ("udp", [2, 1])]
        for (what, figure), colour in zip([("median", "p50_us"), ("p99", "p99_us")], colours)
    ]
    yield "tempo-rates", charts.chart(
        "Delay through a broker as the rate is raised", subtitle(report, "128 octets, one publisher and one subscriber"),
        {"label": "messages a second", **LOGARITHMIC}, {"label": "delay", **DURATIONS}, series,
    )


def draw_federation(report):
    ways = list(dict.fromkeys(row["way"] for row in report["rows"]))
    places = [(17, "all in one process of another node"), (18, "each at a node of its own")]
    for mbit in dict.fromkeys(row.setdefault("line_mbit", 0) for row in report["rows"]):
        line, name = (f"{mbit} Mbit/s", f"-{mbit}") if mbit else ("no limit", "")
        for number, where in places:
            series = [
                (way, colour, "line", points(report["rows"], "subscribers", "per_second", figure=number, way=way, line_mbit=mbit))
                for colour, way in enumerate(ways)
            ]
            yield f"federation-{number}{name}", charts.chart(
                f"Subscribers {where}; the line: {line}", subtitle(report, f"{report['payload']} octets, at full speed; all nodes on one machine"),
                {"label": "subscribers"}, {"label": "events/s", **LOGARITHMIC}, [one for one in series if one[3]],
            )


def draw_components(report):
    rows = report["rows"]
    fewest = min(row["sinks"] for row in rows)
    least, most = (of(row["payload_bytes"] for row in rows) for of in (min, max))
    calls, channels = ["direct calls", "container"], ["channel alone", "containers at the channel"]

    def lines(contenders, x, figures, **where):
        return [
            (contender + what, colour, "line", points(rows, x, y, contender=contender, **where, **more))
            for colour, (contender, (what, y, more)) in enumerate(itertools.product(contenders, figures))
        ]

    # The clock may be too coarse for the latency of one call.
    event, percentiles = [("", "event_ns", {})], [(": median", "latency.median_us", {}), (": p99", "latency.p99_us", {})]
    payloads = [(f": {payload} octets", "latency.median_us", {"payload_bytes": payload}) for payload in (least, most)]
    called, latency = {"label": "until the last sink has an event, ns"}, {"label": "latency to the last sink", **DURATIONS}
    for number, under, x, y, series in [
        (13, f"sinks: {fewest}", "payload_bytes", called, lines(calls, "payload_bytes", event, sinks=fewest)),
        (14, f"{least} octets", "sinks", {**called, **LOGARITHMIC}, lines(calls, "sinks", event, payload_bytes=least)),
        (15, f"sinks: {fewest}", "payload_bytes", latency, lines(channels, "payload_bytes", percentiles, sinks=fewest)),
        (16, "medians", "sinks", latency, lines(channels, "sinks", payloads)),
    ]:
        yield f"components-{number}", charts.chart(
            f"A source and its sinks in {'one process' if number < 15 else 'two processes'}", subtitle(report, under),
            {"label": {"sinks": "sinks"}.get(x, "octets of an event"), **LOGARITHMIC}, y, series,
        )


def figure(cell, name):
    """A figure of a cell: of all rounds together where they are pooled, else the median over the rounds."""
    pooled = cell["pooled"].get(name)
    return at(cell["figures"], f"{name}.median") if pooled is None else pooled


def draw_performance(report):
    under = f"{at(report, 'machine.processor')}, commit {at(report, 'machine.commit') or 'unknown'}"

    def of(contender, take):
        return [cell for cell in report["cells"] if cell["contender"] == contender["key"] and take(cell)]

    def fast(cell):
        return cell["experiment"] == "latency" and cell["pinned"] and cell["rate"] >= 9999.0

    def crowd(cell):
        return cell["experiment"] == "fan-out" and cell["processes"] == min(cell["consumers"], 10)

    for name, title, label, take, x, y in [
        ("latency-median", "Median latency, 1 to 1, at 10,000 events/s", "payload, bytes", fast, "payload_bytes", "p50_us"),
        ("latency-p999", "99.9th percentile of latency, 1 to 1, at 10,000 events/s", "payload, bytes", fast, "payload_bytes", "p999_us"),
        ("fan-out", "Time to the last consumer, 8 KB", "consumers, in up to 10 processes", crowd, "consumers", "last_us"),
    ]:
        series = []
        for colour, contender in enumerate(report["contenders"]):
            found = [(cell[x], figure(cell, y)) for cell in of(contender, take) if figure(cell, y) is not None]
            if len(found) > 1:
                series.append((contender["name"], colour, "line", found))
        if series:
            due = {"label": "from when an event was due", **DURATIONS}
            yield name, charts.chart(title, under, {"label": label, **LOGARITHMIC}, due, series)
    for name, title, label, consumers, y in [
        ("throughput", "Throughput, 1 to 1, 64 B", "events/s", 1, "events_per_second"),
        ("delivery", "Processor time of a delivery, 1 to 100, 64 B", "µs per delivery", 100, "cpu_us_per_delivery"),
    ]:
        groups = collections.OrderedDict()
        for colour, contender in enumerate(report["contenders"]):
            for cell in of(contender, lambda cell: (cell["experiment"], cell["payload_bytes"]) == ("throughput", 64)):
                supplier = cell["supplier"]
                supplier = supplier.split(", window")[0] if supplier.startswith("sequences") else supplier
                if cell["consumers"] == consumers and (value := figure(cell, y)) is not None:
                    groups.setdefault(supplier, []).append((contender["name"], value, colour))
        if groups:
            yield name, charts.bars(title, under, label, list(groups.items()))


DRAW = {
    "paths-load": draw_load, "paths-latency": draw_latency, "paths-jitter": draw_jitter, "paths-number": draw_number,
    "overhead": draw_overhead, "isolation": draw_isolation, "tempo-rates": draw_rates, "federation": draw_federation,
    "components": draw_components, "performance": draw_performance,
}


def write_charts(report, folder):
    """Draws the charts of a report into this folder; their names."""
    names = []
    for name, svg in DRAW.get(report["benchmark"], lambda _: [])(report):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
        names.append(name)
    return names


# ---- performance ----


def circumstances(report):
    machine = report["machine"]
    return (
        f"Run on {report['date']} at commit {machine['commit'] or 'unknown'}: {machine['processor']}, {machine['cores']} cores, Linux "
        f"{machine['kernel']}; load average before {machine['load_average_before']:.2f}, {machine['stolen_seconds']:.2f} s of processor "
        "time taken by the host meanwhile"
    )


PERCENTILES = [("p50", "p50_us"), ("p90", "p90_us"), ("p99", "p99_us"), ("p99.9", "p999_us"), ("max", "max_us")]
MISSED = [("late", "late_pushes"), ("lost", "lost")]


def of_cells(cells, headings, what, figures):
    """A table with a row for each cell: what it is, then these figures, each after its heading."""
    rows = [[*what(cell), *(figure(cell, name) for _, name in figures)] for cell in cells]
    return markdown([*headings, *(heading for heading, _ in figures)], rows)


def performance_tables(report):
    names = {about["key"]: about["name"] for about in report["contenders"]}

    def cells(experiment, **where):
        return [
            cell for cell in report["cells"]
            if cell["experiment"] == experiment and all(cell[name] == value for name, value in where.items())
        ]

    def name(cell):
        return names.get(cell["contender"], cell["contender"])

    yield "What was to be shown", markdown(["aim", "found", "met"], [[aim["aim"], aim["found"], met(aim)] for aim in report["aims"]])
    yield "Contenders", markdown(
        ["contender", "what it is, and how it is configured"],
        [[one["name"], one["about"] if one["missing"] is None else f"not there: {one['missing']}"] for one in report["contenders"]],
    )
    server = [("CPU µs/event", "cpu_us_per_event"), ("switches/event", "switches_per_event")]
    for pinned, how in [(True, "cores awake, parties pinned"), (False, "the machine as it is")]:
        for rate in [250, 1000, 10000]:
            found = [cell for cell in cells("latency", pinned=pinned) if abs(cell["rate"] - rate) < 0.5]
            if found:
                yield f"Latency at {rate}/s, in µs from when an event was due; {how}", of_cells(
                    found, ["payload B", "contender"], lambda cell: [cell["payload_bytes"], name(cell)], PERCENTILES + server + MISSED
                )
            if pinned and rate == 250 and (found := cells("side by side")):
                yield (
                    f"Latency of two at the same time, 128 B, each at {rate}/s, in µs from when an event was due; cores awake, parties pinned, "
                    "all rounds together and none left out"
                ), of_cells(
                    found, ["contender", "at the same time"], lambda cell: [name(cell), names.get(cell["beside"], cell["beside"])],
                    PERCENTILES + MISSED,
                )
    figures = [
        ("CPU µs/event", "cpu_us_per_event"), ("CPU µs/delivery", "cpu_us_per_delivery"), ("system calls/event", "system_calls_per_event"),
        ("switches/event", "switches_per_event"), ("allocations/event", "allocations_per_event"), ("resident MB", "resident_mb"),
        ("threads", "threads"), ("lost", "lost"),
    ]

    def throughput(cell):
        spread = cell["figures"].get("events_per_second")
        spread = spread and f"{spread['min']:.0f} to {spread['max']:.0f}"
        return [cell["payload_bytes"], cell["supplier"], cell["consumer"], name(cell), figure(cell, "events_per_second"), spread]

    for consumers, title in [(1, "Throughput, 1 → 1"), (100, "Throughput, 1 → 100 in 10 processes")]:
        if found := cells("throughput", consumers=consumers):
            headings = ["payload B", "supplier", "consumers", "contender", "events/s", "least and most"]
            yield title, of_cells(found, headings, throughput, figures)
    if found := cells("fan-out"):
        arrivals = [("first", "first_us"), ("last", "last_us"), ("last, p90", "last_p90_us"), ("last, max", "last_max_us"), figures[1], *figures[5:]]
        yield "Fan-out, 8 KB at 10 Hz, in µs from when an event was due", of_cells(
            found, ["consumers", "processes", "contender"], lambda cell: [cell["consumers"], cell["processes"], name(cell)], arrivals
        )
    if report["growth"]:
        yield "How the time to the last consumer grows", markdown(
            ["contender", "processes", "consumers", "µs", "µs per consumer", "r²"],
            [
                [one["contender"], one["processes"], "{} to {}".format(*one["consumers"]), *(one["line"][key] for key in
                 ("intercept", "slope", "r_squared"))]
                for one in report["growth"]
            ],
        )
    if memory := report["memory"]:
        yield (
            f"What the service keeps for consumers that wait: {memory['connections']} clients with {memory['proxies_per_connection']} proxies each"
        ), markdown(["what", "bytes each"], [[what, memory[key]] for what, key in [
            ("proxy, made", "created_proxy_bytes"), ("proxy, connected", "connected_proxy_bytes"),
            ("proxy, has had an event", "idle_proxy_bytes"), ("connection from a client", "idle_connection_bytes"),
            ("connection to a consumer", "idle_consumer_connection_bytes"),
        ]])


def notes(cells):
    """The notes, each with all cells that have it: their contender, and what was measured."""
    found = collections.OrderedDict()
    for cell in cells:
        if cell["note"] is not None:
            rate = f", {cell['rate']:g}/s" if cell["rate"] > 0.0 else ""
            beside = f", at the same time as {cell['beside']}" if cell["beside"] else ""
            what = f"{cell['payload_bytes']} B, {cell['supplier']}, {counted(cell['consumers'], 'consumer')}{rate}{beside}"
            found.setdefault((cell["contender"], cell["note"]), []).append(f"{cell['experiment']}, {what}")
    for (contender, note), all_of_it in found.items():
        first, *said = [line.strip() for line in note.splitlines()]
        yield f"{contender} ({'; '.join(all_of_it)})", f"{first} {' / '.join(line for line in said if line)}".rstrip()


def performance(report, _, folder):
    names = write_charts(report, folder)
    page = (
        "# Performance: all tables\n\nThe summary is [performance.md](../performance.md). This page is written by `lab/pages.py performance`; "
        f"edits are lost.\n\n{circumstances(report)}; {report['seconds'] / 60:.0f} minutes"
        + (", with `--quick`, which is a check and no measurement" if report["quick"] else "")
        + ".\nFigures are medians over the rounds and ratios are taken round by round, except latencies\nof 128 B with the parties pinned, "
        "which are those of many short rounds together, and latencies of two at the same time, which\nare those of all rounds together. "
        "[lab/README.md](../../lab/README.md) says what each figure is.\n\n"
    )
    page += "".join(f"![{name}]({name}.svg)\n\n" for name in names)
    page += "".join(f"## {title}\n\n{of_it}\n" for title, of_it in performance_tables(report))
    page += "".join(f"- {of_it}: {note}\n" for of_it, note in notes(report["cells"]))
    if report["memory_missing"]:
        page += f"- What the service keeps for consumers that wait was not measured: {report['memory_missing']}\n"
    (folder / "tables.md").write_text(page, encoding="utf-8")


# ---- endurance ----


def endurance(report, _, folder):
    others = any(run["contender"] != "campanile" for run in report["runs"])
    who = [("contender", "contender")] if others else []
    beside = {
        (True, False): ", all rates at the same time, each with a service of its own",
        (True, True): ", all rates and contenders at the same time, each with processes of its own",
        (False, True): ", all contenders of a rate at the same time, each with processes of its own",
        (False, False): "",
    }[report["together"], others]
    page = (
        "# Performance: half an hour\n\nWhere each event that took more than 1 ms waited, and for whom. This page is written by "
        f"`lab/pages.py endurance`; edits are lost.\n\n{circumstances(report)}.\n\n"
    )
    for run in report["runs"]:
        run["resident_mb"] = run["resident_bytes"] / 1e6
        if run["untraced"]:
            which = f"{run['rate']:g}/s" + (f", {run['contender']}" if others else "")
            page += f"At {which} nothing could be explained: {run['untraced']}.\n\n"
    columns = [
        ("events/s", "rate"), *who, ("minutes", "minutes"), ("events", "losses.sent"), ("p50 µs", "latency.median_us"),
        ("p99 µs", "latency.p99_us"), ("p99.9 µs", "latency.p999_us"), ("max µs", "latency.max_us"), ("over 1 ms", "late_events"),
        ("explained", "explained"), ("lost", "losses.lost"), ("resident MB", "resident_mb"),
    ]
    page += f"## Endurance, 1 → 1, from when an event was due{beside}\n\n{table(report['runs'], columns)}\n"
    if others:
        rows = [
            [other["rate"], other["contender"], *(ours["latency"][key] / other["latency"][key] for key in ("median_us", "p99_us", "p999_us"))]
            for other in report["runs"] for ours in report["runs"]
            if (ours["contender"], ours["rate"]) == ("campanile", other["rate"]) and other["contender"] != "campanile"
            and ours["latency"] and other["latency"]
        ]
        page += "## Campanile's latencies divided by those of who ran at the same time\n\n"
        page += markdown(["events/s", "Campanile divided by", "p50", "p99", "p99.9"], rows) + "\n"
    if any(run["late_events"] for run in report["runs"]):
        rows = [
            [run["rate"], *(run[path] for _, path in who), cause, count, most]
            for run in report["runs"] for cause, (count, most) in sorted(run["causes"].items(), key=lambda item: -item[1][0])
        ]
        headings = ["events/s", *(heading for heading, _ in who), "what made events take more than 1 ms", "events", "max µs"]
        page += f"## What made events late\n\n{markdown(headings, rows)}\n"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "endurance.md").write_text(page.rstrip() + "\n", encoding="utf-8")


# ---- the papers' experiments ----

LATENCIES = [("median µs", "median_us"), ("p99 µs", "p99_us"), ("p99.9 µs", "p999_us"), ("max µs", "max_us")]


def experiment_tables(report):
    """The tables of an experiment, each with the line above it."""
    rows, kind = report["rows"], report["benchmark"]
    if kind == "overhead":
        for row in rows:
            row["name"] = named(row)
        yield (
            f"Events of {report['payload_bytes']} octets back to back (events/s) and at 1000 a second (latency); medians of "
            f"{report['rounds']} turns"
        ), table(rows, [
            ("between supplier and consumer", "name"), ("events/s", "events_per_second.median"), ("median µs", "median_us.median"),
            ("p99 µs", "p99_us.median"), ("median µs, lowest turn", "median_us.min"), ("highest turn", "median_us.max"),
        ])
    elif kind == "isolation":
        start, end = report["flood_seconds"]
        busy = " and ".join(f"{100 * busy['of_core']:.0f} %" for busy in report.get("service_busy", []))
        yield f"Two publishers of 1000 events/s; one floods for {end - start:.0f} s, in which the service uses {busy} of its core", table(rows, [
            ("sharing", "sharing"), ("publisher", "publisher"), ("time", "time"), ("events/s", "rate"),
            ("median delay µs", "delay.median_us"), ("p99 delay µs", "delay.p99_us"), ("longest delay µs", "delay.max_us"),
            ("median latency µs", "latency.median_us"), ("p99 latency µs", "latency.p99_us"),
        ])
    elif kind == "paths-load":
        yield (
            f"Three paths of 100 events/s; a unit of load is {report['unit_us']:.0f} µs of work for each event, and the high path costs "
            f"{report['overhead_us']:.0f} µs beside it"
        ), table(rows, [
            ("service", "service"), ("load", "load"), ("high's work fits", "high_fits"), ("high events/s", "high_rate"),
            ("medium events/s", "medium_rate"), ("low events/s", "low_rate"), ("high median µs", "high_latency.median_us"),
            ("high p99 µs", "high_latency.p99_us"),
        ])
    elif kind == "paths-latency":
        yield f"Latencies of three paths of 100 events/s at load {report['load']}, over {report['window_seconds']:g} s", table(rows, [
            ("service", "service"), ("path", "path"), ("events/s", "rate"), *((heading, f"latency.{key}") for heading, key in LATENCIES),
            ("standard deviation µs", "latency.standard_deviation_us"),
            ("median from schedule µs", "latency_from_schedule.median_us"), ("p99 from schedule µs", "latency_from_schedule.p99_us"),
        ])
    elif kind == "paths-jitter":
        figures = [LATENCIES[0], ("standard deviation µs", "standard_deviation_us"), *LATENCIES[1:]]
        figures = [(heading, f"high_latency.{key}") for heading, key in figures]
        yield "The high path's latency under rising load of all three paths", table(rows, [("service", "service"), ("load", "load"), *figures])
        if report["saturation"]:
            first = [("service", "service"), ("low paths", "low_paths"), ("high events/s", "high_rate"), ("low events/s each", "low_rate")]
            yield "The high path's latency without and beside low paths that want more than there is", table(report["saturation"], first + figures)
    elif kind == "paths-number":
        yield f"A high and a medium path beside many low ones, 100 events/s of load {report['load']} each", table(rows, [
            ("service", "service"), ("low paths", "low_paths"), ("high events/s", "high_rate"), ("medium events/s", "medium_rate"),
            ("low events/s in all", "low_rate_sum"), ("high median µs", "high_latency.median_us"), ("high p99 µs", "high_latency.p99_us"),
        ])
    elif kind == "components":
        ratio = [(heading, f"{of}_ratio.{key}") for of, name in [("latency", "median"), ("event", "ns/event")]
                 for heading, key in [(f"{name} ×", "median"), ("from", "from"), ("to", "to")]]
        for place in dict.fromkeys(row["place"] for row in rows):
            of_place = [row for row in rows if row["place"] == place]
            yield (
                f"{place.capitalize()}: latency to the last sink, {report['turns']} turns of each contender; × and its 95 % interval (from, to): the "
                "median of the turns' ratios to the contender without a container"
            ), table(of_place, [
                ("contender", "contender"), ("sinks", "sinks"), ("octets", "payload_bytes"), ("events", "latency.events"),
                *((heading, f"latency.{key}") for heading, key in LATENCIES),
                *([("ns/event", "event_ns")] if place == "collocated" else []), *(ratio if place == "collocated" else ratio[:3]), ("lost", "lost"),
            ])
    elif kind == "placements":
        yield (
            f"Events of 64 octets, {report['turns']} turns of each placement; ×: the median of the turns' ratios of the median latency to `server`; memory, "
            "threads and sockets of both servers (S) and of the service (N)"
        ), table([{**row, "mib": {of: row[of]["resident_bytes"] / 2**20 for of in ("of_servers", "of_service")}} for row in rows], [
            ("service", "service"), ("sinks", "sinks"), ("placed", "placed"), ("median µs", "latency.median_us"), ("p99 µs", "latency.p99_us"),
            ("×", "latency_ratio.median"), ("events/s", "events_per_second"), ("S MiB", "mib.of_servers"), ("S threads", "of_servers.threads"),
            ("S sockets", "of_servers.sockets"), ("N MiB", "mib.of_service"), ("N threads", "of_service.threads"), ("N sockets", "of_service.sockets"),
            ("lost", "lost"),
        ])
    elif kind == "federation":
        yield (
            f"Events of {report['payload']} octets; p50 and p99 at 200 events/s, the rest at full speed; octets and packets are those of the "
            "publisher's node in both directions, messages those of its links; Mbit/s 0: no limit"
        ), table(rows, [
            ("figure", "figure"), ("Mbit/s", "line_mbit"), ("subscribers", "subscribers"), ("way", "way"), ("events/s", "per_second"),
            ("× direct", "throughput_ratio_to_direct"), ("median µs", "p50_us"),
            ("p99 µs", "p99_us"), ("near service's µs/event", "near_cpu_us"), ("all services' µs/event", "all_cpu_us"),
            ("messages/event", "messages_per_event"), ("packets/event", "packets_per_event"), ("octets/event", "octets_per_event"),
        ])
        if report.get("cuts"):
            cuts = [{"carrier": of_one["carrier"], "lost": of_one["lost"], "twice": of_one["twice"], **cut} for of_one in report["cuts"] for cut in of_one["cuts"]]
            yield (
                f"Persistent events, 500 a second, while either service is stopped for {report['cut_seconds']:.0f} s, the cable of the far node is "
                "pulled for as long, or pulled and put in each second; lost and twice are of all cuts of a carrier"
            ), table(cuts, [
                ("carrier", "carrier"), ("cut", "cut"), ("events", "events"), ("lost", "lost"), ("twice", "twice"),
                ("first event after ms", "recovery_ms"), ("all that waited after ms", "caught_up_ms"), ("longest push ms", "longest_push_ms"),
                ("suppliers blocked", "blocked"),
            ])


# Experiments that are no part of `campanile-bench experiments`, each with a run of its own.
APART = {"federation", "components", "placements"}

# What the page says of an experiment: the name of its report, its command, and beside its figures what the paper did and what is done here.
Chapter = collections.namedtuple("Chapter", "result command heading paper reported here")

CHAPTERS = [
    Chapter(
        "overhead",
        "overhead",
        "What priorities and the service cost",
        "Gore et al., figure 15",
        (
            'One supplier, one consumer, structured events of 64 octets, as many as get through: 2 hops (no service), 3 hops (a '
            'relay consumer that forwards), both with and without Real-time CORBA, the standard and the real-time service. '
            '"RT-Notification does not add significant overhead to the CosNotification Service"; what there is comes from the extra'
            ' information in the messages. No numbers are given beside the chart.'
        ),
        (
            'The same six. The relay is that of `campanile-bench floor`, which only finds where a message ends, so it is the least '
            "that a third process can cost. All parties run in the real-time scheduling class, as the paper's did, so that what "
            'priorities add is compared and not two schedulers. Supplier and consumer are on the first core, who is between them on'
            ' the last; both cores are kept awake. Back to back, the next event leaves when the push before has returned: from the '
            'relay and without a service, that is when the consumer has answered, from the service when it has the event. Latencies'
            ' are taken at 1,000 events a second. All six take short turns, those that are compared one after the other. What is '
            "judged is the median of the pairs' ratios, told with its 95 % confidence interval (from the ratios' ranks, so nothing "
            'is assumed of how they are spread).'
        ),
    ),
    Chapter(
        "isolation",
        "isolation",
        "A publisher that misbehaves",
        "Bauer et al., figures 11 and 12",
        (
            'Two publisher/subscriber pairs on topics of equal share, 1,000 messages a second each, through one broker; for 10 s '
            "one of them publishes 7,000 a second, which brings the broker close to its capacity (10,000). The well-behaved one's "
            "delay triples; the misbehaving one's grows by several orders of magnitude."
        ),
        (
            "The same on one channel, where each publisher's events are a topic of it (`Topics`) and the two have equal shares. The"
            ' flood is as much as the service takes, so that it is the service that is full and nobody else: sequences of 64 '
            'events, 64 of them unanswered, to a subscriber that takes sequences. The runs without shares have one topic, and are '
            "the contrast. Latency is from the publisher's stamp to the subscriber's read, and is judged; delay is from when the "
            'event was due, and contains what its publisher was late because the push before had not returned. The well-behaved '
            "client's two processes run at a real-time priority, as if it had a machine of its own; the other one's do not. All "
            'four are on the first core, the service on the last, and both cores are kept awake. Of the flood one event in 64 is '
            'recorded.'
        ),
    ),
    Chapter(
        "paths-load",
        "paths-load --one-cpu",
        "Load and throughput",
        "Gore et al., figures 9 and 10",
        (
            'Three paths of 100 events a second, of high, medium and low priority, on one processor of 800 MHz; consumers compute '
            'primes in proportion to a load that every event carries. With the standard service all three lose throughput alike as '
            'the load grows. With the real-time service low falls first, then medium, then high.'
        ),
        (
            'The same, with a lane for each priority, `CLIENT_PROPAGATED`, and suppliers, lanes and consumers at the matching '
            '`SCHED_FIFO` priorities. An event counts at the time at which it was due if it was processed within 0.1 s of it, else '
            '0.1 s before it was processed.'
        ),
    ),
    Chapter(
        "paths-latency",
        "paths-latency --one-cpu",
        "Latencies where the low path has failed",
        "Gore et al., figures 11 and 12",
        "At load 25 the high path's latency with the real-time service is about 1/8 of that with the standard one.",
        (
            "The same load. Latency is from the supplier's stamp, right before it writes, to the end of the consumer's read. The "
            'service keeps what a consumer has not taken (its default; no queue is bounded here), so with the plain service an '
            'event waits behind all that came before it, and its latency grows as long as the overload lasts.'
        ),
    ),
    Chapter(
        "paths-jitter",
        "paths-jitter --one-cpu",
        "Load and jitter",
        "Gore et al., figure 13",
        (
            "The standard deviation of the high path's latency grows linearly with the load with the standard service, and stays "
            'low and fairly constant with the real-time one.'
        ),
        'The same, and the high path (load 5) without and beside 20 low paths of load 17 each, which want 6.8 cores.',
    ),
    Chapter(
        "paths-number",
        "paths-number --one-cpu",
        "Number of paths and throughput",
        "Gore et al., figure 14",
        "At load 30, with 1, 5, 10 and 20 low paths, the real-time service's high path keeps its 100 events a second.",
        (
            "The same, and 50 and 100 low paths. All low paths' suppliers are threads of one process, their consumers those of "
            'another.'
        ),
    ),
    Chapter(
        "paths-jitter-without-throttling",
        "paths-jitter --one-cpu --lift-throttling",
        "Load and jitter without throttling",
        "Gore et al., figure 13",
        'As above.',
        (
            'The first half of the above while the kernel does not throttle real-time threads (`kernel.sched_rt_runtime_us` = -1, '
            "put back afterwards): what is left is the service's own. Where real-time threads want more than 95 % of a core, one "
            "stall of up to 50 ms makes most of a row's deviation in the chart above."
        ),
    ),
    Chapter(
        "components",
        "components",
        "What a container costs",
        "Deng et al., figures 13 to 16",
        (
            'A publisher and its subscribers, as components of a container that has the event service in it, beside CORBA objects at the same '
            'service without a container: one to one (figures 13 and 15) and one to many (14 and 16), with events of more and more octets. With '
            'all in one process the container has "about 20~25% latency performance overhead"; where subscribers are in a second process it has '
            '"about 70~80% performance", and latency is 6 to 10 times that in one process. It grows "less than linear" with the subscribers. At '
            'least 10,000 events each. The text has no other numbers.'
        ),
        (
            'In one process a container has no service: its events are calls, so that what it stands beside are direct calls of `dyn` '
            'consumers, each with the same work (a look-up of the type, a count, a time). In two processes a channel of the service, '
            'which is a third, joins a source and its sinks; beside it stands the same channel with the simple API alone. Latency is that '
            'to the last sink. Contenders take turns. The container hands each event from the lane of the source to the thread that '
            'publishes, and from the thread that gets it to the lane of the sinks, with a copy each time; the simple API alone does '
            'neither. Peers are left out: Copper (`cu29` 1.3.1) would bring the laboratory 102 packages, dora (`dora-node-api` 1.1.0) '
            '428, and ROS 2 is in none of its registries.'
        ),
    ),
    Chapter(
        "placements",
        "placements",
        "Where a service is placed",
        "Deng et al., section 2.2",
        (
            'Three places of a publish/subscribe service are weighed, and not measured: a component of its own, of which each event is "a remote '
            'call", with "additional processing and levels of indirection", and which makes components handle the service (2.2.1); the container, '
            'which "reduces the memory footprint of individual components" and leaves the choice to deployment (2.2.2, the one chosen); the '
            'component server, where pushes are local calls as well and "the savings may be substantial if sharing is desired", and which is '
            '"coarse-grained": many components share a service, whatever their real-time needs (2.2.3).'
        ),
        (
            "A component never handles the service: the three are the word `placed` of a plan, which says whose the connections and the thread that "
            "publishes are. So an event takes the same steps in all three; a placement costs memory, threads and sockets, and where each component has "
            "its own, the service sends to ten sinks by ten connections. A source is in one server, its sinks are in two containers of another; the "
            "service is a third process. Throughput is that of 500 events sent at once. What sharing costs others, when one of those that share is slow, is not measured."
        ),
    ),
    Chapter(
        "federation",
        "federation --rounds 1 --line-mbit 0,10",
        "One channel at many nodes",
        "Deng et al., figures 17 and 18",
        (
            'A publisher at one node; 1 to 20 subscribers in one process beside it (figure 17), or each at a node of its own (18). They are '
            "subscribers of the publisher's event channel, or of channels of their own that are federated with it by UDP, unicast and "
            'multicast. Federation "can improve the throughput performance dramatically": one message to each remote channel. No numbers are '
            'given beside the charts.'
        ),
        (
            'Nodes are network namespaces of one machine, joined by veth devices; the bridge counts what crosses, and what the '
            "publisher's node sends has no limit, or one. `direct` is to the publisher's service, the others are links to the service of the "
            "subscribers' node, by their carriers; NATS has its server in the place of the service, and leaf nodes in the place of links. All "
            'take turns. NATS answers publishers and hears nothing of subscribers. All services and '
            'subscribers share the same cores, so where they are busy throughput tells of the work of all nodes together, and not of what the publisher\'s node alone '
            "could send; its service's processor time tells that. Then each carrier is cut. Then three channels of ten services that find each other, of which one leaves and "
            'comes back: flows of all in `campanile link ls` before, meanwhile and afterwards.'
        ),
    ),
]

INTRODUCTION = """# The papers' experiments

The experiments of three papers, made again:

- Gore et al.: Pradeep Gore, Irfan Pyarali, Christopher D. Gill, Douglas C. Schmidt: *The Design and Performance of a Real-time
  Notification Service*, section 4;
- Bauer et al.: Daniel Bauer, Luis Garcés-Erice, Sean Rooney: *Tempo: A Simple Time-Sensitive Messaging System*, section VI;
- Deng et al.: Gan Deng, Ming Xiong, Aniruddha Gokhale, George Edwards: *Evaluating Real-time Publish/Subscribe Service Integration
  Approaches in QoS-enabled Component Middleware*, section 4.

What is done is told in [lab/README.md](../lab/README.md); this page is written by

    campanile-bench experiments --results lab/results
    campanile-bench components --results lab/results
    campanile-bench placements --results lab/results
    campanile-bench federation --results lab/results
    lab/pages.py experiments

"""


def stored_chapters(results):
    """The chapters of which there is a report in this folder, each with its latest and the day of that."""
    found = [(chapter, *latest(results, chapter.result)) for chapter in CHAPTERS]
    return [(chapter, report, day) for chapter, report, day in found if report]


def experiments(reports, day, folder):
    """Writes the charts into this folder, and the page beside it, under its name."""
    first = reports[0][1]
    machine = first["machine"]
    if at(first, "real_time.throttling_lifted"):
        throttling = "the kernel's throttling of real-time threads was lifted for the run (`--lift-throttling`)"
    else:
        throttling = (
            f"the kernel grants real-time threads {100 * at(first, 'real_time.granted_share'):.0f} % of a core and\nlets all of them stand still "
            "for the rest of each second when they want more"
        )
    if not at(first, "real_time.privileged"):
        throttling = "without the privilege for real-time priorities; " + throttling
    page = INTRODUCTION + (
        f"Run on {day} at commit {machine['commit'] or 'unknown'}: {machine['processor']}, {counted(machine['cores'], 'core')}, Linux "
        f"{machine['kernel']}; {throttling}. Load average before: {machine['load_average_before']:.2f}. It took "
        f"{sum(report['seconds'] for chapter, report in reports if chapter.result not in APART) / 60:.0f} minutes.\n\n"
        "| experiment | to be shown | found | shown |\n| --- | --- | --- | --- |\n"
    )
    for chapter, report in reports:
        page += "".join(f"| `{chapter.result}` | {aim['aim']} | {aim['found']} | {met(aim)} |\n" for aim in report["aims"])
    for chapter, report in reports:
        names = write_charts(report, folder)
        if chapter.result == "isolation":
            # Those of an older report stay, which does not have what they show.
            names = [name for name in ("isolation-well-behaved", "isolation-misbehaving") if (folder / f"{name}.svg").exists()]
        quick = " --quick" if report["quick"] else ""
        page += f"\n## {chapter.heading}\n\n    campanile-bench {chapter.command}{quick}\n\n"
        if chapter.result in APART:
            worth = "" if report["build"] == "release" else " It is a development build: only ratios mean anything."
            load = report["machine"]["load_average_before"]
            worth += " The machine was busy with other work." if load > 1.0 else ""
            page += wrapped(f"Run at commit {report['machine']['commit'] or 'unknown'}, load average before: {load:.2f}.{worth}") + "\n\n"
        page += wrapped(f"*{chapter.paper}.* {chapter.reported}") + "\n\n" + wrapped(f"*Here.* {chapter.here}") + "\n\n"
        page += "".join(f"![{name}]({folder.name}/{name}.svg)\n\n" for name in names)
        page += "".join(f"{wrapped(title + ':')}\n\n{of_it}\n" for title, of_it in experiment_tables(report))
        for aim in report["aims"]:
            verdict = {True: "Shown", False: "**Not shown**", None: "Not to be judged"}[aim["met"]]
            page += wrapped(f"- {verdict}: {aim['aim']}. Found: {aim['found']}.") + "\n"
    folder.with_suffix(".md").write_text(page, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["performance", "endurance", "experiments", "charts"])
    parser.add_argument("reports", nargs="*", type=pathlib.Path, help="of `charts`")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "lab/results", help="the folder with the reports")
    parser.add_argument("--into", type=pathlib.Path, help="the folder for what is written, if not the usual one")
    options = parser.parse_args()
    usual = "docs/experiments" if options.what == "experiments" else "docs/performance"
    folder = options.into or ROOT / usual
    if options.what == "charts":
        for path in options.reports:
            print("\n".join(str(folder / f"{name}.svg") for name in write_charts(read(path), folder)))
        return
    if options.what == "experiments":
        found = stored_chapters(options.results)
        report, day = [(chapter, report) for chapter, report, _ in found], found[0][2] if found else None
    else:
        report, day = latest(options.results, options.what)
    if not report:
        sys.exit(f"there is no report of {options.what} in {options.results}")
    {"performance": performance, "endurance": endurance, "experiments": experiments}[options.what](report, day, folder)


if __name__ == "__main__":
    main()

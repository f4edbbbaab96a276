"""Tests of pages.py and charts.py: python3 -m unittest discover -s lab"""

import pathlib
import tempfile
import unittest
import xml.etree.ElementTree as xml

import charts
import pages

DOCS = pages.ROOT / "docs"
SVG = "{http://www.w3.org/2000/svg}"


def chart(mark, points, **axis):
    series = [("high", 0, mark, points), ("low", 1, mark, points)]
    return charts.chart('Load & "rate" <of> paths', "one core", {"label": "load", **axis}, {"label": "events per second"}, series)


def elements(svg, name):
    return xml.fromstring(svg).iter(SVG + name)


class Axes(unittest.TestCase):
    def test_an_even_axis_has_round_ticks_from_zero_past_its_highest_value(self):
        def written(values):
            return [label for _, label in charts.Axis("", values).ticks()]

        self.assertEqual(written([3.0, 60.0]), ["0", "20", "40", "60"])
        self.assertEqual(written([100.4]), ["0", "20", "40", "60", "80", "100", "120"])
        self.assertEqual(written([0.07]), ["0", "0.02", "0.04", "0.06", "0.08"])
        self.assertEqual(len(written([])), 6)
        self.assertAlmostEqual(charts.Axis("", [3.0, 60.0]).place(30.0), 0.5)

    def test_a_logarithmic_axis_has_a_tick_for_each_power_of_ten(self):
        axis = charts.Axis("", [30.0, 20_000.0], True, True)
        self.assertEqual([label for _, label in axis.ticks()], ["10 µs", "100 µs", "1 ms", "10 ms", "100 ms"])
        self.assertAlmostEqual(axis.place(1000.0), 0.5)
        self.assertEqual(axis.place(0.0), 0.0, "what a logarithm does not have is at the beginning")
        self.assertEqual([label for _, label in charts.Axis("", [1e6], True, True).ticks()], ["1 s", "10 s"])

    def test_thousands_stand_apart(self):
        found = [charts.thousands(number) for number in (0.0, 7.5, 99.0, 1234.0, 1_234_567.0, 100.0)]
        self.assertEqual(found, ["0", "7.5", "99", "1 234", "1 234 567", "100"])


class Charts(unittest.TestCase):
    def test_lines_are_well_formed_and_have_a_point_for_each_value(self):
        svg = chart("line", [(0.0, 100.0), (30.0, 50.0), (60.0, 0.0)])
        self.assertEqual([len(list(elements(svg, name))) for name in ("polyline", "circle")], [2, 6])
        self.assertIn("&amp; &quot;rate&quot; &lt;of&gt;", svg)

    def test_distributions_are_areas_over_a_logarithmic_axis(self):
        svg = chart("steps", [(10.0, 30.0), (100.0, 70.0), (1000.0, 0.0)], logarithmic=True, durations=True)
        self.assertEqual(len(list(elements(svg, "polygon"))), 2)
        self.assertTrue(">1 ms<" in svg and ">10 µs<" in svg, svg)

    def test_a_chart_of_nothing_is_still_a_chart(self):
        for axis in ({}, {"logarithmic": True, "durations": True}):
            for points in ([], [(1.0, 0.0)]):
                svg = chart("line", points, **axis)
                xml.fromstring(svg)
                self.assertFalse("nan" in svg or "inf" in svg, svg)

    def test_a_legend_stays_inside_and_has_a_colour_for_each(self):
        # A legend of eight contenders went beyond the chart's right side, and two of them had the same colour.
        name = "JacORB Notification"
        legend, more = charts.legend([(name, colour, "line", []) for colour in range(9)])
        self.assertGreater(more, 0.0)
        found = list(elements(f'<svg xmlns="{SVG[1:-1]}">{legend}</svg>', "text"))
        self.assertTrue(all(float(text.get("x")) + charts.width(name, 12) < charts.WIDTH for text in found))
        fills = {rect.get("fill") for rect in elements(f'<svg xmlns="{SVG[1:-1]}">{legend}</svg>', "rect")}
        self.assertEqual(len(fills), 9)

    def test_bars_are_named_and_valued_and_logarithmic_where_the_shortest_would_vanish(self):
        groups = [("", [("2 hops", 51_234.0, 0), ("service", 0.0, 1)])]
        svg = charts.bars("Throughput", "", "events per second", groups)
        self.assertEqual(len(list(elements(svg, "rect"))), 3, "the background and two bars")
        self.assertTrue("51 234" in svg and "logarithmic" not in svg, svg)
        svg = charts.bars("Throughput", "", "events per second", groups + [("both", [("one-way", 7.0, 2)])])
        self.assertTrue("both" in svg and "(logarithmic)" in svg, svg)


class Pages(unittest.TestCase):
    def test_pages_and_charts_are_those_of_the_stored_reports(self):
        """Whoever edits a page of these loses what was edited; whoever stores a report makes its page anew."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            made = root / "performance"
            for name, write in [("performance", pages.performance), ("endurance", pages.endurance)]:
                write(*pages.latest(pages.ROOT / "lab/results", name), made)
            found = pages.stored_chapters(pages.ROOT / "lab/results")
            (root / "experiments").mkdir()
            for kept in (DOCS / "experiments").glob("isolation-*.svg"):
                (root / "experiments" / kept.name).write_bytes(kept.read_bytes())
            pages.experiments([(chapter, report) for chapter, report, _ in found], found[0][2], root / "experiments")
            for path in sorted(root.rglob("*.*")):
                self.assertEqual(path.read_text(), (DOCS / path.relative_to(root)).read_text(), path.name)

    def test_a_report_is_found_by_its_whole_name(self):
        report, day = pages.latest(pages.ROOT / "lab/results", "paths-jitter")
        self.assertFalse(pages.at(report, "real_time.throttling_lifted"))
        self.assertEqual((len(day), pages.latest(pages.ROOT / "lab/results", "jitter")), (10, (None, None)))

    def test_a_note_names_every_cell_that_has_it_and_tells_in_one_line_what_was_said(self):
        def cell(contender, rate, note, **more):
            what = {"experiment": "latency", "payload_bytes": 128, "supplier": "two-way", "consumers": 1, "beside": None}
            return {**what, "contender": contender, "rate": rate, "note": note, **more}

        broken = "it ended;\nkilled"
        pair = cell("nats", 250.0, broken, experiment="side by side", beside="campanile")
        cells = [cell("nats", 250.0, broken), cell("relay", 250.0, None), cell("nats", 1000.0, broken), pair]
        of_it = (
            "nats (latency, 128 B, two-way, 1 consumer, 250/s; latency, 128 B, two-way, 1 consumer, 1000/s; "
            "side by side, 128 B, two-way, 1 consumer, 250/s, at the same time as campanile)"
        )
        self.assertEqual(list(pages.notes(cells)), [(of_it, "it ended; killed")])

    def test_a_table_is_read_out_of_rows(self):
        rows = [
            {"service": "plain", "load": 5, "fits": True, "latency": {"p99_us": 2.0}},
            {"service": "plain", "load": 6, "fits": False, "latency": None},
        ]
        columns = [("service", "service"), ("load", "load"), ("fits", "fits"), ("p99 µs", "latency.p99_us")]
        lines = ["| service | load | fits | p99 µs |", "| --- | ---: | --- | ---: |", "| plain | 5 | yes | 2.000 |", "| plain | 6 | no | – |", ""]
        self.assertEqual(pages.table(rows, columns), "\n".join(lines))
        self.assertEqual([pages.number(value) for value in (0.0, 12.345, 12345.6)], ["0.000", "12.35", "12346"])

    def test_paragraphs_are_wrapped_between_words(self):
        lines = pages.wrapped("- " + " ".join(["word"] * 60)).splitlines()
        self.assertTrue(len(lines) == 3 and all(len(line) <= 140 for line in lines), lines)
        self.assertTrue(all(line.startswith("  word") for line in lines[1:]))


if __name__ == "__main__":
    unittest.main()

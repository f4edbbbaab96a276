//! Charts as SVG: lines and distributions over an axis, and bars with names. Nothing is loaded from elsewhere and nothing runs:
//! each file stands for itself and looks the same in a browser, in a document and on paper.

use std::fmt::Write;

mod scale;

pub(crate) use scale::{Axis, Labels};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 430.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 88.0;
const BOTTOM: f64 = 62.0;

const INK: &str = "#24292f";
const FAINT: &str = "#6e7781";
const GRID: &str = "#e4e8ec";

/// Colours that those can tell apart, too, who do not see all of them (Okabe and Ito).
const COLOURS: [&str; 6] = ["#0072b2", "#e69f00", "#d55e00", "#009e73", "#cc79a7", "#56616b"];

/// How a series is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Points, joined.
    Line,
    /// A line without points, for many values.
    Trace,
    /// Steps with the area beneath them: a distribution. Each point is where a bar begins; the last only ends the one before.
    Steps,
}

/// Values of one kind.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) mark: Mark,
    /// Its place among the colours.
    pub(crate) colour: usize,
}

/// A chart with two axes.
#[derive(Debug, Clone)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
}

impl Chart {
    /// The chart as an SVG document.
    pub(crate) fn to_svg(&self) -> String {
        let values =
            |pick: fn(&(f64, f64)) -> f64| self.series.iter().flat_map(move |series| series.points.iter().map(pick));
        let x = self.x.fit(values(|point| point.0));
        let y = self.y.fit(values(|point| point.1));
        let across = |value: f64| LEFT + x.place(value) * (WIDTH - LEFT - RIGHT);
        let down = |value: f64| HEIGHT - BOTTOM - y.place(value) * (HEIGHT - TOP - BOTTOM);
        let mut svg = begin(&self.title, &self.subtitle, HEIGHT);
        for (value, label) in y.ticks() {
            let at = down(value);
            line(&mut svg, (LEFT, at), (WIDTH - RIGHT, at), GRID);
            text(&mut svg, (LEFT - 8.0, at + 4.0), "end", FAINT, 12, &label);
        }
        for (value, label) in x.ticks() {
            let at = across(value);
            line(&mut svg, (at, TOP), (at, HEIGHT - BOTTOM), GRID);
            text(&mut svg, (at, HEIGHT - BOTTOM + 18.0), "middle", FAINT, 12, &label);
        }
        line(&mut svg, (LEFT, HEIGHT - BOTTOM), (WIDTH - RIGHT, HEIGHT - BOTTOM), FAINT);
        text(&mut svg, (f64::midpoint(LEFT, WIDTH - RIGHT), HEIGHT - 18.0), "middle", INK, 13, &self.x.label);
        let middle = f64::midpoint(TOP, HEIGHT - BOTTOM);
        let _ = write!(svg, "<g transform=\"translate(20 {middle:.1}) rotate(-90)\">");
        text(&mut svg, (0.0, 0.0), "middle", INK, 13, &self.y.label);
        svg.push_str("</g>\n");
        for series in &self.series {
            let places: Vec<(f64, f64)> =
                series.points.iter().map(|&(value, height)| (across(value), down(height))).collect();
            series.draw(&mut svg, &places);
        }
        self.legend(&mut svg);
        svg.push_str("</svg>\n");
        svg
    }

    fn legend(&self, svg: &mut String) {
        let mut at = LEFT;
        for series in &self.series {
            let colour = colour(series.colour);
            let _ = writeln!(
                svg,
                "<rect x=\"{at:.1}\" y=\"{:.1}\" width=\"14\" height=\"5\" rx=\"2\" fill=\"{colour}\"/>",
                TOP - 21.0
            );
            text(svg, (at + 20.0, TOP - 14.0), "start", INK, 12, &series.name);
            at += 44.0 + 6.6 * super::samples::whole(series.name.chars().count());
        }
    }
}

impl Series {
    fn draw(&self, svg: &mut String, places: &[(f64, f64)]) {
        let colour = colour(self.colour);
        if self.mark == Mark::Steps {
            let floor = HEIGHT - BOTTOM;
            let mut outline = String::new();
            for pair in places.windows(2) {
                let [(from, height), (until, _)] = pair else { continue };
                let _ = write!(outline, "{from:.1},{height:.1} {until:.1},{height:.1} ");
            }
            let (Some((first, _)), Some((last, _))) = (places.first(), places.last()) else { return };
            let _ = writeln!(
                svg,
                "<polygon points=\"{first:.1},{floor:.1} {outline}{last:.1},{floor:.1}\" fill=\"{colour}\" \
                 fill-opacity=\"0.22\" stroke=\"{colour}\" stroke-width=\"1.5\" stroke-linejoin=\"round\"/>"
            );
            return;
        }
        let mut joined = String::new();
        for (x, y) in places {
            let _ = write!(joined, "{x:.1},{y:.1} ");
        }
        let width = if self.mark == Mark::Line { 2.4 } else { 1.2 };
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" \
             stroke-linejoin=\"round\" stroke-linecap=\"round\"/>",
            joined.trim_end()
        );
        if self.mark == Mark::Line {
            for (x, y) in places {
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.6\" fill=\"{colour}\" stroke=\"#ffffff\" \
                     stroke-width=\"1.2\"/>"
                );
            }
        }
    }
}

/// Bars with names, one below the other, from 0.
#[derive(Debug, Clone)]
pub(crate) struct Bars {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    /// What they measure, with the unit.
    pub(crate) label: String,
    /// Name, value, and place among the colours.
    pub(crate) bars: Vec<(String, f64, usize)>,
}

impl Bars {
    /// The chart as an SVG document.
    pub(crate) fn to_svg(&self) -> String {
        const NAMES: f64 = 210.0;
        const PITCH: f64 = 38.0;
        let top = TOP - 14.0;
        let floor = top + PITCH * super::samples::whole(self.bars.len());
        let axis = Axis::from_zero(&self.label).fit(self.bars.iter().map(|bar| bar.1));
        let across = |value: f64| NAMES + axis.place(value) * (WIDTH - NAMES - 90.0);
        let mut svg = begin(&self.title, &self.subtitle, floor + BOTTOM);
        for (value, label) in axis.ticks() {
            line(&mut svg, (across(value), top), (across(value), floor), GRID);
            text(&mut svg, (across(value), floor + 18.0), "middle", FAINT, 12, &label);
        }
        let mut at = top + 6.0;
        for (name, value, place) in &self.bars {
            text(&mut svg, (NAMES - 10.0, at + 18.0), "end", INK, 13, name);
            let _ = writeln!(
                svg,
                "<rect x=\"{NAMES:.1}\" y=\"{at:.1}\" width=\"{:.1}\" height=\"26\" rx=\"2\" fill=\"{}\"/>",
                across(*value) - NAMES,
                colour(*place)
            );
            text(&mut svg, (across(*value) + 8.0, at + 18.0), "start", INK, 12, &scale::thousands(*value));
            at += PITCH;
        }
        line(&mut svg, (NAMES, top), (NAMES, floor), FAINT);
        text(&mut svg, (f64::midpoint(NAMES, WIDTH - 90.0), floor + 42.0), "middle", INK, 13, &self.label);
        svg.push_str("</svg>\n");
        svg
    }
}

fn begin(title: &str, subtitle: &str, height: f64) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {WIDTH:.0} {height:.0}\" role=\"img\" aria-label=\"{}\" \
         font-family=\"system-ui, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', sans-serif\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
        escaped(title)
    );
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"28\" font-size=\"17\" font-weight=\"600\" fill=\"{INK}\">{}</text>",
        24.0,
        escaped(title)
    );
    text(&mut svg, (24.0, 48.0), "start", FAINT, 12, subtitle);
    svg
}

fn line(svg: &mut String, from: (f64, f64), to: (f64, f64), stroke: &str) {
    let _ = writeln!(
        svg,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{stroke}\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn text(svg: &mut String, at: (f64, f64), anchor: &str, fill: &str, size: u32, words: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\" fill=\"{fill}\">{}</text>",
        at.0,
        at.1,
        escaped(words)
    );
}

fn colour(place: usize) -> &'static str {
    COLOURS.get(place % COLOURS.len()).copied().unwrap_or(INK)
}

fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(x: Axis, mark: Mark, points: &[(f64, f64)]) -> String {
        let series = |name: &str, colour| Series { name: name.to_owned(), points: points.to_vec(), mark, colour };
        let chart = Chart {
            title: "Load & \"rate\" <of> paths".to_owned(),
            subtitle: "one core".to_owned(),
            x,
            y: Axis::from_zero("events per second"),
            series: vec![series("high", 0), series("low", 1)],
        };
        chart.to_svg()
    }

    /// Reads the document as XML is read: every element is closed, in order, and every attribute quoted; how many elements of
    /// each name it has.
    fn elements(svg: &str) -> std::collections::BTreeMap<String, usize> {
        let (mut open, mut found) = (Vec::new(), std::collections::BTreeMap::new());
        let mut rest = svg;
        while let Some((words, tag)) = rest.split_once('<') {
            assert!(!words.contains('>'), "stray > in {words:?}");
            for entity in words.split('&').skip(1) {
                assert!(["amp;", "lt;", "gt;", "quot;"].iter().any(|name| entity.starts_with(name)), "{entity:?}");
            }
            let (tag, after) = tag.split_once('>').expect("a tag that ends");
            rest = after;
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(name));
                continue;
            }
            assert!(tag.matches('"').count().is_multiple_of(2), "{tag}");
            let name = tag.split([' ', '/']).next().unwrap().to_owned();
            *found.entry(name.clone()).or_insert(0) += 1;
            if !tag.ends_with('/') {
                open.push(name);
            }
        }
        assert!(open.is_empty(), "{open:?} left open");
        assert_eq!(rest.trim(), "");
        found
    }

    #[test]
    fn lines_are_well_formed_and_have_a_point_for_each_value() {
        let svg = chart(Axis::from_zero("load"), Mark::Line, &[(0.0, 100.0), (30.0, 50.0), (60.0, 0.0)]);
        let found = elements(&svg);
        assert_eq!((found["polyline"], found["circle"]), (2, 6));
        assert!(svg.contains("&amp; &quot;rate&quot; &lt;of&gt;"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn distributions_are_areas_over_a_logarithmic_axis() {
        let axis = Axis::logarithmic("latency", Labels::Microseconds);
        let svg = chart(axis, Mark::Steps, &[(10.0, 30.0), (100.0, 70.0), (1000.0, 0.0)]);
        assert_eq!(elements(&svg)["polygon"], 2);
        assert!(svg.contains(">1 ms<") && svg.contains(">10 µs<"), "{svg}");
    }

    #[test]
    fn a_chart_of_nothing_is_still_a_chart() {
        for axis in [Axis::from_zero("load"), Axis::logarithmic("latency", Labels::Microseconds)] {
            for points in [&[][..], &[(1.0, 0.0)]] {
                let svg = chart(axis.clone(), Mark::Line, points);
                elements(&svg);
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }

    #[test]
    fn bars_are_named_and_valued() {
        let bars = Bars {
            title: "Throughput".to_owned(),
            subtitle: String::new(),
            label: "events per second".to_owned(),
            bars: vec![("2 hops".to_owned(), 51_234.0, 0), ("service".to_owned(), 0.0, 1)],
        };
        let svg = bars.to_svg();
        assert_eq!(elements(&svg)["rect"], 3, "the background and two bars");
        assert!(svg.contains("51 234"), "{svg}");
    }
}

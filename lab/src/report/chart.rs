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

/// Pixels from one line of a legend to the next.
const LEGEND_LINE: f64 = 18.0;

/// Colours that colour-blind readers can tell apart, too: Okabe's and Ito's, and two that differ from these in lightness.
const COLOURS: [&str; 10] =
    ["#0072b2", "#e69f00", "#d55e00", "#009e73", "#cc79a7", "#56616b", "#56b4e9", "#6a3d9a", "#8c6d1f", "#111111"];

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
        // What a legend takes beyond its first line makes the chart higher.
        let (legend, more) = self.legend();
        let (top, floor, height) = (TOP + more, HEIGHT + more - BOTTOM, HEIGHT + more);
        let down = |value: f64| floor - y.place(value) * (floor - top);
        let mut svg = begin(&self.title, &self.subtitle, height);
        for (value, label) in y.ticks() {
            let at = down(value);
            line(&mut svg, (LEFT, at), (WIDTH - RIGHT, at), GRID);
            text(&mut svg, (LEFT - 8.0, at + 4.0), "end", FAINT, 12, &label);
        }
        for (value, label) in x.ticks() {
            let at = across(value);
            line(&mut svg, (at, top), (at, floor), GRID);
            text(&mut svg, (at, floor + 18.0), "middle", FAINT, 12, &label);
        }
        line(&mut svg, (LEFT, floor), (WIDTH - RIGHT, floor), FAINT);
        text(&mut svg, (f64::midpoint(LEFT, WIDTH - RIGHT), height - 18.0), "middle", INK, 13, &self.x.label);
        let middle = f64::midpoint(top, floor);
        let _ = write!(svg, "<g transform=\"translate(20 {middle:.1}) rotate(-90)\">");
        text(&mut svg, (0.0, 0.0), "middle", INK, 13, &self.y.label);
        svg.push_str("</g>\n");
        for series in &self.series {
            let places: Vec<(f64, f64)> =
                series.points.iter().map(|&(value, height)| (across(value), down(height))).collect();
            series.draw(&mut svg, &places, floor);
        }
        svg.push_str(&legend);
        svg.push_str("</svg>\n");
        svg
    }

    /// The legend, in as many lines as its names take, and how much higher than one line that is.
    fn legend(&self) -> (String, f64) {
        let (mut svg, mut at, mut more) = (String::new(), LEFT, 0.0);
        for series in &self.series {
            let width = 44.0 + width(&series.name, 12);
            if at > LEFT && at + width - 24.0 > WIDTH - RIGHT {
                (at, more) = (LEFT, more + LEGEND_LINE);
            }
            let _ = writeln!(
                svg,
                "<rect x=\"{at:.1}\" y=\"{:.1}\" width=\"14\" height=\"5\" rx=\"2\" fill=\"{}\"/>",
                TOP + more - 21.0,
                colour(series.colour)
            );
            text(&mut svg, (at + 20.0, TOP + more - 14.0), "start", INK, 12, &series.name);
            at += width;
        }
        (svg, more)
    }
}

impl Series {
    fn draw(&self, svg: &mut String, places: &[(f64, f64)], floor: f64) {
        let colour = colour(self.colour);
        if self.mark == Mark::Steps {
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

/// Bars with names, one below the other, from 0; on a logarithmic axis where the shortest would vanish beside the longest.
#[derive(Debug, Clone)]
pub(crate) struct Bars {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    /// What they measure, with the unit.
    pub(crate) label: String,
    /// Bars that are to be compared, with what they have in common.
    pub(crate) groups: Vec<Group>,
}

/// A bar: its name, its value, and its place among the colours.
pub(crate) type Bar = (String, f64, usize);

/// Bars that are to be compared, below what they have in common.
pub(crate) type Group = (String, Vec<Bar>);

/// The longest bar divided by the shortest, above which an axis is logarithmic.
const VANISHES: f64 = 30.0;

impl Bars {
    /// The chart as an SVG document.
    pub(crate) fn to_svg(&self) -> String {
        const PITCH: f64 = 26.0;
        let bars = || self.groups.iter().flat_map(|(_, bars)| bars);
        let values = || bars().map(|bar| bar.1).filter(|value| *value > 0.0);
        let (least, most) = values().fold((f64::INFINITY, 0.0), |(low, high), value| (value.min(low), value.max(high)));
        let logarithmic = most > VANISHES * least;
        // On a logarithmic axis, the shortest is to be seen, too.
        let axis =
            if logarithmic { Axis::logarithmic(&self.label, Labels::Numbers) } else { Axis::from_zero(&self.label) };
        let axis = axis.fit(values().chain(logarithmic.then_some(least * 0.7)));
        let names = 34.0 + bars().map(|bar| width(&bar.0, 13)).fold(80.0, f64::max);
        let headings = self.groups.iter().filter(|(heading, _)| !heading.is_empty()).count();
        let top = TOP - 14.0;
        let floor = top + 6.0 + PITCH * whole(bars().count() + headings);
        let across = |value: f64| names + axis.place(value) * (WIDTH - names - 90.0);
        let mut svg = begin(&self.title, &self.subtitle, floor + BOTTOM);
        for (value, label) in axis.ticks() {
            line(&mut svg, (across(value), top), (across(value), floor), GRID);
            text(&mut svg, (across(value), floor + 18.0), "middle", FAINT, 12, &label);
        }
        let mut at = top + 6.0;
        for (heading, bars) in &self.groups {
            if !heading.is_empty() {
                text(&mut svg, (24.0, at + 17.0), "start", FAINT, 13, heading);
                at += PITCH;
            }
            for (name, value, place) in bars {
                text(&mut svg, (names - 10.0, at + 15.0), "end", INK, 13, name);
                let _ = writeln!(
                    svg,
                    "<rect x=\"{names:.1}\" y=\"{at:.1}\" width=\"{:.1}\" height=\"20\" rx=\"2\" fill=\"{}\"/>",
                    across(*value) - names,
                    colour(*place)
                );
                text(&mut svg, (across(*value) + 8.0, at + 15.0), "start", INK, 12, &scale::thousands(*value));
                at += PITCH;
            }
        }
        line(&mut svg, (names, top), (names, floor), FAINT);
        let label = if logarithmic { format!("{} (logarithmic)", self.label) } else { self.label.clone() };
        text(&mut svg, (f64::midpoint(names, WIDTH - 90.0), floor + 42.0), "middle", INK, 13, &label);
        svg.push_str("</svg>\n");
        svg
    }
}

/// About how many pixels these words take in letters of this size.
fn width(words: &str, size: u32) -> f64 {
    0.56 * f64::from(size) * whole(words.chars().count())
}

fn whole(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
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

    /// A legend of eight contenders went beyond the chart's right side, and two of them had the same colour.
    #[test]
    fn a_legend_stays_inside_and_has_a_colour_for_each() {
        let of = |colour: usize| Series {
            name: "JacORB Notification".to_owned(),
            points: vec![(1.0, 1.0)],
            mark: Mark::Line,
            colour,
        };
        let (title, subtitle) = (String::new(), String::new());
        let (x, y) = (Axis::from_zero("load"), Axis::from_zero("events"));
        let (legend, more) = Chart { title, subtitle, x, y, series: (0..9).map(of).collect() }.legend();
        assert!(more > 0.0);
        let places = legend.split("<text x=\"").skip(1).filter_map(|rest| rest.split('"').next()?.parse::<f64>().ok());
        assert!(places.map(|at| at + width("JacORB Notification", 12)).all(|end| end < WIDTH), "{legend}");
        let fills: std::collections::BTreeSet<_> =
            legend.split("rx=\"2\" fill=").skip(1).map(|rest| &rest[..9]).collect();
        assert_eq!(fills.len(), 9);
    }

    #[test]
    fn bars_are_named_and_valued() {
        let bars = Bars {
            title: "Throughput".to_owned(),
            subtitle: String::new(),
            label: "events per second".to_owned(),
            groups: vec![(String::new(), vec![("2 hops".to_owned(), 51_234.0, 0), ("service".to_owned(), 0.0, 1)])],
        };
        let svg = bars.to_svg();
        assert_eq!(elements(&svg)["rect"], 3, "the background and two bars");
        assert!(svg.contains("51 234") && !svg.contains("logarithmic"), "{svg}");
        let beside = ("both".to_owned(), vec![("one-way".to_owned(), 7.0, 2)]);
        let svg = Bars { groups: [bars.groups, vec![beside]].concat(), ..bars }.to_svg();
        assert!(svg.contains("both") && svg.contains("(logarithmic)"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}

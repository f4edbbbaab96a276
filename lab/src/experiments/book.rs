//! `campanile-bench experiments`: all experiments in one command, with their charts, their reports, and a page of Markdown that
//! tells for each what the paper reported and what was found; or the charts and the page once more, of the reports that are stored.

use std::fmt::Write;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::{Bed, Kind, found, isolation, jitter, latency, load, number, overhead};
use crate::output::{today, write_result};
use crate::report::{self, Aim, at, judge, text};
use crate::table::counted;
use crate::{BenchError, ExperimentOptions, ExperimentsOptions, Output};

/// What the page says of an experiment beside its figures.
struct Chapter {
    kind: &'static Kind,
    heading: &'static str,
    /// The paper's authors, and which figures of it.
    paper: (&'static str, &'static str),
    /// What the paper did and reported.
    reported: &'static str,
    /// What is done here.
    here: &'static str,
    /// The options with which the sub-command does it.
    options: &'static str,
    /// What its report is called among the results.
    result: &'static str,
}

const GORE: &str = "Gore et al.";
const TEMPO: &str = "Bauer et al.";

/// The first chapters are of experiments that use all cores, the others of those that are confined to one.
const OVERHEAD: Chapter = Chapter {
    kind: &overhead::KIND,
    heading: "What priorities and the service cost",
    paper: (GORE, "figure 15"),
    reported: "One supplier, one consumer, structured events of 64 octets, as many as get through: 2 hops (no service), 3 hops (a relay \
               consumer that forwards), both with and without Real-time CORBA, the standard and the real-time service. \
               \"RT-Notification does not add significant overhead to the CosNotification Service\"; what there is comes from the extra \
               information in the messages. No numbers are given beside the chart.",
    here: "The same six. The relay is that of `campanile-bench floor`, which only finds where a message ends, so it is the least that a \
           third process can cost. All parties run in the real-time scheduling class, as the paper's did, so that what priorities add is \
           compared and not two schedulers. Supplier and consumer are on the first core, who is between them on the last; both cores are \
           kept awake. Back to back, the next event leaves when the push before has returned: from the relay and without a service, that \
           is when the consumer has answered, from the service when it has the event. Latencies are taken at 1,000 events a second. All \
           six take short turns, those that are compared one after the other. What is judged is the median of the pairs' ratios, told \
           with its 95 % confidence interval (from the ratios' ranks, so nothing is assumed of how they are spread).",
    options: "",
    result: "overhead",
};

const ISOLATION: Chapter = Chapter {
    kind: &isolation::KIND,
    heading: "A publisher that misbehaves",
    paper: (TEMPO, "figures 11 and 12"),
    reported: "Two publisher/subscriber pairs on topics of equal share, 1,000 messages a second each, through one broker; for 10 s one of \
               them publishes 7,000 a second, which brings the broker close to its capacity (10,000). The well-behaved one's delay \
               triples; the misbehaving one's grows by several orders of magnitude.",
    here: "The same on one channel, where each publisher's events are a topic of it (`Topics`) and the two have equal shares. The flood is \
           as much as the service takes, so that it is the service that is full and nobody else: sequences of 64 events, 64 of them \
           unanswered, to a subscriber that takes sequences. The runs without shares have one topic, and are the contrast. Latency is from \
           the publisher's stamp to the subscriber's read, and is judged; delay is from when the event was due, and contains what its \
           publisher was late because the push before had not returned. The well-behaved client's two processes run at a real-time \
           priority, as if it had a machine of its own; the other one's do not. All four are on the first core, the service on the last, \
           and both cores are kept awake. Of the flood one event in 64 is recorded.",
    options: "",
    result: "isolation",
};

const LOAD: Chapter = Chapter {
    kind: &load::KIND,
    heading: "Load and throughput",
    paper: (GORE, "figures 9 and 10"),
    reported: "Three paths of 100 events a second, of high, medium and low priority, on one processor of 800 MHz; consumers compute primes \
               in proportion to a load that every event carries. With the standard service all three lose throughput alike as the load \
               grows. With the real-time service low falls first, then medium, then high.",
    here: "The same, with a lane for each priority, `CLIENT_PROPAGATED`, and suppliers, lanes and consumers at the matching `SCHED_FIFO` \
           priorities. An event counts at the time at which it was due if it was processed within 0.1 s of it, else 0.1 s before it was \
           processed.",
    options: " --one-cpu",
    result: "paths-load",
};

const LATENCY: Chapter = Chapter {
    kind: &latency::KIND,
    heading: "Latencies where the low path has failed",
    paper: (GORE, "figures 11 and 12"),
    reported: "At load 25 the high path's latency with the real-time service is about 1/8 of that with the standard one.",
    here: "The same load. Latency is from the supplier's stamp, right before it writes, to the end of the consumer's read. The service keeps \
           what a consumer has not taken (its default; no queue is bounded here), so with the plain service an event waits behind \
           all that came before it, and its latency grows as long as the overload lasts.",
    options: " --one-cpu",
    result: "paths-latency",
};

const JITTER: Chapter = Chapter {
    kind: &jitter::KIND,
    heading: "Load and jitter",
    paper: (GORE, "figure 13"),
    reported: "The standard deviation of the high path's latency grows linearly with the load with the standard service, and stays low and \
               fairly constant with the real-time one.",
    here: "The same, and the high path (load 5) without and beside 20 low paths of load 17 each, which want 6.8 cores.",
    options: " --one-cpu",
    result: "paths-jitter",
};

const NUMBER: Chapter = Chapter {
    kind: &number::KIND,
    heading: "Number of paths and throughput",
    paper: (GORE, "figure 14"),
    reported: "At load 30, with 1, 5, 10 and 20 low paths, the real-time service's high path keeps its 100 events a second.",
    here: "The same, and 50 and 100 low paths. All low paths' suppliers are threads of one process, their consumers those of another.",
    options: " --one-cpu",
    result: "paths-number",
};

const JITTER_LIFTED: Chapter = Chapter {
    kind: &jitter::KIND,
    heading: "Load and jitter without throttling",
    paper: (GORE, "figure 13"),
    reported: "As above.",
    here: "The first half of the above while the kernel does not throttle real-time threads (`kernel.sched_rt_runtime_us` = -1, put back \
           afterwards): what is left is the service's own. Where real-time threads want more than 95 % of a core, one stall of up to 50 ms \
           makes most of a row's deviation in the chart above.",
    options: " --one-cpu --lift-throttling",
    result: "paths-jitter-without-throttling",
};

/// All, in the order in which they are run and shown.
const CHAPTERS: [&Chapter; 7] = [&OVERHEAD, &ISOLATION, &LOAD, &LATENCY, &JITTER, &NUMBER, &JITTER_LIFTED];

/// Runs all experiments, or reads what they found when they were run last.
pub(crate) fn run(options: &ExperimentsOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    let mut book = Book::open(options);
    if options.stored {
        book.read()?;
        return book.close(out);
    }
    // Those that use all cores first: confined, this process could not go back to the core that it has left to the others.
    let spread = book.bed(options, false)?;
    book.add(&OVERHEAD, &spread, out, |out| overhead::measure(&spread.0, &spread.1, out))?;
    book.add(&ISOLATION, &spread, out, |out| isolation::measure(&spread.0, &spread.1, out))?;
    drop(spread);
    let confined = book.bed(options, true)?;
    book.add(&LOAD, &confined, out, |out| load::measure(&confined.0, &confined.1, out))?;
    book.add(&LATENCY, &confined, out, |out| latency::measure(&confined.0, &confined.1, out))?;
    book.add(&JITTER, &confined, out, |out| jitter::measure(&confined.0, &confined.1, out))?;
    book.add(&NUMBER, &confined, out, |out| number::measure(&confined.0, &confined.1, out))?;
    drop(confined);
    if !options.lift_throttling {
        match book.bed(&ExperimentsOptions { lift_throttling: true, ..options.clone() }, true) {
            Ok(bed) => book.add(&JITTER_LIFTED, &bed, out, |out| jitter::measure_under_load(&bed.0, &bed.1, out))?,
            Err(error) => writeln!(out, "left out: {}: {error}", JITTER_LIFTED.heading)?,
        }
    }
    book.close(out)
}

/// All reports, and where everything goes.
struct Book<'a> {
    options: &'a ExperimentsOptions,
    /// The day of the run.
    day: String,
    reports: Vec<(&'static Chapter, Value)>,
}

impl<'a> Book<'a> {
    fn open(options: &'a ExperimentsOptions) -> Self {
        Self { options, day: today(), reports: Vec::new() }
    }

    fn bed(&self, options: &ExperimentsOptions, one_cpu: bool) -> Result<(Bed, ExperimentOptions), BenchError> {
        let options = ExperimentOptions {
            quick: options.quick,
            one_cpu,
            lift_throttling: options.lift_throttling,
            seconds: options.seconds,
            loads: Vec::new(),
            svg_dir: None,
            report: crate::ReportOptions::default(),
        };
        Ok((Bed::make(&options)?, options))
    }

    fn add<R: Serialize>(
        &mut self,
        chapter: &'static Chapter,
        (bed, _): &(Bed, ExperimentOptions),
        out: &mut Output<'_>,
        measure: impl FnOnce(&mut Output<'_>) -> Result<(Vec<Aim>, R), BenchError>,
    ) -> Result<(), BenchError> {
        let report = found(chapter.kind, bed, out, |_, out| measure(out))?;
        if let Some(folder) = &self.options.results {
            write_result(&report, folder, chapter.result, &self.day, &report.circumstances.machine)?;
        }
        writeln!(out, "{}: done in {:.0} s", chapter.result, report.circumstances.seconds)?;
        self.reports.push((chapter, report::value_of(&report)?));
        Ok(())
    }

    /// Takes the latest report of each from the folder of results.
    fn read(&mut self) -> Result<(), BenchError> {
        let folder = self.options.results.clone().unwrap_or_else(|| PathBuf::from("lab/results"));
        for chapter in CHAPTERS {
            if let Some((day, report)) = report::latest(&folder, chapter.result)? {
                self.day = day;
                self.reports.push((chapter, report));
            }
        }
        Ok(())
    }

    /// Writes the charts and the page, which is beside their folder and has its name.
    fn close(self, out: &mut Output<'_>) -> Result<(), BenchError> {
        let Some((_, first)) = self.reports.first() else { return Ok(()) };
        let folder = &self.options.into;
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let seconds = self.reports.iter().filter_map(|(_, report)| number(report, "seconds")).sum();
        let mut page = introduction(first, &self.day, self.options, seconds);
        page.push_str("| experiment | to be shown | found | shown |\n| --- | --- | --- | --- |\n");
        let mut aims = Vec::new();
        for (chapter, report) in &self.reports {
            for Aim { aim, found, met } in report::aims(report) {
                let _ = writeln!(page, "| `{}` | {aim} | {found} | {} |", chapter.result, report::verdict(met));
                aims.push(Aim { aim, found, met });
            }
        }
        for (chapter, report) in &self.reports {
            report::write_charts(&(chapter.kind.charts)(report), folder)?;
            write_chapter(&mut page, chapter, report, (folder, &name), self.options);
        }
        let path = folder.with_extension("md");
        fs::write(&path, page).map_err(BenchError::io("writing the page"))?;
        writeln!(out, "{}", Path::display(&path))?;
        judge(&aims)
    }
}

fn introduction(report: &Value, day: &str, options: &ExperimentsOptions, seconds: f64) -> String {
    let number = |path| number(report, path).unwrap_or(0.0);
    let mut page = String::from("# The papers' experiments\n\n");
    let _ = writeln!(
        page,
        "The experiments of two papers, made again:\n\n\
         - {GORE}: Pradeep Gore, Irfan Pyarali, Christopher D. Gill, Douglas C. Schmidt: *The Design and Performance of a Real-time\n  \
         Notification Service*, section 4;\n\
         - {TEMPO}: Daniel Bauer, Luis Garcés-Erice, Sean Rooney: *Tempo: A Simple Time-Sensitive Messaging System*, section VI.\n\n\
         What is done is told in [lab/README.md](../lab/README.md); this page is written by\n\n    \
         campanile-bench experiments{} --into {}\n",
        flags(options),
        options.into.display()
    );
    let throttling = match at(report, "real_time.throttling_lifted").as_bool() {
        Some(true) => {
            "the kernel's throttling of real-time threads was lifted for the run (`--lift-throttling`)".to_owned()
        }
        _ => format!(
            "the kernel grants real-time threads {:.0} % of a core and\nlets all of them stand still for the rest of each second when \
             they want more",
            100.0 * number("real_time.granted_share")
        ),
    };
    let unprivileged = at(report, "real_time.privileged") == false;
    let _ = writeln!(
        page,
        "Run on {day} at commit {}: {}, {}, Linux {}; {}{throttling}. Load average before: {:.2}. It took {:.0} minutes.\n",
        at(report, "machine.commit").as_str().unwrap_or("unknown"),
        text(report, "machine.processor"),
        counted(at(report, "machine.cores").as_u64().and_then(|cores| cores.try_into().ok()).unwrap_or(0), "core"),
        text(report, "machine.kernel"),
        if unprivileged { "without the privilege for real-time priorities; " } else { "" },
        number("machine.load_average_before"),
        seconds / 60.0
    );
    page
}

fn write_chapter(
    page: &mut String,
    chapter: &Chapter,
    report: &Value,
    (folder, name): (&Path, &str),
    options: &ExperimentsOptions,
) {
    let Chapter { kind, heading, paper: (authors, figures), reported, here, options: its_options, result } = chapter;
    let _ = writeln!(
        page,
        "\n## {heading}\n\n    campanile-bench {}{its_options}{}\n\n{}\n\n{}\n",
        kind.name,
        flags(options),
        wrapped(&format!("*{authors}, {figures}.* {reported}")),
        wrapped(&format!("*Here.* {here}"))
    );
    let charts = match *result {
        // Those of an older report stay, which does not have what they show.
        "isolation" => vec!["isolation-well-behaved".to_owned(), "isolation-misbehaving".to_owned()],
        _ => (kind.charts)(report).into_iter().map(|(chart, _)| chart).collect(),
    };
    for chart in charts.iter().filter(|chart| folder.join(format!("{chart}.svg")).exists()) {
        let _ = writeln!(page, "![{chart}]({name}/{chart}.svg)\n");
    }
    for (title, table) in (kind.tables)(report) {
        let _ = writeln!(page, "{}\n\n{}", wrapped(&format!("{title}:")), table.markdown());
    }
    for Aim { aim, found, met } in report::aims(report) {
        let verdict = match met {
            Some(true) => "Shown",
            Some(false) => "**Not shown**",
            None => "Not to be judged",
        };
        let _ = writeln!(page, "{}", wrapped(&format!("- {verdict}: {aim}. Found: {found}.")));
    }
}

/// A paragraph in lines of 140 characters at most.
fn wrapped(paragraph: &str) -> String {
    const WIDTH: usize = 140;
    let indent = if paragraph.starts_with("- ") { "  " } else { "" };
    let (mut lines, mut length) = (String::new(), 0);
    for word in paragraph.split(' ') {
        let more = word.chars().count();
        if length > 0 && length + 1 + more > WIDTH {
            let _ = write!(lines, "\n{indent}");
            length = indent.len();
        } else if length > 0 {
            lines.push(' ');
            length += 1;
        }
        lines.push_str(word);
        length += more;
    }
    lines
}

/// The options that decide what is measured.
fn flags(options: &ExperimentsOptions) -> String {
    let mut flags = String::new();
    if options.quick {
        flags.push_str(" --quick");
    }
    if options.lift_throttling {
        flags.push_str(" --lift-throttling");
    }
    if let Some(seconds) = options.seconds {
        let _ = write!(flags, " --seconds {seconds}");
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_wrapped_between_words() {
        let wide = ["word"; 60].join(" ");
        let lines: Vec<String> = wrapped(&wide).lines().map(str::to_owned).collect();
        assert!(lines.len() == 3 && lines.iter().all(|line| line.len() <= 140), "{lines:?}");
        assert_eq!(lines.join(" "), wide);
        assert!(wrapped(&format!("- {wide}")).lines().skip(1).all(|line| line.starts_with("  word")));
    }
}

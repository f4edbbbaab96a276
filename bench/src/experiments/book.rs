//! `campanile-bench experiments`: all experiments in one command, with their charts, their reports, and a page of Markdown that
//! tells for each what the paper reported and what was found.

use std::fmt::Write;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::{Aim, Bed, Circumstances, Report, isolation, jitter, latency, load, number, overhead};
use crate::table::counted;
use crate::{BenchError, ExperimentOptions, ExperimentsOptions, Output, clock};

/// What the page says of an experiment beside its figures.
struct Chapter {
    /// Its sub-command.
    name: &'static str,
    heading: &'static str,
    /// What the paper did and reported.
    paper: &'static str,
    /// What is done here.
    here: &'static str,
    /// The options with which the sub-command does it.
    options: &'static str,
    /// What its report is called among the results.
    result: &'static str,
}

const OVERHEAD: Chapter = Chapter {
    name: "overhead",
    heading: "What priorities and the service cost (paper 000, figure 15)",
    paper: "One supplier, one consumer, structured events of 64 octets, as many as get through: 2 hops (no service), 3 hops (a relay \
            consumer that forwards), both with and without Real-time CORBA, the standard and the real-time service. \"RT-Notification \
            does not add significant overhead to the CosNotification Service\"; what there is comes from the extra information in the \
            messages. No numbers are given beside the chart.",
    here: "The same six. The relay is that of `bench floor`, which only finds where a message ends, so it is the least that a third \
           process can cost. All parties of all six run in the real-time scheduling class, as the paper's did, so that what priorities \
           add is compared and not two schedulers. This was decided after figures had been seen: with the plain side at ordinary \
           scheduling, on a loaded machine, the real-time service's latency was 1.12 to 1.17 times the plain one's on two cores, and \
           1.07 to 1.53 times on one. Supplier and consumer are on the first core, who is between them on the last; both cores are kept awake. \
           Back to back, the next event leaves when the push before has returned: from the relay and without a service, that is when the \
           consumer has answered, from the service when it has the event. Latencies are taken at 1,000 events a second. All six are up at the \
           same time and take turns of a quarter of a second and less, in an order that puts who is compared next to each other and is turned \
           round each time; all are started anew four times. What is judged is the median of the pairs' ratios, told with its 95 % confidence \
           interval (from the ratios' ranks, so nothing is assumed of how they are spread). Before that, whole rounds of two seconds were compared, \
           and the machine's moods made 0.93 to 1.075 of the same ratio.",
    options: "",
    result: "overhead",
};

const ISOLATION: Chapter = Chapter {
    name: "isolation",
    heading: "A publisher that misbehaves (paper 001, figures 11 and 12)",
    paper: "Two publisher/subscriber pairs on topics of equal share, 1,000 messages a second each, through one broker; for 10 s one of \
            them publishes 7,000 a second, which brings the broker close to its capacity (10,000). The well-behaved one's delay triples; \
            the misbehaving one's grows by several orders of magnitude.",
    here: "The same on one channel, where each publisher's events are a topic of it (`Topics`) and the two have equal shares. The flood is as \
           much as the service takes, so that it is the service that is full and nobody else: sequences of 64 events, 64 of them unanswered, to a \
           subscriber that takes sequences. (Before, the flood was single events at 80 % of what got through; it filled the clients' core and not the \
           service's, so that shares could add nothing.) The runs without shares have one topic, and are the contrast. Latency \
           is from the publisher's stamp to the subscriber's read; delay is from when the event was due, and contains what its publisher was late because \
           the push before had not returned. The aim is judged by latency; it was judged by delay at first, and the table has both. \
           The well-behaved client's two processes run at a real-time priority, as if it had a machine of its own; the other one's do not. All four \
           are on the first core, the service on the last, and both cores are kept awake. Of the flood one event in 64 is recorded.",
    options: "",
    result: "isolation",
};

const LOAD: Chapter = Chapter {
    name: "paths-load",
    heading: "Load and throughput (paper 000, figures 9 and 10)",
    paper: "Three paths of 100 events a second, of high, medium and low priority, on one processor of 800 MHz; consumers compute primes in \
            proportion to a load that every event carries. With the standard service all three lose throughput alike as the load grows. \
            With the real-time service low falls first, then medium, then high.",
    here: "The same, with a lane for each priority, `CLIENT_PROPAGATED`, and suppliers, lanes and consumers at the matching `SCHED_FIFO` \
           priorities. An event counts at the time at which it was due if it was processed within 0.1 s of it, else 0.1 s before it was \
           processed.",
    options: " --one-cpu",
    result: "paths-load",
};

const LATENCY: Chapter = Chapter {
    name: "paths-latency",
    heading: "Latencies where the low path has failed (paper 000, figures 11 and 12)",
    paper: "At load 25 the high path's latency with the real-time service is about 1/8 of that with the standard one.",
    here: "The same load. Latency is from the supplier's stamp, right before it writes, to the end of the consumer's read. The service keeps \
           what a consumer has not taken (its default; no queue is bounded here), so with the plain service an event waits behind \
           all that came before it, and its latency grows as long as the overload lasts.",
    options: " --one-cpu",
    result: "paths-latency",
};

const JITTER: Chapter = Chapter {
    name: "paths-jitter",
    heading: "Load and jitter (paper 000, figure 13)",
    paper: "The standard deviation of the high path's latency grows linearly with the load with the standard service, and stays low and \
            fairly constant with the real-time one.",
    here: "The same, and the high path (load 5) without and beside 20 low paths of load 17 each, which want 6.8 cores.",
    options: " --one-cpu",
    result: "paths-jitter",
};

const JITTER_LIFTED: Chapter = Chapter {
    name: "paths-jitter",
    heading: "Load and jitter without throttling (paper 000, figure 13)",
    paper: "As above.",
    here: "The first half of the above while the kernel does not throttle real-time threads (`kernel.sched_rt_runtime_us` = -1, put back \
           afterwards): what is left is the service's own. Where real-time threads want more than 95 % of a core, one stall of up to 50 ms makes \
           most of a row's deviation in the chart above.",
    options: " --one-cpu --lift-throttling",
    result: "paths-jitter-without-throttling",
};

const NUMBER: Chapter = Chapter {
    name: "paths-number",
    heading: "Number of paths and throughput (paper 000, figure 14)",
    paper: "At load 30, with 1, 5, 10 and 20 low paths, the real-time service's high path keeps its 100 events a second.",
    here: "The same, and 50 and 100 low paths. All low paths' suppliers are threads of one process, their consumers those of another.",
    options: " --one-cpu",
    result: "paths-number",
};

/// Runs all experiments.
pub(crate) fn run(options: &ExperimentsOptions, out: &mut Output<'_>) -> Result<(), BenchError> {
    let mut book = Book::open(options)?;
    // Those that use all cores first: confined, this process could not go back to the core that it has left to the others.
    let spread = book.bed(options, false)?;
    book.add(&OVERHEAD, out, |out| overhead::measure(&spread.0, &spread.1, out))?;
    book.add(&ISOLATION, out, |out| isolation::measure(&spread.0, &spread.1, out))?;
    drop(spread);
    let confined = book.bed(options, true)?;
    book.add(&LOAD, out, |out| load::measure(&confined.0, &confined.1, out))?;
    book.add(&LATENCY, out, |out| latency::measure(&confined.0, &confined.1, out))?;
    book.add(&JITTER, out, |out| jitter::measure(&confined.0, &confined.1, out))?;
    book.add(&NUMBER, out, |out| number::measure(&confined.0, &confined.1, out))?;
    drop(confined);
    if !options.lift_throttling {
        match book.bed(&ExperimentsOptions { lift_throttling: true, ..options.clone() }, true) {
            Ok(lifted) => book.add(&JITTER_LIFTED, out, |out| jitter::measure_under_load(&lifted.0, &lifted.1, out))?,
            Err(error) => writeln!(out, "left out: {}: {error}", JITTER_LIFTED.heading)?,
        }
    }
    book.close(out)
}

/// The page as it grows, and where everything goes.
struct Book {
    folder: PathBuf,
    /// Where the page is: beside the folder, under the same name.
    page: PathBuf,
    results: Option<PathBuf>,
    chapters: String,
    aims: Vec<(&'static str, Aim)>,
    first: Option<Circumstances>,
    options: ExperimentsOptions,
    began: u64,
}

impl Book {
    fn open(options: &ExperimentsOptions) -> Result<Self, BenchError> {
        fs::create_dir_all(&options.into).map_err(BenchError::io("making the folder of --into"))?;
        if let Some(results) = &options.results {
            fs::create_dir_all(results).map_err(BenchError::io("making the folder of --results"))?;
        }
        Ok(Self {
            folder: options.into.clone(),
            page: options.into.with_extension("md"),
            results: options.results.clone(),
            chapters: String::new(),
            aims: Vec::new(),
            first: None,
            options: options.clone(),
            began: clock::now(),
        })
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

    fn add<R: Report>(
        &mut self,
        chapter: &Chapter,
        out: &mut Output<'_>,
        measure: impl FnOnce(&mut Output<'_>) -> Result<R, BenchError>,
    ) -> Result<(), BenchError> {
        let began = clock::now();
        let mut report = measure(out)?;
        out.end_progress()?;
        super::complete(&mut report.head_mut().circumstances, began);
        super::write_charts(&report, &self.folder)?;
        self.write_result(chapter, &report)?;
        self.first.get_or_insert_with(|| report.head().circumstances.clone());
        self.aims.extend(report.head().aims.iter().map(|aim| (chapter.result, aim.clone())));
        let folder = self.folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        write_chapter(&mut self.chapters, chapter, &report, &folder, &self.options);
        writeln!(out, "{}: done in {:.0} s", chapter.name, clock::seconds(clock::now() - began))?;
        Ok(())
    }

    fn write_result<R: Report>(&self, chapter: &Chapter, report: &R) -> Result<(), BenchError> {
        let Some(results) = &self.results else { return Ok(()) };
        let commit = report.head().circumstances.machine.commit.unwrap_or("unknown");
        let path = results.join(format!("{}-{commit}-{}.json", today(), chapter.result));
        let mut text = serde_json::to_string_pretty(report)
            .map_err(|error| BenchError::Io { doing: "writing a report as JSON", source: error.into() })?;
        text.push('\n');
        fs::write(path, text).map_err(BenchError::io("writing a report"))
    }

    fn close(self, out: &mut Output<'_>) -> Result<(), BenchError> {
        let Some(circumstances) = &self.first else { return Ok(()) };
        let mut page = introduction(circumstances, &self.options, clock::seconds(clock::now() - self.began));
        page.push_str("| experiment | to be shown | found | shown |\n| --- | --- | --- | --- |\n");
        for (name, Aim { aim, found, met }) in &self.aims {
            let _ = writeln!(page, "| `{name}` | {aim} | {found} | {} |", super::verdict(*met));
        }
        page.push_str(&self.chapters);
        fs::write(&self.page, page).map_err(BenchError::io("writing the page"))?;
        writeln!(out, "{}", Path::display(&self.page))?;
        super::judge(self.aims.iter().map(|(_, aim)| aim))
    }
}

fn introduction(circumstances: &Circumstances, options: &ExperimentsOptions, seconds: f64) -> String {
    let Circumstances { machine, real_time, .. } = circumstances;
    let mut page = String::from("# The papers' experiments\n\n");
    let _ = writeln!(
        page,
        "Paper 000 is Gore, Pyarali, Gill, Schmidt: *The Design and Performance of a Real-time Notification Service* (section 4); \
         paper 001 is the one on Tempo, whose section VI has the experiment on isolation. What is done is told in \
         [bench/README.md](../bench/README.md); this page is written by\n\n    campanile-bench experiments{} --into {}\n",
        flags(options),
        options.into.display()
    );
    let throttling = if real_time.throttling_lifted {
        "the kernel's throttling of real-time threads was lifted for the run (`--lift-throttling`)".to_owned()
    } else {
        format!(
            "the kernel grants real-time threads {:.0} % of a core and lets all of them stand still for the rest of each second when they \
             want more",
            100.0 * real_time.granted_share
        )
    };
    let _ = writeln!(
        page,
        "Run on {} at commit {}: {}, {}, Linux {}; {}{throttling}. Load average before: {:.2}. It took {:.0} minutes.\n",
        today(),
        machine.commit.unwrap_or("unknown"),
        machine.processor,
        counted(u32::try_from(machine.cores).unwrap_or(u32::MAX), "core"),
        machine.kernel,
        real_time.advice.as_ref().map(|_| "without the privilege for real-time priorities; ").unwrap_or_default(),
        machine.load_average_before,
        seconds / 60.0
    );
    page
}

fn write_chapter(
    page: &mut String,
    chapter: &Chapter,
    report: &impl Report,
    folder: &str,
    options: &ExperimentsOptions,
) {
    let Chapter { name, heading, paper, here, options: its_options, result: _ } = chapter;
    let _ = writeln!(
        page,
        "\n## {heading}\n\n    campanile-bench {name}{its_options}{}\n\n*The paper.* {paper}\n\n*Here.* {here}\n",
        flags(options)
    );
    for (file, _) in report.charts() {
        let _ = writeln!(page, "![{file}]({folder}/{file}.svg)\n");
    }
    for (title, table) in report.tables() {
        let _ = writeln!(page, "{title}:\n\n{}", table.markdown());
    }
    for Aim { aim, found, met } in &report.head().aims {
        let verdict = match met {
            Some(true) => "Shown",
            Some(false) => "**Not shown**",
            None => "Not to be judged",
        };
        let _ = writeln!(page, "- {verdict}: {aim}. Found: {found}.");
    }
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

/// The date, as `2026-11-21`.
pub(crate) fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = date(seconds / 86_400);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Year, month and day of a number of days since the beginning of 1970.
fn date(mut days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_the_calendar() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (59, (1970, 3, 1)),
            (789, (1972, 2, 29)),
            (11_016, (2000, 2, 29)),
            (20_778, (2026, 11, 21)),
            (20_818, (2026, 12, 31)),
        ] {
            assert_eq!(date(days), expected);
        }
    }
}

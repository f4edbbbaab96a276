//! `campanile-bench soak`: a program in C on both transports; its consumers and suppliers come and go for half an hour: whether anything
//! is left of them in its memory or in the service's. The program is `crates/ffi/tests/c/soak.c`; it may be built with C's sanitizers.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::Bed;
use crate::campanile::{Campanile, setup};
use crate::process::{Dialogue, json};
use crate::report::{Aim, Reported};
use crate::{BenchError, Options, Output, clock, system};

/// Where the program in C and the library's header are.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/ffi");
/// The DDS domain of the program.
const DOMAIN: &str = "76";
/// Consumers that each of four threads makes until all are gone for a moment.
const VISITS: &str = "28";
/// Milliseconds between two events of each kind.
const PERIOD_MS: &str = "50";
/// Octets by which the heap may grow in the second half of the time, when all are gone: the C library counts what it keeps for threads.
const HEAP_GROWTH_MAX: u64 = 256 << 10;
/// And the program's resident memory.
const RESIDENT_GROWTH_MAX: u64 = 1 << 20;
/// And the service's: what the allocator keeps for its threads, and code that runs for the first time.
const SERVICE_GROWTH_MAX: u64 = 256 << 10;

/// After each tenth of the time, when all that come and go are gone.
#[derive(Debug, Serialize)]
struct Row {
    seconds: f64,
    #[serde(flatten)]
    told: Told,
    resident_bytes: u64,
    threads: u64,
    descriptors: u64,
    service_resident_bytes: u64,
    service_descriptors: u64,
}

/// What the program tells of itself.
#[derive(Debug, Serialize, Deserialize)]
struct Told {
    notification: Counts,
    dds: Counts,
    /// Octets that are allocated.
    heap_bytes: u64,
}

/// Of one transport.
#[derive(Debug, Serialize, Deserialize)]
struct Counts {
    /// That have come and gone.
    subscribers: u64,
    suppliers: u64,
    /// Events of the supplier that stays, and those of them that the consumer that stays has had, each once and in order.
    published: u64,
    received: u64,
}

pub(crate) fn measure(bed: &Bed, options: &Options, out: &mut Output<'_>) -> Reported {
    let (_, seconds) = bed.times(options, (0.0, 30.0), (0.0, 1_800.0));
    out.progress("building the program")?;
    let program = build(options)?;
    let service = Campanile::start()?;
    let mut command = Command::new(program);
    command.args([VISITS, DOMAIN, PERIOD_MS]);
    command.env("CAMPANILE_SERVER", service.address().to_string()).env_remove("CAMPANILE_CONTEXT");
    // What each thread keeps for its next allocations is not counted as allocated.
    command.env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0");
    // What was freed is kept for a while, so that a use of it is noticed; by default that is 256 MiB, which would look like growth.
    command.env("ASAN_OPTIONS", "quarantine_size_mb=16:detect_leaks=1");
    let (mut program, told) = Dialogue::spawn("the program in C", command, told)?;
    let mut told = told.map_err(json("reading what the program tells"))?;
    let (began, mut rows) = (clock::now(), Vec::<Row>::new());
    loop {
        let passed = clock::seconds(clock::now() - began);
        if passed >= seconds * crate::latency::ratio(rows.len() as u64 + 1, 10) {
            let row = Row::of(passed, told, program.pid(), &service)?;
            let visitors = row.told.notification.subscribers + row.told.dds.subscribers;
            let kib = [row.told.heap_bytes, row.resident_bytes, row.service_resident_bytes].map(|octets| octets >> 10);
            out.progress(&format!(
                "{visitors} subscribers, KiB: heap {}, resident {}, service {}",
                kib[0], kib[1], kib[2]
            ))?;
            rows.push(row);
            if rows.len() == 10 {
                break;
            }
        }
        program.say("done")?;
        told = ask(&program)?;
    }
    program.close_input();
    let heap_bytes_at_the_end = ask(&program)?.heap_bytes;
    // What a sanitizer finds at the end makes it fail.
    program.end()?;
    let sanitize = options.sanitize.as_deref();
    let report =
        serde_json::json!({"sanitize": sanitize, "rows": rows, "heap_bytes_at_the_end": heap_bytes_at_the_end});
    Ok((judge(sanitize.is_some(), &rows), report))
}

fn told(line: &str) -> Option<Result<Told, serde_json::Error>> {
    Some(serde_json::from_str(line.strip_prefix("> ")?))
}

fn ask(program: &Dialogue) -> Result<Told, BenchError> {
    program.wait_for(told)?.map_err(json("reading what the program tells"))
}

fn build(options: &Options) -> Result<PathBuf, BenchError> {
    let program = std::env::current_exe().map_err(BenchError::io("finding this program"))?;
    let target = program.ancestors().nth(2).unwrap_or(Path::new("target"));
    let library = options.library.clone().unwrap_or_else(|| target.join("library/libcampanile_ffi.so"));
    let (folder, sources) = (target.join("soak"), Path::new(SOURCES));
    let (prefix, to) = (folder.join("prefix"), folder.join("soak"));
    let mut install = Command::new(sources.join("install.sh"));
    succeed(install.arg(library).arg(&prefix))?;
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-D_GNU_SOURCE", "-g", "-O1", "-pthread"]);
    compiler.args(options.sanitize.as_ref().map(|what| format!("-fsanitize={what}")));
    compiler.arg(sources.join("tests/c/soak.c")).arg("-o").arg(&to).arg("-I").arg(prefix.join("include"));
    compiler.arg("-L").arg(prefix.join("lib")).arg("-lcampanile");
    succeed(compiler.arg(format!("-Wl,-rpath,{}", prefix.join("lib").display())))?;
    Ok(to)
}

fn succeed(command: &mut Command) -> Result<(), BenchError> {
    let output = command.output().map_err(BenchError::io("building the program in C"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(setup("building the program in C")(String::from_utf8_lossy(&output.stderr).trim()))
}

impl Row {
    fn of(seconds: f64, told: Told, pid: u32, service: &Campanile) -> Result<Self, BenchError> {
        let failed = BenchError::io("reading what a process takes");
        let service_pid = service.process().pid();
        let read = || -> std::io::Result<Self> {
            Ok(Self {
                seconds,
                told,
                resident_bytes: system::resident_bytes(pid)?,
                threads: system::threads(pid)?,
                descriptors: system::descriptors(pid)?,
                service_resident_bytes: system::resident_bytes(service_pid)?,
                service_descriptors: system::descriptors(service_pid)?,
            })
        };
        read().map_err(failed)
    }
}

fn judge(is_sanitized: bool, rows: &[Row]) -> Vec<Aim> {
    let (Some(early), Some(last)) = (rows.get(4), rows.last()) else { return Vec::new() };
    let flat = |what: &str, of: fn(&Row) -> u64, most: u64| {
        let growth = of(last).saturating_sub(of(early));
        Aim::new(
            format!("in the second half of the time {what} grows by at most {} KiB", most >> 10),
            format!("by {} KiB to {} KiB", growth >> 10, of(last) >> 10),
            growth <= most,
        )
    };
    let few = |what: &str, of: fn(&Row) -> u64| {
        // One more or less at a time: a connection without use is closed after a while.
        let most = |half: &[Row]| half.iter().map(of).max().unwrap_or(0);
        let (first, second) = rows.split_at(rows.len() / 2);
        Aim::new(
            format!("in the second half of the time {what} do not grow in number"),
            format!("{} at most, {} before", most(second), most(first)),
            most(second) <= most(first),
        )
    };
    let all = |name: &str, of: fn(&Told) -> &Counts| {
        let Counts { subscribers, suppliers, published, received } = of(&last.told);
        Aim::new(
            format!("{name}: who stays has each event once and in order while others come and go"),
            format!("{received} of {published}, {subscribers} subscribers, {suppliers} suppliers"),
            received == published && *subscribers > 0 && *suppliers > 0,
        )
    };
    let mut resident = flat("its resident memory", |row| row.resident_bytes, RESIDENT_GROWTH_MAX);
    if is_sanitized {
        // The sanitizer remembers each thread that there was: a program that only makes threads grows by as much.
        resident.met = None;
    }
    vec![
        flat("the program's heap", |row| row.told.heap_bytes, HEAP_GROWTH_MAX),
        resident,
        flat("the service's resident memory", |row| row.service_resident_bytes, SERVICE_GROWTH_MAX),
        few("the program's threads", |row| row.threads),
        few("its descriptors", |row| row.descriptors),
        few("the service's descriptors", |row| row.service_descriptors),
        all("notification", |told| &told.notification),
        all("dds", |told| &told.dds),
    ]
}

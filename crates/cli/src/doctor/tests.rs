//! Each finding on made-up machines, the way it should be and the way it should not.

use super::findings::State::{InTheWay, Note, Well};
use super::findings::{self, Finding, State};
use super::latency::{self, Latency};
use super::machine::Machine;

use std::fs;
use testing::TempPath;

/// A tree of files that looks like a machine on which all is well.
struct Tree(TempPath);

const LIMITS: &str = "\
Limit                     Soft Limit           Hard Limit           Units
Max open files            1024                 524288               files
Max locked memory         unlimited            unlimited            bytes
Max realtime priority     98                   98
";

const WELL: &[(&str, &str)] = &[
    ("proc/self/limits", LIMITS),
    (
        "proc/self/status",
        "Name:\tx\nUid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\nCpus_allowed_list:\t0-1\n",
    ),
    ("proc/self/timerslack_ns", "50000\n"),
    ("proc/self/cgroup", "0::/system.slice/campanile.service\n"),
    ("sys/fs/cgroup/system.slice/campanile.service/cpu.max", "max 100000\n"),
    ("proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
    ("proc/sys/kernel/sched_rt_period_us", "1000000\n"),
    ("proc/sys/kernel/osrelease", "6.1.0-18-rt-amd64\n"),
    ("proc/version", "Linux version 6.1.0-18-rt-amd64 #1 SMP PREEMPT_RT Debian\n"),
    ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu tsc\n"),
    ("proc/stat", "cpu  100 0 100 1000 0 0 0 0 0 0\ncpu0 1 2 3\n"),
    ("proc/swaps", "Filename Type Size Used Priority\n"),
    ("sys/devices/system/cpu/online", "0-1\n"),
    ("sys/devices/system/cpu/isolated", "1\n"),
    ("sys/devices/system/cpu/nohz_full", "1\n"),
    ("sys/devices/system/cpu/smt/active", "0\n"),
    ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
    ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
    ("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0\n"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "2\n"),
    ("sys/devices/system/cpu/cpu0/cpuidle/state1/name", "C1\n"),
    ("sys/devices/system/cpu/cpufreq/boost", "1\n"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
    ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
    ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm\n"),
];

impl Tree {
    fn new() -> Self {
        let tree = Self(TempPath::new("doctor"));
        for (path, text) in WELL {
            tree.write(path, text.as_bytes());
        }
        tree
    }

    fn write(&self, path: &str, content: &[u8]) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn remove(&self, path: &str) {
        fs::remove_file(self.0.join(path)).unwrap();
    }

    fn machine(&self) -> Machine {
        Machine::made_up(&self.0, Ok(()))
    }

    fn finding(&self, name: &str) -> Finding {
        find(&self.machine(), name)
    }
}

fn find(machine: &Machine, name: &str) -> Finding {
    findings::all(machine).into_iter().find(|finding| finding.name == name).unwrap()
}

#[test]
fn machine_on_which_all_is_well_has_nothing_to_mend() {
    for finding in findings::all(&Tree::new().machine()) {
        assert_eq!((finding.state, &finding.mend), (Well, &None), "{finding:?}");
        assert!(!finding.found.is_empty() && !finding.why.is_empty(), "{finding:?}");
    }
}

/// Name, file, its content, what that is, words of what was found, words of what mends it.
type Case = (&'static str, &'static str, &'static str, State, &'static str, &'static str);

const CASES: &[Case] = &[
    // All was well where root asked, and nothing where the service ran.
    ("user", "proc/self/status", "Uid:\t1000\t0\t0\t0\n", Note, "root", "LimitRTPRIO=98"),
    ("throttling", "proc/sys/kernel/sched_rt_runtime_us", "-1", Note, "off (-1)", "sched_rt_runtime_us=950000"),
    ("throttling", "proc/sys/kernel/sched_rt_runtime_us", "400000", InTheWay, "40 % of each 1000 ms", "950000"),
    ("preemption", "proc/version", "#1 SMP Debian", InTheWay, "none", "PREEMPT_RT"),
    ("preemption", "proc/version", "#1 SMP PREEMPT_DYNAMIC", Note, "dynamic", "preempt=full"),
    ("preemption", "proc/version", "#1 SMP PREEMPT", Note, "full", "PREEMPT_RT"),
    ("governor", "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave", InTheWay, "powersave", "tee"),
    ("idle states", "sys/devices/system/cpu/cpu0/cpuidle/state2/latency", "133", Note, "133 µs", "cpupower"),
    ("hyper-threading", "sys/devices/system/cpu/smt/active", "1", Note, "on", "smt/control"),
    (
        "swap",
        "proc/swaps",
        "Filename Type Size Used Priority\n/dev/sda2 partition 2097152 0 -2",
        Note,
        "2048 MiB",
        "swapoff",
    ),
    ("swap", "proc/swaps", "Filename\n/dev/sda2 partition 2097152 4096 -2", InTheWay, "4 MiB are in use", "swapoff"),
    ("huge pages", "sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never", Note, "always", "madvise"),
    (
        "clock source",
        "sys/devices/system/clocksource/clocksource0/current_clocksource",
        "hpet",
        InTheWay,
        "hpet",
        "echo tsc",
    ),
    ("timer slack", "proc/self/timerslack_ns", "4000000", Note, "4000000 ns", "prctl"),
    ("isolation", "sys/devices/system/cpu/isolated", "", Note, "isolated is empty", "isolcpus"),
    ("isolation", "sys/devices/system/cpu/nohz_full", "(null)", Note, "nohz_full is empty", "nohz_full"),
    ("virtual machine", "proc/cpuinfo", "flags\t: fpu hypervisor", Note, "yes", "on the host"),
    ("virtual machine", "proc/stat", "cpu  100 0 100 1000 0 0 0 40 0 0", InTheWay, "16.6 %", "on the host"),
    ("processor quota", "sys/fs/cgroup/system.slice/cpu.max", "50000 100000", InTheWay, "50 %", "CPUQuota"),
    ("processors", "sys/devices/system/cpu/online", "0-7", Note, "0-1 of 0-7", "taskset -c 0-7"),
    ("processor quota", "sys/fs/cgroup/cpu.max", "max 100000", Well, "none", ""),
    ("huge pages", "sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]", Well, "never", ""),
];

/// Name, what of `/proc/self/limits` is replaced, by what, what that is, words of what was found, words of what mends it.
const LIMIT_CASES: &[Case] = &[
    ("rtprio", "98                   98", "0 0", InTheWay, "the limit is 0", "rtprio 98"),
    ("memlock", "unlimited            unlimited", "8388608 8388608", InTheWay, "8192 KiB", "memlock"),
    ("memlock", "unlimited            unlimited", "1073741824 1073741824", Note, "", "memlock"),
    ("open files", "1024                 524288", "1024 4096", Note, "4096", "LimitNOFILE"),
];

#[test]
fn each_thing_that_is_not_as_it_should_be_is_found_with_what_mends_it() {
    let check = |tree: &Tree, name: &str, state: State, found: &str, mend: &str| {
        let finding = tree.finding(name);
        assert_eq!(finding.state, state, "{finding:?}");
        assert!(finding.found.contains(found), "{finding:?}");
        assert!(finding.mend.clone().unwrap_or_default().contains(mend), "{finding:?}");
    };
    for (name, path, content, state, found, mend) in CASES {
        let tree = Tree::new();
        tree.write(path, content.as_bytes());
        check(&tree, name, *state, found, mend);
    }
    for (name, from, to, state, found, mend) in LIMIT_CASES {
        let tree = Tree::new();
        assert!(LIMITS.contains(from));
        tree.write("proc/self/limits", LIMITS.replacen(from, to, 1).as_bytes());
        check(&tree, name, *state, found, mend);
    }
}

#[test]
fn privilege_is_what_trying_it_gave() {
    let tree = Tree::new();
    let refused = Machine::made_up(&tree.0, Err("Operation not permitted".to_owned()));
    let finding = find(&refused, "privilege");
    assert_eq!(finding.state, InTheWay);
    assert!(finding.found.contains("Operation not permitted") && finding.mend.unwrap().contains("setcap cap_sys_nice"));
    tree.write("proc/self/status", b"CapEff:\t0000000000800000\n");
    let finding = find(&Machine::made_up(&tree.0, Err("no".to_owned())), "privilege");
    assert!(finding.mend.unwrap().contains("control group"), "the capability alone does not help");
}

#[test]
fn capabilities_outdo_limits() {
    let tree = Tree::new();
    tree.write("proc/self/limits", LIMITS.replace("98 ", "0 ").replace("unlimited", "65536").as_bytes());
    assert_eq!(tree.finding("rtprio").state, InTheWay);
    assert_eq!(tree.finding("memlock").state, InTheWay);
    // CAP_SYS_NICE is 23, CAP_IPC_LOCK 14.
    tree.write("proc/self/status", b"CapEff:\t0000000000804000\n");
    assert_eq!(tree.finding("rtprio").state, Well);
    assert_eq!(tree.finding("memlock").state, Well);
}

#[test]
fn fair_server_of_newer_kernels_takes_the_place_of_throttling() {
    let tree = Tree::new();
    tree.write("proc/sys/kernel/osrelease", b"6.12.1");
    tree.write("proc/sys/kernel/sched_rt_runtime_us", b"-1");
    assert_eq!(tree.finding("throttling").state, Well);
    tree.write("sys/kernel/debug/sched/fair_server/cpu0/runtime", b"0");
    let finding = tree.finding("throttling");
    assert_eq!(finding.state, Note);
    assert!(finding.mend.unwrap().contains("fair_server"));
}

#[test]
fn mode_of_preemption_is_read_where_it_may_be() {
    let tree = Tree::new();
    tree.write("proc/version", b"#1 SMP PREEMPT_DYNAMIC");
    for (modes, state) in [
        ("none voluntary (full)", Note),
        ("none (voluntary) full", InTheWay),
        ("(none) voluntary full", InTheWay),
        ("none voluntary full (lazy)", Note),
    ] {
        tree.write("sys/kernel/debug/sched/preempt", modes.as_bytes());
        assert_eq!(tree.finding("preemption").state, state, "{modes}");
    }
    tree.remove("sys/kernel/debug/sched/preempt");
    tree.write("proc/cmdline", b"quiet preempt=voluntary");
    assert_eq!(tree.finding("preemption").state, InTheWay);
    tree.write("sys/kernel/realtime", b"1");
    assert_eq!(tree.finding("preemption").state, Well);
}

#[test]
fn idle_states_may_be_bounded_by_a_limit_or_switched_off() {
    let tree = Tree::new();
    tree.write("sys/devices/system/cpu/cpu0/cpuidle/state3/latency", b"200");
    assert_eq!(tree.finding("idle states").state, Note);
    tree.write("dev/cpu_dma_latency", &0_i32.to_ne_bytes());
    assert_eq!(tree.finding("idle states").state, Well);
    tree.write("dev/cpu_dma_latency", &2_000_000_000_i32.to_ne_bytes());
    assert_eq!(tree.finding("idle states").state, Note);
    tree.write("sys/devices/system/cpu/cpu0/cpuidle/state3/disable", b"1");
    assert_eq!(tree.finding("idle states").state, Well);
}

#[test]
fn quota_of_an_older_control_group_is_found() {
    let tree = Tree::new();
    tree.write("proc/self/cgroup", b"4:cpu,cpuacct:/docker/abc\n0::/\n");
    tree.write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", b"150000");
    tree.write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", b"100000");
    let finding = tree.finding("processor quota");
    assert_eq!(finding.state, InTheWay);
    assert!(finding.found.contains("150 %") && finding.mend.unwrap().contains("docker/abc"));
    tree.write("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", b"-1");
    assert_eq!(tree.finding("processor quota").state, Well);
}

#[test]
fn siblings_are_named() {
    let tree = Tree::new();
    tree.write("sys/devices/system/cpu/smt/active", b"1");
    tree.write("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", b"0,4");
    assert!(tree.finding("hyper-threading").found.contains("0,4"));
}

#[test]
fn machine_of_which_nothing_can_be_read_is_no_failure() {
    let tree = Tree::new();
    let empty = Machine::made_up(&tree.0.join("nowhere"), Ok(()));
    for finding in findings::all(&empty) {
        assert_ne!(finding.state, InTheWay, "{finding:?}");
    }
}

#[test]
fn latency_is_judged_by_the_worst() {
    for (late, state) in [(20_000, Well), (400_000, Note), (3_000_000, InTheWay)] {
        let finding = findings::latency(&Latency::made_up(true, &[1_500, 2_500, late]));
        assert_eq!(finding.state, state);
        assert!(finding.found.contains("SCHED_FIFO"), "{finding:?}");
    }
    assert!(findings::latency(&Latency::made_up(false, &[1])).found.contains("ordinary"));
}

#[test]
fn histogram_counts_every_wake_up_once() {
    let late: Vec<u64> = (0..100).map(|index| 1_500 + 100 * index).chain([80_000, 80_000_000_000]).collect();
    let text = Latency::made_up(true, &late).describe();
    let rows: Vec<&str> = text.lines().skip_while(|line| !line.trim_start().starts_with('<')).collect();
    let counts: Vec<u64> =
        rows.iter().map(|row| row.split_whitespace().rev().find_map(|w| w.parse().ok()).unwrap()).collect();
    assert_eq!(counts.iter().sum::<u64>(), 102, "{text}");
    assert!(rows[0].contains("< 2.0 µs") && rows.last().unwrap().contains("more"), "{text}");
    assert!(text.lines().nth(1).unwrap().contains("102"), "{text}");
}

#[test]
fn times_are_written_for_people() {
    for (time, text) in [(900, "0.9 µs"), (12_345, "12.3 µs"), (123_456, "123 µs"), (12_345_678, "12 ms")] {
        assert_eq!(latency::microseconds(time), text);
    }
}

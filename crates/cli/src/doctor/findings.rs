//! Findings about the machine: each with its reason and its remedy.

use super::latency::Latency;
use super::machine::Machine;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Fit for real time.
    Well,
    /// Worth knowing: it costs latency at times, or its state is unknown.
    Note,
    /// Prevents lanes from being real-time, or may delay them more than anything else here.
    InTheWay,
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) name: &'static str,
    pub(super) state: State,
    pub(super) found: String,
    pub(super) why: &'static str,
    /// Remedy: a command, or advice.
    pub(super) mend: Option<String>,
}

impl Finding {
    pub(super) fn new(
        name: &'static str,
        state: State,
        found: impl Into<String>,
        why: &'static str,
        mend: &str,
    ) -> Self {
        let mend = (state != State::Well && !mend.is_empty()).then(|| mend.to_owned());
        Self { name, state, found: found.into(), why, mend }
    }
}

const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_NICE: u32 = 23;

/// Runs all checks but the measurement.
pub(super) fn all(machine: &Machine) -> Vec<Finding> {
    vec![
        user(machine),
        privilege(machine),
        rtprio(machine),
        throttling(machine),
        preemption(machine),
        governor(machine),
        idle_states(machine),
        hyper_threading(machine),
        memlock(machine),
        swap(machine),
        huge_pages(machine),
        clock_source(machine),
        timer_slack(machine),
        isolation(machine),
        virtual_machine(machine),
        open_files(machine),
        quota(machine),
        processors(machine),
    ]
}

fn user(machine: &Machine) -> Finding {
    let name = "user";
    let why = "limits and privileges below are those of this user: what root may, the service's own user may not";
    let mend = "ask as that user: sudo -u campanile campanile doctor. It needs, as lines of its systemd unit: User=campanile, \
                AmbientCapabilities=CAP_SYS_NICE CAP_IPC_LOCK, LimitRTPRIO=98, LimitMEMLOCK=infinity, LimitNOFILE=524288";
    // The second is the effective one.
    match machine.status("Uid").as_deref().and_then(|ids| ids.split_whitespace().nth(1)) {
        Some("0") => Finding::new(name, State::Note, "root", why, mend),
        Some(id) => Finding::new(name, State::Well, format!("number {id}, not root"), why, mend),
        None => Finding::new(name, State::Note, "cannot be read", why, mend),
    }
}

fn privilege(machine: &Machine) -> Finding {
    let why = "without SCHED_FIFO lanes run as ordinary threads, and any load of the machine delays them";
    let mend = "sudo setcap cap_sys_nice,cap_ipc_lock=ep \"$(command -v campanile)\"";
    match &machine.fifo {
        Ok(()) => Finding::new("privilege", State::Well, "threads may run at SCHED_FIFO", why, mend),
        Err(error) => {
            let by_group = machine.has_capability(CAP_SYS_NICE);
            let mend = if by_group {
                "the capability is there, so a control group without real-time runtime refuses: \
                 sysctl -w kernel.sched_rt_runtime_us=950000, or move the service to the root group"
            } else {
                mend
            };
            Finding::new("privilege", State::InTheWay, format!("SCHED_FIFO is refused: {error}"), why, mend)
        }
    }
}

fn rtprio(machine: &Machine) -> Finding {
    let name = "rtprio";
    let why = "the limit is the highest real-time priority of a process without CAP_SYS_NICE; lanes use up to 98";
    let mend = "echo \"$USER - rtprio 98\" | sudo tee /etc/security/limits.d/95-campanile.conf, then log in again; of a \
                systemd unit: LimitRTPRIO=98";
    match machine.limit("Max realtime priority") {
        Some((soft, _)) if soft >= 98 => Finding::new(name, State::Well, format!("the limit is {soft}"), why, mend),
        Some((soft, _)) if machine.has_capability(CAP_SYS_NICE) => {
            let found = format!("the limit is {soft}, which CAP_SYS_NICE of this process outdoes");
            Finding::new(name, State::Well, found, why, mend)
        }
        Some((soft, _)) => Finding::new(name, State::InTheWay, format!("the limit is {soft}"), why, mend),
        None => Finding::new(name, State::Note, "cannot be read", why, mend),
    }
}

fn throttling(machine: &Machine) -> Finding {
    let name = "throttling";
    let runtime = machine.number("/proc/sys/kernel/sched_rt_runtime_us");
    let period =
        machine.number("/proc/sys/kernel/sched_rt_period_us").filter(|period| *period > 0).unwrap_or(1_000_000);
    let mend = "sudo sysctl -w kernel.sched_rt_runtime_us=950000";
    let safety = "what real-time threads leave to the others is what keeps the machine reachable when a lane runs away";
    let fair_server = machine.number("/sys/kernel/debug/sched/fair_server/cpu0/runtime");
    if machine.kernel() >= (6, 12) && fair_server == Some(0) {
        let mend = "for f in /sys/kernel/debug/sched/fair_server/cpu*/runtime; do echo 50000000 | sudo tee $f; done";
        return Finding::new(
            name,
            State::Note,
            "the fair server is off: nothing is left to ordinary threads",
            safety,
            mend,
        );
    }
    match runtime {
        None => Finding::new(name, State::Note, "cannot be read", safety, ""),
        Some(runtime) if runtime < 0 && machine.kernel() >= (6, 12) => {
            Finding::new(name, State::Well, "off; the fair server leaves ordinary threads their part", safety, mend)
        }
        Some(runtime) if runtime < 0 => {
            Finding::new(name, State::Note, "off (-1): a lane that runs away takes the machine with it", safety, mend)
        }
        Some(runtime) => {
            let share = runtime.saturating_mul(100) / period;
            let found = format!("real-time threads have {share} % of each {} ms", period / 1000);
            let why = "beyond their part all real-time threads stop until the next period begins";
            let state = if share >= 90 { State::Well } else { State::InTheWay };
            Finding::new(name, state, found, why, mend)
        }
    }
}

fn preemption(machine: &Machine) -> Finding {
    let name = "preemption";
    let why = "until the kernel lets itself be preempted, a lane that was woken waits for whatever system call runs";
    let real_time = "install a kernel with PREEMPT_RT (Debian: sudo apt install linux-image-rt-amd64; Ubuntu: sudo pro \
                     enable realtime-kernel)";
    let version = machine.read("/proc/version").unwrap_or_default();
    if machine.number("/sys/kernel/realtime") == Some(1) || version.contains("PREEMPT_RT") {
        return Finding::new(name, State::Well, "PREEMPT_RT", why, real_time);
    }
    // "none voluntary (full)": the one in effect is in brackets.
    let chosen = machine.read("/sys/kernel/debug/sched/preempt").and_then(|modes| {
        let (_, rest) = modes.split_once('(')?;
        Some(rest.split_once(')')?.0.to_owned())
    });
    let asked = || {
        let line = machine.read("/proc/cmdline")?;
        line.split_whitespace().find_map(|word| word.strip_prefix("preempt=")).map(str::to_owned)
    };
    let dynamic = version.contains("PREEMPT_DYNAMIC");
    let full =
        "echo full | sudo tee /sys/kernel/debug/sched/preempt; to keep it: preempt=full on the kernel's command line";
    match chosen.or_else(asked).as_deref() {
        Some("full") => Finding::new(name, State::Note, "full, without PREEMPT_RT", why, real_time),
        Some("lazy") => Finding::new(name, State::Note, "lazy, without PREEMPT_RT", why, real_time),
        Some(mode) => Finding::new(name, State::InTheWay, format!("{mode}: the kernel is hardly preempted"), why, full),
        None if dynamic => {
            let found = "dynamic, without PREEMPT_RT; which mode is in effect only root can read";
            Finding::new(name, State::Note, found, why, full)
        }
        None if version.contains("PREEMPT") => {
            Finding::new(name, State::Note, "full, without PREEMPT_RT", why, real_time)
        }
        None if version.is_empty() => Finding::new(name, State::Note, "cannot be read", why, ""),
        None => Finding::new(name, State::InTheWay, "none: the kernel is not preempted", why, real_time),
    }
}

fn governor(machine: &Machine) -> Finding {
    let name = "governor";
    let why = "a processor that was slowed down while idle takes long to be fast again, and events come after pauses";
    let mend = "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor";
    let of = |cpu: &String| machine.read(&format!("{cpu}/cpufreq/scaling_governor"));
    let governors: Vec<String> = machine.processors().iter().filter_map(of).collect();
    let slow = governors.iter().filter(|governor| *governor != "performance").count();
    let mut kinds = governors.clone();
    kinds.sort();
    kinds.dedup();
    if governors.is_empty() {
        return Finding::new(name, State::Well, "this system does not change the processors' speed", why, mend);
    }
    let found = format!("{} of {} processors: {}", governors.len(), machine.processors().len(), kinds.join(", "));
    Finding::new(name, if slow == 0 { State::Well } else { State::InTheWay }, found, why, mend)
}

/// Maximum acceptable latency of leaving an idle state, in microseconds.
const EXIT_US_MAX: i64 = 10;

fn idle_states(machine: &Machine) -> Finding {
    let name = "idle states";
    let why = "a processor that sleeps deeply wakes up late, and a lane that waits lets its processor sleep";
    let mend = "sudo cpupower idle-set -D 10; it lasts until the next start";
    let mut deepest: Option<(i64, String)> = None;
    for cpu in machine.processors() {
        for state in machine.list(&format!("{cpu}/cpuidle")) {
            let at = |file: &str| format!("{cpu}/cpuidle/{state}/{file}");
            let enabled = machine.number(&at("disable")).unwrap_or(0) == 0;
            if let Some(latency) = machine.number(&at("latency")).filter(|_| enabled)
                && deepest.as_ref().is_none_or(|(most, _)| latency > *most)
            {
                deepest = Some((latency, machine.read(&at("name")).unwrap_or(state)));
            }
        }
    }
    let asked = machine.binary("/dev/cpu_dma_latency").filter(|limit| *limit >= 0);
    match (deepest, asked) {
        (None, _) => Finding::new(name, State::Well, "none that this system controls", why, mend),
        (Some(_), Some(limit)) if i64::from(limit) <= EXIT_US_MAX => {
            Finding::new(name, State::Well, format!("held to {limit} µs by /dev/cpu_dma_latency"), why, mend)
        }
        (Some((latency, state)), _) => {
            let level = if latency <= EXIT_US_MAX { State::Well } else { State::Note };
            Finding::new(name, level, format!("the deepest, {state}, takes {latency} µs to leave"), why, mend)
        }
    }
}

fn hyper_threading(machine: &Machine) -> Finding {
    let name = "hyper-threading";
    let why = "two threads on one core share what it can do: a lane's time depends on what its sibling runs";
    let mend = "echo off | sudo tee /sys/devices/system/cpu/smt/control";
    let siblings = |cpu: &String| machine.read(&format!("{cpu}/topology/thread_siblings_list"));
    let shared = machine.processors().iter().filter_map(siblings).find(|list| list.contains([',', '-']));
    match (machine.number("/sys/devices/system/cpu/smt/active"), shared) {
        (Some(1), list) => {
            let which = list.map(|list| format!(": processors {list} are one core, for one")).unwrap_or_default();
            Finding::new(name, State::Note, format!("on{which}"), why, mend)
        }
        (None, Some(list)) => {
            Finding::new(name, State::Note, format!("on: processors {list} are one core, for one"), why, mend)
        }
        _ => Finding::new(name, State::Well, "off, or not there", why, mend),
    }
}

/// Octets of memory that a service may have to lock: a channel's budget.
const LOCKED_BYTES_MIN: u64 = 256 << 20;

fn memlock(machine: &Machine) -> Finding {
    let name = "memlock";
    let why = "memory that may not be locked can be paged out, and a lane that needs it waits for the disk";
    let mend = "echo \"$USER - memlock unlimited\" | sudo tee -a /etc/security/limits.d/95-campanile.conf, then log in again; \
                of a systemd unit: LimitMEMLOCK=infinity";
    match machine.limit("Max locked memory") {
        Some((soft, _)) if soft == u64::MAX => Finding::new(name, State::Well, "unlimited", why, mend),
        Some((soft, _)) => {
            let found = format!("the limit is {} KiB", soft / 1024);
            if machine.has_capability(CAP_IPC_LOCK) {
                let found = format!("{found}, which CAP_IPC_LOCK of this process outdoes");
                return Finding::new(name, State::Well, found, why, mend);
            }
            let state = if soft >= LOCKED_BYTES_MIN { State::Note } else { State::InTheWay };
            Finding::new(name, state, found, why, mend)
        }
        None => Finding::new(name, State::Note, "cannot be read", why, mend),
    }
}

fn swap(machine: &Machine) -> Finding {
    let name = "swap";
    let why = "what was paged out comes back at the disk's speed; lanes.lock_memory keeps the service's own memory";
    let mend = "sudo swapoff -a";
    let Some(swaps) = machine.read("/proc/swaps") else {
        return Finding::new(name, State::Well, "none", why, mend);
    };
    let column = |line: &str, index: usize| line.split_whitespace().nth(index).and_then(|v| v.parse::<u64>().ok());
    let areas: Vec<&str> = swaps.lines().skip(1).filter(|line| !line.trim().is_empty()).collect();
    let size: u64 = areas.iter().filter_map(|line| column(line, 2)).sum();
    let used: u64 = areas.iter().filter_map(|line| column(line, 3)).sum();
    if areas.is_empty() {
        return Finding::new(name, State::Well, "none", why, mend);
    }
    let state = if used > 0 { State::InTheWay } else { State::Note };
    Finding::new(name, state, format!("{} MiB, of which {} MiB are in use", size / 1024, used / 1024), why, mend)
}

fn huge_pages(machine: &Machine) -> Finding {
    let name = "huge pages";
    let why = "the kernel moves memory together into huge pages behind a process's back, which holds it up meanwhile";
    let mend = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled";
    let modes = machine.read("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let chosen = modes.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(mode, _)| mode.to_owned());
    match chosen.as_deref() {
        Some("always") => Finding::new(name, State::Note, "transparent, for everybody (always)", why, mend),
        Some(mode) => Finding::new(name, State::Well, format!("transparent ones: {mode}"), why, mend),
        None => Finding::new(name, State::Well, "none", why, mend),
    }
}

fn clock_source(machine: &Machine) -> Finding {
    let name = "clock source";
    let why = "each look at the clock is a system call, or slower, where the clock is not the processor's own";
    const BASE: &str = "/sys/devices/system/clocksource/clocksource0";
    let Some(current) = machine.read(&format!("{BASE}/current_clocksource")) else {
        return Finding::new(name, State::Note, "cannot be read", why, "");
    };
    let good = ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "riscv_clocksource", "timebase"];
    if good.contains(&current.as_str()) {
        return Finding::new(name, State::Well, current, why, "");
    }
    let available = machine.read(&format!("{BASE}/available_clocksource")).unwrap_or_default();
    let better = available.split_whitespace().find(|source| good.contains(source));
    let mend = match better {
        Some(source) => format!("echo {source} | sudo tee {BASE}/current_clocksource"),
        None => "the kernel found no better one; clocksource=tsc tsc=reliable on its command line insists".to_owned(),
    };
    Finding::new(name, State::InTheWay, current, why, &mend)
}

fn timer_slack(machine: &Machine) -> Finding {
    let name = "timer slack";
    let why = "timers of ordinary threads may end that much later; those of real-time threads do not";
    let mend = "start the service from a process that did not raise it (prctl PR_SET_TIMERSLACK)";
    match machine.number("/proc/self/timerslack_ns") {
        Some(slack) if slack <= 50_000 => Finding::new(name, State::Well, format!("{slack} ns"), why, mend),
        Some(slack) => Finding::new(name, State::Note, format!("{slack} ns"), why, mend),
        None => Finding::new(name, State::Note, "cannot be read", why, ""),
    }
}

fn isolation(machine: &Machine) -> Finding {
    let name = "isolation";
    let why = "processors that the kernel leaves to the lanes have no other threads, and no ticks while one runs";
    let mend = "isolcpus=managed_irq,domain,N nohz_full=N rcu_nocbs=N on the kernel's command line for each processor N but 0, and lanes.cpus = [N]";
    let list = |file: &str| {
        let text = machine.read(&format!("/sys/devices/system/cpu/{file}")).unwrap_or_default();
        (!text.is_empty() && text != "(null)").then_some(text)
    };
    match (list("isolated"), list("nohz_full")) {
        (None, None) => Finding::new(name, State::Note, "no processor is isolated", why, mend),
        (Some(isolated), None) => {
            let found = format!("processors {isolated} are isolated, but have ticks (nohz_full is empty)");
            Finding::new(name, State::Note, found, why, mend)
        }
        (None, Some(full)) => {
            let found = format!("processors {full} have no ticks, but other threads (isolated is empty)");
            Finding::new(name, State::Note, found, why, mend)
        }
        (Some(isolated), Some(full)) => {
            let found = format!("processors {isolated} are isolated, {full} without ticks: name them in lanes.cpus");
            Finding::new(name, State::Well, found, why, mend)
        }
    }
}

fn virtual_machine(machine: &Machine) -> Finding {
    let name = "virtual machine";
    let why = "the host takes the processors away whenever it likes, and nothing in here can prevent it";
    let mend =
        "on the host: give this machine processors of its own, pinned and not shared, or run the service on the host";
    let information = machine.read("/proc/cpuinfo").unwrap_or_default();
    let flags = information.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let virtual_machine = flags.split_whitespace().any(|flag| flag == "hypervisor")
        || machine.read("/sys/hypervisor/type").is_some_and(|kind| !kind.is_empty());
    let statistics = machine.read("/proc/stat").unwrap_or_default();
    let total = statistics.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    let ticks: Vec<u64> = total.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; guest times are in the first two already.
    let stolen = ticks.get(7).copied().unwrap_or(0);
    let busy: u64 = [0, 1, 2, 5, 6, 7].iter().filter_map(|field| ticks.get(*field)).sum();
    if !virtual_machine && stolen == 0 {
        return Finding::new(name, State::Well, "no", why, mend);
    }
    let permille = stolen.saturating_mul(1000) / busy.max(1);
    let found =
        format!("yes; its host took {}.{} % of the time that was needed since the start", permille / 10, permille % 10);
    Finding::new(name, if permille >= 10 { State::InTheWay } else { State::Note }, found, why, mend)
}

/// Descriptors needed for the default limit of connections, which may use three quarters of all.
const DESCRIPTORS_MIN: u64 = 4096 * 4 / 3 + 1;

fn open_files(machine: &Machine) -> Finding {
    let name = "open files";
    let why =
        "each connection is a descriptor; limits.connections_max (4096 by default) is cut to three quarters of them";
    let mend = "ulimit -Hn 65536 as root, or \"$USER - nofile 65536\" in /etc/security/limits.d; of a systemd unit: LimitNOFILE=65536";
    match machine.limit("Max open files") {
        Some((_, hard)) if hard >= DESCRIPTORS_MIN => {
            Finding::new(name, State::Well, format!("up to {hard}"), why, mend)
        }
        Some((_, hard)) => Finding::new(name, State::Note, format!("up to {hard}"), why, mend),
        None => Finding::new(name, State::Note, "cannot be read", why, ""),
    }
}

fn quota(machine: &Machine) -> Finding {
    let name = "processor quota";
    let why =
        "when a control group's part of a period is used up, all of its threads stop until the next, lanes as well";
    let groups = machine.read("/proc/self/cgroup").unwrap_or_default();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let second = controllers.is_empty();
        if !second && !controllers.split(',').any(|controller| controller == "cpu") {
            continue;
        }
        // A limit of any group above holds, too.
        for ancestor in std::path::Path::new(path).ancestors() {
            let group = ancestor.to_string_lossy();
            let group = group.trim_end_matches('/');
            let found = if second { quota_v2(machine, group) } else { quota_v1(machine, group) };
            if let Some((percent, group, mend)) = found {
                let found = format!("{percent} % of a processor, of the group {group}");
                return Finding::new(name, State::InTheWay, found, why, &mend);
            }
        }
    }
    Finding::new(name, State::Well, "none", why, "")
}

fn quota_v2(machine: &Machine, group: &str) -> Option<(u64, String, String)> {
    let directory = format!("/sys/fs/cgroup{group}");
    let limit = machine.read(&format!("{directory}/cpu.max"))?;
    let (quota, period) = limit.split_once(' ')?;
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    let percent = quota.saturating_mul(100) / period.max(1);
    let mend = format!(
        "echo max | sudo tee {directory}/cpu.max; of a systemd unit: CPUQuota= (empty); of a container: no --cpus"
    );
    Some((percent, directory, mend))
}

fn quota_v1(machine: &Machine, group: &str) -> Option<(u64, String, String)> {
    let directory = format!("/sys/fs/cgroup/cpu{group}");
    let quota = u64::try_from(machine.number(&format!("{directory}/cpu.cfs_quota_us"))?).ok()?;
    let period = u64::try_from(machine.number(&format!("{directory}/cpu.cfs_period_us"))?).ok()?;
    let percent = quota.saturating_mul(100) / period.max(1);
    let mend = format!("echo -1 | sudo tee {directory}/cpu.cfs_quota_us; of a container: no --cpus");
    Some((percent, directory, mend))
}

fn processors(machine: &Machine) -> Finding {
    let name = "processors";
    let why = "lanes share the processors they may use with everything else that runs there";
    let allowed = machine.status("Cpus_allowed_list");
    let online = machine.read("/sys/devices/system/cpu/online");
    match (allowed, online) {
        (Some(allowed), Some(online)) if allowed == online => {
            Finding::new(name, State::Well, format!("all that are online: {online}"), why, "")
        }
        (Some(allowed), Some(online)) => {
            let mend = format!("taskset -c {online} campanile serve …; of a container: no --cpuset-cpus");
            let found = format!("this process may use {allowed} of {online}");
            Finding::new(name, State::Note, found, why, &mend)
        }
        _ => Finding::new(name, State::Note, "cannot be read", why, ""),
    }
}

/// Lateness of wake-ups above which it is a note, and above which it is in the way: a lane's shortest likely period.
const LATE_NOTE_NS: u64 = 200_000;
const LATE_NS: u64 = 1_000_000;

/// Finding about the measured latency, by its worst value.
pub(super) fn latency(latency: &Latency) -> Finding {
    let name = "wake-up latency";
    let why = "so late a lane may begin with an event that has come; everything above adds to it";
    let worst = latency.worst();
    let state = match worst {
        0..LATE_NOTE_NS => State::Well,
        LATE_NOTE_NS..LATE_NS => State::Note,
        _ => State::InTheWay,
    };
    let how = if latency.real_time { "at SCHED_FIFO" } else { "as ordinary threads" };
    let found = format!("up to {} {how}", super::latency::microseconds(worst));
    Finding::new(name, state, found, why, "mend what stands above, and measure again under the load that there will be")
}

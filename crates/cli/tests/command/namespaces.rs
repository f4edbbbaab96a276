//! Tests on machines of their own: such a test starts itself again as another user in namespaces, so that it needs no rights and leaves nothing
//! behind.

use std::fs;
use std::process::Command;
use std::thread;
use testing::output_in_time;

/// Becomes another process in namespaces of users, processes, mounts and networks, all of which end with it.
const UNSHARE: [&str; 5] = ["--user", "--map-root-user", "--net", "--pid", "--mount"];

/// Set where the test has started itself: the number of the process that it was outside.
pub(crate) const WITHIN: &str = "CAMPANILE_TEST_WITHIN_NAMESPACES";

/// Why this machine cannot have such a test, which needs these devices as well.
fn missing(devices: &[&str]) -> Option<String> {
    let has = |program: &str| output_in_time(Command::new("sh").args(["-c", &format!("command -v {program}")])).status;
    if let Some(program) = ["unshare", "ip"].into_iter().find(|program| !has(program).success()) {
        return Some(format!("there is no `{program}`"));
    }
    for device in devices {
        if let Err(error) = fs::OpenOptions::new().read(true).write(true).open(device) {
            return Some(format!("{device}: {error}"));
        }
    }
    let tried = output_in_time(Command::new("unshare").args(UNSHARE).args(["--fork", "true"]));
    (!tried.status.success()).then(|| String::from_utf8_lossy(&tried.stderr).into_owned())
}

/// Runs what the test is about in namespaces, and prints what it says of that; or says why that cannot be tried.
#[expect(clippy::print_stdout, reason = "for runs with --nocapture")]
pub(crate) fn within_namespaces(devices: &[&str], body: impl FnOnce() -> String) {
    if std::env::var_os(WITHIN).is_some() {
        let interfaces = fs::read_to_string("/proc/self/net/dev").unwrap();
        // Two lines of headings, and the loopback device.
        assert_eq!(interfaces.lines().count(), 3, "this is no namespace of its own:\n{interfaces}");
        println!("{}", body());
        return;
    }
    if let Some(missing) = missing(devices) {
        println!("not tried on this machine: {missing}");
        return;
    }
    let mut command = Command::new("unshare");
    command.args(UNSHARE).args(["--fork", "--kill-child"]).arg(std::env::current_exe().unwrap());
    let own = thread::current().name().unwrap().to_owned();
    // What it waits for has limits of its own.
    let output = command
        .args([own.as_str(), "--exact", "--nocapture"])
        .env(WITHIN, std::process::id().to_string())
        .output()
        .unwrap();
    println!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("test result: ok. 1 passed"));
}

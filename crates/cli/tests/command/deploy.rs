//! `campanile deploy`. Plans that run are in the tests of `crates/component`, whose example is their program.

use crate::support::{PROGRAM, TempPath, text};
use std::process::{Command, Output};
use testing::output_in_time;

fn deploy(arguments: &[&str]) -> Output {
    output_in_time(Command::new(PROGRAM).arg("deploy").args(arguments))
}

#[test]
fn a_plan_that_does_not_fit_is_refused_by_check_and_run_alike() {
    let plan = TempPath::file(
        "plan.toml",
        "[servers.a]\nprogram = '/nowhere/a'\n[servers.b]\nprogram = '/bin/false'\n[instances.x]\ncomponent = 'X'\n",
    );
    for command in ["check", "run"] {
        let output = deploy(&[command, plan.path()]);
        assert_eq!(output.status.code(), Some(1));
        let said = text(&output.stderr);
        let lines: Vec<_> = said.lines().collect();
        assert_eq!(lines.len(), 2, "{said}");
        assert!(lines[0].starts_with("campanile: servers.a: /nowhere/a --describe: No such file"), "{said}");
        assert!(
            lines[1].starts_with("campanile: servers.b: /bin/false --describe: it ended with exit status: 1"),
            "{said}"
        );
    }
    let plan = TempPath::file("plan.toml", "[instances.x]\ncomponent = 'X'\ngain = 1\n");
    let output = deploy(&["check", plan.path()]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        text(&output.stderr),
        "campanile: instances.x: there is no server main: add [servers.main] with its program\n"
    );
}

#[test]
fn a_plan_without_instances_is_well() {
    let plan = TempPath::file("plan.toml", "name = 'empty'\n");
    let output = deploy(&["check", plan.path()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).ends_with("plan.toml: 0 instances, nothing stands in the way\n"));
}

//! Completion in a shell, as `bash` does it with the script that `campanile completions` prints.

use crate::support::{PROGRAM, Serve, nobodys_address, text};
use std::process::{Command, Stdio};
use testing::{output_in_time, wait_until};

/// Completes the last word of a line, as bash has it when TAB is pressed behind it, and gives what it offers.
fn complete(line: &str, environment: &[(&str, &str)]) -> Vec<String> {
    // Bash breaks words at these, too, where it completes.
    let broken = line.replace(':', " : ").replace('=', " = ");
    let words: Vec<String> = broken.split(' ').map(|word| format!("'{word}'")).collect();
    let script = format!(
        "source <('{PROGRAM}' completions bash)\n\
         function=$(complete -p campanile); function=${{function#*-F }}; function=${{function%% *}}\n\
         COMP_WORDS=('{PROGRAM}' {words}); COMP_CWORD={last}; COMP_LINE='campanile {line}'; COMP_POINT=${{#COMP_LINE}}\n\
         $function '{PROGRAM}' \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words = words.join(" "),
        last = words.len(),
    );
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", &script]).envs(environment.iter().copied()).stdin(Stdio::null());
    let output = output_in_time(&mut bash);
    assert_eq!(text(&output.stderr), "", "{line}");
    text(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn channels_types_and_contexts_are_completed_by_what_there_is() {
    let folder = crate::restart::Folder::made("completed");
    let data = folder.folder().to_str().unwrap();
    let serve = Serve::start_with(&["--listen", "127.0.0.1:0", "--log", "error", "--data", data]);
    for name in ["Weather", "Weird ones", "Dome"] {
        serve.print("channel", &["create", name]);
    }
    let here = [("CAMPANILE_SERVER", serve.address.as_str())];
    for line in ["ls --channel We", "channel rm We", "hz -c We", "channel rm Dome We", "ls --channel=We"] {
        assert_eq!(complete(line, &here), ["Weather", "Weird\\ ones"], "{line}");
    }
    // The service that the line names, in which bash breaks at colons.
    let elsewhere = [("CAMPANILE_SERVER", "nowhere.invalid:1")];
    let line = format!("-s {} info Do", serve.address);
    assert_eq!(complete(&line, &elsewhere), ["Dome"]);
    // Types that are subscribed to.
    let sub = serve.subscribe(&["Weather/Wind", "Telescope/*", "-n", "1"]);
    assert_eq!(complete("sub Wea", &here), ["Weather/Wind"]);
    assert_eq!(complete("pub --type ", &here), ["Weather/Wind"]);
    serve.print("pub", &["Weather/Wind", "speed=1"]);
    assert_eq!(sub.wait().code, Some(0));
    // And those that stored events have.
    serve.print("channel", &["set", "0", "HistoryEvents=100"]);
    serve.print("pub", &["Dome/Position", "azimuth=1"]);
    assert_eq!(complete("sub Do", &here), ["Dome/Position"]);
    // Nothing of that is left at the service.
    wait_until("no proxy to be left", || !serve.print("ls", &[]).contains("proxy"));
}

#[test]
fn contexts_are_completed_without_a_service() {
    let folder = crate::restart::Folder::made("completion");
    let config = folder.folder().to_str().unwrap();
    for name in ["lab", "lasilla", "site"] {
        let mut add = Command::new(PROGRAM);
        add.args(["context", "add", name, "-s", "lab.invalid"]).env("XDG_CONFIG_HOME", config);
        assert!(output_in_time(&mut add).status.success());
    }
    for line in ["context use la", "ls --context la", "context rm la"] {
        assert_eq!(complete(line, &[("XDG_CONFIG_HOME", config)]), ["lab", "lasilla"], "{line}");
    }
}

#[test]
fn what_needs_no_service_is_completed_as_before_and_nothing_is_said_where_none_answers() {
    let nobody = nobodys_address();
    let nowhere = [("CAMPANILE_SERVER", nobody.as_str())];
    assert_eq!(complete("chann", &nowhere), ["channel"]);
    assert_eq!(complete("ls --chann", &nowhere), ["--channel"]);
    assert_eq!(complete("completions fi", &nowhere), ["fish"]);
    // No channel of any service; files are bash's own to offer.
    let offered = complete("ls --channel NoSuchChannelOrFile", &nowhere);
    assert!(offered.iter().all(String::is_empty), "{offered:?}");
}

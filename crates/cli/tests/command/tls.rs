//! Commands over TLS, and certificates that are read again.

use std::io::{BufRead, BufReader};
use std::process::{ChildStderr, Command};

use testing::certificates::{Authority, Certified};
use testing::output_in_time;

use crate::support::{PROGRAM, Serve, TempPath, text};
use crate::tempo::Running;

fn path(path: &std::path::Path) -> &str {
    path.to_str().unwrap()
}

fn config(authority: &Authority, name: &str) -> (TempPath, Certified) {
    let certified = authority.certify("service");
    let text = format!(
        "[tls]\nlisten = \"127.0.0.1:0\"\nrequired = true\ncertificate = {:?}\nkey = {:?}\nclient_ca = {:?}\nca = {:?}\n",
        certified.certificate,
        certified.key,
        authority.file(),
        authority.file()
    );
    (TempPath::file(name, &text), certified)
}

/// The options with which a command shows a certificate that is called so.
fn options(authority: &Authority, name: &str) -> Vec<String> {
    let Certified { certificate, key, .. } = authority.certify(name);
    let files = [("--tls-ca", authority.file()), ("--tls-certificate", certificate), ("--tls-key", key)];
    files.iter().flat_map(|(option, file)| [(*option).to_owned(), path(file).to_owned()]).collect()
}

#[test]
fn commands_speak_tls_with_a_service_that_speaks_nothing_else() {
    let authority = Authority::new("command-tls");
    let (config, _) = config(&authority, "command-tls.toml");
    let serve = Serve::start_with(&["--config", config.path(), "--log", "error"]);
    let options = options(&authority, "operator");
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let mut sub = serve.subscribe(&[&options[..], &["--json", "-n", "2"]].concat());
    serve.print("pub", &[&options[..], &["-n", "2", "--type", "A/B"]].concat());
    assert!(sub.line().contains(r#""type":"A/B""#));
    assert!(serve.print("ls", &options).contains("channel"));
    assert!(serve.print("stats", &options).contains("tls_handshakes "));
    // Without, it says what is to be done.
    let output = serve.run("ls", &[]);
    assert!(!output.status.success());
    let url = format!("corbaloc:ssliop:1.2@{}/NotificationService", serve.address);
    let output = output_in_time(Command::new(PROGRAM).args(["ls", "--server", &url]));
    assert!(text(&output.stderr).contains("over TLS"), "{}", text(&output.stderr));
    // A certificate alone is of no use.
    let wrong = serve.run("ls", &options[2..4]);
    assert!(text(&wrong.stderr).contains("--tls-key"), "{}", text(&wrong.stderr));
}

#[test]
fn tempo_is_spoken_with_a_broker_over_tls() {
    let authority = Authority::new("command-tempo");
    let (config, _) = config(&authority, "command-tempo.toml");
    let text_of_file = std::fs::read_to_string(config.path()).unwrap();
    std::fs::write(config.path(), format!("{text_of_file}tempo_listen = \"127.0.0.1:0\"\n")).unwrap();
    let serve = Serve::start_with(&["--config", config.path(), "--log", "error"]);
    let at = format!("tls://{}", serve.tempo);
    let options = options(&authority, "sensor");
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let sub = ["sub", "Weather/Wind", "--from", &at, "-n", "1"];
    let mut sub = Running::start(&[&sub[..], &options[..]].concat());
    let publish = |more: &[&str]| {
        let arguments = ["tempo", "pub", "Weather/Wind", "11.5 m/s", "--to", &at];
        output_in_time(Command::new(PROGRAM).args(arguments).args(more))
    };
    let said = publish(&[&options[..], &["--wait", "60"]].concat());
    assert!(said.status.success(), "{}", text(&said.stderr));
    assert_eq!(sub.line(), "11.5 m/s\n");
    // What goes wrong is said.
    let without = publish(&[]);
    assert_eq!(without.status.code(), Some(2));
    assert!(text(&without.stderr).contains("--tls-ca"), "{}", text(&without.stderr));
    let other = Authority::new("command-tempo-other");
    let stranger = publish(&["--wait", "5", "--tls-ca", path(&other.file())]);
    assert!(text(&stranger.stderr).contains("certificate"), "{}", text(&stranger.stderr));
}

fn wait_for(stderr: &mut BufReader<ChildStderr>, what: &str) {
    let mut line = String::new();
    while !line.contains(what) {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "{what}");
    }
}

#[test]
fn hang_up_has_certificates_read_again_and_wrong_ones_change_nothing() {
    let (authority, next) = (Authority::new("command-hup"), Authority::new("command-hup-next"));
    let (config, Certified { certificate, key, .. }) = config(&authority, "command-hup.toml");
    let (serve, mut stderr) = Serve::start_heard(&["--config", config.path(), "--log", "info"]);
    let options_now = options(&authority, "operator");
    let options_now: Vec<&str> = options_now.iter().map(String::as_str).collect();
    serve.print("ls", &options_now);
    std::fs::write(&certificate, "none").unwrap();
    serve.signal("HUP");
    wait_for(&mut stderr, "SIGHUP: certificates stay as they are");
    serve.print("ls", &options_now);
    let new = next.certify("service");
    std::fs::copy(&new.certificate, &certificate).unwrap();
    std::fs::copy(&new.key, &key).unwrap();
    serve.signal("HUP");
    wait_for(&mut stderr, "certificates were read again");
    // A client that trusts the first authority only does not trust the service any more.
    let output = serve.run("ls", &options_now);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("certificate"), "{}", text(&output.stderr));
}

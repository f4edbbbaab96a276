//! `campanile hz`, `bw`, `types` and `latency`.

use super::{campanile, json};
use crate::support::{PROGRAM, Serve, TempPath, nobodys_address, text};
use std::process::{Command, Stdio};
use testing::Killed;

/// A publisher of a type that goes on until it is dropped. An event of it has come.
fn publisher(serve: &Serve, of: &str, options: &[&str]) -> Killed {
    let first = serve.subscribe(&["--quiet", "--type", of, "-n", "1"]);
    let mut command = serve.command("pub", &[&["--count", "0", "--rate", "200", "--type", of], options].concat());
    let publisher = Killed(command.stderr(Stdio::null()).spawn().unwrap());
    assert_eq!(first.wait().code, Some(0));
    publisher
}

#[test]
fn rates_and_sizes_of_events_are_reported_in_each_interval() {
    let serve = Serve::start();
    let _publisher = publisher(&serve, "A/B", &["--size", "100"]);
    let _other = publisher(&serve, "C/D", &[]);
    let told = serve.print("hz", &["--type", "A/B", "--interval", "1", "-n", "2", "--json"]);
    let lines: Vec<_> = told.lines().map(json).collect();
    assert_eq!(lines.len(), 2);
    for line in &lines {
        assert!(line["events"].as_u64().unwrap() > 0 && line["rate"].as_f64().unwrap() > 0.0, "{line}");
        assert!(line.get("lost").is_none(), "without numbers of events it cannot be known: {line}");
    }
    let told = serve.print("bw", &["--type", "A/B", "--interval", "1", "-n", "1"]);
    let figures: Vec<f64> = told.trim_end().split('\t').map(|figure| figure.parse().unwrap()).collect();
    let [octets, rate, smallest, mean, largest] = figures[..] else { panic!("{told}") };
    assert!(octets > 0.0 && rate > 0.0 && smallest > 100.0 && smallest <= mean && mean <= largest, "{told}");
}

#[test]
fn nothing_to_measure_is_a_failure() {
    let serve = Serve::start();
    let mut child = serve.command("hz", &[]).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    let _leash = testing::Leash::new(&child, "a measurement to begin");
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    crate::support::send_signal(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    for command in ["hz", "bw", "types", "latency"] {
        let output = campanile(&[command, "--server", &nobodys_address()]);
        assert_eq!(output.status.code(), Some(1), "{command}");
    }
}

#[test]
fn types_are_reported_with_their_idl() {
    let serve = Serve::start();
    let file =
        TempPath::file("types.idl", "module w { enum State { OK }; struct Wind { float speed; State state; }; };");
    let _subscriber = serve.subscribe(&["--type", "Some/*"]);
    let _publisher = publisher(&serve, "Weather/Wind", &["--idl", file.path(), "speed=1", "state=OK"]);
    let _other = publisher(&serve, "C/D", &["x=1.5"]);
    let told = json(&serve.print("types", &["--seconds", "2", "--json"]));
    let of = |name: &str| {
        let all = told["types"].as_array().unwrap();
        all.iter().find(|known| known["type"] == name).unwrap_or_else(|| panic!("{name}: {told}"))
    };
    let wind = of("Weather/Wind");
    assert!(wind["events"].as_u64().unwrap() > 0, "{told}");
    assert_eq!(wind["fields"], json(r#"{"speed":"float","state":"State"}"#));
    let idl: Vec<&str> = wind["idl"].as_array().unwrap().iter().map(|idl| idl.as_str().unwrap()).collect();
    assert!(idl.iter().any(|idl| idl.contains("module w {") && idl.contains("struct Wind {")), "{idl:?}");
    assert_eq!(of("C/D")["fields"]["x"], "double");
    assert_eq!((&of("Some/*")["subscribed"], &of("Some/*")["events"]), (&true.into(), &0.into()));
    let told = serve.print("types", &["--seconds", "1", "--idl"]);
    assert!(
        told.contains("// C/D: ") && told.contains("//     double x\n") && told.contains("    struct Wind {\n"),
        "{told}"
    );
    let told = serve.print("types", &["--seconds", "1", "--type", "C/*"]);
    assert!(told.lines().any(|line| line.starts_with("C/D\t")), "{told}");
    assert!(!told.contains("Weather/Wind\t1"), "{told}");
}

#[test]
fn latency_through_a_channel_is_reported_and_nothing_stays() {
    let serve = Serve::start();
    let told = json(&serve.print("latency", &["-n", "50", "--rate", "500", "--json"]));
    assert_eq!((&told["sent"], &told["lost"]), (&50.into(), &0.into()));
    assert_eq!(told["delivery"]["events"], 50);
    let (least, most) = (told["delivery"]["least_us"].as_f64().unwrap(), told["delivery"]["most_us"].as_f64().unwrap());
    let p50 = told["delivery"]["p50_us"].as_f64().unwrap();
    assert!(least > 0.0 && least <= p50 && p50 <= most, "{told}");
    let told = serve.print("latency", &["-n", "5"]);
    assert!(told.starts_with("delivery  least ") && told.ends_with("\n5 sent, 0 did not come\n"), "{told}");
    assert_eq!(serve.print("ls", &[]).lines().count(), 3);
}

#[test]
fn services_are_kept_by_name() {
    let serve = Serve::start();
    let folder = TempPath::new("contexts");
    let run = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = Command::new(PROGRAM);
        command
            .args(arguments)
            .env("XDG_CONFIG_HOME", folder.path())
            .env_remove("CAMPANILE_SERVER")
            .stdin(Stdio::null());
        command.envs(variables.iter().copied());
        let output = testing::output_in_time(&mut command);
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    };
    let nobody = nobodys_address();
    assert_eq!(run(&["context", "add", "lab", "--server", &serve.address, "--use"], &[]).0, 0);
    let away = ["context", "add", "away", "--server", &nobody, "--event-form", "alma", "--shared-thread"];
    assert_eq!(run(&away, &[]).0, 0);
    assert_eq!(run(&["context", "add", "field", "--transport", "dds"], &[]).0, 0);
    let (status, listed, _) = run(&["context", "ls"], &[]);
    assert_eq!(status, 0);
    assert!(listed.contains(&format!("  away   server {nobody}, event_form alma, shared_thread true\n")), "{listed}");
    assert!(listed.contains(&format!("* lab    server {}\n", serve.address)), "{listed}");
    let told = json(&run(&["context", "ls", "--json"], &[]).1);
    assert_eq!((&told["selected"], &told["contexts"]["field"]["transport"]), (&"lab".into(), &"dds".into()));

    // The one in use, the one that is named, the environment's, the server that is named.
    assert_eq!(run(&["ls"], &[]).0, 0);
    assert_eq!(run(&["ls", "--context", "away"], &[]).0, 1);
    assert_eq!(run(&["ls"], &[("CAMPANILE_CONTEXT", "away")]).0, 1);
    assert_eq!(run(&["ls"], &[("CAMPANILE_SERVER", &nobody)]).0, 1);
    assert_eq!(run(&["--context", "lab", "ls"], &[("CAMPANILE_SERVER", &nobody)]).0, 0);
    assert_eq!(run(&["ls", "--server", &serve.address, "--context", "away"], &[]).0, 0);
    let (status, _, said) = run(&["ls", "--context", "field"], &[]);
    assert!(status == 2 && said.contains("the transport that is set is dds"), "{said}");
    let (status, _, said) = run(&["ls", "--context", "nowhere"], &[]);
    assert!(status == 2 && said.contains("there are: away, field, lab"), "{said}");

    assert_eq!(run(&["context", "use", "away"], &[]).0, 0);
    assert_eq!(run(&["ls"], &[]).0, 1);
    assert_eq!(run(&["context", "rm", "away"], &[]).0, 0);
    assert_eq!(json(&run(&["context", "ls", "--json"], &[]).1)["selected"], serde_json::Value::Null);
    assert_eq!(run(&["context", "use", "away"], &[]).0, 1);
    assert_eq!(run(&["context", "use", "--none"], &[]).0, 0);
    assert_eq!(run(&["context", "add", "empty"], &[]).0, 2);
}

#[test]
fn the_service_of_the_environment_is_asked_and_options_stand_anywhere() {
    let serve = Serve::start();
    let listed = |arguments: &[&str], server: &str| {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).env("CAMPANILE_SERVER", server).stdin(Stdio::null());
        testing::output_in_time(&mut command)
    };
    let nobody = nobodys_address();
    for (arguments, server) in [
        (&["ls"][..], serve.address.as_str()),
        (&["ls", "--server", &serve.address], &nobody),
        (&["--server", &serve.address, "ls"], &nobody),
        (&["--timeout=5", "-s", &serve.address, "ls"], &nobody),
    ] {
        let output = listed(arguments, server);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stdout).starts_with("channel 0\n"));
    }
    assert_eq!(listed(&["ls"], &nobody).status.code(), Some(1));
}

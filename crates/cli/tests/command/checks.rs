//! `campanile check`, `serve --check`, SIGHUP, `doctor REFERENCE` and `man`.

use super::{campanile, json, refusal};
use crate::support::{Serve, TempPath, nobodys_address, serve, text};
use giop::ior::{Component, IiopProfile, Ior, Profile};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::Stdio;

#[test]
fn a_service_is_checked_as_monitoring_wants_it() {
    let serve = Serve::start();
    let checked = |options: &[&str]| {
        let output = serve.run("check", &[&["--interval", "0.05"], options].concat());
        (output.status.code().unwrap(), text(&output.stdout))
    };
    let (status, said) = checked(&[]);
    assert_eq!(status, 0, "{said}");
    assert!(said.starts_with("CAMPANILE OK - 0 consumers, none of them slow | slow=0;1;;0 held=0;1;1;0 "), "{said}");
    assert!(said.contains(" oldest=0s;;;0 ") && said.contains(" consumers=0;;;0 time="), "{said}");

    // A consumer that an operator or itself has suspended keeps what comes.
    let mut sub = serve.subscribe(&["--json"]);
    serve.print("pub", &["x=1"]);
    sub.line();
    sub.signal("STOP");
    serve.print("pub", &["--count", "20", "x=2"]);
    testing::wait_until("events wait", || checked(&["--backlog", "5,10"]).0 == 2);
    let (status, said) = checked(&["--slow-events", "10", "--oldest", "0.000001,1000"]);
    assert_eq!(status, 1, "{said}");
    assert!(said.starts_with("CAMPANILE WARNING - 1 slow, the oldest waits for "), "{said}");
    let second = said.lines().nth(1).unwrap();
    assert!(
        second.starts_with("\"campanile@") && second.contains("\": consumer proxy ") && second.ends_with(" wait"),
        "{said}"
    );
    assert_eq!(checked(&["--channel", "0", "--slow-events", "10", "--slow", "1,1"]).0, 2);
    let (status, said) = checked(&["--channel", "0", "--oldest", "0.000001,1000"]);
    assert!(status == 1 && said.contains("the oldest waits for "), "{said}");
    assert_eq!(checked(&["--slow-events", "1000"]).0, 0);
    sub.signal("CONT");
}

#[test]
fn a_service_that_does_not_answer_is_critical_and_what_makes_no_sense_unknown() {
    for (arguments, status) in [
        (&["check", "--server", &nobodys_address()][..], 2),
        (&["check", "--server", "no such file"], 3),
        (&["check", "--slow", "5,1"], 3),
        (&["check", "--fly"], 3),
    ] {
        let output = campanile(arguments);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", text(&output.stdout));
    }
    let output = campanile(&["check", "--server", &nobodys_address()]);
    assert!(text(&output.stdout).starts_with("CAMPANILE CRITICAL - cannot connect to "));
    let serve = Serve::start();
    assert_eq!(serve.run("check", &["--channel", "7"]).status.code(), Some(3));
}

#[test]
fn a_configuration_is_checked_and_nothing_is_opened() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let good = TempPath::file(
        "good.toml",
        &format!(
            "listen = \"{address}\"\n[[channels]]\nname = \"Plant\"\n[channels.properties]\nFullOutbox = \"Discard\"\n"
        ),
    );
    let output = campanile(&["serve", "--check", "--config", good.path(), "--data", "/nowhere/at/all"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.starts_with("campanile: nothing is wrong with the configuration of "), "{said}");
    assert!(said.ends_with("; it declares 1 channel\n"), "{said}");
    for (config, says) in [
        ("colour = 1", "unknown field `colour`"),
        ("listen = \"nowhere\"", "listen"),
        ("listen = \"0.0.0.0:1\"", "--advertise"),
        ("limits.connections_max = 0", "limits.connections_max = 0 is out of range"),
        ("log.level = \"loud\"", "loud"),
        ("[[channels]]\nname = \"Plant\"\n[channels.properties]\nFullOutbox = \"Sometimes\"", "FullOutbox"),
        ("topology = \"/nowhere/plant.json\"", "/nowhere/plant.json"),
        ("naming.outside = \"nonsense\"", "nonsense"),
        ("http.listen = \"nowhere\"", "http.listen"),
        ("http.listen = \"0.0.0.0:1\"", "http.token_file"),
        ("http.token_file = \"/nowhere/token\"", "/nowhere/token"),
        ("tls.http_listen = \"1\"", "tls.certificate"),
        (
            "[[tempo.types]]\ntopic = \"A\"\ntype = \"struct A { any x; };\"",
            "`A.x` is of `any`, which messages do not have",
        ),
    ] {
        let file = TempPath::file("wrong.toml", config);
        let (said, status) = refusal(&["serve", "--check", "--config", file.path()]);
        assert_eq!(status, 2, "{config}: {said}");
        assert!(said.contains(says), "{config}: {said}");
    }
}

/// Reads lines of a log until one has this in it.
fn wait_for(log: &mut BufReader<impl Read>, part: &str) -> String {
    let mut line = String::new();
    while !line.contains(part) {
        line.clear();
        assert!(log.read_line(&mut line).unwrap() > 0, "the log ended before it said {part}");
    }
    line
}

#[test]
fn a_signal_has_the_configuration_read_again() {
    let of = |level: &str, limit: u32, connections: u32| {
        format!(
            "listen = \"127.0.0.1:0\"\nlimits.connections_max = {connections}\nlog.level = \"{level}\"\nlog.format = \"json\"\n\
             [[channels]]\nname = \"Plant\"\n[channels.properties]\nMaxConsumers = {limit}\n"
        )
    };
    let file = TempPath::file("again.toml", &of("info", 3, 100));
    let mut child = serve(&["--config", file.path()]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut ready = String::new();
    let leash = testing::Leash::new(&child, "a service to be ready and to log");
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    let address = ready.split(&[' ', ','][..]).nth(3).unwrap().to_owned();
    let limit = || {
        let output = campanile(&["ls", "--server", &address, "--json", "--long", "-c", "1"]);
        json(&text(&output.stdout))["channels"][0]["admin"]["MaxConsumers"].clone()
    };
    let before = limit();
    std::fs::write(file.path(), of("debug", 7, 200)).unwrap();
    crate::support::send_signal(&child, "HUP");
    let line = json(&wait_for(&mut log, "counts when the service is started again"));
    assert_eq!(line["level"], "WARN");
    assert!(line["message"].as_str().unwrap().contains("limits.connections_max"), "{line}");
    let line = json(&wait_for(&mut log, "now count"));
    assert!(line["message"].as_str().unwrap().ends_with("now count [log], channel Plant"), "{line}");
    assert_ne!(limit(), before);
    // New connections are logged at this level only.
    wait_for(&mut log, "accepted a connection");
    std::fs::write(file.path(), "colour = 1").unwrap();
    crate::support::send_signal(&child, "HUP");
    wait_for(&mut log, "the configuration is left as it was");
    drop(leash);
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
fn a_signal_has_timers_read_again_and_those_of_a_channel_that_is_gone_stay() {
    let of = |channels: &str| format!("listen = \"127.0.0.1:0\"\n{channels}");
    let weather = |every: &str| {
        of(&format!("[[channels]]\nname = \"Weather\"\n[[channels.timers]]\nname = \"tick\"\nevery = \"{every}\"\n"))
    };
    let file = TempPath::file("timers.toml", &weather("20min"));
    let (serve, mut log) = Serve::start_heard(&["--config", file.path(), "--log", "info"]);
    let times = || {
        let listed = json(&serve.print("channel", &["ls", "--json"]));
        let timers = listed.as_array().unwrap().iter().filter_map(|channel| channel["timers"].as_array());
        timers.flatten().map(|timer| timer["time_ns"].as_u64().unwrap() / 60_000_000_000).collect::<Vec<_>>()
    };
    assert_eq!(times(), [20]);
    for (text, log_line, minutes) in [
        (weather("30min"), "now count channel Weather", 30),
        (weather("0s"), "the configuration is left as it was", 30),
        (of(""), "channel Weather is declared no more, and stays with its timers until", 30),
    ] {
        std::fs::write(file.path(), text).unwrap();
        serve.signal("HUP");
        wait_for(&mut log, log_line);
        assert_eq!(times(), [minutes], "{log_line}");
    }
}

#[test]
fn a_reference_is_decoded_and_tried() {
    let serve = Serve::start();
    let output = campanile(&["doctor", &serve.address, "--json"]);
    let told = json(&text(&output.stdout));
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert_eq!((&told["ready"], &told["profiles"][0]["host"]), (&true.into(), &"127.0.0.1".into()));
    let state = |told: &serde_json::Value, name: &str| {
        let findings = told["findings"].as_array().unwrap();
        findings.iter().find(|finding| finding["name"] == name).map(|finding| finding["state"].clone())
    };
    assert_eq!(state(&told, "address"), Some("note".into()));
    assert_eq!(state(&told, "connection"), Some("well".into()));
    assert_eq!(state(&told, "object"), Some("well".into()));
    assert_eq!(state(&told, "its references"), Some("note".into()));
    assert_eq!((state(&told, "code sets"), state(&told, "GIOP")), (Some("well".into()), Some("well".into())));

    // The service is reached, and writes a name into its references that leads nowhere.
    let astray = Serve::start_with(&["--listen", "127.0.0.1:0", "--advertise", "nowhere.invalid", "--log", "error"]);
    let output = campanile(&["doctor", &astray.address.replace("nowhere.invalid", "127.0.0.1"), "--json"]);
    let told = json(&text(&output.stdout));
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert_eq!(state(&told, "its references"), Some("in the way".into()), "{told}");

    let nobody = nobodys_address();
    let output = campanile(&["doctor", &format!("corbaloc::{nobody}/NameService")]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("BAD   connection") && said.contains("key NameService"), "{said}");
    let output = campanile(&["doctor", &format!("corbaloc::{}/Nothing", serve.address)]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the object is gone") && said.contains("there is no such object"), "{said}");
    let output = campanile(&["doctor", "corbaloc::nowhere.invalid:1/X", "--json"]);
    let told = json(&text(&output.stdout));
    assert_eq!(state(&told, "address"), Some("in the way".into()), "{told}");
    let output = campanile(&["doctor", "IOR:nonsense"]);
    assert_eq!(output.status.code(), Some(2));
}

/// Whether an object has the type that its reference names was answered by `doctor` itself: a reference to nothing, of a server that
/// runs, was well.
#[test]
fn doctor_asks_the_object_at_each_address_and_says_which_answers() {
    let serve = Serve::start();
    let orb = client::Orb::new(client::OrbOptions::default());
    let real = orb.resolve_service(&serve.address).unwrap().ior().clone();
    let typed = Ior { type_id: "IDL:omg.org/CosNotifyChannelAdmin/EventChannelFactory:1.0".into(), ..real };
    let with_profile = |change: &dyn Fn(&mut IiopProfile)| {
        let mut ior = typed.clone();
        if let Some(Profile::Iiop(profile)) = ior.profiles.first_mut() {
            change(profile);
        }
        ior
    };
    let examined = |reference: &str| {
        let output = campanile(&["doctor", reference, "--json"]);
        let told = json(&text(&output.stdout));
        let findings = told["findings"].as_array().unwrap().clone();
        let of = |name: &str| -> Vec<(String, String)> {
            let named = findings.iter().filter(|finding| finding["name"] == name);
            let both =
                |finding: &serde_json::Value| ["state", "found"].map(|key| finding[key].as_str().unwrap().to_owned());
            named.map(both).map(|[state, found]| (state, found)).collect()
        };
        (output.status.code(), of("connection"), of("object"), of("type"))
    };

    // A key that the server does not know, under the type that it has.
    let (code, _, object, asked) = examined(&with_profile(&|profile| profile.key = b"Nothing".to_vec()).to_string());
    assert_eq!((code, object.len(), asked.len()), (Some(1), 1, 0), "{object:?}");
    assert!(object[0].0 == "in the way" && object[0].1.contains("there is no such object"), "{object:?}");

    // The first address is dead, an alternate one and another profile lead there.
    let nobody: std::net::SocketAddr = nobodys_address().parse().unwrap();
    let alive: std::net::SocketAddr = serve.address.parse().unwrap();
    let mut ior = with_profile(&|profile| {
        (profile.host, profile.port) = (nobody.ip().to_string(), nobody.port());
        (profile.version, profile.components) = (giop::cdr::Version::V1_2, Vec::new());
        profile.components.push(Component::alternate_address(&alive.ip().to_string(), alive.port()));
    });
    ior.profiles.extend(typed.profiles.clone());
    let folder = TempPath::folder("doctor");
    let file = folder.join("several.ior");
    std::fs::write(&file, format!("{ior}\n")).unwrap();
    for reference in [ior.to_string(), format!("file:{}", file.display()), format!("file://{}", file.display())] {
        let (code, connection, object, asked) = examined(&reference);
        assert_eq!(code, Some(0), "{connection:?} {object:?}");
        let states: Vec<&str> = connection.iter().map(|(state, _)| state.as_str()).collect();
        assert_eq!(states, ["note", "well", "well"], "{connection:?}");
        assert_eq!((object.len(), asked.len()), (2, 1), "{object:?} {asked:?}");
        let at = |found: &str| found.starts_with(&format!("{alive}: the object is there"));
        assert!(object.iter().all(|(state, found)| state == "well" && at(found)), "{object:?}");
    }
    drop(folder);
    let output = campanile(&["doctor", &format!("file:{}", file.display())]);
    assert_eq!(output.status.code(), Some(2), "there is no such file");
}

#[test]
fn every_command_has_a_man_page() {
    let folder = TempPath::new("man");
    let output = campanile(&["man", folder.path()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert!(page("campanile.1").contains("notification service"));
    assert!(page("campanile-pub.1").contains("\\-\\-idl"));
    assert!(page("campanile-tempo-sub.1").contains("Examples"));
}

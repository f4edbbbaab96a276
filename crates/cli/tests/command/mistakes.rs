//! Mistakes that people make, each answered with what to do.

use crate::support::{Serve, TempPath, serve, start_or_refusal, text};
use crate::{json, refusal};
use std::time::Instant;

#[test]
fn a_port_that_is_taken_is_reported_with_the_option_that_named_it() {
    let other = Serve::start();
    for option in ["--listen", "--json-listen", "--tempo-listen", "--http"] {
        let mut options = vec![option, other.address.as_str()];
        if option != "--listen" {
            options.extend(["--listen", "127.0.0.1:0"]);
        }
        let (output, _) = start_or_refusal(&mut serve(&options));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("choose another port with {option} 127.0.0.1:PORT")), "{option}: {said}");
    }
}

/// It was silent for 32 s.
#[test]
fn a_corba_command_at_the_port_for_json_or_http_says_which_port_it_is() {
    let serve = Serve::start_with(&["--listen", "127.0.0.1:0", "--log", "error", "--json-listen", "127.0.0.1:0"]);
    let began = Instant::now();
    let (said, status) = refusal(&["ls", "-s", &serve.json]);
    assert_eq!(status, 1);
    assert!(said.contains("not a port for CORBA clients"), "{said}");
    assert!(!said.contains("did not answer"), "{said} after {:?}", began.elapsed());
}

/// It was looked up as a host.
#[test]
fn a_missing_reference_file_is_no_host() {
    let (said, status) = refusal(&["ls", "-s", "nowhere.ior"]);
    assert_eq!(status, 2);
    assert!(said.contains("there is no such file") && said.contains("--ior-file"), "{said}");
}

#[test]
fn a_slip_in_a_property_is_answered_with_the_one_that_is_near() {
    let serve = Serve::start();
    for arguments in [&["channel", "set", "0", "HistoryEvent=100"][..], &["channel", "create", "HistoryEvent=100"]] {
        let (said, status) = refusal(&[arguments, &["-s", &serve.address]].concat());
        assert_eq!(status, 1);
        assert!(said.contains("did you mean HistoryEvents?"), "{said}");
    }
    let (said, status) = refusal(&["channel", "set", "0", "Nonsense=100", "-s", &serve.address]);
    assert_eq!(status, 1);
    assert!(said.contains("Nonsense") && !said.contains("did you mean"), "{said}");
    assert_eq!(json(&serve.print("channel", &["ls", "--json"])).as_array().unwrap().len(), 1, "and nothing was made");
}

#[test]
fn a_link_that_there_is_not_is_refused_by_its_name() {
    let serve = Serve::start();
    assert_eq!(json(&serve.print("link", &["ls", "--json"])), serde_json::json!({ "links": [] }));
    assert!(serve.print("link", &["ls"]).starts_with("There are no links"));
    for order in ["pause", "resume"] {
        let (said, status) = refusal(&["link", order, "lab", "-s", &serve.address]);
        assert!(status == 1 && said.contains("there is no link \"lab\""), "{said}");
    }
}

#[test]
fn channels_are_made_listed_and_destroyed_by_name() {
    let serve = Serve::start();
    assert_eq!(serve.print("channel", &["create", "Weather", "MaxConsumers=7"]), "1\n");
    let listed = json(&serve.print("channel", &["ls", "--json"]));
    assert_eq!((&listed[1]["id"], &listed[1]["name"]), (&1.into(), &"Weather".into()));
    assert!(serve.print("info", &["Weather"]).contains("MaxConsumers             7"));
    let again = serve.run("channel", &["create", "Weather"]);
    assert!(text(&again.stderr).contains("already, number 1"), "{}", text(&again.stderr));
    // Without a terminal, too, the slip comes before the question; and nothing is destroyed before all are found.
    for options in [&["rm", "Weathr", "--yes"][..], &["rm", "Weathr"], &["rm", "Weather", "Weathr", "--yes"]] {
        let missing = serve.run("channel", options);
        assert!(text(&missing.stderr).contains("did you mean Weather?"), "{}", text(&missing.stderr));
        assert_eq!(missing.status.code(), Some(1));
    }
    let unasked = serve.run("channel", &["rm", "Weather"]);
    assert!(text(&unasked.stderr).contains("say --yes") && unasked.status.code() == Some(2));
    assert_eq!(serve.print("channel", &["rm", "Weather", "--yes"]), "destroyed channel 1 (Weather)\n");
    let gone = serve.run("info", &["Weather"]);
    assert!(text(&gone.stderr).contains("there is no channel \"Weather\""), "{}", text(&gone.stderr));
}

/// `campanile sub --channel Weathr` made a channel that stayed.
#[test]
fn what_only_looks_makes_no_channel_unless_it_is_asked_to() {
    let serve = Serve::start();
    serve.print("channel", &["create", "Weather"]);
    let file = TempPath::file("mistaken.events", "");
    for command in
        [&["sub"][..], &["hz"], &["bw"], &["types"], &["latency"], &["top"], &["record", file.path(), "--append"]]
    {
        let (command, rest) = command.split_first().unwrap();
        let output = serve.run(command, &[rest, &["--channel", "Weathr"]].concat());
        assert_eq!(output.status.code(), Some(1), "{command}");
        let said = text(&output.stderr);
        assert!(
            said.contains("there is no channel \"Weathr\"") && said.contains("did you mean Weather?"),
            "{command}: {said}"
        );
    }
    assert_eq!(json(&serve.print("channel", &["ls", "--json"])).as_array().unwrap().len(), 2);
    let sub = serve.subscribe(&["--channel", "Dome", "--create", "-n", "1", "--field", "azimuth"]);
    serve.print("pub", &["--channel", "Dome", "Dome/Position", "azimuth=3"]);
    assert_eq!(sub.wait().stdout, "3\n");
    let (missing, status) = refusal(&["replay", "Weathr", "-s", &serve.address]);
    assert!(status == 1 && missing.contains("no channel of that name either"), "{missing}");
    let made = serve.run("pub", &["--channel", "Camera", "x=1"]);
    assert!(text(&made.stderr).starts_with("campanile: made the channel Camera (number 3)\npublished 1 event in "));
}

#[test]
fn a_token_whose_file_is_missing_is_shown_with_what_it_means() {
    let config = TempPath::file(
        "tokens.toml",
        "tokens = { sensor = \"file:/nowhere/token\" }\n[[access]]\nwho = [\"token:sensor\"]\nmay = [\"publish\"]\n",
    );
    let output = crate::campanile(&["access", "ls", "--config", config.path()]);
    let shown = text(&output.stdout);
    assert!(shown.contains("warning: ") && shown.contains("/nowhere/token"), "{shown}{}", text(&output.stderr));
    assert!(shown.contains("does not start without it"), "{shown}");
}

/// It was published, as a test event without fields.
#[test]
fn a_type_with_two_strokes_is_refused_wherever_it_is_said() {
    let serve = Serve::start();
    for arguments in [&["Weather/Wind/Gust", "speed=3"][..], &["--type", "Weather/Wind/Gust", "speed=3"]] {
        let (said, status) = refusal(&[&["pub", "-s", &serve.address], arguments].concat());
        assert_eq!(status, 2);
        assert!(said.contains("a type is DOMAIN/NAME, and the name has no /"), "{said}");
    }
    for arguments in [&["events.json"][..], &["--type", "a=3"], &["Wind", "speed"]] {
        assert_eq!(refusal(&[&["pub", "-s", &serve.address], arguments].concat()).1, 2, "{arguments:?}");
    }
}

/// `sub Weather` would wait for ever where somebody means the channel.
#[test]
fn a_type_without_a_domain_is_a_word_unless_it_is_that_of_a_channel() {
    let serve = Serve::start();
    serve.print("channel", &["create", "Weather"]);
    for command in [&["sub", "Weather"][..], &["pub", "Weather", "speed=1"]] {
        let (said, status) = refusal(&[command, &["-s", &serve.address]].concat());
        assert!(status == 2 && said.contains("--channel Weather names it, and /Weather the event type"), "{said}");
    }
    for (subscribed, published) in [
        (&["Wind"][..], &["Wind"][..]),
        (&["/Wind"], &["--type", "Wind"]),
        (&["Wi*"], &["/Wind"]),
        (&["/Weather"], &["/Weather"]),
        (&["Weather", "--channel", "0"], &["Weather", "--channel", "0"]),
    ] {
        let sub = serve.subscribe(&[subscribed, &["-n", "1", "--field", "domain_name"]].concat());
        let published = serve.run("pub", &[published, &["speed=1"]].concat());
        assert!(text(&published.stderr).contains("type W"), "{}", text(&published.stderr));
        assert_eq!(sub.wait().stdout, "\n", "{subscribed:?}");
    }
}

//! `campanile pub --json` and `--idl`.

use super::{campanile, json};
use crate::support::{Serve, TempPath, text};
use serde_json::Value as Json;
use std::io::Write;
use std::process::{Output, Stdio};

const IDL: &str = "module weather {
    enum State { OK, FAILED };
    struct Place { double lat, lon; };
    struct Wind { float speed; short gusts; State state; string<8> station; sequence<double, 3> samples; Place place; };
};";

const WIND: [&str; 6] =
    ["speed=12.5", "gusts=3", "state=FAILED", "station=DV1", "samples=[1,2.5]", r#"place={"lat":1.5,"lon":-70}"#];

/// A `campanile pub` that is given lines.
fn publish(serve: &Serve, options: &[&str], lines: &str) -> Output {
    let mut command = serve.command("pub", options);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let _leash = testing::Leash::new(&child, "a publisher to end");
    // A command that has ended reads none of them.
    let _ = child.stdin.take().unwrap().write_all(lines.as_bytes());
    child.wait_with_output().unwrap()
}

fn without_time(line: &str) -> Json {
    let mut event = json(line);
    event.as_object_mut().unwrap().remove("received");
    event
}

#[test]
fn what_sub_prints_is_published_as_it_was() {
    let (one, other) = (Serve::start(), Serve::start());
    let sub = one.subscribe(&["--json", "-n", "3"]);
    let options = ["--type", "Telescope/Temperature", "--name", "dome-3", "--header", "Priority:short=3"];
    one.print("pub", &[&options[..], &["--body", "{\"x\":1}", "celsius=11.5", "n=7", "tags=[\"a\"]"]].concat());
    one.print("pub", &["--size", "4"]);
    one.print("pub", &["a=1", "a=2"]);
    let printed = sub.wait().stdout;

    let again = other.subscribe(&["--json", "-n", "3"]);
    let output = publish(&other, &["--json"], &printed);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.starts_with("published 3 events in "), "{said}");
    assert!(said.ends_with("; types 2 Campanile/Test, 1 Telescope/Temperature; 3 sent, 3 confirmed\n"), "{said}");
    let came = again.wait().stdout;
    let lines = |text: &str| text.lines().map(without_time).collect::<Vec<_>>();
    assert_eq!(lines(&came), lines(&printed));
}

#[test]
fn a_file_of_lines_is_published_and_what_a_line_leaves_out_the_options_say() {
    let serve = Serve::start();
    let sub = serve.subscribe(&["--json", "-n", "2"]);
    let file = TempPath::file("two.events", "{\"fields\":{\"x\":1}}\n\n{\"domain\":\"C\",\"fields\":{\"x\":2}}\n");
    let output = serve.run("pub", &["--json", file.path(), "--type", "A/B"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let came: Vec<Json> = sub.wait().stdout.lines().map(json).collect();
    assert_eq!([&came[0]["type"], &came[1]["type"]], ["A/B", "C/B"]);
    assert_eq!(came[1]["fields"]["x"], 2);
}

#[test]
fn a_line_that_is_no_event_is_named_and_what_came_before_is_counted() {
    let serve = Serve::start();
    let output = publish(&serve, &["--json"], "{\"fields\":{\"x\":1}}\n{\"fields\":[1]}\n{\"fields\":{\"x\":3}}\n");
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("published 1 event in ") && said.contains("; 1 sent, 1 confirmed\n"), "{said}");
    assert!(said.ends_with("campanile: standard input, line 2: `fields` is not an object\n"), "{said}");
    let output = serve.run("pub", &["--json", "/nowhere/events"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn fields_become_a_struct_that_idl_declares() {
    let serve = Serve::start();
    let file = TempPath::file("wind.idl", IDL);
    let sub = serve.subscribe(&["--json", "-n", "2"]);
    serve.print("pub", &[&["--idl", file.path(), "--type", "Weather/Wind"][..], &WIND].concat());
    let lines = concat!(
        r#"{"fields":{"speed":1,"gusts":-3,"state":"OK","station":"","samples":[],"place":{"lat":0,"lon":0}}}"#,
        "\n"
    );
    let alma = ["--json", "--idl", file.path(), "--type", "ALMA/weather::Wind", "--event-form", "alma"];
    let output = publish(&serve, &alma, lines);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let came: Vec<Json> = sub.wait().stdout.lines().map(json).collect();
    assert_eq!(came[0]["type"], "Weather/Wind");
    // What is among the fields is shown there alone.
    let wind = json(r#"{"samples":[1.0,2.5],"place":{"lat":1.5,"lon":-70.0}}"#);
    assert_eq!(came[0]["body"], serde_json::json!({ "type": "Wind", "value": wind }));
    assert_eq!(came[0]["fields"], json(r#"{"speed":12.5,"gusts":3,"state":"FAILED","station":"DV1"}"#));
    assert_eq!((&came[1]["type"], &came[1]["body"]), (&"ALMA/Wind".into(), &Json::Null));
    assert_eq!(came[1]["fields"]["Wind"]["gusts"], -3);
    assert_eq!(came[1]["fields"].as_object().unwrap().len(), 1);
    // What came of a struct becomes one again.
    let sub = serve.subscribe(&["--json", "-n", "2"]);
    let printed = came.iter().map(|event| format!("{event}\n")).collect::<String>();
    let output = publish(&serve, &["--json", "--idl", file.path(), "--type", "Weather/Wind"], &printed);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let again: Vec<Json> = sub.wait().stdout.lines().map(json).collect();
    assert_eq!(again[0]["body"]["value"], wind);
    assert_eq!(again[1]["fields"]["gusts"], -3);
}

#[test]
fn what_does_not_fit_the_struct_is_reported_with_its_path_before_any_call() {
    let file = TempPath::file("bad-wind.idl", IDL);
    let refused = |options: &[&str]| {
        let output = campanile(&[&["pub", "--server", "192.0.2.1:1", "--idl", file.path()], options].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        text(&output.stderr)
    };
    let with = |index: usize, field: &'static str| {
        let mut fields = WIND.to_vec();
        fields[index] = field;
        refused(&[&["--type", "Wind"], &fields[..]].concat())
    };
    for (index, field, says) in [
        (1, "gusts=40000", "Wind.gusts: 40000 is out of the range of `short`, which is -32768 to 32767"),
        (2, "state=BAD", "Wind.state: \"BAD\" is not a value of `State`: OK, FAILED"),
        (3, "station=far too long", "Wind.station: this text has 12 characters; `string<8>` has 8 at most"),
        (4, "samples=[1,2,3,4]", "Wind.samples: there are 4 elements"),
        (5, r#"place={"lat":1}"#, "Wind.place.lon: is missing (`double`)"),
        (0, "spede=1", "`Wind` has no member `spede`, but speed, gusts"),
    ] {
        let said = with(index, field);
        assert!(said.contains(says), "{field}: {said}");
    }
    let said = refused(&["--type", "Rain", "mm=1"]);
    assert!(said.contains("there is no type `Rain`; the structs are `weather::Place`, `weather::Wind`"), "{said}");
    let said = refused(&["speed=1"]);
    assert!(
        said.contains("it defines several structs; say which with --type: weather::Place, weather::Wind"),
        "{said}"
    );
    let broken = TempPath::file("broken.idl", "struct Wind {\n  doble speed;\n};");
    let output = campanile(&["pub", "--idl", broken.path(), "speed=1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("broken.idl: line 2, column 3: `doble` is no type"),
        "{}",
        text(&output.stderr)
    );
}

/// Over both transports, as far as this was built with them.
#[test]
fn structs_reach_a_channel_that_is_found_by_its_name() {
    let serve = Serve::start();
    let file = TempPath::file("named-wind.idl", IDL);
    let transports = if cfg!(feature = "dds") { &["notification", "dds"][..] } else { &["notification"] };
    for transport in transports {
        let name = format!("Weather{}", std::process::id());
        let by_name = ["--channel", &name, "--transport", transport];
        let sub = serve.subscribe(
            &[
                &by_name[..],
                &[
                    "--create",
                    "--json",
                    "-n",
                    "3",
                    "--where",
                    "(exist $x and $x == 7) or (exist $gusts and $gusts >= 3)",
                ],
            ]
            .concat(),
        );
        let typed = ["--idl", file.path(), "--type", "Weather/Wind"];
        let output = serve.run("pub", &[&by_name[..], &typed, &WIND].concat());
        let said = text(&output.stderr);
        assert!(output.status.success(), "{transport}: {said}");
        assert!(*transport != "dds" || said.contains("; type Weather/Wind on channel Weather"), "{said}");
        let lines = concat!(
            r#"{"fields":{"speed":1,"gusts":2,"state":"OK","station":"","samples":[],"place":{"lat":0,"lon":0}}}"#,
            "\n",
            r#"{"fields":{"speed":1,"gusts":4,"state":"OK","station":"","samples":[],"place":{"lat":0,"lon":0}}}"#,
            "\n"
        );
        let output = publish(&serve, &[&by_name[..], &typed, &["--json"]].concat(), lines);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let output = serve.run("pub", &[&by_name[..], &["--type", "Some/Thing", "x=7"]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let came: Vec<Json> = sub.wait().stdout.lines().map(json).collect();
        let bodies: Vec<&Json> = came.iter().map(|event| &event["body"]["value"]).collect();
        // Event domains are domains of DDS there, and not printed.
        assert_eq!(came[0]["type"], if *transport == "dds" { "Wind" } else { "Weather/Wind" }, "{transport}");
        let gusts = came[1]["fields"].get("gusts").unwrap_or(&bodies[1]["gusts"]);
        assert_eq!((&bodies[0]["place"]["lon"], gusts), (&(-70.0).into(), &4.into()));
        let x = if *transport == "dds" { &bodies[2]["x"] } else { &came[2]["fields"]["x"] };
        assert_eq!(x, &7, "{transport}: {came:?}");
    }
    let output = campanile(&["pub", "--channel", "7", "--transport", "dds", "x=1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("over DDS a channel has a name"), "{}", text(&output.stderr));
    if !cfg!(feature = "dds") {
        let output = campanile(&["sub", "--channel", "X", "--transport", "dds"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("--features dds"), "{}", text(&output.stderr));
    }
}

/// The service names ISO 8859-1 first, and `pub`, `sub --where` and `replay` took that: 東 went out as `?`, and the consumer that asked for
/// it got the event with the value `?`.
#[test]
fn text_beyond_iso_8859_1_is_published_asked_for_and_printed_as_it_is() {
    let serve = Serve::start();
    let sub = serve.subscribe(&["--json", "--where", "$v == '東'", "-n", "2"]);
    serve.print("pub", &["--type", "天気/風", "v=?"]);
    serve.print("pub", &["--type", "天気/風", "v=東", "n=1"]);
    let line = r#"{"domain":"天気","type":"風","fields":{"v":"東","n":2}}"#;
    let output = publish(&serve, &["--json"], &format!("\u{feff}{line}\n"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let came = sub.wait().stdout;
    let of = |line: &str| {
        let event = json(line);
        (event["type"].clone(), event["fields"]["v"].clone(), event["fields"]["n"].clone())
    };
    let expected = |n: i32| (Json::from("天気/風"), Json::from("東"), Json::from(n));
    assert_eq!(came.lines().map(of).collect::<Vec<_>>(), [expected(1), expected(2)]);
}

#[test]
fn a_line_that_would_lose_something_is_refused_with_the_path_of_it() {
    let serve = Serve::start();
    for (line, says) in [
        (r#"{"fields":{"n":1,"n":2}}"#, "`fields.n` is given twice"),
        (
            r#"{"fields":{"n":18446744073709551616}}"#,
            "`fields.n`: 18446744073709551616 is beyond the whole numbers of 64 bits",
        ),
    ] {
        let output = publish(&serve, &["--json"], &format!("{line}\n"));
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(says), "{line}: {said}");
    }
    let output = serve.run("pub", &["speed:float=1e300"]);
    assert!(text(&output.stderr).contains("1e300 is out of the range of `float`"), "{}", text(&output.stderr));
}

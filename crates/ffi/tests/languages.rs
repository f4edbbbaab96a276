//! The same scenarios in C, C++ and Java, at a service of this process; and events of each read by the others.
//!
//! The programs are in `tests/c`, `tests/cpp` and `java/src/test`. Each takes a scenario's name, and says what it wants the driver to do in
//! lines that begin with `> `.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod programs;

use campanile::{Consumer, Event, EventForm, Settings, Supplier};
use interop::{Orb, channel_for_programs, further_consumer, supplier};
use programs::{C, CPP, Frozen, JAVA, Language, begin, begin_at, begin_with_history, programs};
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime};
use testing::NextInTime;

/// Runs a scenario in these languages.
fn all_pass(scenario: &str, languages: &[Language]) {
    for language in languages {
        let (service, _settings) = begin();
        let listen = service.address().to_string();
        let mut service = Some(service);
        let mut program = programs().start(*language, &[scenario], &listen);
        program.run(|asked| match asked {
            "stop" => service.take().unwrap().shutdown(),
            "start" => service = Some(begin_at(&listen).0),
            other => panic!("{language} asks for {other:?}"),
        });
        program.passes();
    }
}

/// Runs a scenario in these languages at a service, and over DDS, where late joiners get so many of the latest events: a consumer of another
/// type than the supplier's, or of any, has a reader made when the supplier is seen.
fn all_pass_over_both(scenario: &str, languages: &[Language], late_joiners: u32) {
    all_pass(scenario, languages);
    all_pass_over_dds(scenario, languages, late_joiners);
}

fn all_pass_over_dds(scenario: &str, languages: &[Language], late_joiners: u32) {
    for language in languages {
        let mut program = programs().start_over_dds(*language, &[scenario], late_joiners);
        program.run(|asked| panic!("{language} asks for {asked:?}, where there is no service"));
        program.passes();
    }
}

#[test]
fn events_come_back_as_they_were_in_order_and_all_confirmed() {
    all_pass_over_both("publish", &[C, CPP, JAVA], 0);
}

#[test]
fn a_filter_lets_through_what_it_says_and_a_wrong_one_is_refused() {
    all_pass_over_both("filter", &[C, CPP, JAVA], 2);
}

#[test]
fn programs_find_back_when_the_service_is_restarted_and_report_the_gap() {
    all_pass("restart", &[C, CPP, JAVA]);
}

#[test]
fn a_consumer_begins_in_the_history_and_goes_on_where_it_was() {
    for language in [C, CPP, JAVA] {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("history-{language}"));
        let _ = std::fs::remove_dir_all(&folder);
        let service = begin_with_history(&format!("{}:0", testing::own_loopback()), &folder);
        let listen = service.address().to_string();
        let mut service = Some(service);
        let mut program = programs().start(language, &["history"], &listen);
        program.run(|asked| {
            assert_eq!(asked, "restart", "{language}");
            service.take().unwrap().shutdown();
            service = Some(begin_with_history(&listen, &folder));
        });
        program.passes();
    }
}

#[test]
fn a_stop_token_ends_a_loop_over_events_and_a_descriptor_says_when_there_are_some() {
    let (service, _settings) = begin();
    let server = service.address().to_string();
    programs::output(std::process::Command::new(programs().stop_example()).env("CAMPANILE_SERVER", server));
}

#[test]
fn a_slow_consumer_hinders_no_other_and_loses_nothing() {
    all_pass_over_both("slow_consumer", &[CPP, JAVA], 0);
}

#[test]
fn another_type_under_the_same_name_is_reported_with_both() {
    all_pass_over_both("type_mismatch", &[C, CPP, JAVA], 1);
}

#[test]
fn a_writer_that_does_not_match_is_reported_and_reliability_is_a_setting() {
    all_pass_over_dds("incompatible", &[C, CPP, JAVA], 0);
}

#[test]
fn text_of_all_the_world_comes_back_and_what_is_no_text_is_refused() {
    all_pass_over_both("unicode", &[CPP, JAVA], 0);
}

#[test]
fn structs_within_structs_come_back() {
    all_pass_over_both("nested", &[CPP, JAVA], 0);
}

#[test]
fn a_thousand_types_go_through_one_channel() {
    all_pass_over_both("thousand_types", &[CPP, JAVA], 1);
}

#[test]
fn each_type_goes_to_its_callback_and_others_come_as_dictionaries() {
    all_pass_over_both("types", &[CPP, JAVA], 1);
}

#[test]
fn members_go_by_name_and_numbers_widen() {
    all_pass_over_both("evolution", &[CPP, JAVA], 1);
}

#[test]
fn a_member_that_does_not_come_is_reported_by_its_path() {
    all_pass_over_both("missing", &[CPP, JAVA], 1);
}

#[test]
fn a_supplier_waits_for_a_service_if_it_is_set_so() {
    all_pass("wait", &[CPP, JAVA]);
}

#[test]
fn misuse_is_reported_and_harms_no_other() {
    all_pass("misuse", &[C, CPP, JAVA]);
}

#[test]
fn a_forked_child_is_notified_and_begins_anew() {
    all_pass_over_both("fork", &[C, CPP], 0);
}

#[test]
fn a_program_that_leaves_with_events_under_way_says_how_many_were_not_confirmed() {
    if Frozen::serve() {
        return;
    }
    for language in [C, CPP, JAVA] {
        let service = Frozen::start();
        let mut program = programs().start(language, &["exit"], &service.address);
        program.run(|asked| {
            assert_eq!(asked, "freeze");
            service.freeze();
        });
        let said = program.passes();
        assert!(said.contains("10 of 11 events published into Weather were not confirmed"), "{language}: {said}");
    }
}

/// Octets on the heap of which a consumer that came and went may seem to have left so many: what others keep is not always the same.
const LEFT_MAX: u64 = 512;

/// All numbers by this name that a program tells, together.
fn sum(told: &str, name: &str) -> u64 {
    let name = format!("\"{name}\":");
    let behind = told.split(&name).skip(1);
    behind.map(|text| text.split([',', '}']).next().unwrap().parse::<u64>().unwrap()).sum()
}

/// `campanile-bench soak` does this for half an hour.
#[test]
fn consumers_that_come_and_go_on_both_transports_leave_nothing_on_the_heap() {
    let (service, _settings) = begin();
    let mut program = programs().start_soak(14, &service.address().to_string());
    let mut told = Vec::new();
    while told.len() < 8 {
        told.push(program.next_request().unwrap_or_else(|| panic!("{}", program.errors())));
        program.go_on();
    }
    // In the first half what is kept for the next one finds its size.
    let [early, last] = [&told[3], &told[7]];
    let visits = sum(last, "subscribers") - sum(early, "subscribers");
    assert_eq!(visits, 4 * 4 * 14, "{told:?}");
    assert!(sum(last, "heap_bytes") <= sum(early, "heap_bytes") + LEFT_MAX * visits, "{told:?}");
    assert_eq!(sum(last, "published"), sum(last, "received"), "{last}");
    program.passes();
}

#[derive(Event, Clone, Copy, Debug, PartialEq)]
#[expect(non_camel_case_types, reason = "the labels are the same in all languages")]
enum State {
    ok,
    broken,
}

#[derive(Event, Clone, Debug, PartialEq)]
struct Place {
    x: f64,
    y: f64,
    note: Option<String>,
}

#[derive(Event, Clone, Debug, PartialEq)]
struct Wind {
    speed: f64,
    direction: f64,
}

/// What each of the programs has, too.
#[derive(Event, Clone, Debug, PartialEq)]
struct Sample {
    speed: f64,
    direction: f32,
    station: String,
    state: State,
    place: Place,
    gusts: Vec<f32>,
    history: Vec<Place>,
    raw: Vec<u8>,
    axes: [i16; 3],
    sign: char,
    small: i8,
    calm: bool,
    at: SystemTime,
    lasted: Duration,
    bits: Vec<bool>,
    far: i64,
    farther: u64,
    grid: [[i32; 2]; 3],
    pairs: Vec<[u16; 2]>,
}

fn sample(speed: f64) -> Sample {
    let place = Place { x: 1.0, y: -2.5, note: Some("Dach; крыша; 屋根".into()) };
    Sample {
        speed,
        direction: 270.0,
        station: "Überlingen 塔".into(),
        state: State::broken,
        history: vec![Place { note: None, ..place.clone() }, place.clone()],
        place,
        gusts: vec![1.5, 2.5, f32::INFINITY],
        raw: vec![1, 2, 255],
        axes: [-1, 0, 1],
        sign: '風',
        small: -5,
        calm: false,
        at: SystemTime::UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_700),
        lasted: Duration::from_micros(1_500_000),
        bits: vec![true, false],
        far: i64::MIN,
        farther: u64::MAX,
        grid: [[1, 2], [3, 4], [5, 6]],
        pairs: vec![[7, 65535]],
    }
}

#[test]
fn what_one_language_writes_all_others_read() {
    let (service, settings) = begin();
    let listen = service.address().to_string();
    let idl = idl::text(Sample::event_type());
    // From Rust through each language into the next, and back: so that each of them is read by another and by Rust.
    let path = [CPP, JAVA, C, CPP, C, JAVA, CPP];
    let mut running = Vec::new();
    for (place, language) in path.iter().enumerate() {
        let (from, to) = (format!("Pass{place}"), format!("Pass{}", place + 1));
        let mut words = vec!["pass", &from, &to];
        if *language == C {
            words.extend([idl.as_str(), "Sample"]);
        }
        let mut program = programs().start(*language, &words, &listen);
        assert_eq!(program.next_request().as_deref(), Some("ready"), "{language}: {}", program.errors());
        running.push(program);
    }
    let mut readers = Vec::new();
    for place in 0..=path.len() {
        let (sender, events) = channel();
        let consumer = Consumer::new(&format!("Pass{place}")).settings(settings.clone());
        let consumer = consumer.on(move |sample: Sample| drop(sender.send(sample))).unwrap().ready().unwrap();
        readers.push((consumer, events));
    }
    let supplier = Supplier::with("Pass0", &settings).unwrap();
    for speed in [1.0, -0.0, f64::INFINITY, f64::MIN_POSITIVE] {
        supplier.publish(&sample(speed)).unwrap();
        for (_, events) in &readers {
            assert_eq!(events.next_in_time(), sample(speed));
        }
    }
    for mut program in running {
        program.go_on();
        program.passes();
    }
}

#[test]
fn the_package_for_cmake_builds_a_program_elsewhere() {
    let (service, _settings) = begin();
    let program = programs().cmake_example();
    let said =
        programs::output(std::process::Command::new(program).env("CAMPANILE_SERVER", service.address().to_string()));
    assert_eq!(said, "11.5\n");
}

#[test]
fn the_first_example_of_each_readme_builds_and_publishes() {
    let (service, settings) = begin();
    let (sender, events) = channel();
    let consumer = Consumer::new("Weather").settings(settings).on(move |wind: Wind| drop(sender.send(wind)));
    let _consumer = consumer.unwrap().ready().unwrap();
    for (readme, compiler, standard, extension) in
        [("README.md", "cc", "-std=c11", "c"), ("cpp/README.md", "c++", "-std=c++17", "cpp")]
    {
        let program = programs().readme_example(readme, compiler, standard, extension);
        let server = service.address().to_string();
        let said = programs::output(std::process::Command::new(program).env("CAMPANILE_SERVER", server));
        assert_eq!(said, if extension == "cpp" { "11.5\n" } else { "" }, "{readme}");
        assert_eq!(events.next_in_time(), Wind { speed: 11.5, direction: 270.0 });
    }
    let said = programs::output(&mut programs().readme_example_in_java(&service.address().to_string()));
    assert_eq!(said, "Wind[speed=11.5, direction=270.0]\n");
    assert_eq!(events.next_in_time(), Wind { speed: 11.5, direction: 270.0 });
}

#[test]
fn settings_come_from_the_environment_of_the_program() {
    // There is no service at that address: what it says names the cause.
    let mut program = programs().start(C, &["publish"], "127.0.0.1:1");
    program.run(|_| ());
    let said = program.fails();
    assert!(said.contains("127.0.0.1:1"), "{said}");
    assert_ne!(Settings::default().server, "127.0.0.1:1");
}

/// Types of the tests with orbs, for C: its programs say their types in IDL.
const NESTED: &str = "\
#pragma prefix \"campanile.org\"
module CampanileTest {
  enum Colour { red, green, blue, violet };
  struct Point { long x; short y; double z; };
  struct Line { Point from; octet weight; Point to; };
  struct Nested { string name; Line outline; Colour tint; Point origin; };
};";

/// Each struct comes from one orb, is published again by a program, and the other orb finds each field of it as the first made it: as a
/// plain Any and then in the body, or as ALMA has it both times.
fn is_passed_on_between_orbs(form: EventForm) {
    let (sent, inside) = if form == EventForm::Alma { ("structured --inside data", "data") } else { ("any", "body") };
    for language in [C, CPP, JAVA] {
        for (from, to) in [(Orb::OmniOrb, Orb::JacOrb), (Orb::JacOrb, Orb::OmniOrb)] {
            let (service, _settings) = begin();
            let (channel, again) = (channel_for_programs(&service, "Simple"), channel_for_programs(&service, "Again"));
            let (words, shapes) = match language {
                C => (&["pass", "Simple", "Again", NESTED, "CampanileTest::Nested"][..], "nested"),
                _ => (&["pass_for_orbs", "Simple", "Again"][..], "nested,block"),
            };
            let shapes = format!("--scenario {shapes} --count 20 --block 4000");
            let expects = format!("--form structured --inside {inside} {shapes}");
            let checks = further_consumer(to, &service, &again, &expects);
            let mut program = programs().start_with(language, words, &service.address().to_string(), form);
            assert_eq!(program.next_request().as_deref(), Some("ready"), "{language}: {}", program.errors());
            supplier(from, &service, &channel, &format!("--form {sent} {shapes}")).end().well();
            checks.end().received_all(20);
            program.go_on();
            program.passes();
        }
    }
}

#[test]
fn what_an_orb_sends_comes_as_structs_and_what_is_published_is_to_an_orb_what_its_idl_says() {
    is_passed_on_between_orbs(EventForm::Body);
}

#[test]
fn the_same_as_alma_has_it() {
    is_passed_on_between_orbs(EventForm::Alma);
}

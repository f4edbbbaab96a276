//! `campanile tao-notify`: the command line of TAO's server.

use crate::restart::{Folder, own_address};
use crate::support::{PROGRAM, Serve, TempPath, text};
use client::notify::{EventChannelFactory, Property, find_channel};
use client::{Orb, OrbOptions};
use std::io::Read;
use std::process::{Command, Stdio};
use testing::output_in_time;

fn tao_notify(options: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg("tao-notify").args(options);
    command
}

#[test]
fn it_serves_as_taos_options_and_directives_mean_and_says_what_it_leaves_aside() {
    let (factory, monitor) = (TempPath::file("tao-factory.ior", ""), TempPath::file("tao-monitor.ior", ""));
    let directives = format!(
        "# As ALMA has it\n\
         static Notify_Default_Event_Manager_Objects_Factory \"-AllocateTaskperProxy -MTDispatching\"\n\
         dynamic TAO_MonitorAndControl Service_Object * TAO_CosNotification_MC:_make_TAO_MonitorAndControl() \\\n  \"-o {}\"\n",
        monitor.path()
    );
    let directives = TempPath::file("tao-svc.conf", &directives);
    let mut command = tao_notify(&[
        "-ORBEndpoint",
        "iiop://127.0.0.1:0",
        "-ORBDottedDecimalAddresses",
        "1",
        "-Factory",
        "LoggingFactory",
        "-IORoutput",
        factory.path(),
        "-ORBSvcConf",
        directives.path(),
        "-Boot",
        "-Channel",
        "-ChannelName",
        "Tower",
        "-ORBRunThreads",
        "5",
    ]);
    let stderr_path = TempPath::file("tao-stderr", "");
    let serve = Serve::spawn(command.stderr(std::fs::File::create(stderr_path.path()).unwrap()));
    let orb = Orb::new(OrbOptions::default());
    // Under the name that the factory was given, and by the references that were written.
    for url in [
        format!("corbaloc::1.2@{}/LoggingFactory", serve.address),
        format!("corbaname::{}#LoggingFactory", serve.address),
        std::fs::read_to_string(factory.path()).unwrap().trim().to_owned(),
    ] {
        let found = orb.resolve(&url).unwrap();
        assert!(found.is_a("IDL:sandia.gov/NotifyMonitoringExt/EventChannelFactory:1.0").unwrap(), "{url}");
    }
    let monitor = std::fs::read_to_string(monitor.path()).unwrap();
    let names: Vec<String> = orb.resolve(monitor.trim()).unwrap().request("get_statistic_names", &()).unwrap();
    assert!(names.contains(&"LoggingFactory/ActiveEventChannelNames".to_owned()));
    let tower = orb.resolve(&format!("corbaname::{}#Tower", serve.address)).unwrap();
    assert!(tower.is_a("IDL:sandia.gov/NotifyMonitoringExt/EventChannel:1.0").unwrap());
    // Something that TAO takes from its clients.
    let set = crate::campanile(&["channel", "set", "--server", &serve.address, "1", "SomethingOfTheirs=3"]);
    assert!(set.status.success(), "{}", text(&set.stderr));
    let (_, code) = serve.stop("TERM");
    assert_eq!(code, Some(0));
    let mut said = String::new();
    std::fs::File::open(stderr_path.path()).unwrap().read_to_string(&mut said).unwrap();
    for ignored in ["-AllocateTaskperProxy", "-MTDispatching", "-ORBRunThreads"] {
        let line = said.lines().find(|line| line.starts_with("campanile: ") && line.contains(ignored));
        let line = line.unwrap_or_else(|| panic!("nothing about {ignored}: {said}"));
        assert!(line.contains("is ignored: threads do not depend on clients"), "{line}");
    }
    assert_eq!(said.lines().filter(|line| line.contains("is ignored")).count(), 3, "{said}");
}

/// Clients of TAO set properties of their own, and some read them again.
#[test]
fn unknown_properties_are_given_back_and_outlive_it() {
    let folder = Folder::new("tao-unknown");
    let begin = |listen: &str| {
        let end_point = format!("iiop://{listen}");
        Serve::spawn(&mut tao_notify(&["--data", folder.path(), "-ORBEndpoint", &end_point]))
    };
    let serve = begin(&own_address());
    let address = serve.address.clone();
    // Each time anew: a connection ends with the service.
    let service = || Orb::new(OrbOptions::default()).resolve_service(&address).unwrap();
    let factory = EventChannelFactory::narrow(service()).unwrap();
    let theirs = [Property::new("TheirText", "of their own"), Property::new("TheirNumber", 7_i32)];
    let (_, id) = factory.create_channel(&theirs[..1], &[]).unwrap();
    let found = || find_channel(&service(), Some(id)).unwrap().0;
    let tells = |theirs: &[Property]| {
        let told = found().get_qos().unwrap();
        assert!(theirs.iter().all(|property| told.contains(property)), "{told:?}");
    };
    tells(&theirs[..1]);
    found().set_qos(&theirs[1..]).unwrap();
    tells(&theirs);
    drop(serve);
    let _serve = begin(&address);
    tells(&theirs);
}

/// Clients of TAO make channels with `Persistent` where nothing is kept: each of them wrote a line.
#[test]
fn channels_with_persistent_and_no_store_are_taken_and_one_line_says_that_it_has_no_effect() {
    let stderr_path = TempPath::file("tao-persistent-stderr", "");
    let mut command = tao_notify(&["-ORBEndpoint", "iiop://127.0.0.1:0"]);
    let serve = Serve::spawn(command.stderr(std::fs::File::create(stderr_path.path()).unwrap()));
    let service = Orb::new(OrbOptions::default()).resolve_service(&serve.address).unwrap();
    let factory = EventChannelFactory::narrow(service).unwrap();
    let persistent = ["EventReliability", "ConnectionReliability"].map(|name| Property::new(name, 1_i16));
    for _ in 0..3 {
        let (channel, _) = factory.create_channel(&persistent, &[]).unwrap();
        let told = channel.get_qos().unwrap();
        assert!(persistent.iter().all(|property| told.contains(property)), "{told:?}");
    }
    assert_eq!(serve.print("stats", &["persistent_without_store"]), "persistent_without_store 3\n");
    let (_, code) = serve.stop("TERM");
    assert_eq!(code, Some(0));
    let said = std::fs::read_to_string(stderr_path.path()).unwrap();
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("there is no store")).collect();
    let [line] = lines[..] else { panic!("one line: {said}") };
    assert!(line.contains("Persistent of channel 1 (127.0.0.1) has no effect"), "{line}");
}

#[test]
fn its_help_has_an_example_and_a_wrong_end_point_says_what_is_right() {
    let help = text(&output_in_time(tao_notify(&["--help"]).stdin(Stdio::null())).stdout);
    for said in ["-ORBEndpoint", "Examples:", "campanile tao-notify -ORBEndpoint iiop://"] {
        assert!(help.contains(said), "{help}");
    }
    let (said, status) = crate::refusal(&["tao-notify", "-ORBEndpoint", "iiop://127.0.0.1:notify"]);
    assert!(said.contains("write iiop://HOST:PORT"), "{said}");
    assert_eq!(status, 2);
    let (said, _) = crate::refusal(&["tao-notify", "-ORBSvcConf", "/nonexistent/svc.conf"]);
    assert!(said.contains("cannot read /nonexistent/svc.conf"), "{said}");
}

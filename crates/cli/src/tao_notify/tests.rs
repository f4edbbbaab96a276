//! What options and directives come to.

use super::*;

fn planned(arguments: &[&str]) -> Result<Plan, Failure> {
    let mut plan = Plan::new();
    let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    plan.read_arguments(&arguments)?;
    plan.resolved()
}

#[test]
fn almas_command_line_is_done_as_it_means() {
    let plan = planned(&[
        "-ORBEndpoint",
        "iiop://127.0.0.1:3000",
        "-ORBInitRef",
        "NameService=corbaloc::127.0.0.1:4000/NameService",
        "-IORoutput",
        "/tmp/n.ior",
        "-ORBDottedDecimalAddresses",
        "1",
        "-Factory",
        "LoggingNotifyEventChannelFactory",
        "-Boot",
    ])
    .unwrap();
    let Plan { config, ignored, .. } = plan;
    assert_eq!(ignored, Vec::<String>::new());
    assert_eq!((config.listen.as_str(), config.advertise.as_deref()), ("127.0.0.1:3000", Some("127.0.0.1:3000")));
    assert_eq!(config.naming.outside.as_deref(), Some("corbaloc::127.0.0.1:4000/NameService"));
    assert_eq!(config.ior_file.as_deref(), Some(Path::new("/tmp/n.ior")));
    let expected = Compatibility {
        ignore_unknown_properties: true,
        timeout_never_expires: true,
        limits_as_imp_limit: true,
        default_admins_or: true,
        or_passes_without_filters: true,
        monitor_control: false,
        tell_on_disconnect: false,
        take_over: true,
        allow_reconnect: false,
        persistent_without_store: true,
        unknown_filter_internal: true,
        tao_event_types: true,
        factory_name: "LoggingNotifyEventChannelFactory".into(),
    };
    assert_eq!(config.compatibility, expected);
    assert_eq!(config.store.directory, None, "TAO stores nothing unless it is set");
}

#[test]
fn end_points_are_read_as_tao_writes_them() {
    let of = |options: &[&str]| planned(options).map(|plan| (plan.config.listen, plan.config.advertise, plan.ignored));
    let endpoint = |text: &str| of(&["-orbendpoint", text]).unwrap();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(endpoint("iiop://1.2@localhost:3000"), ("localhost:3000".into(), some("localhost:3000"), vec![]));
    let (_, advertised, ignored) = endpoint("iiop://10.0.0.1:3000/portspan=3&hostname_in_ior=gate.example");
    assert_eq!(advertised, some("gate.example:3000"));
    assert_eq!(ignored, ["portspan=3 is ignored: it means nothing here"]);
    let (listen, advertised, _) = endpoint("iiop://:3000");
    assert_eq!((listen.as_str(), advertised), ("0.0.0.0:3000", host_name().map(|name| format!("{name}:3000"))));
    let dotted = of(&["-ORBListenEndpoints", "iiop://localhost:3000", "-ORBDottedDecimalAddresses", "1"]).unwrap();
    assert_eq!(dotted.1, some("127.0.0.1:3000"));
    let (listen, _, ignored) = endpoint("uiop:///tmp/x;iiop://127.0.0.1:0;iiop://127.0.0.1:1");
    assert_eq!((listen.as_str(), ignored.len()), ("127.0.0.1:0", 2));
    for wrong in ["iiop://host:port", "iiop://host:70000"] {
        assert!(matches!(of(&["-ORBEndpoint", wrong]), Err(Failure::Usage(_))), "{wrong}");
    }
    assert!(of(&["-ORBEndpoint"]).is_err(), "it takes a value");
}

#[test]
fn what_is_left_aside_is_reported_with_the_reason() {
    let options = [
        "-ORBEndpoint",
        "iiop://127.0.0.1:0",
        "-ORBRunThreads",
        "5",
        "-Notify_TPReactor",
        "4",
        "-Notify_TPReactor",
        "-UseSeparateDispatchingORB",
        "1",
        "-ORBLogFile",
        "x.log",
        "-ORBId",
        "x",
        "-Something",
        "-ORBInitRef",
        "Other=IOR:00",
        "-NoNameSvc",
        "-ORBInitRef",
        "NameService=IOR:00",
    ];
    let Plan { config, ignored, .. } = planned(&options).unwrap();
    assert_eq!(config.naming.outside, None);
    let begun: Vec<&str> = ignored.iter().map(|line| line.split_once(" is ignored: ").unwrap().0).collect();
    assert_eq!(
        begun,
        [
            "-ORBRunThreads",
            "-Notify_TPReactor",
            "-Notify_TPReactor",
            "-UseSeparateDispatchingORB",
            "-ORBLogFile",
            "-ORBId",
            "-Something",
            "-ORBInitRef Other=IOR:00",
            "-ORBInitRef NameService=IOR:00",
        ]
    );
    let Plan { config, .. } = planned(&["-Channel", "-Timeout", "1500", "-ORBDebugLevel", "2"]).unwrap();
    assert_eq!(config.channels[0].name, "NotifyEventChannel");
    assert_eq!(config.delivery.reply_timeout_ms, 1_500);
    let Plan { config, log, .. } = planned(&["-Channel", "-ChannelName", "A", "-ChannelName", "B"]).unwrap();
    assert_eq!(config.channels.iter().map(|channel| channel.name.as_str()).collect::<Vec<_>>(), ["A", "B"]);
    assert_eq!(log, LogLevel::Info);
}

#[test]
fn directives_are_done_as_they_mean() {
    let directives = [
        "# a remark",
        r#"static Notify_Default_Event_Manager_Objects_Factory "-MTDispatching -DispatchingThreads 2 -AllocateTaskperProxy""#,
        r#"dynamic TAO_MC_Notify_Service Service_Object * TAO_CosNotification_MC_Ext:_make_TAO_MC_Notify_Service () "-DefaultConsumerAdminFilterOp AND -DefaultSupplierAdminFilterOp AND -ValidateClient -ValidateClientInterval 60""#,
        r#"dynamic TAO_MonitorAndControl Service_Object * TAO_CosNotification_MC:_make_TAO_MonitorAndControl() "-o mon.ior -NoNameSvc""#,
        r#"dynamic Topology_Factory Service_Object* TAO_CosNotification_Persist:_make_XML_Topology_Factory() "-base_path ./topo""#,
        r#"static Resource_Factory "-ORBReactorType tp""#,
        "suspend Something",
    ];
    // What TAO's own documentation has was ignored as a concern of TAO's ORB, as every name was that is not known.
    let mut documented = Plan::new();
    documented
        .obey(r#"static TAO_CosNotify_Service "-DefaultConsumerAdminFilterOp AND -DefaultSupplierAdminFilterOp AND""#);
    documented.obey("static Nonsense_Factory \"\"");
    documented.obey("nonsense X");
    documented.obey(r#"static Event_Persistence "-file_path ./e -block_size 512 -nonsense""#);
    assert!(!documented.config.compatibility.default_admins_or);
    assert_eq!(
        documented.ignored[..4],
        [
            "static Nonsense_Factory is ignored: no service object of that name is known",
            "nonsense X is ignored: it is no directive of svc.conf",
            "Event_Persistence -block_size is ignored: a store has no such files",
            "Event_Persistence -nonsense is ignored: it is not known",
        ]
    );
    let mut plan = Plan::new();
    directives.iter().for_each(|directive| plan.obey(directive));
    assert!(!plan.config.compatibility.default_admins_or);
    assert_eq!(plan.config.delivery.probe_interval_ms, 60_000);
    assert_eq!(plan.monitor_file.as_deref(), Some(Path::new("mon.ior")));
    assert_eq!(plan.config.store.directory.as_deref(), Some(Path::new("./topo.store")));
    let begun: Vec<&str> = plan.ignored.iter().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(
        begun,
        [
            "Notify_Default_Event_Manager_Objects_Factory -MTDispatching is ignored",
            "Notify_Default_Event_Manager_Objects_Factory -DispatchingThreads is ignored",
            "Notify_Default_Event_Manager_Objects_Factory -AllocateTaskperProxy is ignored",
            "TAO_MonitorAndControl -NoNameSvc is ignored",
            "Topology_Factory",
            "static Resource_Factory is ignored",
            "suspend Something is ignored",
        ]
    );
}

/// `-AllowReconnect` was left aside, and so were names that TAO's manual has; options of its sources were called unknown.
#[test]
fn every_name_and_option_of_taos_manual_and_sources_is_known_and_no_other() {
    let mut plan = Plan::new();
    let services = [
        "Notify_Default_Event_Manager_Objects_Factory",
        "TAO_CosNotify_Service",
        "TAO_MC_Notify_Service",
        "TAO_Notify_Service",
        "TAO_RT_Notify_Service",
    ];
    let options = "-MTDispatching -DispatchingThreads 1 -MTSourceEval -SourceThreads 1 -MTLookup -LookupThreads 1 -MTListenerEval \
                   -ListenerThreads 1 -AsynchUpdates -NoUpdates -AllocateTaskperProxy -UseSeparateDispatchingORB 1 -AllowReconnect \
                   -DefaultConsumerAdminFilterOp AND -DefaultSupplierAdminFilterOp AND -ValidateClient -ValidateClientDelay 1 \
                   -ValidateClientInterval 1";
    for service in services {
        plan.config.compatibility.allow_reconnect = false;
        plan.obey(&format!("static {service} \"{options}\""));
        assert!(plan.config.compatibility.allow_reconnect, "{service}");
    }
    plan.obey("dynamic Topology_Factory Service_Object* X:_make() \"-v -base_path a -file_count 2 -backup_count 2 -no_timestamp\"");
    plan.obey("dynamic Topology_Factory Service_Object* X:_make() \"-save_base_path a -load_base_path b\"");
    plan.obey("dynamic Event_Persistence Service_Object* X:_make() \"-v -file_path e -block_size 512\"");
    plan.obey("dynamic TAO_MonitorAndControl Service_Object* X:_make() \"-o m.ior -ORBArg -ORBDebug -NoNameSvc\"");
    for object in
        ["Advanced_Resource_Factory", "Client_Strategy_Factory", "Time_Policy_Manager", "MIOP_Resource_Factory"]
    {
        plan.obey(&format!("static {object} \"-ORBX 1\""));
    }
    for object in [
        "TAO_POA",
        "TAO_RT_Object_Adapter_Factory",
        "CEC_Factory",
        "EC_Factory",
        "Naming_Loader",
        "Logger",
        "ACE_Logger",
    ] {
        plan.obey(&format!("dynamic {object} Service_Object * X:_make_{object}() \"-s notify.log\""));
    }
    assert_eq!(plan.ignored.last().unwrap(), "dynamic ACE_Logger is ignored: the log goes to standard error");
    let unknown: Vec<&String> = plan.ignored.iter().filter(|line| line.contains("known")).collect();
    assert_eq!(unknown, Vec::<&String>::new());
    assert_eq!(plan.monitor_file.as_deref(), Some(Path::new("m.ior")));
    // What looks like one of them is none.
    plan.ignored.clear();
    for nearly in ["TAO_CosNotification_Service", "Notify_Service", "Time_Policy"] {
        plan.obey(&format!("static {nearly} \"\""));
    }
    assert!(
        plan.ignored.iter().all(|line| line.ends_with("no service object of that name is known")),
        "{:?}",
        plan.ignored
    );
    assert_eq!(plan.ignored.len(), 3);
}

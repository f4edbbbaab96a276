//! Plans made of the OMG's deployment plans, and what is refused of these.

use crate::parts::{Camera, Guider, Recorder};
use campanile_component::{Descriptions, Descriptor, Plan, Registry, import_plan};
use std::collections::BTreeMap;

const PLAN: &str = include_str!("../import/observatory.cdp");
const EVENTS: &str = include_str!("../import/observatory.ced");

/// What the two say together.
const MADE: &str = r#"
    name = "observatory"
    [servers.DomeHost]
    [servers.ControlHost]
    [servers.ControlProcess]
    [containers.frames]
    service = "notification"
    [containers.remote]
    service = "notification"
    [instances.Dome_Camera]
    component = "libcamera.so#Camera"
    server = "DomeHost"
    container = "frames"
    [instances.Guider]
    component = "libcontrol.so#Guider"
    server = "ControlProcess"
    container = "frames"
    gain = 0.25
    [instances.Recorder]
    component = "libcontrol.so#Recorder"
    server = "ControlProcess"
    container = "frames"
    [instances.Archive]
    component = "libcontrol.so#Recorder"
    server = "ControlHost"
    container = "remote"
    [connections]
    "Dome_Camera.frame" = ["Guider.frame"]
    "Guider.offset" = ["Archive.offset", "Recorder.offset"]
"#;

fn import(plan: &[u8], events: Option<&str>) -> Result<(String, Vec<String>), Vec<String>> {
    let plan = Descriptor::new("plan.cdp", plan);
    let events = events.map(|events| Descriptor::new("events.ced", events));
    let shown = |problems: Vec<campanile_component::Problem>| problems.iter().map(ToString::to_string).collect();
    let made = import_plan(&plan, events.as_ref()).map_err(shown)?;
    Ok((made.text, shown(made.notes)))
}

/// What is refused of a plan alone.
fn refused(plan: &[u8]) -> Vec<String> {
    import(plan, None).unwrap_err()
}

/// A plan, for comparison.
fn parsed(text: &str) -> String {
    format!("{:?}", Plan::parse(text).unwrap())
}

#[test]
fn a_deployment_plan_becomes_a_plan_that_check_accepts() {
    let (text, notes) = import(PLAN.as_bytes(), Some(EVENTS)).unwrap();
    assert_eq!(parsed(&text), parsed(MADE), "{text}");
    let known = Registry::new().with::<Camera>().with::<Guider>().with::<Recorder>().descriptions();
    let of_objects = |(name, of): (String, _)| {
        let object = if name == "Camera" { "libcamera.so" } else { "libcontrol.so" };
        (format!("{object}#{name}"), of)
    };
    let known: Descriptions = known.into_iter().map(of_objects).collect();
    let servers = ["DomeHost", "ControlHost", "ControlProcess"];
    let components: BTreeMap<_, _> = servers.map(|server| (server.to_owned(), known.clone())).into();
    assert_eq!(Plan::parse(&text).unwrap().check(&components), []);
    assert_eq!(
        notes,
        [
            "plan.cdp:9: UUID: left out: nothing that runs depends on it",
            "events.ced:5: node: left out: `at` of the container says where the notification service is",
            "events.ced:7: svc_cfg_file: left out: the notification service has a configuration of its own",
            "events.ced:19: addr_serv: left out: nothing is sent to it",
            "plan.cdp:11: implementation: left out: edu.vanderbilt.dre.DAnCE.ImplementationType, component factory, \
             edu.vanderbilt.dre.CIAO.ExecutorArtifact, camera_servant: a shared object says itself which components it has",
            "plan.cdp:49: instance: its name, Dome.Camera, is Dome_Camera in the plan",
            "plan.cdp:54: configProperty: left out: edu.vanderbilt.dre.DAnCE.RegisterNaming: only CIAO and DAnCE act upon it",
            "plan.cdp:81: instance: left out: a plan makes its servers, containers and instances itself",
            "events.ced:13: filter: left out: no connection names it",
            "events.ced:3: eventServiceConfiguration: RTEC is a notification service here, between servers, which the container frames names",
            "plan.cdp:75: instance: its connections with other servers go through a notification service, which the container remote names",
        ]
    );
    for note in notes {
        assert!(text.contains(&format!("\n# Note: {note}\n")), "{text}");
    }
    assert!(text.contains("\n# On the node DomeHost.\n[instances.Dome_Camera]\n"), "{text}");
}

/// An instance with one property.
fn with_property(of: &str, data: &str) -> String {
    format!(
        "<DeploymentPlan xmlns:xmi='x'>
        <implementation xmi:id='i'><name>I</name><artifact xmi:idref='a'/></implementation>
        <instance><name>it</name><node>n</node><implementation xmi:idref='i'/>
        <configProperty><name>p</name><value><type>{of}</type>
        <value>{data}</value></value></configProperty></instance>
        <artifact xmi:id='a'><name>a</name><location>./liba.so</location></artifact></DeploymentPlan>"
    )
}

fn kind(name: &str) -> String {
    format!("<kind>tk_{name}</kind>")
}

const POINT: &str = "<kind>tk_struct</kind><struct><name>Point</name><typeId>IDL:Point:1.0</typeId>\
                     <member><name>x</name><type><kind>tk_long</kind></type></member>\
                     <member><name>name</name><type><kind>tk_string</kind></type></member></struct>";
const PAIR: &str =
    "<kind>tk_array</kind><array><length>2</length><elementType><kind>tk_octet</kind></elementType></array>";

#[test]
fn values_of_each_kind_become_toml() {
    let data = "<member><name>name</name><value><string>a &lt; &#98;</string></value></member>\
                <member><name>x</name><value><long>-7</long></value></member>";
    let points = format!("<kind>tk_sequence</kind><sequence><elementType>{POINT}</elementType></sequence>");
    let alias =
        format!("<kind>tk_alias</kind><alias><name>P</name><typeId/><elementType>{POINT}</elementType></alias>");
    let colour = "<kind>tk_enum</kind><enum><name>Colour</name><typeId/><member>RED</member></enum>";
    for (of, data, toml) in [
        (&*kind("short"), "<short>-32768</short>", "-32768"),
        (&*kind("ushort"), "<ushort>65535</ushort>", "65535"),
        (&*kind("long"), "<long> 5 </long>", "5"),
        (&*kind("ulong"), "<ulong>4294967295</ulong>", "4294967295"),
        (&*kind("longlong"), "<longlong>-9223372036854775808</longlong>", "-9223372036854775808"),
        (&*kind("ulonglong"), "<ulonglong>9223372036854775807</ulonglong>", "9223372036854775807"),
        (&*kind("octet"), "<octet>255</octet>", "255"),
        (&*kind("boolean"), "<boolean>true</boolean>", "true"),
        (&*kind("float"), "<float>1.5</float>", "1.5"),
        (&*kind("double"), "<double>-INF</double>", "-inf"),
        (&*kind("longdouble"), "<longdouble>1e300</longdouble>", "1e300"),
        (&*kind("char"), "<string>c</string>", "'c'"),
        (&*kind("string"), "<string> two\n<![CDATA[\"<lines>\"]]>&amp; </string>", "\" two\\n\\\"<lines>\\\"& \""),
        (&*kind("wstring"), "<wstring>\u{fc}</wstring>", "'\u{fc}'"),
        (colour, "<enum>RED</enum>", "'RED'"),
        (POINT, data, "{ x = -7, name = 'a < b' }"),
        (
            &*points,
            &*format!("<element>{data}</element><element>{data}</element>"),
            "[{ x = -7, name = 'a < b' }, { x = -7, name = 'a < b' }]",
        ),
        (&*points, "", "[]"),
        (PAIR, "<element><octet>1</octet></element><element><octet>2</octet></element>", "[1, 2]"),
        (&*alias, data, "{ x = -7, name = 'a < b' }"),
    ] {
        let (text, _) = import(with_property(of, data).as_bytes(), None).unwrap();
        let made = format!(
            "name = 'plan'\n[servers.n]\n[instances.it]\ncomponent = './liba.so#I'\nserver = 'n'\np = {toml}\n[connections]"
        );
        assert_eq!(parsed(&text), parsed(&made), "{text}");
    }
}

#[test]
fn values_that_do_not_fit_their_types_are_refused() {
    for (of, data, reason) in [
        (&*kind("short"), "<short>32768</short>", "value: property p: \"32768\" is no short: give -32768 to 32767"),
        (&*kind("long"), "<short>1</short>", "value: property p: by its type it has one long, and nothing else"),
        (
            &*kind("long"),
            "<long>1</long><long>2</long>",
            "value: property p: by its type it has one long, and nothing else",
        ),
        (
            &*kind("ulonglong"),
            "<ulonglong>9223372036854775808</ulonglong>",
            "value: property p: 9223372036854775808 is more than TOML's largest number, 9223372036854775807",
        ),
        (&*kind("boolean"), "<boolean>yes</boolean>", "value: property p: \"yes\" is no boolean: give true or false"),
        (&*kind("any"), "<any/>", "type: property p: values of the kind \"tk_any\" are not taken"),
        (
            &*kind("long"),
            "<long>1</long></value><value>",
            "value: property p: it has no value with a type, and a value behind it",
        ),
        ("", "<long>1</long>", "type: property p: values of the kind \"\" are not taken"),
        (
            POINT,
            "<member><name>x</name><value><long>1</long></value></member>",
            "value: property p: the member name is missing",
        ),
        (
            POINT,
            "<member><name>y</name><value><long>1</long></value></member>",
            "member: property p: the struct has no member \"y\"",
        ),
        (PAIR, "<element><octet>1</octet></element>", "value: property p: it has 1 elements, and 2 by its type"),
        (PAIR, "<octet>1</octet><octet>2</octet>", "octet: property p: data of the kind array are elements only"),
        ("<kind>tk_sequence</kind>", "", "type: property p: the type has no sequence with elementType"),
    ] {
        let refused = refused(with_property(of, data).as_bytes());
        assert!(matches!(&*refused, [one] if one.split_once(": ").unwrap().1.starts_with(reason)), "{refused:?}");
    }
}

#[test]
fn what_a_plan_cannot_say_is_refused_by_element_and_line() {
    let unescaped = |text: &str| text.replace("\\n", "\n").replace("LONG", &"x".repeat(1_024));
    let mut count = 0;
    for entry in include_str!("../import/refused.txt").split("\n\n").filter(|entry| !entry.starts_with('#')) {
        let lines: Vec<_> = entry.lines().map(unescaped).collect();
        let [was, by, expected @ ..] = &*lines else { panic!("{entry}") };
        let (plan, events) = (PLAN.replacen(was, by, 1), EVENTS.replacen(was, by, 1));
        assert!(plan != PLAN || events != EVENTS, "{was}");
        let refused = import(plan.as_bytes(), Some(&events)).unwrap_err();
        let is_as_expected = |(refused, expected): (&String, &String)| refused.starts_with(expected);
        assert!(
            refused.len() == expected.len() && refused.iter().zip(expected).all(is_as_expected),
            "{refused:#?}, and not {expected:#?}"
        );
        count += 1;
    }
    assert_eq!(count, 35);
    let refused = refused(PLAN.as_bytes());
    assert_eq!(
        refused[0],
        "plan.cdp:166: infoProperty: event services are in a descriptor of their own: give it as --events observatory.ced"
    );
    let swapped = import(EVENTS.as_bytes(), Some(PLAN)).unwrap_err();
    assert_eq!(
        swapped,
        ["plan.cdp:2: CIAO:CIAOEvents: it is no deployment plan: its first element is Deployment:DeploymentPlan"]
    );
}

#[test]
fn hostile_files_are_refused() {
    let deep = format!("{}{}", "<a>".repeat(65), "</a>".repeat(65));
    let many = format!("<DeploymentPlan>\n{}</DeploymentPlan>", "<a/>".repeat(400_000));
    let wordy = format!("<DeploymentPlan>{}</DeploymentPlan>", "x".repeat(65_537));
    let named = format!("<{}/>", "x".repeat(257));
    let long = format!("<DeploymentPlan>{}</DeploymentPlan>", " ".repeat(16 * 1024 * 1024));
    for (text, expected) in [
        (
            "<!DOCTYPE a [\n<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]>\n<DeploymentPlan>&b;</DeploymentPlan>",
            "plan.cdp:1: document types are not read, nor the entities that they declare: remove DOCTYPE",
        ),
        (
            "<DeploymentPlan>\n<label>&b;</label></DeploymentPlan>",
            "plan.cdp:2: the entity &b; is not known: write what it stands for",
        ),
        ("<DeploymentPlan>\n<label>&#0;</label></DeploymentPlan>", "plan.cdp:2: &#0;: "),
        ("<DeploymentPlan a='&b;'/>", "plan.cdp:1: DeploymentPlan, attribute a: "),
        (&deep, "plan.cdp:1: a is within more than 64 elements, which are the most that are taken"),
        (&many, "plan.cdp:2: there are more than 400000 elements, which are the most that are taken"),
        (&wordy, "plan.cdp:1: DeploymentPlan has more than 65536 octets of text, which are the most that are taken"),
        (&named, "plan.cdp:1: the name of an element has more than 256 octets, which are the most that are taken"),
        (&long, "plan.cdp: it has more than 16777216 octets, which are the most that are taken"),
        ("", "plan.cdp:1: there is no element: is it the right file?"),
        ("<DeploymentPlan>\n<a></b></DeploymentPlan>", "plan.cdp:2: it is no XML: "),
        ("<DeploymentPlan/>\n<a/>", "plan.cdp:2: a stands behind the end of the first element"),
        ("<DeploymentPlan/>\nx", "plan.cdp:1: there is text outside of all elements: remove it"),
        (
            "<DeploymentPlan>\n<label><a/>x\u{1b}</label></DeploymentPlan>",
            "plan.cdp:2: label has text between its elements: remove ",
        ),
    ] {
        let refused = refused(text.as_bytes());
        assert!(
            matches!(&*refused, [one] if one.starts_with(expected) && !one.contains('\u{1b}')),
            "{refused:?}, and not {expected}"
        );
    }
    let latin = PLAN.replace("observatory-7", "\u{fc}");
    let latin: Vec<u8> = latin.chars().map(|letter| u8::try_from(u32::from(letter)).unwrap()).collect();
    assert_eq!(refused(&latin), ["plan.cdp:9: it is not UTF-8: convert it, as with iconv -t UTF-8"]);
    let utf8 = PLAN.replace("observatory-7", "\u{fc}");
    assert_eq!(
        refused(utf8.as_bytes()),
        ["plan.cdp:1: its encoding is ISO-8859-1: convert it, as with iconv -t UTF-8"]
    );
    let utf16: Vec<u8> = std::iter::once(0xfeff).chain(PLAN.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    assert_eq!(refused(&utf16), ["plan.cdp:1: it is not UTF-8: convert it, as with iconv -t UTF-8"]);
}

#[test]
fn a_file_that_is_cut_anywhere_is_refused() {
    let whole = PLAN.trim_end();
    for length in 0..whole.len() {
        assert!(import(&whole.as_bytes()[..length], Some(EVENTS)).is_err(), "{length}");
    }
}

/// A plan of instances on nodes, and ports connected with event services: `instance port kind service`.
fn with_members(instances: &[(&str, &str)], members: &[String]) -> String {
    let mut plan = String::from(
        "<DeploymentPlan><implementation id='i'><name>I</name><artifact idref='lib'/></implementation>\
         <artifact id='lib'><name>a</name><location>liba.so</location></artifact>",
    );
    for (name, node) in instances {
        plan += &format!(
            "<instance id='{name}'><name>{name}</name><node>{node}</node><implementation idref='i'/></instance>"
        );
    }
    for member in members {
        let [instance, port, kind, service] = member.split(' ').collect::<Vec<_>>().try_into().unwrap();
        plan += &format!(
            "<connection><internalEndpoint><portName>{port}</portName><kind>{kind}</kind><instance idref='{instance}'/>\
             </internalEndpoint><externalReference><location>{service}</location></externalReference></connection>"
        );
    }
    plan + "</DeploymentPlan>"
}

#[test]
fn publishers_times_consumers_are_bounded() {
    let publishers = (0..400).map(|number| format!("it p{number} EventPublisher frames"));
    let members: Vec<_> =
        publishers.chain((0..400).map(|number| format!("it c{number} EventConsumer frames"))).collect();
    let refused = import(with_members(&[("it", "n")], &members).as_bytes(), Some(EVENTS)).unwrap_err();
    let expected = "events.ced:3: eventServiceConfiguration: there are more than 100000 connections, which are the most that are taken";
    assert_eq!(refused, [expected]);
}

#[test]
fn a_filter_does_not_choose_between_two_publishers_of_one_name() {
    let members = ["a b_c EventPublisher frames", "a_b c EventPublisher frames", "a in EventConsumer frames"];
    let plan = with_members(&[("a", "n"), ("a_b", "n")], &members.map(str::to_owned));
    let requirement = "<deployRequirement><resourceType>EventFilter</resourceType><property><name>EventFilter</name>\
                       <value><type><kind>tk_string</kind></type><value><string>only_dome_id</string></value></value>\
                       </property></deployRequirement>";
    let plan = plan.replace(
        "<connection><internalEndpoint><portName>in",
        &format!("<connection>{requirement}<internalEndpoint><portName>in"),
    );
    let import = |source: &str| import(plan.as_bytes(), Some(&EVENTS.replacen("Dome.Camera_frame", source, 1)));
    assert_eq!(
        import("a_b_c").unwrap_err(),
        ["events.ced:11: source: two publishers have this name: rename an instance"]
    );
    assert_eq!(import("").unwrap_err().len(), 1);
}

#[test]
fn a_server_has_one_container_for_all_its_event_services() {
    let start = EVENTS.find("  <eventServiceConfiguration").unwrap();
    let second = "<eventServiceConfiguration><name>main</name><type>NOTIFY</type></eventServiceConfiguration>\n";
    let events = [&EVENTS[..start], second, &EVENTS[start..]].concat();
    let members = [
        "a out EventPublisher main",
        "b in EventConsumer main",
        "c in EventConsumer frames",
        "b out EventEmitter frames",
    ];
    let plan = with_members(&[("a", "n"), ("b", "n"), ("c", "m")], &members.map(str::to_owned));
    let (text, notes) = import(plan.as_bytes(), Some(&events)).unwrap();
    let instance = |name: &str, server: &str, container: &str| {
        format!("[instances.{name}]\ncomponent = 'liba.so#I'\nserver = '{server}'\ncontainer = '{container}'\n")
    };
    let made = [
        "name = 'plan'\n[servers.m]\n[servers.n]\n[containers.main-2]\nservice = 'notification'\n",
        "[containers.frames]\nservice = 'notification'\n",
        &instance("a", "n", "main-2"),
        &instance("b", "n", "main-2"),
        &instance("c", "m", "frames"),
        "[connections]\n'a.out' = ['b.in']\n'b.out' = ['c.in']\n",
    ];
    assert_eq!(parsed(&text), parsed(&made.concat()), "{text}");
    let expected = "events.ced:4: eventServiceConfiguration: the server n has one container, main-2, which names the same notification service";
    assert!(notes.iter().any(|note| note == expected), "{notes:#?}");
}

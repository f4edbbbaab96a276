//! Plans made of the OMG's deployment plans, and what is refused of these.

use crate::parts::{Camera, Guider, Recorder};
use campanile_component::{Descriptions, Descriptor, Plan, Registry, import_plan};
use std::collections::BTreeMap;

const PLAN: &str = include_str!("../import/observatory.cdp");
const EVENTS: &str = include_str!("../import/observatory.ced");

/// What the two say together.
const MADE: &str = r#"
    name = "observatory-7"
    [servers.DomeHost]
    [servers.ControlHost]
    [servers.ControlProcess]
    [containers.rtes]
    service = "rtes"
    [instances.Dome_Camera]
    component = "libcamera.so#Camera"
    server = "DomeHost"
    container = "rtes"
    [instances.Guider]
    component = "libcontrol.so#Guider"
    server = "ControlProcess"
    container = "rtes"
    gain = 0.25
    [instances.Recorder]
    component = "libcontrol.so#Recorder"
    server = "ControlProcess"
    container = "rtes"
    [instances.Archive]
    component = "libcontrol.so#Recorder"
    server = "ControlHost"
    container = "rtes"
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
            "plan.cdp:166: infoProperty: it names observatory.ced, and events.ced was read, as --events says",
            "plan.cdp:8: label: left out: the plan's name is its UUID",
            "plan.cdp:11: implementation: left out: edu.vanderbilt.dre.DAnCE.ImplementationType, component factory, \
             edu.vanderbilt.dre.CIAO.ExecutorArtifact, camera_servant: a shared object says itself which components it has",
            "plan.cdp:49: instance: its name, Dome.Camera, is Dome_Camera in the plan",
            "plan.cdp:54: configProperty: left out: edu.vanderbilt.dre.DAnCE.RegisterNaming: only CIAO and DAnCE act upon it",
            "plan.cdp:81: instance: left out: a plan makes its servers and containers itself, and has no homes",
            "events.ced:5: node: left out: `at` of the container says where the notification service is",
            "events.ced:7: svc_cfg_file: left out: the notification service has a configuration of its own",
            "events.ced:19: addr_serv: left out: nothing is sent to it",
            "plan.cdp:128: connection: it is between two servers, so that its events go through the service of their containers",
            "events.ced:13: filter: left out: no connection names it",
            "events.ced:3: eventServiceConfiguration: RTEC is the service rtes here, of the container rtes",
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
        (
            &*kind("short"),
            "<short>32768</short>",
            "value: property p: \"32768\" is no short: give a whole number in its range",
        ),
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
        (
            "",
            "<long>1</long>",
            "type: property p: a type has its kind, and at most one element of that name: remove others",
        ),
        (
            POINT,
            "<member><name>x</name><value><long>1</long></value></member>",
            "value: property p: it has 1 members, and more by its type",
        ),
        (
            &*POINT.replace("<typeId>IDL:Point:1.0</typeId>", ""),
            "<member><name>x</name><value><long>1</long></value></member>",
            "value: property p: the member name is missing",
        ),
        (
            POINT,
            "<member><name>y</name><value><long>1</long></value></member><member><name>x</name></member>",
            "member: property p: the struct has no member \"y\"",
        ),
        (PAIR, "<element><octet>1</octet></element>", "value: property p: it has 1 elements, and 2 by its type"),
        (PAIR, "<octet>1</octet><octet>2</octet>", "octet: property p: data of the kind array are elements only"),
        ("<kind>tk_sequence</kind>", "", "type: property p: the type has no sequence with elementType"),
        (
            "<kind>tk_long</kind><bound>1</bound>",
            "<long>1</long>",
            "bound: property p: it is not understood in a type of the kind \"tk_long\": remove it",
        ),
        (
            "<kind>tk_long</kind><long/><long/>",
            "<long>1</long>",
            "type: property p: a type has its kind, and at most one element of that name: remove others",
        ),
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
        "plan.cdp:166: infoProperty: event services are in a descriptor of their own: give it to campanile deploy import as --events observatory.ced"
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
        (&long, "plan.cdp: it has more than 16777216 octets, which are the most that are taken"),
        ("", "plan.cdp:1: there is no element: is it the right file?"),
        ("<DeploymentPlan>\n<a></b></DeploymentPlan>", "plan.cdp:2: it is no XML: "),
        ("<DeploymentPlan/>\n<a/>", "plan.cdp:2: a stands behind the end of the first element"),
        ("<DeploymentPlan/>\n\n x", "plan.cdp:3: there is text outside of all elements: remove it"),
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
}

#[test]
fn latin_1_is_read_where_it_is_declared_and_other_encodings_say_what_to_do() {
    let convert = |from: &str| {
        format!("convert it, as with iconv -f {from} -t UTF-8, and write encoding=\"UTF-8\" in its first line")
    };
    let text = with_property(&kind("string"), "<string>Z\u{fc}rich</string>");
    let octets: Vec<u8> = text.chars().map(|letter| u8::try_from(u32::from(letter)).unwrap()).collect();
    let declared = |encoding: &str, octets: &[u8]| {
        [format!("<?xml version='1.0' encoding='{encoding}'?>\n").as_bytes(), octets].concat()
    };
    let expected = import(text.as_bytes(), None).unwrap();
    assert!(expected.0.contains("p = \"Z\u{fc}rich\"\n"), "{}", expected.0);
    assert_eq!(import(&declared("iso-8859-1", &octets), None).unwrap(), expected);
    assert_eq!(import(&declared("UTF-8", text.as_bytes()), None).unwrap(), expected);
    // It is followed: what it leads to is taken.
    assert_eq!(
        refused(&declared("KOI8-R", text.as_bytes())),
        [format!("plan.cdp:1: its encoding is KOI8-R: {}", convert("KOI8-R"))]
    );
    let not_utf8 = |line: u32| [format!("plan.cdp:{line}: it is not UTF-8: {}", convert("ENCODING"))];
    assert_eq!(refused(&declared("ISO-8859-15", &octets)), not_utf8(6));
    assert_eq!(refused(&octets), not_utf8(5));
    let utf16: Vec<u8> = std::iter::once(0xfeff).chain(PLAN.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    assert_eq!(refused(&utf16), not_utf8(1));
}

#[test]
fn a_file_that_is_cut_anywhere_is_refused_with_its_line() {
    let whole = PLAN.trim_end();
    for length in 0..whole.len() {
        let refused = import(&whole.as_bytes()[..length], Some(EVENTS)).unwrap_err();
        let [one] = &*refused else { panic!("{refused:?}") };
        let line = one.strip_prefix("plan.cdp:").and_then(|rest| rest.split_once(": ")?.0.parse::<usize>().ok());
        assert!(line.is_some_and(|line| line <= whole[..length].matches('\n').count() + 1), "{length}: {one}");
    }
}

#[test]
fn what_is_made_of_a_file_is_no_larger_than_it() {
    let long = "x".repeat(65_536);
    let twice = |references: &str, count: usize| {
        let implementation = format!("<implementation><name>I</name>{references}</implementation>").repeat(count);
        format!(
            "<DeploymentPlan>{implementation}<artifact id='a'><name>a</name><location>liba.so</location></artifact>\
             <artifact id='b'><name>{long}</name><location>liba.so</location></artifact></DeploymentPlan>"
        )
    };
    let references = format!("<artifact idref='a'/>{}", "<artifact idref='b'/>".repeat(100_000));
    let refused = refused(twice(&references, 1).as_bytes());
    assert_eq!(refused.len(), 1_001);
    assert_eq!(refused[0], "plan.cdp:1: artifact: the implementation names this artifact already: remove one of them");
    let (text, notes) = import(twice("<artifact idref='a'/><artifact idref='b'/>", 90_000).as_bytes(), None).unwrap();
    assert_eq!(notes.len(), 1_001);
    assert_eq!(notes[0].chars().count(), "plan.cdp:1: implementation: ".len() + 501);
    assert!(text.len() < 1_000_000, "{}", text.len());
}

#[test]
fn a_type_of_many_data_is_looked_at_as_far_as_they_go() {
    let member = |name: &str| format!("<member><name>{name}</name><type>{}</type></member>", kind("long"));
    let many: String = (0..5_000).map(|number| member(&number.to_string())).collect();
    let datum = |name: &str| format!("<member><name>{name}</name><value><long>1</long></value></member>");
    let data = |name: &str| format!("<element>{}</element>", datum(name)).repeat(5_000);
    for (members, data, expected) in [
        (member("x").repeat(5_000), data("x"), "element: property p: it has 1 members, and more by its type"),
        (many, data("0"), "element: property p: it has 1 members, and more by its type"),
        (member("x").repeat(2), data("x"), "member: property p: a second member is called x: rename one"),
        (
            format!("<member>{}<name>x</name></member>", "<y/>".repeat(40_000)),
            data("x"),
            "member: property p: a member has a name and a type, and nothing else",
        ),
    ] {
        let of = format!("{}<struct>{members}</struct>", kind("struct"));
        let of = format!("{}<sequence><elementType>{of}</elementType></sequence>", kind("sequence"));
        let refused = refused(with_property(&of, &data).as_bytes());
        assert!(matches!(&*refused, [one] if one.split_once(": ").unwrap().1 == expected), "{refused:?}");
    }
    let junk = format!("<x/>{}", "<x/>".repeat(40_000));
    let inner = format!("{}<sequence>{junk}<elementType>{}</elementType></sequence>", kind("sequence"), kind("long"));
    let of = format!("{}<sequence><elementType>{inner}</elementType></sequence>", kind("sequence"));
    let refused = refused(with_property(&of, &"<element/>".repeat(50_000)).as_bytes());
    assert!(matches!(&*refused, [one] if one.contains("the type has no sequence with elementType")), "{refused:?}");
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
    let publishers = (0..700).map(|number| format!("it p{number} EventPublisher frames"));
    let members: Vec<_> =
        publishers.chain((0..700).map(|number| format!("it c{number} EventConsumer frames"))).collect();
    let plan = with_members(&[("it", "n")], &members);
    let refused = import(plan.as_bytes(), Some(EVENTS)).err();
    let expected = "plan.cdp:1: connection: the plan that it makes has more than 4194304 octets, which are the most that are taken: divide it";
    assert_eq!(refused, Some(vec![expected.to_owned()]));
    // And so is a location that many instances have.
    let long = format!("<location>{}liba.so", "x".repeat(4_000));
    let instances: Vec<_> = (0..1_100).map(|number| format!("i{number}")).collect();
    let instances: Vec<_> = instances.iter().map(|name| (&**name, "n")).collect();
    let plan = with_members(&instances, &[]).replace("<location>liba.so", &long);
    let refused = import(plan.as_bytes(), None).err();
    assert_eq!(refused, Some(vec![expected.replace(":1: connection:", ":")]));
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

/// Two event services, of which one is the first of these.
fn two_services(kind: &str) -> String {
    let second = format!(
        "<CIAO:CIAOEvents><eventServiceConfiguration><name>main</name><type>{kind}</type></eventServiceConfiguration>"
    );
    let start = EVENTS.find("  <eventServiceConfiguration").unwrap();
    second + &EVENTS[start..]
}

fn has(notes: &[String], expected: &str) {
    assert!(notes.iter().any(|note| note == expected), "{expected}: {notes:#?}");
}

#[test]
fn servers_that_are_connected_have_one_service() {
    let members = [
        "a out EventPublisher main",
        "b in EventConsumer main",
        "c in EventConsumer frames",
        "b out EventEmitter frames",
        "d out EventPublisher frames",
    ];
    let nodes = [("a", "l"), ("b", "m"), ("c", "n"), ("d", "o")];
    let plan = with_members(&nodes, &members.map(str::to_owned));
    for (kind, service) in [("NOTIFY", "notification"), ("EC", "notification"), ("RTEC", "rtes")] {
        let (text, notes) = import(plan.as_bytes(), Some(&two_services(kind))).unwrap();
        let instance = |(name, server): (&str, &str)| {
            format!("[instances.{name}]\ncomponent = 'liba.so#I'\nserver = '{server}'\ncontainer = '{service}'\n")
        };
        let made = format!(
            "name = 'plan'\n[servers.l]\n[servers.m]\n[servers.n]\n[servers.o]\n[containers.{service}]\nservice = '{service}'\n{}\
             [connections]\n'a.out' = ['b.in']\n'b.out' = ['c.in']\n'd.out' = ['c.in']\n",
            nodes.map(instance).concat()
        );
        assert_eq!(parsed(&text), parsed(&made), "{text}");
        let of = |kind: &str| format!("{kind} is the service {service} here, of the container {service}");
        has(&notes, &format!("events.ced:1: eventServiceConfiguration: {}", of(kind)));
        let frames = match service {
            "rtes" => of("RTEC"),
            _ => "RTEC is the service notification here, and not rtes, since a server has one service, and one of its servers has that"
                .to_owned(),
        };
        has(&notes, &format!("events.ced:1: eventServiceConfiguration: {frames}"));
    }
    // Servers that are not connected with these go on.
    let apart = with_members(
        &[("a", "l"), ("b", "m"), ("c", "n"), ("d", "o")],
        &[
            "a out EventPublisher main".to_owned(),
            "b in EventConsumer main".to_owned(),
            "d out EventPublisher frames".to_owned(),
            "c in EventConsumer frames".to_owned(),
        ],
    );
    let (text, _) = import(apart.as_bytes(), Some(&two_services("NOTIFY"))).unwrap();
    for (name, service) in [("a", "notification"), ("b", "notification"), ("c", "rtes"), ("d", "rtes")] {
        let expected = format!("[instances.{name}]\ncomponent = \"liba.so#I\"\ncontainer = \"{service}\"\n");
        assert!(text.contains(&expected), "{text}");
    }
}

#[test]
fn a_connection_that_is_not_in_the_plan_is_said() {
    let place = "plan.cdp:1: connection:";
    let notes = |members: &[&str]| {
        let members: Vec<_> = members.iter().map(|member| (*member).to_owned()).collect();
        let (text, notes) = import(with_members(&[("a", "n")], &members).as_bytes(), Some(EVENTS)).unwrap();
        assert!(!text.contains("[containers"), "{text}");
        notes
    };
    let alone = notes(&["a out EventPublisher frames"]);
    has(&alone, &format!("{place} left out: no consumer of its event service gets the events"));
    has(
        &alone,
        "events.ced:3: eventServiceConfiguration: left out: it connects no two servers, and components of one call each other",
    );
    let alone = notes(&["a in EventConsumer frames"]);
    has(&alone, &format!("{place} left out: no publisher is connected with its event service"));
    let twice = notes(&["a out EventPublisher frames", "a in EventConsumer frames", "a in EventConsumer frames"]);
    has(&twice, &format!("{place} a.out and a.in are connected already, and once in the plan"));
    has(&notes(&[]), "events.ced:3: eventServiceConfiguration: left out: nothing is connected with it");
}

#[test]
fn the_kinds_and_filters_of_old_plans_are_read() {
    let filter = |requirement: &str| {
        let value = "<value><type><kind>tk_string</kind></type><value><string>only_dome</string></value></value>";
        format!("</externalReference><deployRequirement>{}</deployRequirement>", requirement.replace("VALUE", value))
    };
    let events = EVENTS.replace("Dome.Camera_frame", "Sender_out");
    let members =
        ["Sender out rtecEventPublisher frames", "Other out ecEventEmitter frames", "Sink in nsEventConsumer frames"];
    let instances = [("Sender", "n"), ("Other", "n"), ("Sink", "n")];
    let plan = with_members(&instances, &members.map(str::to_owned));
    let (before, last) = plan.rsplit_once("</externalReference>").unwrap();
    for requirement in [
        "<name>filter</name>VALUE",
        "<name>f</name><resourceType>EventFilter</resourceType><property><name>EventFilter</name>VALUE</property>",
    ] {
        let plan = [before, &filter(requirement), last].concat();
        let (text, _) = import(plan.as_bytes(), Some(&events)).unwrap();
        assert!(text.ends_with("\n[connections]\n\"Sender.out\" = [\"Sink.in\"]\n\n"), "{text}");
    }
    let plan = [before, &filter("<name>sieve</name>VALUE"), last].concat();
    let refused = import(plan.as_bytes(), Some(&events)).unwrap_err();
    assert!(
        refused[0].contains(": \"\" is no filter of its event service: a connection has one requirement"),
        "{refused:?}"
    );
}

#[test]
fn homes_are_left_out() {
    let parameter = |name: &str, value: &str| {
        format!(
            "<execParameter><name>{name}</name><value><type><kind>tk_string</kind></type>\
             <value><string>{value}</string></value></value></execParameter>"
        )
    };
    let home =
        ["home factory", "edu.vanderbilt.dre.CIAO.ServantEntrypoint", "edu.vanderbilt.dre.CIAO.ExecutorArtifact"]
            .map(|name| parameter(name, "exec"))
            .concat();
    let plan = format!(
        "<DeploymentPlan><implementation id='hi'><name>H</name><source/><artifact idref='lib'/>{home}</implementation>
        <implementation id='ci'><name>I</name><source/><artifact idref='lib'/></implementation>
        <instance id='h'><name>TheHome</name><node>n</node><source/><implementation idref='hi'/></instance>
        <instance id='c'><name>it</name><node>n</node><source/><implementation idref='ci'/>{}</instance>
        <artifact id='lib'><name>exec</name><source/><node/><location>Publisher_exec</location></artifact></DeploymentPlan>",
        parameter("edu.vanderbilt.dre.DAnCE.ExplicitHome", "TheHome").replace("execParameter", "configProperty"),
    );
    let (text, notes) = import(plan.as_bytes(), None).unwrap();
    let made =
        "name = 'plan'\n[servers.n]\n[instances.it]\ncomponent = 'Publisher_exec#I'\nserver = 'n'\n[connections]";
    assert_eq!(parsed(&text), parsed(made), "{text}");
    has(&notes, "plan.cdp:3: instance: left out: a plan makes its servers and containers itself, and has no homes");
    has(
        &notes,
        "plan.cdp:2: implementation: Publisher_exec is the file's whole name in the plan: ACE adds lib and .so to it",
    );
}

#[test]
fn instances_of_different_processes_have_servers_of_their_own() {
    let constraint = |kind: &str, members: &[&str]| {
        let members = members.iter().map(|id| format!("<constrainedInstance idref='{id}'/>"));
        format!(
            "<localityConstraint><constraint>{kind}</constraint>{}</localityConstraint>",
            members.collect::<String>()
        )
    };
    let instances = [("a", "n"), ("b", "n"), ("c", "n"), ("d", "n")];
    let plan = with_members(&instances, &[]);
    let constrained = |constraints: &str| plan.replace("</DeploymentPlan>", &format!("{constraints}</DeploymentPlan>"));
    let apart = constraint("DifferentProcess", &["a", "b", "c"]) + &constraint("SameProcess", &["c"]);
    let (text, _) = import(constrained(&apart).as_bytes(), None).unwrap();
    let instance =
        |(name, server): (&str, &str)| format!("[instances.{name}]\ncomponent = 'liba.so#I'\nserver = '{server}'\n");
    let servers = [("a", "a"), ("b", "b"), ("c", "n"), ("d", "n-2")];
    let made = format!(
        "name = 'plan'\n[servers.a]\n[servers.b]\n[servers.n]\n[servers.n-2]\n{}[connections]",
        servers.map(instance).concat()
    );
    assert_eq!(parsed(&text), parsed(&made), "{text}");
}

#[test]
fn names_are_made_to_fit() {
    let long = "n".repeat(70);
    let plan = with_members(&[(&long, "n"), (&format!("{long}m"), "n")], &[]).replace(
        "<DeploymentPlan>",
        "<DeploymentPlan><label>for people</label><UUID>1.0 beta</UUID>\
         <infoProperty><name>colour</name></infoProperty>",
    );
    let plan = plan.replacen(
        "</instance>",
        "<configProperty><name>ComponentIOR</name></configProperty><configProperty><name>RegisterNaming</name></configProperty>\
         <configProperty><name>edu.vanderbilt.dre.DAnCE.LocalityTimeout</name></configProperty></instance>",
        1,
    );
    let (text, notes) = import(plan.as_bytes(), None).unwrap();
    let names = ["n".repeat(64), format!("{}-2", "n".repeat(50))];
    let instance = |name: &String| format!("[instances.{name}]\ncomponent = 'liba.so#I'\nserver = 'n'\n");
    let made = format!("name = '1_0_beta'\n[servers.n]\n{}[connections]", names.each_ref().map(instance).concat());
    assert_eq!(parsed(&text), parsed(&made), "{text}");
    for expected in [
        "UUID: the plan's name, 1.0 beta, is 1_0_beta in the plan",
        "label: left out: the plan's name is its UUID",
        "infoProperty: left out: colour is not understood",
        &format!("instance: its name, {long}, is {} in the plan", names[0]),
        &format!("instance: its name, {long}m, is {} in the plan", names[1]),
        "configProperty: left out: ComponentIOR: only CIAO and DAnCE act upon it",
        "configProperty: left out: RegisterNaming: only CIAO and DAnCE act upon it",
        "configProperty: left out: edu.vanderbilt.dre.DAnCE.LocalityTimeout: a process has 30 s to be configured, started or ended",
    ] {
        has(&notes, &format!("plan.cdp:1: {expected}"));
    }
}

//! `campanile doctor REFERENCE`: the contents of a reference, whether its object can be reached, and obstacles for other clients.

use super::findings::{Finding, State};
use super::{describe, findings_json};
use crate::args::DoctorOptions;
use crate::failure::Failure;
use crate::show::{clean, short_time};
use client::notify::find_channel;
use client::{InvokeError, ObjectRef, Orb, OrbOptions};
use giop::bidirectional::HOW_TO_OFFER;
use giop::cdr::{CharSet, Version};
use giop::ior::{Component, IiopProfile, Ior, ORB_TYPE_CAMPANILE, Profile, tag};
use serde_json::{Value as Json, json};
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

/// Component that says that the object can also be reached by TLS (CORBA 3.3 part 2, 10.2).
const TAG_SSL_SEC_TRANS: u32 = 20;
/// Maximum addresses that are tried.
const ADDRESSES_MAX: usize = 16;

/// Examines a reference. Succeeds if nothing is in the way.
pub(super) fn run(options: &DoctorOptions, text: &str) -> Result<(), Failure> {
    let timeout = options.timeout;
    let orb = Orb::new(OrbOptions { connect_timeout: timeout, reply_timeout: Some(timeout), ..OrbOptions::default() });
    // `HOST:PORT` names a service here as it does everywhere.
    let object = orb.resolve_service(text).map_err(|error| match error {
        InvokeError::BadAddress { .. } => Failure::Usage(error.to_string()),
        error => Failure::Message(format!("the naming service that `{}` names: {error}", clean(text))),
    })?;
    let findings = examine(&object, timeout);
    let is_ready = findings.iter().all(|finding| finding.state != State::InTheWay);
    let said = if options.json {
        format!("{}\n", report(object.ior(), &findings, is_ready))
    } else {
        let verdict = if is_ready { "nothing stands in the way\n" } else { "see what is marked BAD\n" };
        format!("{}\n{}\n{verdict}", decoded(object.ior()), describe(&findings))
    };
    io::stdout().write_all(said.as_bytes())?;
    if is_ready { Ok(()) } else { Err(Failure::Quiet) }
}

fn iiop(ior: &Ior) -> impl Iterator<Item = &IiopProfile> {
    ior.profiles.iter().filter_map(|profile| match profile {
        Profile::Iiop(iiop) => Some(iiop),
        _ => None,
    })
}

/// Runs all checks.
fn examine(object: &ObjectRef, timeout: Duration) -> Vec<Finding> {
    let ior = object.ior();
    let mut findings = Vec::new();
    if ior.is_nil() {
        let why = "the program that wrote it had no object to refer to";
        return vec![Finding::new(
            "reference",
            State::InTheWay,
            "nil: it refers to nothing",
            why,
            "see which program made it",
        )];
    }
    let places = iiop(ior).flat_map(|profile| profile.addresses().map(move |address| (profile, address)));
    let places: Vec<(&IiopProfile, (String, u16))> = places.take(ADDRESSES_MAX).collect();
    let addresses: Vec<(String, u16)> = places.iter().map(|(_, address)| address.clone()).collect();
    if addresses.is_empty() {
        let why = "Campanile, and most ORBs, speak IIOP over TCP and nothing else";
        findings.push(Finding::new(
            "reference",
            State::InTheWay,
            "it has no IIOP profile",
            why,
            "have the server listen for IIOP",
        ));
    }
    for (profile, (host, port)) in &places {
        let resolved = resolve(host, *port);
        findings.push(address(host, *port, &resolved));
        let reached = reach(host, *port, &resolved, timeout);
        let is_reached = reached.state == State::Well;
        findings.push(reached);
        if is_reached {
            findings.push(check_object(&at_address(object, profile, host, *port), host, *port));
        }
    }
    let is_reached = findings.iter().any(|finding| finding.name == "connection" && finding.state == State::Well);
    findings.extend(own_connection(&ior.type_id, &addresses, is_reached));
    let is_there = findings.iter().any(|finding| finding.name == "object" && finding.state == State::Well);
    if is_there {
        excuse_others(&mut findings);
    }
    // A corbaloc says little; what the service itself writes into references says the rest.
    let of_service = if is_reached && ior.type_id.is_empty() { channel_of(object) } else { None };
    if let Some(profile) = ior.iiop().filter(|_| of_service.is_none()) {
        findings.push(version(profile));
        findings.push(code_sets(profile));
        findings.extend(tls(profile));
    }
    if is_there {
        findings.extend(has_type(object));
    }
    if let Some(profile) = of_service.as_ref().and_then(Ior::iiop) {
        findings.extend(of_channel(profile, &addresses, timeout));
    }
    findings
}

/// Reference of a channel, if the object is one or a factory of channels.
fn channel_of(object: &ObjectRef) -> Option<Ior> {
    find_channel(object, None).ok().map(|(channel, _)| channel.object().ior().clone()).filter(|ior| ior != object.ior())
}

/// Findings about the references that a service gives its clients.
fn of_channel(profile: &IiopProfile, known: &[(String, u16)], timeout: Duration) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (host, port) in profile.addresses().map(|(host, port)| (host.to_string(), port)).take(ADDRESSES_MAX) {
        let resolved = resolve(&host, port);
        findings.push(Finding { name: "its references", ..address(&host, port, &resolved) });
        if !known.contains(&(host.clone(), port)) {
            findings.push(reach(&host, port, &resolved, timeout));
        }
    }
    findings.push(version(profile));
    findings.push(code_sets(profile));
    findings.extend(tls(profile));
    findings
}

type Resolved = Result<Vec<IpAddr>, String>;

fn resolve(host: &str, port: u16) -> Resolved {
    if let Ok(ip) = host.parse() {
        return Ok(vec![ip]);
    }
    let found = (host, port).to_socket_addrs().map_err(|error| error.to_string())?;
    Ok(found.map(|address| address.ip()).collect())
}

const HOW_TO_ADVERTISE: &str = "have the server write another host: campanile serve --advertise HOST; TAO -ORBListenEndpoints \
                                iiop://HOST:PORT/hostname_in_ior=HOST; omniORB endPointPublish; JacORB jacorb.ior_proxy_host";

/// Finding about a host and port as seen by other hosts.
fn address(host: &str, port: u16, resolved: &Resolved) -> Finding {
    let new = |state, found: String, why| Finding::new("address", state, found, why, HOW_TO_ADVERTISE);
    let shown = format!("{}:{port}", clean(host));
    if port == 0 {
        return new(
            State::InTheWay,
            format!("{shown}: port 0"),
            "no client can connect there: the server did not listen",
        );
    }
    let ips = match resolved {
        Err(error) => {
            let why = "a client looks the name up where it runs, and this machine does not know it";
            return new(State::InTheWay, format!("{shown}: the name cannot be resolved here ({error})"), why);
        }
        Ok(ips) => ips,
    };
    let is_name = host.parse::<IpAddr>().is_err();
    let shown = match ips.first() {
        Some(ip) if is_name => format!("{shown}, which is {ip}"),
        _ => shown,
    };
    if ips.iter().any(IpAddr::is_unspecified) {
        let why =
            "it stands for all addresses of a machine: a client there calls its own machine, one elsewhere nothing";
        return new(State::InTheWay, shown, why);
    }
    if ips.iter().any(IpAddr::is_loopback) {
        let why = if is_name {
            "the name leads to the machine that asks: right there, and wrong everywhere else; see /etc/hosts (Debian has 127.0.1.1)"
        } else {
            "it leads to the machine that asks: programs elsewhere find no server there, or another one"
        };
        return new(State::Note, shown, why);
    }
    if ips.iter().any(is_link_local) {
        return new(State::Note, shown, "the address holds on one network segment only");
    }
    if is_name && !host.contains('.') {
        return new(
            State::Note,
            shown,
            "a name without a domain is known where it was set up, and may not be elsewhere",
        );
    }
    new(State::Well, shown, "")
}

const fn is_link_local(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// Finding whether the address accepts a connection.
fn reach(host: &str, port: u16, resolved: &Resolved, timeout: Duration) -> Finding {
    let shown = format!("{}:{port}", clean(host));
    let new = |state, found: String, why, mend| Finding::new("connection", state, found, why, mend);
    let mut last = "it has no address".to_owned();
    for ip in resolved.iter().flatten() {
        let began = Instant::now();
        match TcpStream::connect_timeout(&SocketAddr::new(*ip, port), timeout) {
            Ok(_) => return new(State::Well, format!("{shown} answers in {}", short_time(began.elapsed())), "", ""),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                last = format!("no server listens there ({error})");
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => last = format!("no answer within {timeout:?}"),
            Err(error) => last = error.to_string(),
        }
    }
    let mend =
        "see whether the server runs and listens at that port, and what lies between: firewalls, routes, containers";
    new(State::InTheWay, format!("{shown}: {last}"), "calls go there first", mend)
}

/// Finding about an object that a service calls to push events or to pull them, and may not reach at its address.
fn own_connection(type_id: &str, addresses: &[(String, u16)], is_reached: bool) -> Option<Finding> {
    let is_called = ["PushConsumer:", "PullSupplier:"].iter().any(|kind| type_id.contains(kind));
    if !is_called || !(type_id.contains("/CosNotifyComm/") || type_id.contains("/CosEventComm/")) {
        return None;
    }
    let is_hidden = |(host, _): &(String, u16)| host.parse().is_ok_and(|ip: IpAddr| is_private(ip.to_canonical()));
    let found = match addresses.iter().all(is_hidden) {
        _ if !is_reached => "a service here cannot call it at its address",
        true => "a service elsewhere may not reach it: its address is of a private network",
        false => return None,
    };
    let why = "events go to such an object by calls, for which its service connects to it unless it offers its own connection";
    Some(Finding::new("own connection", State::Note, found, why, HOW_TO_OFFER))
}

const fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_private() || ip.is_loopback(),
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_loopback(),
    }
}

fn version(profile: &IiopProfile) -> Finding {
    let new = |state, found, why, mend| Finding::new("GIOP", state, found, why, mend);
    match profile.version {
        Version::V1_0 => new(
            State::Note,
            "version 1.0".to_owned(),
            "in GIOP 1.0 no wide text travels, and code sets cannot be agreed on: text beyond ISO 8859-1 is lost. A corbaloc without a \
             version says 1.0",
            "write corbaloc:iiop:1.2@HOST:PORT/KEY",
        ),
        version => new(State::Well, format!("version 1.{}", version.minor()), "", ""),
    }
}

/// Name of a code set, from the OSF registry.
fn code_set(id: u32) -> String {
    match id {
        0 => "none".to_owned(),
        0x0001_0001 => "ISO 8859-1".to_owned(),
        0x0001_000f => "ISO 8859-15".to_owned(),
        0x0001_0020 => "ISO 646 (ASCII)".to_owned(),
        0x0001_0100 => "UCS-2".to_owned(),
        0x0001_0106 => "UCS-4".to_owned(),
        0x0001_0109 => "UTF-16".to_owned(),
        0x0501_0001 => "UTF-8".to_owned(),
        0x1002_04e4 => "Windows-1252".to_owned(),
        id => format!("0x{id:08x}"),
    }
}

fn code_sets(profile: &IiopProfile) -> Finding {
    let new = |state, found, why, mend| Finding::new("code sets", state, found, why, mend);
    let Some(sets) = profile.code_sets() else {
        let found = "it names none".to_owned();
        // A corbaloc has no code sets; the object's own reference may have some.
        let why = "without them text is ISO 8859-1, other characters cannot be sent, and wide text cannot either";
        return new(State::Note, found, why, "in a reference that the server itself made, they should be there");
    };
    let list = |native: u32, others: &[u32]| {
        let all: Vec<String> = [native].into_iter().chain(others.iter().copied()).map(code_set).collect();
        all.join(", ")
    };
    let found = format!(
        "char: {}; wchar: {}",
        list(sets.char_native, &sets.char_conversions),
        list(sets.wchar_native, &sets.wchar_conversions)
    );
    let chars: Vec<u32> = [sets.char_native].into_iter().chain(sets.char_conversions.iter().copied()).collect();
    if !chars.contains(&CharSet::Utf8.id()) {
        let understood = chars.contains(&CharSet::Latin1.id());
        let state = if understood { State::Note } else { State::InTheWay };
        let why = if understood {
            "characters beyond ISO 8859-1 cannot be sent to it, events with such text are refused with DATA_CONVERSION"
        } else {
            "it understands neither ISO 8859-1 nor UTF-8, which is what Campanile speaks: no text can be sent"
        };
        let mend = "have it understand UTF-8: omniORB -ORBnativeCharCodeSet UTF-8; TAO's UTF8_Latin1_Translator; JacORB \
                    -Djacorb.native_char_codeset=UTF8";
        return new(state, found, why, mend);
    }
    if sets.wchar_native == 0 && sets.wchar_conversions.is_empty() {
        return new(State::Note, found, "wide text cannot be sent to it", "use string, which UTF-8 can carry");
    }
    new(State::Well, found, "", "")
}

fn tls(profile: &IiopProfile) -> Option<Finding> {
    profile.component(TAG_SSL_SEC_TRANS)?;
    Some(Finding::new("TLS", State::Well, "it can be reached by TLS, too (SSL_SEC_TRANS)", "", ""))
}

/// The object with only one of its addresses.
fn at_address(object: &ObjectRef, profile: &IiopProfile, host: &str, port: u16) -> ObjectRef {
    let others = |component: &&Component| component.tag != tag::ALTERNATE_IIOP_ADDRESS;
    let components = profile.components.iter().filter(others).cloned().collect();
    let there = IiopProfile { host: host.to_owned(), port, components, ..profile.clone() };
    // Without a type, which the client would answer for itself.
    object.orb().object(Ior::new("", there))
}

/// Finding whether the object exists, asked at one address (`_non_existent`; CORBA 3.3 part 1, 8.3.4).
fn check_object(there: &ObjectRef, host: &str, port: u16) -> Finding {
    let shown = format!("{}:{port}", clean(host));
    let new = |state, found: String, why, mend| Finding::new("object", state, format!("{shown}: {found}"), why, mend);
    let began = Instant::now();
    let said = there.non_existent();
    let took = short_time(began.elapsed());
    match said {
        Ok(false) => new(State::Well, format!("the object is there, and answers in {took}"), "", ""),
        Ok(true) => new(
            State::InTheWay,
            "the server answers that there is no such object".to_owned(),
            "the object is gone, or the server was restarted and gives its objects other keys, or the port is another server's by now",
            "get a new reference, from the naming service or the server's IOR file",
        ),
        Err(error @ InvokeError::System { .. }) => new(
            State::Note,
            format!("the server answers: {error}"),
            "whether there is such an object is not known: the server does not say so",
            "see what its log says of it",
        ),
        Err(error) => new(
            State::InTheWay,
            error.to_string(),
            "a server listens there, and does not answer as an ORB does",
            "see which program it is",
        ),
    }
}

/// Reduces obstacles at one address to notes, since the object answers at another.
fn excuse_others(findings: &mut [Finding]) {
    for finding in findings.iter_mut().filter(|finding| matches!(finding.name, "address" | "connection" | "object")) {
        if finding.state == State::InTheWay {
            finding.state = State::Note;
            finding.why = "the object answers at another address of the reference; programs that try the first one only, and this is \
                           the first, do not find it";
        }
    }
}

/// Finding whether the object confirms the type in its reference.
fn has_type(object: &ObjectRef) -> Option<Finding> {
    let type_id = object.type_id();
    let untyped = Ior { type_id: String::new(), ..object.ior().clone() };
    let said = if type_id.is_empty() { return None } else { object.orb().object(untyped).is_a(type_id) };
    let new = |state, found: String, why, mend| Some(Finding::new("type", state, found, why, mend));
    match said {
        Ok(true) => new(State::Well, format!("it is of the type {}", clean(type_id)), "", ""),
        Ok(false) => new(
            State::Note,
            format!("it says that it is not of the type {}", clean(type_id)),
            "clients that check the type, as narrowing does, will refuse it",
            "see whether the port is another server's by now",
        ),
        Err(error) => new(
            State::Note,
            format!("asked whether it is of the type {}: {error}", clean(type_id)),
            "clients that check the type, as narrowing does, may refuse it",
            "see what the server's log says of it",
        ),
    }
}

// ---- what it says ----

fn orb_name(id: u32) -> String {
    match id {
        ORB_TYPE_CAMPANILE => "Campanile".to_owned(),
        0x5441_4f00 => "TAO".to_owned(),
        0x4a41_4300 => "JacORB".to_owned(),
        0x4154_5400 => "omniORB".to_owned(),
        id => format!("0x{id:08x}"),
    }
}

/// Contents of the reference as text.
fn decoded(ior: &Ior) -> String {
    let type_id = if ior.type_id.is_empty() { "not said" } else { &ior.type_id };
    let mut text = format!("type       {}\n", clean(type_id));
    for profile in &ior.profiles {
        let line = match profile {
            Profile::Iiop(profile) => {
                let orb = profile.orb_type().map_or_else(String::new, |id| format!(", made by {}", orb_name(id)));
                let (host, port) = (clean(&profile.host), profile.port);
                let minor = profile.version.minor();
                format!("IIOP 1.{minor}   {host}:{port}, key {}{orb}", key(&profile.key))
            }
            Profile::Components(components) => format!("components {} of no protocol's own", components.len()),
            Profile::Other { tag, data } => format!("profile    of protocol {tag}, {} octets", data.len()),
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// A key as text, where it is text.
fn key(octets: &[u8]) -> String {
    const SHOWN_MAX: usize = 40;
    let is_text = octets.iter().all(|octet| octet.is_ascii_graphic());
    let (shown, per_octet) = match is_text {
        true => (String::from_utf8_lossy(octets).into_owned(), 1),
        false => (format!("0x{}", octets.iter().map(|octet| format!("{octet:02x}")).collect::<String>()), 2),
    };
    if octets.len() <= SHOWN_MAX {
        return shown;
    }
    let begin: String = shown.chars().take(SHOWN_MAX * per_octet).collect();
    format!("{begin}… ({} octets)", octets.len())
}

fn report(ior: &Ior, findings: &[Finding], is_ready: bool) -> Json {
    let profiles: Vec<Json> = iiop(ior)
        .map(|profile| {
            json!({
                "host": profile.host,
                "port": profile.port,
                "giop": format!("1.{}", profile.version.minor()),
                "orb": profile.orb_type().map(orb_name),
                "key": key(&profile.key),
            })
        })
        .collect();
    json!({ "ready": is_ready, "type": ior.type_id, "profiles": profiles, "findings": findings_json(findings) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use giop::codeset::CodeSetInfo;

    fn judged(host: &str, port: u16, resolved: Result<&str, &str>) -> (State, String) {
        let resolved = resolved.map(|ip| vec![ip.parse().unwrap()]).map_err(str::to_owned);
        let finding = address(host, port, &resolved);
        (finding.state, finding.found)
    }

    #[test]
    fn addresses_that_others_cannot_use_are_reported() {
        let state = |host, port, resolved| judged(host, port, resolved).0;
        assert_eq!(state("192.0.2.1", 2809, Ok("192.0.2.1")), State::Well);
        assert_eq!(state("notify.example.org", 2809, Ok("192.0.2.1")), State::Well);
        assert_eq!(state("0.0.0.0", 2809, Ok("0.0.0.0")), State::InTheWay);
        assert_eq!(state("::", 2809, Ok("::")), State::InTheWay);
        assert_eq!(state("127.0.0.1", 2809, Ok("127.0.0.1")), State::Note);
        assert_eq!(state("localhost", 2809, Ok("::1")), State::Note);
        assert_eq!(judged("box", 7, Ok("127.0.1.1")), (State::Note, "box:7, which is 127.0.1.1".to_owned()));
        assert_eq!(state("box", 2809, Ok("192.0.2.1")), State::Note);
        assert_eq!(state("169.254.3.4", 2809, Ok("169.254.3.4")), State::Note);
        assert_eq!(state("192.0.2.1", 0, Ok("192.0.2.1")), State::InTheWay);
        let (state, found) = judged("nowhere.example", 7, Err("Name or service not known"));
        assert!(state == State::InTheWay && found.contains("cannot be resolved here (Name or"), "{found}");
    }

    #[test]
    fn of_an_object_that_is_called_for_events_it_is_said_how_to_offer_its_connection() {
        let consumer = "IDL:omg.org/CosNotifyComm/StructuredPushConsumer:1.0";
        let found = |type_id, host: &str, is_reached| {
            own_connection(type_id, &[(host.to_owned(), 7)], is_reached).map(|finding| finding.mend.unwrap())
        };
        for (host, is_reached) in [("10.0.0.5", true), ("127.0.0.1", true), ("192.0.2.1", false), ("fd00::1", true)] {
            assert_eq!(found(consumer, host, is_reached).as_deref(), Some(HOW_TO_OFFER), "{host}");
        }
        assert!(found("IDL:omg.org/CosEventComm/PullSupplier:1.0", "192.0.2.1", false).is_some());
        assert_eq!(found(consumer, "192.0.2.1", true), None);
        assert_eq!(found("IDL:omg.org/CosEventComm/PushSupplier:1.0", "10.0.0.5", false), None);
        assert_eq!(found("IDL:omg.org/CosNotifyChannelAdmin/EventChannel:1.0", "10.0.0.5", false), None);
    }

    #[test]
    fn code_sets_that_lose_text_are_reported() {
        let profile = |sets: Option<CodeSetInfo>| IiopProfile {
            version: Version::V1_2,
            host: "h".into(),
            port: 1,
            key: Vec::new(),
            components: sets.iter().map(CodeSetInfo::to_component).collect(),
        };
        let of = |char_native, conversions: &[u32], wchar_native| {
            let sets = CodeSetInfo {
                char_native,
                char_conversions: conversions.to_vec(),
                wchar_native,
                wchar_conversions: Vec::new(),
            };
            code_sets(&profile(Some(sets))).state
        };
        assert_eq!(code_sets(&profile(None)).state, State::Note);
        assert_eq!(code_sets(&profile(Some(CodeSetInfo::campanile()))).state, State::Well);
        assert_eq!(of(0x0001_0001, &[], 0x0001_0109), State::Note);
        assert_eq!(of(0x0001_0020, &[], 0x0001_0109), State::InTheWay);
        assert_eq!(of(0x0001_0001, &[0x0501_0001], 0), State::Note);
    }

    #[test]
    fn keys_are_shown_as_text_where_they_are() {
        assert_eq!(key(b"NameService"), "NameService");
        assert_eq!(key(&[0, 255]), "0x00ff");
        assert_eq!(key(&[b'a'; 50]), format!("{}… (50 octets)", "a".repeat(40)));
    }
}

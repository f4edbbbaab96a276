//! The minor codes of what the service raises: those of the OMG's list (CORBA 3.3 part 1, annex A.5), as ORBs show them to users that look
//! for the reason of an exception, and 0 where that list has none.

use std::io::Write;
use std::net::TcpStream;

use client::InvokeError;
use client::naming::{NamingContext, parse_name};
use client::notify::{ClientType, ConstraintExp, StructuredProxyPushSupplier, find_channel};
use client::{Orb, OrbOptions};
use giop::cdr::{CharSet, Endian, Version, Writer};
use giop::codeset::{self, CodeSetInfo};
use giop::exception::{Completed, Kind, OMG_MINOR, SystemException};
use giop::ior::Profile;
use giop::message::{Reply, ReplyStatus, RequestHead, ServiceContexts};
use service::{Counter, Limits};

use crate::peers::{Bare, REQUEST, assert_serves, read_message, request, request_with, start, start_limited};

/// EBCDIC, which is registered (OSF code set registry 1.2g) and which neither side here understands.
const EBCDIC: u32 = 0x1002_0417;

/// The exception that the next message brings, if it is one.
fn next_exception(stream: &mut TcpStream) -> Option<SystemException> {
    let (header, bytes) = read_message(stream).expect("a reply");
    let reply = Reply::parse(&bytes, &header).unwrap();
    let is_raised = reply.status == ReplyStatus::SystemException;
    is_raised.then(|| SystemException::read(&mut reply.body(&bytes, &header, CharSet::Latin1)).unwrap())
}

/// `TRANSIENT` 1: "request discarded because of resource exhaustion in POA, or because POA is in discarding state".
#[test]
fn a_request_for_which_there_is_no_room_is_transient_1() {
    let service = start_limited(Limits { administration_queue: 1, ..Limits::default() });
    let mut stream = TcpStream::connect(service.address()).unwrap();
    let asked = request(Version::V1_2, b"NotificationService", "_non_existent", |_| ());
    let mut raised = Vec::new();
    while raised.is_empty() {
        stream.write_all(&asked.repeat(50)).unwrap();
        raised.extend((0..50).filter_map(|_| next_exception(&mut stream)));
    }
    assert!(service.counters().read(Counter::AdministrationFull) > 0);
    let transient = SystemException { kind: Kind::Transient, minor: OMG_MINOR | 1, completed: Completed::No };
    assert!(raised.iter().all(|exception| *exception == transient), "{raised:?}");
}

/// `CODESET_INCOMPATIBLE` 1: "codeset negotiation failed".
#[test]
fn a_reference_without_a_code_set_that_is_known_is_codeset_incompatible_1() {
    let service = start();
    let mut reference = Bare::new().reference();
    let info = CodeSetInfo { char_native: EBCDIC, char_conversions: Vec::new(), ..CodeSetInfo::campanile() };
    reference.profiles.iter_mut().for_each(|profile| {
        if let Profile::Iiop(profile) = profile {
            profile.components = vec![info.to_component()];
        }
    });
    let orb = Orb::new(OrbOptions::default());
    let found = orb.resolve(&service.corbaloc("NotificationService")).unwrap();
    let admin = find_channel(&found, None).unwrap().0.default_consumer_admin().unwrap();
    let (proxy, _) = admin.obtain_notification_push_supplier(ClientType::Structured).unwrap();
    let error = StructuredProxyPushSupplier::unchecked(proxy.object().clone())
        .connect_structured_push_consumer(&orb.object(reference))
        .unwrap_err();
    let InvokeError::System { exception, .. } = error else { panic!("{error}") };
    assert_eq!((exception.kind, exception.minor), (Kind::CodesetIncompatible, OMG_MINOR | 1));
    assert_eq!(exception.completed, Completed::No);
}

/// `CODESET_INCOMPATIBLE` 2: "codeset delivered in CodeSetContext is not supported by server as TCS".
#[test]
fn a_request_in_a_code_set_that_is_not_known_is_codeset_incompatible_2() {
    let service = start();
    // An encapsulation (CORBA 3.3 part 2, 9.8.1): little-endian, char data, wchar data.
    let mut context = vec![1, 0, 0, 0];
    context.extend(EBCDIC.to_le_bytes());
    context.extend(0x0001_0109_u32.to_le_bytes());
    let contexts: &[(u32, &[u8])] = &[(ServiceContexts::CODE_SETS, &context)];
    let head = RequestHead { key: b"NotificationService", operation: b"_non_existent", contexts, ..REQUEST };
    let mut stream = TcpStream::connect(service.address()).unwrap();
    stream.write_all(&request_with(&head, CharSet::Latin1, |_| ())).unwrap();
    let exception = next_exception(&mut stream).expect("an exception");
    assert_eq!((exception.kind, exception.minor), (Kind::CodesetIncompatible, OMG_MINOR | 2));
    assert_eq!(exception.completed, Completed::No);
    // The connection goes on.
    stream.write_all(&request(Version::V1_2, b"NotificationService", "_non_existent", |_| ())).unwrap();
    assert_eq!(next_exception(&mut stream), None);
    assert_serves(&service);
}

/// `DATA_CONVERSION` 1: "character does not map to negotiated transmission code set".
#[test]
fn an_answer_with_a_character_that_the_client_s_code_set_lacks_is_data_conversion_1() {
    // A constraint came back as `$v == '?'`, and a name as `?`: what a client did with these was about something else.
    let service = start();
    let orb = Orb::new(OrbOptions::default());
    let factory = orb.resolve(&service.corbaloc("NotificationService")).unwrap();
    let filters = find_channel(&factory, None).unwrap().0.default_filter_factory().unwrap().unwrap();
    let filter = filters.create_filter("EXTENDED_TCL").unwrap();
    filter.add_constraints(&[ConstraintExp::new("$v == '東'")]).unwrap();
    let filter = filter.object().ior().iiop().unwrap().key.clone();
    // A `corbaloc` does not say which code sets its object knows.
    let root = NamingContext::unchecked(orb.resolve(&service.corbaloc("NameService")).unwrap());
    let cities = root.bind_new_context(&parse_name("cities").unwrap()).unwrap();
    cities.bind(&parse_name("東京").unwrap(), &factory).unwrap();
    let cities = cities.object().ior().iiop().unwrap().key.clone();
    let mut stream = TcpStream::connect(service.address()).unwrap();
    let asked: [(&[u8], &str, Option<u32>); 2] = [(&filter, "get_all_constraints", None), (&cities, "list", Some(100))];
    let write = |w: &mut Writer<'_>, number: Option<u32>| number.into_iter().for_each(|number| w.u32(number));
    for (key, operation, number) in asked {
        stream.write_all(&request(Version::V1_2, key, operation, |w| write(w, number))).unwrap();
        let lacking = SystemException { kind: Kind::DataConversion, minor: OMG_MINOR | 1, completed: Completed::Yes };
        assert_eq!(next_exception(&mut stream), Some(lacking), "{operation}");
    }
    // The connection goes on, and one in UTF-8 is answered.
    stream.write_all(&request(Version::V1_2, b"NotificationService", "_non_existent", |_| ())).unwrap();
    assert_eq!(next_exception(&mut stream), None);
    let context = codeset::context(CharSet::Utf8, Endian::Little);
    let mut stream = TcpStream::connect(service.address()).unwrap();
    for (key, operation, number) in asked {
        let contexts: &[(u32, &[u8])] = &[(ServiceContexts::CODE_SETS, &context)];
        let head = RequestHead { key, operation: operation.as_bytes(), contexts, ..REQUEST };
        stream.write_all(&request_with(&head, CharSet::Utf8, |w| write(w, number))).unwrap();
        assert_eq!(next_exception(&mut stream), None, "{operation}");
    }
}

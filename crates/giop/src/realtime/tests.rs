use super::*;
use crate::cdr::{CharSet, Version};
use crate::message::{self, Header, ReplyHead, ReplyStatus, Request, RequestHead, Response, ServiceContexts};
use alloc::vec;
use alloc::vec::Vec;

const BOTH: [Endian; 2] = [Endian::Big, Endian::Little];

/// Policies as another ORB might send them: in either byte order, ours between two that are not known here.
fn component_among_others(endian: Endian, model: u32, server_priority: i16) -> Component {
    let data = encapsulate(endian, |w| {
        w.u32(3);
        w.u32(45); // banded connections
        w.octets(&[1, 2, 3]);
        w.u32(PriorityModelPolicy::POLICY_TYPE);
        w.octets(&encapsulate(endian, |w| {
            w.u32(model);
            w.i16(server_priority);
        }));
        w.u32(24);
        w.octets(&[]);
    });
    Component { tag: tag::POLICIES, data }
}

#[test]
fn policy_reads_back_as_it_was_written_whatever_the_model_and_priority() {
    for model in PriorityModel::ALL {
        for server_priority in [0, 1, 256, PRIORITY_MAX] {
            let policy = PriorityModelPolicy { model, server_priority };
            assert_eq!(PriorityModelPolicy::from_component(&policy.to_component()), Ok(Some(policy)));
        }
    }
}

#[test]
fn component_is_the_octets_that_the_standard_gives() {
    let policy = PriorityModelPolicy { model: PriorityModel::ServerDeclared, server_priority: 300 };
    let component = policy.to_component();
    assert_eq!(component.tag, 2);
    let expected = [
        0, 0, 0, 0, 0, 0, 0, 1, // big endian; one policy
        0, 0, 0, 40, 0, 0, 0, 10, // its type; ten octets of it
        0, 0, 0, 0, 0, 0, 0, 1, // big endian; SERVER_DECLARED
        1, 44, // 300
    ];
    assert_eq!(component.data, expected);
}

#[test]
fn policy_is_found_among_others_in_either_byte_order() {
    for endian in BOTH {
        let found = PriorityModelPolicy::from_component(&component_among_others(endian, 0, 7));
        let policy = PriorityModelPolicy { model: PriorityModel::ClientPropagated, server_priority: 7 };
        assert_eq!(found, Ok(Some(policy)), "{endian:?}");
    }
}

#[test]
fn component_without_the_policy_says_nothing() {
    let none = Component::encapsulated(tag::POLICIES, |w| w.u32(0));
    assert_eq!(PriorityModelPolicy::from_component(&none), Ok(None));
    let other = Component::encapsulated(tag::POLICIES, |w| {
        w.u32(1);
        w.u32(24);
        w.octets(&[9; 5]);
    });
    assert_eq!(PriorityModelPolicy::from_component(&other), Ok(None));
}

#[test]
fn component_cut_at_any_length_is_refused_and_not_believed() {
    for endian in BOTH {
        let whole = component_among_others(endian, 1, 9);
        let policy = PriorityModelPolicy::from_component(&whole).unwrap();
        // What follows the policy is not looked at.
        let needed = whole.data.len() - 10;
        for length in 0..whole.data.len() {
            let cut = Component { tag: tag::POLICIES, data: whole.data[..length].to_vec() };
            match PriorityModelPolicy::from_component(&cut) {
                Ok(found) => assert!(found == policy && length >= needed, "cut to {length}"),
                Err(_) => assert!(length < needed, "cut to {length}"),
            }
        }
    }
}

#[test]
fn component_with_any_octet_changed_is_read_or_refused() {
    let whole = component_among_others(Endian::Big, 1, 9);
    for at in 0..whole.data.len() {
        for octet in [0, 1, 2, 0x7f, 0x80, 0xff] {
            let mut data = whole.data.clone();
            data[at] = octet;
            if let Ok(Some(policy)) = PriorityModelPolicy::from_component(&Component { tag: tag::POLICIES, data }) {
                assert!(policy.server_priority >= 0);
            }
        }
    }
}

#[test]
fn refuses_models_and_priorities_that_there_are_not() {
    for endian in BOTH {
        for (model, priority) in [(2, 0), (u32::MAX, 5), (0, -1), (1, i16::MIN)] {
            let component = component_among_others(endian, model, priority);
            let error = PriorityModelPolicy::from_component(&component).unwrap_err();
            assert!(matches!(error.kind, ReadErrorKind::BadValue { .. }), "{model} {priority}: {error}");
        }
    }
}

#[test]
fn refuses_a_component_of_another_kind_and_more_policies_than_anybody_has() {
    let policy = PriorityModelPolicy { model: PriorityModel::ClientPropagated, server_priority: 0 };
    let other = Component { tag: tag::CODE_SETS, data: policy.to_component().data };
    assert!(PriorityModelPolicy::from_component(&other).is_err());
    let many = Component::encapsulated(tag::POLICIES, |w| {
        w.u32(PriorityModelPolicy::POLICIES_MAX + 1);
        for _ in 0..=PriorityModelPolicy::POLICIES_MAX {
            w.u32(1);
            w.octets(&[]);
        }
    });
    let error = PriorityModelPolicy::from_component(&many).unwrap_err();
    assert!(matches!(error.kind, ReadErrorKind::TooMany { count: 257, max: 256, .. }), "{error}");
    let endless = Component::encapsulated(tag::POLICIES, |w| w.u32(u32::MAX));
    assert!(PriorityModelPolicy::from_component(&endless).is_err());
}

#[test]
fn reference_says_its_model_and_one_with_a_broken_component_says_none() {
    let policy = PriorityModelPolicy { model: PriorityModel::ClientPropagated, server_priority: 12 };
    let profile = |components: Vec<Component>| IiopProfile {
        version: Version::V1_2,
        host: "localhost".into(),
        port: 2809,
        key: b"key".to_vec(),
        components,
    };
    let ior = Ior::new("IDL:X:1.0", profile(vec![policy.to_component()]));
    let reread: Ior = alloc::string::ToString::to_string(&ior).parse().unwrap();
    assert_eq!(reread.priority_model(), Some(policy));
    let broken = Component { tag: tag::POLICIES, data: vec![0, 0, 0] };
    assert_eq!(Ior::new("", profile(vec![broken])).priority_model(), None);
    assert_eq!(Ior::new("", profile(Vec::new())).priority_model(), None);
    assert_eq!(Ior::nil().priority_model(), None);
}

#[test]
fn priority_context_is_four_octets_that_read_back() {
    assert_eq!(priority_context(300, Endian::Big), [0, 0, 1, 44]);
    assert_eq!(priority_context(300, Endian::Little), [1, 0, 44, 1]);
    for endian in BOTH {
        for priority in [0, 1, 255, 256, PRIORITY_MAX] {
            assert_eq!(parse_priority_context(&priority_context(priority, endian)), Ok(priority));
        }
    }
}

#[test]
fn priority_context_cut_at_any_length_or_below_zero_is_refused() {
    for endian in BOTH {
        let whole = priority_context(0x1234, endian);
        for length in 0..whole.len() {
            assert!(parse_priority_context(&whole[..length]).is_err(), "cut to {length}");
        }
        for priority in [-1, i16::MIN] {
            let error = parse_priority_context(&priority_context(priority, endian)).unwrap_err();
            assert!(matches!(error.kind, ReadErrorKind::BadValue { .. }), "{error}");
        }
    }
}

#[test]
fn what_a_later_standard_adds_to_the_context_is_passed_over() {
    assert_eq!(parse_priority_context(&[0, 0, 0, 5, 1, 2, 3]), Ok(5));
}

#[test]
fn priority_travels_in_requests_and_replies_of_every_version() {
    for version in [Version::V1_0, Version::V1_1, Version::V1_2] {
        for endian in BOTH {
            let data = priority_context(77, endian);
            let contexts: &[(u32, &[u8])] = &[(ServiceContexts::RT_CORBA_PRIORITY, &data)];
            let mut bytes = Vec::new();
            let head = RequestHead {
                version,
                endian,
                request_id: 1,
                response: Response::Expected,
                key: b"key",
                operation: b"push",
                contexts,
                body_phase: None,
            };
            let open = message::begin_request(&mut bytes, &head);
            open.body(&mut bytes, CharSet::Latin1).u64(5);
            open.finish(&mut bytes);
            let header = Header::parse(&bytes).unwrap();
            let request = Request::parse(&bytes, &header).unwrap();
            let found = request.contexts.find(ServiceContexts::RT_CORBA_PRIORITY).unwrap();
            assert_eq!(parse_priority_context(found), Ok(77));
            assert_eq!(request.body(&bytes, &header, CharSet::Latin1).u64(), Ok(5));

            let mut bytes = Vec::new();
            let head = ReplyHead { version, endian, request_id: 1, status: ReplyStatus::NoException, contexts };
            message::begin_reply(&mut bytes, &head).finish(&mut bytes);
            let reply = message::Reply::parse(&bytes, &Header::parse(&bytes).unwrap()).unwrap();
            let found = reply.contexts.find(ServiceContexts::RT_CORBA_PRIORITY).unwrap();
            assert_eq!(parse_priority_context(found), Ok(77));
        }
    }
}

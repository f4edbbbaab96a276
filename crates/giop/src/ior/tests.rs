//! Tests of references.

use super::*;
use crate::cdr::{CharSet, Encoding, Endian, Version};
use alloc::string::ToString;
use alloc::{format, vec};

fn iiop(version: Version) -> IiopProfile {
    IiopProfile {
        version,
        host: "tower.example".into(),
        port: 2809,
        key: Vec::from(*b"\x00key\xFF"),
        components: if version == Version::V1_0 {
            Vec::new()
        } else {
            vec![
                CodeSetInfo::campanile().to_component(),
                Component { tag: 77, data: vec![1, 2, 3] },
                Component::alternate_address("::1", 4711),
            ]
        },
    }
}

/// A reference with every kind of profile.
fn example() -> Ior {
    Ior {
        type_id: "IDL:omg.org/CosNotifyChannelAdmin/EventChannel:1.0".into(),
        profiles: vec![
            Profile::Other { tag: 1234, data: vec![9, 9] },
            Profile::Iiop(iiop(Version::V1_0)),
            Profile::Iiop(iiop(Version::V1_1)),
            Profile::Iiop(iiop(Version::V1_2)),
            Profile::Components(vec![Component { tag: 5, data: Vec::new() }]),
        ],
    }
}

fn encodings() -> impl Iterator<Item = Encoding> {
    [Endian::Big, Endian::Little].into_iter().flat_map(|endian| {
        [Version::V1_0, Version::V1_1, Version::V1_2].into_iter().map(move |version| Encoding {
            endian,
            version,
            chars: CharSet::Latin1,
        })
    })
}

/// Made by omniORB 4.2.5 from `corbaloc:iiop:1.2@127.0.0.1:33351/NotificationService`.
const OF_OMNIORB: &str = "IOR:010000000100000000000000010000000000000030000000010102000a0000003132372e302e302e310047821300\
    00004e6f74696669636174696f6e536572766963650000000000";

#[test]
fn reads_what_was_written() {
    for encoding in encodings() {
        for phase in 0..8 {
            let mut bytes = Vec::new();
            example().write(&mut Writer::with_phase(&mut bytes, phase, encoding));
            let mut r = Reader::with_phase(&bytes, phase, encoding);
            assert_eq!(Ior::read(&mut r).unwrap(), example());
            r.finish("a reference").unwrap();
            let mut r = Reader::with_phase(&bytes, phase, encoding);
            Ior::skip(&mut r).unwrap();
            assert!(r.is_empty());
        }
    }
}

#[test]
fn refuses_a_reference_cut_at_every_length() {
    for encoding in encodings() {
        let mut bytes = Vec::new();
        example().write(&mut Writer::new(&mut bytes, encoding));
        for len in 0..bytes.len() {
            assert!(Ior::read(&mut Reader::new(&bytes[..len], encoding)).is_err());
            assert!(Ior::skip(&mut Reader::new(&bytes[..len], encoding)).is_err());
        }
    }
}

#[test]
fn refuses_a_profile_cut_at_every_length() {
    for version in [Version::V1_0, Version::V1_1, Version::V1_2] {
        let mut ior = Vec::new();
        Ior::new("", iiop(version)).write(&mut Writer::new(&mut ior, Encoding::new(Endian::Big)));
        let data = ior.split_off(20);
        for len in 0..data.len() {
            ior[16..20].copy_from_slice(&u32::try_from(len).unwrap().to_be_bytes());
            let bytes = [ior.as_slice(), &data[..len]].concat();
            let read = Ior::read(&mut Reader::new(&bytes, Encoding::new(Endian::Big)));
            assert!(read.is_err(), "{version:?} with {len} of {} octets", data.len());
        }
    }
}

#[test]
fn survives_being_text() {
    let text = example().to_string();
    assert!(text.starts_with("IOR:00000000000000"));
    assert_eq!(text.parse::<Ior>().unwrap(), example());
    assert_eq!(format!("  ior:{}\n", text[4..].to_uppercase()).parse::<Ior>().unwrap(), example());
}

#[test]
fn reads_a_reference_of_omniorb() {
    let ior: Ior = OF_OMNIORB.parse().unwrap();
    assert_eq!(ior.type_id, "");
    let profile = ior.iiop().unwrap();
    assert_eq!((profile.version, profile.host.as_str(), profile.port), (Version::V1_2, "127.0.0.1", 33351));
    assert_eq!(profile.key, b"NotificationService");
    assert!(profile.components.is_empty());
    assert_eq!(profile.code_sets(), None);
}

#[test]
fn refuses_text_that_is_no_reference() {
    let parse = |text: &str| text.parse::<Ior>().unwrap_err();
    assert_eq!(parse(""), ParseIorError::NoPrefix);
    assert_eq!(parse("corbaloc::host/key"), ParseIorError::NoPrefix);
    assert_eq!(parse("IOR:000"), ParseIorError::OddDigits { digits: 3 });
    assert_eq!(parse("IOR:00000x"), ParseIorError::NotHex { at: 8 });
    assert_eq!(parse("IOR:00+1"), ParseIorError::NotHex { at: 6 });
    assert_eq!(parse("IOR:ää"), ParseIorError::NotHex { at: 4 });
    assert!(matches!(parse("IOR:"), ParseIorError::Read(_)));
    let long = format!("IOR:{}", "0".repeat((1 << 20) + 2));
    assert_eq!(parse(&long), ParseIorError::TooLong { digits: (1 << 20) + 2, max: 1 << 20 });
    let whole = example().to_string();
    for len in (0..whole.len()).filter(|&len| whole.is_char_boundary(len)) {
        assert!(whole[..len].parse::<Ior>().is_err());
    }
    assert_eq!(
        parse("IOR:0").to_string(),
        "an object reference has 1 digits, an odd number; it was probably cut short"
    );
}

#[test]
fn nil_is_empty() {
    let nil = Ior::nil();
    assert!(nil.is_nil() && nil.iiop().is_none());
    assert_eq!(nil.to_string(), "IOR:00000000000000010000000000000000");
    assert_eq!(nil.to_string().parse::<Ior>().unwrap(), nil);
    assert!(!example().is_nil());
}

#[test]
fn tells_code_sets_and_addresses() {
    let profile = iiop(Version::V1_2);
    assert_eq!(profile.code_sets(), Some(CodeSetInfo::campanile()));
    let addresses: Vec<_> = profile.addresses().collect();
    assert_eq!(addresses, [("tower.example".into(), 2809), ("::1".into(), 4711)]);
    assert_eq!(iiop(Version::V1_0).code_sets(), None);
    assert_eq!(profile.component(77).unwrap().data, [1, 2, 3]);
}

#[test]
fn an_address_that_cannot_be_read_is_left_out() {
    let mut profile = iiop(Version::V1_2);
    for component in &mut profile.components {
        component.data.truncate(6);
    }
    assert_eq!(profile.addresses().count(), 1);
    assert_eq!(profile.code_sets(), None);
}

/// A reference with one profile of these octets.
fn with_iiop_data(data: &[u8]) -> Result<Ior, ReadError> {
    let encoding = Encoding::new(Endian::Big);
    let mut bytes = Vec::new();
    let mut w = Writer::new(&mut bytes, encoding);
    w.string("");
    w.u32(1);
    w.u32(tag::INTERNET_IOP);
    w.octets(data);
    Ior::read(&mut Reader::new(&bytes, encoding))
}

#[test]
fn a_later_minor_version_is_read_as_the_latest_known_and_may_be_longer() {
    let data = crate::codeset::encapsulate(Endian::Little, |w| {
        w.raw(&[1, 9]);
        w.string("host");
        w.u16(1);
        w.octets(b"key");
        w.u32(0);
        w.raw(b"something new");
    });
    let ior = with_iiop_data(&data).unwrap();
    assert_eq!(ior.iiop().unwrap().version, Version::V1_2);
}

#[test]
fn a_later_major_version_stays_as_it_is() {
    let data = [0, 2, 0, 1, 2, 3];
    let ior = with_iiop_data(&data).unwrap();
    assert_eq!(ior.profiles, [Profile::Other { tag: 0, data: data.into() }]);
    assert!(ior.iiop().is_none());
}

#[test]
fn refuses_more_than_is_accepted() {
    let profiles = |count| vec![Profile::Other { tag: 9, data: Vec::new() }; count];
    let components = |count| vec![Component { tag: 9, data: Vec::new() }; count];
    let read = |ior: &Ior| {
        let encoding = Encoding::new(Endian::Little);
        let mut bytes = Vec::new();
        ior.write(&mut Writer::new(&mut bytes, encoding));
        Ior::skip(&mut Reader::new(&bytes, encoding)).and_then(|()| Ior::read(&mut Reader::new(&bytes, encoding)))
    };
    assert!(read(&Ior { type_id: "".into(), profiles: profiles(64) }).is_ok());
    let error = read(&Ior { type_id: "".into(), profiles: profiles(65) }).unwrap_err();
    assert_eq!(error.kind, ReadErrorKind::TooMany { what: "profiles", count: 65, max: 64 });
    let with = |count| Ior::new("", IiopProfile { components: components(count), ..iiop(Version::V1_2) });
    assert!(read(&with(256)).is_ok());
    let error = read(&with(257)).unwrap_err();
    assert_eq!(error.kind, ReadErrorKind::TooMany { what: "components", count: 257, max: 256 });
}

#[test]
fn random_changes_end_in_references_or_errors() {
    let mut random = fastrand::Rng::with_seed(13);
    let encoding = Encoding::new(Endian::Little);
    let mut original = Vec::new();
    example().write(&mut Writer::new(&mut original, encoding));
    for _ in 0..20_000 {
        let mut bytes = original.clone();
        for _ in 0..random.usize(1..8) {
            let at = random.usize(0..bytes.len());
            bytes[at] = if random.bool() { random.u8(0..5) } else { random.u8(..) };
        }
        if let Ok(ior) = Ior::read(&mut Reader::new(&bytes, encoding)) {
            let again: Ior = ior.to_string().parse().unwrap();
            assert_eq!(again, ior);
            assert!(ior.iiop().is_none_or(|profile| profile.addresses().count() < 300));
        }
    }
}

#[test]
fn a_reference_says_which_orb_made_it() {
    let profile =
        |components| IiopProfile { version: Version::V1_2, host: "h".into(), port: 1, key: b"k".to_vec(), components };
    let ours = Ior::new("IDL:T:1.0", profile(vec![Component::orb_type(ORB_TYPE_CAMPANILE)]));
    let read = ours.to_string().parse::<Ior>().unwrap();
    assert_eq!(read.orb_type(), Some(ORB_TYPE_CAMPANILE));
    // As omniORB writes it: little endian, "ATT\0".
    let data = vec![1, 0, 0, 0, 0, 0x54, 0x54, 0x41];
    let omni = Ior::new("IDL:T:1.0", profile(vec![Component { tag: tag::ORB_TYPE, data }]));
    assert_eq!(omni.orb_type(), Some(0x4154_5400));
    let broken = Ior::new("IDL:T:1.0", profile(vec![Component { tag: tag::ORB_TYPE, data: vec![1, 0] }]));
    assert_eq!((broken.orb_type(), Ior::nil().orb_type()), (None, None));
}

//! Tests of reading and writing CDR.

use super::*;
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};

/// Every encoding there is.
fn encodings() -> impl Iterator<Item = Encoding> {
    [Endian::Big, Endian::Little].into_iter().flat_map(|endian| {
        [Version::V1_0, Version::V1_1, Version::V1_2, Version::Xcdr1].into_iter().flat_map(move |version| {
            [CharSet::Latin1, CharSet::Utf8].into_iter().map(move |chars| Encoding { endian, version, chars })
        })
    })
}

/// Writes one of everything.
fn write_all(w: &mut Writer<'_>) {
    w.u8(0xA5);
    w.u16(0x1234);
    w.bool(true);
    w.i16(-2);
    w.u8(1);
    w.u32(0xDEAD_BEEF);
    w.u8(2);
    w.i32(i32::MIN);
    w.u8(3);
    w.u64(0x0123_4567_89AB_CDEF);
    w.u8(4);
    w.i64(-1);
    w.bool(false);
    w.f32(1.5);
    w.u8(5);
    w.f64(-2.25);
    w.u8(6);
    w.long_double([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
    w.string("späte Glocke");
    w.wchar('€');
    w.wstring("Glocke 🔔");
    w.octets(&[9, 8, 7]);
    w.encapsulation(|w| {
        w.u64(77);
        w.encapsulation(|w| w.string("inner"));
        w.u8(1);
    });
    w.u32(4711);
}

/// Reads what [`write_all`] wrote and checks it.
fn read_all(r: &mut Reader<'_>) -> Result<(), ReadError> {
    assert_eq!(r.u8()?, 0xA5);
    assert_eq!(r.u16()?, 0x1234);
    assert!(r.bool()?);
    assert_eq!(r.i16()?, -2);
    assert_eq!(r.u8()?, 1);
    assert_eq!(r.u32()?, 0xDEAD_BEEF);
    assert_eq!(r.u8()?, 2);
    assert_eq!(r.i32()?, i32::MIN);
    assert_eq!(r.u8()?, 3);
    assert_eq!(r.u64()?, 0x0123_4567_89AB_CDEF);
    assert_eq!(r.u8()?, 4);
    assert_eq!(r.i64()?, -1);
    assert!(!r.bool()?);
    assert_eq!(r.f32()?.to_bits(), 1.5_f32.to_bits());
    assert_eq!(r.u8()?, 5);
    assert_eq!(r.f64()?.to_bits(), (-2.25_f64).to_bits());
    assert_eq!(r.u8()?, 6);
    assert_eq!(r.long_double()?, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
    assert_eq!(r.text()?, "späte Glocke");
    assert_eq!(r.wchar()?.to_char(), Some('€'));
    assert_eq!(r.wtext()?, "Glocke 🔔");
    assert_eq!(r.octets()?, [9, 8, 7]);
    let mut inner = r.encapsulation()?;
    assert_eq!(inner.u64()?, 77);
    let mut innermost = inner.encapsulation()?;
    assert_eq!(innermost.text()?, "inner");
    innermost.finish("the innermost")?;
    assert_eq!(inner.u8()?, 1);
    inner.finish("the inner")?;
    assert_eq!(r.u32()?, 4711);
    Ok(())
}

#[test]
fn reads_what_was_written_in_every_encoding_and_phase() {
    for encoding in encodings() {
        for phase in 0..16 {
            let mut buf = vec![0xEE; 3];
            write_all(&mut Writer::with_phase(&mut buf, phase, encoding));
            let mut r = Reader::with_phase(&buf[3..], phase, encoding);
            read_all(&mut r).unwrap_or_else(|error| panic!("{encoding:?}, phase {phase}: {error}"));
            r.finish("the whole").unwrap();
        }
    }
}

#[test]
fn refuses_everything_cut_at_every_length() {
    for encoding in encodings() {
        for phase in 0..8 {
            let mut buf = Vec::new();
            write_all(&mut Writer::with_phase(&mut buf, phase, encoding));
            for len in 0..buf.len() {
                let error = read_all(&mut Reader::with_phase(&buf[..len], phase, encoding)).unwrap_err();
                assert!(error.offset <= len, "{encoding:?}, phase {phase}, cut at {len}: {error}");
            }
        }
    }
}

#[test]
fn lies_as_the_standard_says() {
    let mut buf = Vec::new();
    let mut w = Writer::new(&mut buf, Encoding::new(Endian::Big));
    w.u8(1);
    w.u16(2);
    w.u32(3);
    w.u8(4);
    w.u64(5);
    assert_eq!(buf, [1, 0, 0, 2, 0, 0, 0, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5]);

    let mut buf = Vec::new();
    let mut w = Writer::with_phase(&mut buf, 5, Encoding::new(Endian::Little));
    w.u16(2);
    w.string("a");
    assert_eq!(buf, [0, 2, 0, 2, 0, 0, 0, b'a', 0]);
}

#[test]
fn writes_an_encapsulation_in_place_with_its_own_alignment() {
    let mut buf = Vec::new();
    let mut w = Writer::new(&mut buf, Encoding::new(Endian::Little));
    w.u8(9);
    let position = w.encapsulation(|w| {
        w.u8(7);
        w.u32(1);
        w.position()
    });
    w.u8(8);
    assert_eq!(position, 8);
    assert_eq!(buf, [9, 0, 0, 0, 8, 0, 0, 0, 1, 7, 0, 0, 1, 0, 0, 0, 8]);
}

#[test]
fn a_boolean_is_0_or_1() {
    let mut r = Reader::new(&[0, 2], Encoding::new(Endian::Big));
    r.u8().unwrap();
    let error = r.bool().unwrap_err();
    assert_eq!(error, ReadError { offset: 1, kind: ReadErrorKind::BadBool { value: 2 } });
    assert_eq!(format!("{error}"), "at octet 1: a boolean is 2 where only 0 and 1 are allowed");
}

#[test]
fn a_string_of_length_0_is_empty() {
    let mut r = Reader::new(&[0, 0, 0, 0, 0, 0, 0, 1, 0], Encoding::new(Endian::Big));
    assert_eq!(r.string().unwrap(), b"");
    assert_eq!(r.string().unwrap(), b"");
    assert!(r.is_empty());
}

#[test]
fn refuses_a_string_without_nul() {
    let mut r = Reader::new(&[0, 0, 0, 2, b'h', b'i'], Encoding::new(Endian::Big));
    assert_eq!(r.string().unwrap_err(), ReadError { offset: 5, kind: ReadErrorKind::MissingNul });
}

#[test]
fn refuses_lengths_that_do_not_fit() {
    for length in [6_u32, 0x7FFF_FFFF, 0x8000_0000, u32::MAX] {
        let mut bytes = Vec::from(length.to_be_bytes());
        bytes.extend([b'x', 0, 0, 0, 0]);
        let too_long = ReadError { offset: 0, kind: ReadErrorKind::TooLong { length, available: 5 } };
        let reader = |version| Reader::new(&bytes, Encoding { version, ..Encoding::new(Endian::Big) });
        assert_eq!(reader(Version::V1_2).string().unwrap_err(), too_long);
        assert_eq!(reader(Version::V1_2).octets().unwrap_err(), too_long);
        assert_eq!(reader(Version::V1_2).encapsulation().unwrap_err(), too_long);
        assert_eq!(reader(Version::V1_2).wstring().unwrap_err(), too_long);
        assert_eq!(reader(Version::V1_2).seq_len(1).unwrap_err(), too_long);
        assert_eq!(reader(Version::V1_1).wstring().unwrap_err().offset, 0);
    }
}

#[test]
fn a_sequence_is_as_long_as_its_elements_can_fit() {
    let bytes = [0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8];
    let length = |each| Reader::new(&bytes, Encoding::new(Endian::Big)).seq_len(each);
    assert_eq!(length(0), Ok(2));
    assert_eq!(length(4), Ok(2));
    assert!(length(5).is_err());
    assert!(length(usize::MAX).is_err());
}

#[test]
fn text_is_in_the_code_set_of_the_encoding() {
    let latin1 = Encoding::new(Endian::Big);
    let utf8 = Encoding { chars: CharSet::Utf8, ..latin1 };
    let mut buf = Vec::new();
    let mut writer = Writer::new(&mut buf, latin1);
    writer.string("éé");
    assert_eq!(writer.lacking(), None);
    assert_eq!(buf, [0, 0, 0, 3, 0xE9, 0xE9, 0]);
    assert_eq!(Reader::new(&buf, latin1).text().unwrap(), "éé");
    let error = Reader::new(&buf, utf8).text().unwrap_err();
    assert_eq!(error, ReadError { offset: 4, kind: ReadErrorKind::BadText { charset: "UTF-8" } });
    buf.clear();
    Writer::new(&mut buf, utf8).string("é→é");
    assert_eq!(Reader::new(&buf, utf8).text().unwrap(), "é→é");
    assert_eq!(Reader::new(&buf, latin1).with_chars(CharSet::Utf8).text().unwrap(), "é→é");
}

/// What a code set lacks became `?`, or U+FFFD in a `wchar`, and was sent as if it were the text.
#[test]
fn a_character_that_the_encoding_lacks_is_remembered_and_never_replaced() {
    let latin1 = Encoding::new(Endian::Big);
    let mut buf = Vec::new();
    let mut writer = Writer::new(&mut buf, latin1);
    writer.string("a");
    writer.encapsulation(|inner| inner.string("é→東"));
    writer.string("鐘");
    assert_eq!(writer.lacking(), Some('→'), "the first one, within an encapsulation, too");
    assert!(!buf.contains(&b'?'));
    let early = Encoding { version: Version::V1_1, ..latin1 };
    let mut buf = Vec::new();
    let mut writer = Writer::new(&mut buf, early);
    writer.wchar('鐘');
    assert_eq!(writer.lacking(), None);
    writer.wchar('𝄞');
    assert_eq!(writer.lacking(), Some('𝄞'));
    let said = format!("{}", Lacking::in_encoding('東'));
    assert_eq!(said, "'東' (U+6771) cannot be sent: ISO 8859-1 lacks it, and the other side knows nothing else");
}

/// A reader over a wide string or character of GIOP 1.2.
fn wide(bytes: &[u8]) -> Reader<'_> {
    Reader::new(bytes, Encoding::new(Endian::Little))
}

#[test]
fn a_wide_string_of_1_2_is_big_endian_unless_marked() {
    assert_eq!(wide(&[4, 0, 0, 0, 0, b'h', 0, b'i']).wtext().unwrap(), "hi");
    assert_eq!(wide(&[6, 0, 0, 0, 0xFE, 0xFF, 0, b'h', 0, b'i']).wtext().unwrap(), "hi");
    assert_eq!(wide(&[6, 0, 0, 0, 0xFF, 0xFE, b'h', 0, b'i', 0]).wtext().unwrap(), "hi");
    assert_eq!(wide(&[0, 0, 0, 0]).wtext().unwrap(), "");
    assert_eq!(wide(&[2, 0, 0, 0, 0xFF, 0xFE]).wtext().unwrap(), "");
    let odd = ReadError { offset: 4, kind: ReadErrorKind::BadWideLength { length: 3 } };
    assert_eq!(wide(&[3, 0, 0, 0, 0, b'h', 0]).wtext().unwrap_err(), odd);
}

#[test]
fn a_wide_string_of_1_1_is_numbers_and_ends_with_nul() {
    for version in [Version::V1_0, Version::V1_1] {
        let encoding = Encoding { version, ..Encoding::new(Endian::Little) };
        let mut buf = Vec::new();
        Writer::new(&mut buf, encoding).wstring("hi");
        assert_eq!(buf, [3, 0, 0, 0, b'h', 0, b'i', 0, 0, 0]);
        assert_eq!(Reader::new(&buf, encoding).wtext().unwrap(), "hi");
        assert_eq!(Reader::new(&[0, 0, 0, 0], encoding).wtext().unwrap(), "");
        let marked = [2, 0, 0, 0, 0xFE, 0xFF, 0, 0];
        assert_eq!(Reader::new(&marked, encoding).wtext().unwrap(), "");
        let error = Reader::new(&[1, 0, 0, 0, b'h', 0], encoding).wtext().unwrap_err();
        assert_eq!(error, ReadError { offset: 4, kind: ReadErrorKind::MissingNul });
    }
}

#[test]
fn wide_text_of_dds_is_numbers_with_neither_a_mark_nor_a_nul() {
    for (endian, bytes) in [
        (Endian::Little, [4, 0, 0, 0, 0xFF, 0xFE, 0x54, 0x58, 0x54, 0x58]),
        (Endian::Big, [0, 0, 0, 4, 0xFE, 0xFF, 0x58, 0x54, 0x58, 0x54]),
    ] {
        let encoding = Encoding { version: Version::Xcdr1, ..Encoding::new(endian) };
        let mut buf = Vec::new();
        let mut writer = Writer::new(&mut buf, encoding);
        writer.wstring("\u{FEFF}塔");
        writer.wchar('塔');
        assert_eq!(buf, bytes);
        let mut reader = Reader::new(&buf, encoding);
        assert_eq!(reader.wtext().unwrap(), "\u{FEFF}塔");
        assert_eq!(reader.wchar().unwrap().to_char(), Some('塔'));
        buf.clear();
        Writer::new(&mut buf, encoding).octets(&[0]);
        let odd = ReadError { offset: 4, kind: ReadErrorKind::BadWideLength { length: 1 } };
        assert_eq!(Reader::new(&buf, encoding).wstring().unwrap_err(), odd);
    }
}

#[test]
fn half_a_surrogate_pair_passes_through_and_is_not_text() {
    for encoding in encodings() {
        let units = [0x41_u16, 0xD83D, 0x42];
        let mut buf = Vec::new();
        Writer::new(&mut buf, encoding).wide_units(units.into_iter());
        let read = Reader::new(&buf, encoding).wstring().unwrap();
        assert_eq!(read.len(), 3);
        assert_eq!(read.collect::<Vec<_>>(), units);
        let error = Reader::new(&buf, encoding).wtext().unwrap_err();
        assert_eq!(error.kind, ReadErrorKind::BadText { charset: "UTF-16" });

        let half = WideChar::from_unit(0xDE00);
        assert_eq!(half.to_char(), None);
        buf.clear();
        Writer::new(&mut buf, encoding).wide_char(half);
        assert_eq!(Reader::new(&buf, encoding).wchar(), Ok(half));
    }
}

#[test]
fn text_that_begins_like_a_byte_order_mark_keeps_its_first_character() {
    for encoding in encodings() {
        for text in ["\u{FEFF}x", "\u{FFFE}x", "\u{FEFF}", "\u{FEFF}\u{FEFF}"] {
            let mut buf = Vec::new();
            Writer::new(&mut buf, encoding).wstring(text);
            assert_eq!(Reader::new(&buf, encoding).wtext().unwrap(), text, "{encoding:?}");
        }
    }
}

#[test]
fn a_wide_character_of_1_2_says_its_length() {
    let char_of = |bytes: &[u8]| wide(bytes).wchar().map(|c| c.to_char());
    assert_eq!(char_of(&[2, 0, b'x']), Ok(Some('x')));
    assert_eq!(char_of(&[4, 0xFE, 0xFF, 0, b'x']), Ok(Some('x')));
    assert_eq!(char_of(&[4, 0xFF, 0xFE, b'x', 0]), Ok(Some('x')));
    assert_eq!(char_of(&[4, 0xD8, 0x3D, 0xDD, 0x14]), Ok(Some('🔔')));
    assert_eq!(char_of(&[6, 0xFF, 0xFE, 0x3D, 0xD8, 0x14, 0xDD]), Ok(Some('🔔')));
    assert_eq!(char_of(&[2, 0xFE, 0xFF]), Ok(Some('\u{FEFF}')));
    assert_eq!(char_of(&[2, 0xFF, 0xFE]), Ok(Some('\u{FFFE}')));
    for bad in [&[0][..], &[1, 7], &[3, 0, 0, 0], &[4, 0, b'x', 0, b'y'], &[6, 0, 1, 0, 2, 0, 3], &[8; 9]] {
        let error = char_of(bad).unwrap_err();
        assert_eq!(error.kind, ReadErrorKind::BadWideLength { length: u32::from(bad[0]) }, "{bad:?}");
    }
}

#[test]
fn errors_tell_offsets_in_the_outermost_bytes() {
    let mut buf = vec![0; 20];
    let encoding = Encoding::new(Endian::Big);
    let mut w = Writer::new(&mut buf, encoding);
    w.u32(1);
    w.encapsulation(|w| w.encapsulation(|w| w.u8(2)));
    let mut r = Reader::new(&buf[20..], encoding).with_origin(20);
    assert_eq!(r.offset(), 20);
    r.u32().unwrap();
    let mut inner = r.encapsulation().unwrap().encapsulation().unwrap();
    let at = inner.offset();
    assert_eq!(buf[at], 2);
    assert_eq!(inner.bool().unwrap_err().offset, at);
    assert_eq!(inner.u8().unwrap_err().offset, at + 1);
}

#[test]
fn refuses_what_is_left_over_and_names_the_type_that_left_it() {
    let mut r = Reader::new(&[1, 2, 3], Encoding::new(Endian::Big));
    r.u8().unwrap();
    let error = r.finish("Property").unwrap_err();
    assert_eq!(error.kind, ReadErrorKind::TrailingBytes { what: "Property", count: 2 });
    assert_eq!(format!("{error}"), "at octet 1: 2 octets are left over behind Property");
}

#[test]
fn refuses_an_encapsulation_of_no_byte_order() {
    assert!(Reader::over_encapsulation(&[]).is_err());
    let error = Reader::over_encapsulation(&[2]).unwrap_err();
    assert_eq!(error.kind, ReadErrorKind::BadValue { what: "byte order", value: 2 });
    assert_eq!(Reader::over_encapsulation(&[1, 0, 5, 0]).unwrap().u16(), Ok(5));
}

#[test]
fn patches_and_takes_back() {
    let mut buf = vec![1, 2, 3];
    let mut w = Writer::new(&mut buf, Encoding::new(Endian::Big));
    w.u32(0);
    w.u32(7);
    w.patch_u32(0, 5);
    w.patch_u32(6, 9);
    w.truncate(6);
    assert_eq!(w.written(), [0, 0, 0, 5, 0, 0]);
    assert_eq!(w.position(), 6);
    assert_eq!(buf, [1, 2, 3, 0, 0, 0, 5, 0, 0]);
}

#[test]
fn a_buffer_that_is_large_enough_is_not_grown() {
    let mut buf = Vec::with_capacity(1024);
    let before = (buf.as_ptr(), buf.capacity());
    for encoding in encodings() {
        buf.clear();
        write_all(&mut Writer::new(&mut buf, encoding));
    }
    assert_eq!((buf.as_ptr(), buf.capacity()), before);
}

#[test]
fn random_bytes_end_in_values_or_errors() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..20_000 {
        let mut bytes = vec![0; random.usize(0..64)];
        random.fill(&mut bytes);
        // Short lengths are more interesting than those that random numbers are.
        bytes.iter_mut().for_each(|octet| *octet &= [0xFF, 0x07, 0x00][random.usize(0..3)]);
        for encoding in encodings() {
            let mut r = Reader::with_phase(&bytes, random.usize(0..8), encoding);
            while !r.is_empty() {
                let left = r.remaining();
                let result: Result<(), ReadError> = match random.u8(0..14) {
                    0 => r.bool().map(drop),
                    1 => r.u16().map(drop),
                    2 => r.u32().map(drop),
                    3 => r.u64().map(drop),
                    4 => r.long_double().map(drop),
                    5 => r.string().map(drop),
                    6 => r.text().map(drop),
                    7 => r.wchar().map(drop),
                    8 => r.wtext().map(drop),
                    9 => r.octets().map(drop),
                    10 => r.seq_len(2).map(drop),
                    11 => r.align(4).and_then(|()| r.u8()).map(drop),
                    12 => r.encapsulation().map(drop),
                    _ => r.take(3).map(drop),
                };
                if result.is_err() {
                    break;
                }
                assert!(r.remaining() < left);
            }
        }
    }
}

#[test]
fn names_of_everything_are_consistent() {
    for minor in 0..=2 {
        assert_eq!(Version::from_minor(minor).map(Version::minor), Some(minor));
    }
    assert_eq!(Version::from_minor(3), None);
    assert!(Version::V1_0 < Version::V1_1 && Version::V1_1 < Version::V1_2);
    for chars in [CharSet::Latin1, CharSet::Utf8] {
        assert_eq!(CharSet::from_id(chars.id()), Some(chars));
    }
    assert_eq!(CharSet::from_id(0), None);
    assert_eq!(Endian::Big.flag(), 0);
    assert_eq!(1_u16.to_ne_bytes()[0], Endian::NATIVE.flag());
}

#[test]
fn every_kind_of_error_is_a_sentence() {
    let kinds = [
        ReadErrorKind::Truncated { needed: 4, available: 1 },
        ReadErrorKind::TooLong { length: 9, available: 1 },
        ReadErrorKind::MissingNul,
        ReadErrorKind::BadValue { what: "TCKind", value: 99 },
        ReadErrorKind::Malformed { what: "an indirection that points forward" },
        ReadErrorKind::TooMany { what: "profiles", count: 65, max: 64 },
        ReadErrorKind::TooMuchWork,
        ReadErrorKind::TooDeep,
        ReadErrorKind::Unsupported { what: "a value type" },
    ];
    let sentences: Vec<String> = kinds.iter().map(|kind| format!("{kind}")).collect();
    assert!(sentences.iter().all(|sentence| sentence.contains(' ') && !sentence.ends_with('.')), "{sentences:#?}");
}

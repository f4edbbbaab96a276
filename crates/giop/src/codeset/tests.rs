//! Tests of code sets.

use super::*;
use alloc::string::ToString;
use alloc::vec;

const LATIN1: u32 = 0x0001_0001;
const UTF8: u32 = 0x0501_0001;
const UTF16: u32 = 0x0001_0109;

fn info(char_native: u32, char_conversions: &[u32], wchar_native: u32, wchar_conversions: &[u32]) -> CodeSetInfo {
    CodeSetInfo {
        char_native,
        char_conversions: char_conversions.into(),
        wchar_native,
        wchar_conversions: wchar_conversions.into(),
    }
}

#[test]
fn a_component_reads_as_it_was_written() {
    for info in [CodeSetInfo::campanile(), info(0, &[], 0, &[]), info(UTF8, &[LATIN1, 7, 8], UTF16, &[1])] {
        let component = info.to_component();
        assert_eq!(component.tag, 1);
        assert_eq!(CodeSetInfo::from_component(&component).unwrap(), info);
        for len in 0..component.data.len() {
            let cut = Component { tag: 1, data: component.data[..len].into() };
            assert!(CodeSetInfo::from_component(&cut).is_err());
        }
        assert!(CodeSetInfo::from_component(&Component { tag: 2, ..component }).is_err());
    }
}

/// ISO 8859-1 with UTF-8, and UTF-16, least significant octet first.
#[test]
fn reads_a_component_in_either_byte_order() {
    let data = vec![1, 0, 0, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 5, 9, 1, 1, 0, 1, 0, 0, 0, 9, 1, 1, 0];
    let expected = info(LATIN1, &[UTF8], UTF16, &[UTF16]);
    assert_eq!(CodeSetInfo::from_component(&Component { tag: 1, data }).unwrap(), expected);
}

#[test]
fn refuses_more_conversions_than_are_accepted() {
    let with = |count| CodeSetInfo::from_component(&info(1, &vec![7; count], 1, &[]).to_component());
    assert!(with(256).is_ok());
    let too_many = ReadErrorKind::TooMany { what: "conversion code sets", count: 257, max: 256 };
    assert_eq!(with(257).unwrap_err().kind, too_many);
}

#[test]
fn chooses_as_the_standard_says() {
    assert_eq!(negotiate(None), Ok(CharSet::Latin1));
    for (server, expected) in [
        (CodeSetInfo::campanile(), CharSet::Latin1),
        (info(0, &[], 0, &[]), CharSet::Latin1),
        (info(LATIN1, &[UTF8], UTF16, &[]), CharSet::Latin1),
        (info(UTF8, &[LATIN1], UTF16, &[]), CharSet::Utf8),
        (info(UTF8, &[], 0x0001_0100, &[]), CharSet::Utf8),
        (info(0x0001_000F, &[UTF8, LATIN1], UTF16, &[]), CharSet::Latin1),
        (info(0x1002_0025, &[UTF8], UTF16, &[]), CharSet::Utf8),
        (info(0, &[UTF8], UTF16, &[]), CharSet::Utf8),
        (info(0x0001_000F, &[], UTF16, &[]), CharSet::Utf8),
        (info(0x0001_0020, &[], 0, &[]), CharSet::Utf8),
        (info(LATIN1, &[], 0x0003_0010, &[UTF16]), CharSet::Latin1),
    ] {
        assert_eq!(negotiate(Some(&server)), Ok(expected), "{server:x?}");
    }
}

#[test]
fn utf_8_is_chosen_wherever_the_server_knows_it() {
    // A client that took ISO 8859-1 because the server named it first sent `?` for what that lacks.
    assert_eq!(negotiate_utf8(None), Ok(CharSet::Latin1));
    for (server, expected) in [
        (CodeSetInfo::campanile(), CharSet::Utf8),
        (info(0, &[], 0, &[]), CharSet::Latin1),
        (info(LATIN1, &[UTF8], UTF16, &[]), CharSet::Utf8),
        (info(LATIN1, &[], UTF16, &[]), CharSet::Latin1),
        (info(UTF8, &[LATIN1], UTF16, &[]), CharSet::Utf8),
        (info(UTF8, &[], 0x0001_0100, &[]), CharSet::Utf8),
        (info(0x0001_000F, &[UTF8, LATIN1], UTF16, &[]), CharSet::Utf8),
        (info(0x0001_000F, &[LATIN1], UTF16, &[]), CharSet::Latin1),
        (info(0x1002_0025, &[UTF8], UTF16, &[]), CharSet::Utf8),
        (info(0, &[UTF8], UTF16, &[]), CharSet::Utf8),
        (info(0x0001_000F, &[], UTF16, &[]), CharSet::Utf8),
        (info(0x0001_0020, &[], 0, &[]), CharSet::Utf8),
        (info(LATIN1, &[], 0x0003_0010, &[UTF16]), CharSet::Latin1),
    ] {
        assert_eq!(negotiate_utf8(Some(&server)), Ok(expected), "{server:x?}");
    }
}

#[test]
fn tells_when_there_is_nothing_in_common() {
    let ebcdic = negotiate(Some(&info(0x1002_0025, &[0x1002_0111], UTF16, &[]))).unwrap_err();
    assert_eq!(ebcdic, Incompatible { native: 0x1002_0025, wide: false });
    assert_eq!(
        ebcdic.to_string(),
        "the server's code set for characters is 0x10020025, which ISO 8859-1 or UTF-8 cannot stand in for"
    );
    let euc = negotiate(Some(&info(LATIN1, &[], 0x0003_0010, &[]))).unwrap_err();
    assert_eq!(euc, Incompatible { native: 0x0003_0010, wide: true });
}

#[test]
fn tells_what_a_server_supports() {
    let info = info(LATIN1, &[7], UTF16, &[]);
    assert!(supports(&info, CharSet::Latin1) && !supports(&info, CharSet::Utf8));
    assert!(supports(&CodeSetInfo::campanile(), CharSet::Utf8));
}

#[test]
fn a_choice_reads_as_it_was_written() {
    for endian in [Endian::Big, Endian::Little] {
        for chars in [CharSet::Latin1, CharSet::Utf8] {
            let data = context(chars, endian);
            assert_eq!(data.len(), 12);
            assert_eq!(parse_context(&data), Ok(chars));
            for len in 0..data.len() {
                assert!(matches!(parse_context(&data[..len]), Err(ContextError::Read(_))));
            }
        }
    }
}

#[test]
fn refuses_a_choice_that_is_not_understood() {
    let chosen = |narrow: u32, wide: u32| {
        parse_context(&encapsulate(Endian::Big, |w| {
            w.u32(narrow);
            w.u32(wide);
        }))
    };
    assert_eq!(chosen(0, 0), Ok(CharSet::Latin1));
    assert_eq!(chosen(UTF8, 0), Ok(CharSet::Utf8));
    let unsupported = |narrow, wide| Err(ContextError::Unsupported { narrow, wide });
    assert_eq!(chosen(0x1002_0025, UTF16), unsupported(0x1002_0025, UTF16));
    assert_eq!(chosen(LATIN1, 0x0001_0104), unsupported(LATIN1, 0x0001_0104));
    assert!(chosen(9, 9).unwrap_err().to_string().contains("0x00000009"));
}

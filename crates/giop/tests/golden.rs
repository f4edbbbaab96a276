//! What real ORBs say, as it was captured from them (`interop/golden/README.md`).
//!
//! Every message parses; every `Any` that they push is skipped, taken apart, put together again, and copied to every
//! encoding and back, and comes out as it went in.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod common;

use campanile_giop::cdr::{CharSet, Encoding, ReadError, Reader, Version, Writer};
use campanile_giop::codeset;
use campanile_giop::framing::{Inbound, Limits};
use campanile_giop::message::{Header, LocateReply, LocateRequest, MessageKind, Reply, Request, ServiceContexts};
use campanile_giop::recode;
use campanile_giop::typecode::{TypeCode, Work};
use campanile_giop::value::{AnyRef, AnyValue, Value};
use common::{encodings, for_each_seed};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

struct Golden {
    file: String,
    /// Everything of the file's name before the number.
    conversation: String,
    from_client: bool,
    bytes: Vec<u8>,
}

/// All messages, in the order in which they were sent.
fn golden() -> Vec<Golden> {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/golden");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "hex"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} holds no messages", folder.display());
    files.iter().map(|path| parse_file(path)).collect()
}

fn parse_file(path: &Path) -> Golden {
    let file = path.file_stem().unwrap().to_str().unwrap().to_owned();
    let text = std::fs::read_to_string(path).unwrap();
    let (comment, digits) = text.split_once('\n').unwrap();
    let digits: Vec<u8> = digits.bytes().filter(|digit| !digit.is_ascii_whitespace()).collect();
    let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let conversation = file.split('-').take(3).collect::<Vec<_>>().join("-");
    let from_client = comment.contains(" client,");
    assert!(comment.starts_with("# ") && (from_client || comment.contains(" server,")), "{file}: {comment}");
    Golden { file, conversation, from_client, bytes: digits.chunks(2).map(octet).collect() }
}

/// Gives each whole message, put together from fragments, to `each`, with the code set that its client chose.
fn for_each_message(mut each: impl FnMut(&str, &Header, &[u8], CharSet)) {
    let mut streams: BTreeMap<(String, bool), Inbound> = BTreeMap::new();
    let mut chosen: BTreeMap<String, CharSet> = BTreeMap::new();
    let mut refused: BTreeMap<String, String> = BTreeMap::new();
    for golden in golden() {
        let Golden { file, conversation, from_client, bytes } = golden;
        if refused.contains_key(&conversation) {
            continue;
        }
        let inbound =
            streams.entry((conversation.clone(), from_client)).or_insert_with(|| Inbound::new(Limits::default()));
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let space = inbound.space();
            let taken = rest.len().min(space.len());
            space[..taken].copy_from_slice(&rest[..taken]);
            inbound.filled(taken);
            rest = &rest[taken..];
            loop {
                let message = match inbound.poll_message() {
                    Ok(Some(message)) => message,
                    Ok(None) => break,
                    Err(error) => {
                        refused.insert(conversation.clone(), error.to_string());
                        break;
                    }
                };
                let chars = chosen.entry(conversation.clone()).or_insert(CharSet::Latin1);
                if message.header.kind == MessageKind::Request {
                    let request = Request::parse(message.bytes, &message.header).unwrap();
                    if let Some(context) = request.contexts.find(ServiceContexts::CODE_SETS) {
                        *chars = codeset::parse_context(context).unwrap_or_else(|error| panic!("{file}: {error}"));
                    }
                }
                each(&file, &message.header, message.bytes, *chars);
            }
        }
    }
    // In GIOP 1.1 each fragment counts its alignment from its own beginning. Where one breaks inside values that need
    // alignment, only code that knows their types could put them together, so the framing refuses.
    for (conversation, error) in &refused {
        assert!(conversation.contains("-1.1-points") && error.contains("alignment"), "{conversation}: {error}");
    }
    for ((conversation, _), inbound) in streams {
        if refused.contains_key(&conversation) {
            continue;
        }
        assert_eq!(inbound.open_fragment_sets(), 0, "{conversation} ends in the middle of a message");
    }
}

#[test]
fn every_message_parses() {
    let mut kinds = BTreeSet::new();
    for_each_message(|file, header, bytes, chars| {
        kinds.insert(header.kind.name());
        let parsed = match header.kind {
            MessageKind::Request => Request::parse(bytes, header).map(|request| {
                assert!(!request.operation.is_empty(), "{file}");
                assert!(request.target.key().is_some(), "{file}");
                assert_eq!(request.contexts.iter().count(), request.contexts.len() as usize, "{file}");
                let _ = request.body(bytes, header, chars);
            }),
            MessageKind::Reply => Reply::parse(bytes, header).map(|reply| {
                let _ = reply.body(bytes, header, chars);
            }),
            MessageKind::LocateRequest => LocateRequest::parse(bytes, header).map(|locate| {
                assert!(locate.target.key().is_some(), "{file}");
            }),
            MessageKind::LocateReply => LocateReply::parse(bytes, header).map(|_| ()),
            MessageKind::CancelRequest | MessageKind::CloseConnection | MessageKind::MessageError => Ok(()),
            MessageKind::Fragment => panic!("{file}: a fragment surfaced"),
        };
        parsed.unwrap_or_else(|error| panic!("{file}: {error}"));
    });
    let expected = ["CloseConnection", "LocateReply", "LocateRequest", "Reply", "Request"];
    assert!(expected.iter().all(|kind| kinds.contains(kind)), "only {kinds:?}");
}

/// Gives a reader in front of each `Any` that a pushed event is made of to `each`.
fn anys_of_push(operation: &[u8], mut body: Reader<'_>, each: &mut dyn FnMut(&Reader<'_>)) -> Result<bool, ReadError> {
    fn one(body: &mut Reader<'_>, each: &mut dyn FnMut(&Reader<'_>)) -> Result<(), ReadError> {
        body.align(4)?;
        each(body);
        recode::skip_any(body, &mut Work::default())
    }
    match operation {
        b"push" => one(&mut body, each)?,
        b"push_structured_event" => {
            // CosNotification::StructuredEvent: three strings, two lists of named anys, and an any.
            for _ in 0..3 {
                body.string()?;
            }
            for _ in 0..2 {
                for _ in 0..body.u32()? {
                    body.string()?;
                    one(&mut body, each)?;
                }
            }
            one(&mut body, each)?;
        }
        _ => return Ok(false),
    }
    body.finish("the event")?;
    Ok(true)
}

/// Gives the bytes of each pushed `Any`, as they lie at phase 4, with how they are encoded, to `each`.
fn for_each_any(mut each: impl FnMut(&str, &[u8], Encoding, usize)) {
    let mut anys = 0;
    for_each_message(|file, header, bytes, chars| {
        if header.kind != MessageKind::Request {
            return;
        }
        let request = Request::parse(bytes, header).unwrap();
        let body = request.body(bytes, header, chars);
        let pushed = anys_of_push(request.operation, body, &mut |reader| {
            let lazy = AnyRef::read(&mut reader.clone(), &mut Work::default())
                .unwrap_or_else(|error| panic!("{file}: {error}"));
            each(file, lazy.bytes(), reader.encoding(), reader.phase());
            anys += 1;
        });
        pushed.unwrap_or_else(|error| panic!("{file}: {error}"));
    });
    assert!(anys > 0, "nothing is pushed");
}

fn decoded(file: &str, bytes: &[u8], encoding: Encoding, phase: usize) -> AnyValue {
    let mut reader = Reader::with_phase(bytes, phase, encoding);
    let any = AnyValue::read(&mut reader, &mut Work::default()).unwrap_or_else(|error| panic!("{file}: {error}"));
    reader.finish("the any").unwrap_or_else(|error| panic!("{file}: {error}"));
    any
}

fn copied(file: &str, bytes: &[u8], from: (Encoding, usize), to: (Encoding, usize)) -> Vec<u8> {
    let mut copy = Vec::new();
    let mut reader = Reader::with_phase(bytes, from.1, from.0);
    let mut writer = Writer::with_phase(&mut copy, to.1, to.0);
    recode::copy_any(&mut reader, &mut writer, &mut Work::default()).unwrap_or_else(|error| panic!("{file}: {error}"));
    reader.finish("the any").unwrap_or_else(|error| panic!("{file}: {error}"));
    copy
}

/// Whether the octets are the same but for padding, which omniORB leaves as it finds it and we fill with zeros.
fn same_but_for_padding(sent: &[u8], ours: &[u8]) -> bool {
    sent.len() == ours.len() && sent.iter().zip(ours).all(|(sent, ours)| sent == ours || *ours == 0)
}

/// Whether something holds of a value or of anything within it.
fn within(value: &Value, holds: fn(&Value) -> bool) -> bool {
    holds(value)
        || match value {
            Value::Struct { fields, .. } | Value::Exception { fields, .. } => {
                fields.iter().any(|(_, v)| within(v, holds))
            }
            Value::Union { member, .. } => member.as_ref().is_some_and(|(_, v)| within(v, holds)),
            Value::Sequence(values) | Value::Array(values) => values.iter().any(|v| within(v, holds)),
            Value::Any(any) => within(&any.value, holds),
            _ => false,
        }
}

/// Whether a value has no counterpart in the other code set: a `char` beyond ASCII, or text beyond ISO 8859-1.
fn is_bound_to_its_code_set(value: &Value) -> bool {
    within(value, |value| match value {
        Value::Char(c) => !c.is_ascii(),
        Value::String(text) => text.chars().any(|c| c > '\u{FF}'),
        _ => false,
    })
}

/// Whether a value holds decimals, in which JacORB leaves leading zeros out.
fn has_decimals(value: &Value) -> bool {
    within(value, |value| matches!(value, Value::Fixed(_)))
}

/// Whether a value holds wide text, in front of which omniORB puts a byte order mark in GIOP 1.2 and we put none.
fn has_wide_text(value: &Value) -> bool {
    within(value, |value| matches!(value, Value::Wchar(_) | Value::Wstring(_)))
}

#[test]
fn every_any_is_put_together_again_as_it_was() {
    let mut types = BTreeSet::new();
    for_each_any(|file, bytes, encoding, phase| {
        let any = decoded(file, bytes, encoding, phase);
        types.insert(any.type_code.name().to_owned());
        let mut written = Vec::new();
        any.write(&mut Writer::with_phase(&mut written, phase, encoding)).unwrap();
        assert_eq!(decoded(file, &written, encoding, phase), any, "{file}");
        let written_otherwise = has_wide_text(&any.value) || file.starts_with("jacorb") && has_decimals(&any.value);
        if !written_otherwise {
            assert!(same_but_for_padding(bytes, &written), "{file}: {any}");
        }
    });
    for name in ["Primitives", "Unions", "Sequences", "Anys", "Tree", "Arrays", "TypeCodes", "References", "Wide"] {
        assert!(types.contains(name), "{name} is missing from {types:?}");
    }
}

#[test]
fn every_any_comes_back_from_every_encoding_as_it_went() {
    for_each_any(|file, bytes, encoding, phase| {
        let any = decoded(file, bytes, encoding, phase);
        let from = (encoding, phase);
        for to in encodings() {
            if to.chars != encoding.chars && is_bound_to_its_code_set(&any.value) {
                continue;
            }
            let loses_marks = to.version < Version::V1_2 && has_wide_text(&any.value);
            for phase in [0, 1, 2, 4, 7] {
                let to = (to, phase);
                if to == from {
                    // Octet for octet the same, padding included.
                    assert_eq!(copied(file, bytes, from, to), bytes, "{file}");
                    continue;
                }
                let copy = copied(file, bytes, from, to);
                assert_eq!(decoded(file, &copy, to.0, to.1), any, "{file} to {to:?}");
                let back = copied(file, &copy, to, from);
                assert_eq!(decoded(file, &back, encoding, from.1), any, "{file} to {to:?} and back");
                assert!(loses_marks || same_but_for_padding(bytes, &back), "{file} to {to:?} and back");
            }
        }
    });
}

#[test]
fn every_any_that_is_cut_short_is_refused() {
    for_each_any(|file, bytes, encoding, phase| {
        // The long ones are the same octets over and over.
        let cuts = (0..bytes.len().min(2000)).chain(bytes.len().saturating_sub(64)..bytes.len());
        for length in cuts {
            let cut = Reader::with_phase(&bytes[..length], phase, encoding);
            assert!(recode::skip_any(&mut cut.clone(), &mut Work::default()).is_err(), "{file} cut at {length}");
        }
        for length in (0..bytes.len().min(700)).step_by(7) {
            let cut = Reader::with_phase(&bytes[..length], phase, encoding);
            assert!(AnyValue::read(&mut cut.clone(), &mut Work::default()).is_err(), "{file} cut at {length}");
        }
    });
}

#[test]
fn orbs_agree_on_the_types_that_they_have_in_common() {
    let mut by_id: BTreeMap<String, (String, TypeCode)> = BTreeMap::new();
    for_each_any(|file, bytes, encoding, phase| {
        let code = decoded(file, bytes, encoding, phase).type_code;
        if code.id().is_empty() {
            return;
        }
        match by_id.get(code.id()) {
            Some((first, known)) => assert!(known.equivalent(&code), "{first} says {known:#}\n{file} says {code:#}"),
            None => {
                by_id.insert(code.id().to_owned(), (file.to_owned(), code));
            }
        }
    });
    assert!(by_id.len() > 5);
}

#[test]
fn mutated_messages_are_refused_or_understood() {
    let messages = golden();
    // The long ones are the same octets over and over.
    let messages: Vec<_> = messages.iter().filter(|golden| golden.bytes.len() < 2000).collect();
    let messages = &messages;
    for_each_seed(3000, |rng| {
        let golden = rng.choice(messages.iter()).unwrap();
        let mut bytes = golden.bytes.clone();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(..bytes.len());
            bytes[at] = if rng.bool() { rng.u8(..) } else { bytes[at] ^ 1 << rng.u8(..8) };
        }
        let Ok(header) = Header::parse(&bytes) else {
            return;
        };
        if header.kind != MessageKind::Request || header.message_len() != bytes.len() {
            return;
        }
        if let Ok(request) = Request::parse(&bytes, &header) {
            let body = request.body(&bytes, &header, CharSet::Latin1);
            let _ = anys_of_push(request.operation, body, &mut |reader| {
                let mut skipped = reader.clone();
                let skip = recode::skip_any(&mut skipped, &mut Work::default());
                let mut taken = reader.clone();
                if AnyValue::read(&mut taken, &mut Work::default()).is_ok() {
                    assert_eq!((skip, skipped.position()), (Ok(()), taken.position()), "{}", golden.file);
                }
            });
        }
    });
}

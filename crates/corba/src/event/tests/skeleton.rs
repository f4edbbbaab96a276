//! Events of which the beginning is known.

use super::{Sample, golden, samples};
use crate::event::{FORM_ANY, Header, Skeleton, read_any, read_structured, reader};
use giop::cdr::Reader;
use giop::typecode::Work;

/// An event as it is read whole.
fn header_of(sample: &Sample) -> Header<'_> {
    let body = reader(&sample.bytes, sample.tag);
    if sample.form == FORM_ANY {
        read_any(body, &mut Work::default()).unwrap();
        return Header::default();
    }
    read_structured(body, &mut Work::default()).unwrap()
}

fn skeleton_of(sample: &Sample) -> Skeleton {
    let body = reader(&sample.bytes, sample.tag);
    Skeleton::of(sample.form, &body, &header_of(sample), &mut Work::default()).unwrap().unwrap()
}

/// Whether reading it all finds an event and nothing more.
fn is_whole(sample: &Sample, bytes: &[u8]) -> bool {
    let body = reader(bytes, sample.tag);
    if sample.form == FORM_ANY {
        read_any(body, &mut Work::default()).is_ok()
    } else {
        read_structured(body, &mut Work::default()).is_ok()
    }
}

#[test]
fn an_event_whose_beginning_is_known_ends_where_reading_it_all_ends() {
    for sample in golden().into_iter().chain(samples()) {
        if sample.bytes.is_empty() || !is_whole(&sample, &sample.bytes) {
            continue;
        }
        let skeleton = skeleton_of(&sample);
        // What follows is not its own, as in a sequence.
        for behind in [&[][..], &[0xaa; 9]] {
            let bytes = [&sample.bytes[..], behind].concat();
            let known = skeleton.known(&reader(&bytes, sample.tag), &mut Work::default());
            assert_eq!(known.map(|known| known.length), Some(sample.bytes.len()), "{}", sample.name);
        }
    }
}

#[test]
fn another_value_is_taken_or_refused_as_it_is_when_all_is_read() {
    for sample in golden().into_iter().chain(samples()) {
        if sample.bytes.is_empty() || !is_whole(&sample, &sample.bytes) {
            continue;
        }
        let skeleton = skeleton_of(&sample);
        let mut bytes = sample.bytes.clone();
        for at in skeleton.length..bytes.len() {
            for change in [0x01, 0x40, 0xff] {
                bytes[at] ^= change;
                let known = skeleton.known(&reader(&bytes, sample.tag), &mut Work::default());
                let end = known.map(|known| known.length);
                assert_eq!(end == Some(bytes.len()), is_whole(&sample, &bytes), "{}: octet {at}", sample.name);
                bytes[at] ^= change;
            }
        }
        for length in 0..bytes.len() {
            let body = reader(&bytes, sample.tag);
            let cut = Reader::with_phase(&bytes[..length], body.phase(), body.encoding());
            assert_eq!(skeleton.known(&cut, &mut Work::default()), None, "{}: {length} octets", sample.name);
        }
    }
}

//! Answers as lines.

use crate::write::{self, Sink};
use alloc::string::String;

/// Writes `{"ok":1}`: the request with that id was carried out.
pub fn ok(out: &mut impl Sink, id: u64) {
    out.push_str("{\"ok\":");
    write::plain(out, id);
    out.push_str("}\n");
}

/// A channel in the answer to `channels`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedChannel {
    /// Its number.
    pub channel: u32,
    /// Its name; empty if it has none.
    pub name: String,
    /// Connected consumers.
    pub consumers: u32,
    /// Connected suppliers.
    pub suppliers: u32,
    /// Events received.
    pub events: u64,
}

/// Writes `{"ok":5,"channels":[…],"next":255}`: channels, and the number of the last one listed if more follow, else `null`.
pub fn channels(out: &mut impl Sink, id: u64, channels: &[ListedChannel], next: Option<u32>) {
    out.push_str("{\"ok\":");
    write::plain(out, id);
    out.push_str(",\"channels\":[");
    for (at, listed) in channels.iter().enumerate() {
        let ListedChannel { channel, name, consumers, suppliers, events } = listed;
        out.push_str(if at == 0 { "{\"channel\":" } else { ",{\"channel\":" });
        write::plain(out, *channel);
        out.push_str(",\"name\":");
        if name.is_empty() {
            out.push_str("null")
        } else {
            write::text(out, name)
        }
        for (key, count) in
            [("consumers", u64::from(*consumers)), ("suppliers", (*suppliers).into()), ("events", *events)]
        {
            out.push_str(",\"");
            out.push_str(key);
            out.push_str("\":");
            write::plain(out, count);
        }
        out.push_str("}");
    }
    out.push_str("],\"next\":");
    match next {
        Some(next) => write::plain(out, next),
        None => out.push_str("null"),
    }
    out.push_str("}\n");
}

/// Writes `{"error":2,"reason":"…"}`: the request was not carried out. The id is `null` if it is not known.
pub fn error(out: &mut impl Sink, id: Option<u64>, reason: &str) {
    out.push_str("{\"error\":");
    match id {
        Some(id) => write::plain(out, id),
        None => out.push_str("null"),
    }
    out.push_str(",\"reason\":");
    write::text(out, reason);
    out.push_str("}\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn answers_are_lines() {
        let mut out = Vec::new();
        ok(&mut out, 1);
        error(&mut out, Some(2), "a \"reason\"\n");
        error(&mut out, None, "");
        let expected =
            "{\"ok\":1}\n{\"error\":2,\"reason\":\"a \\\"reason\\\"\\n\"}\n{\"error\":null,\"reason\":\"\"}\n";
        assert_eq!(out, expected.as_bytes());
    }

    #[test]
    fn channels_are_a_line() {
        let named = ListedChannel { channel: 1, name: "We\"ather\n".into(), consumers: 2, suppliers: 3, events: 4 };
        let mut out = String::new();
        channels(&mut out, 5, &[ListedChannel::default(), named], Some(1));
        channels(&mut out, 6, &[], None);
        let expected = concat!(
            r#"{"ok":5,"channels":[{"channel":0,"name":null,"consumers":0,"suppliers":0,"events":0},"#,
            r#"{"channel":1,"name":"We\"ather\n","consumers":2,"suppliers":3,"events":4}],"next":1}"#,
            "\n{\"ok\":6,\"channels\":[],\"next\":null}\n"
        );
        assert_eq!(out, expected);
    }
}

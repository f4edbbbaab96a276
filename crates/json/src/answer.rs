//! Answers as lines.

use crate::write::{self, Sink};

/// Writes `{"ok":1}`: the request with that id was carried out.
pub fn ok(out: &mut impl Sink, id: u64) {
    out.push_str("{\"ok\":");
    write::plain(out, id);
    out.push_str("}\n");
}

/// Writes `{"error":2,"reason":"…"}`: it was not. Where the id is not known, there is `null`.
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
}

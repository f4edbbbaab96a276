//! Joins of a channel to DDS, as Campanile's object `Statistics` reports them.

use crate::show::{self, clean};
use crate::statistics::Statistics;
use client::Unmarshal;
use giop::cdr::{ReadError, Reader};
use giop::typecode::Work;
use serde::Serialize;
use std::fmt::Write;

/// Maximum incompatibilities shown; the rest is counted.
const SHOWN: usize = 16;

/// A join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Join {
    #[serde(skip)]
    pub(crate) channel: u32,
    pub(crate) name: String,
    topics_read: u32,
    topics_written: u32,
    pub(crate) incompatible: Vec<Incompatible>,
    incompatible_beyond: u64,
}

/// A writer or a reader that does not match it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Incompatible {
    topic: String,
    peer: String,
    policy: String,
    offered: String,
    requested: String,
    advice: String,
}

impl Unmarshal for Join {
    const BYTES_MIN: usize = 32;

    fn unmarshal(reader: &mut Reader<'_>, work: &mut Work) -> Result<Self, ReadError> {
        let (channel, name, topics_read, topics_written) =
            (reader.u32()?, reader.text()?, reader.u32()?, reader.u32()?);
        let incompatible = Vec::unmarshal(reader, work)?;
        Ok(Self { channel, name, topics_read, topics_written, incompatible, incompatible_beyond: reader.u64()? })
    }
}

impl Unmarshal for Incompatible {
    const BYTES_MIN: usize = 45;

    fn unmarshal(reader: &mut Reader<'_>, _work: &mut Work) -> Result<Self, ReadError> {
        Ok(Self {
            topic: reader.text()?,
            peer: reader.text()?,
            policy: reader.text()?,
            offered: reader.text()?,
            requested: reader.text()?,
            advice: reader.text()?,
        })
    }
}

impl Join {
    /// Joins of all channels; empty if the service does not report them.
    pub(crate) fn read(statistics: &Statistics) -> Vec<Self> {
        statistics.object.request("get_dds_joins", &()).unwrap_or_default()
    }

    /// Writes the join for people.
    pub(super) fn write(&self, out: &mut String) {
        let Self { name, topics_read, topics_written, incompatible, incompatible_beyond, .. } = self;
        let _ = writeln!(out, "  {}: reads {topics_read} topics, writes {topics_written}", clean(name));
        for found in incompatible.iter().take(SHOWN) {
            let _ = writeln!(out, "    {}", found.describe());
        }
        let more = incompatible.len().saturating_sub(SHOWN) as u64;
        if more > 0 {
            let _ = writeln!(out, "    and {} more that do not match", show::count(more));
        }
        if *incompatible_beyond > 0 {
            let _ = writeln!(
                out,
                "    and {} more that did not match since the join began",
                show::count(*incompatible_beyond)
            );
        }
    }
}

impl Incompatible {
    /// The incompatibility as text for people.
    pub(crate) fn describe(&self) -> String {
        let Self { topic, peer, policy, offered, requested, advice } = self;
        clean(&format!(
            "topic {topic:?}: {peer} does not match by {policy} (offered: {offered}; requested: {requested}): {advice}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use giop::cdr::{Encoding, Endian, Writer};

    #[test]
    fn a_join_is_read_as_the_idl_has_it_and_shown_with_what_to_do() {
        let (mut bytes, encoding) = (Vec::new(), Encoding::new(Endian::NATIVE));
        let mut writer = Writer::new(&mut bytes, encoding);
        writer.u32(3);
        writer.string("DDS domain 0, partition \"Weather\", joined to channel Weather");
        [2, 1, 1].into_iter().for_each(|number| writer.u32(number));
        let texts = ["Wind", "writer 01\u{1b}", "reliability", "best effort", "reliable", "set reliable = false here"];
        texts.into_iter().for_each(|text| writer.string(text));
        writer.u64(1000);
        let join = Join::unmarshal(&mut Reader::new(&bytes, encoding), &mut Work::default()).unwrap();
        let mut shown = String::new();
        join.write(&mut shown);
        assert_eq!(
            shown,
            "  DDS domain 0, partition \"Weather\", joined to channel Weather: reads 2 topics, writes 1\n    \
             topic \"Wind\": writer 01\\u{1b} does not match by reliability (offered: best effort; requested: reliable): \
             set reliable = false here\n    and 1,000 more that did not match since the join began\n"
        );
    }
}

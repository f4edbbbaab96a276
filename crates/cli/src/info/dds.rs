//! Joins of a channel to DDS, as Campanile's object `Statistics` tells them.

use crate::show::{self, clean};
use crate::statistics::Statistics;
use client::Unmarshal;
use giop::cdr::{ReadError, Reader};
use giop::typecode::Work;
use serde::Serialize;
use std::fmt::Write;

/// Incompatibilities shown before the rest is only counted.
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
    /// Those of all channels; none of a service that does not tell.
    pub(crate) fn read(statistics: &Statistics) -> Vec<Self> {
        statistics.object.request("get_dds_joins", &()).unwrap_or_default()
    }

    /// For people.
    pub(super) fn write(&self, out: &mut String) {
        let Self { name, topics_read, topics_written, incompatible, incompatible_beyond, .. } = self;
        let _ = writeln!(out, "  {}: reads {topics_read} topics, writes {topics_written}", clean(name));
        for found in incompatible.iter().take(SHOWN) {
            let _ = writeln!(out, "    {}", found.describe());
        }
        let more = incompatible.len().saturating_sub(SHOWN) as u64 + incompatible_beyond;
        if more > 0 {
            let _ = writeln!(out, "    and {} more that do not match", show::count(&more));
        }
    }
}

impl Incompatible {
    /// For people.
    pub(crate) fn describe(&self) -> String {
        let Self { topic, peer, policy, offered, requested, advice } = self;
        clean(&format!(
            "topic {topic:?}: {peer} does not match by {policy} (offered: {offered}; requested: {requested}): {advice}"
        ))
        .to_string()
    }
}

//! Who calls whom: the connections of a server, and what cannot be connected.

use crate::error::Error;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The longest chain of instances that call each other without a queue between.
const CHAIN_MAX: usize = 64;

/// A port, as `instance.port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortName {
    pub(crate) instance: String,
    pub(crate) port: String,
}

impl PortName {
    pub(crate) fn as_pair(&self) -> (&str, &str) {
        (&self.instance, &self.port)
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.instance, self.port)
    }
}

/// A direction along connections.
#[derive(Clone, Copy)]
enum Way {
    Called,
    Calling,
}

pub(crate) struct Connection {
    pub(crate) source: PortName,
    pub(crate) sink: PortName,
    /// Whether a queue is between, so that the source does not call the sink.
    pub(crate) is_queued: bool,
}

/// The connections of a server.
#[derive(Default)]
pub(crate) struct Graph {
    connections: Vec<Connection>,
}

impl Graph {
    /// Adds a connection that was checked.
    pub(crate) fn add(&mut self, connection: Connection) {
        self.connections.push(connection);
    }

    /// Removes the connections of an instance.
    pub(crate) fn remove(&mut self, instance: &str) {
        self.connections.retain(|it| it.source.instance != instance && it.sink.instance != instance);
    }

    /// Whether there is a connection to a sink.
    pub(crate) fn leads_to(&self, sink: &PortName) -> bool {
        self.connections.iter().any(|it| it.sink == *sink)
    }

    /// Whether two instances are connected, in either direction.
    pub(crate) fn are_neighbours(&self, one: &str, other: &str) -> bool {
        self.connections.iter().any(|it| {
            let (source, sink) = (it.source.instance.as_str(), it.sink.instance.as_str());
            (source, sink) == (one, other) || (source, sink) == (other, one)
        })
    }

    /// Refuses a connection that exists, or with which an instance would call itself, or a chain of calls be too long.
    pub(crate) fn check(&self, source: &PortName, sink: &PortName, is_queued: bool) -> Result<(), Error> {
        if self.connections.iter().any(|other| other.source == *source && other.sink == *sink) {
            return Err(Error::Connected { source: source.to_string(), sink: sink.to_string() });
        }
        if is_queued {
            return Ok(());
        }
        let mut path = vec![source.instance.clone(), sink.instance.clone()];
        if source.instance == sink.instance {
            return Err(Error::Cycle { path });
        }
        if let Some(back) = self.way(&sink.instance, &source.instance) {
            path.extend(back.into_iter().skip(1));
            return Err(Error::Cycle { path });
        }
        let before = self.depth(&source.instance, Way::Calling, &mut BTreeMap::new());
        if before + self.depth(&sink.instance, Way::Called, &mut BTreeMap::new()) > CHAIN_MAX {
            return Err(Error::Depth { source: source.to_string(), sink: sink.to_string(), max: CHAIN_MAX });
        }
        Ok(())
    }

    /// Instances, sinks before the sources that reach them. In a circle, which has a queue, the order is that of the names.
    pub(crate) fn sinks_first<'g>(&'g self, instances: impl Iterator<Item = &'g str>) -> Vec<String> {
        let (mut seen, mut order) = (BTreeSet::new(), Vec::new());
        for instance in instances {
            // Each with the place of the connection that is followed next.
            let mut open = Vec::new();
            if seen.insert(instance) {
                open.push((instance, 0));
            }
            while let Some((at, next)) = open.pop() {
                let later = self.connections.iter().enumerate().skip(next);
                let follow =
                    later.filter(|(_, it)| it.source.instance == at).map(|(place, it)| (place, &it.sink.instance));
                match follow.into_iter().find(|(_, sink)| !seen.contains(sink.as_str())) {
                    Some((place, sink)) => {
                        open.push((at, place + 1));
                        seen.insert(sink);
                        open.push((sink, 0));
                    }
                    None => order.push(at.to_owned()),
                }
            }
        }
        order
    }

    /// The instances that one calls, or that call it.
    fn next_to<'g>(&'g self, instance: &'g str, way: Way) -> impl Iterator<Item = &'g str> {
        self.connections.iter().filter(|it| !it.is_queued).filter_map(move |it| {
            let (from, to) = match way {
                Way::Called => (&it.source.instance, &it.sink.instance),
                Way::Calling => (&it.sink.instance, &it.source.instance),
            };
            (from == instance).then_some(to.as_str())
        })
    }

    /// The longest chain of calls that begins with an instance, or ends with it.
    fn depth<'g>(&'g self, at: &'g str, way: Way, depths: &mut BTreeMap<&'g str, usize>) -> usize {
        if let Some(depth) = depths.get(at) {
            return *depth;
        }
        let mut deepest = 0;
        for next in self.next_to(at, way) {
            deepest = deepest.max(self.depth(next, way, depths));
        }
        depths.insert(at, deepest + 1);
        deepest + 1
    }

    /// The instances between two, both included, by which one calls the other.
    fn way(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let mut seen = vec![(from, None)];
        let mut next = 0;
        while let Some((at, _)) = seen.get(next).copied() {
            if at == to {
                let mut way = Vec::new();
                let mut place = Some(next);
                while let Some((name, before)) = place.and_then(|place| seen.get(place)) {
                    way.push((*name).to_owned());
                    place = *before;
                }
                way.reverse();
                return Some(way);
            }
            for called in self.next_to(at, Way::Called) {
                if !seen.iter().any(|(name, _)| *name == called) {
                    seen.push((called, Some(next)));
                }
            }
            next += 1;
        }
        None
    }
}

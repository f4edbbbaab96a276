//! Trends over the last refreshes, as lines of bars: rates of the service, and rate and backlog of each consumer.

use super::view::View;
use crate::color;
use std::collections::{HashMap, VecDeque};

/// Maximum refreshes remembered, each a character wide.
const REFRESHES: usize = 12;

/// Last values of a figure.
#[derive(Debug, Default)]
pub(super) struct Trend(VecDeque<f64>);

impl Trend {
    fn note(&mut self, value: f64) {
        if self.0.len() == REFRESHES {
            self.0.pop_front();
        }
        self.0.push_back(value);
    }

    pub(super) fn bars(&self) -> String {
        color::bars(self.0.iter().copied())
    }
}

/// Last values of a consumer.
#[derive(Debug, Default)]
pub(super) struct OfConsumer {
    pub(super) delivered: Trend,
    pub(super) backlog: Trend,
}

/// Trends of the service and of the consumers in the last view.
#[derive(Debug, Default)]
pub(super) struct Trends {
    pub(super) events_in: Trend,
    pub(super) delivered: Trend,
    /// Trends by channel and proxy.
    consumers: HashMap<(u32, u32), OfConsumer>,
}

impl Trends {
    /// Adds the values of a refresh.
    pub(super) fn note(&mut self, view: &View) {
        let (events_in, delivered) = view.rates();
        self.events_in.note(events_in);
        self.delivered.note(delivered);
        let mut before = std::mem::take(&mut self.consumers);
        for (key, delivered, backlog) in view.consumer_figures() {
            let mut consumer = before.remove(&key).unwrap_or_default();
            consumer.delivered.note(delivered);
            consumer.backlog.note(backlog);
            self.consumers.insert(key, consumer);
        }
    }

    pub(super) fn of(&self, key: (u32, u32)) -> Option<&OfConsumer> {
        self.consumers.get(&key)
    }
}

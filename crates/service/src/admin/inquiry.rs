//! Queries that the lanes answer, or the thread that keeps channels' histories. One survey serves all queries of the same time, since
//! reports take time from the events.

use std::collections::BTreeMap;

use engine::ChannelId;

use crate::admin::values::{Answer, Declined, HistoryStatus, Query};
use crate::admin::waiting::Waiting;
use crate::lane::links::messages::{LaneThread, Survey, SurveyParts, Surveys};
use crate::overflow::Inquirer;

/// Queries that wait for the lanes, and the lanes' reports so far.
#[derive(Default)]
pub(crate) struct Inquiry {
    /// Queries for which a survey is under way, and those that came since.
    asking: Vec<(Query, Waiting)>,
    next: Vec<(Query, Waiting)>,
    survey: Surveys,
    /// Lanes that have yet to report.
    unreported: Vec<LaneThread>,
}

impl Inquiry {
    pub(super) fn add(&mut self, query: Query, waiting: Waiting) {
        self.next.push((query, waiting));
    }

    /// Begins a survey of these lanes, if queries wait and none is under way. Returns the lanes to ask, and the parts to report.
    pub(super) fn begin(&mut self, lanes: impl Iterator<Item = LaneThread>) -> Option<(Vec<LaneThread>, SurveyParts)> {
        if !self.asking.is_empty() || self.next.is_empty() {
            return None;
        }
        core::mem::swap(&mut self.asking, &mut self.next);
        self.unreported = lanes.collect();
        let parts = self.asking.iter().map(|(query, _)| match query {
            Query::Drops => SurveyParts::DROPS,
            Query::Types => SurveyParts::TYPES,
            Query::Links => SurveyParts::LINKS,
            Query::Figures => SurveyParts::OUTBOXES.and(SurveyParts::CHANNELS).and(SurveyParts::LINKS),
            Query::Progress => SurveyParts::NONE,
            _ => SurveyParts::OUTBOXES,
        });
        Some((self.unreported.clone(), parts.fold(SurveyParts::NONE, SurveyParts::and)))
    }

    /// Adds a chunk of a lane's report.
    pub(super) fn take_in(&mut self, from: LaneThread, chunk: Survey) {
        self.survey.take_in(from, chunk);
    }

    /// Completes the report of a lane, which may have ended. After the last lane, returns all reports, and the queries that wait for them.
    pub(super) fn reported(&mut self, from: LaneThread) -> Option<(Survey, Vec<(Query, Waiting)>)> {
        let before = self.unreported.len();
        self.unreported.retain(|lane| *lane != from);
        let is_last = before > 0 && self.unreported.is_empty();
        is_last.then(|| (core::mem::take(&mut self.survey).together(), core::mem::take(&mut self.asking)))
    }
}

/// Queries of channels' histories. All queries of one channel at the same time are answered by one request to the thread that keeps them.
pub(crate) struct HistoryInquiry {
    /// Link to the thread; without a store there is no history.
    keeper: Option<Inquirer>,
    waiting: BTreeMap<ChannelId, Vec<Waiting>>,
}

impl HistoryInquiry {
    pub(crate) const fn new(keeper: Option<Inquirer>) -> Self {
        Self { keeper, waiting: BTreeMap::new() }
    }

    /// Adds a query. If the answer is clear at once, returns it with its receiver.
    pub(super) fn add(&mut self, channel: ChannelId, waiting: Waiting) -> Option<(Waiting, Result<Answer, Declined>)> {
        let Some(keeper) = &mut self.keeper else { return Some((waiting, Ok(Answer::History(None)))) };
        if !self.waiting.contains_key(&channel) && keeper.queries.send(channel).is_err() {
            return Some((waiting, Err(Declined::NoResources)));
        }
        self.waiting.entry(channel).or_default().push(waiting);
        None
    }

    /// Notes that administration looks: answers posted from now on wake it.
    pub(super) fn look(&self) {
        if let Some(keeper) = &self.keeper {
            keeper.reported.look();
        }
    }

    /// The next answer, with all queries of its channel.
    pub(super) fn poll(&mut self) -> Option<(Vec<Waiting>, Option<HistoryStatus>)> {
        let (channel, status) = self.keeper.as_mut()?.reported.take()?;
        Some((self.waiting.remove(&channel).unwrap_or_default(), status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    fn somebody() -> Waiting {
        Waiting::Program(sync_channel(1).0, accounts::Principal::Service)
    }

    #[test]
    fn lanes_are_asked_once_for_all_queries_and_again_for_those_that_came_since() {
        let lanes = [LaneThread(0), LaneThread(1)];
        let mut inquiry = Inquiry::default();
        assert!(inquiry.begin(lanes.into_iter()).is_none(), "no client waits");
        inquiry.add(Query::Consumers, somebody());
        assert_eq!(inquiry.begin(lanes.into_iter()), Some((lanes.to_vec(), SurveyParts::OUTBOXES)));
        inquiry.add(Query::Drops, somebody());
        inquiry.add(Query::Types, somebody());
        assert!(inquiry.begin(lanes.into_iter()).is_none(), "they are being asked");
        assert!(inquiry.reported(lanes[1]).is_none());
        let (_, waiting) = inquiry.reported(lanes[0]).unwrap();
        assert_eq!(waiting.into_iter().map(|(query, _)| query).collect::<Vec<_>>(), [Query::Consumers]);
        assert!(inquiry.reported(lanes[0]).is_none(), "one that ends was not asked");
        let parts = SurveyParts::DROPS.and(SurveyParts::TYPES);
        assert_eq!(inquiry.begin(lanes.into_iter().take(1)), Some((vec![lanes[0]], parts)));
        assert_eq!(inquiry.reported(lanes[0]).unwrap().1.len(), 2);
    }

    /// One that hangs is to be noticed, whatever the others do.
    #[test]
    fn lanes_go_on_only_if_all_of_them_have_said_so() {
        let lanes = [LaneThread(0), LaneThread(1), LaneThread(2)];
        let mut inquiry = Inquiry::default();
        inquiry.add(Query::Progress, somebody());
        assert_eq!(inquiry.begin(lanes.into_iter()), Some((lanes.to_vec(), SurveyParts::NONE)));
        assert!(inquiry.reported(lanes[0]).is_none() && inquiry.reported(lanes[2]).is_none());
        inquiry.add(Query::Progress, somebody());
        assert!(inquiry.begin(lanes.into_iter()).is_none() && inquiry.reported(lanes[0]).is_none());
        let (_, waiting) = inquiry.reported(lanes[1]).unwrap();
        assert_eq!(waiting.len(), 1);
    }
}

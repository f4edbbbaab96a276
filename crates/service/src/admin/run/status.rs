//! Status of consumers and channels, as the lanes report it, and the undelivered events at the end.

use core::time::Duration;
use std::sync::Arc;

use engine::{ChannelId, OutboxStats, Undelivered};

use crate::admin::fair_queue::{Client, charged_to};
use crate::admin::run::{Administration, Answers};
use crate::admin::statistics::{self, OfClient};
use crate::admin::values::{Answer, ChannelStatus, Figures, Query};
use crate::admin::waiting::Waiting;
use crate::lane::draining::LookedAt;
use crate::lane::links::messages::{LaneThread, Survey, SurveyStatus, Surveyed, ToAdministration, ToLane};
use crate::time;

impl Administration {
    /// Handles a chunk of a lane's report on undelivered events before the service ends.
    pub(super) fn note_left(&mut self, from: LaneThread, chunk: Vec<Undelivered>, last: Option<LookedAt>) {
        let Some(drain) = &mut self.ending.drain else { return };
        let first = drain.take_in(from, chunk, last, time::now());
        if let Some((events, consumers)) = first.filter(|(events, _)| *events > 0) {
            log::info!("stopping: takes no more events, and delivers {events} to {consumers} consumers first");
        }
    }

    /// Surveys the lanes, if queries wait for that and no survey is under way.
    pub(super) fn survey(&mut self) {
        let Some((lanes, asked)) = self.inquiry.begin(self.lane_registry.threads()) else { return };
        for lane in lanes {
            self.lane_registry.send(lane, ToLane::Survey(asked));
        }
    }

    /// Completes the survey of a lane, which may have ended. After the last lane, answers all queries that waited.
    pub(super) fn surveyed(&mut self, from: LaneThread, answers: &mut Answers) {
        let Some((survey, waiting)) = self.inquiry.reported(from) else { return };
        // Each query is charged the same.
        let each = |(_, waiting): &(Query, Waiting)| (charged_to(&waiting.principal()), Duration::from_nanos(1));
        let asked: Vec<_> = waiting.iter().map(each).collect();
        let since = time::now();
        self.answer_surveyed(survey, waiting, answers);
        self.requests.charge_all(&asked, time::since(since));
        self.survey();
    }

    /// Answers the queries that waited for the survey.
    fn answer_surveyed(&mut self, mut survey: Survey, mut waiting: Vec<(Query, Waiting)>, answers: &mut Answers) {
        let of_figures: Vec<_> = waiting.extract_if(.., |(query, _)| *query == Query::Figures).collect();
        self.tell_figures(&mut survey, of_figures, waiting.is_empty(), answers);
        let (of_channels, waiting): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(query, _)| matches!(query, Query::Channels(_)));
        for (query, waiting) in of_channels {
            if let Query::Channels(channels) = query {
                self.tell_of_channels(&channels, &survey.outboxes, waiting, answers);
            }
        }
        if waiting.is_empty() {
            return;
        }
        let of_client = |key| OfClient {
            unreachable_for: self.objects.unreachable_for(key),
            duplicate_of: self.objects.duplicate_of(key),
            offers_connection: self.objects.offers_connection(key),
        };
        // Names of thousands of consumers are looked up only for queries of consumers.
        let are_wanted = waiting.iter().any(|(query, _)| *query == Query::Consumers);
        let outboxes = if are_wanted { survey.outboxes } else { Vec::new() };
        let status = Arc::new(SurveyStatus {
            consumers: statistics::consumers(outboxes, self.now(), |key| self.name(key), of_client),
            types: statistics::types(survey.types),
            links: statistics::links(survey.links),
            drops: statistics::drops(survey.drops, |key| self.name(key)),
            beyond: survey.drops_beyond,
        });
        for (query, waiting) in waiting {
            let surveyed = Surveyed { query, waiting, status: Arc::clone(&status) };
            let message = ToAdministration::Surveyed(Box::new(surveyed));
            match Client::of(&message, |_| None) {
                Some(client) => self.requests.push(client, message),
                None => self.serve(LaneThread::MAIN, message, answers),
            }
        }
    }

    /// Answers one query with the survey's result: there may be very many queries at the same time, and each gets an answer of its own.
    pub(super) fn answer_one_surveyed(&self, surveyed: Surveyed, answers: &mut Answers) {
        let Surveyed { query, waiting, status } = surveyed;
        let answer = match query {
            Query::Drops => Answer::Drops { drops: status.drops.clone(), beyond: status.beyond },
            Query::Types => Answer::Types(status.types.clone()),
            Query::Links => Answer::Links(status.links.clone()),
            Query::Progress => Answer::Progress,
            _ => Answer::Consumers(status.consumers.clone()),
        };
        answers.push(self.answered(waiting, Ok(answer)));
    }

    /// Passes on the lanes' reports unchanged.
    fn tell_figures(
        &mut self,
        survey: &mut Survey,
        mut waiting: Vec<(Query, Waiting)>,
        is_all: bool,
        answers: &mut Answers,
    ) {
        let Some((_, last)) = waiting.pop() else { return };
        let figures = |survey: &Survey| Figures {
            now: self.now(),
            outboxes: survey.outboxes.clone(),
            channels: survey.channels.clone(),
            links: survey.links.clone(),
        };
        for (_, waiting) in waiting {
            answers.push(self.answered(waiting, Ok(Answer::Figures(figures(survey)))));
        }
        let figures = match is_all {
            true => Figures {
                now: self.now(),
                outboxes: core::mem::take(&mut survey.outboxes),
                channels: core::mem::take(&mut survey.channels),
                links: core::mem::take(&mut survey.links),
            },
            false => figures(survey),
        };
        answers.push(self.answered(last, Ok(Answer::Figures(figures))));
    }

    /// Answers a query of channels' status.
    fn tell_of_channels(
        &mut self,
        channels: &[ChannelId],
        outboxes: &[OutboxStats],
        waiting: Waiting,
        answers: &mut Answers,
    ) {
        let now = self.now();
        let status = |channel: &ChannelId| {
            let name = self.objects.channel_name(*channel)?;
            Some(statistics::channel(*channel, outboxes, now, (name, |key| self.name(key))))
        };
        let statuses: Vec<ChannelStatus> = channels.iter().filter_map(status).collect();
        match waiting {
            Waiting::Client(request) => {
                self.objects.handle_channel_statuses(statuses);
                let answered = self.execute(&request);
                // The request was a query, and nothing was changed.
                answers.push(self.concluded(request, answered, None));
            }
            waiting @ Waiting::Program(..) => answers.push(self.answered(waiting, Ok(Answer::Channels(statuses)))),
        }
    }
}

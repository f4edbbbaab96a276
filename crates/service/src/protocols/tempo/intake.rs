//! Intake of messages: in their publisher's order, into their topic's input, and in its turn into the engine.

use std::sync::Arc;

use engine::{PendingEvent, ProxyKey};
use tempo::reassembly::{FragmentResult, Reassembly};
use tempo::sequence::Arrival;
use tempo::wire::{Content, Data, Fragment, Header};

use super::Protocol;
use super::form::Said;
use super::hearing::Heard;
use super::input::{Item, Waiting, octets_of};
use super::sessions::{Place, Publisher, Unfinished};
use crate::counters::Counter;
use crate::lane::access::Permit;
use crate::lane::budget::Budget;
use crate::lane::context::Context;
use crate::lane::intake::{Refused, Submission};
use crate::lane::io::slots::Token;
use crate::lane::io::socket::Socket;
use crate::lane::run::{Core, Worker};
use crate::protocols;
use crate::protocols::Tag;
use access::Right;
use accounts::{Account, Resource, Spent};

/// Minimum octets of a fragment, except the last of a message.
const FRAGMENT_MIN: usize = 256;
/// Maximum capacity of a buffer for fragments that is reused for the publisher's next message.
const REUSED_BUFFER_BYTES: usize = 64 << 10;

/// Recipient of a message's acknowledgement: its topic, which then continues.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    topic: Token,
    part: Token,
}

impl Core {
    // ---- what comes ----

    /// Handles a message, or a fragment of one.
    pub(super) fn hear_data(&mut self, place: Place, header: &Header, data: &Data<'_>, alone: bool) -> Heard {
        let Some(part) = self.protocols.tempo.sender(place, header, &self.cx) else { return Heard::Done };
        if self.cx.reporting.draining.has_begun() {
            self.cx.counters.add(Counter::RefusedStopping, 1);
            return Heard::Done;
        }
        let octets = data.fragment.map_or(data.octets.len(), |fragment| fragment.total as usize);
        // The number is not taken: the message counts as lost when a later one comes.
        if octets > self.protocols.tempo.settings.message_bytes_max as usize {
            self.cx.counters.add(Counter::TempoTooLarge, 1);
            return Heard::Done;
        }
        if let Some(topic) = self.protocols.tempo.has_to_wait(place, part, octets, &self.cx) {
            return Heard::Wait(topic);
        }
        match data.fragment {
            None => self.take_message(part, header, (data.content, data.octets), alone),
            Some(fragment) => self.take_fragment(part, header, fragment, data),
        }
        Heard::Done
    }

    fn take_message(&mut self, part: Token, header: &Header, (content, octets): (Content, &[u8]), alone: bool) {
        if !self.protocols.tempo.is_in_order(part, header.sequence, &mut self.cx) {
            return;
        }
        let Protocol { sessions, topics, scheduler, proxies, settings, .. } = &mut self.protocols.tempo;
        let Some((known, session)) = sessions.both(part) else { return };
        let token = known.topic;
        let Some(publisher) = known.publisher() else { return };
        publisher.received += 1;
        let proxy = publisher.proxy.and_then(|peer| proxies.get(&peer)).and_then(|proxy| proxy.key);
        let Some(topic) = topics.get_mut(token) else { return };
        if alone
            && scheduler.are_idle()
            && !topic.input.has_some()
            && let Some(source) = proxy
        {
            return self.hand_in_at_once(part, source, header, (content, octets));
        }
        let takes = octets_of(octets.len());
        #[cfg(test)]
        if crate::simulation::goes_wrong(crate::simulation::Break::LostMessage) {
            return;
        }
        let has_room = topic.input.has_room(&publisher.queued, takes, settings.bounds);
        if !has_room {
            return self.protocols.tempo.discard(part, Counter::TempoInputFull, &mut self.cx);
        }
        if let Err(spent) = claim_room(&session.account, takes) {
            self.cx.counters.add(Counter::of_refusal(spent), 1);
            return self.protocols.tempo.discard(part, Counter::TempoInputFull, &mut self.cx);
        }
        publisher.waiting += 1;
        let mut pending_event = self.cx.lane.begin_event_for(octets.len());
        pending_event.bytes.extend_from_slice(octets);
        let waiting =
            Waiting::new(header.priority, part, takes, Item::Message(pending_event, said_of(header, content)));
        self.protocols.tempo.queue(token, waiting, proxy.is_none(), &mut self.cx);
    }

    /// Takes a fragment, and the message if it is complete.
    fn take_fragment(&mut self, part: Token, header: &Header, fragment: Fragment, data: &Data<'_>) {
        let now = self.cx.clock.now.0;
        let Some((known, session)) = self.protocols.tempo.sessions.both(part) else { return };
        let (period, account) = (known.presence.period(), &session.account);
        let Some(publisher) = known.publisher() else { return };
        let begun = publisher.unfinished.as_ref().and_then(|unfinished| unfinished.fragments.number());
        let is_taken = publisher.sequence.takes_fragment(now, period, header.sequence, begun);
        let room = if is_taken { publisher.room_for(fragment.total as usize, account) } else { None };
        match room.map(|unfinished| unfinished.fragments.take(header.sequence, fragment, data.octets)) {
            Some(Ok(FragmentResult::Incomplete | FragmentResult::Repeated)) => {}
            Some(Ok(FragmentResult::Complete)) => {
                let Some(unfinished) = publisher.unfinished.take() else { return };
                self.take_message(part, header, (data.content, unfinished.fragments.message()), false);
                if let Some(known) = self.protocols.tempo.sessions.part_mut(part)
                    && let Some(publisher) = known.publisher()
                {
                    publisher.release(unfinished);
                }
            }
            Some(Err(_)) | None => self.cx.counters.add(Counter::TempoFragmentsRefused, 1),
        }
    }

    // ---- turns ----

    /// Hands in waiting items, each topic's in its turn, for a limited time until the sockets are looked at again.
    #[inline(never)]
    fn serve_inputs(&mut self) {
        let until = self.cx.clock.time() + Budget::WAITING.time;
        loop {
            for _ in 0..Budget::WAITING.events {
                let Some(topic) = self.protocols.tempo.scheduler.next() else { return };
                self.serve_input(topic);
            }
            if self.read_clock() >= until {
                return;
            }
        }
    }

    fn serve_input(&mut self, token: Token) {
        let Protocol { topics, scheduler, .. } = &mut self.protocols.tempo;
        let Some(topic) = topics.get_mut(token) else { return };
        let Some(waiting) = scheduler.take(&mut topic.input) else { return };
        let part = waiting.part;
        self.protocols.tempo.give_room(&waiting);
        match waiting.item {
            Item::Message(pending_event, said) => self.hand_in((token, part), pending_event, said),
            Item::Probe(probe, from) => {
                self.protocols.tempo.pass_probe((token, part), &probe, waiting.priority, from, &mut self.cx)
            }
        }
        self.protocols.tempo.go_on_with_input(token, &mut self.cx);
    }

    fn hand_in(&mut self, (topic, part): (Token, Token), pending_event: PendingEvent, said: Said) {
        let Protocol { sessions, proxies, .. } = &mut self.protocols.tempo;
        let peer = sessions.part_mut(part).and_then(|part| part.publisher()?.proxy);
        match peer.and_then(|peer| proxies.get(&peer)).and_then(|proxy| proxy.key) {
            Some(source) => self.admit_tempo(Claim { topic, part }, source, (pending_event, said)),
            None => {
                // The proxy was ended meanwhile.
                self.cx.lane.abandon_event(pending_event);
                self.protocols.tempo.discard(part, Counter::TempoRefused, &mut self.cx);
                self.protocols.tempo.finish_message(part, &mut self.cx);
            }
        }
    }

    /// Hands in a message at once if nothing waits.
    fn hand_in_at_once(&mut self, part: Token, source: ProxyKey, header: &Header, (content, octets): (Content, &[u8])) {
        let Some(known) = self.protocols.tempo.sessions.part_mut(part) else { return };
        let topic = known.topic;
        if let Some(publisher) = known.publisher() {
            publisher.waiting += 1;
        }
        let mut pending_event = self.cx.lane.begin_event_for(octets.len());
        pending_event.bytes.extend_from_slice(octets);
        self.admit_tempo(Claim { topic, part }, source, (pending_event, said_of(header, content)));
    }

    /// Event types that a publisher is limited to, if it may publish at all.
    fn permit_tempo(&mut self, claim: &Claim, source: ProxyKey) -> Result<Permit, ()> {
        if !self.access.is_on() {
            return Ok(None);
        }
        let sessions = &self.protocols.tempo.sessions;
        let session = sessions.part(claim.part).and_then(|part| sessions.get(part.session)).ok_or(())?;
        let account = Arc::clone(&session.account);
        self.access.may(&account, Right::Publish, source.channel).map_err(|scope| {
            let of = self.protocols.tempo.topics.get(claim.topic).map(|topic| topic.name().event_type());
            let why = scope.why(of.map(|(domain, name)| (domain.as_bytes(), name.as_bytes())));
            let what = "a message of Tempo (publish)";
            self.access.deny(&account, Right::Publish, source.channel, (why, &what), &mut self.cx);
        })
    }

    /// Hands a message to the engine.
    fn admit_tempo(&mut self, claim: Claim, source: ProxyKey, (mut pending_event, said): (PendingEvent, Said)) {
        let Some(topic) = self.protocols.tempo.topics.get_mut(claim.topic) else {
            return self.cx.lane.abandon_event(pending_event);
        };
        let (domain, name) = topic.name().event_type();
        pending_event.keeps_names = true;
        self.cx.lane.classify(&mut pending_event, domain.as_bytes(), name.as_bytes());
        self.protocols.complete_message(source, &mut pending_event, said, &mut self.cx);
        let Ok(permit) = self.permit_tempo(&claim, source) else {
            self.cx.lane.abandon_event(pending_event);
            self.protocols.tempo.discard(claim.part, Counter::TempoRefused, &mut self.cx);
            return self.protocols.tempo.finish_message(claim.part, &mut self.cx);
        };
        let mut submission = Submission::new(source, protocols::Claim::Tempo(claim), None).permitted(permit);
        self.admit(&mut submission, pending_event);
        match self.finish_submission(&submission) {
            Ok(true) => self.protocols.tempo.finish_message(claim.part, &mut self.cx),
            Ok(false) => {
                if let Some(topic) = self.protocols.tempo.topics.get_mut(claim.topic) {
                    topic.input.is_pending = true;
                }
            }
            Err(_) => {
                self.protocols.tempo.discard(claim.part, Counter::TempoRefused, &mut self.cx);
                self.protocols.tempo.finish_message(claim.part, &mut self.cx);
            }
        }
        self.deliver();
    }
}

impl Protocol {
    /// The topic without room for a message in its input, if the message came over a connection, which is then not read.
    pub(super) fn has_to_wait(&self, place: Place, part: Token, octets: usize, cx: &Context) -> Option<Token> {
        let Place::Stream(_) = place else { return None };
        let Protocol { sessions, topics, settings, .. } = self;
        let part = sessions.part(part)?;
        let (takes, input) = (octets_of(octets), &topics.get(part.topic)?.input);
        let own = part.queued()?;
        if !input.has_room(own, takes, settings.bounds) {
            return Some(part.topic);
        }
        let account = &sessions.get(part.session)?.account;
        let Err(spent) = claim_room(account, takes) else {
            account.give(Resource::InputBytes, takes as u64);
            return None;
        };
        cx.counters.add(Counter::of_refusal(spent), 1);
        Some(part.topic)
    }

    /// Whether the item of that number is to be handed on, by its publisher's sequence. Missing numbers are counted as lost.
    pub(super) fn is_in_order(&mut self, part: Token, number: u32, cx: &mut Context) -> bool {
        let now = cx.clock.now.0;
        let Some(part) = self.sessions.part_mut(part) else { return false };
        let period = part.presence.period();
        let Some(publisher) = part.publisher() else { return false };
        let arrival = publisher.sequence.take(now, period, number);
        match arrival {
            Arrival::Next { lost } => cx.counters.add(Counter::TempoLost, lost.into()),
            Arrival::Anew => {}
            Arrival::Late => cx.counters.add(Counter::TempoLate, 1),
            Arrival::Repeated => cx.counters.add(Counter::TempoRepeated, 1),
        }
        let is_lost = |unfinished: &mut Unfinished| {
            unfinished.fragments.number().is_some_and(|begun| publisher.sequence.has_overtaken(begun))
        };
        if arrival.is_handed_on()
            && let Some(unfinished) = publisher.unfinished.take_if(is_lost)
        {
            publisher.release(unfinished);
        }
        #[cfg(test)]
        if !arrival.is_handed_on() && crate::simulation::goes_wrong(crate::simulation::Break::LateMessage) {
            return true;
        }
        arrival.is_handed_on()
    }

    /// Queues an item for its topic's turn.
    pub(super) fn queue(&mut self, topic: Token, waiting: Waiting, early: bool, cx: &mut Context) {
        let now = cx.clock.now.0;
        let Protocol { sessions, topics, scheduler, .. } = self;
        topics.renew_share(topic, sessions, now);
        let publisher = sessions.part_mut(waiting.part).and_then(|part| part.publisher());
        if let Some((known, publisher)) = topics.get_mut(topic).zip(publisher) {
            scheduler.push(topic, (&mut known.input, &mut publisher.queued), waiting, early);
        }
    }

    /// Discards a message of a publisher.
    pub(super) fn discard(&mut self, part: Token, why: Counter, cx: &mut Context) {
        cx.counters.add(why, 1);
        if let Some(publisher) = self.sessions.part_mut(part).and_then(|part| part.publisher()) {
            publisher.received = publisher.received.saturating_sub(1);
            publisher.discarded += 1;
        }
    }

    /// Releases the room of an item that has waited.
    fn give_room(&mut self, waiting: &Waiting) {
        #[cfg(test)]
        if crate::simulation::goes_wrong(crate::simulation::Break::LeakedRoom) {
            return;
        }
        let Some((part, session)) = self.sessions.both(waiting.part) else { return };
        session.account.give(Resource::InputBytes, waiting.octets as u64);
        if let Some(publisher) = part.publisher() {
            publisher.queued.give(waiting.priority, waiting.octets);
        }
    }

    /// Has a topic take its next turn, and resumes connections that waited for room there.
    pub(super) fn go_on_with_input(&mut self, token: Token, cx: &mut Context) {
        let Protocol { topics, scheduler, out, settings, .. } = self;
        let Some(topic) = topics.get_mut(token) else { return };
        scheduler.place(token, &mut topic.input);
        if topic.input.connections.is_empty() || !topic.input.has_much_room(settings.bounds) {
            return;
        }
        for connection in topic.input.connections.drain(..) {
            #[cfg(test)]
            if crate::simulation::goes_wrong(crate::simulation::Break::ForgottenWait) {
                continue;
            }
            if let Some(known) = out.connections.get_mut(connection)
                && known.waits_for.take().is_some()
            {
                cx.io.quotas.resume_later(&mut known.rounds, Socket::Incoming(Tag::Tempo, connection));
            }
        }
    }

    /// Notes that a publisher's message has been handed in, or is lost.
    pub(super) fn finish_message(&mut self, part: Token, cx: &mut Context) {
        let Some(publisher) = self.sessions.part_mut(part).and_then(|part| part.publisher()) else {
            return;
        };
        publisher.waiting = publisher.waiting.saturating_sub(1);
        if publisher.is_leaving && publisher.waiting == 0 {
            self.remove_part(part, cx);
        }
    }
}

/// Charges a message to the client's waiting input. If nothing else waits, it may have any size.
pub(super) fn claim_room(account: &Account, octets: usize) -> Result<(), Spent> {
    let octets = octets as u64;
    account.take(Resource::InputBytes, octets).or_else(|spent| {
        if account.accounts().used(Resource::InputBytes) > 0 {
            return Err(spent);
        }
        account.take_anyway(Resource::InputBytes, octets);
        Ok(())
    })
}

const fn said_of(header: &Header, content: Content) -> Said {
    Said { content, priority: header.priority, sent: header.sent }
}

impl Worker {
    /// Hands in messages of the topics that have their turn.
    pub(crate) fn serve_tempo_topics(&mut self) {
        if self.core.protocols.tempo.scheduler.are_idle() {
            return;
        }
        self.core.serve_inputs();
        self.core.flush_engine();
        self.answer_all();
    }

    /// Handles a message's acknowledgement: its topic continues.
    pub(crate) fn answer_tempo(&mut self, claim: Claim, refused: Option<Refused>) {
        if refused.is_some() {
            self.core.protocols.tempo.discard(claim.part, Counter::TempoRefused, &mut self.core.cx);
        }
        if let Some(topic) = self.core.protocols.tempo.topics.get_mut(claim.topic) {
            topic.input.is_pending = false;
        }
        self.core.protocols.tempo.finish_message(claim.part, &mut self.core.cx);
        self.core.protocols.tempo.go_on_with_input(claim.topic, &mut self.core.cx);
        self.core.protocols.tempo.forget_topic_if_unneeded(claim.topic, &mut self.core.cx);
    }
}

impl Publisher {
    /// The buffer for fragments of a message of so many octets, if there is room.
    fn room_for(&mut self, octets: usize, account: &Arc<Account>) -> Option<&mut Unfinished> {
        if self.unfinished.as_ref().is_none_or(|unfinished| unfinished.octets < octets) {
            self.unfinished = None;
            let charge = account.charge(Resource::IncompleteBytes, octets as u64).ok()?;
            let marks = vec![0; octets / FRAGMENT_MIN / 64 + 1];
            let fragments = Reassembly::new(vec![0; octets], marks);
            self.unfinished = Some(Unfinished { fragments, octets, _charge: charge });
        }
        self.unfinished.as_mut()
    }

    /// Releases the buffer of a fragmented message that was handed in, or is lost.
    fn release(&mut self, mut unfinished: Unfinished) {
        unfinished.fragments.clear();
        if unfinished.octets <= REUSED_BUFFER_BYTES {
            self.unfinished = Some(unfinished);
        }
    }
}

//! The broker's topics: their publishers and subscribers, summaries of these, and the messages that wait for their topic's turn.

use core::net::IpAddr;

use engine::ChannelId;
use hashbrown::HashMap;
use tempo::Nanos;
use tempo::presence::{Announced, Summary};
use tempo::wire::{NAME_MAX, Role};

use super::input::Input;
use super::sessions::{Is, Sessions};
use crate::lane::io::slots::{Slots, Token};

/// A topic.
pub(crate) struct Topic {
    text: Box<str>,
    prefix: usize,
    pub(crate) channel: ChannelId,
    /// Number of the topic in the broker's session.
    pub(crate) number: u32,
    pub(crate) publishers: Side,
    pub(crate) subscribers: Side,
    pub(crate) input: Input,
}

/// A topic's name, which means an event type in a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name<'n> {
    /// The name, with `@7/` in front if its channel is not the first.
    text: &'n str,
    pub(crate) channel: ChannelId,
    /// Octets of that prefix.
    prefix: usize,
}

/// End points of one role on a topic.
#[derive(Debug, Default)]
pub(crate) struct Side {
    /// Their parts.
    pub(crate) parts: Vec<Token>,
    summary: Summary,
    /// Summary of subscribers' reports: losses, and the lowest rate of reception.
    reports: ReceptionReports,
    is_stale: bool,
    made_at: Nanos,
}

/// Summary of subscribers' reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReceptionReports {
    pub(crate) lost: u64,
    pub(crate) lowest_rate: u32,
}

/// All topics.
#[derive(Default)]
pub(crate) struct Topics {
    topics: Slots<Topic>,
    by_name: HashMap<Box<str>, Token>,
    by_number: HashMap<u32, Token>,
    /// Sum of the rates that the publishers at each address announce, and the number of their parts.
    rates: HashMap<IpAddr, (u64, u32)>,
}

/// Maximum end points of a role on a topic for which summaries follow every change at once.
const FEW: usize = 64;
/// Minimum interval of summaries of more end points than that.
const PUT_TOGETHER_EVERY: Nanos = 100_000_000;
/// Minimum interval of shares over few, which change with the announcements of their addresses on other topics.
const FEW_EVERY: Nanos = 5_000_000;
/// Share of each address.
const SHARE_OF_ADDRESS: u64 = 100_000;
/// Rate assumed for a publisher that announces none, in messages in 1,000 s.
const RATE_DEFAULT: u32 = 1_000;

impl<'n> Name<'n> {
    /// Reads an announced name. The flag says whether the name states that its channel is the first, which is optional. `None` if it names
    /// no type.
    pub(crate) fn read(announced: &'n str) -> Option<(Self, bool)> {
        let (channel, rest) = match announced.strip_prefix('@').and_then(|rest| rest.split_once('/')) {
            Some((digits, rest)) if is_number(digits) => (digits.parse().ok()?, rest),
            _ => (0, announced),
        };
        if rest.is_empty() {
            return None;
        }
        let says_first = channel == 0 && rest.len() < announced.len();
        let text = if says_first { rest } else { announced };
        let prefix = text.len() - rest.len();
        Some((Self { text, channel: ChannelId(channel), prefix }, says_first))
    }

    /// The name as announced to an end point; `says_first` puts `@0/` before names of the first channel.
    pub(crate) fn announced<'b>(&self, says_first: bool, buffer: &'b mut [u8; NAME_MAX]) -> &'b str
    where
        'n: 'b,
    {
        const FIRST: &[u8] = b"@0/";
        let octets = FIRST.len() + self.text.len();
        if !says_first || octets > NAME_MAX {
            return self.text;
        }
        let (first, rest) = buffer.split_at_mut(FIRST.len());
        first.copy_from_slice(FIRST);
        if let Some(rest) = rest.get_mut(..self.text.len()) {
            rest.copy_from_slice(self.text.as_bytes());
        }
        buffer.get(..octets).and_then(|name| core::str::from_utf8(name).ok()).unwrap_or_default()
    }

    /// The event type's domain and name.
    pub(crate) fn event_type(&self) -> (&'n str, &'n str) {
        let rest = self.text.get(self.prefix..).unwrap_or_default();
        rest.split_once('/').unwrap_or(("", rest))
    }
}

/// Whether the digits are a number in canonical form.
fn is_number(digits: &str) -> bool {
    digits.bytes().all(|digit| digit.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'))
        && !digits.is_empty()
}

impl Topic {
    pub(crate) const fn name(&self) -> Name<'_> {
        Name { text: &self.text, channel: self.channel, prefix: self.prefix }
    }

    pub(crate) const fn side_mut(&mut self, role: Role) -> &mut Side {
        match role {
            Role::Publisher => &mut self.publishers,
            Role::Subscriber => &mut self.subscribers,
        }
    }

    fn is_needed(&self) -> bool {
        !self.publishers.parts.is_empty() || !self.subscribers.parts.is_empty() || self.input.has_some()
    }
}

impl Side {
    /// Adds an end point's part. Returns its place.
    pub(crate) fn add(&mut self, part: Token) -> usize {
        self.parts.push(part);
        self.parts.len() - 1
    }

    /// Adds what a part has announced to the summary.
    pub(crate) fn count(&mut self, announced: &Announced) {
        self.summary.add(announced);
    }

    /// Removes the part at a place. Returns the part that is moved to that place, if any.
    pub(crate) fn remove(&mut self, at: usize) -> Option<Token> {
        if at < self.parts.len() {
            self.parts.swap_remove(at);
        }
        self.is_stale = true;
        self.parts.get(at).copied()
    }

    /// Notes that an announcement has changed.
    pub(crate) const fn note_change(&mut self) {
        self.is_stale = true;
    }

    /// The summary of all announcements, of subscribers those whose proxies are open; for very many it may be a moment old.
    pub(crate) fn summary(&mut self, sessions: &Sessions, now: Nanos) -> (Summary, ReceptionReports) {
        let is_due = self.parts.len() <= FEW || now.saturating_sub(self.made_at) >= PUT_TOGETHER_EVERY;
        if self.is_stale && is_due {
            (self.summary, self.reports, self.is_stale, self.made_at) =
                (Summary::default(), ReceptionReports::default(), false, now);
            for part in self.parts.iter().filter_map(|part| sessions.part(*part)) {
                if matches!(&part.is, Is::Subscriber(subscriber) if !subscriber.is_open) {
                    continue;
                }
                self.summary.add(part.presence.announced());
                if let Is::Subscriber(subscriber) = &part.is {
                    self.reports.lost = self.reports.lost.saturating_add(subscriber.report.lost);
                    let rate = subscriber.report.rate;
                    let lowest = if self.reports.lowest_rate == 0 { rate } else { self.reports.lowest_rate.min(rate) };
                    self.reports.lowest_rate = lowest;
                }
            }
        }
        (self.summary, self.reports)
    }
}

impl Topics {
    pub(crate) fn get(&self, token: Token) -> Option<&Topic> {
        self.topics.get(token)
    }

    pub(crate) fn get_mut(&mut self, token: Token) -> Option<&mut Topic> {
        self.topics.get_mut(token)
    }

    /// Number of topics.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// The topic with that name, if it is known.
    pub(crate) fn find(&self, name: Name<'_>) -> Option<Token> {
        self.by_name.get(name.text).copied()
    }

    /// The topic with that number.
    pub(crate) fn numbered(&self, number: u32) -> Option<Token> {
        self.by_number.get(&number).copied()
    }

    /// Number of a topic, known or not. It follows from the name, so that nothing is stored of end points that only ask.
    pub(crate) fn number_of(&self, name: Name<'_>) -> u32 {
        use core::hash::BuildHasher;
        if let Some(topic) = self.find(name).and_then(|topic| self.get(topic)) {
            return topic.number;
        }
        let mut number = u32::try_from(self.by_name.hasher().hash_one(name.text) >> 32).unwrap_or_default();
        while self.by_number.contains_key(&number) {
            number = number.wrapping_add(1);
        }
        number
    }

    /// The topic with that name, added if new.
    pub(crate) fn find_or_add(&mut self, name: Name<'_>) -> Token {
        if let Some(topic) = self.find(name) {
            return topic;
        }
        let (number, Name { text, channel, prefix }) = (self.number_of(name), name);
        let (publishers, subscribers, input) = (Side::default(), Side::default(), Input::default());
        let topic = Topic { text: text.into(), prefix, channel, number, publishers, subscribers, input };
        let token = self.topics.insert(topic);
        self.by_name.insert(text.into(), token);
        self.by_number.insert(number, token);
        token
    }

    /// Removes a topic if it is not needed any more. Returns the connections that waited for room there: they need not wait any more.
    pub(crate) fn forget_unneeded(&mut self, token: Token) -> Vec<Token> {
        if self.topics.get(token).is_none_or(Topic::is_needed) {
            return Vec::new();
        }
        let Some(topic) = self.topics.remove(token) else { return Vec::new() };
        self.by_name.remove(&topic.text);
        self.by_number.remove(&topic.number);
        topic.input.connections
    }

    // ---- shares ----

    /// Replaces the rate that a publisher at an address has announced.
    pub(crate) fn note_rate(&mut self, ip: IpAddr, before: Option<u32>, rate: Option<u32>) {
        let (sum, parts) = self.rates.entry(ip).or_default();
        if let Some(before) = before {
            *sum = sum.saturating_sub(rate_or_default(before).into());
            *parts = parts.saturating_sub(1);
        }
        if let Some(rate) = rate {
            *sum = sum.saturating_add(rate_or_default(rate).into());
            *parts += 1;
        }
        if *parts == 0 {
            self.rates.remove(&ip);
        }
    }

    /// Computes a topic's share anew: from each publishing address, a part of its share in proportion to the announced rates. For very many
    /// publishers this is done now and then.
    pub(crate) fn renew_share(&mut self, token: Token, sessions: &Sessions, now: Nanos) {
        let Self { topics, rates, .. } = self;
        let Some(topic) = topics.get_mut(token) else { return };
        let is_few = topic.publishers.parts.len() <= FEW;
        if !topic.input.share_is_old(now, if is_few { FEW_EVERY } else { PUT_TOGETHER_EVERY }) {
            return;
        }
        let mut share = 0_u64;
        for part in topic.publishers.parts.iter().filter_map(|part| sessions.part(*part)) {
            let Some(session) = sessions.get(part.session) else { continue };
            let of_address = rates.get(&session.account.ip()).map_or(0, |(sum, _)| *sum);
            let rate = u64::from(rate_or_default(part.presence.announced().rate));
            share += (SHARE_OF_ADDRESS * rate).checked_div(of_address).unwrap_or(0);
        }
        let (summary, _) = topic.publishers.summary(sessions, now);
        topic.input.set_share(share, rate_or_default(summary.rates), summary.deadline_us, now);
    }
}

const fn rate_or_default(rate: u32) -> u32 {
    if rate == 0 { RATE_DEFAULT } else { rate }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(announced: &str) -> Option<(u32, String, String, bool)> {
        let (name, says_first) = Name::read(announced)?;
        let mut buffer = [0; NAME_MAX];
        assert_eq!(name.announced(says_first, &mut buffer), announced);
        let (domain, of_type) = name.event_type();
        Some((name.channel.0, domain.into(), of_type.into(), says_first))
    }

    #[test]
    fn a_name_is_an_event_type_in_a_channel_and_is_announced_as_it_was() {
        let expect =
            |channel, domain: &str, name: &str, says| Some((channel, domain.to_owned(), name.to_owned(), says));
        assert_eq!(read("Weather/Wind"), expect(0, "Weather", "Wind", false));
        assert_eq!(read("Wind"), expect(0, "", "Wind", false));
        assert_eq!(read("a/b/c"), expect(0, "a", "b/c", false));
        assert_eq!(read("@7/Weather/Wind"), expect(7, "Weather", "Wind", false));
        assert_eq!(read("@0/Weather/Wind"), expect(0, "Weather", "Wind", true));
        assert_eq!(read("@07/Wind"), expect(0, "@07", "Wind", false));
        assert_eq!(read("@x/Wind"), expect(0, "@x", "Wind", false));
        assert_eq!(read("@/Wind"), expect(0, "@", "Wind", false));
        assert_eq!(read("@7/"), None);
        assert_eq!(read("@99999999999/x"), None, "no channel has that number");
    }

    #[test]
    fn a_topic_has_the_number_that_was_reported_before_it_was_known() {
        let mut topics = Topics::default();
        let name = |name: &'static str| Name::read(name).unwrap().0;
        let number = topics.number_of(name("A/B"));
        let topic = topics.find_or_add(name("A/B"));
        assert_eq!((topics.get(topic).unwrap().number, topics.numbered(number)), (number, Some(topic)));
        assert_eq!((topics.find_or_add(name("@0/A/B")), topics.len()), (topic, 1));
        assert!(topics.forget_unneeded(topic).is_empty());
        assert_eq!((topics.len(), topics.numbered(number)), (0, None));
    }
}

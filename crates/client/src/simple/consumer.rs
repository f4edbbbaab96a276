//! A consumer connected with one call.

use super::subscriber::{End, Receiver};
use super::watch::Watched;
use super::{ChannelFinder, DISCONNECT_TIMEOUT, Reconnections, gone_is_fine, named};
use crate::backoff::Backoff;
use crate::notify::{
    ClientType, ConstraintExp, ConsumerAdmin, DISCONNECTED, Delivery, EXTENDED_TCL, EventChannel, EventType, Filter,
    PrioritizedConsumer, Property, ProxySupplier, StructuredEvent, events_of, property_errors, push_supplier,
};
use crate::orb::Role;
use crate::time::time_of;
use crate::{InvokeError, ObjectRef, Orb, OrbOptions, Servant, ServantError, Served, lock};
use giop::cdr::{ReadError, Reader};
use giop::realtime::PriorityModelPolicy;
use giop::recode::skip_any;
use giop::typecode::Work;
use giop::value::{AnyValue, Value};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant, SystemTime};

/// Longest wait between two attempts to subscribe again.
const ATTEMPTS_EVERY_MAX: Duration = Duration::from_secs(5);
/// `CosNotification::BestEffort`.
const BEST_EFFORT: i16 = 0;
/// Maximum number of gaps stored until they are taken.
const GAPS_MAX: usize = 64;

/// Settings of a [`SimpleConsumer`].
#[derive(Clone, Debug)]
pub struct ConsumerOptions {
    /// Settings of the orb beneath: where to listen for events, time limits.
    pub orb: OrbOptions,
    /// The form in which events travel. Default [`ClientType::Structured`]; the callback gets the events of a
    /// [`ClientType::Sequence`] one by one, too.
    pub form: ClientType,
    /// Event types to receive; `*` stands for all. Default none, which means all types.
    pub types: Vec<EventType>,
    /// A condition in the Extended Trader Constraint Language that the service applies, such as
    /// `$celsius > 30 and $site == 'north'`: other events do not travel. Default none.
    pub constraint: Option<String>,
    /// Name of the proxy, which Campanile and TAO's service show in their lists and logs. Default none. A service that has no names, or
    /// has given this one to another proxy of the channel, makes a proxy without.
    pub name: Option<String>,
    /// Quality of service of the proxy. Default none: that of the channel.
    pub qos: Vec<Property>,
    /// Whether the connection ends with the service's process and with this one, whatever the channel's setting: its
    /// `ConnectionReliability` is `BestEffort`, as far as the service supports it. The proxy of a persistent connection stays for days
    /// after the program was killed, and queues events. Default false: the channel's setting.
    pub best_effort: bool,
    /// Position in its channel's history where the consumer begins, in the form of Campanile's property `StartFrom`: `first`, `last:100`,
    /// `since:10m`, `number:12345` and others. The events then have numbers ([`Received::number`]), and a subscription that is made anew
    /// continues behind the last received event. Default none: new events only.
    pub start_from: Option<String>,
    /// The Real-time CORBA priority model in the consumer's reference. With
    /// [`PriorityModel::ClientPropagated`](giop::realtime::PriorityModel::ClientPropagated) the service sends the priority of each event
    /// ([`Received::priority`]). Default none: no priorities.
    pub priority_model: Option<PriorityModelPolicy>,
    /// Whether an event is answered as soon as it has been read, before the callback ran. The service then sends on without waiting for the
    /// callback, and events wait in this process (up to 128 KiB of them) and its socket rather than in the service. The price: the
    /// callback's errors do not reach the service, so nothing is sent again and errors do not end the subscription; and answered events
    /// that are not yet handled are lost if the process ends. Default false: an event is answered when the callback has returned.
    pub answer_early: bool,
    /// Whether the consumer shares its end point with the other such consumers of the process for the same address with the same
    /// [`OrbOptions`]. The service then has one connection to all of them, and sends pending events with one system call: for processes
    /// with many consumers. Their callbacks run on one thread in turn, so that a slow one delays the others. Default false: an end point,
    /// connections and a thread of its own.
    pub shared_end_point: bool,
    /// Interval at which a thread of the library asks the service whether the subscription exists, and makes it anew if not. The service is
    /// also asked when it closes its connection. Default 5 s. `None`: only by [`SimpleConsumer::check`].
    pub check_every: Option<Duration>,
    /// Whether the subscription ends when the service disconnects the consumer ([`SimpleConsumer::has_ended`]): by an operator, with the
    /// channel, or because the consumer took nothing for too long. A restarted service sends no such notice, and the subscription is made
    /// anew in any case. Default false: it is made anew.
    pub ends_when_disconnected: bool,
    /// Called with news of the subscription. Default none; the news can be queried.
    pub news: Option<NewsReader>,
}

/// A change in the state of a subscription.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum News {
    /// The service cannot be reached, or refuses the subscription; the text has the reason. Reported again when the reason changes.
    Unreachable(String),
    /// The service answers again after it was unreachable.
    Reachable,
    /// The subscription is made anew: the events of the gap are missing. Reported before the first event after the gap, and once more with
    /// a later end if the service refuses the subscription after all.
    Gap(Gap),
}

/// A callback for news of a subscription, on the library's thread that watches all subscriptions.
#[derive(Clone)]
pub struct NewsReader(Arc<dyn Fn(News) + Send + Sync>);

impl NewsReader {
    /// A reader that calls `tell`.
    #[must_use]
    pub fn new(tell: impl Fn(News) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }
}

impl core::fmt::Debug for NewsReader {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("NewsReader").finish_non_exhaustive()
    }
}

impl Default for ConsumerOptions {
    fn default() -> Self {
        Self {
            orb: OrbOptions::default(),
            form: ClientType::Structured,
            types: Vec::new(),
            constraint: None,
            name: None,
            qos: Vec::new(),
            best_effort: false,
            start_from: None,
            priority_model: None,
            answer_early: false,
            shared_end_point: false,
            check_every: Some(Duration::from_secs(5)),
            ends_when_disconnected: false,
            news: None,
        }
    }
}

/// An event as it arrived, borrowed from the message.
#[derive(Clone, Debug)]
pub struct Received<'a> {
    body: ReceivedBody<'a>,
    priority: Option<i16>,
}

/// The form of a received event; each reader stands at its first octet.
#[derive(Clone, Debug)]
pub enum ReceivedBody<'a> {
    /// A `CosNotification::StructuredEvent`.
    Structured(Reader<'a>),
    /// An `any`.
    Any(Reader<'a>),
}

impl<'a> Received<'a> {
    /// The form with a reader at its first octet.
    #[must_use]
    pub fn body(&self) -> ReceivedBody<'a> {
        self.body.clone()
    }

    /// Real-time CORBA priority that the service sent with the event, from 0 to 32767; `None` unless [`ConsumerOptions::priority_model`]
    /// requests it.
    #[must_use]
    pub const fn priority(&self) -> Option<i16> {
        self.priority
    }

    /// The event's number in its channel, if that stores its history and [`ConsumerOptions::start_from`] is set; and its time of arrival at
    /// the service, if known.
    ///
    /// # Errors
    /// If the bytes are not an event.
    pub fn number(&self) -> Result<Option<EventNumber>, ReadError> {
        let ReceivedBody::Structured(reader) = &self.body else { return Ok(None) };
        let mut reader = reader.clone();
        (0..3).try_for_each(|_| reader.string().map(drop))?;
        let (mut number, mut came, mut work) = (None, None, Work::default());
        for _ in 0..reader.seq_len(PROPERTY_BYTES_MIN)? {
            let place = match reader.string()? {
                EVENT_NUMBER => &mut number,
                EVENT_TIME => &mut came,
                _ => {
                    skip_any(&mut reader, &mut work)?;
                    continue;
                }
            };
            let value = AnyValue::read(&mut reader, &mut work)?;
            if let Value::ULongLong(value) = value.value {
                *place = Some(value);
            }
        }
        Ok(number.map(|number| EventNumber { number, came: came.map(time_of) }))
    }

    /// The event's octets as received.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        match &self.body {
            ReceivedBody::Structured(reader) | ReceivedBody::Any(reader) => reader.rest(),
        }
    }

    /// The event decoded; an Any becomes the remainder of a structured event of type `%ANY`, as the OMG's translation
    /// has it (Notification Service 1.1, 2.1.4).
    ///
    /// # Errors
    /// If the bytes are not an event.
    pub fn event(&self) -> Result<StructuredEvent, ReadError> {
        match &self.body {
            ReceivedBody::Structured(reader) => StructuredEvent::read(&mut reader.clone()),
            ReceivedBody::Any(_) => {
                let mut event = StructuredEvent::new("", "%ANY", "");
                event.remainder = self.any()?;
                Ok(event)
            }
        }
    }

    /// The Any of an event in an Any; of a structured event, the remainder of the body.
    ///
    /// # Errors
    /// If the bytes are not an event.
    pub fn any(&self) -> Result<AnyValue, ReadError> {
        match &self.body {
            ReceivedBody::Any(reader) => AnyValue::read(&mut reader.clone(), &mut Work::default()),
            ReceivedBody::Structured(_) => self.event().map(|event| event.remainder),
        }
    }
}

/// The properties with an event's number, and with its time of arrival.
const EVENT_NUMBER: &[u8] = b"EventNumber";
const EVENT_TIME: &[u8] = b"EventTime";
/// Octets of the shortest property: an empty name, an Any of type null.
const PROPERTY_BYTES_MIN: usize = 8;

/// The number of an event in its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventNumber {
    /// The number: numbers rise, and some may be missing.
    pub number: u64,
    /// Time of arrival at the service, by its clock.
    pub came: Option<SystemTime>,
}

/// The result of [`SimpleConsumer::check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// The subscription is in place.
    Connected,
    /// The subscription was gone and has been made anew, by this call or by the library since the previous call; events in between are lost
    /// ([`SimpleConsumer::next_gap`]). Reported once, however often it was made anew.
    Reconnected,
    /// The subscription has ended: it was closed, its callback returned
    /// [`CallbackConsumer::disconnected`](crate::notify::CallbackConsumer::disconnected), or the service disconnected the consumer and
    /// [`ConsumerOptions::ends_when_disconnected`] is set.
    Ended,
}

/// A time without subscription: the service was restarted, or had disconnected the consumer. The number of missed events is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// When the subscription was last known to exist.
    pub since: SystemTime,
    /// When it was made anew. [`SimpleConsumer::next_gap`] returns the gap before the events behind it arrive.
    pub until: SystemTime,
    /// Why the service could not be reached in between; `None` if it could.
    pub unreachable: Option<String>,
}

/// Receives a channel's events by a callback.
///
/// The service connects to the program, and reconnects a broken connection. A service that was restarted, or that gave the consumer up, has
/// forgotten the subscription: a thread of the library notices that ([`ConsumerOptions::check_every`]), looks up the channel again and
/// subscribes anew. It tries for as long as the consumer lives, in the end every 5 seconds. [`next_gap`](Self::next_gap) reports missed
/// events, and [`trouble`](Self::trouble) the current problem.
///
/// The callback runs on a thread of the orb's, for one event at a time, in the order in which the channel has them. Campanile sends some
/// events ahead (64 unless the property `PushWindow` says otherwise), so that the next one is there when the callback returns; other
/// services send only after it returned. The callback's error is raised to the service; a temporary one, such as `TRANSIENT`, makes the
/// service repeat the event before all later ones; others drop the event;
/// [`CallbackConsumer::disconnected`](crate::notify::CallbackConsumer::disconnected) ends the subscription.
///
/// When dropped it disconnects, waiting at most a second for the service.
///
/// ```no_run
/// use campanile_client::{ConsumerOptions, LOCAL_SERVICE, SimpleConsumer};
///
/// let consumer = SimpleConsumer::connect(LOCAL_SERVICE, None, ConsumerOptions::default(), |received| {
///     println!("{:?}", received.event()?);
///     Ok(())
/// })?;
/// consumer.close()?;
/// # Ok::<(), campanile_client::InvokeError>(())
/// ```
///
/// Only some of a type's events, chosen by the service:
///
/// ```no_run
/// use campanile_client::notify::EventType;
/// use campanile_client::{ConsumerOptions, LOCAL_SERVICE, SimpleConsumer};
///
/// let options = ConsumerOptions {
///     types: vec![EventType::new("Telescope", "Temperature")],
///     constraint: Some("$celsius > 30 and $site == 'north'".into()),
///     ..ConsumerOptions::default()
/// };
/// let consumer = SimpleConsumer::connect(LOCAL_SERVICE, None, options, |_| Ok(()))?;
/// # Ok::<(), campanile_client::InvokeError>(())
/// ```
#[derive(Debug)]
pub struct SimpleConsumer {
    core: Arc<Core>,
}

/// State shared by a consumer and its watch.
#[derive(Debug)]
struct Core {
    orb: Orb,
    finder: ChannelFinder,
    options: ConsumerOptions,
    receiver: Receiver,
    /// Whether the callback has asked for no more events.
    callback_ended: Arc<AtomicBool>,
    /// The number of the last event passed to the callback; 0 if unknown.
    last_number: Arc<AtomicU64>,
    /// Whether the subscription was made anew since the last call of [`SimpleConsumer::check`], by any thread.
    is_renewed: AtomicBool,
    reconnections: Reconnections,
    /// The subscription; `None` once closed.
    subscription: Mutex<Option<Subscription>>,
    /// Locked while the service is queried, so that a lost subscription is made anew once.
    checking: Mutex<()>,
    history: Mutex<History>,
}

/// State of a subscription after a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InPlace,
    Ended,
}

/// The objects of a consumer at the service.
#[derive(Clone, Debug)]
struct Subscription {
    proxy: ObjectRef,
    /// The filter made for the proxy, which would outlive it.
    filter: Option<Filter>,
    end: Arc<End>,
}

/// The past of a subscription.
#[derive(Debug)]
struct History {
    /// When the subscription was last known to exist.
    known_at: SystemTime,
    trouble: Option<String>,
    /// The latest gaps, at most 64.
    gaps: VecDeque<Gap>,
    backoff: Backoff,
}

impl SimpleConsumer {
    /// Subscribes to a channel. `address` and `channel` as for [`SimpleSupplier::connect`](crate::SimpleSupplier::connect).
    ///
    /// # Errors
    /// See [`InvokeError`].
    pub fn connect(
        address: &str,
        channel: Option<i32>,
        options: ConsumerOptions,
        callback: impl FnMut(Received<'_>) -> Result<(), ServantError> + Send + 'static,
    ) -> Result<Self, InvokeError> {
        let orb = orb_for(address, &options);
        let finder = ChannelFinder::by_id(orb.resolve_service(address)?, channel);
        Self::begin(orb, finder, options, callback)
    }

    /// Subscribes as [`connect`](Self::connect) does, to the channel that `finder` finds, initially and whenever that is gone. `address`
    /// only determines the consumers that may share an end point ([`ConsumerOptions::shared_end_point`]).
    ///
    /// # Errors
    /// Errors of `finder`, and see [`InvokeError`].
    pub fn connect_by(
        address: &str,
        finder: ChannelFinder,
        options: ConsumerOptions,
        callback: impl FnMut(Received<'_>) -> Result<(), ServantError> + Send + 'static,
    ) -> Result<Self, InvokeError> {
        Self::begin(orb_for(address, &options), finder, options, callback)
    }

    fn begin(
        orb: Orb,
        finder: ChannelFinder,
        options: ConsumerOptions,
        mut callback: impl FnMut(Received<'_>) -> Result<(), ServantError> + Send + 'static,
    ) -> Result<Self, InvokeError> {
        // Connects before listening: the service is to call back at the address over which it was reached.
        let found = finder.find(&orb)?;
        let callback_ended = Arc::new(AtomicBool::new(false));
        let ended = callback_ended.clone();
        let last_number = Arc::new(AtomicU64::new(0));
        let (last, is_numbered) = (last_number.clone(), options.start_from.is_some());
        let mut callback = move |received: Received<'_>| {
            let number = if is_numbered { received.number().ok().flatten() } else { None };
            let outcome = callback(received);
            // One that comes again has its number then.
            if let Some(number) = number.filter(|_| outcome.is_ok()) {
                last.store(number.number, Ordering::Release);
            }
            outcome
        };
        // A consumer that answers before the callback runs ends nothing by it.
        let is_heard = !options.answer_early;
        let deliver = move |delivery: Delivery<'_>, priority| {
            let outcome = match delivery {
                Delivery::Structured(reader) => callback(Received { body: ReceivedBody::Structured(reader), priority }),
                Delivery::Any(reader) => callback(Received { body: ReceivedBody::Any(reader), priority }),
                Delivery::Batch(reader) => each_of_batch(reader, priority, &mut callback),
                Delivery::OfferChange { .. } | Delivery::Disconnected => Ok(()),
            };
            if is_heard && matches!(outcome, Err(ServantError::User(DISCONNECTED))) {
                ended.store(true, Ordering::Release);
            }
            outcome
        };
        let servant: Arc<dyn Servant> =
            Arc::new(PrioritizedConsumer::new(options.form, deliver).answering_early(options.answer_early));
        let receiver = Receiver::new(servant, orb.watch().waker().clone());
        let subscription = Mutex::new(Some(subscribe(&found, &options, options.start_from.clone(), &receiver, || {})?));
        let history = Mutex::new(History::new(options.check_every));
        let core = Arc::new(Core {
            orb: orb.clone(),
            finder,
            options,
            receiver,
            callback_ended,
            last_number,
            is_renewed: AtomicBool::new(false),
            reconnections: Reconnections::default(),
            subscription,
            checking: Mutex::default(),
            history,
        });
        if let Some(every) = core.options.check_every {
            let whom: Weak<Core> = Arc::downgrade(&core);
            orb.watch().add(whom, every);
        }
        Ok(Self { core })
    }

    /// Asks the service whether the subscription exists, and makes it anew if not. The library does so every few seconds by itself
    /// ([`ConsumerOptions::check_every`]); a subscription that was made anew that way is reported here, too.
    ///
    /// # Errors
    /// The service cannot be reached. It may be back later, so call again.
    pub fn check(&self) -> Result<Health, InvokeError> {
        let state = self.core.check()?;
        let was_renewed = state == State::InPlace && self.core.is_renewed.swap(false, Ordering::AcqRel);
        Ok(match state {
            State::Ended => Health::Ended,
            State::InPlace if was_renewed => Health::Reconnected,
            State::InPlace => Health::Connected,
        })
    }

    /// Whether the subscription has ended: by the callback, or because the service disconnected the consumer and
    /// [`ConsumerOptions::ends_when_disconnected`] is set. Makes no remote call.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.core.has_ended()
    }

    /// The next unreported gap in the subscription, the oldest first. The latest 64 are stored.
    #[must_use]
    pub fn next_gap(&self) -> Option<Gap> {
        lock(&self.core.history).gaps.pop_front()
    }

    /// Times that the subscription was restored: the service was restarted, with its store or without, or had disconnected the consumer.
    #[must_use]
    pub fn reconnections(&self) -> u64 {
        self.core.reconnections.all(self.proxy().as_ref())
    }

    /// The error of the last attempt to query the service or subscribe again; `None` if it succeeded.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        lock(&self.core.history).trouble.clone()
    }

    /// Counts of requests to its end point: only by this subscription, unless the end point is shared
    /// ([`ConsumerOptions::shared_end_point`]).
    #[must_use]
    pub fn served(&self) -> Served {
        self.core.orb.served()
    }

    /// The proxy that pushes to it now; `None` once closed.
    #[must_use]
    pub fn proxy(&self) -> Option<ObjectRef> {
        lock(&self.core.subscription).as_ref().map(|subscription| subscription.proxy.clone())
    }

    /// Ends the subscription. The callback may still be running for a last event.
    ///
    /// # Errors
    /// If the service could not be notified; a proxy that is gone already is no error.
    pub fn close(self) -> Result<(), InvokeError> {
        self.core.receiver.close();
        let Some(Subscription { proxy, filter, end: _until_told }) = lock(&self.core.subscription).take() else {
            return Ok(());
        };
        gone_is_fine(proxy.request(self.core.disconnect_operation(), &()))?;
        filter.map_or(Ok(()), |filter| gone_is_fine(filter.destroy()))
    }
}

impl Drop for SimpleConsumer {
    fn drop(&mut self) {
        self.core.receiver.close();
        let subscription = lock(&self.core.subscription).take();
        if let Some(subscription) = subscription {
            subscription.leave(self.core.disconnect_operation());
        }
    }
}

impl Subscription {
    /// Disconnects, as best effort: a service that is not notified finds out when it cannot deliver.
    fn leave(&self, operation: &str) {
        let ends = Instant::now() + DISCONNECT_TIMEOUT;
        let told = self.proxy.take_leave(operation, DISCONNECT_TIMEOUT);
        // A service that does not answer gets no second request.
        if let (Some(filter), Ok(()) | Err(InvokeError::System { .. })) = (&self.filter, told) {
            let _ = filter.object().take_leave("destroy", ends.saturating_duration_since(Instant::now()));
        }
    }
}

impl Core {
    fn check(&self) -> Result<State, InvokeError> {
        let _alone = lock(&self.checking);
        let outcome = self.renew_if_lost();
        let news = {
            let mut history = lock(&self.history);
            let before = history.trouble.clone();
            history.note(&outcome);
            match (before, history.trouble.clone()) {
                (Some(_), None) => Some(News::Reachable),
                (before, now) if before != now => now.map(News::Unreachable),
                _ => None,
            }
        };
        self.tell(news);
        outcome
    }

    fn has_ended(&self) -> bool {
        let is_disconnected = || {
            let subscription = lock(&self.subscription);
            subscription.as_ref().is_some_and(|subscription| subscription.end.is_disconnected())
        };
        self.callback_ended.load(Ordering::Acquire) || (self.options.ends_when_disconnected && is_disconnected())
    }

    fn renew_if_lost(&self) -> Result<State, InvokeError> {
        let Some(old) = lock(&self.subscription).clone() else { return Ok(State::Ended) };
        if self.has_ended() {
            return Ok(State::Ended);
        }
        if !old.proxy.non_existent()? {
            return Ok(State::InPlace);
        }
        let channel = self.finder.find(&self.orb)?;
        if self.has_ended() || self.receiver.is_closed() {
            // The service, or the consumer's owner, has ended it meanwhile.
            return Ok(State::Ended);
        }
        // Before the first event comes: its callback then knows that others are missing.
        let last = self.last_number.load(Ordering::Acquire);
        let start = match last {
            0 => self.options.start_from.clone(),
            last => Some(format!("after:{last}")),
        };
        let begins = || {
            // What was missed comes first where it is known what that is.
            if last == 0 {
                let gap = lock(&self.history).end_gap();
                self.tell(Some(News::Gap(gap)));
            }
        };
        let renewed = subscribe(&channel, &self.options, start, &self.receiver, begins).inspect_err(|_| {
            lock(&self.history).gap_goes_on();
        })?;
        if let Some(subscription) = lock(&self.subscription).as_mut() {
            *subscription = renewed;
        } else {
            // Closed meanwhile.
            renewed.leave(self.disconnect_operation());
            return Ok(State::Ended);
        }
        self.is_renewed.store(true, Ordering::Release);
        self.reconnections.renewed(&old.proxy);
        // Gone already if the service was restarted; left alone otherwise, as the proxy was.
        let _ = old.filter.map(|filter| filter.destroy());
        Ok(State::InPlace)
    }

    fn tell(&self, news: Option<News>) {
        if let (Some(news), Some(reader)) = (news, &self.options.news) {
            (reader.0)(news);
        }
    }

    const fn disconnect_operation(&self) -> &'static str {
        push_supplier(self.options.form).disconnect
    }
}

impl Watched for Core {
    fn look(&self) -> Duration {
        let every = self.options.check_every.unwrap_or(ATTEMPTS_EVERY_MAX);
        match self.check() {
            Ok(_) => every,
            Err(_) => lock(&self.history).backoff.failed(Instant::now()),
        }
    }
}

impl History {
    fn new(check_every: Option<Duration>) -> Self {
        let most = check_every.unwrap_or(ATTEMPTS_EVERY_MAX).clamp(Duration::from_millis(100), ATTEMPTS_EVERY_MAX);
        Self { known_at: SystemTime::now(), trouble: None, gaps: VecDeque::new(), backoff: Backoff::up_to(most) }
    }

    fn note(&mut self, outcome: &Result<State, InvokeError>) {
        self.trouble = outcome.as_ref().err().map(ToString::to_string);
        if outcome.is_ok() {
            self.known_at = SystemTime::now();
            self.backoff.succeeded();
        }
    }

    /// Ends the gap when the subscription is made anew.
    fn end_gap(&mut self) -> Gap {
        if self.gaps.len() == GAPS_MAX {
            self.gaps.pop_front();
        }
        let gap = Gap { since: self.known_at, until: SystemTime::now(), unreachable: self.trouble.clone() };
        self.gaps.push_back(gap.clone());
        gap
    }

    /// Continues the gap when making the subscription failed.
    fn gap_goes_on(&mut self) {
        self.gaps.pop_back_if(|gap| gap.since == self.known_at);
    }
}

/// An orb of the consumer's own, or the shared one.
fn orb_for(address: &str, options: &ConsumerOptions) -> Orb {
    if options.shared_end_point {
        Orb::of_process(Role::Consumers, address.trim(), &options.orb)
    } else {
        Orb::new(options.orb.clone())
    }
}

/// Makes a proxy for the consumer: quality of service, types and filter first, so that no unwanted event precedes them. Returns the time
/// from which events may arrive.
fn subscribe(
    channel: &EventChannel,
    options: &ConsumerOptions,
    start_from: Option<String>,
    receiver: &Receiver,
    begins: impl FnOnce(),
) -> Result<Subscription, InvokeError> {
    let end = Arc::new(receiver.end(channel.object().orb(), options.form, options.priority_model)?);
    // The filter before the proxy: a constraint that is refused leaves nothing behind.
    let filter = options.constraint.as_deref().map(|constraint| make_filter(channel, constraint)).transpose()?;
    let start = start_from.map(|place| Property::new("StartFrom", place.as_str()));
    let qos: Vec<Property> = options.qos.iter().cloned().chain(start).collect();
    match attach(channel, (options, &qos), filter.as_ref(), end.reference(), begins) {
        Ok(proxy) => Ok(Subscription { proxy, filter, end }),
        Err(error) => {
            // The first error is the one to tell.
            let _ = filter.map(|filter| filter.destroy());
            Err(error)
        }
    }
}

fn attach(
    channel: &EventChannel,
    (options, qos): (&ConsumerOptions, &[Property]),
    filter: Option<&Filter>,
    consumer: &ObjectRef,
    begins: impl FnOnce(),
) -> Result<ObjectRef, InvokeError> {
    let admin: ConsumerAdmin = channel.default_consumer_admin()?;
    let named = options
        .name
        .as_deref()
        .and_then(|name| named(admin.obtain_named_notification_push_supplier(options.form, name)));
    let (proxy, _) = named.unwrap_or_else(|| admin.obtain_notification_push_supplier(options.form))?;
    prepare(&proxy, (options, qos), filter)
        .and_then(|()| {
            begins();
            connect_to(proxy.object(), options.form, consumer)
        })
        .inspect_err(|_| {
            // No consumer would ever connect to it. The first error is the one to return.
            let _ = proxy.object().take_leave(push_supplier(options.form).disconnect, DISCONNECT_TIMEOUT);
        })?;
    Ok(proxy.object().clone())
}

/// Configures a proxy for its consumer before it is connected.
fn prepare(
    proxy: &ProxySupplier,
    (options, qos): (&ConsumerOptions, &[Property]),
    filter: Option<&Filter>,
) -> Result<(), InvokeError> {
    if options.best_effort {
        // The second alone is refused where the channel's events are persistent. A service that does not know them keeps nothing anyway.
        let both = ["EventReliability", "ConnectionReliability"].map(|name| Property::new(name, BEST_EFFORT));
        match proxy.set_qos(&both) {
            Err(error) if property_errors(&error).is_some() => {}
            outcome => outcome?,
        }
    }
    if !qos.is_empty() {
        proxy.set_qos(qos)?;
    }
    if let Some(filter) = filter {
        proxy.add_filter(filter)?;
    }
    if !options.types.is_empty() {
        let change = (&options.types, vec![EventType::any()]);
        proxy.object().request::<()>("subscription_change", &change)?;
    }
    Ok(())
}

fn connect_to(proxy: &ObjectRef, form: ClientType, consumer: &ObjectRef) -> Result<(), InvokeError> {
    let operation = match form {
        ClientType::Any => "connect_any_push_consumer",
        ClientType::Structured => "connect_structured_push_consumer",
        ClientType::Sequence => "connect_sequence_push_consumer",
    };
    proxy.request(operation, &(consumer,))
}

fn make_filter(channel: &EventChannel, constraint: &str) -> Result<Filter, InvokeError> {
    let factory = channel.default_filter_factory()?.ok_or(InvokeError::NoFilters)?;
    let filter = factory.create_filter(EXTENDED_TCL)?;
    match filter.add_constraints(&[ConstraintExp::new(constraint)]) {
        Ok(_) => Ok(filter),
        Err(error) => {
            // The first error is the one to tell.
            let _ = filter.destroy();
            Err(error)
        }
    }
}

/// Calls back for each event of a batch; the first error ends it and is raised for the whole batch.
fn each_of_batch(
    batch: Reader<'_>,
    priority: Option<i16>,
    callback: &mut impl FnMut(Received<'_>) -> Result<(), ServantError>,
) -> Result<(), ServantError> {
    for event in events_of(batch)? {
        callback(Received { body: ReceivedBody::Structured(event?), priority })?;
    }
    Ok(())
}

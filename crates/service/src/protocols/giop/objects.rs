//! The objects that CORBA clients name, for administration.
//!
//! Administration hands requests in, and gets answers and [`Effect`]s, from the protocol's state machine ([`corba::Protocol`]). This module
//! adds the messages around them, the calls to clients under way, and the outside naming service. The state machine has the channels,
//! admins and proxies of all protocols, so that publications come from here.

use core::time::Duration;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use engine::{ChannelId, ChannelTimer, DisconnectReason, EventType, LaneChange, LaneId, Peer, ProxyId, ProxyKey, Time};
use giop::bidirectional::HOW_TO_OFFER;
use giop::cdr::{Encoding, Writer};
use giop::exception::{Completed, Kind, SystemException};
use giop::ior::Ior;
use giop::message::{self, Header, LocateStatus, MessageKind, Request as Parsed, Response};
use hashbrown::HashMap;

use crate::admin::effects::Effect;
use crate::admin::values::{Answer, ChannelStatus, Declined, Query};
use crate::config::{DeclaredChannel, LinkEntry};
use crate::lane::reports::printable;
use crate::protocols::giop::admin_messages::{Call, CallFailure, OWN_ENDIAN, Reply, Request};
use crate::protocols::giop::claims::answer_with;
use crate::protocols::giop::outside_naming::OutsideNaming;
use crate::protocols::giop::statistics;
use crate::protocols::{Answered, Fault, ToProtocol, Wish, local_proxies};
use crate::published::Published;
use crate::time;
use access::{Right, Rules};
use accounts::{Account, Principal, Refused};
use corba::log_lines::{LogLines, with_lines};
use corba::{ACCESS_DENIED, Act, Denied};
use corba::{
    AT_ONCE_MAX, AddedLink, ChangedPart, ChannelFigures, ClientAnswer, ClientCall, Creations, Declared, DelayedReply,
    Exception, Forbidden, ListedChannel, LocalChannels, LocalProxy, Monitor, OBJECT_NOT_EXIST, Offered, Protocol,
    RegisterError, RestoredClient, Settable, SupplierStatus, Unpublished,
};

/// Time limit for a client to answer a call such as `disconnect_push_consumer`.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The objects, and the calls to clients that changes cause.
pub(crate) struct Objects {
    protocol: Protocol,
    /// Purposes of the calls under way.
    calls: HashMap<u64, Purpose>,
    next_call: u64,
    naming: Option<OutsideNaming>,
    effects: VecDeque<Effect>,
    now: Time,
}

/// Purpose of a call.
enum Purpose {
    /// Notify a client; the result is only logged.
    Telling { operation: &'static str, whom: String, delayed_reply: Option<DelayedReply> },
    /// Notify a client of its disconnection; the result is ignored.
    Parting,
    /// Query a client for the protocol.
    Asking(ClientCall),
    /// Binding the factory, or a declared channel, in the outside naming service.
    Naming,
}

/// Names of the channels that have one, in the order of their numbers.
pub(crate) fn named_channels(protocol: &Protocol) -> Vec<String> {
    let (mut names, mut behind) = (Vec::new(), None);
    loop {
        let listed = protocol.objects.listed_channels(behind);
        let Some(last) = listed.last() else { return names };
        behind = Some(last.id);
        names.extend(listed.into_iter().filter_map(|channel| channel.name));
    }
}

/// Makes a declared channel with its timers, or sets the one of that name.
///
/// # Errors
/// Why not, for people.
pub(crate) fn declare_channel(protocol: &mut Protocol, channel: &DeclaredChannel) -> Result<(), String> {
    let timers = channel.timer_settings()?;
    let made = protocol.declare_channel(&channel.name, &channel.declared_properties())?;
    protocol.set_timers(made, timers).map_err(|refusal| refusal.to_string())
}

impl Objects {
    pub(crate) fn new(protocol: Protocol, naming: Option<OutsideNaming>) -> Self {
        Self { protocol, calls: HashMap::new(), next_call: 0, naming, effects: VecDeque::new(), now: Time(0) }
    }

    // ---- time ----

    /// Handles the current time. Called when [`Objects::poll_timeout`] says so.
    pub(crate) fn handle_time(&mut self, now: Time) {
        self.now = now;
        self.protocol.handle_time(now);
        if self.naming.as_ref().and_then(|naming| naming.due).is_some_and(|due| due <= now) {
            self.bind_outside();
        }
    }

    /// When [`Objects::handle_time`] is due next, if nothing else happens before.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let naming = self.naming.as_ref().and_then(|naming| naming.due);
        self.protocol.poll_timeout().into_iter().chain(naming).min()
    }

    // ---- requests ----

    /// Classifies a request for administration.
    pub(crate) fn wish_giop(&self, request: &Request) -> Wish {
        let Ok(header) = Header::parse(&request.message) else { return Wish::Own };
        if header.kind != MessageKind::Request {
            return Wish::Own;
        }
        let Ok(parsed) = Parsed::parse(&request.message, &header) else { return Wish::Own };
        let (Some(key), Ok(operation)) = (parsed.target.key(), core::str::from_utf8(parsed.operation)) else {
            return Wish::Own;
        };
        if operation == corba::ANALYSE && corba::is_scheduling_service(key) {
            return Wish::Analysis;
        }
        let args = parsed.body(&request.message, &header, request.chars);
        if let Some(channels) = Monitor::channels_queried(&self.protocol.objects, key, operation, args.clone()) {
            return match parsed.response {
                // No client would get what is found out.
                Response::None => Wish::Own,
                _ => Wish::Query(Query::Channels(channels)),
            };
        }
        match statistics::read(operation, args).filter(|_| key == statistics::KEY) {
            // No client would get what is found out.
            Some(Wish::Query(_)) if parsed.response == Response::None => Wish::Own,
            Some(wish) => wish,
            None => Wish::Own,
        }
    }

    /// Executes a request on the objects, which may cause up to `lines` log lines. Returns the number that it caused.
    pub(crate) fn execute_giop(&mut self, request: &Request, lines: u32) -> (Option<Answered>, LogLines) {
        self.protocol.objects.handle_utc(time::utc());
        self.protocol.lives.on_line(Some(&request.line), request.offer.as_ref());
        with_lines(lines, || self.answer_own(request))
    }

    fn answer_own(&mut self, request: &Request) -> Option<Answered> {
        let header = Header::parse(&request.message).ok()?;
        if header.kind == MessageKind::LocateRequest {
            let locate = message::LocateRequest::parse(&request.message, &header).ok()?;
            let key = locate.target.key();
            let here = key.is_some_and(|key| key == statistics::KEY || self.protocol.objects.locate(key));
            let principal = request.charge.account();
            let elsewhere = key.filter(|_| !here).and_then(|key| self.protocol.locate_elsewhere(key, principal));
            let status = match &elsewhere {
                Some(_) => LocateStatus::ObjectForward,
                None if here => LocateStatus::ObjectHere,
                None => LocateStatus::UnknownObject,
            };
            let (mut bytes, is_known) = (Vec::new(), here || elsewhere.is_some());
            let open =
                message::begin_locate_reply(&mut bytes, header.version, header.endian, locate.request_id, status);
            if let Some(elsewhere) = elsewhere {
                elsewhere.write(&mut open.body(&mut bytes, request.chars));
            }
            open.finish(&mut bytes);
            return Some(Answered { bytes, fault: (!is_known).then_some(Fault::Located) });
        }
        answer_with(request, |parsed, header, reply| self.call(parsed, header, request, reply))
    }

    fn call(
        &mut self,
        parsed: &Parsed<'_>,
        header: &Header,
        request: &Request,
        reply: &mut Writer<'_>,
    ) -> Result<(), Exception> {
        let args = parsed.body(&request.message, header, request.chars);
        let missing = |kind| Exception::System(SystemException::new(kind, 0));
        let key = parsed.target.key().ok_or(Exception::System(OBJECT_NOT_EXIST))?;
        let operation = core::str::from_utf8(parsed.operation).map_err(|_| missing(Kind::BadOperation))?;
        if key == statistics::KEY {
            return statistics::handle(operation, args, reply);
        }
        self.protocol.handle(&corba::ObjectRequest { key, operation, args, principal: request.charge.account() }, reply)
    }

    /// Writes administration's answer to a query or a command into a reply.
    pub(crate) fn reply(request: &Request, answer: &Answer) -> Option<Answered> {
        answer_with(request, |parsed, _, reply| {
            statistics::write(core::str::from_utf8(parsed.operation).unwrap_or_default(), answer, reply);
            Ok(())
        })
    }

    /// The reply to a request that administration declines.
    pub(crate) fn decline(request: &Request, why: Declined) -> Option<Answered> {
        if why == Declined::NotPermitted {
            return answer_with(request, |_, _, _| Err(Exception::System(ACCESS_DENIED)));
        }
        let kind = match why {
            Declined::NotPermitted => Kind::NoPermission,
            // There may be another service soon.
            Declined::Stopping => Kind::Transient,
            Declined::NoResources => Kind::NoResources,
            Declined::TooLarge => Kind::ImpLimit,
            Declined::NotStored | Declined::NotMade => Kind::PersistStore,
            // No client gets that: its request has no answer then.
            Declined::NotInTime => Kind::Timeout,
        };
        let completed = if why == Declined::NotStored { Completed::Yes } else { Completed::No };
        answer_with(request, |_, _, _| Err(Exception::System(SystemException { kind, minor: 0, completed })))
    }

    /// Executes a scheduling analysis. It needs none of the objects, may take a second, and runs on any thread.
    pub(crate) fn analyse(request: &Request) -> Option<Answered> {
        answer_with(request, |parsed, header, reply| {
            corba::analyse_apart(parsed.body(&request.message, header, request.chars), reply)
        })
    }

    /// Identifies the reply to the last request if it is to be delayed until [`Objects::poll_delayed_reply`] names it.
    pub(crate) fn take_delayed_reply(&mut self) -> Option<DelayedReply> {
        self.protocol.delayed_replies.take()
    }

    /// The next delayed reply that is due, and whether all clients that it waited for were notified.
    pub(crate) fn poll_delayed_reply(&mut self) -> Option<(DelayedReply, bool)> {
        self.protocol.delayed_replies.poll()
    }

    /// Unpublished changes of the last request for lanes: its reply waits for them.
    pub(crate) fn take_unpublished(&mut self) -> Option<Unpublished> {
        self.protocol.take_unpublished()
    }

    /// Whether the last publication has all of these changes.
    pub(crate) fn is_published(&self, changed: &Unpublished) -> bool {
        changed.is_published(self.protocol.objects.hierarchy())
    }

    /// Whether a client may do an act on the whole service. A denial is noted.
    pub(crate) fn may_operate(&mut self, account: &Arc<Account>, what: &str) -> bool {
        self.protocol.guard.may_operate(&mut self.protocol.objects, account, what)
    }

    /// The rules that decided the last denial.
    pub(crate) fn take_why(&mut self) -> Option<String> {
        self.protocol.guard.take_why()
    }

    /// The next act of a client that concerns others, done or attempted.
    pub(crate) fn poll_act(&mut self) -> Option<Act> {
        self.protocol.guard.poll_act()
    }

    /// Whether an account that asks without an object has a right on a channel or, without a channel, for the whole service; without a
    /// right, whether it may know of the channel. A denial is noted.
    pub(crate) fn permits(
        &mut self,
        account: &Account,
        right: Option<Right>,
        channel: Option<ChannelId>,
        what: &str,
    ) -> Result<(), Forbidden> {
        self.protocol.guard.permits(account, right, channel, what)
    }

    /// The next denied request of a client.
    pub(crate) fn poll_denied(&mut self) -> Option<Denied> {
        self.protocol.guard.poll_denied()
    }

    /// The next request of a client refused for want of resources.
    pub(crate) fn poll_refused(&mut self) -> Option<Refused> {
        self.protocol.objects.poll_refused()
    }

    /// Number of filter evaluations for clients that were cut short, since the last call.
    pub(crate) fn take_filter_cuts(&mut self) -> u64 {
        self.protocol.objects.take_filter_cuts()
    }

    /// Objects made by the last request.
    pub(crate) fn take_made(&mut self) -> Creations {
        self.protocol.take_made()
    }

    /// Removes the objects that a request has made.
    pub(crate) fn unmake(&mut self, made: Creations) {
        self.protocol.unmake(made);
    }

    // ---- what is kept ----

    /// Publication for the event path, if it has changed since the last call.
    pub(crate) fn publish(&mut self) -> Option<Published> {
        self.protocol.publish().map(Published::from)
    }

    /// The next lane to start before the publication is handed to the lanes, or to end after that.
    pub(crate) fn poll_lane(&mut self) -> Option<LaneChange> {
        self.protocol.poll_lane()
    }

    /// Notes that the thread of a lane has ended.
    pub(crate) fn lane_gone(&mut self, lane: LaneId) {
        self.protocol.lane_gone(lane);
    }

    /// Notes that a lane cannot be started.
    pub(crate) fn lane_unavailable(&mut self, lane: LaneId) {
        self.protocol.lane_unavailable(lane);
    }

    /// Notes that a lane has given up the client of a proxy, to be handled in its turn.
    pub(crate) fn note_given_up(&mut self, key: ProxyKey) {
        self.protocol.lives.note_given_up(&self.protocol.objects, key);
    }

    /// Disconnects a client that a lane gave up.
    pub(crate) fn handle_disconnected(&mut self, key: ProxyKey, reason: DisconnectReason) {
        self.protocol.handle_disconnected(key, reason);
    }

    /// Name of a proxy and its client for operators; `what` is the client's side.
    pub(crate) fn name(&self, what: &str, key: ProxyKey) -> String {
        self.protocol.objects.name(what, key)
    }

    /// The name of a proxy that stays when its client connects again: its own, or its client's.
    pub(crate) fn lasting_name(&self, key: ProxyKey) -> Option<Arc<str>> {
        self.protocol.objects.lasting_name(key)
    }

    /// The address that a proxy is charged to, if it is charged to one.
    pub(crate) fn charged_address(&self, key: ProxyKey) -> Option<IpAddr> {
        self.protocol.objects.charged_address(key)
    }

    /// Notes that a connection to clients at an address has ended as that of a process which dies.
    pub(crate) fn note_death(&mut self, host: String, port: u16) {
        self.protocol.lives.note_death(&self.protocol.objects, host, port);
    }

    /// Notes that deliveries to a proxy's client, or calls to it, have begun to fail, or succeed again.
    pub(crate) fn note_failing(&mut self, key: ProxyKey, fails: bool) {
        self.protocol.lives.note_failing(&mut self.protocol.objects, key, fails);
    }

    /// Another proxy of the same channel and side with the same object connected.
    pub(crate) fn duplicate_of(&self, key: ProxyKey) -> Option<ProxyKey> {
        self.protocol.lives.duplicate_of(&self.protocol.objects, key)
    }

    /// Number of clients announced as unreachable.
    pub(crate) const fn unreachable_clients(&self) -> usize {
        self.protocol.probes.unreachable_clients()
    }

    /// Whether a proxy's client has offered a connection of its own for calls to it.
    pub(crate) fn offers_connection(&self, key: ProxyKey) -> bool {
        self.protocol.objects.offers_connection(key)
    }

    /// How long a proxy's client has been unreachable, if that is announced.
    pub(crate) fn unreachable_for(&self, key: ProxyKey) -> Option<Duration> {
        self.protocol.objects.unreachable_for(key)
    }

    /// Name given to a channel by its creator, if any; `None` if there is no such channel.
    pub(crate) fn channel_name(&self, channel: ChannelId) -> Option<Option<String>> {
        self.protocol.objects.hierarchy().channel(channel).ok()?;
        Some(self.protocol.objects.names.channel_name(channel).map(str::to_owned))
    }

    /// Sets the status of channels for the next request.
    pub(crate) fn handle_channel_statuses(&mut self, statuses: Vec<ChannelStatus>) {
        let figures = statuses.into_iter().map(|status| {
            let ChannelStatus { channel, name: _, backlog_events, backlog_bytes, oldest, slowest, overflows } = status;
            let slowest = slowest.into_iter().map(|(key, _)| key).collect();
            (channel, ChannelFigures { backlog_events, backlog_bytes, oldest, slowest, overflows })
        });
        self.protocol.monitor.handle_figures(figures);
    }

    /// Status of connected suppliers, by channel and proxy: the list from the start, or behind a proxy.
    pub(crate) fn suppliers(&self, behind: Option<ProxyKey>) -> Vec<SupplierStatus> {
        self.protocol.idle.suppliers(&self.protocol.objects, behind).take(AT_ONCE_MAX).collect()
    }

    /// Proxies with restored clients: the list from the start, or behind a proxy.
    pub(crate) fn restored(&self, behind: Option<ProxyKey>) -> Vec<RestoredClient> {
        self.protocol.lives.restored_clients(&self.protocol.objects, behind).take(AT_ONCE_MAX).collect()
    }

    /// Disconnects the client of a proxy, on behalf of a principal. False if there is no such proxy.
    pub(crate) fn dismiss(&mut self, key: ProxyKey, by: &Principal) -> bool {
        let dismissed = self.protocol.dismiss(key);
        let is_gone = dismissed.is_some();
        self.effects.extend(dismissed.map(|name| Effect::Dismissed { name, by: by.to_string() }));
        is_gone
    }

    /// Registers a local proxy on behalf of `principal`.
    pub(crate) fn register_local_proxy(
        &mut self,
        local_proxy: LocalProxy,
        principal: &Arc<Account>,
    ) -> Result<ProxyKey, RegisterError> {
        self.protocol.register_local_proxy(local_proxy, principal)
    }

    /// Some of the channels that a local proxy's client may know of.
    pub(crate) fn local_channels(&mut self, behind: Option<ChannelId>, principal: &Arc<Account>) -> LocalChannels {
        self.protocol.local_channels(behind, principal)
    }

    /// Removes a local proxy.
    pub(crate) fn remove_local_proxy(&mut self, key: ProxyKey) {
        self.protocol.remove_local_proxy(key);
    }

    /// Disconnects a local proxy after its connection has ended.
    pub(crate) fn disconnect_local_proxy(&mut self, key: ProxyKey, peer: Peer) {
        self.protocol.disconnect_local_proxy(key, peer);
    }

    /// Limits a local proxy to events of these types; the flag selects all types.
    pub(crate) fn subscribe_local_proxy(
        &mut self,
        key: ProxyKey,
        selected: (bool, &[EventType]),
        principal: &Arc<Account>,
    ) {
        self.protocol.subscribe_local_proxy(key, selected, principal);
    }

    /// Reports the sum of a channel's subscriptions, without these consumers', to a client: now and after each change.
    pub(crate) fn watch_subscribed(&mut self, peer: Peer, channel: ChannelId, except: Vec<ProxyKey>) {
        self.protocol.watch_subscribed(peer, channel, except);
    }

    /// Ends the reports to a client.
    pub(crate) fn unwatch_subscribed(&mut self, peer: Peer) {
        self.protocol.unwatch_subscribed(peer);
    }

    /// The protocol's state machine, for the names that links exchange.
    pub(crate) const fn protocol(&mut self) -> &mut Protocol {
        &mut self.protocol
    }

    /// Number of local proxies' subscriptions with too many types, widened to everything, since the last call.
    pub(crate) fn take_widened(&mut self) -> u64 {
        self.protocol.objects.take_widened()
    }

    /// Name in logs of a destroyed durable consumer.
    pub(crate) fn take_gone_durable(&mut self, key: ProxyKey) -> Option<String> {
        self.protocol.objects.take_gone_durable(key)
    }

    /// Disconnects suppliers that cannot be probed and were silent for so long. Returns their number.
    pub(crate) fn disconnect_idle(&mut self, idle: Duration) -> usize {
        self.protocol.disconnect_idle(idle)
    }

    /// Configured objects as JSON; `None` if too large for one answer.
    pub(crate) fn topology(&self) -> Option<String> {
        self.protocol.objects.topology_json()
    }

    /// Replaces the rules of access.
    pub(crate) fn set_access(&mut self, rules: Option<Rules>) {
        self.protocol.guard.replace_access(&mut self.protocol.objects, rules);
    }

    /// Replaces the configured names of clients that give no name themselves.
    pub(crate) fn rename_clients<'n>(&self, name: impl Fn(&Account) -> Option<&'n Arc<str>>) {
        self.protocol.objects.rename_clients(name);
    }

    /// Some channels, by number.
    pub(crate) fn listed_channels(&self, behind: Option<ChannelId>) -> Vec<ListedChannel> {
        self.protocol.objects.listed_channels(behind)
    }

    /// Names of the channels that have one, in the order of their numbers.
    pub(crate) fn named_channels(&self) -> Vec<String> {
        named_channels(&self.protocol)
    }

    /// Configuration of a channel as JSON.
    pub(crate) fn channel_json(&self, channel: ChannelId, behind: Option<ProxyId>) -> Option<String> {
        self.protocol.objects.channel_json(channel, behind)
    }

    /// Suspends or resumes a consumer, or returns why not.
    pub(crate) fn set_suspended(&mut self, key: ProxyKey, suspended: bool) -> Result<(), String> {
        self.protocol.objects.set_suspended(key, suspended)
    }

    /// Sets properties, or returns why not.
    pub(crate) fn set_declared(&mut self, on: Settable, properties: &[(String, Declared)]) -> Result<(), String> {
        self.protocol.set_declared(on, properties)
    }

    /// Applies a topology in text form, or returns why not.
    pub(crate) fn apply_topology(&mut self, text: &str) -> Result<(), String> {
        self.protocol.apply_json(text)
    }

    /// Makes a declared channel, or sets the one of that name; or returns why not.
    pub(crate) fn declare_channel(&mut self, channel: &DeclaredChannel) -> Result<(), String> {
        declare_channel(&mut self.protocol, channel)
    }

    /// Some timers of one channel or all, by channel and place.
    pub(crate) fn listed_timers(
        &self,
        of: Option<ChannelId>,
        behind: Option<(ChannelId, u32)>,
    ) -> impl Iterator<Item = ((ChannelId, u32), &ChannelTimer)> {
        self.protocol.objects.listed_timers(of, behind)
    }

    /// Stores an added link.
    pub(crate) fn add_link(&mut self, entry: &LinkEntry) {
        if let Some(link) = AddedLink::of_entry(entry) {
            self.protocol.objects.add_link(link);
        }
    }

    /// Removes a stored link. False if there is none of that name.
    pub(crate) fn remove_link(&mut self, name: &str) -> bool {
        self.protocol.objects.remove_link(name)
    }

    /// Whether there are durable consumers of a name.
    pub(crate) fn has_durable(&self, name: &str) -> bool {
        self.protocol.objects.durable_names().iter().any(|(_, of, _)| of == name)
    }

    /// Destroys the durable consumers of a name.
    pub(crate) fn destroy_durable(&mut self, name: &str) {
        self.protocol.destroy_durable(name);
    }

    /// Added links by name, if this version can read their form.
    pub(crate) fn added_links(&self) -> Vec<LinkEntry> {
        self.protocol.objects.added_links().filter_map(|link| link.entry().ok()).collect()
    }

    // ---- what outlives the process ----

    /// The next configured part that may have changed since it was last returned: its key, and its value now. `None` if there is no other.
    pub(crate) fn poll_changed_part(&mut self) -> Option<ChangedPart> {
        self.protocol.objects.poll_changed_part()
    }

    /// Number of changes so far.
    pub(crate) const fn changes_noted(&self) -> u64 {
        self.protocol.objects.changes_noted()
    }

    // ---- effects ----

    /// The next effect of changes.
    pub(crate) fn poll_effect(&mut self) -> Option<Effect> {
        if let Some(effect) = self.effects.pop_front() {
            return Some(effect);
        }
        while let Some(effect) = self.protocol.poll_effect() {
            return Some(match effect {
                corba::Effect::Call { to, by, offered, operation, body, delayed_reply } => {
                    let whom = to.iiop().map_or_else(String::new, |p| format!("{}:{}", printable(&p.host), p.port));
                    self.begin((to, by, offered), operation, body, Purpose::Telling { operation, whom, delayed_reply })
                }
                corba::Effect::Ask { client_call, to, by, offered, operation, body } => {
                    self.begin((to, by, offered), operation, body, Purpose::Asking(client_call))
                }
                corba::Effect::Reaped { proxy, name, unreachable_for } => {
                    Effect::Reaped { proxy, name, unreachable_for }
                }
                corba::Effect::Unreachable { proxy, name, unreachable_for, left } => {
                    Effect::Unreachable { proxy, name, unreachable_for, left }
                }
                corba::Effect::Reached { proxy, name, after } => Effect::Reached { proxy, name, after },
                corba::Effect::IdleDisconnected { proxy, side, address, idle } => {
                    Effect::IdleDisconnected { proxy, side, address, idle }
                }
                corba::Effect::DebugLine(text) => Effect::DebugLine(text),
                corba::Effect::Dismissed { name, by } => Effect::Dismissed { name, by: by.to_string() },
                corba::Effect::End { by } => Effect::End { by },
                corba::Effect::WithoutStore { of, by, is_first } => Effect::WithoutStore { of, by, is_first },
                corba::Effect::Hidden { name, from, is_first } => {
                    Effect::Hidden(is_first.then(|| hidden_line(&name, from)))
                }
                corba::Effect::LocalProxyGone(peer) => match ToProtocol::gone(peer) {
                    Some(message) => Effect::Tell(message),
                    None => continue,
                },
                corba::Effect::Names(peer, names) => {
                    Effect::Tell(ToProtocol::LocalProxy(local_proxies::Notice::Names { peer, names }))
                }
                corba::Effect::Subscribed(peer, subscribed) => {
                    Effect::Tell(ToProtocol::LocalProxy(local_proxies::Notice::Subscribed { peer, subscribed }))
                }
                // The lane forgets all peers that are not published any more.
                corba::Effect::ReleasePeer(_) => continue,
            });
        }
        None
    }

    /// The next call, and its number, that follows the answer to the last request.
    pub(crate) fn poll_parting(&mut self) -> Option<(u64, Call)> {
        let corba::Parting { to, by, offered, operation } = self.protocol.poll_parting()?;
        match self.begin((to, by, offered), operation, Vec::new(), Purpose::Parting) {
            Effect::Call(call, what) => Some((call, what)),
            _ => None,
        }
    }

    /// Registers a call of an object, with the account that gave its reference if known, and the connections that it offered.
    fn begin(
        &mut self,
        (to, by, offered): (Ior, Option<Arc<Account>>, Option<Arc<Offered>>),
        operation: &'static str,
        body: Vec<u8>,
        purpose: Purpose,
    ) -> Effect {
        let id = self.next_call;
        self.next_call += 1;
        self.calls.insert(id, purpose);
        Effect::Call(id, Call { to, by, offered, operation, body, timeout: CALL_TIMEOUT })
    }

    /// Handles the end of a call.
    pub(crate) fn handle_returned(&mut self, call: u64, result: Result<Reply, CallFailure>) {
        match (self.calls.remove(&call), result) {
            (None | Some(Purpose::Parting), _) => {}
            (Some(Purpose::Telling { operation, whom, delayed_reply }), result) => {
                if let Some(delayed_reply) = delayed_reply {
                    self.protocol.delayed_replies.notified(delayed_reply);
                }
                match result {
                    Ok(reply) => {
                        log::debug!("called {operation} of {whom}; {} bytes came back", reply.reader().remaining())
                    }
                    Err(failure) => {
                        let text = format!("could not call {operation} of {whom}: {failure}");
                        self.effects.push_back(Effect::NotificationFailed(text));
                    }
                }
            }
            (Some(Purpose::Asking(client_call)), result) => {
                self.protocol.handle_answer(client_call, client_answer(&result))
            }
            (Some(Purpose::Naming), result) => {
                let factory = self.protocol.objects.factory_reference();
                if let Some(naming) = &mut self.naming {
                    let failure = result.as_ref().err().map(|failure| failure as &dyn core::fmt::Display);
                    naming.tried(failure, &factory, self.now);
                }
            }
        }
    }

    /// Binds the next declared channel, or the factory, in the outside naming service under the name that clients look up.
    fn bind_outside(&mut self) {
        let Some(naming) = &mut self.naming else { return };
        naming.due = None;
        let mut bound = self.protocol.objects.factory_reference();
        while let Some(name) = naming.channel() {
            match self.protocol.objects.reference_of_channel(name) {
                Some(channel) => {
                    bound = channel;
                    break;
                }
                None => naming.pass(),
            }
        }
        let context = naming.context.clone();
        let mut body = Vec::new();
        let mut writer = Writer::new(&mut body, Encoding::new(OWN_ENDIAN));
        writer.u32(1);
        writer.string(naming.name());
        writer.string("");
        bound.write(&mut writer);
        let effect = self.begin((context, None, None), "rebind", body, Purpose::Naming);
        self.effects.push_back(effect);
    }
}

/// The line for the log about a client that can hardly be called.
fn hidden_line(name: &str, from: IpAddr) -> String {
    format!(
        "{name}, which is to be called, comes from {from}, where its address may be unknown: if a firewall or NAT is in between, \
         {HOW_TO_OFFER} (giop.bidirectional is on by default); further ones from there are only counted"
    )
}

/// Result of a client's call in the protocol's terms.
fn client_answer(result: &Result<Reply, CallFailure>) -> ClientAnswer {
    match result {
        Ok(reply) => ClientAnswer::Returned(reply.reader().bool().ok()),
        Err(CallFailure::Unreachable(_)) => ClientAnswer::Unreachable,
        Err(CallFailure::TimedOut) => ClientAnswer::TimedOut,
        Err(CallFailure::User(_)) => ClientAnswer::Raised,
        Err(CallFailure::System(exception)) => match exception.kind {
            Kind::NoImplement | Kind::BadOperation => ClientAnswer::NotImplemented,
            Kind::ObjectNotExist => ClientAnswer::Gone,
            _ => ClientAnswer::Raised,
        },
    }
}

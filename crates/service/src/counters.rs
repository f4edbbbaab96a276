//! One registry of counters, read by the console, the metrics, the command line and the tests.
//!
//! Each thread writes a block of its own with plain loads and stores; a reader adds the blocks up. So counting costs the
//! event path no shared cache line and no locked instruction. The blocks of all the lanes there may be are made in advance.
//!
//! # Adding a counter
//!
//! A row of `counters!` is in `campanile stats`, the object `Statistics` and `/metrics` by that. A maximum or a level also stands in
//! `is_maximum` or `is_level` of `levels.rs`, octets and times in `name_of` of `crates/console/src/metrics.rs`. What the engine
//! counts is a field of its `Counters` that each round copies. By hand: `COUNTERS` of the console (`live.rs`), `campanile top`, the Grafana dashboard, and of one
//! consumer `OutboxStats` and `docs/idl/Campanile.idl`. A reason for dropping events is a `DiscardReason` of the engine, too.

mod blocks;
mod levels;

pub(crate) use blocks::{Block, Slot, lane_name};
pub use blocks::{Counters, HttpCounters, LaneCounters};

use accounts::{Resource, Spent, SpentBy};
use engine::DiscardReason;

macro_rules! counters {
    ($($(#[doc = $help:literal])+ $variant:ident = $name:literal $((was $former:literal))?,)+) => {
        /// What is counted. The names are those that [`Counters::snapshot`] and the `Statistics` object give; `was` precedes a
        /// deprecated name, which is exported as well.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Counter {
            $($(#[doc = $help])+ $variant,)+
        }

        impl Counter {
            /// Every counter, in the order in which they are shown.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The counter's name, the same everywhere.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The counter's deprecated name, if it was renamed.
            #[must_use]
            pub const fn former_name(self) -> Option<&'static str> {
                match self {
                    $($(Self::$variant => Some($former),)?)+
                    _ => None,
                }
            }

            /// What is counted, in a sentence.
            #[must_use]
            pub const fn help(self) -> &'static str {
                match self { $(Self::$variant => concat!($($help),+),)+ }
            }
        }
    };
}

counters! {
    /// Events of suppliers and timers that the service took.
    EventsIn = "lane_events_in",
    /// Bytes of those events.
    EventBytesIn = "lane_event_bytes_in",
    /// Pushes that consumers acknowledged, one-way ones included.
    Delivered = "lane_delivered",
    /// Pushes written to a socket, repeated ones included.
    PushesSent = "lane_pushes_sent",
    /// Events dropped before delivery, whatever the reason.
    Dropped = "lane_dropped",
    /// Events dropped because a consumer's outbox had `MaxEventsPerConsumer` events.
    DroppedOutboxFull = "lane_dropped_outbox_full",
    /// Events dropped because the channel's memory budget was spent and this backlog was the largest.
    DroppedMemorySpent = "lane_dropped_memory_spent",
    /// Events dropped because the channel had `MaxQueueLength` events and this backlog was the largest.
    DroppedQueueFull = "lane_dropped_queue_full",
    /// Events dropped because the consumer raised an exception that no repetition would cure.
    DroppedRejected = "lane_dropped_rejected",
    /// Events dropped because they cannot be put into the form that the consumer takes.
    DroppedUntranslatable = "lane_dropped_untranslatable",
    /// Events dropped with a consumer that the service disconnected.
    DroppedDisconnected = "lane_dropped_disconnected",
    /// Events dropped with a proxy that was disconnected or destroyed.
    DroppedRemoved = "lane_dropped_removed",
    /// Events dropped because their `Timeout` was over or their `StopTime` had come.
    DroppedExpired = "lane_dropped_expired",
    /// Events dropped because the consumer's remote filters did not answer in time, or failed.
    DroppedFilterFailed = "lane_dropped_filter_failed",
    /// Events dropped because they were on disk, for want of memory, and could not be read back.
    DroppedOverflowLost = "lane_dropped_overflow_lost",
    /// Events dropped for want of room, for consumers that had taken nothing for `HoldTimeout` while suppliers waited for them, and have
    /// persistent connections.
    DroppedWaitedOut = "lane_dropped_waited_out",
    /// Events dropped for a consumer that failed to take them and took a later one.
    DroppedUndeliverable = "lane_dropped_undeliverable",
    /// Events dropped for a consumer with `When` since they were in no set: the others did not come, too many waited, or a key is missing.
    DroppedUncorrelated = "lane_dropped_uncorrelated",
    /// Of the undeliverable ones, events that went to their channel's `DeadLetterChannel`.
    DeadLetters = "lane_dead_letters",
    /// The same that it did not take: it is gone, or has no room.
    DeadLettersLost = "lane_dead_letters_lost",
    /// Events of channels' timers that were published.
    TimerEvents = "lane_timer_events",
    /// Intervals of channels' timers that were passed over, since the lane was late.
    TimerIntervalsMissed = "lane_timer_intervals_missed",
    /// Events of other services' timers that came over links and were left out, since their channel has a timer of that name itself.
    TimerEventsLeftOut = "lane_timer_events_left_out",
    /// Events of channels' timers that were dropped for all consumers, since their channel had no room.
    TimerEventsDropped = "lane_timer_events_dropped",
    /// Events put on disk for want of memory, counted once for each consumer that is yet to get them.
    Overflowed = "lane_overflowed",
    /// Those of them that have come back.
    BroughtBack = "lane_brought_back",
    /// Events that channels store in their history.
    HistoryStored = "lane_history_stored" (was "lane_history_kept"),
    /// Events missing in channels' history, because too many were on their way to the disk.
    HistoryMissed = "lane_history_missed",
    /// Events that consumers got from their channels' history.
    HistoryRecalled = "lane_history_recalled",
    /// Events refused to their supplier.
    EventsRefused = "lane_events_refused",
    /// Supplier replies withheld because there was no room for more events.
    SuppliersBlocked = "lane_suppliers_blocked" (was "lane_suppliers_held"),
    /// Answers of clients that forwarded a request to a proxy of this service.
    ForwardsRefused = "lane_forwards_refused",
    /// Episodes in which a channel's suppliers were blocked because of what the events of all channels take together.
    ChannelsShort = "lane_channels_short_of_memory",
    /// Episodes in which a channel's events found no room on disk because of what backlogs of all channels have there.
    ChannelsShortOfDisk = "lane_channels_short_of_disk",
    /// Pushes that were answered with an exception.
    PushExceptions = "lane_push_exceptions",
    /// Pushes that no reply came for in time.
    PushTimeouts = "lane_push_timeouts",
    /// Waiting pulls that were not answered yet because their clients had not read the answers before them.
    PullsSetAside = "lane_pulls_set_aside",
    /// Times that nothing more was written for a connection until its client had read everything: what it had not read could not be
    /// charged.
    UnreadWaited = "lane_unread_waited",
    /// Calls to clients that were not made, and count as unanswered, since what was written before on their connections is not read.
    CallsNotMade = "lane_calls_not_made",
    /// Events translated to another form or encoding.
    Translations = "lane_translations",
    /// Events that could not be put into the form a consumer takes.
    Untranslatable = "lane_untranslatable",
    /// Events that were queued by topic, behind or beside others.
    EventsQueued = "lane_events_queued" (was "lane_turns_waited"),
    /// Maximum number of events that were queued by topic at once in a lane.
    EventsQueuedMax = "lane_events_queued_max" (was "lane_turns_waiting_max"),
    /// Allocations of the lane's thread.
    Allocations = "lane_allocations",
    /// System calls of the lane's thread.
    SystemCalls = "lane_system_calls",
    /// Rounds of the lane's duty cycle.
    Cycles = "lane_cycles",
    /// Longest round of the lane's duty cycle, in nanoseconds.
    CycleMax = "lane_cycle_max_ns",
    /// Pushes, events and connections of suppliers that rules of access do not allow.
    DeniedPublish = "access_denied_publish",
    /// Pulls and connections of consumers that rules of access do not allow.
    DeniedSubscribe = "access_denied_subscribe",
    /// Administrative requests that rules of access do not allow.
    DeniedAdminister = "access_denied_administer",
    /// Tokens that clients showed and that are none.
    DeniedTokens = "access_denied_tokens",
    /// Names that clients said of themselves and did not get: bad ones, second ones, and ones beyond their quota.
    ClientNamesRefused = "client_names_refused",
    /// Audit lines that were left out because one principal did, or was refused, more in a second than is logged of it.
    AuditLeftOut = "audit_left_out",
    /// Times that a client was not called because of the address at which it is (`outgoing.allow`).
    OutgoingRefused = "outgoing_refused",
    /// Connections given up because what listens at a client's address does not speak GIOP.
    NotGiop = "outgoing_not_giop",
    /// Times that another address of a reference was tried because one could not be reached.
    AlternativeAddresses = "outgoing_alternatives",
    /// Addresses of references that were not tried because a reference had too many.
    ReferenceAddressesLeftOut = "outgoing_addresses_left_out",
    /// Connections accepted.
    ConnectionsAccepted = "connections_accepted",
    /// Connections closed at once, or not accepted yet, because `limits.connections_max` or the number of descriptors was
    /// reached.
    ConnectionsRefused = "connections_refused",
    /// Idle connections without proxies that were closed for others, because `limits.connections_max` or the number of descriptors was
    /// reached.
    ConnectionsGaveWay = "connections_gave_way",
    /// Accepted connections that are open now.
    ConnectionsOpen = "connections_open",
    /// Connections for lines of JSON that were accepted.
    JsonConnectionsAccepted = "json_connections_accepted",
    /// Connections for lines of JSON that are open now.
    JsonConnectionsOpen = "json_connections_open",
    /// Lines that were no request, or one that made no sense, and were answered so.
    JsonLinesRefused = "json_lines_refused",
    /// Subscriptions that were refused because their connection had 256.
    JsonSubscriptionsRefused = "json_subscriptions_refused",
    /// Links that are connected and greeted now, those that other services made among them.
    LinksUp = "links_up",
    /// Times that a link of this service's configuration went down, or failed to be connected for another reason than before.
    LinksLost = "links_lost",
    /// Connections of links that were closed because events were in flight and none was acknowledged for `links.stalled_after_s`.
    LinksStalled = "links_stalled",
    /// Events that were sent over links, for the first time.
    LinkEventsSent = "links_events_sent",
    /// Events that came over links, repeats among them.
    LinkEventsReceived = "links_events_received",
    /// Events that came over a link and had come before, from the same origin, and were not taken again.
    LinkRepeats = "links_repeats",
    /// Events that were not sent over a link, or not taken from one, since they had come through the other service or through eight.
    LinkLoops = "links_loops",
    /// Events that were on their way over a link when the process at the other end ended, and were not persistent: they are not sent again.
    LinkEventsLost = "links_events_lost",
    /// Persistent events, at least, that a service had acknowledged over a link and did not know when it began again: counted at both ends.
    LinkEventsForgotten = "links_events_forgotten",
    /// Flows out of links that other services made and did not make again in time: what was kept for them was dropped.
    LinksForgotten = "links_forgotten",
    /// Events that the service at the other end of a link will never take, and that it rejected.
    LinkEventsRejected = "links_events_rejected",
    /// Services of the federation that are known now.
    FederationServices = "federation_services",
    /// Announcements that were rejected: of another federation, not made with the shared key, replayed, or none at all; and own ones that
    /// could not be sent.
    FederationRejected = "federation_rejected",
    /// Announcements that were not looked at or not taken whole, at a bound of services, channels or datagrams.
    FederationLimits = "federation_limits_reached",
    /// Names of channels of linked services to which clients are led now.
    FederatedNames = "federated_names",
    /// Names of channels that linked services told and that were not taken, and links that are told none, being too many.
    FederatedNamesRejected = "federated_names_rejected",
    /// Datagrams with events that were sent for links, announcements among them.
    LinkDatagramsSent = "links_datagrams_sent",
    /// Datagrams that came for links.
    LinkDatagramsReceived = "links_datagrams_received",
    /// Datagrams that came for links and were ignored: they came before, had no room, or this service does not listen to their stream now.
    LinkDatagramsIgnored = "links_datagrams_ignored",
    /// Datagrams that came for links and were refused: their code is wrong, or they came from another address than the link's.
    LinkDatagramsRefused = "links_datagrams_refused",
    /// Numbers of datagrams that did not come and were asked for over a link's connection.
    LinkDatagramsRequested = "links_datagrams_requested",
    /// Events that were sent over links' connections since their datagrams did not come.
    LinkEventsRepaired = "links_events_repaired",
    /// Times that a link with datagrams fell back to its connection alone.
    LinkFallBacks = "links_fall_backs",
    /// Messages of links that came through Zenoh and were dropped: they are of no stream that there is, came before, or are none.
    LinkZenohDropped = "links_zenoh_dropped",
    /// Streams of links through Zenoh that ended since a message was lost, or more was sent than granted. They are opened anew.
    LinkZenohBroken = "links_zenoh_broken",
    /// Links through Zenoh that other services asked for and that were refused.
    LinkZenohRefused = "links_zenoh_refused",
    /// Times that the Zenoh session was opened anew, since services that are there did not answer.
    LinkZenohReopened = "links_zenoh_reopened",
    /// Samples from DDS that channels took.
    DdsIn = "dds_in",
    /// Events that were written to DDS.
    DdsOut = "dds_out",
    /// Samples from DDS that their channel refused, and that are lost to it.
    DdsRefused = "dds_refused",
    /// Events that came from DDS and therefore did not go back there.
    DdsEchoes = "dds_echoes",
    /// Events that did not go to DDS since they have no struct where the configuration looks for it, or one that DDS has nothing for.
    DdsNoValue = "dds_no_value",
    /// Events that did not go to DDS since their topic has another type.
    DdsOtherType = "dds_other_type",
    /// Events that did not go to DDS since their domain or type is not joined to it.
    DdsUnmapped = "dds_unmapped",
    /// Events that did not go to DDS since their join has as many topics as it may have.
    DdsTopicsSpent = "dds_topics_spent",
    /// Events that did not go to DDS since Cyclone could not write them.
    DdsFailed = "dds_failed",
    /// Times that an event waited for readers in DDS for a second, after which it went on waiting.
    DdsWaited = "dds_waited",
    /// Times that a reader in DDS was waited for no more, since it had taken nothing for `dds.hold_timeout_ms` while others waited for it, or
    /// nothing when it was tried again.
    DdsReadersGivenUp = "dds_readers_given_up" (was "dds_readers_let_go"),
    /// Of these readers, those that took something when they were tried again.
    DdsReadersBack = "dds_readers_back",
    /// Topics that were not read since their type is unknown, or CORBA has nothing for it.
    DdsUntyped = "dds_untyped",
    /// Writers and readers in DDS that joins have looked at, each when it came or changed.
    DdsDiscovered = "dds_discovered",
    /// Times that a writer or reader in DDS did not match a join by a policy.
    DdsIncompatible = "dds_incompatible",
    /// Samples that readers of DDS know to have missed.
    DdsLost = "dds_lost",
    /// Samples that could not be put into an event: larger than `limits.message_bytes_max`, or of a type that is too intricate.
    DdsUnreadable = "dds_unreadable",
    /// Connections for Tempo that were accepted.
    TempoConnectionsAccepted = "tempo_connections_accepted",
    /// Connections for Tempo that are open now.
    TempoConnectionsOpen = "tempo_connections_open",
    /// Times a connection for Tempo was not read since there was no room in the input of a topic.
    TempoConnectionsWaited = "tempo_connections_waited",
    /// Datagrams that came.
    TempoDatagramsIn = "tempo_datagrams_in",
    /// Datagrams that were sent.
    TempoDatagramsOut = "tempo_datagrams_out",
    /// Datagrams that the system would not send.
    TempoSendsFailed = "tempo_sends_failed",
    /// Frames, or what should have been some, that make no sense.
    TempoMalformed = "tempo_malformed",
    /// Frames of another version of the protocol.
    TempoVersions = "tempo_versions",
    /// Frames of a kind that is not known.
    TempoUnknownKinds = "tempo_unknown_kinds",
    /// Frames from addresses that have not proven themselves: announcements are answered, all others are not taken.
    TempoUnproven = "tempo_unproven",
    /// Frames about a topic that their sender has not announced.
    TempoUnbound = "tempo_unbound",
    /// Frames that other brokers sent here, and that were not taken.
    TempoByBrokers = "tempo_by_brokers",
    /// Announcements of topics with names that are no event types.
    TempoNamesRefused = "tempo_names_refused",
    /// Announced topics that were not taken: the session had 4,096, or there could be no proxy for it.
    TempoTopicsRefused = "tempo_topics_refused",
    /// Sessions of end points that are known now.
    TempoSessions = "tempo_sessions",
    /// Topics that they have announced, once for each that publishes or subscribes.
    TempoAnnounced = "tempo_announced",
    /// Topics that are known now.
    TempoTopics = "tempo_topics",
    /// Announced topics that were forgotten since they were not announced any more.
    TempoExpired = "tempo_expired",
    /// Sessions that have moved to another port.
    TempoSessionsMoved = "tempo_sessions_moved",
    /// Messages that were lost between their publishers and the service.
    TempoLost = "tempo_lost",
    /// Messages that came late, and were not taken any more.
    TempoLate = "tempo_late",
    /// Messages that came again.
    TempoRepeated = "tempo_repeated",
    /// Messages that found no room in their topic's input, and are lost.
    TempoInputFull = "tempo_input_full",
    /// Messages of more octets than are taken, and that are lost.
    TempoTooLarge = "tempo_too_large",
    /// Fragments that fit to no message, or to none any more, or for which there was no room.
    TempoFragmentsRefused = "tempo_fragments_refused",
    /// Messages that their channel did not take, and that are lost.
    TempoRefused = "tempo_refused",
    /// Probes that were passed on.
    TempoProbes = "tempo_probes",
    /// Probes that came too soon behind the one before, and were not passed on.
    TempoProbesRefused = "tempo_probes_refused",
    /// Echoes that were passed on.
    TempoEchoes = "tempo_echoes",
    /// Echoes beyond those of a topic's subscribers.
    TempoEchoesRefused = "tempo_echoes_refused",
    /// Reports of subscribers.
    TempoReports = "tempo_reports",
    /// Announced topics: claims not granted because the service's limit was reached.
    AnnouncedLimit = "announced_limit_reached",
    /// Announced topics: claims not granted because the client had its quota.
    AnnouncedQuota = "announced_quota_reached" (was "announced_share_reached"),
    /// Queued octets of topics: claims not granted because the service's limit was reached.
    InputBytesLimit = "input_bytes_limit_reached",
    /// Queued octets of topics: claims not granted because the client had its quota.
    InputBytesQuota = "input_bytes_quota_reached" (was "input_bytes_share_reached"),
    /// Messages of Tempo that are not of the topic's declared type, or no structured event of the topic's, although they say so. Subscribers
    /// of Tempo get them as they are, others as octets.
    TempoUnreadable = "tempo_messages_unreadable",
    /// Connections to consumers that were begun.
    ConnectsBegun = "connects_begun",
    /// Idle connections to clients that were closed to make room for another.
    OutgoingIdleClosed = "outgoing_idle_closed",
    /// Connections to consumers that could not be made.
    ConnectsFailed = "connects_failed",
    /// Open connections that clients made and offered for calls to them.
    BidirectionalConnections = "giop_bidirectional_connections",
    /// Pushes sent over connections that their consumers made.
    BidirectionalPushes = "giop_bidirectional_pushes",
    /// Addresses listed for calls over connections that were not taken: beyond the first 16 of a connection, or the client's quota of
    /// memory, or lists that cannot be read.
    ListenPointsRefused = "giop_listen_points_refused",
    /// Clients to be called that connected with private addresses of another network than the one they come from, and offered no
    /// connection.
    ClientsHidden = "giop_clients_hidden",
    /// Connections ended because their bytes were not GIOP or broke a limit.
    ProtocolErrors = "protocol_errors",
    /// Connections ended because a message was not complete in time.
    IncompleteMessages = "incomplete_messages",
    /// Connections ended because their messages did not progress while others waited for the memory.
    StalledMessagesEnded = "stalled_messages_ended",
    /// Messages that waited for others to be complete, because these took `limits.incomplete_bytes_max` or the client's quota.
    MessagesWaited = "lane_messages_waited",
    /// Requests with possibly large answers that waited: for the answer to another of their connection, or for clients to read theirs.
    LargeAnswersDelayed = "lane_large_answers_delayed" (was "lane_large_answers_held_back"),
    /// Connections ended because they did not read their answers while others waited for the memory.
    UnreadAnswersEnded = "unread_answers_ended",
    /// Answers that would have been larger than a message may be, and were an exception instead.
    AnswersTooLarge = "refused_answer_too_large",
    /// Times a connection had more messages than its budget of a round, and waited for the next.
    RoundBudgetsSpent = "lane_round_budgets_spent" (was "lane_shares_spent"),
    /// Times the connections of one address had more to do than their budget of a round, and waited for the next.
    AddressBudgetsSpent = "lane_address_budgets_spent" (was "lane_slices_spent"),
    /// Times what was read of a connection and had to wait was copied, because too many of the lane's buffers were out.
    RestsCopied = "lane_rests_copied",
    /// Replies that came after their call had ended.
    LateReplies = "late_replies",
    /// Requests to the objects of the service other than events.
    Requests = "administration_requests",
    /// Requests answered with a system or user exception.
    RequestExceptions = "administration_exceptions",
    /// Requests for an object that does not exist.
    WrongKeys = "refused_object_not_exist",
    /// Answers to requests for objects that do not exist, `LocateRequest`s included, that waited because their address had spent its budget
    /// of these.
    KeyMissesDelayed = "key_misses_delayed",
    /// Connections closed because too many such answers of their address waited.
    KeyGuessersClosed = "key_guessers_closed",
    /// Requests for an operation that the object does not have.
    WrongOperations = "refused_bad_operation",
    /// Requests with a body that could not be read.
    WrongBodies = "refused_marshal",
    /// Events refused because what their supplier sent as its Real-time CORBA priority is none.
    WrongPriorities = "refused_wrong_priority",
    /// Requests answered TRANSIENT because too many, or too large ones, were waiting.
    AdministrationFull = "refused_administration_full",
    /// Pushes answered TRANSIENT because the service was about to end.
    RefusedStopping = "refused_stopping",
    /// Pushes that were not answered because the service was about to end, and that their clients send again to the one that follows at
    /// its address.
    PushesDeferred = "pushes_deferred" (was "pushes_put_off"),
    /// Events that had not been delivered when the service ended, counted once for each consumer.
    Undelivered = "undelivered_at_end",
    /// Consumers that the service disconnected: they failed for too long, or were full with `FullOutbox` = `Disconnect`.
    ConsumersGivenUp = "consumers_given_up",
    /// Of these, those that took nothing for `HoldTimeout` while suppliers waited for them, and those for which suppliers had waited for so
    /// long within ten minutes while other consumers could go on, where their channel has these disconnected.
    ConsumersHolding = "consumers_holding_disconnected",
    /// Times suppliers waited no more for a consumer with a persistent connection that had taken nothing for `HoldTimeout`: it stays.
    ConsumersWaitedOut = "consumers_waited_out",
    /// Times suppliers waited no more for a consumer because they had waited for it for its `HoldTimeout` within ten minutes while other
    /// consumers could go on.
    ConsumersHoldSpent = "consumers_hold_spent",
    /// Suppliers that the service disconnected because they were not heard of for `SupplierLinger`, or for as long as an operator
    /// said.
    SuppliersIdle = "suppliers_idle_disconnected",
    /// Clients that an operator disconnected by their proxies (`campanile disconnect`).
    ClientsDismissed = "clients_dismissed",
    /// Times `Persistent` was taken where there is no store, and has no effect (`compatibility.persistent_without_store`).
    PersistentWithoutStore = "persistent_without_store",
    /// Evaluations of filters that clients requested and that were cut when their time or their steps were over.
    FilterCallsCut = "filter_calls_cut",
    /// Subscriptions of links that were taken for everything, since their event types were too many.
    SubscriptionsWidened = "subscriptions_widened",
    /// Events in the sequences that were pushed.
    SequenceEventsSent = "lane_sequence_events_sent",
    /// Events left out of a sequence because they cannot be put into what its consumer takes.
    LeftOut = "lane_left_out",
    /// Events with a `Priority`, `Timeout`, `StartTime` or `StopTime` of a type or value that cannot be meant.
    WrongHeaderFields = "lane_wrong_header_fields",
    /// Pull requests of consumers.
    Pulls = "lane_pulls",
    /// Those that were answered with events.
    PullsAnswered = "lane_pulls_answered",
    /// Requests for events that were refused because too many wait on the connection.
    PullsRefused = "lane_pulls_refused",
    /// Times suppliers were polled for an event.
    Polls = "lane_polls",
    /// Events that they gave.
    EventsPolled = "lane_events_polled",
    /// Times that failed.
    PollsFailed = "lane_polls_failed",
    /// Of these, the ones without an answer in time.
    PollTimeouts = "lane_poll_timeouts",
    /// Suppliers that the service disconnected because they failed for too long.
    SuppliersGivenUp = "suppliers_given_up",
    /// Constraints evaluated.
    FilterEvaluations = "lane_filter_evaluations",
    /// Of these, the ones that failed: a field was not there, a type was wrong. They do not match.
    FilterFailures = "lane_filter_failures",
    /// Events with filtering cut short because its steps, or the event's time, were spent.
    FilterCuts = "lane_filter_cuts",
    /// Events that the filters on their supplier's side did not let pass.
    FilteredAtSuppliers = "lane_filtered_in",
    /// Events that remote filters did not let pass to a consumer.
    FilteredRemotely = "lane_remotely_filtered",
    /// Calls of remote filters.
    RemoteFilterCalls = "lane_remote_filter_calls",
    /// Those that failed or were not answered in time.
    RemoteFilterFailures = "lane_remote_filter_failures",
    /// Events that remote filters on their supplier's side did not let pass.
    FilteredIn = "lane_remotely_filtered_in",
    /// Events that did not pass because a remote filter on their supplier's side failed.
    FilteredInFailed = "lane_remote_filter_dropped_in",
    /// Events refused because too many of their proxy wait for remote filters.
    AwaitingFilterRefused = "lane_awaiting_filter_refused" (was "lane_undecided_refused"),
    /// Clients that probes found dead and that were disconnected.
    ClientsReaped = "clients_reaped",
    /// Times at which a client had been out of reach for a minute and stayed connected.
    ClientsFoundUnreachable = "clients_found_unreachable",
    /// Clients that are out of reach for more than a minute now.
    ClientsUnreachable = "clients_unreachable",
    /// Channels and admins destroyed before all their clients had been notified.
    DestroysNotWaitedFor = "destroys_not_waited_for",
    /// Lanes of thread pools that were started.
    LanesStarted = "lanes_started",
    /// Those that have ended since, because their pool did.
    LanesEnded = "lanes_ended",
    /// Lanes for which the system refused a thread: the main lane serves what is theirs.
    LanesRefused = "lanes_refused",
    /// Times a lane could not be given the real-time priority it is to have.
    LanesWithoutPriority = "lanes_without_priority",
    /// Events that were handed over to another lane, once for each.
    HandedOver = "lane_handed_over",
    /// Events that were taken over from another lane.
    TakenOver = "lane_taken_over",
    /// Events that a lane could not be handed because their channel, or the lane, was just gone; or timers' events while suppliers wait
    /// for that lane.
    HandoversRefused = "lane_handovers_refused",
    /// Events dropped while they waited to be handed over to a lane that is behind, as all consumers there would have it.
    HandoversDropped = "lane_handovers_dropped",
    /// Pushes that arrived on the connection of another lane than theirs, and were passed to theirs.
    PushesPassed = "lane_pushes_passed",
    /// Times an event, or a push, had to wait because the queue to another lane was full.
    HandoverFull = "handover_full",
    /// Connections that moved to another lane.
    ConnectionsMoved = "connections_moved",
    /// Episodes in which a lane had work without end for a second or more.
    LaneSaturated = "lane_saturated",
    /// Periods in which a lane that runs by the clock has run (`lanes.main_period_us`, `lanes.time_driven`).
    LanePeriods = "lane_periods",
    /// Times such a lane's budget of a period was spent and there was more to do, which waited for the next.
    LaneBudgetsSpent = "lane_budgets_spent",
    /// Log lines that were only counted because there were too many of their kind in a second.
    LogLinesLeftOut = "log_lines_left_out",
    /// Connections: claims not granted because the service's limit was reached.
    ConnectionsLimit = "connections_limit_reached",
    /// Connections: claims not granted because the client had its quota.
    ConnectionsQuota = "connections_quota_reached" (was "connections_share_reached"),
    /// Connections to clients: claims not granted because the service's limit was reached.
    OutgoingLimit = "outgoing_limit_reached",
    /// Connections to clients: claims not granted because the client had its quota.
    OutgoingQuota = "outgoing_quota_reached" (was "outgoing_share_reached"),
    /// Octets of incomplete messages: claims not granted because the service's limit was reached.
    IncompleteBytesLimit = "incomplete_bytes_limit_reached",
    /// Octets of incomplete messages: claims not granted because the client had its quota.
    IncompleteBytesQuota = "incomplete_bytes_quota_reached" (was "incomplete_bytes_share_reached"),
    /// Octets written and not read: claims not granted because the service's limit was reached.
    ReplyBytesLimit = "reply_bytes_limit_reached",
    /// Octets written and not read: claims not granted because the client had its quota.
    ReplyBytesQuota = "reply_bytes_quota_reached" (was "reply_bytes_share_reached"),
    /// Octets of administrative requests: claims not granted because the service's limit was reached.
    RequestBytesLimit = "request_bytes_limit_reached",
    /// Octets of administrative requests: claims not granted because the client had its quota.
    RequestBytesQuota = "request_bytes_quota_reached" (was "request_bytes_share_reached"),
    /// Octets retained by administration: claims not granted because the service's limit was reached.
    RetainedBytesLimit = "retained_bytes_limit_reached" (was "kept_bytes_limit_reached"),
    /// Octets retained by administration: claims not granted because the client had its quota.
    RetainedBytesQuota = "retained_bytes_quota_reached" (was "kept_bytes_share_reached"),
    /// Channels: claims not granted because the service's limit was reached.
    ChannelsLimit = "channels_limit_reached",
    /// Channels: claims not granted because the client had its quota.
    ChannelsQuota = "channels_quota_reached" (was "channels_share_reached"),
    /// Proxies: claims not granted because the service's limit was reached.
    ProxiesLimit = "proxies_limit_reached",
    /// Proxies: claims not granted because the client had its quota.
    ProxiesQuota = "proxies_quota_reached" (was "proxies_share_reached"),
    /// Event types that consumers name: claims not granted because the service's limit was reached.
    EventTypesLimit = "event_types_limit_reached",
    /// Event types that consumers name: claims not granted because the client had its quota.
    EventTypesQuota = "event_types_quota_reached" (was "event_types_share_reached"),
    /// Threads of pools: claims not granted because the service's limit was reached.
    ThreadsLimit = "threads_limit_reached",
    /// Threads of pools: claims not granted because the client had its quota.
    ThreadsQuota = "threads_quota_reached" (was "threads_share_reached"),
    /// TLS handshakes that were made, on accepted connections and on those to clients.
    TlsHandshakes = "tls_handshakes",
    /// TLS handshakes that failed, for whatever reason.
    TlsHandshakesFailed = "tls_handshakes_failed",
    /// TLS handshakes under way now.
    TlsHandshakesUnderWay = "tls_handshakes_under_way",
    /// Of those that failed: because they took longer than `tls.handshake_ms`.
    TlsHandshakesOverdue = "tls_handshakes_overdue",
    /// Of those that failed: because the peer's certificate was not accepted.
    TlsCertificatesRefused = "tls_certificates_refused",
    /// Connections closed because they spoke in the clear at a port for TLS.
    TlsPlain = "tls_plain",
    /// Connections closed because they spoke TLS at a port where that is not spoken.
    TlsAtPlainPort = "tls_at_plain_port",
    /// TLS handshakes: claims not granted because the service's limit was reached.
    HandshakesLimit = "handshakes_limit_reached",
    /// TLS handshakes: claims not granted because the client had its quota.
    HandshakesQuota = "handshakes_quota_reached" (was "handshakes_share_reached"),
    /// Lookups of host names: claims not granted because the service's limit was reached.
    LookupsLimit = "lookups_limit_reached",
    /// Lookups of host names: claims not granted because the client had its quota.
    LookupsQuota = "lookups_quota_reached" (was "lookups_share_reached"),
    /// Host names that waited because all threads that look names up were at work.
    LookupThreadsLimit = "lookup_threads_limit_reached",
    /// Host names that waited because their client had its quota of the threads that look names up.
    LookupThreadsQuota = "lookup_threads_quota_reached" (was "lookup_threads_share_reached"),
    /// Host names that the system looked up.
    LookupsBegun = "lookups_begun",
    /// Lookups of a host name that were answered from an earlier one, or together with another client's.
    LookupsShared = "lookups_shared",
    /// Batches of changes that the store has written, each durable when it was counted.
    StoreWrites = "store_writes",
    /// Octets of keys and values in them.
    StoreBytes = "store_bytes",
    /// Times that the store could not write: what was to be written is tried again each second.
    StoreFailures = "store_failures",
    /// 1 while the disk is full and persistent events are refused for that.
    StoreFull = "store_full",
    /// The epoch in which this service is the leader of a pair of machines.
    StandbyEpoch = "standby_epoch",
    /// 1 while the follower is in step.
    StandbyInStep = "standby_in_step",
    /// Batches of the store that the follower has yet to confirm.
    StandbyLagBatches = "standby_lag_batches",
    /// Octets of those that are waiting for it in memory.
    StandbyLagBytes = "standby_lag_bytes",
    /// Time since the oldest of them was written, in nanoseconds.
    StandbyLagTime = "standby_lag_ns",
    /// Batches that the follower confirmed, one by one.
    StandbyBatches = "standby_batches",
    /// Copies of the whole store that the follower took.
    StandbyCopies = "standby_copies",
    /// Times that a follower in step was lost.
    StandbyFollowersLost = "standby_followers_lost",
    /// Times that the follower lacked more than `standby.lag_max`, and needs a copy.
    StandbyOutrun = "standby_outrun",
    /// Time since the record of who leads was renewed, in nanoseconds; 0 without a record.
    StandbyRecordAge = "standby_record_age_ns",
    /// Changes that were answered with `PERSIST_STORE`, since the disk had not taken them within `store.answer_within_ms`: they are in
    /// effect, and written when it does, or undone where something was made.
    ChangesNotStored = "changes_not_stored" (was "changes_not_kept"),
    /// Octets that the store takes on disk.
    StoreDiskBytes = "store_disk_bytes",
    /// Events that are stored on disk now: accepted, and not confirmed by all their consumers.
    EventsStored = "events_stored" (was "events_kept"),
    /// Octets of those.
    EventBytesStored = "event_bytes_stored" (was "event_bytes_kept"),
    /// Persistent events that were refused: the disk failed, or the store had reached its limit.
    EventsNotStored = "events_not_stored" (was "events_not_kept"),
    /// Dead letters that are on disk now, each counted for each consumer for which it was undeliverable: `campanile dead ls` shows
    /// them.
    DeadLettersStored = "dead_letters_stored" (was "dead_letters_kept"),
    /// Dead letters that had to go, or could not be stored: a channel had `store.dead_letters_max` of them, or
    /// `store.dead_letter_bytes_max` octets, or was destroyed.
    DeadLettersDropped = "dead_letters_dropped",
    /// Origins that are on disk now, of persistent events that came over links: repeats of these events are known by them.
    OriginsStored = "origins_stored",
    /// Origins removed from disk because there were too many of a channel, or of all: a repeat of such an event is taken for a new one.
    OriginsDropped = "origins_dropped",
    /// Events that were on disk when the process began, and that it went on to deliver.
    EventsRestored = "events_restored",
    /// Events that are on disk now since there was no memory for them: of consumers that are behind.
    OverflowEvents = "overflow_events",
    /// Octets of those.
    OverflowBytes = "overflow_bytes",
    /// Times that what is too much for memory could not be written, or not be read: it is tried again each second.
    OverflowFailures = "overflow_failures",
    /// Events of channels' history that are on disk now.
    HistoryEvents = "history_events",
    /// Octets of those.
    HistoryBytes = "history_bytes",
    /// Files of channels' history that went because all together were more than `store.history_bytes_max`.
    HistoryCut = "history_cut",
    /// Answers to suppliers (`AcknowledgeAfter` `Delivered`) that went before all consumers had the event: they had waited for
    /// `AcknowledgeWithin`.
    AcknowledgedEarly = "lane_acknowledged_early",
    /// Scheduling analyses that were done.
    AnalysesDone = "analyses_done",
    /// Analyses: claims not granted because the service's limit was reached.
    AnalysesLimit = "analyses_limit_reached",
    /// Analyses: claims not granted because the client had its quota.
    AnalysesQuota = "analyses_quota_reached" (was "analyses_share_reached"),
    /// Reconnection callbacks: claims not granted because the service's limit was reached.
    RegistrationsLimit = "registrations_limit_reached",
    /// Reconnection callbacks: claims not granted because the client had its quota.
    RegistrationsQuota = "registrations_quota_reached" (was "registrations_share_reached"),
    /// Connections to the HTTP ports that were accepted.
    HttpConnectionsAccepted = "http_connections_accepted",
    /// Of these, those that are open now.
    HttpConnectionsOpen = "http_connections_open",
    /// Connections to the HTTP ports that came when `http.connections_max` were open and being answered: those in the reserve
    /// serve health and changes only, others are closed at once.
    HttpConnectionsLimit = "http_connections_limit_reached",
    /// Connections to the HTTP ports that were closed at once, since their address has its quota of `http.connections_max`.
    HttpConnectionsQuota = "http_connections_quota_reached" (was "http_connections_share_reached"),
    /// Connections to the HTTP ports on which nothing was being answered, closed for others where `http.connections_max` were open.
    HttpConnectionsGaveWay = "http_connections_gave_way",
    /// Requests over HTTP that were read.
    HttpRequests = "http_requests",
    /// Connections to the HTTP ports that were closed since what came was no HTTP, or its head had more than 16 KiB or 64 fields.
    HttpMalformed = "http_malformed",
    /// Connections to the HTTP ports that were closed since a request was not complete within `http.request_within_ms`.
    HttpSlowRequests = "http_slow_requests",
    /// Connections to the HTTP ports that were closed since an answer was not read within `http.answer_within_ms`.
    HttpSlowReaders = "http_slow_readers",
    /// Connections to the HTTP ports that were closed since no request came on them for a minute.
    HttpIdleClosed = "http_idle_closed",
    /// Requests over HTTP refused since they were sent to another host's name: a page of another site may have a browser do that.
    HttpHostsRefused = "http_hosts_refused",
    /// Requests over HTTP refused since they came from a page of another site.
    HttpCrossSiteRefused = "http_cross_site_refused",
    /// Requests over HTTP refused for want of the token.
    HttpUnauthorized = "http_unauthorized",
    /// Requests over HTTP for what there is not, or by a method that it does not have.
    HttpNotFound = "http_not_found",
    /// Requests over HTTP with bodies or arguments that were too large or made no sense.
    HttpBodiesRefused = "http_bodies_refused",
    /// Requests over HTTP that administration declined, or did not answer in time.
    HttpDeclined = "http_declined",
    /// Live streams over HTTP that are open now.
    HttpStreamsOpen = "http_streams_open",
    /// Live streams over HTTP that were refused since as many were open as may be.
    HttpStreamsRefused = "http_streams_refused",
    /// WebSockets that are open now.
    HttpWebSocketsOpen = "http_websockets_open",
    /// WebSockets refused since `http.websockets_max` were open.
    HttpWebSocketsRefused = "http_websockets_refused",
    /// WebSockets closed for what came: no frames of this protocol, no text, or a message of more than `json.line_bytes_max`.
    HttpWebSocketsBroken = "http_websockets_broken",
    /// WebSockets closed since nothing came from the client, not even an answer to a ping, for `http.websocket_ping_ms`.
    HttpWebSocketsSilent = "http_websockets_silent",
    /// Octets of the last hour's figures, which HTTP serves.
    HttpFiguresBytes = "http_figures_bytes",
    /// Channels and consumers of which HTTP keeps no figures, since as many have some as may.
    HttpFiguresLeftOut = "http_figures_left_out",
    /// Changes that were requested over HTTP and made, and events that were published so.
    HttpCommands = "http_commands",
}

impl Counter {
    /// Every exported name with its counter: first the names in the order of [`Self::ALL`], then the deprecated ones.
    pub fn exported() -> impl Iterator<Item = (&'static str, Self)> {
        let former = Self::ALL.iter().filter_map(|counter| Some((counter.former_name()?, *counter)));
        Self::ALL.iter().map(|counter| (counter.name(), *counter)).chain(former)
    }

    /// The counter with this name, deprecated ones included.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::exported().find(|(exported, _)| *exported == name).map(|(_, counter)| counter)
    }

    /// Where a reason for dropping an event is counted.
    #[must_use]
    pub const fn of_discard(reason: DiscardReason) -> Self {
        match reason {
            DiscardReason::OutboxFull => Self::DroppedOutboxFull,
            DiscardReason::MemorySpent => Self::DroppedMemorySpent,
            DiscardReason::QueueFull => Self::DroppedQueueFull,
            DiscardReason::Rejected => Self::DroppedRejected,
            DiscardReason::Untranslatable => Self::DroppedUntranslatable,
            DiscardReason::Disconnected => Self::DroppedDisconnected,
            DiscardReason::Removed => Self::DroppedRemoved,
            DiscardReason::Expired => Self::DroppedExpired,
            DiscardReason::FilterFailed => Self::DroppedFilterFailed,
            DiscardReason::OverflowLost => Self::DroppedOverflowLost,
            DiscardReason::WaitedOut => Self::DroppedWaitedOut,
            DiscardReason::Undeliverable => Self::DroppedUndeliverable,
            DiscardReason::Uncorrelated => Self::DroppedUncorrelated,
        }
    }

    /// The counter of a refusal to a client: since the limit of all is reached, or the client's quota.
    #[must_use]
    pub const fn of_refusal(spent: Spent) -> Self {
        let (limit, quota) = match spent.resource {
            Resource::Connections => (Self::ConnectionsLimit, Self::ConnectionsQuota),
            Resource::Outgoing => (Self::OutgoingLimit, Self::OutgoingQuota),
            Resource::IncompleteBytes => (Self::IncompleteBytesLimit, Self::IncompleteBytesQuota),
            Resource::ReplyBytes => (Self::ReplyBytesLimit, Self::ReplyBytesQuota),
            Resource::RequestBytes => (Self::RequestBytesLimit, Self::RequestBytesQuota),
            Resource::RetainedBytes => (Self::RetainedBytesLimit, Self::RetainedBytesQuota),
            Resource::Channels => (Self::ChannelsLimit, Self::ChannelsQuota),
            Resource::Proxies => (Self::ProxiesLimit, Self::ProxiesQuota),
            Resource::EventTypes => (Self::EventTypesLimit, Self::EventTypesQuota),
            Resource::Threads => (Self::ThreadsLimit, Self::ThreadsQuota),
            Resource::Lookups => (Self::LookupsLimit, Self::LookupsQuota),
            Resource::LookupThreads => (Self::LookupThreadsLimit, Self::LookupThreadsQuota),
            Resource::Handshakes => (Self::HandshakesLimit, Self::HandshakesQuota),
            Resource::HttpConnections => (Self::HttpConnectionsLimit, Self::HttpConnectionsQuota),
            Resource::Announced => (Self::AnnouncedLimit, Self::AnnouncedQuota),
            Resource::InputBytes => (Self::InputBytesLimit, Self::InputBytesQuota),
            Resource::Analyses => (Self::AnalysesLimit, Self::AnalysesQuota),
            Resource::Registrations => (Self::RegistrationsLimit, Self::RegistrationsQuota),
        };
        match spent.by {
            SpentBy::All => limit,
            SpentBy::Client => quota,
        }
    }

    /// The counter for what would have needed a right.
    #[must_use]
    pub const fn of_denied(right: access::Right) -> Self {
        match right {
            access::Right::Publish => Self::DeniedPublish,
            access::Right::Subscribe => Self::DeniedSubscribe,
            access::Right::Administer => Self::DeniedAdminister,
        }
    }
}

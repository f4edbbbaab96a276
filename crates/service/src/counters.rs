//! One registry of counters, read by the console, the metrics, the command line and the tests.
//!
//! Each thread writes a block of its own with plain loads and stores; a reader adds the blocks up. So counting costs the
//! event path no shared cache line and no locked instruction.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

macro_rules! counters {
    ($($(#[doc = $help:literal])+ $variant:ident = $name:literal,)+) => {
        /// What is counted. The names are those that [`Counters::snapshot`] and the `Statistics` object give.
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

            /// What is counted, in a sentence.
            #[must_use]
            pub const fn help(self) -> &'static str {
                match self { $(Self::$variant => concat!($($help),+),)+ }
            }
        }
    };
}

counters! {
    /// Events that suppliers pushed and the service took.
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
    /// Events refused to their supplier.
    EventsRefused = "lane_events_refused",
    /// Supplier replies withheld because there was no room for more events.
    SuppliersHeld = "lane_suppliers_held",
    /// Pushes that were answered with an exception.
    PushExceptions = "lane_push_exceptions",
    /// Pushes that no reply came for in time.
    PushTimeouts = "lane_push_timeouts",
    /// Events translated to another form or encoding.
    Translations = "lane_translations",
    /// Events that could not be put into the form a consumer takes.
    Untranslatable = "lane_untranslatable",
    /// Allocations of the lane's thread.
    Allocations = "lane_allocations",
    /// System calls of the lane's thread.
    SystemCalls = "lane_system_calls",
    /// Rounds of the lane's duty cycle.
    Cycles = "lane_cycles",
    /// Longest round of the lane's duty cycle, in nanoseconds.
    CycleMax = "lane_cycle_max_ns",
    /// Connections accepted.
    ConnectionsAccepted = "connections_accepted",
    /// Connections closed at once, or not accepted yet, because `limits.connections_max` or the number of descriptors was
    /// reached.
    ConnectionsRefused = "connections_refused",
    /// Accepted connections that are open now.
    ConnectionsOpen = "connections_open",
    /// Connections to consumers that were begun.
    ConnectsBegun = "connects_begun",
    /// Connections to consumers that could not be made.
    ConnectsFailed = "connects_failed",
    /// Connections ended because their bytes were not GIOP or broke a limit.
    ProtocolErrors = "protocol_errors",
    /// Connections ended because a message was not complete in time.
    IncompleteMessages = "incomplete_messages",
    /// Replies nobody waits for any more.
    LateReplies = "late_replies",
    /// Requests to the objects of the service other than events.
    Requests = "administration_requests",
    /// Requests answered with a system or user exception.
    RequestExceptions = "administration_exceptions",
    /// Requests for an object that does not exist.
    WrongKeys = "refused_object_not_exist",
    /// Requests for an operation that the object does not have.
    WrongOperations = "refused_bad_operation",
    /// Requests whose body could not be read.
    WrongBodies = "refused_marshal",
    /// Events refused because what their supplier told as its Real-time CORBA priority is none.
    WrongPriorities = "refused_wrong_priority",
    /// Requests answered TRANSIENT because too many, or too large ones, were waiting.
    AdministrationFull = "refused_administration_full",
    /// Consumers that the service disconnected: they failed for too long, or were full with `FullOutbox` = `Disconnect`.
    ConsumersGivenUp = "consumers_given_up",
    /// Evaluations that clients asked filters for and that were cut when their time or their steps were over.
    FilterCallsCut = "filter_calls_cut",
    /// Events in the sequences that were pushed.
    SequenceEventsSent = "lane_sequence_events_sent",
    /// Events left out of a sequence because they cannot be put into what its consumer takes.
    LeftOut = "lane_left_out",
    /// Events with a `Priority`, `Timeout`, `StartTime` or `StopTime` of a type or value that cannot be meant.
    WrongHeaderFields = "lane_wrong_header_fields",
    /// Requests of consumers for events.
    Pulls = "lane_pulls",
    /// Those that were answered with events.
    PullsAnswered = "lane_pulls_answered",
    /// Requests for events that were refused because too many wait on the connection.
    PullsRefused = "lane_pulls_refused",
    /// Times suppliers were asked whether they have an event.
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
    /// Events whose filtering was cut short because its steps, or the event's time, were spent.
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
    UndecidedRefused = "lane_undecided_refused",
    /// Clients that probes found dead and that were disconnected.
    ClientsReaped = "clients_reaped",
    /// Log lines that were only counted because there were too many of their kind in a second.
    LogLinesLeftOut = "log_lines_left_out",
}

/// One thread's counters. Written by that thread only.
#[derive(Debug)]
pub(crate) struct Block {
    values: Box<[AtomicU64]>,
}

impl Block {
    fn new() -> Self {
        Self { values: Counter::ALL.iter().map(|_| AtomicU64::new(0)).collect() }
    }

    fn value(&self, counter: Counter) -> Option<&AtomicU64> {
        self.values.get(counter as usize)
    }

    /// Adds to a counter.
    pub(crate) fn add(&self, counter: Counter, amount: u64) {
        if let Some(value) = self.value(counter) {
            // Relaxed, and no read-modify-write: this thread alone writes the block, and nothing is published through it.
            value.store(value.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
        }
    }

    /// Raises a counter that is a maximum.
    pub(crate) fn raise(&self, counter: Counter, amount: u64) {
        if let Some(value) = self.value(counter)
            && value.load(Ordering::Relaxed) < amount
        {
            value.store(amount, Ordering::Relaxed);
        }
    }

    /// Sets a counter that is a level, or that is kept elsewhere.
    pub(crate) fn set(&self, counter: Counter, amount: u64) {
        if let Some(value) = self.value(counter) {
            value.store(amount, Ordering::Relaxed);
        }
    }
}

/// All counters of a service.
#[derive(Debug, Clone)]
pub struct Counters {
    blocks: Arc<[Arc<Block>]>,
}

impl Counters {
    /// Makes the registry with one block for each of `threads` threads.
    pub(crate) fn new(threads: usize) -> Self {
        Self { blocks: (0..threads).map(|_| Arc::new(Block::new())).collect() }
    }

    /// The block of one thread.
    ///
    /// # Panics
    /// If the registry was made for fewer threads; the numbers are constants of this crate.
    pub(crate) fn block(&self, thread: usize) -> Arc<Block> {
        #[expect(clippy::expect_used, reason = "the registry is made for a constant number of threads")]
        Arc::clone(self.blocks.get(thread).expect("a block for each thread"))
    }

    /// The value of one counter now.
    #[must_use]
    pub fn read(&self, counter: Counter) -> u64 {
        self.blocks.iter().filter_map(|block| block.value(counter)).map(|value| value.load(Ordering::Relaxed)).sum()
    }

    /// Every counter's name and value now.
    #[must_use]
    pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
        Counter::ALL.iter().map(|counter| (counter.name(), self.read(*counter))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_see_the_sum_of_all_threads() {
        let counters = Counters::new(2);
        counters.block(0).add(Counter::EventsIn, 3);
        counters.block(1).add(Counter::EventsIn, 4);
        counters.block(1).set(Counter::CycleMax, 9);
        assert_eq!(counters.read(Counter::EventsIn), 7);
        assert!(counters.snapshot().contains(&("lane_cycle_max_ns", 9)));
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = Counter::ALL.iter().map(|counter| counter.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Counter::ALL.len());
    }
}

//! Datagrams for many services at once: the events of one channel, numbered once for a group of links.
//!
//! Each link keeps its session over a stream, its durable consumer and its own backlog. Members of a group that keep up are *in step*: the
//! first of them to take an event out of its outbox has it numbered and sent ([`GroupSender`]); the others find its number by its origin
//! and only note it ([`Member`]). The receiver takes numbers in order, requests missing ones over its session, and acknowledges there
//! ([`GroupReceiver`]). Requested events, and those too long for a datagram, are sent over the session, with their number. A slow, mute or
//! new member is *behind*: its events go over its session alone, and the others never wait for it.
//!
//! The order of each supplier holds since all flows of a group have the same events in their outboxes: when the first member in step
//! reaches an event, all events before it have numbers. A flow joins with an event that has a number, or as the only member; then all
//! earlier numbers are forgotten, so that no flow joins at a number after which events were left out.
//!
//! No number is sent twice with different events, and no [`GroupSender`] restarts at 1: a new one has another stream number.
//!
//! # The rule that drives it
//!
//! For each event that an outbox delivers, [`Member::way`] decides the path. Before [`GroupSender::number`], the members that
//! [`GroupSender::slow_consumer`] names fall back ([`Member::fall_back`]), and [`Pace::take`] admits the octets. Acknowledgements go to
//! [`GroupSender::acknowledge`] and [`Member::acknowledge`]. Timers: [`GroupSender::next_due`], [`GroupReceiver::next_due`].

mod datagram;
mod mac;
mod member;
mod pace;
mod receiver;
mod sender;

pub use datagram::{Datagram, HEAD_BYTES, Unusable, sealed_bytes, stream_of};
pub use mac::{CODE_BYTES, KEY_BYTES, Key};
pub use member::{Member, State, Way};
pub use pace::Pace;
pub use receiver::{GroupReceiver, Taken};
pub use sender::GroupSender;

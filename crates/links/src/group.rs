//! Datagrams for many services at once: the events of one channel, numbered once for a group of links.
//!
//! Each link keeps its session over a stream, its durable consumer and its own backlog. Members of a group that keep up are *in step*: the
//! first of them that takes an event out of its outbox has it numbered and sent ([`GroupSender`]), the others find its number by its origin
//! and only note it ([`Member`]). The receiver takes numbers in order, asks for those that are missing over its session, and acknowledges
//! there ([`GroupReceiver`]). What is asked for, and what is too long for a datagram, comes over the session, with its number. A member that
//! is slow, mute or new is *behind*, and has its events over its session alone; it never makes the others wait.
//!
//! The order of each supplier holds since all flows of a group have the same events in their outboxes: the first member in step that comes to
//! an event has come to all before it, so that these have numbers. A flow joins with an event that has a number, or as the only member, and
//! then what was numbered before is forgotten: no flow joins at a number after which events were left out.
//!
//! No number is sent twice with different events, and a [`GroupSender`] never begins anew at 1: another has another stream number.
//!
//! # The rule that drives it
//!
//! For each event that an outbox delivers: [`Member::way`] says how it goes. Before [`GroupSender::number`], the members that
//! [`GroupSender::slow_consumer`] names fall back ([`Member::fall_back`]), and [`Pace::take`] has let the octets pass. What is acknowledged
//! goes to [`GroupSender::acknowledge`] and [`Member::acknowledge`]. Timers: [`GroupSender::next_due`], [`GroupReceiver::next_due`].

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

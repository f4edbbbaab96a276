//! Where lanes meet publishers and subscribers of Tempo, the small protocol ([`::tempo`], `docs/tempo.md`).
//!
//! What their messages are to consumers of other doors, and those doors' events to them, is [`form`]; the types of which messages are,
//! where they are declared, [`types`].

#[cfg_attr(not(test), expect(dead_code, reason = "what takes messages from sockets is yet to be written"))]
pub(crate) mod form;
pub(crate) mod types;

//! Tests with real clients that are not ours.
//!
//! The crate has no code of its own: the programs are C++ and Java (`omniorb/`, `jacorb/`), and `tests/` drives them
//! through a service. `README.md` says how to build and call them.

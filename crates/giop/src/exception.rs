//! System exceptions.

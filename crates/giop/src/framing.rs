//! The receiving side of a connection.

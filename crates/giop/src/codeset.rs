//! Which characters travel on a connection.

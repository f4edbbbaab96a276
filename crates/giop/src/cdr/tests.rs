//! Tests of reading and writing CDR.

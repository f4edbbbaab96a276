//! The campanile command.
fn main() {}

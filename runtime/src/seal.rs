//! What stands between the bytes that tasks append to a connection and those that go out.

/// Turns the bytes that tasks append to a connection's send queue into those that go out, once per flush: encryption,
/// which costs less for all answers of a turn together than for each.
pub trait Seal {
    /// Removes from `plain` what it seals, and appends to `sealed` what is sent in its place. Called outside any task,
    /// so it must not use what needs the current shard (clocks, randomness), nor the connection itself.
    fn seal(&self, plain: &mut Vec<u8>, sealed: &mut Vec<u8>);
}

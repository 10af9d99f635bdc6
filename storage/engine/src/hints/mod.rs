//! Files of hints: mutations that other nodes have missed, which this node keeps to send them later.
//!
//! A file belongs to one node and is written by one core ([`HintWriter`]). Once it is closed it is read from its start
//! to its end ([`HintReader`]) and then deleted. Byte map: `docs/hints.md`.
//!
//! Invariants: what [`HintWriter::append`] has returned from is durable, with the file's name; no bytes on disk make
//! the reader panic, and it gives no record whose checksums are wrong.

mod file_name;
mod reader;
mod record;
mod writer;

pub use file_name::HintFileName;
pub use reader::{HintReader, Next};
pub use record::{Hint, RECORD_HEADER_BYTES, push};
pub use writer::HintWriter;

#[cfg(test)]
mod tests;

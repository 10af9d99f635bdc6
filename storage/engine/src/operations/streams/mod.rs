//! SSTables on their way between nodes. The network between the two sides is the caller's.
//!
//! 1. The sender takes a view of a table's SSTables and holds it ([`source`]). Of an SSTable that lies within the
//!    ranges its files are sent as they are; of any other the ranges are first extracted into a new one.
//! 2. The receiver writes what comes into a directory of the stream ([`target`]) and checks it by `Helenus.db`.
//! 3. [`crate::import`] makes it the table's.
//!
//! The files of streams lie below each data directory, on the same disk as the tables but in none of their directories
//! ([`directories`]): so a table's directory never shows a file that is not its own, and may go at any time.

pub mod directories;
pub mod source;
pub mod target;

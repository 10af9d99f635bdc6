//! Bytes of the CQL native protocol, pure, in both directions: versions 3 to 5.
//!
//! Steps of a server: [`decoder::Decoder`] turns received bytes into envelopes; [`request::Request::decode`] reads an
//! envelope's body, borrowing from it; [`response`] writes the answer's envelope; in version 5 [`segment`] wraps
//! envelopes into checksummed segments; [`compression`] is agreed by STARTUP. [`client`] is the other direction, for
//! tests, the simulator and load tools.
//!
//! Invariants: no I/O, no clock, no state beyond a connection's; bytes from a peer give an error, never a panic;
//! nothing is allocated by a length that a peer merely declares.
//!
//! What is not here: which state of a connection allows which message (crate `server`).

pub mod client;
pub mod compression;
pub mod decoder;
pub mod envelope;
mod lz4;
pub mod metadata;
pub mod notation;
mod protocol;
pub mod request;
pub mod response;
pub mod segment;

pub use protocol::{Opcode, Version, flags};

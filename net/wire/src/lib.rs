//! The CQL native protocol, versions 3 to 5 and 6-beta, as pure codecs in both directions.
//!
//! A server takes these steps:
//! 1. [`decoder::Decoder`] turns received bytes into envelopes, in version 5 out of checksummed segments ([`segment`]).
//! 2. [`compression`] opens bodies, if STARTUP has agreed on an algorithm.
//! 3. [`request::Request::decode`] reads an envelope's body and borrows from it; [`startup`] checks what STARTUP asks
//!    for, [`sasl`] reads the token of AUTH_RESPONSE.
//! 4. [`response`] appends the answer's envelope to the send buffer; compression or segments wrap it.
//!
//! [`client`] is the opposite direction, for tests, the simulator and load tools. Modules build on each other in the
//! order `notation`, `metadata`, `envelope`, `segment`, `compression`, `decoder`, then requests and responses.
//!
//! Invariants:
//! - No I/O, no clock, and no state beyond one connection's.
//! - Bytes from a peer give an error, never a panic.
//! - Nothing is allocated by a length that a peer merely declares.
//!
//! Which message a connection allows in which state is decided in the crate `server`.

#![deny(clippy::indexing_slicing)]

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
pub mod sasl;
pub mod segment;
pub mod startup;

pub use protocol::{Opcode, Version, flags};

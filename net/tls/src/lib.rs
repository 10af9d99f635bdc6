//! TLS over the runtime's connections: `rustls`, driven by bytes that the runtime receives and sends.
//!
//! 1. [`Options`] say by Cassandra's names what a node wants; [`Material`] holds the files' bytes.
//! 2. [`ServerContext`] and [`ClientContext`] are made of both. They are shared by all cores, and replaced as a whole
//!    when certificates are renewed.
//! 3. A [`Stream`] is a connection, encrypted or not, with the same methods as [`runtime::Stream`]. What tasks append
//!    to it during a turn of the loop is encrypted once, when it is sent ([`runtime::Seal`]).
//! 4. [`Handshakes`] bounds how many connections of a core have not shown who they are.
//!
//! Invariants: no received byte panics; nothing that was received is believed before its record was verified; errors
//! and logs never show keys or passwords.
//!
//! `rustls` also has an interface without buffers of its own. It is not used: after a handshake that failed it panics
//! when it is asked for the alert.
//!
//! Sessions are not resumed: every connection shows its certificate anew, so that a certificate that is taken out of
//! the trust store opens no connection any more. Revocation lists are not read.
//!
//! The clock by which certificates are valid is the runtime's. Keys and nonces are drawn by `ring` from the operating
//! system, in the simulator too: the bytes of a simulated connection therefore differ from run to run, and the
//! simulator notes their number only. That number is the same in every run if certificates have Ed25519 or RSA keys.

mod cipher_suites;
mod clock;
mod context;
mod credentials;
mod error;
mod handshakes;
mod options;
mod session;
mod stream;
mod trust;

pub use context::{ClientContext, ServerContext};
pub use credentials::{Credentials, Material, certificates_of_pem};
pub use error::Error;
pub use handshakes::{HANDSHAKES_MAX, HandshakeMetrics, Handshakes};
pub use options::{ClientAuth, Encryption, Format, Options, Protocols, Secret, Source};
pub use rustls::pki_types::CertificateDer;
pub use stream::{RecvBuf, Secured, Stream};
pub use trust::{names_address, subject};

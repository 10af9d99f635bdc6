//! The TLS of one connection, without its socket: received bytes in, plain bytes out, and the other way round.
//!
//! 1. [`Session::open`] takes received bytes, answers the handshake, and appends what the peer has said.
//! 2. [`Seal::seal`] encrypts what this side says, behind what the handshake and alerts have to send.
//! 3. After an error there is nothing more to receive; the alert that tells the peer is still sent.
//!
//! Invariants: plain bytes are given out only after their record was verified; before the handshake has ended nothing
//! that this side says is sent.

use crate::cipher_suites;
use crate::context::{ClientContext, ServerContext};
use runtime::Seal;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConnection, Connection, ProtocolVersion, ServerConnection};
use std::cell::RefCell;
use std::io::{Read, Write};

/// What both sides have agreed on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Secured {
    /// `TLSv1.2` or `TLSv1.3`.
    pub protocol: &'static str,
    /// The cipher suite, by its name in Java.
    pub cipher_suite: String,
    /// The certificates that the peer has shown, its own first; empty if none.
    pub peer_certificates: Vec<CertificateDer<'static>>,
}

impl Secured {
    /// The URIs that the peer's own certificate names as its subject; `None` if it has shown none, or none that can be
    /// read.
    pub fn peer_uris(&self) -> Option<Vec<String>> {
        let certificate = webpki::EndEntityCert::try_from(self.peer_certificates.first()?).ok()?;
        Some(certificate.valid_uri_names().map(str::to_owned).collect())
    }
}

pub(crate) struct Session(RefCell<State>);

struct State {
    connection: Connection,
    is_peer_done: bool,
    /// This side wants to end the connection.
    closing: bool,
    failed: Option<rustls::Error>,
}

impl Session {
    /// The side that was connected to.
    pub(crate) fn server(context: &ServerContext) -> Result<Session, rustls::Error> {
        ServerConnection::new(context.config.clone()).map(|connection| Session::of(connection.into()))
    }

    /// The side that has connected, to the machine with this name or address.
    pub(crate) fn client(context: &ClientContext, to: ServerName<'static>) -> Result<Session, rustls::Error> {
        ClientConnection::new(context.config.clone(), to).map(|connection| Session::of(connection.into()))
    }

    fn of(mut connection: Connection) -> Session {
        // What waits is bounded by who writes.
        connection.set_buffer_limit(None);
        Session(RefCell::new(State { connection, is_peer_done: false, closing: false, failed: None }))
    }

    /// Takes received bytes and appends to `plain` what the peer has said.
    pub(crate) fn open(&self, bytes: &[u8], plain: &mut Vec<u8>) -> Result<(), rustls::Error> {
        self.0.borrow_mut().open(bytes, plain)
    }

    /// Whether there is something to send beside what this side says.
    pub(crate) fn has_outgoing(&self) -> bool {
        self.0.borrow().connection.wants_write()
    }

    /// Whether the handshake has ended.
    pub(crate) fn is_established(&self) -> bool {
        !self.0.borrow().connection.is_handshaking()
    }

    /// Whether the peer has said that nothing more comes.
    pub(crate) fn is_peer_done(&self) -> bool {
        self.0.borrow().is_peer_done
    }

    /// Tells the peer, with the next bytes that are sent, that nothing more comes.
    pub(crate) fn close(&self) {
        self.0.borrow_mut().closing = true;
    }

    /// What both sides have agreed on, once the handshake has ended.
    pub(crate) fn secured(&self) -> Secured {
        let state = self.0.borrow();
        let common = &state.connection;
        Secured {
            protocol: match common.protocol_version() {
                Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
                _ => "TLSv1.3",
            },
            cipher_suite: common
                .negotiated_cipher_suite()
                .map_or_else(String::new, |suite| cipher_suites::name(suite.suite())),
            peer_certificates: common.peer_certificates().unwrap_or_default().to_vec(),
        }
    }
}

impl State {
    fn open(&mut self, mut bytes: &[u8], plain: &mut Vec<u8>) -> Result<(), rustls::Error> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        while !bytes.is_empty() && !self.is_peer_done {
            // A part of the bytes is taken at a time, and what the peer has said is fetched before the next part.
            let taken = self.connection.read_tls(&mut bytes).unwrap_or(0);
            let opened = match self.connection.process_new_packets() {
                Ok(opened) if taken > 0 || opened.peer_has_closed() => opened,
                Ok(_) => return self.fail(rustls::Error::General("too much is received at once".into())),
                Err(error) => return self.fail(error),
            };
            self.is_peer_done = opened.peer_has_closed();
            let start = plain.len();
            plain.resize(start + opened.plaintext_bytes_to_read(), 0);
            if self.connection.reader().read_exact(&mut plain[start..]).is_err() {
                plain.truncate(start);
                return self.fail(rustls::Error::General("the end came early".into()));
            }
        }
        Ok(())
    }

    fn fail(&mut self, error: rustls::Error) -> Result<(), rustls::Error> {
        self.failed = Some(error.clone());
        Err(error)
    }

    fn seal(&mut self, plain: &mut Vec<u8>, sealed: &mut Vec<u8>) {
        let mut said = Ok(());
        if self.failed.is_some() {
            plain.clear();
        } else if !self.connection.is_handshaking() {
            if !plain.is_empty() {
                said = self.connection.writer().write_all(plain);
                plain.clear();
            }
            if std::mem::take(&mut self.closing) {
                self.connection.send_close_notify();
            }
        }
        while said.is_ok() && self.connection.wants_write() {
            said = self.connection.write_tls(sealed).map(|_| ());
        }
        if said.is_err() {
            self.failed = Some(rustls::Error::EncryptError);
        }
    }
}

impl Seal for Session {
    fn seal(&self, plain: &mut Vec<u8>, sealed: &mut Vec<u8>) {
        self.0.borrow_mut().seal(plain, sealed);
    }
}

#[cfg(test)]
mod tests;

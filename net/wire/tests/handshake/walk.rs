//! A server's side of a connection until its client has logged in, without a server: what the fuzz target `handshake`
//! and the test of mutated handshakes walk through.

use wire::Opcode;
use wire::Version;
use wire::compression::Compression;
use wire::decoder::{Decoder, Event, UNREADY_BYTES_MAX};
use wire::envelope::Envelope;
use wire::request::Request;
use wire::sasl::Credentials;
use wire::startup::Startup;

/// How far a client has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Reached {
    /// It has not begun.
    #[default]
    Nothing,
    /// OPTIONS was answered.
    Options,
    /// STARTUP was accepted.
    Started,
    /// A name and a password were read.
    LoggedIn,
}

/// The state of a walk.
pub(crate) struct Walk {
    decoder: Decoder,
    compression: Option<Compression>,
    reached: Reached,
}

impl Walk {
    /// Receives bytes in pieces of some length, until the connection would be closed. Returns how far the client has
    /// come. Panics if more is kept than what was received can stand for.
    pub(crate) fn run(bytes: &[u8], piece: usize) -> Reached {
        let mut walk = Walk { decoder: Decoder::server(Version::V3), compression: None, reached: Reached::Nothing };
        for part in bytes.chunks(piece.max(1)) {
            walk.decoder.feed(part);
            while let Some(event) = walk.decoder.next_event() {
                let goes_on = match event {
                    Event::Envelope(envelope) => walk.take(envelope),
                    Event::Refusal(refusal) => !refusal.close,
                };
                if !goes_on {
                    return walk.reached;
                }
            }
            // An LZ4 block stands for at most 255 times its bytes.
            assert!(walk.decoder.buffered() <= bytes.len() * 255);
        }
        walk.reached
    }

    /// Takes a message; whether the connection goes on.
    fn take(&mut self, mut envelope: Envelope) -> bool {
        assert!(envelope.body.len() <= UNREADY_BYTES_MAX, "nothing larger before the login");
        let header = envelope.header;
        match (self.reached, header.opcode) {
            (Reached::Nothing | Reached::Options, Opcode::Options | Opcode::Startup) => {}
            (Reached::Started, Opcode::AuthResponse) => {
                if envelope.open(self.compression, UNREADY_BYTES_MAX).is_err() {
                    return true;
                }
            }
            (Reached::Started, _) => return true,
            _ => return false,
        }
        match Request::decode(header.version, header.opcode, header.flags, &envelope.body) {
            Ok(Request::Startup(options)) => {
                let Ok(startup) = Startup::check(header.version, &options) else { return true };
                self.decoder.agree_before_login(header.version);
                self.compression = startup.compression;
                if header.version >= Version::V5 && startup.compression.is_some() {
                    self.decoder.agree_compressed_segments();
                }
                self.reached = Reached::Started;
            }
            Ok(Request::AuthResponse(token)) => {
                if let Ok(Credentials { name, password }) = Credentials::decode(token.unwrap_or_default()) {
                    assert!(!name.is_empty() && !password.is_empty() && !name.contains('\0'));
                    self.reached = Reached::LoggedIn;
                    return false;
                }
            }
            Ok(_) => self.reached = self.reached.max(Reached::Options),
            Err(_) => return self.reached == Reached::Started,
        }
        true
    }
}

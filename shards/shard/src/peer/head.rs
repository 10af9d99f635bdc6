//! What every request for data begins with:
//! ```text
//! version u8 = 1
//! epoch u64 of the metadata in which the request was planned
//! ```
//! A request on behalf of a client's request that is traced begins with more:
//! ```text
//! version u8 = 2
//! session [16]: the id of the trace
//! coordinator [16]: the host id of the node that asks
//! epoch u64
//! ```

use super::bytes::Reader;
use uuid::Uuid;

const VERSION: u8 = 1;
const VERSION_TRACED: u8 = 2;

/// The trace that a request belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TracedSession {
    /// The id of the trace.
    pub(crate) id: [u8; 16],
    /// The host id of the node that asks.
    pub(crate) coordinator: Uuid,
}

/// The head of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    /// The epoch of the metadata in which the request was planned.
    pub(crate) epoch: u64,
}

impl Head {
    /// The length of an encoded head.
    pub(crate) const BYTES: usize = 1 + 8;

    /// A body that begins with this head, and with room for as many bytes more.
    pub(crate) fn body(self, room: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(Head::BYTES + room);
        out.push(VERSION);
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out
    }

    /// The head of a body, and what follows it.
    pub(crate) fn split(body: &[u8]) -> Option<(Head, &[u8])> {
        let mut reader = Reader::new(body);
        match reader.u8()? {
            VERSION => {}
            VERSION_TRACED => _ = (reader.chunk::<16>()?, reader.chunk::<16>()?),
            _ => return None,
        }
        Some((Head { epoch: reader.u64()? }, reader.rest()))
    }
}

impl TracedSession {
    /// A copy of `body`, a request without a trace, that belongs to this one.
    pub(crate) fn with(self, body: &[u8]) -> Vec<u8> {
        let untraced = body.get(1..).unwrap_or_default();
        [&[VERSION_TRACED][..], &self.id, self.coordinator.as_bytes(), untraced].concat()
    }

    /// The trace that a request belongs to, if it does.
    pub(crate) fn of(body: &[u8]) -> Option<TracedSession> {
        let mut reader = Reader::new(body);
        if reader.u8()? != VERSION_TRACED {
            return None;
        }
        Some(TracedSession { id: reader.chunk()?, coordinator: Uuid::from_bytes(reader.chunk()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let mut body = Head { epoch: 0x0102_0304 }.body(3);
        body.extend_from_slice(b"abc");
        assert_eq!(body, [1, 4, 3, 2, 1, 0, 0, 0, 0, b'a', b'b', b'c']);
        assert_eq!(Head::split(&body), Some((Head { epoch: 0x0102_0304 }, &b"abc"[..])));
        assert!((0..9).all(|len| Head::split(&body[..len]).is_none()), "too short");
        assert_eq!(TracedSession::of(&body), None);
        let session = TracedSession { id: *b"0123456789abcdef", coordinator: Uuid::from_bytes(*b"ABCDEFGHIJKLMNOP") };
        let traced = session.with(&body);
        assert_eq!(traced, b"\x020123456789abcdefABCDEFGHIJKLMNOP\x04\x03\x02\x01\0\0\0\0abc");
        assert_eq!((TracedSession::of(&traced), Head::split(&traced)), (Some(session), Head::split(&body)));
        assert!((0..41).all(|len| Head::split(&traced[..len]).is_none()), "too short");
        assert!((0..33).all(|len| TracedSession::of(&traced[..len]).is_none()), "too short");
        body[0] = 3;
        assert_eq!((Head::split(&body), TracedSession::of(&body)), (None, None), "another version");
    }
}

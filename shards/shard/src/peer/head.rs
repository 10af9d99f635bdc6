//! What every request for data begins with:
//! ```text
//! version u8 = 1
//! epoch u64 of the metadata in which the request was planned
//! ```

use super::bytes::Reader;

const VERSION: u8 = 1;

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
        if reader.u8()? != VERSION {
            return None;
        }
        Some((Head { epoch: reader.u64()? }, reader.rest()))
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
        body[0] = 2;
        assert_eq!(Head::split(&body), None, "another version");
    }
}

//! Writing and reading the primitive parts of records and messages: numbers are big-endian, lists and strings of bytes
//! carry their length as four bytes.

use uuid::Uuid;

/// Adds primitive parts to a buffer.
pub(crate) trait Put {
    fn put_u8(&mut self, value: u8);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    fn put_uuid(&mut self, value: Uuid);
    /// Adds a length and the bytes.
    fn put_bytes(&mut self, value: &[u8]);
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_uuid(&mut self, value: Uuid) {
        self.extend_from_slice(value.as_bytes());
    }

    fn put_bytes(&mut self, value: &[u8]) {
        self.put_u32(u32::try_from(value.len()).expect("limits of commands and snapshots are far below 4 GiB"));
        self.extend_from_slice(value);
    }
}

/// Takes primitive parts off the front of a slice; `None` if it is too short or the part cannot be.
pub(crate) struct Take<'a>(pub(crate) &'a [u8]);

impl<'a> Take<'a> {
    pub(crate) fn exactly(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.exactly(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn bool(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn uuid(&mut self) -> Option<Uuid> {
        self.array().map(Uuid::from_bytes)
    }

    /// A length of at most `max`, and as many bytes.
    pub(crate) fn bytes(&mut self, max: usize) -> Option<&'a [u8]> {
        let len = self.u32()? as usize;
        if len > max {
            return None;
        }
        self.exactly(len)
    }

    /// A number of items of at least `item_bytes` each that the rest can hold, so that nobody makes us reserve more
    /// memory than was sent.
    pub(crate) fn count(&mut self, item_bytes: usize) -> Option<usize> {
        let count = self.u32()? as usize;
        (count <= self.0.len() / item_bytes).then_some(count)
    }

    /// `value` if nothing is left.
    pub(crate) fn end<T>(self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::{Put, Take};
    use uuid::Uuid;

    #[test]
    fn parts_come_back() {
        let mut out = Vec::new();
        out.put_u8(1);
        out.put_u32(70_000);
        out.put_u64(1 << 40);
        out.put_uuid(Uuid::from_u128(7));
        out.put_bytes(b"abc");
        let mut take = Take(&out);
        assert_eq!(take.bool(), Some(true));
        assert_eq!(take.u32(), Some(70_000));
        assert_eq!(take.u64(), Some(1 << 40));
        assert_eq!(take.uuid(), Some(Uuid::from_u128(7)));
        assert_eq!(take.bytes(3), Some(&b"abc"[..]));
        assert_eq!(take.end(()), Some(()));
    }

    #[test]
    fn lengths_have_limits() {
        let bytes = [0, 0, 0, 3, 1, 2, 3];
        assert_eq!(Take(&bytes).bytes(3), Some(&[1, 2, 3][..]));
        assert_eq!(Take(&bytes).bytes(2), None);
        assert_eq!(Take(&bytes[..6]).bytes(3), None);
        assert_eq!(Take(&bytes).count(1), Some(3));
        assert_eq!(Take(&bytes).count(2), None);
        assert_eq!(Take(&[2]).bool(), None);
        assert_eq!(Take(&[1]).end(()), None);
    }
}

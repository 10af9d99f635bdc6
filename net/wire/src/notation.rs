//! The protocol's primitive notations, such as `[short]`, `[string]` and `[bytes]`: read from a slice, appended to a
//! vector.
//!
//! Invariants: a [`Reader`] never reads beyond its slice and never allocates by a declared length; big-endian
//! throughout.

use model::Failure;
use model::value::BoundValue;
use std::net::IpAddr;

/// Reads notations from the front of a slice. Every method fails with a protocol error (0x000A) if the bytes do not
/// suffice.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader that starts at the first of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// The bytes that have not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn take(&mut self, count: usize, what: &str) -> Result<&'a [u8], Failure> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            return Err(Failure::protocol(format!("Not enough bytes to read {what}")));
        };
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Failure> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(Failure::protocol(format!("Not enough bytes to read {what}")));
        };
        self.rest = rest;
        Ok(*taken)
    }

    /// `[byte]`.
    pub fn byte(&mut self) -> Result<u8, Failure> {
        let [byte] = self.array("a byte")?;
        Ok(byte)
    }

    /// `[short]`.
    pub fn short(&mut self) -> Result<u16, Failure> {
        Ok(u16::from_be_bytes(self.array("a short")?))
    }

    /// `[int]`.
    pub fn int(&mut self) -> Result<i32, Failure> {
        Ok(i32::from_be_bytes(self.array("an int")?))
    }

    /// `[long]`.
    pub fn long(&mut self) -> Result<i64, Failure> {
        Ok(i64::from_be_bytes(self.array("a long")?))
    }

    /// `[uuid]`.
    pub fn uuid(&mut self) -> Result<[u8; 16], Failure> {
        self.array("a UUID")
    }

    /// `[string]`.
    pub fn string(&mut self) -> Result<&'a str, Failure> {
        const WHAT: &str = "an UTF8 serialized string preceded by its 2 bytes length";
        let length = u16::from_be_bytes(self.array(WHAT)?) as usize;
        text(self.take(length, WHAT)?)
    }

    /// `[long string]`; a negative length is an error.
    pub fn long_string(&mut self) -> Result<&'a str, Failure> {
        const WHAT: &str = "an UTF8 serialized string preceded by its 4 bytes length";
        let length = i32::from_be_bytes(self.array(WHAT)?);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        text(self.take(length, WHAT)?)
    }

    /// `[bytes]`; `None` is null, which any negative length means.
    pub fn bytes(&mut self) -> Result<Option<&'a [u8]>, Failure> {
        const WHAT: &str = "a byte array preceded by its 4 bytes length";
        match usize::try_from(i32::from_be_bytes(self.array(WHAT)?)) {
            Ok(length) => self.take(length, WHAT).map(Some),
            Err(_) => Ok(None),
        }
    }

    /// `[short bytes]`.
    pub fn short_bytes(&mut self) -> Result<&'a [u8], Failure> {
        const WHAT: &str = "a byte array preceded by its 2 bytes length";
        let length = u16::from_be_bytes(self.array(WHAT)?) as usize;
        self.take(length, WHAT)
    }

    /// `[value]`: a length of -1 is null, -2 is unset. With `unset` false, as in version 3, any negative length is
    /// null.
    pub fn value(&mut self, unset: bool) -> Result<BoundValue<'a>, Failure> {
        const WHAT: &str = "a byte array preceded by its 4 bytes length";
        match i32::from_be_bytes(self.array(WHAT)?) {
            -1 => Ok(BoundValue::Null),
            -2 if unset => Ok(BoundValue::Unset),
            ..0 if !unset => Ok(BoundValue::Null),
            length => match usize::try_from(length) {
                Ok(length) => self.take(length, WHAT).map(BoundValue::Bytes),
                Err(_) => Err(Failure::protocol(format!("Invalid ByteBuf length {length}"))),
            },
        }
    }

    /// `[inetaddr]`.
    pub fn inet_address(&mut self) -> Result<IpAddr, Failure> {
        let length = usize::from(self.byte()?);
        let bytes = self.take(length, "an address")?;
        match (<[u8; 4]>::try_from(bytes), <[u8; 16]>::try_from(bytes)) {
            (Ok(bytes), _) => Ok(IpAddr::from(bytes)),
            (_, Ok(bytes)) => Ok(IpAddr::from(bytes)),
            _ => Err(Failure::protocol("an address has 4 or 16 bytes")),
        }
    }

    /// `[string list]`.
    pub fn string_list(&mut self) -> Result<Vec<&'a str>, Failure> {
        let count = self.short()?;
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(self.string()?);
        }
        Ok(list)
    }

    /// `[string map]`, in the order sent.
    pub fn string_map(&mut self) -> Result<Vec<(&'a str, &'a str)>, Failure> {
        let count = self.short()?;
        let mut map = Vec::new();
        for _ in 0..count {
            map.push((self.string()?, self.string()?));
        }
        Ok(map)
    }

    /// `[string multimap]`, in the order sent.
    pub fn string_multimap(&mut self) -> Result<Vec<(&'a str, Vec<&'a str>)>, Failure> {
        let count = self.short()?;
        let mut map = Vec::new();
        for _ in 0..count {
            map.push((self.string()?, self.string_list()?));
        }
        Ok(map)
    }

    /// A `[bytes map]`; null is empty.
    pub fn bytes_map(&mut self) -> Result<Vec<(String, Vec<u8>)>, Failure> {
        let count = self.short()?;
        (0..count).map(|_| Ok((self.string()?.to_owned(), self.bytes()?.unwrap_or_default().to_vec()))).collect()
    }

    /// Skips a `[bytes map]`.
    pub fn skip_bytes_map(&mut self) -> Result<(), Failure> {
        self.is_in_bytes_map("").map(|_| ())
    }

    /// Skips a `[bytes map]`. Returns whether `name` is one of its names.
    pub fn is_in_bytes_map(&mut self, name: &str) -> Result<bool, Failure> {
        let mut is_named = false;
        for _ in 0..self.short()? {
            is_named |= self.string()? == name;
            self.bytes()?;
        }
        Ok(is_named)
    }
}

fn text(bytes: &[u8]) -> Result<&str, Failure> {
    std::str::from_utf8(bytes).map_err(|error| {
        let shown = bytes.iter().take(TEXT_SHOWN_MAX).map(|byte| format!("{byte:02x}")).collect::<String>();
        Failure::protocol(format!("Cannot decode string as UTF8: '{shown}'; invalid at byte {}", error.valid_up_to()))
    })
}

/// How many bytes of a malformed string the error text shows.
const TEXT_SHOWN_MAX: usize = 64;

/// Appends `[string]`. A text of more than 65535 bytes is cut at a character boundary.
pub fn put_string(out: &mut Vec<u8>, text: &str) {
    let (text, _) = text.split_at(text.floor_char_boundary(u16::MAX as usize));
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// Appends `[long string]`.
pub fn put_long_string(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, Some(text.as_bytes()));
}

/// Appends `[bytes]` of less than 2 GiB; `None` is null.
pub fn put_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
            out.extend_from_slice(bytes);
        }
        None => out.extend_from_slice(&(-1i32).to_be_bytes()),
    }
}

/// Appends `[short bytes]`. Bytes beyond the first 65535 are left out.
pub fn put_short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let bytes = bytes.get(..u16::MAX as usize).unwrap_or(bytes);
    out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Appends `[value]`.
pub fn put_value(out: &mut Vec<u8>, value: &BoundValue<'_>) {
    match value {
        BoundValue::Null => out.extend_from_slice(&(-1i32).to_be_bytes()),
        BoundValue::Unset => out.extend_from_slice(&(-2i32).to_be_bytes()),
        BoundValue::Bytes(bytes) => put_bytes(out, Some(bytes)),
    }
}

/// Appends `[short]`.
pub fn put_short(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends `[int]`.
pub fn put_int(out: &mut Vec<u8>, value: i32) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends `[inetaddr]`.
pub fn put_inet_address(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => {
            out.push(4);
            out.extend_from_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            out.push(16);
            out.extend_from_slice(&address.octets());
        }
    }
}

/// Appends `[string list]`. Strings beyond the first 65535 are left out.
pub fn put_string_list<'a>(out: &mut Vec<u8>, list: impl ExactSizeIterator<Item = &'a str>) {
    put_short(out, list.len().min(u16::MAX as usize) as u16);
    for text in list.take(u16::MAX as usize) {
        put_string(out, text);
    }
}

/// Overwrites bytes of `out` at `at`, where the caller has appended a placeholder of their size.
pub(crate) fn fill_in<const N: usize>(out: &mut [u8], at: usize, bytes: [u8; N]) {
    let (_, rest) = out.split_at_mut(at);
    *rest.first_chunk_mut().expect("a placeholder was appended there") = bytes;
}

//! The greeting: what both sides of a connection tell each other before any message.
//!
//! ```text
//! at  bytes
//!  0   8    "helenus\n"
//!  8   1    1 hello (from the side that dialled), 2 welcome, 3 refusal (answers to it)
//!  9   1    0
//! 10   2    oldest version of messages; in a welcome the version that both speak
//! 12   2    newest version; in a welcome the same once more
//! 14   2    bytes of the body, at most BODY_BYTES_MAX
//! 16   n    body
//! 16+n 8    xxh3-64 of all bytes before
//! ```
//! Integers are little-endian; a name is 2 bytes of length and UTF-8. Bodies:
//! ```text
//! hello     1 lane, 8 the sender's clock in microseconds, identity
//! welcome   identity
//! identity  16 cluster id (zeros: none yet), 16 host id, 1 family (4 or 6), 4 or 16 address, 2 port, 2 core, 2 cores,
//!           1 ignored bits, 8 features, name of cluster, data centre and rack
//! refusal   1 reason, a name: the text
//! ```
//! This layout is the same in all versions. A later one may append to a body; earlier ones skip what they do not know.
//!
//! Invariants: no bytes panic; what cannot become a greeting is refused with the first byte that shows it, and a length
//! is checked before the bytes are waited for.

use crate::identity::{Identity, NAME_BYTES_MAX, Refusal, RefusalReason, Versions};
use crate::lane::Lane;
use runtime::{ShardId, hash64};
use std::net::{IpAddr, SocketAddr};
use uuid::Uuid;

/// The most bytes of a greeting's body.
pub const BODY_BYTES_MAX: usize = 4096;

const MAGIC: &[u8; 8] = b"helenus\n";
const KIND_AT: usize = 8;
const LENGTH_AT: usize = 14;
const BODY_AT: usize = 16;
const HASH_BYTES: usize = 8;

/// One side's greeting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Greeting {
    /// From the side that dialled.
    Hello {
        /// The lane that the connection is for.
        lane: Lane,
        /// The sender's monotonic clock, in microseconds.
        clock_micros: u64,
        /// Who dialled.
        identity: Identity,
    },
    /// The other side agrees.
    Welcome {
        /// The version that both speak from here on.
        version: u16,
        /// Who answered. Its `versions` are the agreed one alone.
        identity: Identity,
    },
    /// The other side does not want to talk.
    Refusal(Refusal),
}

/// The bytes are no greeting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotAGreeting;

impl Greeting {
    /// Appends the bytes. Names and texts beyond [`NAME_BYTES_MAX`] are cut.
    pub fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let (kind, versions) = match self {
            Greeting::Hello { identity, .. } => (1, identity.versions),
            Greeting::Welcome { version, .. } => (2, Versions { min: *version, max: *version }),
            Greeting::Refusal(_) => (3, Versions { min: 0, max: 0 }),
        };
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[kind, 0]);
        out.extend_from_slice(&versions.min.to_le_bytes());
        out.extend_from_slice(&versions.max.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        match self {
            Greeting::Hello { lane, clock_micros, identity } => {
                out.push(*lane as u8);
                out.extend_from_slice(&clock_micros.to_le_bytes());
                put_identity(out, identity);
            }
            Greeting::Welcome { identity, .. } => put_identity(out, identity),
            Greeting::Refusal(refusal) => {
                out.push(refusal.reason as u8);
                put_name(out, &refusal.text);
            }
        }
        let length = (out.len() - start - BODY_AT) as u16;
        out[start + LENGTH_AT..start + BODY_AT].copy_from_slice(&length.to_le_bytes());
        let hash = hash64(&out[start..]);
        out.extend_from_slice(&hash.to_le_bytes());
    }

    /// The greeting at the start of `bytes` and how many bytes it takes; `None` while more have to arrive.
    pub fn take(bytes: &[u8]) -> Result<Option<(Greeting, usize)>, NotAGreeting> {
        let known = bytes.len().min(MAGIC.len());
        if bytes[..known] != MAGIC[..known] {
            return Err(NotAGreeting);
        }
        let Some(&kind) = bytes.get(KIND_AT) else { return Ok(None) };
        if !(1..=3).contains(&kind) {
            return Err(NotAGreeting);
        }
        let Some(head) = bytes.get(..BODY_AT) else { return Ok(None) };
        let mut fields = Reader(&head[KIND_AT + 2..]);
        let (min, max) = (fields.u16()?, fields.u16()?);
        let body_end = BODY_AT + fields.u16()? as usize;
        if body_end > BODY_AT + BODY_BYTES_MAX {
            return Err(NotAGreeting);
        }
        let Some(hash) = bytes.get(body_end..body_end + HASH_BYTES) else { return Ok(None) };
        if hash != hash64(&bytes[..body_end]).to_le_bytes() {
            return Err(NotAGreeting);
        }
        let mut body = Reader(&bytes[BODY_AT..body_end]);
        let versions = Versions { min, max };
        let greeting = match kind {
            1 => {
                let lane = Lane::try_from(body.u8()?).map_err(|_| NotAGreeting)?;
                Greeting::Hello { lane, clock_micros: body.u64()?, identity: body.identity(versions)? }
            }
            2 => Greeting::Welcome { version: max, identity: body.identity(versions)? },
            _ => {
                let reason = RefusalReason::from(body.u8()?);
                Greeting::Refusal(Refusal { reason, text: body.name()? })
            }
        };
        Ok(Some((greeting, body_end + HASH_BYTES)))
    }
}

fn put_name(out: &mut Vec<u8>, name: &str) {
    let name = &name[..name.floor_char_boundary(NAME_BYTES_MAX)];
    out.extend_from_slice(&(name.len() as u16).to_le_bytes());
    out.extend_from_slice(name.as_bytes());
}

fn put_identity(out: &mut Vec<u8>, identity: &Identity) {
    out.extend_from_slice(identity.cluster_id.unwrap_or_default().as_bytes());
    out.extend_from_slice(identity.host_id.as_bytes());
    match identity.address.ip() {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(6);
            out.extend_from_slice(&ip.octets());
        }
    }
    out.extend_from_slice(&identity.address.port().to_le_bytes());
    out.extend_from_slice(&identity.shard.0.to_le_bytes());
    out.extend_from_slice(&identity.shards.to_le_bytes());
    out.push(identity.ignore_msb);
    out.extend_from_slice(&identity.features.to_le_bytes());
    for name in [&identity.cluster_name, &identity.data_center, &identity.rack] {
        put_name(out, name);
    }
}

/// Takes fields from the front of a body.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], NotAGreeting> {
        let (field, rest) = self.0.split_first_chunk::<N>().ok_or(NotAGreeting)?;
        self.0 = rest;
        Ok(*field)
    }

    fn u8(&mut self) -> Result<u8, NotAGreeting> {
        self.array().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Result<u16, NotAGreeting> {
        self.array().map(u16::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, NotAGreeting> {
        self.array().map(u64::from_le_bytes)
    }

    fn name(&mut self) -> Result<String, NotAGreeting> {
        let len = self.u16()? as usize;
        if len > NAME_BYTES_MAX {
            return Err(NotAGreeting);
        }
        let (name, rest) = self.0.split_at_checked(len).ok_or(NotAGreeting)?;
        self.0 = rest;
        std::str::from_utf8(name).map(str::to_owned).map_err(|_| NotAGreeting)
    }

    fn identity(&mut self, versions: Versions) -> Result<Identity, NotAGreeting> {
        let cluster_id = Some(Uuid::from_bytes(self.array()?)).filter(|id| !id.is_nil());
        let host_id = Uuid::from_bytes(self.array()?);
        let ip = match self.u8()? {
            4 => IpAddr::from(self.array::<4>()?),
            6 => IpAddr::from(self.array::<16>()?),
            _ => return Err(NotAGreeting),
        };
        let address = SocketAddr::new(ip, self.u16()?);
        let (shard, shards) = (ShardId(self.u16()?), self.u16()?);
        if shard.0 >= shards || versions.min > versions.max {
            return Err(NotAGreeting);
        }
        let (ignore_msb, features) = (self.u8()?, self.u64()?);
        let (cluster_name, data_center, rack) = (self.name()?, self.name()?, self.name()?);
        Ok(Identity {
            cluster_name,
            cluster_id,
            host_id,
            address,
            data_center,
            rack,
            shard,
            shards,
            ignore_msb,
            versions,
            features,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::tests::identity;

    fn all() -> Vec<Greeting> {
        let six = Identity { cluster_id: None, address: "[::1]:7001".parse().expect("an address"), ..identity() };
        let agreed = Identity { versions: Versions { min: 2, max: 2 }, ..identity() };
        vec![
            Greeting::Hello { lane: Lane::Bulk, clock_micros: 77, identity: identity() },
            Greeting::Hello { lane: Lane::Urgent, clock_micros: u64::MAX, identity: six },
            Greeting::Welcome { version: 2, identity: agreed },
            Greeting::Refusal(Refusal { reason: RefusalReason::Left, text: "gone".into() }),
        ]
    }

    fn bytes(greeting: &Greeting) -> Vec<u8> {
        let mut out = Vec::new();
        greeting.put(&mut out);
        out
    }

    #[test]
    fn greetings_are_read_as_they_were_written() {
        for greeting in all() {
            let mut written = bytes(&greeting);
            let len = written.len();
            for end in 0..len {
                assert_eq!(Greeting::take(&written[..end]), Ok(None), "{end} bytes of {greeting:?}");
            }
            written.extend_from_slice(b"what follows");
            assert_eq!(Greeting::take(&written), Ok(Some((greeting, len))));
        }
    }

    #[test]
    fn golden_bytes() {
        let hello = bytes(&all()[0]);
        let mut expected = b"helenus\n\x01\0\x01\0\x02\0\x5f\0".to_vec();
        expected.extend_from_slice(b"\x02\x4d\0\0\0\0\0\0\0");
        expected.extend_from_slice(&[[0; 15].as_slice(), b"\xc1", &[0; 15], b"\x1d"].concat());
        expected.extend_from_slice(b"\x04\x7f\0\0\x01\x58\x1b\x01\0\x02\0\x0c\x05\0\0\0\0\0\0\0");
        expected.extend_from_slice(b"\x0c\0Test Cluster\x0b\0datacenter1\x05\0rack1");
        assert_eq!(hello[..hello.len() - HASH_BYTES], expected);
        assert_eq!(hello[hello.len() - HASH_BYTES..], hash64(&expected).to_le_bytes());
        assert_eq!(bytes(&all()[3])[..23], *b"helenus\n\x03\0\0\0\0\0\x07\0\x04\x04\0gone");
    }

    #[test]
    fn every_flipped_bit_shows() {
        for greeting in all() {
            let written = bytes(&greeting);
            for bit in 0..written.len() * 8 {
                let mut damaged = written.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                // A longer body is waited for, and then has another hash.
                damaged.resize(BODY_AT + BODY_BYTES_MAX + HASH_BYTES, 0);
                assert_eq!(Greeting::take(&damaged), Err(NotAGreeting), "bit {bit} of {greeting:?}");
            }
        }
    }

    #[test]
    fn a_stranger_is_known_by_the_first_byte() {
        assert_eq!(Greeting::take(b"G"), Err(NotAGreeting));
        assert_eq!(Greeting::take(b"helenus\n\x04"), Err(NotAGreeting));
        assert_eq!(Greeting::take(b""), Ok(None));
    }

    /// A hello with a body of so many bytes.
    fn padded(body_bytes: usize) -> Vec<u8> {
        let mut written = bytes(&all()[0]);
        written.truncate(written.len() - HASH_BYTES);
        written.resize(BODY_AT + body_bytes, 0xee);
        written[LENGTH_AT..BODY_AT].copy_from_slice(&(body_bytes as u16).to_le_bytes());
        let hash = hash64(&written);
        written.extend_from_slice(&hash.to_le_bytes());
        written
    }

    #[test]
    fn bodies_may_grow_up_to_their_limit() {
        let greeting = Greeting::take(&padded(BODY_BYTES_MAX)).expect("a greeting").map(|(greeting, _)| greeting);
        assert_eq!(greeting, Some(all()[0].clone()), "what was appended is skipped");
        let longer = padded(BODY_BYTES_MAX + 1);
        assert_eq!(Greeting::take(&longer[..BODY_AT]), Err(NotAGreeting), "before the body is waited for");
        let shorter = padded(40);
        assert_eq!(Greeting::take(&shorter), Err(NotAGreeting), "fields are missing");
    }

    #[test]
    fn names_fit_up_to_their_limit() {
        let named = |len| Greeting::Hello {
            lane: Lane::Requests,
            clock_micros: 0,
            identity: Identity { cluster_name: "é".repeat(len / 2), ..identity() },
        };
        let read = |greeting: &Greeting| Greeting::take(&bytes(greeting)).expect("a greeting").expect("complete").0;
        let longest = named(NAME_BYTES_MAX);
        assert_eq!(read(&longest), longest);
        assert_eq!(read(&named(NAME_BYTES_MAX + 2)), longest, "the rest is cut");
        let mut long = vec![0xff, 0xff];
        long.resize(NAME_BYTES_MAX * 2, b'a');
        assert_eq!(Reader(&long).name(), Err(NotAGreeting));
    }

    #[test]
    fn a_core_outside_its_node_is_refused() {
        for (shard, shards) in [(2, 2), (0, 0)] {
            let identity = Identity { shard: ShardId(shard), shards, ..identity() };
            let written = bytes(&Greeting::Hello { lane: Lane::Bulk, clock_micros: 0, identity });
            assert_eq!(Greeting::take(&written), Err(NotAGreeting));
        }
    }
}

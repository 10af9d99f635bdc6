//! The messages of gossip and their bytes.
//!
//! Numbers are big-endian. `text` is a u16 length and UTF-8. `address` is a byte 4 or 6, the IP address (4 or 16
//! bytes) and a u16 port.
//!
//! ```text
//! message  u8   version of the layout: 1
//!          u8   kind: 1 SYN, 2 ACK, 3 ACK2, 4 ECHO, 5 ECHO_REPLY, 6 SHUTDOWN
//!          u64  sent: the sender's monotonic clock in nanoseconds
//!          u64  answers: `sent` of the message that this one answers, 0 if none
//!          i64  wall: the sender's wall clock in microseconds since 1970
//!          body by kind, up to the end
//! SYN      text cluster name, text partitioner, digests
//! ACK      digests (what the sender wants to know more about), states
//! ACK2     states
//! ECHO     -
//! ECHO_REPLY  u32 generation of the sender
//! SHUTDOWN    state of the sender
//! digests  u32 count, each: address, u32 generation, u32 version
//! states   u32 count, each: state
//! state    address, u32 generation, u32 base, u32 heartbeat, u8 count, each: u8 number, u32 version, text
//! ```
//! A state holds what is newer than version `base` of that generation; 0 is all of it.

use super::clock::Clocks;
use super::gossiper::ENDPOINTS_MAX;
use super::state::{
    ApplicationState, EndpointState, SHUTDOWN_HEARTBEAT, STATE_BYTES_MAX, VALUE_BYTES_MAX, VersionedValue,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// The version of the layout that this program writes and reads.
pub const LAYOUT: u8 = 1;
/// Longest message in bytes. Digests of [`ENDPOINTS_MAX`] nodes fit, and one state beside them; states that do not are
/// left for a later round.
pub const MESSAGE_BYTES_MAX: usize = 128 << 10;
/// Longest name of a cluster or partitioner in a SYN, in bytes.
pub const NAME_BYTES_MAX: usize = 512;
const HEADER_BYTES: usize = 26;
/// A digest of an IPv6 node.
const DIGEST_BYTES_MAX: usize = 27;
const _: () = assert!(
    HEADER_BYTES + 2 * (2 + NAME_BYTES_MAX) + 8 + ENDPOINTS_MAX * DIGEST_BYTES_MAX + STATE_BYTES_MAX
        <= MESSAGE_BYTES_MAX
);

/// What one node sends another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The sender's monotonic clock; means something to the sender alone.
    pub sent: Duration,
    /// `sent` of the message that this one answers; zero if none.
    pub answers: Duration,
    /// The sender's wall clock in microseconds since 1970.
    pub wall: i64,
    /// What it says.
    pub body: Body,
}

/// The kinds of messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    /// Begins a round.
    Syn {
        /// The name of the sender's cluster.
        cluster_name: String,
        /// The class name of its partitioner.
        partitioner: String,
        /// How much it knows of all nodes.
        digests: Vec<Digest>,
    },
    /// Answers a SYN.
    Ack {
        /// What the sender knows of states that are newer with the other.
        wanted: Vec<Digest>,
        /// What is newer with the sender.
        states: Vec<StateUpdate>,
    },
    /// Answers an ACK.
    Ack2 {
        /// What the other wanted.
        states: Vec<StateUpdate>,
    },
    /// Asks whether the node is there.
    Echo,
    /// It is, in this generation.
    EchoReply {
        /// The sender's.
        generation: u32,
    },
    /// The sender stops.
    Shutdown {
        /// The sender's last state, complete.
        state: StateUpdate,
    },
}

/// How much a node knows of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Digest {
    /// The other node.
    pub address: SocketAddr,
    /// Its generation.
    pub generation: u32,
    /// The highest version; 0 asks for everything.
    pub version: u32,
}

/// What is newer in a state than some version of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateUpdate {
    /// The node that it is about.
    pub address: SocketAddr,
    /// Everything above this version is in `state`; 0 if it is complete.
    pub base: u32,
    /// What is newer.
    pub state: EndpointState,
}

/// Bytes that are no message, with what is wrong about them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvalidMessage(pub &'static str);

impl std::fmt::Display for InvalidMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "invalid gossip message: {}", self.0)
    }
}

impl std::error::Error for InvalidMessage {}

impl Message {
    pub(super) fn new(now: Clocks, answers: Duration, body: Body) -> Message {
        Message { sent: now.monotonic, answers, wall: now.wall, body }
    }

    /// The bytes of the message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        out.push(LAYOUT);
        out.push(match self.body {
            Body::Syn { .. } => 1,
            Body::Ack { .. } => 2,
            Body::Ack2 { .. } => 3,
            Body::Echo => 4,
            Body::EchoReply { .. } => 5,
            Body::Shutdown { .. } => 6,
        });
        out.extend((self.sent.as_nanos() as u64).to_be_bytes());
        out.extend((self.answers.as_nanos() as u64).to_be_bytes());
        out.extend(self.wall.to_be_bytes());
        match &self.body {
            Body::Syn { cluster_name, partitioner, digests } => {
                put_text(&mut out, cluster_name);
                put_text(&mut out, partitioner);
                put_digests(&mut out, digests);
            }
            Body::Ack { wanted, states } => {
                put_digests(&mut out, wanted);
                put_states(&mut out, states);
            }
            Body::Ack2 { states } => put_states(&mut out, states),
            Body::Echo => {}
            Body::EchoReply { generation } => out.extend(generation.to_be_bytes()),
            Body::Shutdown { state } => put_state(&mut out, state),
        }
        out
    }

    /// The message of `bytes`.
    ///
    /// # Errors
    /// If the bytes are no message of this layout, or one beyond the limits.
    pub fn decode(bytes: &[u8]) -> Result<Message, InvalidMessage> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(InvalidMessage("too long"));
        }
        let mut input = Input(bytes);
        if input.u8()? != LAYOUT {
            return Err(InvalidMessage("unknown layout"));
        }
        let kind = input.u8()?;
        let sent = Duration::from_nanos(input.u64()?);
        let answers = Duration::from_nanos(input.u64()?);
        let wall = input.u64()? as i64;
        let body = match kind {
            1 => Body::Syn {
                cluster_name: input.text(NAME_BYTES_MAX)?.into(),
                partitioner: input.text(NAME_BYTES_MAX)?.into(),
                digests: input.digests()?,
            },
            2 => Body::Ack { wanted: input.digests()?, states: input.states()? },
            3 => Body::Ack2 { states: input.states()? },
            4 => Body::Echo,
            5 => Body::EchoReply { generation: input.u32()? },
            6 => Body::Shutdown { state: input.state()? },
            _ => return Err(InvalidMessage("unknown kind")),
        };
        if !input.0.is_empty() {
            return Err(InvalidMessage("bytes after the end"));
        }
        Ok(Message { sent, answers, wall, body })
    }
}

/// Bytes of a digest.
pub(super) fn digest_bytes(address: SocketAddr) -> usize {
    address_bytes(address) + 8
}

/// Bytes of a state as part of a message.
pub(super) fn state_bytes(address: SocketAddr, state: &EndpointState) -> usize {
    let values = state.values().iter().map(|(_, value)| 1 + 4 + 2 + value.value.len());
    address_bytes(address) + 4 + 4 + 4 + 1 + values.sum::<usize>()
}

/// Bytes of an ACK or ACK2 that stand for anything but digests and states.
pub(super) const ACK_BYTES: usize = HEADER_BYTES + 4 + 4;

fn address_bytes(address: SocketAddr) -> usize {
    if address.is_ipv4() { 7 } else { 19 }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u16).to_be_bytes());
    out.extend(text.as_bytes());
}

fn put_address(out: &mut Vec<u8>, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend(ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(6);
            out.extend(ip.octets());
        }
    }
    out.extend(address.port().to_be_bytes());
}

fn put_digests(out: &mut Vec<u8>, digests: &[Digest]) {
    out.extend((digests.len() as u32).to_be_bytes());
    for digest in digests {
        put_address(out, digest.address);
        out.extend(digest.generation.to_be_bytes());
        out.extend(digest.version.to_be_bytes());
    }
}

fn put_states(out: &mut Vec<u8>, states: &[StateUpdate]) {
    out.extend((states.len() as u32).to_be_bytes());
    states.iter().for_each(|state| put_state(out, state));
}

fn put_state(out: &mut Vec<u8>, update: &StateUpdate) {
    put_address(out, update.address);
    out.extend(update.state.generation.to_be_bytes());
    out.extend(update.base.to_be_bytes());
    out.extend(update.state.heartbeat.to_be_bytes());
    out.push(update.state.values().len() as u8);
    for (state, value) in update.state.values() {
        out.push(state.0);
        out.extend(value.version.to_be_bytes());
        put_text(out, &value.value);
    }
}

/// Bytes that are not yet read.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], InvalidMessage> {
        let (head, rest) = self.0.split_at_checked(count).ok_or(InvalidMessage("cut off"))?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], InvalidMessage> {
        let (head, rest) = self.0.split_first_chunk().ok_or(InvalidMessage("cut off"))?;
        self.0 = rest;
        Ok(*head)
    }

    fn u8(&mut self) -> Result<u8, InvalidMessage> {
        self.array().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Result<u16, InvalidMessage> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, InvalidMessage> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, InvalidMessage> {
        self.array().map(u64::from_be_bytes)
    }

    fn text(&mut self, bytes_max: usize) -> Result<&'a str, InvalidMessage> {
        let length = usize::from(self.u16()?);
        if length > bytes_max {
            return Err(InvalidMessage("text too long"));
        }
        std::str::from_utf8(self.bytes(length)?).map_err(|_| InvalidMessage("not UTF-8"))
    }

    fn address(&mut self) -> Result<SocketAddr, InvalidMessage> {
        let ip = match self.u8()? {
            4 => IpAddr::V4(Ipv4Addr::from(self.array::<4>()?)),
            6 => IpAddr::V6(Ipv6Addr::from(self.array::<16>()?)),
            _ => return Err(InvalidMessage("unknown kind of address")),
        };
        Ok(SocketAddr::new(ip, self.u16()?))
    }

    /// A version or a generation, which fit Cassandra's signed numbers.
    fn version(&mut self) -> Result<u32, InvalidMessage> {
        let version = self.u32()?;
        if version > SHUTDOWN_HEARTBEAT { Err(InvalidMessage("version out of range")) } else { Ok(version) }
    }

    fn count(&mut self) -> Result<usize, InvalidMessage> {
        let count = self.u32()? as usize;
        if count > ENDPOINTS_MAX { Err(InvalidMessage("too many nodes")) } else { Ok(count) }
    }

    fn digests(&mut self) -> Result<Vec<Digest>, InvalidMessage> {
        let count = self.count()?;
        let digest = |_| {
            let address = self.address()?;
            Ok(Digest { address, generation: self.u32()?, version: self.version()? })
        };
        (0..count).map(digest).collect()
    }

    fn states(&mut self) -> Result<Vec<StateUpdate>, InvalidMessage> {
        let count = self.count()?;
        (0..count).map(|_| self.state()).collect()
    }

    fn state(&mut self) -> Result<StateUpdate, InvalidMessage> {
        let address = self.address()?;
        let generation = self.u32()?;
        let base = self.version()?;
        let mut state = EndpointState::new(generation, self.version()?);
        for _ in 0..self.u8()? {
            let number = ApplicationState(self.u8()?);
            let version = self.version()?;
            let value = self.text(VALUE_BYTES_MAX)?.into();
            if state.values().last().is_some_and(|(last, _)| *last >= number) {
                return Err(InvalidMessage("values out of order"));
            }
            state.replace(number, VersionedValue { version, value });
        }
        if state_bytes(address, &state) > STATE_BYTES_MAX {
            return Err(InvalidMessage("state too long"));
        }
        Ok(StateUpdate { address, base, state })
    }
}

//! Mutations on their way through one node of a data centre to the others there.
//!
//! The request of the coordinator to the first node:
//! ```text
//! coordinator [16]: the host id of the node that awaits the answers
//! count u8, at most RELAYED_MAX
//! count times: node [16], the host id of a node to pass the mutation on to; number u64 of the answer awaited from it
//! mutation
//! ```
//! What the first node sends to each of these:
//! ```text
//! coordinator [16]: the host id of the node that awaits the answer
//! number u64
//! mutation
//! ```
//! The answer, which goes to the coordinator:
//! ```text
//! number u64
//! what it would have answered the coordinator itself, as `answer` describes it
//! ```
//! The first 16 bits of a number are the core that awaits the answer.

use super::bytes::Reader;
use cluster::plan::RELAYED_MAX;
use uuid::Uuid;

/// A node to pass a mutation on to, and the number of its answer.
pub(crate) type Relayed = (Uuid, u64);

/// What the coordinator sends to the first node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RelayRequest<'a> {
    pub(crate) coordinator: Uuid,
    /// The nodes to pass the mutation on to.
    pub(crate) nodes: Vec<Relayed>,
    pub(crate) mutation: &'a [u8],
}

/// What the first node sends to another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RelayedRequest<'a> {
    pub(crate) coordinator: Uuid,
    /// The number of the answer.
    pub(crate) number: u64,
    pub(crate) mutation: &'a [u8],
}

/// Bytes before the mutation where it has been passed on.
pub(crate) const RELAYED_HEAD_BYTES: usize = 16 + 8;
/// Bytes before what was answered.
pub(crate) const ANSWER_HEAD_BYTES: usize = 8;

/// Bytes before the mutation in a request to pass it on to so many nodes.
pub(crate) fn relay_head_bytes(nodes: usize) -> usize {
    16 + 1 + nodes * (16 + 8)
}

/// Writes the request to the first node, up to the mutation.
pub(crate) fn push_relay(out: &mut Vec<u8>, coordinator: Uuid, nodes: &[Relayed]) {
    debug_assert!(nodes.len() <= RELAYED_MAX, "plans have no more");
    out.extend_from_slice(coordinator.as_bytes());
    out.push(nodes.len() as u8);
    for (node, number) in nodes {
        out.extend_from_slice(node.as_bytes());
        out.extend_from_slice(&number.to_le_bytes());
    }
}

/// Reads it.
pub(crate) fn split_relay(bytes: &[u8]) -> Option<RelayRequest<'_>> {
    let mut reader = Reader::new(bytes);
    let coordinator = Uuid::from_bytes(reader.chunk()?);
    let count = usize::from(reader.u8()?);
    if count > RELAYED_MAX {
        return None;
    }
    let nodes = (0..count).map(|_| Some((Uuid::from_bytes(reader.chunk()?), reader.u64()?)));
    let nodes = nodes.collect::<Option<Vec<Relayed>>>()?;
    Some(RelayRequest { coordinator, nodes, mutation: reader.rest() })
}

/// Writes what the first node sends to another one.
pub(crate) fn push_relayed(out: &mut Vec<u8>, coordinator: Uuid, number: u64, mutation: &[u8]) {
    out.extend_from_slice(coordinator.as_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(mutation);
}

/// Reads it.
pub(crate) fn split_relayed(bytes: &[u8]) -> Option<RelayedRequest<'_>> {
    let mut reader = Reader::new(bytes);
    let coordinator = Uuid::from_bytes(reader.chunk()?);
    Some(RelayedRequest { coordinator, number: reader.u64()?, mutation: reader.rest() })
}

/// Writes an answer.
pub(crate) fn push_answer(out: &mut Vec<u8>, number: u64, answer: &[u8]) {
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(answer);
}

/// Reads it: the number, and what was answered.
pub(crate) fn split_answer(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut reader = Reader::new(bytes);
    Some((reader.u64()?, reader.rest()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Uuid = Uuid::from_bytes(*b"ABCDEFGHIJKLMNOP");
    const B: Uuid = Uuid::from_bytes(*b"abcdefghijklmnop");

    const C: Uuid = Uuid::from_bytes(*b"0123456789abcdef");

    #[test]
    fn golden_bytes() {
        let nodes = vec![(A, 0x0001_0000_0000_0002), (B, 3)];
        let mut relay = Vec::new();
        push_relay(&mut relay, C, &nodes);
        assert_eq!(relay.len(), relay_head_bytes(2));
        relay.extend_from_slice(b"xy");
        let expected = b"0123456789abcdef\x02ABCDEFGHIJKLMNOP\x02\0\0\0\0\0\x01\0abcdefghijklmnop\x03\0\0\0\0\0\0\0xy";
        assert_eq!(relay, expected);
        assert_eq!(split_relay(&relay), Some(RelayRequest { coordinator: C, nodes, mutation: b"xy" }));
        assert!((0..relay_head_bytes(2)).all(|len| split_relay(&relay[..len]).is_none()), "too short");
        let mut relayed = Vec::new();
        push_relayed(&mut relayed, C, 3, b"xy");
        assert_eq!(relayed, b"0123456789abcdef\x03\0\0\0\0\0\0\0xy");
        assert_eq!(split_relayed(&relayed), Some(RelayedRequest { coordinator: C, number: 3, mutation: b"xy" }));
        assert!((0..RELAYED_HEAD_BYTES).all(|len| split_relayed(&relayed[..len]).is_none()), "too short");
        let mut answer = Vec::new();
        push_answer(&mut answer, 3, b"xy");
        assert_eq!(answer, b"\x03\0\0\0\0\0\0\0xy");
        assert_eq!(split_answer(&answer), Some((3, &b"xy"[..])));
        assert!((0..ANSWER_HEAD_BYTES).all(|len| split_answer(&answer[..len]).is_none()), "too short");
    }

    #[test]
    fn a_mutation_is_passed_on_to_so_many_nodes() {
        let mut relay = Vec::new();
        push_relay(&mut relay, C, &[(A, 1); RELAYED_MAX]);
        assert_eq!(split_relay(&relay).map(|relay| relay.nodes.len()), Some(RELAYED_MAX));
        relay[16] += 1;
        relay.extend_from_slice(&[0; 24]);
        assert_eq!(split_relay(&relay), None, "one too many");
    }
}

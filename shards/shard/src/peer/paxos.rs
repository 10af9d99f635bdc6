//! Rounds of Paxos about one partition of one table, as requests to its acceptor.
//!
//! A ballot is its 16 bytes; an update is an encoded mutation.
//! ```text
//! proposal:   ballot [16], flag u8 [update length u32, update]
//! prepare:    table id [16], key length u16, key, ballot [16]
//!   answer:   0 promised u8: flag u8 [proposal accepted], flag u8 [proposal committed]
//!             1 refused u8: ballot [16]
//! prepare and read: ballot [16], the request of a read of one partition whose answer is fragments, see `reads`
//!   answer:   as to prepare; if promised, the block of fragments follows
//! propose:    table id [16], key length u16, key, proposal
//!   answer:   0 accepted u8
//!             1 refused u8: ballot [16]
//! settle:     as propose
//! commit:     as propose; the answer is empty
//! ```

use super::bytes::{Reader, push_long, push_short};
use super::reads::{self, AskedCore};
use crate::messages::data::{FragmentRequest, PaxosAnswer};
use crate::paxos::ballot::Ballot;
use crate::paxos::{Acceptance, Promise, Proposal, Update};
use model::fragment_block::FragmentBlock;
use model::query::Partitions;
use model::{DecoratedKey, Partitioner, TableId};

/// What an acceptor is asked.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Round<T> {
    pub(crate) table: TableId,
    pub(crate) key: DecoratedKey,
    /// A ballot, or a proposal.
    pub(crate) asked: T,
}

impl Round<Ballot> {
    /// Writes a prepare.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        push_partition(out, self.table, &self.key);
        out.extend_from_slice(&self.asked.bytes());
    }

    /// Reads a prepare; `None` if the bytes are none.
    pub(crate) fn decode_prepare(partitioner: Partitioner, bytes: &[u8]) -> Option<Round<Ballot>> {
        let mut reader = Reader::new(bytes);
        let (table, key) = (TableId(reader.chunk()?), reader.key(partitioner)?);
        let asked = ballot(&mut reader)?;
        reader.is_empty().then_some(Round { table, key, asked })
    }
}

impl Round<Proposal<Update>> {
    /// Writes a proposal, to be accepted, settled or committed.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        push_partition(out, self.table, &self.key);
        push_proposal(out, &self.asked);
    }

    /// Reads what [`Round::encode`] wrote; `None` if the bytes are none.
    pub(crate) fn decode_proposal(partitioner: Partitioner, bytes: &[u8]) -> Option<Round<Proposal<Update>>> {
        let mut reader = Reader::new(bytes);
        let (table, key) = (TableId(reader.chunk()?), reader.key(partitioner)?);
        let asked = proposal(&mut reader)?;
        reader.is_empty().then_some(Round { table, key, asked })
    }
}

/// Writes a prepare together with a read, which must be of one partition and forwards.
pub(crate) fn push_prepare_read(out: &mut Vec<u8>, ballot: Ballot, request: &FragmentRequest) {
    out.extend_from_slice(&ballot.bytes());
    reads::push_fragments(out, request, AskedCore { core: 0, cores: 0 });
}

/// Reads a prepare together with a read; `None` if the bytes are none.
pub(crate) fn decode_prepare_read(partitioner: Partitioner, bytes: &[u8]) -> Option<(Round<Ballot>, FragmentRequest)> {
    let mut reader = Reader::new(bytes);
    let asked = ballot(&mut reader)?;
    let (request, _) = reads::decode_fragments(partitioner, reader.rest())?;
    let Partitions::Key(key) = &request.command.partitions else { return None };
    let round = Round { table: request.command.table, key: key.clone(), asked };
    (!request.command.reversed).then_some((round, request))
}

fn push_partition(out: &mut Vec<u8>, table: TableId, key: &DecoratedKey) {
    out.extend_from_slice(&table.0);
    push_short(out, &key.key);
}

fn push_proposal(out: &mut Vec<u8>, proposal: &Proposal<Update>) {
    out.extend_from_slice(&proposal.ballot.bytes());
    out.push(proposal.update.is_some().into());
    if let Some(update) = &proposal.update {
        push_long(out, update);
    }
}

fn push_optional(out: &mut Vec<u8>, proposal: Option<&Proposal<Update>>) {
    out.push(proposal.is_some().into());
    if let Some(proposal) = proposal {
        push_proposal(out, proposal);
    }
}

fn ballot(reader: &mut Reader<'_>) -> Option<Ballot> {
    Ballot::from_bytes(&reader.chunk::<16>()?)
}

fn proposal(reader: &mut Reader<'_>) -> Option<Proposal<Update>> {
    let ballot = ballot(reader)?;
    let update = if reader.flag()? { Some(reader.long_bytes()?.to_vec()) } else { None };
    Some(Proposal { ballot, update })
}

fn optional(reader: &mut Reader<'_>) -> Option<Option<Proposal<Update>>> {
    Some(if reader.flag()? { Some(proposal(reader)?) } else { None })
}

/// Writes the answer to a prepare.
pub(crate) fn push_promise(out: &mut Vec<u8>, promise: &Promise<Update>) {
    match promise {
        Promise::Promised { accepted, committed } => {
            out.push(0);
            push_optional(out, accepted.as_ref());
            push_optional(out, committed.as_ref());
        }
        Promise::Refused(ballot) => {
            out.push(1);
            out.extend_from_slice(&ballot.bytes());
        }
    }
}

/// Reads the answer to a prepare.
pub(crate) fn promise(bytes: &[u8]) -> Option<Promise<Update>> {
    let mut reader = Reader::new(bytes);
    let promise = read_promise(&mut reader)?;
    reader.is_empty().then_some(promise)
}

fn read_promise(reader: &mut Reader<'_>) -> Option<Promise<Update>> {
    Some(match reader.flag()? {
        false => Promise::Promised { accepted: optional(reader)?, committed: optional(reader)? },
        true => Promise::Refused(ballot(reader)?),
    })
}

/// Reads the answer to a prepare together with a read.
pub(crate) fn promise_read(partitioner: Partitioner, bytes: &[u8]) -> Option<PaxosAnswer> {
    let mut reader = Reader::new(bytes);
    let promise = read_promise(&mut reader)?;
    if let Promise::Refused(_) = promise {
        return reader.is_empty().then_some(PaxosAnswer::Promise(promise));
    }
    let block = FragmentBlock::decode(partitioner, reader.rest().to_vec(), false).ok()?;
    Some(PaxosAnswer::PromiseRead(promise, block))
}

/// Writes the answer to a proposal.
pub(crate) fn push_acceptance(out: &mut Vec<u8>, acceptance: Acceptance) {
    match acceptance {
        Acceptance::Accepted => out.push(0),
        Acceptance::Refused(ballot) => {
            out.push(1);
            out.extend_from_slice(&ballot.bytes());
        }
    }
}

/// Reads the answer to a proposal.
pub(crate) fn acceptance(bytes: &[u8]) -> Option<Acceptance> {
    let mut reader = Reader::new(bytes);
    let acceptance = match reader.flag()? {
        false => Acceptance::Accepted,
        true => Acceptance::Refused(ballot(&mut reader)?),
    };
    reader.is_empty().then_some(acceptance)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paxos::ballot::Scope;
    use model::fragment_block::FragmentBlockWriter;
    use model::query::{ReadCommand, ReadEnd};

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn golden_bytes_of_a_prepare_with_a_read() {
        let at = Ballot::new(1_700_000_000_000_000, Scope::Global, 77);
        let (table, partitioner) = (TableId([9; 16]), Partitioner::Murmur3);
        let key = DecoratedKey::new(partitioner, b"key");
        let command = ReadCommand::all(table, 5, Partitions::Key(key.clone()));
        let request = FragmentRequest { command: command.clone(), bytes_max: 0x1000 };
        let mut bytes = Vec::new();
        push_prepare_read(&mut bytes, at, &request);
        let max = "ff".repeat(8);
        let expected = format!(
            "{}{}050000000000000000{max}{max}{max}0010000000000000{}{}{}",
            hex(&at.bytes()),
            "09".repeat(16),
            "0003006b6579",
            "00",
            "01000000000000000000000000"
        );
        assert_eq!(hex(&bytes), expected);
        let (round, read) = decode_prepare_read(partitioner, &bytes).expect("a prepare");
        assert_eq!((round, read.command, read.bytes_max), (Round { table, key, asked: at }, command.clone(), 0x1000));
        assert!((0..bytes.len()).all(|len| decode_prepare_read(partitioner, &bytes[..len]).is_none()));
        for refused in [
            ReadCommand { reversed: true, ..command.clone() },
            ReadCommand { partitions: Partitions::Range(model::TokenRange::FULL), ..command },
        ] {
            bytes.clear();
            push_prepare_read(&mut bytes, at, &FragmentRequest { command: refused, bytes_max: 1 });
            assert_eq!(decode_prepare_read(partitioner, &bytes), None);
        }
        let block = FragmentBlockWriter::new(partitioner, 1).finish(&ReadEnd::Exhausted);
        let promise = Promise::Promised { accepted: None, committed: None };
        bytes.clear();
        push_promise(&mut bytes, &promise);
        bytes.extend_from_slice(block.bytes());
        match promise_read(partitioner, &bytes) {
            Some(PaxosAnswer::PromiseRead(told, found)) => {
                assert_eq!((told, found.bytes()), (promise, block.bytes()));
            }
            other => panic!("{other:?}"),
        }
        assert!((0..bytes.len()).all(|len| promise_read(partitioner, &bytes[..len]).is_none()));
        bytes.clear();
        push_promise(&mut bytes, &Promise::Refused(at));
        assert!(matches!(promise_read(partitioner, &bytes), Some(PaxosAnswer::Promise(Promise::Refused(_)))));
        bytes.push(0);
        assert!(promise_read(partitioner, &bytes).is_none(), "who refuses has read nothing");
    }

    #[test]
    fn golden_bytes() {
        let at = Ballot::new(1_700_000_000_000_000, Scope::Global, 77);
        let key = DecoratedKey::new(Partitioner::Murmur3, b"key");
        let (table, partitioner) = (TableId([9; 16]), Partitioner::Murmur3);
        let mut bytes = Vec::new();
        let prepare = Round { table, key: key.clone(), asked: at };
        prepare.encode(&mut bytes);
        let head = format!("{}03006b6579{}", "09".repeat(16), hex(&at.bytes()));
        assert_eq!(hex(&bytes), head);
        assert_eq!(Round::decode_prepare(partitioner, &bytes), Some(prepare));
        assert!((0..bytes.len()).all(|len| Round::decode_prepare(partitioner, &bytes[..len]).is_none()));
        let settle = Round { table, key, asked: Proposal { ballot: at, update: Some(vec![1, 2]) } };
        bytes.clear();
        settle.encode(&mut bytes);
        assert_eq!(hex(&bytes), format!("{head}01020000000102"));
        assert_eq!(Round::decode_proposal(partitioner, &bytes), Some(settle.clone()));
        assert!((0..bytes.len()).all(|len| Round::decode_proposal(partitioner, &bytes[..len]).is_none()));
        let promises = [
            (Promise::Promised { accepted: None, committed: None }, "000000".to_owned()),
            (
                Promise::Promised {
                    accepted: Some(settle.asked),
                    committed: Some(Proposal { ballot: at, update: None }),
                },
                format!("0001{0}0102000000010201{0}00", hex(&at.bytes())),
            ),
            (Promise::Refused(at), format!("01{}", hex(&at.bytes()))),
        ];
        for (told, expected) in promises {
            bytes.clear();
            push_promise(&mut bytes, &told);
            assert_eq!(hex(&bytes), expected);
            assert_eq!(promise(&bytes), Some(told));
            assert!((0..bytes.len()).all(|len| promise(&bytes[..len]).is_none()));
        }
        for (told, expected) in
            [(Acceptance::Accepted, "00".to_owned()), (Acceptance::Refused(at), format!("01{}", hex(&at.bytes())))]
        {
            bytes.clear();
            push_acceptance(&mut bytes, told);
            assert_eq!(hex(&bytes), expected);
            assert_eq!(acceptance(&bytes), Some(told));
            assert_eq!(acceptance(&[&bytes[..], &[0]].concat()), None);
        }
    }
}

//! What nodes ask each other for an incremental repair:
//! ```text
//! of a set:  set; verb u8, the body of that verb: hashes, partitions or fragments of that set alone
//! set:       u8: 0 unrepaired, 1 repaired, 2 set apart for a session, session [16]
//! add:       session [16]; a mutation
//! session:   session [16]; u8: 0 set data apart, 1 promise, 2 commit, 3 fail, 4 tell the state
//!            of 0: address of the coordinator; count u32, addresses of all participants; repaired at i64,
//!            milliseconds; count u32, table id [16] of each; count u32, of each range the positions of its start and
//!            its end
//! address:   length u16, text
//! answer:    u8: the number of the state, 255 if there is no such session
//! ```
//! A position is that of `reads`.

use super::bytes::{Reader, push_count, push_short};
use super::reads::{position, push_position};
use crate::messages::repair::{SessionAsk, SessionRequest, SessionTerms};
use crate::verbs::Verb;
use cluster::repair::session::{SessionState, SessionStep};
use engine::RepairSet;
use model::{Partitioner, TableId, TokenRange};
use std::net::SocketAddr;
use uuid::Uuid;

/// The answer for a session that is not known.
const UNKNOWN: u8 = 255;

/// Writes the set and the verb that a request is wrapped in.
pub(crate) fn push_set(out: &mut Vec<u8>, set: RepairSet, verb: Verb) {
    match set {
        RepairSet::Unrepaired => out.push(0),
        RepairSet::Repaired => out.push(1),
        RepairSet::Pending(session) => {
            out.push(2);
            out.extend_from_slice(&session);
        }
    }
    out.push(verb as u8);
}

/// Takes a request of one set apart; `None` if the bytes are none.
pub(crate) fn split_set(bytes: &[u8]) -> Option<(RepairSet, Verb, &[u8])> {
    let mut reader = Reader::new(bytes);
    let set = match reader.u8()? {
        0 => RepairSet::Unrepaired,
        1 => RepairSet::Repaired,
        2 => RepairSet::Pending(reader.chunk()?),
        _ => return None,
    };
    let verb = Verb::of(reader.u8()?)?;
    matches!(verb, Verb::Validation | Verb::ValidationPartitions | Verb::ReadFragments)
        .then(|| (set, verb, reader.rest()))
}

/// Takes an addition apart: the session, and the bytes of its mutation.
pub(crate) fn split_add(bytes: &[u8]) -> Option<(Uuid, &[u8])> {
    let (session, mutation) = bytes.split_first_chunk()?;
    Some((Uuid::from_bytes(*session), mutation))
}

fn push_address(out: &mut Vec<u8>, address: SocketAddr) {
    push_short(out, address.to_string().as_bytes());
}

fn address(reader: &mut Reader<'_>) -> Option<SocketAddr> {
    std::str::from_utf8(reader.short_bytes()?).ok()?.parse().ok()
}

/// Writes a request.
pub(crate) fn push(out: &mut Vec<u8>, request: &SessionRequest) {
    out.extend_from_slice(request.session.as_bytes());
    match &request.ask {
        SessionAsk::Prepare(terms) => {
            out.push(0);
            push_address(out, terms.coordinator);
            push_count(out, terms.participants.len());
            terms.participants.iter().for_each(|participant| push_address(out, *participant));
            out.extend_from_slice(&terms.repaired_at.to_le_bytes());
            push_count(out, terms.tables.len());
            terms.tables.iter().for_each(|table| out.extend_from_slice(&table.0));
            push_count(out, terms.ranges.len());
            for TokenRange { start, end } in &terms.ranges {
                push_position(out, start.as_ref());
                push_position(out, end.as_ref());
            }
        }
        SessionAsk::Step(SessionStep::Promise) => out.push(1),
        SessionAsk::Step(SessionStep::Commit) => out.push(2),
        SessionAsk::Step(SessionStep::Fail) => out.push(3),
        SessionAsk::Step(SessionStep::Prepared) | SessionAsk::State => out.push(4),
    }
}

/// Reads a request; `None` if the bytes are none.
pub(crate) fn decode(partitioner: Partitioner, bytes: &[u8]) -> Option<SessionRequest> {
    let mut reader = Reader::new(bytes);
    let session = Uuid::from_bytes(reader.chunk()?);
    let ask = match reader.u8()? {
        0 => {
            let coordinator = address(&mut reader)?;
            let count = reader.count(2)?;
            let participants = (0..count).map(|_| address(&mut reader)).collect::<Option<_>>()?;
            let repaired_at = reader.i64()?;
            let count = reader.count(16)?;
            let tables = (0..count).map(|_| reader.chunk().map(TableId)).collect::<Option<_>>()?;
            let count = reader.count(2)?;
            let mut range = || {
                let (start, end) = (position(&mut reader, partitioner)?, position(&mut reader, partitioner)?);
                Some(TokenRange { start, end })
            };
            let ranges = (0..count).map(|_| range()).collect::<Option<_>>()?;
            SessionAsk::Prepare(SessionTerms { coordinator, participants, repaired_at, tables, ranges })
        }
        1 => SessionAsk::Step(SessionStep::Promise),
        2 => SessionAsk::Step(SessionStep::Commit),
        3 => SessionAsk::Step(SessionStep::Fail),
        4 => SessionAsk::State,
        _ => return None,
    };
    reader.is_empty().then_some(SessionRequest { session, ask })
}

/// Writes an answer.
pub(crate) fn push_answer(out: &mut Vec<u8>, state: Option<SessionState>) {
    out.push(state.map_or(UNKNOWN, |state| state as u8));
}

/// Reads an answer; `None` if the bytes are none.
pub(crate) fn decode_answer(bytes: &[u8]) -> Option<Option<SessionState>> {
    match bytes {
        [UNKNOWN] => Some(None),
        [number] => SessionState::of(i32::from(*number)).map(Some),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::RingToken;

    const M3: Partitioner = Partitioner::Murmur3;

    fn bytes_of(request: &SessionRequest) -> Vec<u8> {
        let mut out = Vec::new();
        push(&mut out, request);
        out
    }

    fn prepare() -> SessionRequest {
        let address = |text: &str| text.parse().expect("an address");
        let terms = SessionTerms {
            coordinator: address("127.0.0.1:7000"),
            participants: vec![address("127.0.0.1:7000"), address("[::1]:7000")],
            repaired_at: 1_700_000_000_123,
            tables: vec![TableId([7; 16])],
            ranges: vec![TokenRange::between(RingToken::Murmur3(-2), RingToken::Murmur3(i64::MIN))],
        };
        SessionRequest { session: Uuid::from_bytes([5; 16]), ask: SessionAsk::Prepare(terms) }
    }

    #[test]
    fn golden_bytes_of_sessions() {
        let mut expected = vec![5; 16];
        expected.extend_from_slice(&[0, 14, 0]);
        expected.extend_from_slice(b"127.0.0.1:7000");
        expected.extend_from_slice(&[2, 0, 0, 0, 14, 0]);
        expected.extend_from_slice(b"127.0.0.1:7000");
        expected.extend_from_slice(&[10, 0]);
        expected.extend_from_slice(b"[::1]:7000");
        expected.extend_from_slice(&1_700_000_000_123i64.to_le_bytes());
        expected.extend_from_slice(&[1, 0, 0, 0]);
        expected.extend_from_slice(&[7; 16]);
        expected.extend_from_slice(&[1, 0, 0, 0, 2, 8, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 254, 0]);
        assert_eq!(bytes_of(&prepare()), expected);
        assert_eq!(decode(M3, &expected), Some(prepare()));
        assert!((0..expected.len()).all(|len| decode(M3, &expected[..len]).is_none()));
        let asks = [
            (1, SessionAsk::Step(SessionStep::Promise)),
            (2, SessionAsk::Step(SessionStep::Commit)),
            (3, SessionAsk::Step(SessionStep::Fail)),
            (4, SessionAsk::State),
        ];
        for (number, ask) in asks {
            let request = SessionRequest { session: Uuid::from_bytes([5; 16]), ask };
            assert_eq!(bytes_of(&request), [&[5; 16][..], &[number]].concat());
            assert_eq!(decode(M3, &bytes_of(&request)), Some(request));
        }
        assert!(decode(M3, &[&[5; 16][..], &[5]].concat()).is_none());
    }

    #[test]
    fn golden_bytes_of_states_and_sets() {
        let answer = |state| {
            let mut out = Vec::new();
            push_answer(&mut out, state);
            out
        };
        assert_eq!((answer(None), answer(Some(SessionState::Finalized))), (vec![255], vec![4]));
        assert_eq!(decode_answer(&[255]), Some(None));
        assert_eq!(decode_answer(&[5]), Some(Some(SessionState::Failed)));
        assert!(decode_answer(&[6]).is_none() && decode_answer(&[]).is_none() && decode_answer(&[4, 4]).is_none());
        for (set, bytes) in [
            (RepairSet::Unrepaired, vec![0]),
            (RepairSet::Repaired, vec![1]),
            (RepairSet::Pending([9; 16]), [&[2][..], &[9; 16]].concat()),
        ] {
            let mut out = Vec::new();
            push_set(&mut out, set, Verb::Validation);
            assert_eq!(out, [&bytes[..], &[0x68]].concat());
            out.extend_from_slice(b"rest");
            assert_eq!(split_set(&out), Some((set, Verb::Validation, &b"rest"[..])));
            assert!((0..=bytes.len()).all(|len| split_set(&out[..len]).is_none()));
        }
        assert!(split_set(&[3, 0x68]).is_none() && split_set(&[0, 0x40]).is_none() && split_set(&[0, 0]).is_none());
        assert_eq!(split_add(&[&[5; 16][..], b"m"].concat()), Some((Uuid::from_bytes([5; 16]), &b"m"[..])));
        assert!(split_add(&[5; 15]).is_none());
    }
}

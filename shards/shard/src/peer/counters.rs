//! Changes of counters, as requests to their leader.
//!
//! ```text
//! change:     level u16, timeout in milliseconds u32, mutation with amounts in the place of counters
//!   answer:   0 done u8
//!             1 failed u8: code u16, outcome u8 (0 not applied, 1 unknown), text length u32, text, level u16,
//!               received or alive u32, required u32, kind u8 (0 unavailable, 1 timed out, 2 failed),
//!               replicas u32, each: address as text length u16, text, reason u8
//! ```
//! Codes, levels and reasons are those of the native protocol. Failures without such details are those of any request.

use super::answer::{code_of, reason_of};
use super::bytes::{Reader, push_count, push_long, push_short};
use cluster::plan::WriteType;
use model::failure::{self, Detail};
use model::{Consistency, Failure, Mutation, Partitioner};
use std::time::Duration;

/// The bytes of a replica that failed, at least.
const REPLICA_BYTES_MIN: usize = 3;

/// A change of counters.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Change {
    /// The level of the write.
    pub(crate) level: Consistency,
    /// How long the leader may take.
    pub(crate) timeout: Duration,
    /// The change, with amounts.
    pub(crate) mutation: Mutation,
}

/// What the leader of a change answers.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Outcome {
    Done,
    /// What the client is to be told.
    Failed(Failure),
}

impl Change {
    /// Writes a change.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.level as u16).to_le_bytes());
        let millis = u32::try_from(self.timeout.as_millis()).unwrap_or(u32::MAX);
        out.extend_from_slice(&millis.to_le_bytes());
        out.extend_from_slice(self.mutation.bytes());
    }

    /// Reads a change; `None` if the bytes are none.
    pub(crate) fn decode(partitioner: Partitioner, bytes: &[u8]) -> Option<Change> {
        let mut reader = Reader::new(bytes);
        let level = Consistency::from_code(reader.u16()?)?;
        let timeout = Duration::from_millis(reader.u32()?.into());
        let mutation = Mutation::decode(partitioner, reader.rest().to_vec()).ok()?;
        Some(Change { level, timeout, mutation })
    }
}

/// Writes the answer to a change that ended so. Returns the failure if it has no details that belong here.
pub(crate) fn push_outcome(out: &mut Vec<u8>, result: Result<(), Failure>) -> Result<(), Failure> {
    let Err(failure) = result else {
        out.push(0);
        return Ok(());
    };
    let (kind, level, received, required, failures) = match &failure.detail {
        Detail::Unavailable { consistency, required, alive } => (0, consistency, alive, required, &[][..]),
        Detail::WriteTimeout { consistency, received, block_for, .. } => (1, consistency, received, block_for, &[][..]),
        Detail::WriteFailure { consistency, received, block_for, failures, .. } => {
            (2, consistency, received, block_for, &failures[..])
        }
        _ => return Err(failure),
    };
    out.push(1);
    out.extend_from_slice(&(failure.code as u16).to_le_bytes());
    out.push((failure.outcome == failure::Outcome::Unknown).into());
    push_long(out, failure.text.as_bytes());
    out.extend_from_slice(&(*level as u16).to_le_bytes());
    out.extend_from_slice(&received.to_le_bytes());
    out.extend_from_slice(&required.to_le_bytes());
    out.push(kind);
    push_count(out, failures.len());
    for (address, reason) in failures {
        push_short(out, address.to_string().as_bytes());
        out.push(*reason as u16 as u8);
    }
    Ok(())
}

/// Reads the answer to a change.
pub(crate) fn outcome(bytes: &[u8]) -> Option<Outcome> {
    let mut reader = Reader::new(bytes);
    if !reader.flag()? {
        return reader.is_empty().then_some(Outcome::Done);
    }
    let code = code_of(reader.u16()?)?;
    let outcome = if reader.flag()? { failure::Outcome::Unknown } else { failure::Outcome::NotApplied };
    let text = reader.text()?.to_owned().into();
    let consistency = Consistency::from_code(reader.u16()?)?;
    let (received, required) = (reader.u32()? as i32, reader.u32()? as i32);
    let kind = reader.u8()?;
    let mut failures = Vec::new();
    for _ in 0..reader.count(REPLICA_BYTES_MIN)? {
        let address = std::str::from_utf8(reader.short_bytes()?).ok()?.parse().ok()?;
        failures.push((address, reason_of(reader.u8()?)?));
    }
    let write_type = WriteType::Counter.name();
    let detail = match kind {
        0 => Detail::Unavailable { consistency, required, alive: received },
        1 => Detail::WriteTimeout { consistency, received, block_for: required, write_type },
        2 => Detail::WriteFailure { consistency, received, block_for: required, failures, write_type },
        _ => return None,
    };
    reader.is_empty().then_some(Outcome::Failed(Failure { code, text, detail, outcome }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ErrorCode;
    use model::failure::FailureReason;

    #[test]
    fn golden_bytes() {
        let mut builder = model::MutationBuilder::new(Partitioner::Murmur3, b"k");
        builder.table(model::TableId([7; 16])).delete_partition(model::row::Deletion::LIVE);
        let mutation = builder.finish();
        let change = Change { level: Consistency::Quorum, timeout: Duration::from_millis(5000), mutation };
        let mut bytes = Vec::new();
        change.encode(&mut bytes);
        assert_eq!(bytes[..6], [4, 0, 0x88, 0x13, 0, 0]);
        assert_eq!(bytes[6..], *change.mutation.bytes());
        assert_eq!(Change::decode(Partitioner::Murmur3, &bytes), Some(change));
        assert!((0..7).all(|len| Change::decode(Partitioner::Murmur3, &bytes[..len]).is_none()));
    }

    #[test]
    fn outcomes_keep_their_details() {
        let (consistency, write_type) = (Consistency::All, "COUNTER");
        let failures = vec![("127.0.0.3".parse().expect("an address"), FailureReason::Timeout)];
        let failed = |code, detail| Failure::new(code, "told").with(detail);
        let of = [
            failed(ErrorCode::Unavailable, Detail::Unavailable { consistency, required: 3, alive: 2 }),
            failed(
                ErrorCode::WriteTimeout,
                Detail::WriteTimeout { consistency, received: 2, block_for: 3, write_type },
            )
            .unknown(),
            failed(
                ErrorCode::WriteFailure,
                Detail::WriteFailure { consistency, received: 2, block_for: 3, failures, write_type },
            )
            .unknown(),
        ];
        for failure in of {
            let mut bytes = Vec::new();
            assert_eq!(push_outcome(&mut bytes, Err(failure.clone())), Ok(()));
            assert_eq!(outcome(&bytes), Some(Outcome::Failed(failure)));
            assert!((0..bytes.len()).all(|len| outcome(&bytes[..len]).is_none()));
        }
        assert_eq!(outcome(&[0]), Some(Outcome::Done));
        let other = Failure::overloaded("full");
        assert_eq!(push_outcome(&mut Vec::new(), Err(other.clone())), Err(other));
        let golden = [1, 0, 0x10, 0, 1, 0, 0, 0, b't', 5, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0];
        let detail = Detail::Unavailable { consistency, required: 3, alive: 2 };
        let told = Failure::new(ErrorCode::Unavailable, "t").with(detail);
        assert_eq!(outcome(&golden), Some(Outcome::Failed(told)));
    }
}

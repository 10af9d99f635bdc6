//! What every answer begins with:
//! ```text
//! version u8 = 1
//! kind u8
//!   0 result:        what the verb says, up to the end
//!   1 failure:       code u16, outcome u8 (0 not applied, 1 unknown), reason u8 (255: none), text length u32, text
//!   2 moved:         epoch u64: by this metadata another node has the data
//!   3 behind:        epoch u64: the node has not reached the epoch of the request
//!   4 unknown table: table id [16]
//! ```
//! Codes are those of the native protocol, reasons those of [`FailureReason`].

use super::bytes::{Reader, push_long};
use model::failure::{Detail, FailureReason, Outcome};
use model::{ErrorCode, Failure, TableId};

const VERSION: u8 = 1;

const RESULT: u8 = 0;
const FAILURE: u8 = 1;
const MOVED: u8 = 2;
const BEHIND: u8 = 3;
const UNKNOWN_TABLE: u8 = 4;

/// The place of a reason that is none.
const NO_REASON: u8 = u8::MAX;

/// Why a node did not do what it was asked.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Refusal {
    /// It tried and failed.
    Failed(Failure),
    /// By the metadata of this epoch another node has the data.
    Moved(u64),
    /// It knows the metadata only up to this epoch, before that of the request.
    Behind(u64),
    /// It does not know the table.
    UnknownTable(TableId),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Refusal {
        Refusal::Failed(failure)
    }
}

/// An answer whose result is what `write` appends.
pub(crate) fn result(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = vec![VERSION, RESULT];
    write(&mut out);
    out
}

/// An answer without a result.
pub(crate) fn refusal(refusal: &Refusal) -> Vec<u8> {
    let mut out = vec![VERSION];
    match refusal {
        Refusal::Failed(failure) => {
            out.push(FAILURE);
            out.extend_from_slice(&(failure.code as u16).to_le_bytes());
            out.push((failure.outcome == Outcome::Unknown).into());
            out.push(match failure.detail {
                Detail::Replica { reason } => reason as u16 as u8,
                _ => NO_REASON,
            });
            push_long(&mut out, failure.text.as_bytes());
        }
        Refusal::Moved(epoch) => {
            out.push(MOVED);
            out.extend_from_slice(&epoch.to_le_bytes());
        }
        Refusal::Behind(epoch) => {
            out.push(BEHIND);
            out.extend_from_slice(&epoch.to_le_bytes());
        }
        Refusal::UnknownTable(table) => {
            out.push(UNKNOWN_TABLE);
            out.extend_from_slice(&table.0);
        }
    }
    out
}

/// The result of an answer, or why there is none; `None` if the bytes are no answer.
pub(crate) fn decode(answer: &[u8]) -> Option<Result<&[u8], Refusal>> {
    let mut reader = Reader::new(answer);
    if reader.u8()? != VERSION {
        return None;
    }
    let refusal = match reader.u8()? {
        RESULT => return Some(Ok(reader.rest())),
        FAILURE => {
            let code = code_of(reader.u16()?)?;
            let outcome = if reader.flag()? { Outcome::Unknown } else { Outcome::NotApplied };
            let detail = match reader.u8()? {
                NO_REASON => Detail::None,
                reason => Detail::Replica { reason: reason_of(reason)? },
            };
            Refusal::Failed(Failure { code, text: reader.text()?.to_owned().into(), detail, outcome })
        }
        MOVED => Refusal::Moved(reader.u64()?),
        BEHIND => Refusal::Behind(reader.u64()?),
        UNKNOWN_TABLE => Refusal::UnknownTable(TableId(reader.chunk()?)),
        _ => return None,
    };
    reader.is_empty().then_some(Err(refusal))
}

pub(super) fn code_of(number: u16) -> Option<ErrorCode> {
    use ErrorCode::*;
    const ALL: [ErrorCode; 19] = [
        Server,
        Protocol,
        BadCredentials,
        Unavailable,
        Overloaded,
        IsBootstrapping,
        Truncate,
        WriteTimeout,
        ReadTimeout,
        ReadFailure,
        FunctionFailure,
        WriteFailure,
        CasWriteUnknown,
        Syntax,
        Unauthorized,
        Invalid,
        Config,
        AlreadyExists,
        Unprepared,
    ];
    ALL.into_iter().find(|code| *code as u16 == number)
}

pub(super) fn reason_of(number: u8) -> Option<FailureReason> {
    use FailureReason::*;
    const ALL: [FailureReason; 7] =
        [Unknown, ReadTooManyTombstones, Timeout, IncompatibleSchema, ReadSize, NodeDown, IndexNotAvailable];
    ALL.into_iter().find(|reason| *reason as u16 == u16::from(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        assert_eq!(result(|out| out.extend_from_slice(b"xy")), [1, 0, b'x', b'y']);
        let failure =
            Failure::new(ErrorCode::ReadFailure, "no").with(Detail::Replica { reason: FailureReason::ReadSize });
        let cases: [(Refusal, &[u8]); 6] = [
            (Refusal::Failed(failure), &[1, 1, 0x00, 0x13, 0, 4, 2, 0, 0, 0, b'n', b'o']),
            (Refusal::Failed(Failure::server("").unknown()), &[1, 1, 0, 0, 1, 255, 0, 0, 0, 0]),
            (Refusal::Moved(5), &[1, 2, 5, 0, 0, 0, 0, 0, 0, 0]),
            (Refusal::Behind(6), &[1, 3, 6, 0, 0, 0, 0, 0, 0, 0]),
            (Refusal::UnknownTable(TableId([7; 16])), &[1, 4, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7]),
            (Refusal::Failed(Failure::overloaded("f")), &[1, 1, 0x01, 0x10, 0, 255, 1, 0, 0, 0, b'f']),
        ];
        for (told, bytes) in cases {
            assert_eq!(refusal(&told), bytes);
            assert_eq!(decode(bytes), Some(Err(told)));
            assert!((0..bytes.len()).all(|len| decode(&bytes[..len]).is_none()));
            assert_eq!(decode(&[bytes, &[0]].concat()), None, "a byte too many");
        }
        assert_eq!(decode(&[1, 0]), Some(Ok(&[][..])));
        for bytes in [&[2, 0][..], &[1, 5], &[1, 1, 0xff, 0xff, 0, 255, 0, 0, 0, 0], &[1, 1, 0, 0, 2, 255, 0, 0, 0, 0]]
        {
            assert_eq!(decode(bytes), None, "{bytes:?}");
        }
    }
}

//! Sending a statement, and what the answer means for the client and the judges.

use super::world::SharedWorld;
use crate::judges::history::{Fate, Violation};
use model::ErrorCode;
use runtime::rng;
use server::client::{CallError, Client, Outcome, QueryOptions};

/// Why a step of a client ended early.
pub(crate) enum StepError {
    /// The connection broke: the client opens another one.
    Disconnected,
    /// The node broke a rule: the run ends.
    Violation(Violation),
}

impl From<Violation> for StepError {
    fn from(violation: Violation) -> StepError {
        StepError::Violation(violation)
    }
}

/// Sends a statement: one time in `prepared_one_in` prepared, if the node prepares it.
pub(crate) async fn send(
    client: &mut Client,
    text: &str,
    options: &QueryOptions,
    prepared_one_in: u64,
) -> Result<Outcome, CallError> {
    let prepared = if rng::below(prepared_one_in) == 0 { client.prepare(text).await.ok() } else { None };
    match &prepared {
        Some(prepared) => client.execute(prepared, options).await,
        None => client.query(text, options).await,
    }
}

/// Sends a SELECT, prepared at times. Returns `None` if it was refused: overload, an index that is not built and the
/// like.
pub(crate) async fn select(
    client: &mut Client,
    world: &SharedWorld,
    text: &str,
    options: &QueryOptions,
) -> Result<Option<Outcome>, StepError> {
    let result = send(client, text, options, 3).await;
    world.borrow_mut().answered += 1;
    match result {
        Ok(outcome) => Ok(Some(outcome)),
        Err(CallError::Broken(_)) => Err(StepError::Disconnected),
        Err(CallError::Failure { .. }) => Ok(None),
    }
}

/// The fate of a write that was answered like this.
pub(crate) fn fate_of(result: &Result<Outcome, CallError>) -> Fate {
    match result {
        Ok(_) => Fate::Acknowledged,
        Err(CallError::Failure { code, .. }) if is_definite(*code) || *code == ErrorCode::Invalid as u16 => {
            Fate::Failed
        }
        Err(_) => Fate::Unknown,
    }
}

/// Whether an error says that the request had and will have no effect, whatever it asked for.
pub(crate) fn is_definite(code: u16) -> bool {
    [ErrorCode::Overloaded, ErrorCode::Unavailable, ErrorCode::Unprepared, ErrorCode::IsBootstrapping]
        .iter()
        .any(|definite| code == *definite as u16)
}

/// Ends the step of a client whose statement was not answered, or was refused as wrong. Other errors may pass.
pub(crate) fn check_answer(text: &str, result: Result<Outcome, CallError>) -> Result<(), StepError> {
    match result {
        Err(CallError::Broken(_)) => Err(StepError::Disconnected),
        Err(CallError::Failure { code, text: why }) if code >= ErrorCode::Syntax as u16 => {
            Err(Violation(format!("{text} was refused: {code:#06x} {why}")).into())
        }
        _ => Ok(()),
    }
}

/// The big-endian number in a cell of eight bytes.
pub(crate) fn cell_number(cell: &Option<Vec<u8>>) -> Option<i64> {
    number(cell.as_deref()?)
}

/// The big-endian number in eight bytes.
pub(crate) fn number(bytes: &[u8]) -> Option<i64> {
    Some(i64::from_be_bytes(bytes.try_into().ok()?))
}

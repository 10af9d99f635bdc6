//! Sends statements, and tells what an answer means for the client and for the judges.

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

/// Sends a statement, on average one time in `prepared_one_in` as a prepared one if the node prepares it.
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

/// Sends a SELECT, sometimes prepared. Returns `None` if it was refused for a reason that may pass, such as overload or
/// an index that is not built yet.
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

/// A row's cells; `None` is null.
pub(crate) type Row = Vec<Option<Vec<u8>>>;

/// [`select`] for every page, one after the other. Returns the rows of each page.
pub(crate) async fn select_pages(
    client: &mut Client,
    world: &SharedWorld,
    text: &str,
    mut options: QueryOptions,
) -> Result<Option<Vec<Vec<Row>>>, StepError> {
    let mut pages = Vec::new();
    loop {
        let Some(outcome) = select(client, world, text, &options).await? else { return Ok(None) };
        pages.push(outcome.rows);
        match outcome.paging_state {
            Some(state) => options.paging_state = Some(state),
            None => return Ok(Some(pages)),
        }
    }
}

/// The fate of a write with this answer.
pub(crate) fn fate_of(result: &Result<Outcome, CallError>) -> Fate {
    match result {
        Ok(_) => Fate::Acknowledged,
        Err(CallError::Failure { code, .. }) if is_definite(*code) || *code == ErrorCode::Invalid as u16 => {
            Fate::Failed
        }
        Err(_) => Fate::Unknown,
    }
}

/// Whether an error code says that the request, whatever it was, has had no effect and never will.
pub(crate) fn is_definite(code: u16) -> bool {
    [ErrorCode::Overloaded, ErrorCode::Unavailable, ErrorCode::Unprepared, ErrorCode::IsBootstrapping]
        .iter()
        .any(|definite| code == *definite as u16)
}

/// Fails if the connection broke, or if the statement itself was refused (error codes from 0x2000 on), which breaks a
/// rule. Other errors are allowed.
pub(crate) fn check_answer(text: &str, result: Result<Outcome, CallError>) -> Result<(), StepError> {
    match result {
        Err(CallError::Broken(_)) => Err(StepError::Disconnected),
        Err(CallError::Failure { code, text: why, .. }) if code >= ErrorCode::Syntax as u16 => {
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

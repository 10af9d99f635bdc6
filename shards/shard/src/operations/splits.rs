//! Splitting foreign SSTables between the cores in the background; the module `split` of `engine` has the steps.
//!
//! Each foreign SSTable has one core that leads its split. A core leads one split at a time and asks all cores,
//! including itself, to take part.

use crate::messages::Request;
use crate::messages::admin::{SplitRequest, SplitStep};
use crate::shard_state::Shard;
use engine::Descriptor;
use engine::store::LogPosition;
use model::{Failure, TableId};
use runtime::Class;
use std::collections::BTreeMap;
use std::time::Duration;

/// Wait before another attempt when not all cores serve a foreign SSTable because it is being truncated, and the first
/// wait after a failure.
const RETRY_WAIT: Duration = Duration::from_secs(1);
/// Longest wait after a failure; each wait is twice as long as the one before.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(3600);

/// Starts the task that splits foreign SSTables. `released`: see [`engine::Store::begin_splitting`].
pub(crate) fn start(shard: &Shard, released: bool) {
    shard.store().begin_splitting(released);
    let shard = shard.clone();
    runtime::spawn_in(Class::Background, async move {
        let mut waits: BTreeMap<(TableId, Descriptor), Duration> = BTreeMap::new();
        while let Some((table, foreign)) = shard.store().next_foreign().await {
            let name = (table, foreign.clone());
            match lead(&shard, table, &foreign).await {
                Ok(true) => {
                    waits.remove(&name);
                    tracing::info!(%table, sstable = %foreign, "split a foreign SSTable between the cores");
                }
                Ok(false) => runtime::sleep(RETRY_WAIT).await,
                Err(Failed { failure, retry }) => {
                    shard.store().leave_foreign(table, &foreign);
                    if !retry {
                        tracing::warn!(
                            %failure, %table, sstable = %foreign,
                            "whether a foreign SSTable was split is for the next start to find out"
                        );
                        continue;
                    }
                    let wait = waits.get(&name).map_or(RETRY_WAIT, |wait| (*wait * 2).min(RETRY_WAIT_MAX));
                    waits.insert(name, wait);
                    tracing::warn!(
                        %failure, %table, sstable = %foreign, seconds = wait.as_secs(),
                        "a foreign SSTable could not be split, to be tried again"
                    );
                    let shard = shard.clone();
                    runtime::spawn_in(Class::Background, async move {
                        runtime::sleep(wait).await;
                        shard.store().retry_foreign(table, &foreign);
                    });
                }
            }
        }
    });
}

/// The failure of a split.
struct Failed {
    failure: Failure,
    /// Whether nothing has changed, so that the split may be tried again.
    retry: bool,
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Failed {
        Failed { failure, retry: true }
    }
}

/// Leads the split of one foreign SSTable. Returns `false` if some core does not serve it.
async fn lead(shard: &Shard, table: TableId, foreign: &Descriptor) -> Result<bool, Failed> {
    let ask = |step: SplitStep| {
        let request = SplitRequest { table, foreign: foreign.clone(), step };
        shard.call_all(move || Request::Split(Box::new(request.clone())))
    };
    let mut places = Vec::new();
    for reply in ask(SplitStep::Begin).await {
        match reply.split()? {
            Some(place) => places.push(place),
            None => return Ok(false),
        }
    }
    let failed = |error: engine::Error| Failure::server(error.to_string());
    let Some(mut parts) = shard.store().write_parts(table, foreign, &places).await.map_err(failed)? else {
        return Ok(false);
    };
    let opened = ask(SplitStep::Open(parts.names().clone())).await;
    if let Some(failure) = opened.into_iter().find_map(|reply| reply.split().err()) {
        ask(SplitStep::Drop).await;
        parts.abort().await.map_err(failed)?;
        return Err(failure.into());
    }
    // From here on a failure leaves it open whether the split happened; the next start sees either the parts or the
    // foreign SSTable.
    if let Err(error) = parts.commit().await {
        ask(SplitStep::Drop).await;
        return Err(Failed { failure: failed(error), retry: false });
    }
    let mut adopted = Ok(());
    for reply in ask(SplitStep::Adopt).await {
        adopted = adopted.and(reply.split().map(|_| ()));
    }
    let ended = match adopted {
        Ok(()) => parts.finish().await.map_err(failed),
        Err(failure) => Err(failure),
    };
    ended.map(|()| true).map_err(|failure| Failed { failure, retry: false })
}

/// Carries out this core's part of a step.
pub(crate) async fn take_part(shard: &Shard, request: SplitRequest) -> Result<Option<LogPosition>, Failure> {
    let SplitRequest { table, foreign, step } = request;
    let store = shard.store();
    let done = match step {
        SplitStep::Begin => store.begin_part(table, &foreign).await,
        SplitStep::Open(names) => store.open_part(table, &foreign, &names).await.map(|()| None),
        SplitStep::Adopt => store.adopt_part(table, &foreign).await.map(|()| None),
        SplitStep::Drop => {
            store.drop_part(table, &foreign);
            Ok(None)
        }
    };
    done.map_err(|error| Failure::server(error.to_string()))
}

//! Foreign SSTables split between the cores, in the background: see `engine`'s `split` for the steps.
//!
//! Each core leads those that fall to it, one after the other, and asks all cores, itself among them, to take part.

use crate::Shard;
use crate::verbs::Request;
use engine::store::LogPosition;
use engine::{Descriptor, PartNames};
use model::{Failure, TableId};
use runtime::Class;
use std::time::Duration;

/// Before a foreign SSTable that not all cores serve, because it is being truncated, is looked at again.
const RETRY_WAIT: Duration = Duration::from_secs(1);

/// A core's share in the end of a foreign SSTable.
#[derive(Clone, Debug)]
pub struct PartRequest {
    table: TableId,
    foreign: Descriptor,
    step: PartStep,
}

#[derive(Clone, Debug)]
enum PartStep {
    /// Tell where your log is, if you serve it.
    Begin,
    /// Open your part.
    Open(PartNames),
    /// Serve your part instead.
    Adopt,
    /// There will be no parts.
    Drop,
}

/// Starts the task that leads the ends of foreign SSTables. `released`: see [`engine::Store::begin_splitting`].
pub(crate) fn start(shard: &Shard, released: bool) {
    shard.store().begin_splitting(released);
    let shard = shard.clone();
    runtime::spawn_in(Class::Background, async move {
        while let Some((table, foreign)) = shard.store().next_foreign().await {
            match lead(&shard, table, &foreign).await {
                Ok(true) => tracing::info!(%table, sstable = %foreign, "split a foreign SSTable between the cores"),
                Ok(false) => runtime::sleep(RETRY_WAIT).await,
                Err(failure) => {
                    tracing::warn!(%failure, %table, sstable = %foreign, "a foreign SSTable stays as it is");
                    shard.store().leave_foreign(table, &foreign);
                }
            }
        }
    });
}

/// Leads the end of one; whether it is over. `false`: some core does not serve it.
async fn lead(shard: &Shard, table: TableId, foreign: &Descriptor) -> Result<bool, Failure> {
    let ask = |step: PartStep| {
        let request = PartRequest { table, foreign: foreign.clone(), step };
        shard.call_all(move || Request::Part(Box::new(request.clone())))
    };
    let mut places = Vec::new();
    for reply in ask(PartStep::Begin).await {
        match reply.part()? {
            Some(place) => places.push(place),
            None => return Ok(false),
        }
    }
    let failed = |error: engine::Error| Failure::server(error.to_string());
    let Some(mut parts) = shard.store().write_parts(table, foreign, &places).await.map_err(failed)? else {
        return Ok(false);
    };
    let opened = ask(PartStep::Open(parts.names().clone())).await;
    if let Some(failure) = opened.into_iter().find_map(|reply| reply.part().err()) {
        ask(PartStep::Drop).await;
        parts.abort().await.map_err(failed)?;
        return Err(failure);
    }
    // What fails from here on is for the next start to find out, which sees the parts or the foreign SSTable.
    if let Err(error) = parts.commit().await {
        ask(PartStep::Drop).await;
        return Err(failed(error));
    }
    for reply in ask(PartStep::Adopt).await {
        reply.part()?;
    }
    parts.finish().await.map_err(failed)?;
    Ok(true)
}

/// Takes this core's part in a step.
pub(crate) async fn take_part(shard: &Shard, request: PartRequest) -> Result<Option<LogPosition>, Failure> {
    let PartRequest { table, foreign, step } = request;
    let store = shard.store();
    let done = match step {
        PartStep::Begin => store.begin_part(table, &foreign).await,
        PartStep::Open(names) => store.open_part(table, &foreign, &names).await.map(|()| None),
        PartStep::Adopt => store.adopt_part(table, &foreign).await.map(|()| None),
        PartStep::Drop => {
            store.drop_part(table, &foreign);
            Ok(None)
        }
    };
    done.map_err(|error| Failure::server(error.to_string()))
}

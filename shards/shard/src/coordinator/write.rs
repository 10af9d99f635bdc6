//! Bringing mutations to the cores that own them and counting their acknowledgements.

use super::too_many_calls;
use crate::messages::Request;
use crate::metrics::WrittenTables;
use crate::replica::{self, counters};
use crate::request::AckTerms;
use crate::shard_state::Shard;
use model::failure::Outcome;
use model::{Failure, Home, Mutation};
use runtime::sync::join_all;
use std::future::Future;
use std::pin::Pin;

/// A mutation with what is needed to find its owner.
#[derive(Clone)]
pub(crate) struct Routed {
    /// The change of one partition.
    pub(crate) mutation: Mutation,
    /// Where the partitions of its table live.
    pub(crate) home: Home,
    /// Whether its table has counters.
    pub(crate) counts: bool,
}

/// Writes all of `mutations` concurrently. If one fails definitely while another may have taken effect, the outcome of
/// the whole is unknown.
pub(crate) fn write(
    shard: &Shard,
    mutations: Vec<Routed>,
    terms: &AckTerms,
) -> impl Future<Output = Result<(), Failure>> {
    if !mutations.is_empty() {
        shard.trace(|| "Determining replicas for mutation".into());
    }
    apply(shard, mutations, terms)
}

/// Writes the mutations of a batch that is in the batch log: like [`write`], but without its event in the trace.
pub(crate) async fn apply(shard: &Shard, mut mutations: Vec<Routed>, terms: &AckTerms) -> Result<(), Failure> {
    let write_type = match mutations.first() {
        Some(routed) if routed.counts => "COUNTER",
        _ if mutations.len() > 1 => "UNLOGGED_BATCH",
        _ => "SIMPLE",
    };
    let result = match mutations.len() {
        0 => return Ok(()),
        1 => {
            let Some(routed) = mutations.pop() else { return Ok(()) };
            write_one(shard, routed, terms, write_type).await
        }
        _ => Box::pin(write_many(shard, mutations, terms, write_type)).await,
    };
    result.map_err(|failure| match failure.outcome {
        Outcome::NotApplied => failure,
        Outcome::Unknown => terms.unknown_write(failure, write_type),
    })
}

async fn write_one(shard: &Shard, routed: Routed, terms: &AckTerms, write_type: &'static str) -> Result<(), Failure> {
    let to = shard.route(routed.home, routed.mutation.token());
    if to != shard.id() {
        if !shard.mailbox().has_room() {
            return Err(too_many_calls());
        }
        let (written, counts) = (WrittenTables::of(&routed.mutation), routed.counts);
        let request = match routed.counts {
            true => Request::MutateCounters(routed.mutation),
            false => Request::Mutate { mutation: routed.mutation, system: false },
        };
        let call = shard.mailbox().call(to, request);
        let began = runtime::now();
        return match Box::pin(runtime::timeout(terms.timeout, call)).await {
            Some(reply) => {
                shard.metrics().coordinated(&written, counts, began);
                reply.done()
            }
            None => Err(terms.write_timed_out(write_type)),
        };
    }
    let owner = shard.clone();
    let mut applying: Pin<Box<_>> = Box::pin(async move {
        match routed.counts {
            true => {
                let (written, began) = (WrittenTables::of(&routed.mutation), runtime::now());
                let result = Box::pin(counters::apply(&owner, routed.mutation)).await;
                owner.metrics().coordinated(&written, true, began);
                result
            }
            false => replica::mutate_here(&owner, routed.mutation).await,
        }
    });
    match runtime::timeout(terms.timeout, applying.as_mut()).await {
        Some(result) => result,
        None => {
            // What is in the log must also reach the memtable, so the write goes on without its client.
            runtime::spawn(applying);
            Err(terms.write_timed_out(write_type))
        }
    }
}

async fn write_many(
    shard: &Shard,
    mutations: Vec<Routed>,
    terms: &AckTerms,
    write_type: &'static str,
) -> Result<(), Failure> {
    let writes = mutations.into_iter().map(|routed| write_one(shard, routed, terms, write_type));
    let mut results = join_all(writes.collect()).await;
    let Some(at) = results.iter().position(Result::is_err) else { return Ok(()) };
    let applied = results.iter().any(|result| match result {
        Ok(()) => true,
        Err(failure) => failure.outcome == Outcome::Unknown,
    });
    results.swap_remove(at).map_err(|failure| if applied { failure.unknown() } else { failure })
}

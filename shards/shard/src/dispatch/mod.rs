//! Messages in, and the functions that serve them.
//!
//! What needs no wait (a read of one partition from memory) is served in the receiving task; the rest in a task of its
//! own. Everything that a message may ask for is below this module; what asks this core itself comes through
//! [`Shard::call`], which reaches [`serve`] by the handlers of `shard_state`.

pub(crate) mod peers;

use crate::coordinator::{cas, throttle};
use crate::definitions::{adopt, define, truncate};
use crate::execute::conditional::decision;
use crate::execute::write::list_changes;
use crate::messages::data::PaxosReply;
use crate::messages::{Message, Reply, Request};
use crate::metadata::{self, owed_truncations};
use crate::operations::{hints, membership, metrics_gathering, splits, table_verbs};
use crate::planning::prepared;
use crate::ports::Unreadable;
use crate::repair;
use crate::replica::{self, batches, counters, fragments, list_reads, unfinished, validation};
use crate::shard_state::{Handlers, Shard};
use crate::stream;
use crate::virtual_tables;
use engine::PrefetchStage;
use runtime::ShardId;

/// The functions that `shard_state` calls without knowing their modules; plugged in when a shard starts.
pub(crate) const HANDLERS: Handlers = Handlers {
    serve: |shard, request| Box::pin(serve(shard, request)),
    serve_own: |shard, verb, body| Box::pin(peers::serve_own(shard, verb, body)),
    read_virtual: |shard, table, request| Box::pin(virtual_tables::read(shard, table, request)),
};

/// Takes messages of other cores. The memory that they point to is in the caches of those cores, or in none: it is
/// prefetched for all messages before the first is served, so that the waits for memory overlap.
pub(crate) fn receive_all(shard: &Shard, messages: &mut Vec<(ShardId, Message)>) {
    messages.iter().for_each(|(_, message)| message.prefetch());
    for step in [PrefetchStage::Way, PrefetchStage::Partition] {
        messages.iter().filter_map(|(_, message)| message.partition()).for_each(|(table, token)| {
            shard.store().prefetch(table, token, step);
        });
    }
    messages.drain(..).for_each(|(from, message)| receive(shard, from, message));
}

/// Takes a message of another core.
fn receive(shard: &Shard, from: ShardId, message: Message) {
    match message {
        Message::Reply { id, reply } => shard.mailbox().complete(id, reply),
        Message::Request { id, request } => receive_request(shard, from, id, request),
        Message::Start(_) => {}
    }
}

/// Takes a request of core `from`: answers it now or spawns a task that will.
fn receive_request(shard: &Shard, from: ShardId, id: u64, request: Request) {
    let request = match request {
        Request::Read(mut call) => {
            match replica::timed_read_now(shard, &call.request, std::mem::take(&mut call.room)) {
                Some(result) => {
                    call.result = Some(result);
                    return shard.mailbox().answer(from, id, Reply::Read(call));
                }
                None => Request::Read(call),
            }
        }
        request => request,
    };
    let shard = shard.clone();
    runtime::spawn(async move {
        let reply = serve(&shard, request).await;
        shard.mailbox().answer(from, id, reply);
    });
}

/// Serves a request on this core.
async fn serve(shard: &Shard, request: Request) -> Reply {
    match request {
        Request::Mutate { mutation, system } => Reply::Done(replica::mutate(shard, mutation, system).await),
        Request::MutateLate { mutation, written_at } => {
            Reply::Done(replica::mutate_late(shard, mutation, written_at).await)
        }
        Request::MutateCounters(mutation) => Reply::Done(Box::pin(counters::apply(shard, mutation)).await),
        Request::LeadCounters(mutation) => Reply::Counted(Box::pin(counters::apply_as_leader(shard, mutation)).await),
        Request::ChangeLists(change) => Reply::Done(Box::pin(list_changes::apply(shard, &change)).await),
        Request::Decide(request) => Reply::Decided(Box::pin(cas::at_owner(shard, *request, decision::decide)).await),
        Request::Paxos(request) => {
            let answer = Box::pin(cas::accept(shard, *request)).await;
            Reply::Paxos(answer.map(|answer| Box::new(PaxosReply(answer))))
        }
        Request::Lock(lock) => Reply::Locked(Box::pin(list_reads::lock(shard, &lock)).await),
        Request::Unlock(ticket) => {
            shard.partition_locks().release(ticket);
            Reply::Done(Ok(()))
        }
        Request::Read(mut call) => {
            call.result = Some(replica::read_waiting(shard, &call.request).await);
            Reply::Read(call)
        }
        Request::ReadDigest(request) => {
            Reply::Digest(Box::pin(fragments::read_digest(shard, &request)).await.map(Box::new))
        }
        Request::ReadFragments(request) => Reply::Fragments(Box::pin(fragments::read_fragments(shard, &request)).await),
        Request::ReadFragmentsOf(request) => {
            let (set, request) = *request;
            Reply::Fragments(Box::pin(fragments::read_fragments_of(shard, set, &request)).await)
        }
        Request::RepairSession(request) => {
            Reply::RepairSession(Box::pin(repair::sessions::serve(shard, *request)).await)
        }
        Request::Validate(request) => {
            Reply::Validated(Box::pin(validation::validate(shard, *request)).await.map(Box::new))
        }
        Request::NoteRepaired(repaired) => Reply::Done(Box::pin(repair::proofs::note(shard, &repaired)).await),
        Request::ListUnfinished(request) => {
            Reply::Unfinished(Box::pin(unfinished::list(shard, *request)).await.map(Box::new))
        }
        Request::StoreBatch(batch) => Reply::Done(Box::pin(batches::store(shard, &batch)).await),
        Request::RemoveBatch(id) => Reply::Done(Box::pin(batches::remove(shard, id)).await),
        Request::RelayedAnswer(answer) => {
            shard.relayed_writes().complete(answer.0, answer.1);
            Reply::Done(Ok(()))
        }
        // Boxed: these call other cores, and through `call` this function again.
        Request::Define(statement) => Reply::Defined(Box::pin(define::define(shard, *statement)).await),
        Request::Truncate(table) => Reply::Done(Box::pin(truncate::truncate(shard, table)).await),
        Request::OweTruncation(owed) => Reply::Done(Box::pin(owed_truncations::owe(shard, *owed)).await),
        Request::SwitchOwingNodes(owing) => {
            shard.set_owing_nodes(owing);
            Reply::Done(Ok(()))
        }
        Request::TruncateShard(table) => {
            shard.truncations().note(table, shard.clock().timestamp());
            shard.streams().void(table);
            let result = shard.store().truncate(table).await;
            Reply::Truncated(result.map_err(|error| replica::failure(&shard.schema(), None, error)))
        }
        Request::ReleaseLog(table) => {
            let result = shard.store().release(table).await;
            Reply::Done(result.map_err(|error| replica::failure(&shard.schema(), Some(table), error)))
        }
        Request::AdoptTables(schema) => {
            adopt::adopt_tables(shard, &schema);
            Reply::Done(Ok(()))
        }
        Request::SwitchSchema { schema, change, dropped, timestamp, clock_ahead } => {
            shard.clock().raise(timestamp, clock_ahead);
            shard.store().set_clock_ahead(clock_ahead);
            Reply::Done(adopt::switch_schema(shard, schema, change, &dropped).await)
        }
        Request::SwitchTopology(members) => {
            membership::adopt(shard, &members);
            Reply::Done(Ok(()))
        }
        Request::EndOlder { epoch, fence } => {
            Reply::Done(if fence { shard.fence_older(epoch) } else { shard.older_ended(epoch).await })
        }
        Request::SwitchLiveNodes(live) => {
            shard.set_live_nodes(live);
            Reply::Done(Ok(()))
        }
        Request::InstallPrepared { id, keyspace, text } => {
            Reply::Done(Box::pin(prepared::install(shard, id, keyspace, text)).await)
        }
        Request::FindPrepared(id) => Reply::Prepared(Box::pin(prepared::find_at_home(shard, id)).await),
        Request::Lease(request) => Reply::Leased(throttle::lease(shard, &request)),
        Request::BeginLimited { quota, most } => Reply::Begun(shard.throughput().begin_request(quota, most)),
        Request::EndLimited(quota) => {
            shard.throughput().end_request(quota);
            Reply::Done(Ok(()))
        }
        Request::ForgetRoles => {
            shard.roles().forget();
            Reply::Done(Ok(()))
        }
        Request::Metrics(request) => metrics_gathering::answer(shard, request),
        Request::Table(verb) => Reply::Table(Box::pin(table_verbs::run(shard, *verb)).await),
        Request::Hints(verb) => Reply::Hints(Box::pin(hints::run(shard, verb)).await),
        Request::Split(request) => Reply::Split(Box::pin(splits::take_part(shard, *request)).await),
        Request::Stream(verb) => Reply::Stream(Box::pin(stream::run(shard, *verb)).await),
        Request::Traced { began, request } => {
            let served = Box::pin(serve(shard, *request));
            let (reply, events) = shard.traced_for_peer(began, served).await;
            Reply::Traced { reply: Box::new(reply), events }
        }
        Request::Control(request) => {
            let (verb, body) = *request;
            let answer = Box::pin(metadata::peers::serve(shard, verb, &body)).await;
            Reply::Control(answer.unwrap_or(Err(Unreadable)))
        }
        Request::Barrier(step) => Reply::Done(shard.barrier().arrive(step).await),
    }
}

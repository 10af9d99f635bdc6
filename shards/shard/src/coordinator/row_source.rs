//! The rows that a change depends on: of this core, or as a read at a level sees them.

use super::asked_replica::plan_of;
use super::gathering::{Patience, Unread};
use super::reconciling::{Reconciling, begin};
use super::remote::Asked;
use crate::messages::Request;
use crate::messages::data::{FragmentRequest, ListRead, ListsByRow};
use crate::replica::{self, list_reads};
use crate::shard_state::Shard;
use cluster::placement::Replica;
use cluster::plan::{Quorum, Votes};
use cluster::topology::Topology;
use model::fragment_block::FragmentBlock;
use model::query::{Partitions, ReadCommand, ReadEnd, RowSink};
use model::shape::reconcile::ReconcilingRead;
use model::{Consistency, Failure, Table};
use runtime::{Instant, ShardId};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::rc::Rc;
use std::task::Poll;

/// Bytes of fragments that are asked for at once.
const FRAGMENT_BYTES: usize = 1 << 20;

/// Where the rows of a partition are read.
pub(crate) enum RowSource {
    /// On this core, which has the partition.
    Here,
    /// On as many replicas as a level needs, which must answer before a deadline.
    AtLevel { level: Consistency, deadline: Instant },
    /// On some of these replicas.
    Fastest(Box<Fastest>),
}

impl RowSource {
    /// Gives the rows of a partition of `table` to `sink`.
    pub(crate) async fn read(
        &self,
        shard: &Shard,
        table: &Table,
        command: ReadCommand,
        sink: &mut dyn RowSink,
    ) -> Result<ReadEnd, Failure> {
        match self {
            RowSource::Here => {
                let read = shard.store().read(&command, sink).await;
                read.map_err(|error| replica::failure(&shard.schema(), Some(table.id), error))
            }
            RowSource::AtLevel { level, deadline } => {
                Box::pin(read_at_level(shard, table, *level, *deadline, command, sink)).await
            }
            RowSource::Fastest(fastest) => {
                let mut answered = fastest.answered(&command);
                let mut read = ReconcilingRead::new(command);
                loop {
                    let blocks = match answered.take() {
                        Some(blocks) => blocks,
                        None => {
                            let command = read.command().clone();
                            let request = FragmentRequest { command, bytes_max: FRAGMENT_BYTES };
                            Box::pin(fastest.fragments(shard, &request)).await?
                        }
                    };
                    if let Some(end) = read.take(table, &blocks, sink) {
                        return Ok(end);
                    }
                }
            }
        }
    }

    /// Reads lists of partitions that are all in this place.
    pub(crate) async fn lists(&self, shard: &Shard, reads: &[ListRead]) -> Result<ListsByRow, Failure> {
        let mut found = ListsByRow::new();
        for read in reads {
            let (command, mut collected) = list_reads::begin(read);
            self.read(shard, &read.table, command, &mut collected).await?;
            list_reads::end(read, collected, &mut found);
        }
        Ok(found)
    }
}

/// Replicas of a partition of which the first to answer are merged.
pub(crate) struct Fastest {
    /// The nodes by which they were chosen.
    pub(crate) topology: Rc<Topology>,
    /// The replicas, all of which are asked: the first ones of `quorum`.
    pub(crate) replicas: SmallVec<[Replica; 3]>,
    /// Who of them must answer.
    pub(crate) quorum: Quorum,
    /// Until when.
    pub(crate) deadline: Instant,
    /// A read that as many as needed have answered already, and their answers.
    pub(crate) answered: RefCell<Option<(ReadCommand, Vec<FragmentBlock>)>>,
}

impl Fastest {
    /// The answers to a read, if it has been answered already.
    fn answered(&self, command: &ReadCommand) -> Option<Vec<FragmentBlock>> {
        let answered = self.answered.borrow_mut().take_if(|(answered, _)| answered == command);
        answered.map(|(_, blocks)| blocks)
    }

    /// What as many replicas as needed have of a request.
    async fn fragments(&self, shard: &Shard, request: &FragmentRequest) -> Result<Vec<FragmentBlock>, Failure> {
        let asked = |(at, replica): (usize, &Replica)| (at, Box::pin(self.ask(shard, *replica, request)));
        let mut open: Vec<_> = self.replicas.iter().enumerate().map(asked).collect();
        let mut blocks = Vec::with_capacity(self.replicas.len());
        let mut answered = Votes::default();
        loop {
            let answer = std::future::poll_fn(|context| {
                for place in 0..open.len() {
                    if let Poll::Ready(answer) = open[place].1.as_mut().poll(context) {
                        return Poll::Ready((open.swap_remove(place).0, answer));
                    }
                }
                Poll::Pending
            });
            match answer.await {
                (at, Ok(block)) => {
                    blocks.push(block);
                    answered += self.quorum.votes_of(at);
                }
                (_, Err(failure)) => {
                    let mut most = answered;
                    open.iter().for_each(|(at, _)| most += self.quorum.votes_of(*at));
                    if !self.quorum.is_met_by(most) {
                        return Err(failure);
                    }
                }
            }
            if self.quorum.is_met_by(answered) {
                return Ok(blocks);
            }
        }
    }

    async fn ask(&self, shard: &Shard, replica: Replica, request: &FragmentRequest) -> Result<FragmentBlock, Failure> {
        if replica.node == self.topology.here() {
            let request = Request::ReadFragments(Box::new(request.clone()));
            return shard.call(ShardId(replica.shard), request).await.fragments();
        }
        Asked::until(&self.topology, replica.node, self.deadline).read_fragments(shard, replica, request).await
    }
}

/// Gives the rows of a partition of `table` to `sink`, as a read at `level` sees them, which repairs what its replicas
/// lack. `command` names one partition. The sink must not reject rows.
///
/// # Errors
/// Those of a read at that level: too few replicas are alive, have answered before `deadline`, or can answer.
pub(crate) async fn read_at_level(
    shard: &Shard,
    table: &Table,
    level: Consistency,
    deadline: Instant,
    command: ReadCommand,
    sink: &mut dyn RowSink,
) -> Result<ReadEnd, Failure> {
    let Partitions::Key(key) = command.partitions.clone() else {
        return Err(Failure::server("A change depends on more than one partition"));
    };
    let mut read = begin(command.clone());
    loop {
        let placement = shard.placement_of(table)?;
        let mut plan = plan_of(&placement, level, &key)?;
        let here = Replica { node: placement.keyspace().topology().here(), shard: shard.id().0 };
        if plan.asks_one() && !plan.has_choice() && plan.targets().any(|(replica, _)| replica == here) {
            let found = shard.store().read(&command, sink).await;
            return found.map_err(|error| replica::failure(&shard.schema(), Some(table.id), error));
        }
        let patience = Patience::of_table(shard, table, deadline);
        let reconciling = Reconciling { shard, table, placement: &placement, patience, filtered: None };
        match Box::pin(reconciling.run(&mut plan, &mut read, sink)).await {
            Ok(end) => return Ok(end),
            Err(Unread::Failed(failure)) => return Err(failure),
            Err(Unread::Moved) => {}
        }
    }
}

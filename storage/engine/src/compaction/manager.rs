//! Compactions of a shard, one at a time.

use super::run::{self, Done, Job};
use crate::Error;
use crate::store::{Inner, Store};
use model::TableId;
use std::rc::Rc;

impl Store {
    /// Merges all SSTables of a table into one, after a flush: a major compaction. Foreign ones stay as they are.
    ///
    /// # Errors
    /// The disk's, or an SSTable that cannot be read: everything stays as it was.
    pub async fn compact(&self, table: TableId) -> Result<(), Error> {
        let inner = self.inner();
        let _pass = inner.gate.enter().ok_or(Error::Closing)?;
        inner.flush(table).await?;
        let _turn = inner.compaction_turn.acquire(1).await;
        let inputs: Vec<_> = {
            let tables = inner.tables.borrow();
            let state = tables.get(&table).ok_or(Error::UnknownTable(table))?;
            state.view.sstables.iter().filter(|sstable| !sstable.foreign).cloned().collect()
        };
        inner.compact(Job { table, inputs, level: 0, output_bytes_max: u64::MAX }).await.map(|_| ())
    }
}

impl Inner {
    /// Runs a job, if it has inputs. The caller has the turn.
    pub(crate) async fn compact(self: &Rc<Self>, job: Job) -> Result<Done, Error> {
        if job.inputs.is_empty() {
            return Ok(Done::default());
        }
        let (table, inputs) = (job.table, job.inputs.len());
        let done = run::run(self, job, runtime::wall_micros() / 1_000_000).await?;
        tracing::info!(%table, inputs, ?done, "compacted");
        Ok(done)
    }
}

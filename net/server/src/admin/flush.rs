//! Commands that write memtables to SSTables: `flush` and `drain`.

use super::protocol::Request;
use super::{Admin, Refused, table_names};
use shard::TableVerb;
use std::rc::Rc;

/// `flush`: the tables named, those of a keyspace, or all.
pub(crate) async fn flush(admin: &Rc<Admin>, request: &Request) -> Result<(), Refused> {
    for table in table_names::tables(admin, &request.arguments)? {
        admin.shard.on_every_shard(TableVerb::Flush(table.id)).await?;
    }
    Ok(())
}

/// `drain`: serves no more clients, then flushes everything. What is asked a second time is done already.
pub(crate) async fn drain(admin: &Rc<Admin>) -> Result<(), Refused> {
    admin.drain.set();
    admin.drained.wait().await;
    admin.shard.on_every_shard(TableVerb::FlushAll).await?;
    Ok(())
}

//! Commands that write memtables to SSTables: `flush`, `compact` and `drain`.

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

/// `compact`: what `flush` does, and one SSTable per core of the tables named.
pub(crate) async fn compact(admin: &Rc<Admin>, request: &Request) -> Result<(), Refused> {
    if let Some(option) = request.arguments.iter().find(|argument| argument.starts_with('-')) {
        return Err(Refused::Failed(format!("compact {option} is not supported")));
    }
    for table in table_names::tables(admin, &request.arguments)? {
        admin.shard.on_every_shard(TableVerb::Compact(table.id)).await?;
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

//! Which SSTables have a partition: for `nodetool getsstables`.

use crate::error::Error;
use crate::sstables::open_sstable::OpenSstable;
use crate::tables::Tables;
use model::fragment::{Cursor, FragmentStep};
use model::query::{Partitions, Slice};
use model::{DecoratedKey, TableId};
use sstable::Component;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// The Data.db and the level of each SSTable of a table that has a partition, if this shard owns it.
///
/// # Errors
/// The disk's, and an SSTable that cannot be used.
pub(crate) async fn sstables_with(
    tables: &Tables,
    table: TableId,
    key: &DecoratedKey,
) -> Result<Vec<(PathBuf, u32)>, Error> {
    let (_, view) = tables.readable(table)?;
    let mut found = Vec::new();
    if !tables.owns(table, key.token) {
        return Ok(found);
    }
    view.check_opened(&Partitions::Key(key.clone()))?;
    for sstable in &view.sstables {
        let (first, last) = sstable.tokens();
        let near = first <= key.token && key.token <= last && sstable.reader.may_contain(&key.key);
        if near && has(sstable, key).await? {
            let file = sstable.directory.join(sstable.reader.descriptor().file_name(Component::Data));
            found.push((file, sstable.reader.metadata().statistics.level));
        }
    }
    found.sort();
    Ok(found)
}

async fn has(sstable: &Rc<OpenSstable>, key: &DecoratedKey) -> Result<bool, Error> {
    let mut cursor = sstable.reader.partition(key.clone(), Arc::new([Slice::all()]), false);
    loop {
        match Cursor::advance(&mut cursor).map_err(|error| sstable.bad(error))? {
            FragmentStep::Fragment => return Ok(true),
            FragmentStep::End => return Ok(false),
            FragmentStep::Need(need) => {
                if let Some(block) = cursor.needed_block(need) {
                    let bytes = sstable.load(block).await?;
                    cursor.supply(block, bytes);
                }
            }
        }
    }
}

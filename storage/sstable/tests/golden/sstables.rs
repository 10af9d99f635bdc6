//! The SSTables among the files of a table, and cursors over their bytes in memory.

use super::archive::Files;
use bytes::Bytes;
use sstable::reader::{ComponentBytes, Cursor, CursorStep, Reader};
use sstable::sidecar::{PAGE_BYTES, Sidecar};
use sstable::{BlockId, Component, Descriptor, Error, Version};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) struct Sstable<'f> {
    pub(crate) descriptor: Descriptor,
    /// The Helenus.db that all reads are checked against, if there is one.
    pub(crate) sidecar: Option<Sidecar>,
    pub(crate) files: BTreeMap<&'static str, &'f [u8]>,
}

/// Returns the SSTables of a table, by name.
pub(crate) fn sstables(files: &Files) -> Vec<Sstable<'_>> {
    let mut found: BTreeMap<Descriptor, Sstable<'_>> = BTreeMap::new();
    for (name, bytes) in files {
        if let Some((descriptor, Some(component))) = Descriptor::parse(name) {
            let entry = || Sstable { descriptor: descriptor.clone(), sidecar: None, files: BTreeMap::new() };
            found.entry(descriptor.clone()).or_insert_with(entry).files.insert(component.name(), bytes);
        }
    }
    found.into_values().collect()
}

impl<'f> Sstable<'f> {
    pub(crate) fn part(&self, name: &str) -> Option<&'f [u8]> {
        self.files.get(name).copied()
    }

    pub(crate) fn try_open(&self, table: &Arc<model::Table>) -> Result<Arc<Reader>, Error> {
        if let Some(sidecar) = &self.sidecar {
            let whole = ["Statistics.db", "CompressionInfo.db", "CRC.db", "Filter.db", "Summary.db", "Partitions.db"];
            for (name, bytes) in whole.iter().filter_map(|name| Some((name, self.part(name)?))) {
                let component = Component::parse(name).expect("known");
                sidecar.check(&self.descriptor, BlockId { component, offset: 0 }, bytes)?;
            }
        }
        let bti = self.descriptor.version == Version::Da;
        let len = |name| self.part(name).map_or(0, <[u8]>::len) as u64;
        let components = ComponentBytes {
            data_len: len("Data.db"),
            statistics: self.part("Statistics.db").unwrap_or_default(),
            compression_info: self.part("CompressionInfo.db"),
            crc: self.part("CRC.db"),
            filter: self.part("Filter.db"),
            index_len: len(if bti { "Partitions.db" } else { "Index.db" }),
            rows_len: len("Rows.db"),
            partitions_tail: self.part("Partitions.db").unwrap_or_default(),
            summary: self.part("Summary.db"),
        };
        Reader::open(self.descriptor.clone(), table.clone(), components).map(Arc::new)
    }

    pub(crate) fn open(&self, table: &Arc<model::Table>) -> Arc<Reader> {
        self.try_open(table).expect("opens")
    }

    /// Returns the uncompressed data of Data.db.
    pub(crate) fn data(&self, reader: &Reader) -> Vec<u8> {
        let mut data = Vec::new();
        while (data.len() as u64) < reader.data_len() {
            let block = BlockId { component: Component::Data, offset: data.len() as u64 };
            let (offset, len) = reader.block_range(block).expect("a block");
            let raw = &self.part("Data.db").expect("there")[offset as usize..(offset + len) as usize];
            data.extend_from_slice(&reader.decode_block(block, Bytes::copy_from_slice(raw)).expect("decodes"));
        }
        data
    }

    pub(crate) fn driver(&self, cursor: Cursor) -> Driver<'_, 'f> {
        Driver { sstable: self, cursor, needs: 0 }
    }
}

/// A cursor that is supplied with every block that it needs.
pub(crate) struct Driver<'s, 'f> {
    sstable: &'s Sstable<'f>,
    pub(crate) cursor: Cursor,
    pub(crate) needs: usize,
}

impl Driver<'_, '_> {
    fn bring(&mut self, block: BlockId) -> Result<(), Error> {
        self.needs += 1;
        let reader = self.cursor.reader();
        let (offset, len) = reader.block_range(block)?;
        let file = self.sstable.part(block.component.name()).unwrap_or_default();
        if let Some(sidecar) = &self.sstable.sidecar {
            // Checksums are those of whole pages.
            let from = offset - offset % PAGE_BYTES as u64;
            let to = (offset + len).next_multiple_of(PAGE_BYTES as u64).min(file.len() as u64);
            let pages = BlockId { component: block.component, offset: from };
            sidecar.check(&self.sstable.descriptor, pages, &file[from as usize..to as usize])?;
        }
        let raw = &file[offset as usize..(offset + len) as usize];
        let bytes = reader.decode_block(block, Bytes::copy_from_slice(raw))?;
        self.cursor.supply(block, bytes);
        Ok(())
    }

    /// Goes on to the next fragment. Returns false at the end.
    pub(crate) fn next(&mut self) -> Result<bool, Error> {
        loop {
            match self.cursor.advance()? {
                CursorStep::Need(block) => self.bring(block)?,
                CursorStep::Fragment => return Ok(true),
                CursorStep::End => return Ok(false),
            }
        }
    }
}

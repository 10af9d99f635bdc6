//! Reads answers, only as far as checking them needs; no row is copied.

use crate::errors::Class;
use std::cell::RefCell;
use wire::metadata::flags::{GLOBAL_TABLES_SPEC, HAS_MORE_PAGES, METADATA_CHANGED, NO_METADATA};
use wire::metadata::read_columns;
use wire::notation::Reader;
use wire::{Opcode, flags};

/// The rows of an answer, cell by cell.
pub struct Rows<'a> {
    columns: usize,
    count: usize,
    reader: Reader<'a>,
}

impl<'a> Rows<'a> {
    /// The rows of an answer that has none.
    pub fn none() -> Rows<'a> {
        Rows { columns: 0, count: 0, reader: Reader::new(&[]) }
    }

    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many cells a row has.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The next cell: `None` if the answer is cut short, `Some(None)` if it is null.
    pub fn cell(&mut self) -> Option<Option<&'a [u8]>> {
        self.reader.bytes().ok()
    }

    /// The next cell as a bigint's bits; `Some(None)` if it is not 8 bytes long.
    pub fn number(&mut self) -> Option<Option<u64>> {
        let cell = self.cell()?;
        Some(cell.and_then(|cell| cell.try_into().ok()).map(u64::from_be_bytes))
    }
}

/// An answer.
pub enum Reply<'a> {
    /// A result, with or without rows.
    Rows(Rows<'a>),
    /// An error of the server: its class and its text.
    Failed(Class, &'a str),
    /// Bytes that are not an answer to a request.
    Malformed,
}

/// Reads the body of an answer. `metadata` holds the bytes of the statement's last result metadata, and is replaced if
/// they differ.
pub fn read<'a>(header_flags: u8, opcode: Opcode, body: &'a [u8], metadata: &RefCell<Vec<u8>>) -> Reply<'a> {
    let mut reader = Reader::new(body);
    if header_flags != 0 && skip_extras(header_flags, &mut reader).is_none() {
        return Reply::Malformed;
    }
    match opcode {
        Opcode::Error => match (reader.int(), reader.string()) {
            (Ok(code), Ok(text)) => Reply::Failed(Class::of_code(code), text),
            _ => Reply::Malformed,
        },
        Opcode::Result => match reader.int() {
            Ok(RESULT_VOID) => Reply::Rows(Rows::none()),
            Ok(RESULT_ROWS) => rows(reader, metadata).map_or(Reply::Malformed, Reply::Rows),
            _ => Reply::Malformed,
        },
        _ => Reply::Malformed,
    }
}

/// Kinds of RESULT: native protocol v5, section 4.2.5.
const RESULT_VOID: i32 = 1;
const RESULT_ROWS: i32 = 2;

fn skip_extras(set: u8, reader: &mut Reader<'_>) -> Option<()> {
    if set & flags::TRACING != 0 {
        reader.uuid().ok()?;
    }
    if set & flags::WARNINGS != 0 {
        reader.string_list().ok()?;
    }
    if set & flags::CUSTOM_PAYLOAD != 0 {
        reader.skip_bytes_map().ok()?;
    }
    Some(())
}

fn rows<'a>(mut reader: Reader<'a>, metadata: &RefCell<Vec<u8>>) -> Option<Rows<'a>> {
    let start = reader.rest();
    let known = metadata.borrow();
    let (columns, mut reader) = if !known.is_empty() && start.starts_with(&known) {
        let mut seen = Reader::new(&known[4..]);
        (seen.int().ok()?, Reader::new(&start[known.len()..]))
    } else {
        drop(known);
        let set = reader.int().ok()?;
        let columns = reader.int().ok()?;
        if set & HAS_MORE_PAGES != 0 {
            reader.bytes().ok()?;
        }
        if set & METADATA_CHANGED != 0 {
            reader.short_bytes().ok()?;
        }
        if set & NO_METADATA == 0 {
            read_columns(&mut reader, columns, set & GLOBAL_TABLES_SPEC != 0).ok()?;
        }
        // Metadata with a paging state or a new id differs from answer to answer: keeping it would be useless.
        if set & (HAS_MORE_PAGES | METADATA_CHANGED) == 0 {
            *metadata.borrow_mut() = start[..start.len() - reader.rest().len()].to_vec();
        }
        (columns, reader)
    };
    let count = usize::try_from(reader.int().ok()?).ok()?;
    Some(Rows { columns: usize::try_from(columns).ok()?, count, reader })
}

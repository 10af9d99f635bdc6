//! Records, which make up the payload of a group. Byte map: `docs/commitlog.md`, "Records".
//!
//! Invariants: decoding accepts any bytes without panicking; an error names what is wrong.

use model::mutation::{put_back_row, put_back_table};
use model::{ColumnId, ColumnKind, TableId};

/// Bytes before a record's body: length u32, kind u8.
pub const RECORD_HEADER_BYTES: usize = 5;
/// A table's columns without their kinds. Read only: earlier versions wrote it.
pub const KIND_COLUMN_LIST: u8 = 1;
/// A mutation, as `model::codec` encodes it.
pub const KIND_MUTATION: u8 = 2;
/// Where the records of other segments end.
pub const KIND_ENDS: u8 = 3;
/// A table's columns with their kinds. Read only, as [`KIND_COLUMN_LIST`].
pub const KIND_COLUMNS: u8 = 4;
/// A time, in microseconds: the node has given out no later write timestamp.
pub const KIND_TIMESTAMP: u8 = 5;
/// A mutation of one table without the table's id: see [`Record::CutMutation`].
pub const KIND_CUT_MUTATION: u8 = 6;
/// The ids of the tables that mutations of the group name by number.
pub const KIND_TABLES: u8 = 7;
/// A mutation of one row: see [`Record::Row`].
pub const KIND_ROW: u8 = 8;
/// Bytes of a [`KIND_TIMESTAMP`] record, header included.
pub const TIMESTAMP_BYTES: usize = RECORD_HEADER_BYTES + 8;
/// Bytes of one entry of [`KIND_TABLES`].
pub const TABLE_ID_BYTES: usize = 16;
/// Bytes of one entry of [`KIND_ENDS`]: segment id u64, end u32.
pub const END_BYTES: usize = 12;

/// One record of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record<'a> {
    /// The body of an encoded [`ColumnList`], and its format.
    ColumnList(&'a [u8], ListFormat),
    /// An encoded mutation.
    Mutation(&'a [u8]),
    /// A table's number in the group, and a mutation of that table without its id, as
    /// `model::mutation::cut_out_table` makes it.
    CutMutation(u16, &'a [u8]),
    /// A table's number in the group, and a mutation of one of its rows, as `model::mutation::cut_out_row` makes it.
    Row(u16, &'a [u8]),
    /// The ids of the group's tables; a table's number is its index.
    Tables(&'a [[u8; TABLE_ID_BYTES]]),
    /// The body of a list of segments and where their records end: see [`ends`].
    Ends(&'a [u8]),
    /// Microseconds since 1970: no mutation of this group or an earlier one has a later write timestamp that the node
    /// gave out.
    Timestamp(i64),
}

impl<'a> Record<'a> {
    /// The encoded mutation, or `None` if this record is not one. A mutation without its table is put together in
    /// `room`; `tables` are those of the group.
    ///
    /// # Errors
    /// The group has no table of that number, or the bytes end too early. [`model::Mutation::decode`] checks the
    /// rest.
    pub fn mutation<'b>(
        self,
        tables: &[[u8; TABLE_ID_BYTES]],
        room: &'b mut Vec<u8>,
    ) -> Result<Option<&'b [u8]>, &'static str>
    where
        'a: 'b,
    {
        let (number, cut) = match self {
            Record::Mutation(whole) => return Ok(Some(whole)),
            Record::CutMutation(number, cut) | Record::Row(number, cut) => (number, cut),
            Record::ColumnList(..) | Record::Tables(_) | Record::Ends(_) | Record::Timestamp(_) => return Ok(None),
        };
        let table = tables.get(usize::from(number)).ok_or("mutation of a table without a number")?;
        let put_in = if matches!(self, Record::Row(..)) { put_back_row } else { put_back_table };
        room.clear();
        put_in(cut, TableId(*table), room).ok_or("malformed mutation")?;
        Ok(Some(room))
    }
}

/// How a [`ColumnList`] is encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListFormat {
    /// [`KIND_COLUMN_LIST`]: all columns are taken as regular. Tables of that time had no static columns, and the ids
    /// of key columns are not used.
    WithoutKinds,
    /// [`KIND_COLUMNS`]: with the kind of each column.
    WithKinds,
}

/// The header of a record with a body of `body_bytes` bytes.
pub fn record_header(kind: u8, body_bytes: usize) -> [u8; RECORD_HEADER_BYTES] {
    let [a, b, c, d] = (body_bytes as u32).to_le_bytes();
    [a, b, c, d, kind]
}

/// The records of a group's payload. Iteration ends after the first error.
pub fn records(payload: &[u8]) -> impl Iterator<Item = Result<Record<'_>, &'static str>> {
    let mut rest = payload;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let record = split_record(rest);
        rest = match record {
            Ok((_, tail)) => tail,
            Err(_) => &[],
        };
        Some(record.map(|(record, _)| record))
    })
}

fn split_record(bytes: &[u8]) -> Result<(Record<'_>, &[u8]), &'static str> {
    let (header, rest) = bytes.split_first_chunk::<RECORD_HEADER_BYTES>().ok_or("record header cut short")?;
    let [a, b, c, d, kind] = *header;
    let len = u32::from_le_bytes([a, b, c, d]) as usize;
    let (body, rest) = rest.split_at_checked(len).ok_or("record longer than its group")?;
    let record = match kind {
        KIND_COLUMN_LIST => Record::ColumnList(body, ListFormat::WithoutKinds),
        KIND_COLUMNS => Record::ColumnList(body, ListFormat::WithKinds),
        KIND_MUTATION => Record::Mutation(body),
        KIND_CUT_MUTATION | KIND_ROW => {
            let (number, cut) = body.split_first_chunk().ok_or("mutation without the number of its table")?;
            let number = u16::from_le_bytes(*number);
            if kind == KIND_ROW { Record::Row(number, cut) } else { Record::CutMutation(number, cut) }
        }
        KIND_TABLES => Record::Tables(tables(body)?),
        KIND_ENDS => Record::Ends(body),
        KIND_TIMESTAMP => Record::Timestamp(timestamp(body)?),
        _ => return Err("record of an unknown kind"),
    };
    Ok((record, rest))
}

/// Appends a [`KIND_TIMESTAMP`] record.
pub fn push_timestamp(out: &mut Vec<u8>, timestamp: i64) {
    out.extend_from_slice(&record_header(KIND_TIMESTAMP, 8));
    out.extend_from_slice(&timestamp.to_le_bytes());
}

fn timestamp(body: &[u8]) -> Result<i64, &'static str> {
    Ok(i64::from_le_bytes(body.try_into().map_err(|_| "timestamp of a wrong length")?))
}

fn tables(body: &[u8]) -> Result<&[[u8; TABLE_ID_BYTES]], &'static str> {
    let (ids, rest) = body.as_chunks();
    if rest.is_empty() { Ok(ids) } else { Err("list of tables of a wrong length") }
}

/// Appends a [`KIND_ENDS`] record.
pub fn push_ends(out: &mut Vec<u8>, ends: &[(u64, u32)]) {
    out.extend_from_slice(&record_header(KIND_ENDS, ends.len() * END_BYTES));
    for (id, end) in ends {
        out.extend_from_slice(&id.to_le_bytes());
        out.extend_from_slice(&end.to_le_bytes());
    }
}

/// The segment ids and ends in a [`KIND_ENDS`] body.
pub fn ends(body: &[u8]) -> Result<impl Iterator<Item = (u64, u32)>, &'static str> {
    if !body.len().is_multiple_of(END_BYTES) {
        return Err("list of ends of a wrong length");
    }
    Ok(body.chunks_exact(END_BYTES).filter_map(|entry| {
        let (id, end) = entry.split_first_chunk::<8>()?;
        Some((u64::from_le_bytes(*id), u32::from_le_bytes(*end.first_chunk::<4>()?)))
    }))
}

/// The columns of a table as earlier versions of the program recorded them beside mutations, to say what the column ids
/// in those mutations mean.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnList {
    /// The table.
    pub table: TableId,
    /// The keyspace's name, for people who read the log.
    pub keyspace: String,
    /// The table's name, for people who read the log.
    pub name: String,
    /// The table's columns, and those that were dropped.
    pub columns: Vec<LoggedColumn>,
}

/// A column of a [`ColumnList`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoggedColumn {
    /// The column's id in row blobs.
    pub id: ColumnId,
    /// The column's name.
    pub name: String,
    /// Whether the column is part of a key, static or regular.
    pub kind: ColumnKind,
    /// The column's type in CQL.
    pub cql_type: String,
}

impl ColumnList {
    /// Decodes a column list in either format; `None` if it is malformed.
    pub fn decode(body: &[u8], format: ListFormat) -> Option<ColumnList> {
        let mut rest = body;
        let table = TableId(*take(&mut rest)?);
        let keyspace = take_text(&mut rest)?;
        let name = take_text(&mut rest)?;
        let count = u32::from_le_bytes(*take(&mut rest)?);
        let mut columns = Vec::new();
        for _ in 0..count {
            let id = ColumnId(u16::from_le_bytes(*take(&mut rest)?));
            let kind = match format {
                ListFormat::WithoutKinds => ColumnKind::Regular,
                ListFormat::WithKinds => kind_of(take::<1>(&mut rest)?[0])?,
            };
            columns.push(LoggedColumn { id, name: take_text(&mut rest)?, kind, cql_type: take_text(&mut rest)? });
        }
        rest.is_empty().then_some(ColumnList { table, keyspace, name, columns })
    }
}

fn kind_of(code: u8) -> Option<ColumnKind> {
    Some(match code {
        0 => ColumnKind::PartitionKey,
        1 => ColumnKind::Clustering,
        2 => ColumnKind::Static,
        3 => ColumnKind::Regular,
        _ => return None,
    })
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(head)
}

fn take_text(rest: &mut &[u8]) -> Option<String> {
    let len = u32::from_le_bytes(*take(rest)?) as usize;
    let (head, tail) = rest.split_at_checked(len)?;
    *rest = tail;
    Some(std::str::from_utf8(head).ok()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Partitioner;
    use model::mutation::{Clustering, MutationBuilder, cut_out_row, cut_out_table};
    use model::row::{Deletion, RowBuilder};

    #[test]
    fn records_survive_encoding() {
        let list = ColumnList {
            table: TableId([7; 16]),
            keyspace: "ks".into(),
            name: "t".into(),
            columns: vec![LoggedColumn {
                id: ColumnId(3),
                name: "ä".into(),
                kind: ColumnKind::Static,
                cql_type: "map<text, int>".into(),
            }],
        };
        let text = |text: &str| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
        let column = [&[3, 0, 2][..], &text("ä"), &text("map<text, int>")].concat();
        let body = [&[7; 16][..], &text("ks"), &text("t"), &1u32.to_le_bytes(), &column].concat();
        let mut payload = Vec::new();
        payload.extend_from_slice(&record_header(KIND_COLUMNS, body.len()));
        payload.extend_from_slice(&body);
        payload.extend_from_slice(&record_header(KIND_MUTATION, 2));
        payload.extend_from_slice(b"mm");
        push_ends(&mut payload, &[(1 << 16, 4096), (9, 8192)]);
        push_timestamp(&mut payload, -7);
        let found: Vec<_> = records(&payload).map(Result::unwrap).collect();
        let [
            Record::ColumnList(found_list, format),
            Record::Mutation(b"mm"),
            Record::Ends(found_ends),
            Record::Timestamp(-7),
        ] = found[..]
        else {
            panic!("{found:?}");
        };
        assert_eq!(ColumnList::decode(found_list, format), Some(list));
        assert_eq!(ends(found_ends).unwrap().collect::<Vec<_>>(), [(1 << 16, 4096), (9, 8192)]);
        for cut in 0..payload.len() {
            let _ = records(&payload[..cut]).count();
        }
        for cut in 0..body.len() {
            assert_eq!(ColumnList::decode(&body[..cut], ListFormat::WithKinds), None);
        }
    }

    #[test]
    fn what_was_cut_is_put_together_with_the_table_of_its_number() {
        let mut builder = MutationBuilder::new(Partitioner::Murmur3, b"key");
        builder.table(TableId([7; 16])).row(Clustering(&[]), |out| {
            RowBuilder::new(out, None, Deletion::LIVE);
        });
        let whole = builder.finish().into_bytes();
        let (head, _, body) = cut_out_table(&whole).expect("one table");
        let (_, row) = cut_out_row(&whole).expect("one row");
        let (tables, mut room) = ([[3; 16], [7; 16]], Vec::new());
        for cut in [Record::CutMutation(1, &[head, body].concat()), Record::Row(1, &row.concat())] {
            assert_eq!(cut.mutation(&tables, &mut room), Ok(Some(&whole[..])));
            assert_eq!(cut.mutation(&tables[..1], &mut room), Err("mutation of a table without a number"));
        }
        assert_eq!(Record::Row(0, b"\x05").mutation(&tables, &mut room), Err("malformed mutation"));
        assert_eq!(Record::CutMutation(0, b"\x01").mutation(&tables, &mut room), Err("malformed mutation"));
        assert_eq!(Record::Mutation(b"m").mutation(&[], &mut room), Ok(Some(&b"m"[..])));
        assert_eq!(Record::Timestamp(1).mutation(&tables, &mut room), Ok(None));
    }

    #[test]
    fn bad_records_are_named() {
        assert_eq!(records(&[1, 0]).next(), Some(Err("record header cut short")));
        assert_eq!(records(&[9, 0, 0, 0, 2, 1]).next(), Some(Err("record longer than its group")));
        assert_eq!(records(&[0, 0, 0, 0, 99]).next(), Some(Err("record of an unknown kind")));
        assert_eq!(records(&[1, 0, 0, 0, 5, 1]).next(), Some(Err("timestamp of a wrong length")));
        assert!(ends(&[0; 13]).is_err());
        assert_eq!(records(&[1, 0, 0, 0, 6, 1]).next(), Some(Err("mutation without the number of its table")));
        assert_eq!(records(&[1, 0, 0, 0, 8, 1]).next(), Some(Err("mutation without the number of its table")));
        assert_eq!(records(&[1, 0, 0, 0, 8, 1]).next(), Some(Err("mutation without the number of its table")));
        assert_eq!(records(&[1, 0, 0, 0, 7, 1]).next(), Some(Err("list of tables of a wrong length")));
    }
}

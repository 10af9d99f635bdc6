//! Headers for SSTables that are to be written: the columns of a table, and the smallest times of its rows.

use super::header::{COMPOSITE_TYPE, DELETION_TIME_EPOCH, FieldType, Header, HeaderColumn, TIMESTAMP_EPOCH, fixed_len};
use model::row::{CellContent, Deletion, RowView};
use model::schema::{Column, ColumnKind, DroppedColumn, Table};

/// The smallest times of rows, which encoded times are relative to. Smaller ones can be encoded too, but take more
/// bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EncodingStats {
    /// The smallest timestamp, in microseconds; `None` without any.
    pub min_timestamp: Option<i64>,
    /// The smallest local deletion time, in seconds; `None` if nothing is deleted or expires.
    pub min_local_deletion_time: Option<i64>,
    /// The smallest time to live, in seconds; `None` if nothing expires.
    pub min_ttl: Option<i32>,
}

impl EncodingStats {
    fn add_timestamp(&mut self, timestamp: i64) {
        self.min_timestamp = Some(self.min_timestamp.map_or(timestamp, |min| min.min(timestamp)));
    }

    fn add_local_deletion_time(&mut self, time: i64) {
        self.min_local_deletion_time = Some(self.min_local_deletion_time.map_or(time, |min| min.min(time)));
    }

    fn add_ttl(&mut self, ttl: i32) {
        self.min_ttl = Some(self.min_ttl.map_or(ttl, |min| min.min(ttl)));
    }

    /// Lowers the minima to those of a deletion; a live one changes nothing.
    pub fn add_deletion(&mut self, deletion: Deletion) {
        if !deletion.is_live() {
            self.add_timestamp(deletion.timestamp);
            self.add_local_deletion_time(deletion.local_deletion_time);
        }
    }

    /// Lowers the minima to those of a row's liveness, deletion and cells.
    pub fn add_row(&mut self, row: RowView<'_>) {
        self.add_deletion(row.deletion());
        if let Some(liveness) = row.liveness() {
            self.add_timestamp(liveness.timestamp);
            if let Some((ttl, end)) = liveness.expiry {
                self.add_ttl(ttl);
                self.add_local_deletion_time(end);
            }
        }
        for cell in row.cells() {
            self.add_timestamp(cell.timestamp);
            match cell.content {
                CellContent::Live(_) | CellContent::Counter(_) => {}
                CellContent::Expiring { ttl, local_deletion_time, .. } => {
                    self.add_ttl(ttl);
                    self.add_local_deletion_time(local_deletion_time);
                }
                CellContent::Deleted { local_deletion_time } | CellContent::ColumnDeletion { local_deletion_time } => {
                    self.add_local_deletion_time(local_deletion_time);
                }
            }
        }
    }

    /// Lowers the minima to those of another SSTable's header.
    pub fn add_header(&mut self, header: &Header) {
        self.add_timestamp(header.min_timestamp);
        if header.min_local_deletion_time != DELETION_TIME_EPOCH {
            self.add_local_deletion_time(header.min_local_deletion_time);
        }
        if let Ok(ttl @ 1..) = i32::try_from(header.min_ttl) {
            self.add_ttl(ttl);
        }
    }
}

impl FieldType {
    /// Returns the type of a column, with the class of a reversed type if the column is in descending order.
    pub fn of(column: &Column) -> FieldType {
        let class = column.cql_type.class_name();
        let class = if column.descending { format!("{REVERSED_TYPE}({class})") } else { class };
        FieldType {
            class,
            cql_type: column.cql_type.clone(),
            descending: column.descending,
            fixed_len: fixed_len(&column.cql_type),
        }
    }
}

const REVERSED_TYPE: &str = "org.apache.cassandra.db.marshal.ReversedType";

impl Header {
    /// Returns a header with all columns of a table.
    pub fn of(table: &Table, stats: EncodingStats) -> Header {
        let classes: Vec<String> = table.stored_key_types().map(|cql_type| cql_type.class_name()).collect();
        let columns = |columns: &[Column]| {
            let mut sorted: Vec<&Column> = columns.iter().collect();
            sorted.sort_by_key(|column| (column.cql_type.is_multicell(), column.name.as_bytes()));
            let column = |column: &&Column| HeaderColumn {
                name: column.name.clone().into_bytes(),
                field: FieldType::of(column),
            };
            sorted.iter().map(column).collect()
        };
        Header {
            min_timestamp: stats.min_timestamp.unwrap_or(TIMESTAMP_EPOCH),
            min_local_deletion_time: stats.min_local_deletion_time.unwrap_or(DELETION_TIME_EPOCH),
            min_ttl: stats.min_ttl.unwrap_or(0).into(),
            key_class: match &classes[..] {
                [class] => class.clone(),
                classes => format!("{COMPOSITE_TYPE}({})", classes.join(",")),
            },
            clustering: table.clustering().iter().map(FieldType::of).collect(),
            statics: columns(table.statics()),
            regulars: columns(table.regular()),
        }
    }

    /// Adds a column that the table has dropped.
    pub fn keep(&mut self, dropped: &DroppedColumn) {
        let columns = if dropped.kind == ColumnKind::Static { &mut self.statics } else { &mut self.regulars };
        let cql_type = dropped.cql_type.clone();
        let (class, fixed_len) = (cql_type.class_name(), fixed_len(&cql_type));
        let field = FieldType { class, cql_type, descending: false, fixed_len };
        columns.push(HeaderColumn { name: dropped.name.clone().into_bytes(), field });
        columns.sort_by(|a, b| {
            let order = |column: &HeaderColumn| column.field.cql_type.is_multicell();
            order(a).cmp(&order(b)).then_with(|| a.name.cmp(&b.name))
        });
    }
}

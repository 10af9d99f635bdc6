//! `sstabledump -d`: one line per row, marker and partition deletion, in the notation of Cassandra's `toString`
//! methods.

use super::Dump;
use crate::tools::values::counter;
use crate::tools::{Failure, Output};
use model::row::{Deletion, NO_DELETION_TIME, NO_TIMESTAMP};
use model::text::to_plain;
use model::{CqlType, text};
use sstable::row_codec::BoundKind;
use sstable::statistics::HeaderColumn;
use sstable::walker::{FileCell, FileColumn, FileItem, FileMarker, FileRow};

impl Dump<'_> {
    pub(super) fn lines(&self, output: &mut Output<'_>) -> Result<(), Failure> {
        let mut items = self.opened.items();
        let (mut shown, mut key_text) = (false, String::new());
        while let Some(item) = items.next()? {
            match item {
                FileItem::Partition { key, deletion, statics, rows_at, .. } => {
                    shown = self.is_shown(&key);
                    key_text = self.types.text(&key);
                    if shown && !deletion.is_live() {
                        writeln!(output.out, "[{key_text}]@{rows_at} {}", deletion_text(deletion))?;
                    }
                    if let (true, Some(row)) = (shown, &statics) {
                        writeln!(output.out, "[{key_text}]@{rows_at} {}", self.row_text(row, true))?;
                    }
                }
                FileItem::Row(row, at) if shown && !row.is_empty() => {
                    writeln!(output.out, "[{key_text}]@{at} {}", self.row_text(&row, false))?;
                }
                FileItem::Marker(marker, at) if shown => {
                    writeln!(output.out, "[{key_text}]@{at} {}", self.marker_text(&marker))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn row_text(&self, row: &FileRow, is_static: bool) -> String {
        let mut out = format!("Row[info=[ts={}", row.liveness.map_or(NO_TIMESTAMP, |liveness| liveness.timestamp));
        if let Some((ttl, end)) = row.liveness.and_then(|liveness| liveness.expiry) {
            out.push_str(&format!(" ttl={ttl}, let={end}"));
        }
        out.push(']');
        if !row.deletion.is_live() {
            out.push_str(&format!(" del={}", deletion_text(row.deletion)));
            if row.shadowable {
                out.push_str("(shadowable)");
            }
        }
        out.push_str(" ]: ");
        if is_static {
            out.push_str("STATIC");
        } else {
            let fields = row.clustering.iter().zip(&self.header.clustering);
            let literal = fields.map(|(value, field)| match value {
                Some(value) => text::to_literal(&field.cql_type, value),
                None => "null".into(),
            });
            out.push_str(&literal.collect::<Vec<_>>().join(", "));
        }
        out.push_str(" | ");
        let columns = if is_static { &self.header.statics } else { &self.header.regulars };
        let texts = row.columns.iter().filter_map(|found| Some(column_text(found, columns.get(found.index)?)));
        out.push_str(&texts.collect::<Vec<_>>().join(", "));
        out
    }

    fn marker_text(&self, marker: &FileMarker) -> String {
        let kind = match marker.kind {
            BoundKind::ExclusiveEnd => "EXCL_END_BOUND",
            BoundKind::InclusiveStart => "INCL_START_BOUND",
            BoundKind::ExclusiveEndInclusiveStart => "EXCL_END_INCL_START_BOUNDARY",
            BoundKind::InclusiveEndExclusiveStart => "INCL_END_EXCL_START_BOUNDARY",
            BoundKind::InclusiveEnd => "INCL_END_BOUND",
            BoundKind::ExclusiveStart => "EXCL_START_BOUND",
        };
        let fields = marker.clustering.iter().zip(&self.header.clustering);
        let texts = fields.map(|(value, field)| match value {
            Some(value) => to_plain(&field.cql_type, value),
            None => "null".into(),
        });
        let bound = texts.collect::<Vec<_>>().join(", ");
        let time = |deletion: Deletion| format!("{}/{}", deletion.timestamp, deletion.local_deletion_time);
        let deletions = if marker.kind.is_boundary() {
            format!("{}-{}", time(marker.ends), time(marker.starts))
        } else {
            time(if marker.kind.is_start() { marker.starts } else { marker.ends })
        };
        format!("Marker {kind}({bound})@{deletions}")
    }
}

fn deletion_text(deletion: Deletion) -> String {
    format!("deletedAt={}, localDeletion={}", deletion.timestamp, deletion.local_deletion_time)
}

fn column_text(found: &FileColumn, column: &HeaderColumn) -> String {
    let name = String::from_utf8_lossy(&column.name);
    if !column.field.cql_type.is_multicell() {
        return found.cells.iter().map(|cell| cell_text(cell, &name, column)).collect::<Vec<_>>().join(", ");
    }
    let mut out = match found.deletion.is_live() {
        true => String::new(),
        false => format!("del({name})={}", deletion_text(found.deletion)),
    };
    for cell in &found.cells {
        out.push_str(", ");
        out.push_str(&cell_text(cell, &name, column));
    }
    out
}

fn cell_text(cell: &FileCell, name: &str, column: &HeaderColumn) -> String {
    let (path_type, value_type) = match &column.field.cql_type {
        CqlType::List { element, frozen: false } => (Some(&CqlType::Timeuuid), Some(&**element)),
        CqlType::Set { element, frozen: false } => (Some(&**element), None),
        CqlType::Map { key, value, frozen: false } => (Some(&**key), Some(&**value)),
        CqlType::User { definition, frozen: false } => {
            let place = cell.path.as_ref().and_then(|path| path.first_chunk::<2>());
            let place = place.map_or(usize::MAX, |place| u16::from_be_bytes(*place).into());
            (Some(&CqlType::Smallint), definition.fields.get(place).map(|(_, cql_type)| cql_type))
        }
        other => (None, Some(other)),
    };
    let mut out = format!("[{name}");
    if let (Some(path), Some(path_type)) = (&cell.path, path_type) {
        out.push_str(&format!("[{}]", to_plain(path_type, path)));
    }
    out.push('=');
    match value_type {
        _ if cell.is_tombstone() => out.push_str("<tombstone>"),
        Some(CqlType::Counter) => out.push_str(&counter(&cell.value).to_string()),
        Some(value_type) => out.push_str(&to_plain(value_type, &cell.value)),
        None => {}
    }
    out.push_str(&format!(" ts={}", cell.timestamp));
    if cell.ttl != 0 {
        out.push_str(&format!(" ttl={}", cell.ttl));
    }
    if cell.local_deletion_time != NO_DELETION_TIME {
        out.push_str(&format!(" ldt={}", cell.local_deletion_time));
    }
    out.push(']');
    out
}

//! Bounds of the clusterings of an SSTable, in the statistics component of Statistics.db.

use super::header::{FieldType, column_count, field};
use super::{push_bytes, push_values, read_values};
use crate::error::Fault;
use crate::input::{Input, push_vint};
use crate::version::Version;

/// A bound of a slice of clusterings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusteringBound {
    /// The number of the kind of bound, as in the markers of Data.db.
    pub kind: u8,
    /// A prefix of a clustering; `None` for null.
    pub values: Vec<Option<Vec<u8>>>,
}

/// Bounds that hold all clusterings of an SSTable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClusteringBounds {
    /// The smallest and the largest clustering (before `oa`). Before `md` they leave out range tombstones.
    Legacy {
        /// The values of the smallest.
        min: Vec<Vec<u8>>,
        /// The values of the largest.
        max: Vec<Vec<u8>>,
    },
    /// A slice (`oa`, `da`).
    Slice {
        /// The type classes of the clustering columns.
        classes: Vec<String>,
        /// The start.
        start: ClusteringBound,
        /// The end.
        end: ClusteringBound,
    },
}

fn clustering_bound(input: &mut Input<'_>, lens: &[Option<usize>]) -> Result<ClusteringBound, Fault> {
    let kind = input.u8()?;
    let count = input.u16()? as usize;
    let Some(lens) = lens.get(..count) else { return input.invalid("a bound of the clustering") };
    let mut values = Vec::new();
    read_values(input, lens.iter().copied(), |value| {
        values.push(value.map(<[u8]>::to_vec));
        Ok(())
    })?;
    Ok(ClusteringBound { kind, values })
}

impl ClusteringBounds {
    pub(super) fn parse(input: &mut Input<'_>, version: Version) -> Result<ClusteringBounds, Fault> {
        if !version.is_cassandra_5() {
            let mut lists = [Vec::new(), Vec::new()];
            for list in &mut lists {
                let count = input.u32()?;
                for _ in 0..input.count(count.into(), 2)? {
                    list.push(input.short_bytes()?.to_vec());
                }
            }
            let [min, max] = lists;
            return Ok(ClusteringBounds::Legacy { min, max });
        }
        let count = column_count(input)?;
        let (mut classes, mut lens) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let field = field(input)?;
            lens.push(field.fixed_len);
            classes.push(field.class);
        }
        Ok(ClusteringBounds::Slice {
            classes,
            start: clustering_bound(input, &lens)?,
            end: clustering_bound(input, &lens)?,
        })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            ClusteringBounds::Legacy { min, max } => {
                for list in [min, max] {
                    out.extend_from_slice(&(list.len() as u32).to_be_bytes());
                    for value in list {
                        out.extend_from_slice(&(value.len() as u16).to_be_bytes());
                        out.extend_from_slice(value);
                    }
                }
            }
            ClusteringBounds::Slice { classes, start, end } => {
                push_vint(out, classes.len() as u64);
                classes.iter().for_each(|class| push_bytes(out, class.as_bytes()));
                for bound in [start, end] {
                    out.push(bound.kind);
                    out.extend_from_slice(&(bound.values.len() as u16).to_be_bytes());
                    let lens = classes.iter().map(|class| FieldType::parse(class).and_then(|field| field.fixed_len));
                    push_values(out, lens, bound.values.iter().map(Option::as_deref));
                }
            }
        }
    }
}

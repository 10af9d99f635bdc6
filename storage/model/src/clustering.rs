//! Clustering values: which row of a partition, and bounds between rows.

/// The values of a row's clustering columns, or a prefix of them, in table order: `[u16 length][bytes]` (little-endian)
/// per value. A row of a compact table may have fewer values than the table has clustering columns; the others are
/// null.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Clustering<'a>(pub &'a [u8]);

impl<'a> Clustering<'a> {
    /// The values in table order.
    pub fn components(self) -> impl Iterator<Item = &'a [u8]> + Clone {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (len, tail) = rest.split_at_checked(2)?;
            let (component, tail) = tail.split_at_checked(u16::from_le_bytes([len[0], len[1]]) as usize)?;
            rest = tail;
            Some(component)
        })
    }

    /// Whether the bytes are whole components up to their end.
    pub(crate) fn is_well_formed(self) -> bool {
        self.components().map(|component| 2 + component.len()).sum::<usize>() == self.0.len()
    }
}

/// Longest clustering value in bytes.
pub const CLUSTERING_BYTES_MAX: usize = 65535;

/// Appends one clustering value in the form that [`Clustering`] reads. Panics if it is longer than
/// [`CLUSTERING_BYTES_MAX`].
pub fn push_clustering(out: &mut Vec<u8>, component: &[u8]) {
    assert!(component.len() <= CLUSTERING_BYTES_MAX, "a clustering value of {} bytes", component.len());
    out.extend_from_slice(&(component.len() as u16).to_le_bytes());
    out.extend_from_slice(component);
}

/// A bound of a range of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClusteringBound<'a> {
    /// The first values of a clustering, possibly none.
    pub prefix: Clustering<'a>,
    /// Whether rows that begin with the prefix are inside the range that this bound starts or ends.
    pub inclusive: bool,
}

//! Tables of text as Cassandra's tools print them.

/// A table whose columns are as wide as their widest entry. The last column is padded too, as Cassandra pads it.
#[derive(Default)]
pub(crate) struct TextTable {
    rows: Vec<Vec<String>>,
    /// Spaces between columns.
    gap: usize,
}

impl TextTable {
    /// An empty table with `gap` spaces between columns.
    pub(crate) fn new(gap: usize) -> TextTable {
        TextTable { rows: Vec::new(), gap }
    }

    /// Adds a row.
    pub(crate) fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Appends the table to `out`.
    pub(crate) fn print(&self, out: &mut String) {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                if column > 0 {
                    out.extend(std::iter::repeat_n(' ', self.gap));
                }
                out.push_str(cell);
                out.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.chars().count())));
            }
            out.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_padded_to_the_end() {
        let mut table = TextTable::new(1);
        table.row(["id", "name"]);
        table.row(["1000", "x"]);
        let mut out = String::new();
        table.print(&mut out);
        assert_eq!(out, "id   name\n1000 x   \n");
    }
}

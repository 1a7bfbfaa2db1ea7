//! Tables without lines: columns that stand under each other, indented by two.

use comfy_table::{Cell, CellAlignment, Row, Table};

/// A table in the making.
pub struct Grid {
    table: Table,
    right: &'static [usize],
}

impl Grid {
    /// A table whose columns of the indices `right` hold figures.
    pub fn new(right: &'static [usize]) -> Self {
        let mut table = Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        Grid { table, right }
    }

    /// The names of the columns.
    pub fn head<S: AsRef<str>>(mut self, names: &[S]) -> Self {
        let row = self.cells(names);
        self.table.set_header(row);
        self
    }

    /// One row.
    pub fn row<S: AsRef<str>>(&mut self, cells: &[S]) {
        let row = self.cells(cells);
        self.table.add_row(row);
    }

    fn cells<S: AsRef<str>>(&self, cells: &[S]) -> Row {
        let align = |index| if self.right.contains(&index) { CellAlignment::Right } else { CellAlignment::Left };
        let cells = cells.iter().map(AsRef::as_ref).enumerate();
        Row::from(cells.map(|(index, text)| Cell::new(text).set_alignment(align(index))).collect::<Vec<_>>())
    }
}

impl std::fmt::Display for Grid {
    /// Every line ends with a line feed, none with white space.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for line in self.table.lines() {
            writeln!(f, " {}", line.trim_end())?;
        }
        Ok(())
    }
}

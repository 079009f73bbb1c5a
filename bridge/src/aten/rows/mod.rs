//! The rows, a file for each family.

use super::Row;

mod pointwise;

/// Every table of rows.
pub const TABLES: &[&[Row]] = &[pointwise::ROWS];

/// All rows.
pub fn all() -> impl Iterator<Item = &'static Row> {
    TABLES.iter().flat_map(|t| t.iter())
}

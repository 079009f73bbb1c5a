//! The rows, a file for each family.

use super::Row;

mod copy;
mod pointwise;
pub mod util;

/// Every table of rows.
pub const TABLES: &[&[Row]] = &[copy::ROWS, pointwise::ROWS];

/// All rows.
pub fn all() -> impl Iterator<Item = &'static Row> {
    TABLES.iter().flat_map(|t| t.iter())
}

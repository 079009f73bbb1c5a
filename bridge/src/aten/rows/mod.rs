//! The rows, a file for each family.

use super::Row;

mod copy;
mod dropout;
pub mod math;
mod pointwise;
mod random;
mod random_discrete;
pub mod util;

/// Every table of rows.
pub const TABLES: &[&[Row]] = &[copy::ROWS, pointwise::ROWS, dropout::ROWS, random::ROWS, random_discrete::ROWS];

/// All rows.
pub fn all() -> impl Iterator<Item = &'static Row> {
    TABLES.iter().flat_map(|t| t.iter())
}

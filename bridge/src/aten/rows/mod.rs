//! The rows, a file for each family.

use super::Row;

mod activation;
mod activation_backward;
mod binary;
mod copy;
mod division;
mod dropout;
pub mod math;
mod optimizer;
mod pointwise;
mod random;
mod random_discrete;
mod ternary;
mod unary;
pub mod util;

/// Every table of rows.
pub const TABLES: &[&[Row]] = &[
    activation::ROWS,
    activation_backward::ROWS,
    binary::ROWS,
    copy::ROWS,
    division::ROWS,
    dropout::ROWS,
    optimizer::ROWS,
    pointwise::ROWS,
    random::ROWS,
    random_discrete::ROWS,
    ternary::ROWS,
    unary::ROWS,
];

/// All rows.
pub fn all() -> impl Iterator<Item = &'static Row> {
    TABLES.iter().flat_map(|t| t.iter())
}

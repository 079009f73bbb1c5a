//! The rows, a file for each family.

use super::Row;

mod activation;
mod activation_backward;
mod arg_reduce;
mod axes;
mod binary;
mod copy;
mod cumulative;
mod division;
mod dropout;
mod linear;
mod losses;
pub mod math;
mod matmul;
mod moments;
mod nll;
mod optimizer;
mod pointwise;
mod random;
mod random_discrete;
mod reduce;
mod scan;
mod softmax;
mod sorting;
mod ternary;
mod unary;
pub mod util;

/// Every table of rows.
pub const TABLES: &[&[Row]] = &[
    activation::ROWS,
    activation_backward::ROWS,
    arg_reduce::ROWS,
    binary::ROWS,
    copy::ROWS,
    cumulative::ROWS,
    division::ROWS,
    dropout::ROWS,
    linear::ROWS,
    losses::ROWS,
    matmul::ROWS,
    moments::ROWS,
    nll::ROWS,
    optimizer::ROWS,
    pointwise::ROWS,
    random::ROWS,
    random_discrete::ROWS,
    reduce::ROWS,
    softmax::ROWS,
    sorting::ROWS,
    ternary::ROWS,
    unary::ROWS,
];

/// All rows.
pub fn all() -> impl Iterator<Item = &'static Row> {
    TABLES.iter().flat_map(|t| t.iter())
}

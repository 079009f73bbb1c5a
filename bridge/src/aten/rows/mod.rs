//! The rows, a file for each family.

use super::Row;

mod activation;
mod activation_backward;
mod arg_reduce;
mod axes;
mod binary;
mod copy;
mod cumulative;
mod diagonal;
mod division;
mod dropout;
mod embedding;
mod gather;
mod index;
mod index_dim;
mod join;
mod linear;
mod losses;
pub mod math;
mod matmul;
mod moments;
mod nll;
mod optimizer;
mod pad;
mod places;
mod pointwise;
mod random;
mod random_discrete;
mod rearrange;
mod reduce;
mod reduce_into;
mod scan;
mod softmax;
mod sorting;
mod ternary;
mod unary;
pub mod util;
mod view_grad;

/// Every table of rows.
pub const TABLES: &[&[Row]] = &[
    activation::ROWS,
    activation_backward::ROWS,
    arg_reduce::ROWS,
    binary::ROWS,
    copy::ROWS,
    cumulative::ROWS,
    diagonal::ROWS,
    division::ROWS,
    dropout::ROWS,
    embedding::ROWS,
    gather::ROWS,
    index::ROWS,
    index_dim::ROWS,
    join::ROWS,
    linear::ROWS,
    losses::ROWS,
    matmul::ROWS,
    moments::ROWS,
    nll::ROWS,
    optimizer::ROWS,
    pad::ROWS,
    pointwise::ROWS,
    random::ROWS,
    random_discrete::ROWS,
    rearrange::ROWS,
    reduce::ROWS,
    softmax::ROWS,
    sorting::ROWS,
    ternary::ROWS,
    unary::ROWS,
    view_grad::ROWS,
];

/// All rows.
pub fn all() -> impl Iterator<Item = &'static Row> {
    TABLES.iter().flat_map(|t| t.iter())
}

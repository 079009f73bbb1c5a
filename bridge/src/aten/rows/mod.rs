//! The rows, a file for each family.

use super::Row;

pub(crate) use unary::largest as largest_finite;

mod activation;
mod activation_backward;
mod adaptive_max_pool;
mod arg_reduce;
mod attention;
mod avg_pool;
mod axes;
mod batch_norm;
mod binary;
mod cholesky;
mod complex;
mod convolution;
mod convolve;
mod copy;
mod ctc;
mod cumulative;
mod determinant;
mod diagonal;
mod distance;
mod division;
mod dropout;
mod embedding;
mod embedding_bag;
mod factory;
mod fake_quantize;
mod fft;
mod fractional_max_pool;
mod gamma;
mod gamma_random;
mod gather;
mod grid_sampler;
mod group_norm;
mod hash;
mod histogram;
mod householder;
mod im2col;
mod index;
mod index_dim;
mod join;
mod layer_norm;
mod linalg;
mod linear;
mod losses;
mod lstsq;
mod lu;
mod margin_losses;
pub mod math;
mod matmul;
mod matrix_exp;
mod max_pool;
mod memory_format;
mod moments;
mod multinomial;
mod nll;
mod norms;
mod optimizer;
mod pad;
mod places;
mod places_of;
mod planes;
mod pointwise;
mod poisson;
mod polar;
mod polynomial;
mod pool_axes;
mod qr;
mod random;
mod random_discrete;
mod rearrange;
mod reduce;
mod reduce_into;
mod resample_bytes;
mod resample_weights;
mod rnn_cells;
mod scan;
mod search;
mod segment_reduce;
mod softmax;
mod solve;
mod sorting;
mod sparse;
mod special;
mod special_tables;
mod svd;
mod take;
mod ternary;
mod unary;
mod unique;
mod upsample;
pub mod util;
mod view_grad;
mod weight_norm;

/// Every table of rows.
pub const TABLES: &[&[Row]] = &[
    activation::ROWS,
    activation_backward::ROWS,
    adaptive_max_pool::ROWS,
    arg_reduce::ROWS,
    attention::ROWS,
    avg_pool::ROWS,
    batch_norm::ROWS,
    binary::ROWS,
    complex::ROWS,
    convolution::ROWS,
    copy::ROWS,
    ctc::ROWS,
    cumulative::ROWS,
    determinant::ROWS,
    diagonal::ROWS,
    distance::ROWS,
    division::ROWS,
    dropout::ROWS,
    embedding::ROWS,
    embedding_bag::ROWS,
    factory::ROWS,
    fake_quantize::ROWS,
    fft::ROWS,
    gamma::ROWS,
    gamma_random::ROWS,
    fractional_max_pool::ROWS,
    gather::ROWS,
    grid_sampler::ROWS,
    group_norm::ROWS,
    hash::ROWS,
    histogram::ROWS,
    householder::ROWS,
    im2col::ROWS,
    index::ROWS,
    index_dim::ROWS,
    join::ROWS,
    layer_norm::ROWS,
    linalg::ROWS,
    linear::ROWS,
    losses::ROWS,
    lstsq::ROWS,
    lu::ROWS,
    margin_losses::ROWS,
    matmul::ROWS,
    matrix_exp::ROWS,
    max_pool::ROWS,
    moments::ROWS,
    multinomial::ROWS,
    nll::ROWS,
    norms::ROWS,
    optimizer::ROWS,
    pad::ROWS,
    places_of::ROWS,
    pointwise::ROWS,
    poisson::ROWS,
    polar::ROWS,
    polynomial::ROWS,
    qr::ROWS,
    random::ROWS,
    random_discrete::ROWS,
    rearrange::ROWS,
    reduce::ROWS,
    rnn_cells::ROWS,
    search::ROWS,
    segment_reduce::ROWS,
    softmax::ROWS,
    solve::ROWS,
    sorting::ROWS,
    sparse::ROWS,
    special::ROWS,
    svd::ROWS,
    ternary::ROWS,
    unary::ROWS,
    unique::ROWS,
    upsample::ROWS,
    view_grad::ROWS,
    weight_norm::ROWS,
];

/// All rows.
pub fn all() -> impl Iterator<Item = &'static Row> {
    TABLES.iter().flat_map(|t| t.iter())
}

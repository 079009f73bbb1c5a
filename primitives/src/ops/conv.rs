//! Convolution.

use std::borrow::Cow;

use smallvec::smallvec;

use super::check::{NUMERIC, check_len, check_unique_dims};
use super::dot::Precision;
use super::window::{dilated, padding_attr, places};
use crate::error::{Result, error, list};
use crate::node::{Attr, Value};
use crate::{Dims, Graph};

/// What each dimension of the input, the kernel and the output of a convolution is.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ConvDims {
    pub input_batch: usize,
    pub input_feature: usize,
    pub input_spatial: Vec<usize>,
    pub kernel_output_feature: usize,
    pub kernel_input_feature: usize,
    pub kernel_spatial: Vec<usize>,
    pub output_batch: usize,
    pub output_feature: usize,
    pub output_spatial: Vec<usize>,
}

/// How the kernel moves, one entry per spatial dimension. An empty list means the default: strides and dilations of 1,
/// no padding, no reversal.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ConvWindow {
    pub strides: Vec<i64>,
    /// Zeros added before and after; negative removes elements.
    pub padding: Vec<(i64, i64)>,
    /// Spacing of the input's elements (a transposed convolution's stride).
    pub lhs_dilation: Vec<i64>,
    /// Spacing of the kernel's elements.
    pub rhs_dilation: Vec<i64>,
    /// Dimensions along which the kernel is flipped.
    pub reversal: Vec<bool>,
}

impl ConvDims {
    /// PyTorch's layouts: input and output `[batch, feature, spatial..]`, kernel `[output feature, input feature, spatial..]`.
    pub fn channels_first(spatial: usize) -> ConvDims {
        let dims: Vec<usize> = (2..2 + spatial).collect();
        ConvDims {
            input_batch: 0,
            input_feature: 1,
            input_spatial: dims.clone(),
            kernel_output_feature: 0,
            kernel_input_feature: 1,
            kernel_spatial: dims.clone(),
            output_batch: 0,
            output_feature: 1,
            output_spatial: dims,
        }
    }

    /// `#stablehlo.conv<[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]>`
    fn attr(&self) -> Attr {
        let layout = |first: (usize, char), second: (usize, char), spatial: &[usize]| {
            let items: Vec<String> = (0..spatial.len() + 2)
                .map(|d| match spatial.iter().position(|s| *s == d) {
                    Some(i) => i.to_string(),
                    None if d == first.0 => first.1.to_string(),
                    None => second.1.to_string(),
                })
                .collect();
            items.join(", ")
        };
        Attr::Raw(Cow::Owned(format!(
            "#stablehlo.conv<[{}]x[{}]->[{}]>",
            layout((self.input_batch, 'b'), (self.input_feature, 'f'), &self.input_spatial),
            layout((self.kernel_output_feature, 'o'), (self.kernel_input_feature, 'i'), &self.kernel_spatial),
            layout((self.output_batch, 'b'), (self.output_feature, 'f'), &self.output_spatial),
        )))
    }
}

impl Graph {
    /// Convolution (without flipping the kernel unless `reversal` says so).
    ///
    /// Shapes: `lhs` is the input, `rhs` the kernel; both have rank 2 plus the spatial dimensions. The kernel's input
    /// features times `feature_groups` are the input's; its output features divide by both group counts, the input's
    /// batch by `batch_groups`; one of the counts is 1. Result: batch / `batch_groups`, kernel output features, and per
    /// spatial dimension the number of places of the dilated kernel over the dilated, padded input.
    /// Dtypes: all but bool, the same for both. Errors: anything outside that. Emits `stablehlo.convolution`.
    #[allow(clippy::too_many_arguments)]
    pub fn convolution(
        &mut self,
        lhs: Value,
        rhs: Value,
        dims: &ConvDims,
        window: &ConvWindow,
        feature_groups: i64,
        batch_groups: i64,
        precision: Precision,
    ) -> Result<Value> {
        const OP: &str = "convolution";
        self.check_class(OP, "lhs", lhs, &NUMERIC)?;
        self.check_same_dtype(OP, "rhs", rhs, self.dtype(lhs))?;
        let n = dims.input_spatial.len();
        self.check_rank(OP, "lhs", lhs, n + 2)?;
        self.check_rank(OP, "rhs", rhs, n + 2)?;
        for (arg, first, second, spatial) in [
            ("input dimensions", dims.input_batch, dims.input_feature, &dims.input_spatial),
            ("kernel dimensions", dims.kernel_output_feature, dims.kernel_input_feature, &dims.kernel_spatial),
            ("output dimensions", dims.output_batch, dims.output_feature, &dims.output_spatial),
        ] {
            check_len(OP, arg, spatial.len(), n)?;
            check_unique_dims(OP, arg, &[&[first, second], &spatial[..]].concat(), n + 2)?;
        }
        let w = window.complete(n)?;
        let (l, r) = (self.ty(lhs), self.ty(rhs));
        let (batch, features) = (l.dims[dims.input_batch], l.dims[dims.input_feature]);
        let (in_features, out_features) = (r.dims[dims.kernel_input_feature], r.dims[dims.kernel_output_feature]);
        if feature_groups < 1 || batch_groups < 1 || (feature_groups > 1 && batch_groups > 1) {
            return Err(error(
                OP,
                "feature_groups and batch_groups",
                format_args!("{feature_groups} and {batch_groups}"),
                "at least 1 each, and only one above 1",
                "split the convolution to group both ways",
            ));
        }
        if in_features * feature_groups != features {
            return Err(error(
                OP,
                "rhs",
                format_args!("{r} with {in_features} input features"),
                format_args!("{features} / {feature_groups} input features"),
                "the kernel's input features times feature_groups are the input's",
            ));
        }
        if out_features % feature_groups != 0 || out_features % batch_groups != 0 {
            return Err(error(
                OP,
                "rhs",
                format_args!("{r} with {out_features} output features"),
                format_args!("a multiple of {}", feature_groups.max(batch_groups)),
                "each group makes as many output features",
            ));
        }
        if batch % batch_groups != 0 {
            return Err(error(
                OP,
                "lhs",
                format_args!("{l} with batch {batch}"),
                format_args!("a multiple of {batch_groups}"),
                "each group takes as many inputs of the batch",
            ));
        }
        let mut out: Dims = smallvec![0; n + 2];
        out[dims.output_batch] = batch / batch_groups;
        out[dims.output_feature] = out_features;
        for i in 0..n {
            let (low, high) = w.padding[i];
            let size = low + dilated(l.dims[dims.input_spatial[i]], w.lhs_dilation[i]) + high;
            let kernel = dilated(r.dims[dims.kernel_spatial[i]], w.rhs_dilation[i]);
            out[dims.output_spatial[i]] = places(size, kernel, w.strides[i]);
        }
        let ty = l.with_dims(out);
        let attrs = smallvec![
            ("window_strides", Attr::I64s(Dims::from_slice(&w.strides))),
            ("padding", padding_attr(&w.padding)),
            ("lhs_dilation", Attr::I64s(Dims::from_slice(&w.lhs_dilation))),
            ("rhs_dilation", Attr::I64s(Dims::from_slice(&w.rhs_dilation))),
            ("window_reversal", Attr::Bools(w.reversal.iter().copied().collect())),
            ("dimension_numbers", dims.attr()),
            ("feature_group_count", Attr::I64(feature_groups)),
            ("batch_group_count", Attr::I64(batch_groups)),
            ("precision_config", precision.attr()),
        ];
        self.push1("stablehlo.convolution", &[lhs, rhs], attrs, ty)
    }
}

impl ConvWindow {
    /// Fills in defaults and checks lengths and signs.
    fn complete(&self, n: usize) -> Result<ConvWindow> {
        const OP: &str = "convolution";
        let or_ones = |xs: &Vec<i64>| if xs.is_empty() { vec![1; n] } else { xs.clone() };
        let w = ConvWindow {
            strides: or_ones(&self.strides),
            padding: if self.padding.is_empty() { vec![(0, 0); n] } else { self.padding.clone() },
            lhs_dilation: or_ones(&self.lhs_dilation),
            rhs_dilation: or_ones(&self.rhs_dilation),
            reversal: if self.reversal.is_empty() { vec![false; n] } else { self.reversal.clone() },
        };
        for (arg, xs) in [
            ("window.strides", &w.strides),
            ("window.lhs_dilation", &w.lhs_dilation),
            ("window.rhs_dilation", &w.rhs_dilation),
        ] {
            check_len(OP, arg, xs.len(), n)?;
            if xs.iter().any(|x| *x < 1) {
                return Err(error(
                    OP,
                    arg,
                    list(xs),
                    "at least 1 each",
                    "1 means dense; leave the list empty for all ones",
                ));
            }
        }
        check_len(OP, "window.padding", w.padding.len(), n)?;
        check_len(OP, "window.reversal", w.reversal.len(), n)?;
        Ok(w)
    }
}

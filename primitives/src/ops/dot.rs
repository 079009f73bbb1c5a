//! Products of tensors.

use std::borrow::Cow;
use std::fmt::Write;

use smallvec::smallvec;

use super::check::{check_len, check_unique_dims};
use crate::error::{Result, error, list};
use crate::node::{Attr, Value};
use crate::{DType, Dims, Graph, TensorType};

/// How exact a product of f32 has to be on hardware with narrower multipliers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Precision {
    /// Fastest.
    #[default]
    Default,
    High,
    /// Full f32.
    Highest,
}

impl Precision {
    /// One entry per operand.
    pub(crate) fn attr(self) -> Attr {
        Attr::Raw(Cow::Borrowed(match self {
            Precision::Default => "[#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]",
            Precision::High => "[#stablehlo<precision HIGH>, #stablehlo<precision HIGH>]",
            Precision::Highest => "[#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]",
        }))
    }
}

/// Which dimensions of two operands are paired: batch dimensions are kept, contracted ones summed over.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct DotDims {
    pub lhs_batch: Vec<usize>,
    pub rhs_batch: Vec<usize>,
    pub lhs_contract: Vec<usize>,
    pub rhs_contract: Vec<usize>,
}

fn check_pairs(arg: &'static str, lhs: (&TensorType, &[usize]), rhs: (&TensorType, &[usize])) -> Result<()> {
    check_len("dot_general", arg, rhs.1.len(), lhs.1.len())?;
    for (a, b) in lhs.1.iter().zip(rhs.1) {
        if lhs.0.dims[*a] != rhs.0.dims[*b] {
            return Err(error(
                "dot_general",
                arg,
                format_args!("dimension {b} of {}", rhs.0),
                format_args!("size {}, as dimension {a} of {}", lhs.0.dims[*a], lhs.0),
                "transpose or reshape so that paired sizes agree",
            ));
        }
    }
    Ok(())
}

impl Graph {
    /// Generalized matrix product: batch dimensions first, then the other dimensions of `lhs`, then those of `rhs`.
    ///
    /// Shapes: paired dimensions have equal sizes. Dtypes: all but bool, the same for both (8-bit floats may be mixed);
    /// result has `out_dtype`, or that of `lhs`; `out_dtype` is of the same kind and not narrower, and is what sums are
    /// made in. Errors: other types; dimensions repeated, out of range or of unequal sizes.
    /// Emits `stablehlo.dot_general`.
    pub fn dot_general(
        &mut self,
        lhs: Value,
        rhs: Value,
        dims: &DotDims,
        precision: Precision,
        out_dtype: Option<DType>,
    ) -> Result<Value> {
        const OP: &str = "dot_general";
        let (l, r) = (self.ty(lhs), self.ty(rhs));
        if l.dtype.is_bool() {
            return Err(error(OP, "lhs", l.dtype, "a number type", "convert the boolean to an integer first"));
        }
        let is_f8 = |d: DType| d.is_float() && d.size_of() == 1;
        if l.dtype != r.dtype && !(is_f8(l.dtype) && is_f8(r.dtype)) {
            return Err(error(OP, "rhs", r.dtype, l.dtype, "convert to one dtype first"));
        }
        let out = out_dtype.unwrap_or(l.dtype);
        let kind = |d: DType| (d.is_int(), d.is_float(), d.is_complex());
        if kind(out) != kind(l.dtype) || out.size_of() < l.dtype.size_of() {
            return Err(error(
                OP,
                "out_dtype",
                out,
                format_args!("a type of the kind of {} and not narrower", l.dtype),
                "convert the result instead",
            ));
        }
        check_unique_dims(
            OP,
            "lhs_batch and lhs_contract",
            &[&dims.lhs_batch[..], &dims.lhs_contract].concat(),
            l.rank(),
        )?;
        check_unique_dims(
            OP,
            "rhs_batch and rhs_contract",
            &[&dims.rhs_batch[..], &dims.rhs_contract].concat(),
            r.rank(),
        )?;
        check_pairs("rhs_batch", (l, &dims.lhs_batch), (r, &dims.rhs_batch))?;
        check_pairs("rhs_contract", (l, &dims.lhs_contract), (r, &dims.rhs_contract))?;
        let mut result: Dims = dims.lhs_batch.iter().map(|d| l.dims[*d]).collect();
        let free = |t: &TensorType, batch: &[usize], contract: &[usize]| -> Dims {
            (0..t.rank()).filter(|d| !batch.contains(d) && !contract.contains(d)).map(|d| t.dims[d]).collect()
        };
        result.extend(free(l, &dims.lhs_batch, &dims.lhs_contract));
        result.extend(free(r, &dims.rhs_batch, &dims.rhs_contract));
        let ty = TensorType { dtype: out, dims: result, sharding: None };
        let mut text = String::from("#stablehlo.dot<");
        if !dims.lhs_batch.is_empty() {
            write!(
                text,
                "lhs_batching_dimensions = {}, rhs_batching_dimensions = {}, ",
                list(&dims.lhs_batch),
                list(&dims.rhs_batch)
            )
            .expect("writing to a String cannot fail");
        }
        write!(
            text,
            "lhs_contracting_dimensions = {}, rhs_contracting_dimensions = {}>",
            list(&dims.lhs_contract),
            list(&dims.rhs_contract)
        )
        .expect("writing to a String cannot fail");
        let attrs =
            smallvec![("dot_dimension_numbers", Attr::Raw(Cow::Owned(text))), ("precision_config", precision.attr())];
        self.push1("stablehlo.dot_general", &[lhs, rhs], attrs, ty)
    }
}

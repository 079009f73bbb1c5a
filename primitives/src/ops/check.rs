//! Checks shared by the type rules. Each names the op and the argument at fault.

use crate::error::{Result, error, list};
use crate::node::Value;
use crate::{DType, Graph, TensorType};

/// A class of element types and how to spell it.
pub(crate) struct Class {
    pub accepts: fn(DType) -> bool,
    pub name: &'static str,
    pub hint: &'static str,
}

pub(crate) const FLOAT: Class =
    Class { accepts: DType::is_float, name: "a floating-point type", hint: "convert it first" };
pub(crate) const FLOAT_OR_COMPLEX: Class = Class {
    accepts: |d| d.is_float() || d.is_complex(),
    name: "a floating-point or complex type",
    hint: "convert it first",
};
pub(crate) const COMPLEX: Class =
    Class { accepts: DType::is_complex, name: "a complex type", hint: "build it with complex(re, im)" };
pub(crate) const INT: Class = Class { accepts: DType::is_int, name: "an integer type", hint: "convert it first" };
pub(crate) const INT_OR_BOOL: Class =
    Class { accepts: |d| d.is_int() || d.is_bool(), name: "an integer or boolean type", hint: "convert it first" };
pub(crate) const NUMERIC: Class =
    Class { accepts: |d| !d.is_bool(), name: "a number type", hint: "convert the boolean to an integer first" };
pub(crate) const SIGNED: Class = Class {
    accepts: DType::is_signed,
    name: "a signed integer, floating-point or complex type",
    hint: "convert it first",
};
pub(crate) const REAL: Class = Class {
    accepts: |d| d.is_int() || d.is_float(),
    name: "an integer or floating-point type",
    hint: "convert it first",
};
pub(crate) const ORDERED: Class = Class {
    accepts: |d| !d.is_complex(),
    name: "a real or boolean type",
    hint: "complex numbers have no order; use real or imag",
};

/// The first of a list that must not be empty.
pub(crate) fn first_of<'a, T>(
    op: &'static str,
    arg: &'static str,
    items: &'a [T],
    expected: &'static str,
    hint: &'static str,
) -> Result<&'a T> {
    items.first().ok_or_else(|| error(op, arg, "an empty list", expected, hint))
}

impl Graph {
    pub(crate) fn check_class(&self, op: &'static str, arg: &'static str, v: Value, class: &Class) -> Result<()> {
        let d = self.dtype(v);
        if (class.accepts)(d) { Ok(()) } else { Err(error(op, arg, d, class.name, class.hint)) }
    }

    pub(crate) fn check_same_type(
        &self,
        op: &'static str,
        arg: &'static str,
        v: Value,
        want: &TensorType,
    ) -> Result<()> {
        let got = self.ty(v);
        if got.same_shape_and_dtype(want) {
            return Ok(());
        }
        let hint = if got.dtype != want.dtype { "convert to one dtype first" } else { "broadcast to one shape first" };
        Err(error(op, arg, got, want, hint))
    }

    pub(crate) fn check_same_dtype(&self, op: &'static str, arg: &'static str, v: Value, want: DType) -> Result<()> {
        let got = self.dtype(v);
        if got == want { Ok(()) } else { Err(error(op, arg, got, want, "convert to one dtype first")) }
    }

    pub(crate) fn check_scalar(&self, op: &'static str, arg: &'static str, v: Value, want: DType) -> Result<()> {
        let got = self.ty(v);
        if got.dims.is_empty() && got.dtype == want {
            return Ok(());
        }
        Err(error(op, arg, got, TensorType::scalar(want), "pass a 0-d value of that dtype"))
    }

    pub(crate) fn check_rank(&self, op: &'static str, arg: &'static str, v: Value, rank: usize) -> Result<()> {
        let got = self.ty(v);
        if got.rank() == rank {
            return Ok(());
        }
        Err(error(op, arg, got, format_args!("rank {rank}"), "reshape or broadcast it first"))
    }
}

/// A dimension number must lie below the rank.
pub(crate) fn check_dim(op: &'static str, arg: &'static str, dim: usize, rank: usize) -> Result<()> {
    if dim < rank {
        return Ok(());
    }
    Err(error(op, arg, dim, format_args!("a dimension below the rank {rank}"), "count dimensions from 0"))
}

/// Dimension numbers must lie below the rank and not repeat.
pub(crate) fn check_unique_dims(op: &'static str, arg: &'static str, dims: &[usize], rank: usize) -> Result<()> {
    for (i, d) in dims.iter().enumerate() {
        if *d >= rank || dims[..i].contains(d) {
            return Err(error(
                op,
                arg,
                list(dims),
                format_args!("different dimensions below the rank {rank}"),
                "count dimensions from 0",
            ));
        }
    }
    Ok(())
}

/// As [`check_unique_dims`], and in ascending order.
pub(crate) fn check_sorted_dims(op: &'static str, arg: &'static str, dims: &[usize], rank: usize) -> Result<()> {
    check_unique_dims(op, arg, dims, rank)?;
    if dims.windows(2).all(|w| w[0] < w[1]) {
        return Ok(());
    }
    Err(error(op, arg, list(dims), "dimensions in ascending order", "sort them"))
}

pub(crate) fn check_len(op: &'static str, arg: &'static str, got: usize, want: usize) -> Result<()> {
    if got == want {
        return Ok(());
    }
    Err(error(
        op,
        arg,
        format_args!("a list of {got}"),
        format_args!("a list of {want}"),
        "the lists go together, entry by entry",
    ))
}

/// Sizes given by the caller may not be negative.
pub(crate) fn check_sizes(op: &'static str, arg: &'static str, dims: &[i64]) -> Result<()> {
    if dims.iter().all(|d| *d >= 0) {
        return Ok(());
    }
    Err(error(op, arg, list(dims), "sizes of at least 0", "shapes are static: resolve -1 before the call"))
}

//! Primitives that rearrange elements: reshape, transpose, broadcast, concatenate, reverse.

use smallvec::smallvec;

use super::check::{check_dim, check_len, check_sizes, check_unique_dims, first_of};
use crate::error::{Result, error, list};
use crate::node::{Attr, Value};
use crate::{Dims, Graph};

pub(crate) fn dims_attr(dims: &[usize]) -> Attr {
    Attr::I64s(dims.iter().map(|d| *d as i64).collect())
}

impl Graph {
    /// The same elements in row-major order with other dimensions.
    ///
    /// Shapes: as many elements as before. Dtypes: all. Errors: another number of elements, a negative size.
    /// Emits `stablehlo.reshape`; nothing when the dimensions are the same, one reshape for a chain of them.
    pub fn reshape(&mut self, x: Value, dims: &[i64]) -> Result<Value> {
        const OP: &str = "reshape";
        check_sizes(OP, "dims", dims)?;
        let ty = self.ty(x);
        if ty.dims[..] == *dims {
            return Ok(x);
        }
        let new = ty.with_dims(Dims::from_slice(dims));
        if new.numel() != ty.numel() {
            return Err(error(
                OP,
                "dims",
                format_args!("{} with {} elements", list(dims), new.numel()),
                format_args!("{} elements, as {ty} has", ty.numel()),
                "the number of elements cannot change",
            ));
        }
        if let Some(bytes) = self.splat_bytes(x) {
            return self.splat(new, bytes);
        }
        if let Some(source) = self.defined_by(x, "stablehlo.reshape").map(|n| n.operands[0]) {
            return self.reshape(source, dims);
        }
        self.push1("stablehlo.reshape", &[x], smallvec![], new)
    }

    /// Reorders dimensions: result dimension `i` is dimension `permutation[i]` of `x`.
    ///
    /// Shapes: result dims are the permuted dims. Dtypes: all. Errors: not a permutation of the dimensions.
    /// Emits `stablehlo.transpose`; nothing for the identity, one transpose for a chain of them.
    pub fn transpose(&mut self, x: Value, permutation: &[usize]) -> Result<Value> {
        const OP: &str = "transpose";
        let rank = self.rank(x);
        check_len(OP, "permutation", permutation.len(), rank)?;
        check_unique_dims(OP, "permutation", permutation, rank)?;
        if permutation.iter().enumerate().all(|(i, p)| i == *p) {
            return Ok(x);
        }
        let ty = self.ty(x);
        let ty = ty.with_dims(permutation.iter().map(|p| ty.dims[*p]).collect());
        if let Some(bytes) = self.splat_bytes(x) {
            return self.splat(ty, bytes);
        }
        if let Some(node) = self.defined_by(x, "stablehlo.transpose")
            && let Some((_, Attr::I64s(first))) = node.attrs.first()
        {
            let source = node.operands[0];
            let both: Vec<usize> = permutation.iter().map(|p| first[*p] as usize).collect();
            return self.transpose(source, &both);
        }
        self.push1("stablehlo.transpose", &[x], smallvec![("permutation", dims_attr(permutation))], ty)
    }

    /// Repeats elements: dimension `i` of `x` becomes dimension `mapping[i]` of the result.
    ///
    /// Shapes: each dimension of `x` is 1 or equal to the result's. Dtypes: all. Errors: a repeated or too large entry
    /// of `mapping`; a size that does not fit. Emits `stablehlo.broadcast_in_dim`; nothing when nothing changes, a
    /// constant for a splat.
    pub fn broadcast_in_dim(&mut self, x: Value, dims: &[i64], mapping: &[usize]) -> Result<Value> {
        const OP: &str = "broadcast_in_dim";
        check_sizes(OP, "dims", dims)?;
        let ty = self.ty(x);
        check_len(OP, "mapping", mapping.len(), ty.rank())?;
        check_unique_dims(OP, "mapping", mapping, dims.len())?;
        for (i, m) in mapping.iter().enumerate() {
            if ty.dims[i] != 1 && ty.dims[i] != dims[*m] {
                return Err(error(
                    OP,
                    "dims",
                    format_args!("{} at dimension {m}, mapped from dimension {i} of {ty}", dims[*m]),
                    ty.dims[i],
                    "only dimensions of size 1 are repeated",
                ));
            }
        }
        if ty.dims[..] == *dims && mapping.iter().enumerate().all(|(i, m)| i == *m) {
            return Ok(x);
        }
        let new = ty.with_dims(Dims::from_slice(dims));
        if let Some(bytes) = self.splat_bytes(x) {
            return self.splat(new, bytes);
        }
        let attrs = smallvec![("broadcast_dimensions", dims_attr(mapping))];
        self.push1("stablehlo.broadcast_in_dim", &[x], attrs, new)
    }

    /// Broadcasts as NumPy does: dimensions are aligned at the end, new ones are added in front.
    ///
    /// Shapes: each dimension of `x` is 1 or equal to the one it is aligned with. Dtypes: all. Errors: a size that does
    /// not fit, fewer dimensions than `x` has. Emits `stablehlo.broadcast_in_dim`.
    pub fn broadcast_to(&mut self, x: Value, dims: &[i64]) -> Result<Value> {
        const OP: &str = "broadcast_to";
        check_sizes(OP, "dims", dims)?;
        let ty = self.ty(x);
        if ty.dims[..] == *dims {
            return Ok(x);
        }
        let lead = dims.len().checked_sub(ty.rank());
        let fits =
            lead.is_some_and(|lead| ty.dims.iter().zip(&dims[lead..]).all(|(have, want)| have == want || *have == 1));
        if !fits {
            return Err(error(
                OP,
                "x",
                ty,
                format_args!("a shape that broadcasts to {}", list(dims)),
                "sizes are compared from the last dimension and must be equal or 1",
            ));
        }
        let lead = lead.unwrap_or(0);
        let mapping: Vec<usize> = (lead..dims.len()).collect();
        self.broadcast_in_dim(x, dims, &mapping)
    }

    /// Joins operands along one dimension.
    ///
    /// Shapes: equal except in `dim`, where the sizes add up. Dtypes: all, the same for all. Errors: no operand;
    /// `dim` out of range; other sizes that differ. Emits `stablehlo.concatenate`; nothing for one operand.
    pub fn concatenate(&mut self, operands: &[Value], dim: usize) -> Result<Value> {
        const OP: &str = "concatenate";
        let first = *first_of(OP, "operands", operands, "at least one operand", "use full for an empty result")?;
        let mut ty = self.ty(first).with_dtype(self.dtype(first));
        check_dim(OP, "dim", dim, ty.rank())?;
        for v in &operands[1..] {
            let other = self.ty(*v);
            let fits = other.dtype == ty.dtype
                && other.rank() == ty.rank()
                && (0..ty.rank()).all(|d| d == dim || other.dims[d] == ty.dims[d]);
            if !fits {
                return Err(error(
                    OP,
                    "operands",
                    other,
                    format_args!("{} up to dimension {dim}", self.ty(first)),
                    "convert or broadcast to fit",
                ));
            }
            ty.dims[dim] += other.dims[dim];
        }
        if operands.len() == 1 {
            return Ok(first);
        }
        self.push1("stablehlo.concatenate", operands, smallvec![("dimension", Attr::I64(dim as i64))], ty)
    }

    /// Reverses the order of elements along dimensions.
    ///
    /// Shapes: unchanged. Dtypes: all. Errors: a repeated or too large dimension. Emits `stablehlo.reverse`; nothing
    /// when all these dimensions have at most one element.
    pub fn reverse(&mut self, x: Value, dims: &[usize]) -> Result<Value> {
        check_unique_dims("reverse", "dims", dims, self.rank(x))?;
        let ty = self.ty(x).with_dtype(self.dtype(x));
        if dims.iter().all(|d| ty.dims[*d] <= 1) || self.splat_bytes(x).is_some() {
            return Ok(x);
        }
        self.push1("stablehlo.reverse", &[x], smallvec![("dimensions", dims_attr(dims))], ty)
    }
}

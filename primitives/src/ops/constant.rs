//! Constants and iota.

use smallvec::smallvec;

use super::check::{NUMERIC, check_dim, check_sizes};
use crate::error::{Result, error};
use crate::node::{Attr, Value};
use crate::{DType, Graph, Number, TensorType};

impl Graph {
    /// A constant with these elements.
    ///
    /// Shapes: result has `dims`. Dtypes: all; `bytes` holds the elements in row-major order, little endian, a
    /// boolean as one byte. Errors: a length that is not the number of elements times their size.
    /// Emits `stablehlo.constant`; equal elements become a splat.
    pub fn constant(&mut self, dtype: DType, dims: &[i64], bytes: &[u8]) -> Result<Value> {
        const OP: &str = "constant";
        check_sizes(OP, "dims", dims)?;
        let ty = TensorType::new(dtype, dims);
        if bytes.len() != ty.size_bytes() {
            return Err(error(
                OP,
                "bytes",
                format_args!("{} bytes", bytes.len()),
                format_args!("{} bytes for {ty}", ty.size_bytes()),
                "pass row-major little-endian elements, one byte per boolean",
            ));
        }
        let size = dtype.size_of();
        if bytes.is_empty() || bytes.chunks_exact(size).all(|c| c == &bytes[..size]) {
            let mut element = [0u8; 16];
            element[..size.min(bytes.len())].copy_from_slice(&bytes[..size.min(bytes.len())]);
            if dtype.is_bool() {
                element[0] = (element[0] != 0) as u8;
            }
            return self.splat(ty, element);
        }
        if dtype.is_bool() && ty.numel() > 64 {
            // Long literals are printed as hex, which is not stable for i1.
            let bytes: Vec<u8> = bytes.iter().map(|b| (*b != 0) as u8).collect();
            let as_bytes = self.constant(DType::U8, dims, &bytes)?;
            return self.convert(as_bytes, DType::Bool);
        }
        self.push1("stablehlo.constant", &[], smallvec![("value", Attr::Dense(bytes.into()))], ty)
    }

    /// A constant whose elements all are `n`, converted to `dtype` like a C cast (see [`Number::to_bytes`]).
    ///
    /// Shapes: result has `dims`. Dtypes: all; NaN, infinities and -0.0 are kept exactly. Errors: a negative size.
    /// Emits `stablehlo.constant dense<n>`.
    pub fn full(&mut self, dtype: DType, dims: &[i64], n: impl Into<Number>) -> Result<Value> {
        check_sizes("full", "dims", dims)?;
        self.splat(TensorType::new(dtype, dims), n.into().to_bytes(dtype))
    }

    /// A 0-d constant: `full(dtype, &[], n)`, which cannot fail.
    pub fn scalar(&mut self, dtype: DType, n: impl Into<Number>) -> Result<Value> {
        self.full(dtype, &[], n)
    }

    /// `n` in the dtype and shape of `v`. See [`full`](Self::full). Errors: none.
    pub fn full_like(&mut self, v: Value, n: impl Into<Number>) -> Result<Value> {
        let ty = self.ty(v);
        let ty = ty.with_dtype(ty.dtype);
        let bytes = n.into().to_bytes(ty.dtype);
        self.splat(ty, bytes)
    }

    /// Zeros (false) in the dtype and shape of `v`. Errors: none.
    pub fn zeros_like(&mut self, v: Value) -> Result<Value> {
        self.full_like(v, 0)
    }

    /// Ones (true) in the dtype and shape of `v`. Errors: none.
    pub fn ones_like(&mut self, v: Value) -> Result<Value> {
        self.full_like(v, 1)
    }

    pub(crate) fn splat(&mut self, ty: TensorType, bytes: [u8; 16]) -> Result<Value> {
        self.push1("stablehlo.constant", &[], smallvec![("value", Attr::Splat(bytes))], ty)
    }

    /// Index along one dimension: element `[.., i, ..]` is `i`.
    ///
    /// Shapes: result has `dims`, rank at least 1. Dtypes: all but bool. Errors: `dim` out of range.
    /// Emits `stablehlo.iota`.
    pub fn iota(&mut self, dtype: DType, dims: &[i64], dim: usize) -> Result<Value> {
        const OP: &str = "iota";
        check_sizes(OP, "dims", dims)?;
        if !(NUMERIC.accepts)(dtype) {
            return Err(error(OP, "dtype", dtype, NUMERIC.name, "make an integer iota and compare it"));
        }
        check_dim(OP, "dim", dim, dims.len())?;
        let ty = TensorType::new(dtype, dims);
        self.push1("stablehlo.iota", &[], smallvec![("iota_dimension", Attr::I64(dim as i64))], ty)
    }
}

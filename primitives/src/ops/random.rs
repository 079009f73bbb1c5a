//! Random bits.

use std::borrow::Cow;

use smallvec::smallvec;

use crate::error::{Result, error};
use crate::node::{Attr, Parts, Value};
use crate::{DType, Graph, TensorType};

/// Generator of [`Graph::rng_bit_generator`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RngAlgorithm {
    /// The device's choice.
    Default,
    /// Counter-based, state `[key, counter]`; the same bits on every device.
    ThreeFry,
    /// Counter-based, state `[key, counter]` or `[key, counter, counter]`.
    Philox,
}

impl Graph {
    /// Uniform random bits and the next state.
    ///
    /// Shapes: `state` is 1-d of size 2 (ThreeFry), 2 or 3 (Philox), any (Default); bits have `ty`. Dtypes: `state` u64;
    /// bits integers or floats (whose bits are uniform, not their values). Errors: another state; bool or complex bits.
    /// Emits `stablehlo.rng_bit_generator`.
    pub fn rng_bit_generator(
        &mut self,
        state: Value,
        algorithm: RngAlgorithm,
        ty: TensorType,
    ) -> Result<(Value, Value)> {
        const OP: &str = "rng_bit_generator";
        let s = self.ty(state);
        let size = s.dims.first().copied().unwrap_or(0);
        let (fits, want) = match algorithm {
            RngAlgorithm::Default => (true, "tensor<?xui64>"),
            RngAlgorithm::ThreeFry => (size == 2, "tensor<2xui64>"),
            RngAlgorithm::Philox => (size == 2 || size == 3, "tensor<2xui64> or tensor<3xui64>"),
        };
        if s.dtype != DType::U64 || s.rank() != 1 || !fits {
            return Err(error(OP, "state", s, want, "convert or reshape the state first"));
        }
        if !(ty.dtype.is_int() || ty.dtype.is_float()) {
            return Err(error(OP, "ty", ty.dtype, "an integer or floating-point type", "draw integers and convert"));
        }
        let state_ty = s.with_dtype(s.dtype);
        let name = match algorithm {
            RngAlgorithm::Default => "#stablehlo<rng_algorithm DEFAULT>",
            RngAlgorithm::ThreeFry => "#stablehlo<rng_algorithm THREE_FRY>",
            RngAlgorithm::Philox => "#stablehlo<rng_algorithm PHILOX>",
        };
        let parts = Parts { attrs: smallvec![("rng_algorithm", Attr::Raw(Cow::Borrowed(name)))], ..Parts::default() };
        let ty = ty.with_dtype(ty.dtype);
        let r = self.push("stablehlo.rng_bit_generator", &[state], &[state_ty, ty], parts)?;
        Ok((r[0], r[1]))
    }
}

//! Dimensions to reduce over, as torch's `dim` and `keepdim` arguments name them.

use crate::aten::Cx;
use crate::{Error, Result};
use primitives::{Dims, Graph, Value};

/// A dimension counted from the end when negative. A 0-d tensor has dimensions 0 and -1, as torch has it.
pub fn wrap(cx: &Cx<'_, '_>, d: i64, rank: usize) -> Result<usize> {
    let n = rank.max(1) as i64;
    if d < -n || d >= n {
        return Err(Error::index(
            cx.op(),
            format!("Dimension out of range (expected to be in range of [{}, {}], but got {d})", -n, n - 1),
        ));
    }
    Ok((if d < 0 { d + n } else { d }) as usize)
}

/// Which dimensions go, and whether they stay with size 1.
#[derive(Clone, Debug)]
pub struct Axes {
    pub dims: Vec<usize>,
    pub keepdim: bool,
    shape: Dims,
}

impl Axes {
    /// `dims` of a value of `shape`; none or an empty list means all of them.
    pub fn new(cx: &Cx<'_, '_>, shape: &[i64], dims: Option<&[i64]>, keepdim: bool) -> Result<Self> {
        let rank = shape.len();
        let mut out = Vec::new();
        // torch keeps the chosen dims in a mask of 64 bits.
        if rank > 64 && dims.is_some_and(|d| !d.is_empty()) {
            return Err(cx.error("only tensors with up to 64 dims are supported"));
        }
        for &d in dims.unwrap_or_default() {
            let w = wrap(cx, d, rank)?;
            if out.contains(&w) {
                return Err(cx.error(format!("dim {w} appears multiple times in the list of dims")));
            }
            out.push(w);
        }
        if out.is_empty() {
            out = (0..rank).collect();
        }
        if rank == 0 {
            out.clear();
        }
        out.sort_unstable();
        Ok(Self { dims: out, keepdim, shape: Dims::from_slice(shape) })
    }

    /// All dimensions.
    pub fn all(shape: &[i64]) -> Self {
        Self { dims: (0..shape.len()).collect(), keepdim: false, shape: Dims::from_slice(shape) }
    }

    /// Argument `dim` (an optional int list) and argument `keepdim` of an op over `x`.
    pub fn of(cx: &Cx<'_, '_>, x: Value, dim: usize, keepdim: usize) -> Result<Self> {
        let dims = cx.opt_ints(dim)?;
        Self::new(cx, &cx.g.dims(x), dims.as_deref(), cx.opt_bool(keepdim)?.unwrap_or(false))
    }

    /// Number of elements that one result combines.
    pub fn count(&self) -> i64 {
        self.dims.iter().map(|&d| self.shape[d]).product()
    }

    /// A reduced value in the shape that torch returns.
    pub fn finish(&self, g: &mut Graph, v: Value) -> Result<Value> {
        if !self.keepdim {
            return Ok(v);
        }
        let dims: Dims =
            self.shape.iter().enumerate().map(|(i, &n)| if self.dims.contains(&i) { 1 } else { n }).collect();
        Ok(g.reshape(v, &dims)?)
    }

    /// A reduced value repeated along the reduced dimensions.
    pub fn spread(&self, g: &mut Graph, v: Value) -> Result<Value> {
        let kept: Vec<usize> = (0..self.shape.len()).filter(|d| !self.dims.contains(d)).collect();
        Ok(g.broadcast_in_dim(v, &self.shape, &kept)?)
    }

    /// The error of an op without identity over nothing.
    pub fn check_not_empty(&self, cx: &Cx<'_, '_>, name: &str, given: bool) -> Result<()> {
        if given {
            if let Some(d) = self.dims.iter().find(|&&d| self.shape[d] == 0) {
                return Err(Error::index(
                    cx.op(),
                    format!("{name}(): Expected reduction dim {d} to have non-zero size."),
                ));
            }
        } else if self.shape.contains(&0) {
            return Err(cx.error(format!(
                "{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with \
                 the 'dim' argument."
            )));
        }
        Ok(())
    }
}

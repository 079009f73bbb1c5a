//! Control flow. Regions may use values of outer blocks.

use smallvec::smallvec;

use super::check::{INT, first_of};
use crate::error::Result;
use crate::node::{Parts, Region, Value};
use crate::{DType, Graph, TensorType};

/// A branch of [`Graph::case`].
pub type Branch<'a> = Box<dyn FnOnce(&mut Graph, &[Value]) -> Result<Vec<Value>> + 'a>;

/// Boxes a closure as a [`Branch`]; the compiler then knows its argument types.
pub fn branch<'a>(region: impl FnOnce(&mut Graph, &[Value]) -> Result<Vec<Value>> + 'a) -> Branch<'a> {
    Box::new(region)
}

impl Graph {
    /// Repeats `body` while `cond` holds.
    ///
    /// Both regions take the loop's values; `cond` returns one 0-d bool, `body` the next values. Shapes and dtypes: any;
    /// `body` keeps the types of `inits`, which the results have. Errors: regions that return other types.
    /// Emits `stablehlo.while`.
    pub fn while_loop(
        &mut self,
        inits: &[Value],
        cond: impl FnOnce(&mut Graph, &[Value]) -> Result<Vec<Value>>,
        body: impl FnOnce(&mut Graph, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        const OP: &str = "while_loop";
        let types: Vec<TensorType> = inits.iter().map(|v| self.ty(*v).with_dtype(self.dtype(*v))).collect();
        let cond = self.region(false, &types, cond)?;
        self.check_returns(OP, "cond", &cond, &[TensorType::scalar(DType::Bool)])?;
        let body = self.region(false, &types, body)?;
        self.check_returns(OP, "body", &body, &types)?;
        let impure = has_effect(&cond) || has_effect(&body);
        self.push("stablehlo.while", inits, &types, Parts { regions: vec![cond, body], impure, ..Parts::default() })
    }

    /// Runs one of two regions.
    ///
    /// The regions take nothing (an empty slice). Shapes and dtypes: `pred` is a 0-d bool; both regions return the same
    /// types, which the results have. Errors: another `pred`; regions that return different types.
    /// Emits `stablehlo.if`.
    pub fn if_else(
        &mut self,
        pred: Value,
        on_true: impl FnOnce(&mut Graph, &[Value]) -> Result<Vec<Value>>,
        on_false: impl FnOnce(&mut Graph, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        const OP: &str = "if_else";
        self.check_scalar(OP, "pred", pred, DType::Bool)?;
        let on_true = self.region(false, &[], on_true)?;
        let types = self.returned(&on_true);
        let on_false = self.region(false, &[], on_false)?;
        self.check_returns(OP, "on_false", &on_false, &types)?;
        let impure = has_effect(&on_true) || has_effect(&on_false);
        self.push(
            "stablehlo.if",
            &[pred],
            &types,
            Parts { regions: vec![on_true, on_false], impure, ..Parts::default() },
        )
    }

    /// Runs the region that `index` names; the last one for any index out of range.
    ///
    /// The regions take nothing (an empty slice). Shapes and dtypes: `index` is a 0-d i32 (other integers are converted);
    /// all regions return the same types, which the results have. Errors: another `index`; no region; regions that
    /// return different types. Emits `stablehlo.case`.
    pub fn case(&mut self, index: Value, branches: Vec<Branch<'_>>) -> Result<Vec<Value>> {
        const OP: &str = "case";
        self.check_class(OP, "index", index, &INT)?;
        self.check_rank(OP, "index", index, 0)?;
        first_of(OP, "branches", &branches, "at least one region", "give one region per index from 0")?;
        // Clamp in the index's own type: a wide index must not wrap into the range.
        let d = self.dtype(index);
        let last = self.scalar(d, branches.len() - 1)?;
        let zero = self.scalar(d, 0)?;
        let below = self.compare(index, zero, super::Direction::Lt)?;
        let index = self.select(below, last, index)?;
        let index = self.minimum(index, last)?;
        let index = self.convert(index, DType::I32)?;
        let mut regions: Vec<Region> = Vec::with_capacity(branches.len());
        let mut types = Vec::new();
        for branch in branches {
            let region = self.region(false, &[], branch)?;
            if regions.is_empty() {
                types = self.returned(&region);
            }
            self.check_returns(OP, "branches", &region, &types)?;
            regions.push(region);
        }
        let impure = regions.iter().any(has_effect);
        self.push("stablehlo.case", &[index], &types, Parts { regions, impure, ..Parts::default() })
    }

    fn returned(&self, region: &Region) -> Vec<TensorType> {
        region.returns.iter().map(|v| self.ty(*v).with_dtype(self.dtype(*v))).collect()
    }

    /// The same values, which the compiler may not move computation across.
    ///
    /// Shapes and dtypes: any. Errors: none of its own. Emits `stablehlo.optimization_barrier`.
    pub fn optimization_barrier(&mut self, operands: &[Value]) -> Result<Vec<Value>> {
        let types: Vec<TensorType> = operands.iter().map(|v| self.ty(*v).with_dtype(self.dtype(*v))).collect();
        self.push("stablehlo.optimization_barrier", operands, &types, Parts { attrs: smallvec![], ..Parts::default() })
    }
}

/// An operation that must run makes the operation around it one that must run.
fn has_effect(region: &Region) -> bool {
    region.nodes.iter().any(|n| n.effect == crate::node::Effect::Impure)
}

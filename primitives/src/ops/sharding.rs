//! Programs over several devices: sharding constraints and per-device parts.

use std::borrow::Cow;
use std::fmt::Write;

use smallvec::smallvec;

use super::check::check_len;
use crate::error::{Result, error};
use crate::node::{Attr, Attrs, Parts, Value};
use crate::{Graph, TensorType};

/// How a value is split over a mesh: for each of its dimensions the mesh axes that split it, the first one outermost.
pub type Split<'a> = &'a [&'a [&'a str]];

/// What [`Graph::manual_computation`] splits by.
#[derive(Clone, Copy, Debug)]
pub struct Manual<'a> {
    /// A mesh declared by [`Graph::add_mesh`].
    pub mesh: &'a str,
    /// One entry per operand.
    pub operands: &'a [Split<'a>],
    /// One entry per result.
    pub results: &'a [Split<'a>],
}

impl Graph {
    /// The same value with a sharding that the partitioner has to give it.
    ///
    /// Shapes and dtypes: any. The sharding is a Shardy attribute (`#sdy.sharding<@mesh, [{"x"}, {}]>`, with the mesh
    /// declared by [`add_mesh`](Self::add_mesh)) or an HLO sharding (`{devices=[2,1]<=[2]}`). Errors: an empty sharding.
    /// Emits `sdy.sharding_constraint`, or `stablehlo.custom_call @Sharding`.
    pub fn sharding_constraint(&mut self, x: Value, sharding: &str) -> Result<Value> {
        const OP: &str = "sharding_constraint";
        if sharding.is_empty() {
            return Err(error(
                OP,
                "sharding",
                "an empty text",
                "a Shardy attribute or an HLO sharding",
                "leave the value unconstrained instead",
            ));
        }
        let ty = self.ty(x).with_dtype(self.dtype(x)).with_sharding(sharding);
        if sharding.starts_with("#sdy.") {
            let attrs = smallvec![("sharding", Attr::Raw(Cow::Owned(sharding.to_string())))];
            return Ok(self.push("sdy.sharding_constraint", &[x], &[ty], Parts { attrs, ..Parts::default() })?[0]);
        }
        let attrs = smallvec![("call_target_name", Attr::Str("Sharding".into()))];
        let extra = Some(Box::new(("mhlo.sharding", Attr::Str(sharding.into()))));
        Ok(self.push("stablehlo.custom_call", &[x], &[ty], Parts { attrs, extra, ..Parts::default() })?[0])
    }

    /// Runs a region once per device of a mesh, on that device's block of every operand; the blocks that the devices
    /// return make up the results. Inside, collectives talk between devices and `partition_id` names the device.
    ///
    /// The region takes one block per operand and may not use outer values. Shapes: a split dimension divides by the
    /// sizes of its axes; a result dimension is its block's times them. Dtypes: all. Errors: an unknown mesh or axis; an
    /// axis used twice for a value; a size that does not divide; another number of splits than operands or results.
    /// Emits `sdy.manual_computation`.
    pub fn manual_computation(
        &mut self,
        operands: &[Value],
        manual: Manual<'_>,
        region: impl FnOnce(&mut Graph, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        const OP: &str = "manual_computation";
        let Some((_, axes)) = self.meshes.iter().find(|(name, _)| name == manual.mesh).cloned() else {
            return Err(error(OP, "mesh", manual.mesh, "a declared mesh", "call add_mesh first"));
        };
        check_len(OP, "operand splits", manual.operands.len(), operands.len())?;
        let mut blocks = Vec::with_capacity(operands.len());
        for (v, split) in operands.iter().zip(manual.operands) {
            let mut ty = self.ty(*v).with_dtype(self.dtype(*v));
            for (d, parts) in factors(&axes, split, ty.rank())?.into_iter().enumerate() {
                if ty.dims[d] % parts != 0 {
                    return Err(error(
                        OP,
                        "operands",
                        &ty,
                        format_args!("a multiple of {parts} at dimension {d}"),
                        "pad it first",
                    ));
                }
                ty.dims[d] /= parts;
            }
            blocks.push(ty);
        }
        let region = self.region(true, &blocks, region)?;
        check_len(OP, "result splits", manual.results.len(), region.returns.len())?;
        let mut results: Vec<TensorType> = Vec::with_capacity(region.returns.len());
        for (v, split) in region.returns.iter().zip(manual.results) {
            let mut ty = self.ty(*v).with_dtype(self.dtype(*v));
            for (d, parts) in factors(&axes, split, ty.rank())?.into_iter().enumerate() {
                ty.dims[d] *= parts;
            }
            results.push(ty);
        }
        let mut names = String::from("#sdy<manual_axes{");
        for (i, (axis, _)) in axes.iter().enumerate() {
            write!(names, "{}\"{axis}\"", if i > 0 { ", " } else { "" }).expect("writing to a String cannot fail");
        }
        names.push_str("}>");
        let attrs: Attrs = smallvec![
            ("in_shardings", shardings(manual.mesh, manual.operands)),
            ("manual_axes", Attr::Raw(Cow::Owned(names))),
            ("out_shardings", shardings(manual.mesh, manual.results)),
        ];
        let parts = Parts { attrs, regions: vec![region], impure: true, ..Parts::default() };
        self.push("sdy.manual_computation", operands, &results, parts)
    }
}

/// Into how many parts each dimension is split.
fn factors(axes: &[(String, i64)], split: Split<'_>, rank: usize) -> Result<Vec<i64>> {
    const OP: &str = "manual_computation";
    check_len(OP, "split", split.len(), rank)?;
    let mut used: Vec<&str> = Vec::new();
    let mut factors = Vec::with_capacity(rank);
    for dim in split {
        let mut parts = 1;
        for axis in *dim {
            let Some((_, size)) = axes.iter().find(|(name, _)| name == axis) else {
                return Err(error(OP, "split", axis, "an axis of the mesh", "name an axis given to add_mesh"));
            };
            if used.contains(axis) {
                return Err(error(
                    OP,
                    "split",
                    format_args!("{axis} twice"),
                    "each axis once",
                    "split by another axis",
                ));
            }
            used.push(axis);
            parts *= size;
        }
        factors.push(parts);
    }
    Ok(factors)
}

/// `#sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>`
fn shardings(mesh: &str, splits: &[Split<'_>]) -> Attr {
    let mut text = String::from("#sdy.sharding_per_value<[");
    for (i, split) in splits.iter().enumerate() {
        let dims: Vec<String> = split
            .iter()
            .map(|axes| format!("{{{}}}", axes.iter().map(|a| format!("\"{a}\"")).collect::<Vec<_>>().join(", ")))
            .collect();
        write!(text, "{}<@{mesh}, [{}]>", if i > 0 { ", " } else { "" }, dims.join(", "))
            .expect("writing to a String cannot fail");
    }
    text.push_str("]>");
    Attr::Raw(Cow::Owned(text))
}

//! Communication between devices.

use std::borrow::Cow;

use smallvec::smallvec;

use super::check::check_dim;
use crate::error::{Result, error};
use crate::node::{Attr, Attrs, Parts, Value};
use crate::{DType, Graph, TensorType};

/// Who talks to whom in a collective.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Groups {
    /// Ids of the devices of each group; all groups have the same size.
    pub groups: Vec<Vec<i64>>,
    /// `None`: ids are replica ids and the collective runs within a partition. `Some`: the collective crosses
    /// partitions; 0 takes the graph's next free channel.
    pub channel: Option<i64>,
    /// With a channel: ids count over replicas and partitions (`replica * partitions + partition`). SPMD programs want it.
    pub global_ids: bool,
}

impl Groups {
    /// All partitions of an SPMD program in one group.
    pub fn all_partitions(n: i64) -> Groups {
        Groups { groups: vec![(0..n).collect()], channel: Some(0), global_ids: true }
    }

    /// All replicas in one group.
    pub fn all_replicas(n: i64) -> Groups {
        Groups { groups: vec![(0..n).collect()], channel: None, global_ids: false }
    }

    /// Devices per group.
    pub fn size(&self) -> i64 {
        self.groups.first().map_or(0, |g| g.len() as i64)
    }
}

impl Graph {
    fn channel_attr(&mut self, channel: i64, kind: i64) -> Attr {
        let handle = if channel > 0 { channel } else { self.next_channel };
        self.next_channel = self.next_channel.max(handle + 1);
        Attr::Raw(Cow::Owned(format!("#stablehlo.channel_handle<handle = {handle}, type = {kind}>")))
    }

    /// Attributes for groups; `ids` says whether the operation has `use_global_device_ids`.
    fn group_attrs(&mut self, op: &'static str, groups: &Groups, ids: bool) -> Result<Attrs> {
        let size = groups.size();
        if size == 0 || groups.groups.iter().any(|g| g.len() as i64 != size) {
            return Err(error(
                op,
                "groups",
                format_args!("groups of sizes {:?}", groups.groups.iter().map(Vec::len).collect::<Vec<_>>()),
                "at least one group, all of one size above 0",
                "name every device once",
            ));
        }
        let mut all: Vec<i64> = groups.groups.concat();
        all.sort_unstable();
        if all.windows(2).any(|w| w[0] == w[1]) || all[0] < 0 {
            return Err(error(
                op,
                "groups",
                format_args!("{:?}", groups.groups),
                "each device at most once",
                "list a device in one group only",
            ));
        }
        if groups.global_ids && groups.channel.is_none() {
            return Err(error(op, "groups", "global ids without a channel", "a channel", "set channel to Some(0)"));
        }
        let data = groups.groups.iter().flatten().copied().collect();
        let mut attrs: Attrs = smallvec![("replica_groups", Attr::Table { cols: size as usize, data })];
        if let Some(channel) = groups.channel {
            attrs.push(("channel_handle", self.channel_attr(channel, 1)));
        }
        if groups.global_ids && ids {
            attrs.push(("use_global_device_ids", Attr::Unit));
        }
        Ok(attrs)
    }

    /// Combines the operands of all devices of a group with a region; every device gets the result.
    ///
    /// The region takes two 0-d elements and returns one; it may not use outer values. Shapes and dtypes: any; result has
    /// the type of `x`. Errors: unequal groups; a region that returns another type. Emits `stablehlo.all_reduce`.
    pub fn all_reduce(
        &mut self,
        x: Value,
        groups: &Groups,
        region: impl FnOnce(&mut Graph, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Value> {
        const OP: &str = "all_reduce";
        let ty = self.ty(x).with_dtype(self.dtype(x));
        let attrs = self.group_attrs(OP, groups, true)?;
        let scalar = TensorType::scalar(ty.dtype);
        let region = self.region(true, &[scalar.clone(), scalar.clone()], region)?;
        self.check_returns(OP, "region", &region, &[scalar])?;
        let parts = Parts { attrs, regions: vec![region], impure: true, ..Parts::default() };
        Ok(self.push("stablehlo.all_reduce", &[x], &[ty], parts)?[0])
    }

    /// Joins the operands of all devices of a group along a dimension.
    ///
    /// Shapes: `dim` grows by the group size. Dtypes: all. Errors: `dim` out of range; unequal groups.
    /// Emits `stablehlo.all_gather`.
    pub fn all_gather(&mut self, x: Value, dim: usize, groups: &Groups) -> Result<Value> {
        const OP: &str = "all_gather";
        let mut ty = self.ty(x).with_dtype(self.dtype(x));
        check_dim(OP, "dim", dim, ty.rank())?;
        let mut attrs = self.group_attrs(OP, groups, true)?;
        attrs.push(("all_gather_dim", Attr::I64(dim as i64)));
        ty.dims[dim] *= groups.size();
        Ok(self.push("stablehlo.all_gather", &[x], &[ty], Parts { attrs, impure: true, ..Parts::default() })?[0])
    }

    /// Combines the operands of a group with a region; each device gets its part along a dimension.
    ///
    /// The region is that of [`all_reduce`](Self::all_reduce). Shapes: `dim` shrinks by the group size, which divides it.
    /// Dtypes: all. Errors: `dim` out of range or not divisible; unequal groups. Emits `stablehlo.reduce_scatter`.
    pub fn reduce_scatter(
        &mut self,
        x: Value,
        dim: usize,
        groups: &Groups,
        region: impl FnOnce(&mut Graph, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Value> {
        const OP: &str = "reduce_scatter";
        let mut ty = self.ty(x).with_dtype(self.dtype(x));
        check_dim(OP, "dim", dim, ty.rank())?;
        let mut attrs = self.group_attrs(OP, groups, true)?;
        self.check_divides(OP, x, dim, groups.size())?;
        attrs.push(("scatter_dimension", Attr::I64(dim as i64)));
        ty.dims[dim] /= groups.size();
        let scalar = TensorType::scalar(ty.dtype);
        let region = self.region(true, &[scalar.clone(), scalar.clone()], region)?;
        self.check_returns(OP, "region", &region, &[scalar])?;
        let parts = Parts { attrs, regions: vec![region], impure: true, ..Parts::default() };
        Ok(self.push("stablehlo.reduce_scatter", &[x], &[ty], parts)?[0])
    }

    fn check_divides(&self, op: &'static str, x: Value, dim: usize, parts: i64) -> Result<()> {
        let ty = self.ty(x);
        if parts > 0 && ty.dims[dim] % parts == 0 {
            return Ok(());
        }
        Err(error(op, "x", ty, format_args!("a multiple of the group size {parts} at dimension {dim}"), "pad it first"))
    }

    /// Splits along one dimension, sends part `i` to device `i` of the group, and joins what arrives along another.
    ///
    /// Shapes: `split_dim` shrinks by the group size, which divides it; `concat_dim` grows by it. Dtypes: all.
    /// Errors: dimensions out of range or not divisible; unequal groups. Emits `stablehlo.all_to_all`.
    pub fn all_to_all(&mut self, x: Value, split_dim: usize, concat_dim: usize, groups: &Groups) -> Result<Value> {
        const OP: &str = "all_to_all";
        let mut ty = self.ty(x).with_dtype(self.dtype(x));
        check_dim(OP, "split_dim", split_dim, ty.rank())?;
        check_dim(OP, "concat_dim", concat_dim, ty.rank())?;
        let mut attrs = self.group_attrs(OP, groups, false)?;
        self.check_divides(OP, x, split_dim, groups.size())?;
        ty.dims[split_dim] /= groups.size();
        ty.dims[concat_dim] *= groups.size();
        attrs.push(("split_dimension", Attr::I64(split_dim as i64)));
        attrs.push(("concat_dimension", Attr::I64(concat_dim as i64)));
        attrs.push(("split_count", Attr::I64(groups.size())));
        Ok(self.push("stablehlo.all_to_all", &[x], &[ty], Parts { attrs, impure: true, ..Parts::default() })?[0])
    }

    /// Sends the operand from device to device; a device nobody sends to gets zeros.
    ///
    /// Shapes and dtypes: any; result has the type of `x`. `pairs` are (source, target); `channel` as in [`Groups`].
    /// Errors: a repeated source or target. Emits `stablehlo.collective_permute`.
    pub fn collective_permute(&mut self, x: Value, pairs: &[(i64, i64)], channel: Option<i64>) -> Result<Value> {
        const OP: &str = "collective_permute";
        let ty = self.ty(x).with_dtype(self.dtype(x));
        for (i, p) in pairs.iter().enumerate() {
            if pairs[..i].iter().any(|q| q.0 == p.0 || q.1 == p.1) {
                return Err(error(
                    OP,
                    "pairs",
                    format_args!("{pairs:?}"),
                    "each source and target once",
                    "permute twice to send to several devices",
                ));
            }
        }
        let data = pairs.iter().flat_map(|(s, t)| [*s, *t]).collect();
        let mut attrs: Attrs = smallvec![("source_target_pairs", Attr::Table { cols: 2, data })];
        if let Some(channel) = channel {
            attrs.push(("channel_handle", self.channel_attr(channel, 1)));
        }
        Ok(self.push("stablehlo.collective_permute", &[x], &[ty], Parts { attrs, impure: true, ..Parts::default() })?
            [0])
    }

    /// Sends the operand of each group's first device to the whole group.
    ///
    /// Shapes and dtypes: any; result has the type of `x`. Errors: unequal groups. CPU and TPU compilers refuse it as of
    /// 2026: there, gather and take the first part. Emits `stablehlo.collective_broadcast`.
    pub fn collective_broadcast(&mut self, x: Value, groups: &Groups) -> Result<Value> {
        let ty = self.ty(x).with_dtype(self.dtype(x));
        let attrs = self.group_attrs("collective_broadcast", groups, false)?;
        Ok(self.push(
            "stablehlo.collective_broadcast",
            &[x],
            &[ty],
            Parts { attrs, impure: true, ..Parts::default() },
        )?[0])
    }

    /// Id of the partition that runs this program: 0-d u32. Errors: none. Emits `stablehlo.partition_id`.
    pub fn partition_id(&mut self) -> Result<Value> {
        self.push1("stablehlo.partition_id", &[], smallvec![], TensorType::scalar(DType::U32))
    }

    /// Id of the replica that runs this program: 0-d u32. Errors: none. Emits `stablehlo.replica_id`.
    pub fn replica_id(&mut self) -> Result<Value> {
        self.push1("stablehlo.replica_id", &[], smallvec![], TensorType::scalar(DType::U32))
    }
}

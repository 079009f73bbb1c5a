//! Appending operations: visibility of operands, value numbering, regions.

use smallvec::SmallVec;

use crate::error::{Result, error};
use crate::graph::OpenBlock;
use crate::node::{Attrs, Def, Effect, Node, Parts, Region, Value, node_hash};
use crate::{Graph, TensorType};

impl Graph {
    /// An operand must belong to an open block that the current one can see.
    fn check_visible(&self, op: &'static str, v: Value) -> Result<()> {
        let op = op.rsplit('.').next().unwrap_or(op);
        let Some(info) = self.values.get(v.0 as usize) else {
            return Err(error(
                op,
                "operand",
                format_args!("value {}", v.0),
                "a value of this graph",
                "values cannot move between graphs",
            ));
        };
        for block in self.blocks.iter().rev() {
            if block.id == info.block {
                return Ok(());
            }
            if block.isolated {
                break;
            }
        }
        let outer = self.blocks.iter().any(|b| b.id == info.block);
        Err(error(
            op,
            "operand",
            if outer { "a value of an outer block" } else { "a value of a closed region" },
            "a value the current block can see",
            if outer {
                "only while, if and case regions may use outer values; rebuild constants inside the region"
            } else {
                "return the value from its region"
            },
        ))
    }

    /// Appends a pure operation with one result.
    pub(crate) fn push1(
        &mut self,
        op: &'static str,
        operands: &[Value],
        attrs: Attrs,
        ty: TensorType,
    ) -> Result<Value> {
        self.push_pure(op, operands, attrs, ty, false)
    }

    /// Appends a pure operation whose operands and result all have type `ty`; printed in the short form.
    pub(crate) fn push_same(&mut self, op: &'static str, operands: &[Value], ty: TensorType) -> Result<Value> {
        self.push_pure(op, operands, Attrs::new(), ty, true)
    }

    fn push_pure(
        &mut self,
        op: &'static str,
        operands: &[Value],
        attrs: Attrs,
        ty: TensorType,
        pretty: bool,
    ) -> Result<Value> {
        for v in operands {
            self.check_visible(op, *v)?;
        }
        let hash = node_hash(op, operands, &attrs, ty.dtype, &ty.dims);
        let block = self.blocks.last().expect("main is always open");
        if let Some(&at) = block.numbering.get(&hash) {
            let node = &block.region.nodes[at as usize];
            let value = Value(node.first_result);
            if node.op == op && node.operands[..] == *operands && node.attrs == attrs && *self.ty(value) == ty {
                return Ok(value);
            }
        }
        let at = block.region.nodes.len() as u32;
        let mut node = self.make_node(op, operands, &[ty], Parts { attrs, ..Parts::default() });
        node.pretty = pretty;
        let value = Value(node.first_result);
        let block = self.blocks.last_mut().expect("main is always open");
        block.numbering.insert(hash, at);
        block.region.nodes.push(node);
        Ok(value)
    }

    /// Appends any operation. Not subject to value numbering.
    pub(crate) fn push(
        &mut self,
        op: &'static str,
        operands: &[Value],
        tys: &[TensorType],
        parts: Parts,
    ) -> Result<Vec<Value>> {
        for v in operands {
            self.check_visible(op, *v)?;
        }
        let node = self.make_node(op, operands, tys, parts);
        let first = node.first_result;
        let results = (first..first + tys.len() as u32).map(Value).collect();
        self.blocks.last_mut().expect("main is always open").region.nodes.push(node);
        Ok(results)
    }

    fn make_node(&mut self, op: &'static str, operands: &[Value], tys: &[TensorType], parts: Parts) -> Node {
        let block = self.blocks.last().expect("main is always open");
        let (id, at) = (block.id, block.region.nodes.len() as u32);
        let first_result = self.values.len() as u32;
        for ty in tys {
            self.new_value(ty.clone(), id, Def::Node(at));
        }
        self.ops += 1;
        Node {
            op,
            operands: SmallVec::from_slice(operands),
            first_result,
            results: tys.len() as u32,
            attrs: parts.attrs,
            extra: parts.extra,
            regions: parts.regions,
            effect: if parts.impure { Effect::Impure } else { Effect::Pure },
            pretty: false,
            location: self.location.clone(),
        }
    }

    /// The operation that defines `v`, when the current block can see it and it is `op`.
    pub(crate) fn defined_by(&self, v: Value, op: &'static str) -> Option<&Node> {
        let info = self.values.get(v.0 as usize)?;
        let Def::Node(at) = info.def else { return None };
        let block = self.blocks.last().filter(|b| b.id == info.block)?;
        Some(&block.region.nodes[at as usize]).filter(|n| n.op == op)
    }

    /// Runs `build` in a new block with arguments of these types and returns the finished region.
    /// Whatever happens inside, the block is closed again.
    pub(crate) fn region(
        &mut self,
        isolated: bool,
        arg_types: &[TensorType],
        build: impl FnOnce(&mut Graph, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Region> {
        let id = self.next_block;
        self.next_block += 1;
        let depth = self.blocks.len();
        self.blocks.push(OpenBlock::new(id, isolated));
        let args: Vec<Value> = arg_types.iter().map(|ty| self.new_value(ty.clone(), id, Def::Argument)).collect();
        self.blocks[depth].region.args = args.clone();
        let built = build(self, &args).and_then(|returns| {
            for v in &returns {
                self.check_visible("region", *v)?;
            }
            Ok(returns)
        });
        let mut region = self.blocks.pop().expect("pushed above").region;
        region.returns = built?;
        Ok(region)
    }

    /// Checks what a region returns.
    pub(crate) fn check_returns(
        &self,
        op: &'static str,
        argument: &'static str,
        region: &Region,
        expected: &[TensorType],
    ) -> Result<()> {
        let same = region.returns.len() == expected.len()
            && region.returns.iter().zip(expected).all(|(v, ty)| self.ty(*v).same_shape_and_dtype(ty));
        if same {
            return Ok(());
        }
        let got: Vec<&TensorType> = region.returns.iter().map(|v| self.ty(*v)).collect();
        Err(error(
            op,
            argument,
            format_args!("a region returning ({})", join(&got)),
            format_args!("({})", join(&expected.iter().collect::<Vec<_>>())),
            "convert or broadcast inside the region",
        ))
    }
}

pub(crate) fn join(types: &[&TensorType]) -> String {
    types.iter().map(|t| t.to_string()).collect::<Vec<_>>().join(", ")
}

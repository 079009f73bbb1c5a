//! StableHLO text.
//!
//! Element-wise operations and constants use the short form, everything else the generic form, which has been stable
//! over every StableHLO version the plugins carry. Names are numbered in order of printing, so equal programs print
//! equal text. Pure operations whose results nobody uses are left out.

use crate::Graph;
use crate::attribute::{number, quoted, write_attribute};
use crate::graph::Donation;
use crate::literal::{put, write_dense, write_element};
use crate::node::{Attr, Effect, Node, Region, Value};
use crate::types::TensorType;

impl Graph {
    /// The program as StableHLO text, without source locations. Deterministic.
    pub fn to_text(&self) -> String {
        Printer::new(self, false).print()
    }

    /// The program as StableHLO text with a `loc(...)` on every operation that has a source location and on every
    /// named parameter.
    pub fn to_text_with_locations(&self) -> String {
        Printer::new(self, true).print()
    }
}

struct Printer<'g> {
    graph: &'g Graph,
    locations: bool,
    out: String,
    /// Name of each value, by its number.
    names: Vec<Name>,
    live: Vec<bool>,
    next_value: u32,
    next_argument: u32,
    indent: usize,
}

#[derive(Clone, Copy)]
enum Name {
    Unused,
    Argument(u32),
    Single(u32),
    /// Result `.1` of an operation with several.
    Part(u32, u32),
}

impl<'g> Printer<'g> {
    fn new(graph: &'g Graph, locations: bool) -> Self {
        let n = graph.values.len();
        Printer {
            graph,
            locations,
            out: String::with_capacity(256 + n * 96),
            names: vec![Name::Unused; n],
            live: vec![false; n],
            next_value: 0,
            next_argument: 0,
            indent: 0,
        }
    }

    fn print(mut self) -> String {
        let main = self.graph.main();
        mark(&mut self.live, main);
        put(&mut self.out, format_args!("module @{}", self.graph.name));
        if let Some((partitions, replicas)) = self.graph.partitions {
            put(
                &mut self.out,
                format_args!(
                    " attributes {{mhlo.num_partitions = {partitions} : i32, mhlo.num_replicas = {replicas} : i32}}"
                ),
            );
        }
        self.out.push_str(" {\n");
        for (name, axes) in &self.graph.meshes {
            put(&mut self.out, format_args!("  sdy.mesh @{name} = <["));
            for (i, (axis, size)) in axes.iter().enumerate() {
                put(&mut self.out, format_args!("{}\"{axis}\"={size}", if i > 0 { ", " } else { "" }));
            }
            self.out.push_str("]>\n");
        }
        self.out.push_str("  func.func public @main(");
        for (i, v) in main.args.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.argument(*v);
            self.parameter_attributes(i, *v);
            if self.locations
                && let Some(name) = &self.graph.parameter_names[i]
            {
                self.out.push_str(" loc(");
                quoted(&mut self.out, name);
                self.out.push(')');
            }
        }
        self.out.push_str(") -> (");
        for (i, v) in main.returns.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.ty(self.graph.ty(*v));
            if let Some(sharding) = &self.graph.ty(*v).sharding {
                self.out.push_str(" {");
                self.sharding(sharding);
                self.out.push('}');
            }
        }
        self.out.push_str(") {\n");
        self.indent = 4;
        self.body(main, "return");
        self.out.push_str("  }\n}\n");
        self.out
    }

    fn parameter_attributes(&mut self, i: usize, v: Value) {
        let donation = self.graph.donations[i];
        let sharding = self.graph.ty(v).sharding.as_deref();
        if donation.is_none() && sharding.is_none() {
            return;
        }
        self.out.push_str(" {");
        if let Some(sharding) = sharding {
            self.sharding(sharding);
            if donation.is_some() {
                self.out.push_str(", ");
            }
        }
        match donation {
            Some(Donation::Output(out)) => put(&mut self.out, format_args!("tf.aliasing_output = {out} : i32")),
            Some(Donation::Any) => self.out.push_str("jax.buffer_donor = true"),
            None => {}
        }
        self.out.push('}');
    }

    fn sharding(&mut self, sharding: &str) {
        if sharding.starts_with("#sdy.") {
            put(&mut self.out, format_args!("sdy.sharding = {sharding}"));
        } else {
            self.out.push_str("mhlo.sharding = ");
            quoted(&mut self.out, sharding);
        }
    }

    /// Operations and terminator of a block.
    fn body(&mut self, region: &Region, terminator: &str) {
        for node in &region.nodes {
            if is_live(&self.live, node) {
                self.node(node);
            }
        }
        self.pad();
        self.out.push_str(terminator);
        if terminator == "return" {
            for (i, v) in region.returns.iter().enumerate() {
                self.out.push_str(if i > 0 { ", " } else { " " });
                self.value(*v);
            }
            for (i, v) in region.returns.iter().enumerate() {
                self.out.push_str(if i > 0 { ", " } else { " : " });
                self.ty(self.graph.ty(*v));
            }
        } else {
            self.out.push('(');
            self.list(&region.returns);
            self.out.push_str(") : (");
            self.types(&region.returns);
            self.out.push_str(") -> ()");
        }
        self.out.push('\n');
    }

    fn node(&mut self, node: &Node) {
        self.pad();
        if node.results > 0 {
            let name = self.next_value;
            self.next_value += 1;
            put(&mut self.out, format_args!("%{name}"));
            if node.results > 1 {
                put(&mut self.out, format_args!(":{}", node.results));
            }
            for i in 0..node.results {
                self.names[(node.first_result + i) as usize] =
                    if node.results == 1 { Name::Single(name) } else { Name::Part(name, i) };
            }
            self.out.push_str(" = ");
        }
        let first = Value(node.first_result);
        if node.op == "stablehlo.constant" {
            self.out.push_str("stablehlo.constant ");
            self.literal(&node.attrs[0].1, self.graph.ty(first));
        } else if node.pretty {
            self.out.push_str(node.op);
            self.out.push(' ');
            self.list(&node.operands);
            self.out.push_str(" : ");
            self.ty(self.graph.ty(first));
        } else {
            self.generic(node);
        }
        if self.locations
            && let Some(location) = &node.location
        {
            self.location(location);
        }
        self.out.push('\n');
    }

    fn generic(&mut self, node: &Node) {
        self.out.push('"');
        self.out.push_str(node.op);
        self.out.push_str("\"(");
        self.list(&node.operands);
        self.out.push(')');
        if !node.attrs.is_empty() {
            self.out.push_str(" <{");
            self.attributes(&node.attrs);
            self.out.push_str("}>");
        }
        if !node.regions.is_empty() {
            self.out.push_str(" (");
            let terminator = if node.op.starts_with("sdy.") { "\"sdy.return\"" } else { "\"stablehlo.return\"" };
            for (i, region) in node.regions.iter().enumerate() {
                if i > 0 {
                    self.out.push_str(", ");
                }
                self.region(region, terminator);
            }
            self.out.push(')');
        }
        if let Some(extra) = &node.extra {
            self.out.push_str(" {");
            self.attributes(std::slice::from_ref(&**extra));
            self.out.push('}');
        }
        self.out.push_str(" : (");
        self.types(&node.operands);
        self.out.push_str(") -> ");
        if node.results == 1 {
            self.ty(self.graph.ty(Value(node.first_result)));
        } else {
            self.out.push('(');
            for i in 0..node.results {
                if i > 0 {
                    self.out.push_str(", ");
                }
                self.ty(self.graph.ty(Value(node.first_result + i)));
            }
            self.out.push(')');
        }
    }

    fn region(&mut self, region: &Region, terminator: &str) {
        self.out.push_str("{\n");
        if !region.args.is_empty() {
            self.pad();
            self.out.push_str("^bb0(");
            for (i, v) in region.args.iter().enumerate() {
                if i > 0 {
                    self.out.push_str(", ");
                }
                self.argument(*v);
            }
            self.out.push_str("):\n");
        }
        self.indent += 2;
        self.body(region, terminator);
        self.indent -= 2;
        self.pad();
        self.out.push('}');
    }

    fn argument(&mut self, v: Value) {
        self.names[v.0 as usize] = Name::Argument(self.next_argument);
        put(&mut self.out, format_args!("%arg{}: ", self.next_argument));
        self.next_argument += 1;
        self.ty(self.graph.ty(v));
    }

    fn attributes(&mut self, attrs: &[(&'static str, Attr)]) {
        for (i, (name, attr)) in attrs.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.out.push_str(name);
            if *attr != Attr::Unit {
                self.out.push_str(" = ");
                write_attribute(&mut self.out, attr);
            }
        }
    }

    fn literal(&mut self, attr: &Attr, ty: &TensorType) {
        self.out.push_str("dense<");
        match attr {
            Attr::Splat(bytes) if ty.numel() != 0 => write_element(&mut self.out, ty.dtype, bytes),
            Attr::Dense(bytes) => write_dense(&mut self.out, ty.dtype, &ty.dims, bytes),
            _ => {}
        }
        self.out.push_str("> : ");
        self.ty(ty);
    }

    fn location(&mut self, location: &str) {
        self.out.push_str(" loc(");
        match location.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse::<u32>().ok()?))) {
            Some((file, line)) => {
                quoted(&mut self.out, file);
                put(&mut self.out, format_args!(":{line}:0"));
            }
            None => quoted(&mut self.out, location),
        }
        self.out.push(')');
    }

    fn value(&mut self, v: Value) {
        match self.names[v.0 as usize] {
            Name::Argument(n) => {
                self.out.push_str("%arg");
                number(&mut self.out, n);
            }
            Name::Single(n) => {
                self.out.push('%');
                number(&mut self.out, n);
            }
            Name::Part(n, i) => put(&mut self.out, format_args!("%{n}#{i}")),
            Name::Unused => unreachable!("values are printed before their uses"),
        }
    }

    fn list(&mut self, values: &[Value]) {
        for (i, v) in values.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.value(*v);
        }
    }

    fn types(&mut self, values: &[Value]) {
        for (i, v) in values.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.ty(self.graph.ty(*v));
        }
    }

    fn ty(&mut self, ty: &TensorType) {
        self.out.push_str("tensor<");
        for d in &ty.dims {
            number(&mut self.out, *d as u64);
            self.out.push('x');
        }
        self.out.push_str(ty.dtype.mlir());
        self.out.push('>');
    }

    fn pad(&mut self) {
        const SPACES: &str = "                                ";
        self.out.push_str(&SPACES[..self.indent.min(SPACES.len())]);
    }
}

fn is_live(live: &[bool], node: &Node) -> bool {
    node.effect == Effect::Impure
        || live[node.first_result as usize..(node.first_result + node.results) as usize].iter().any(|l| *l)
}

/// Marks every value that the region's results or effects depend on; uses come after definitions, so one walk
/// backwards is enough.
fn mark(live: &mut [bool], region: &Region) {
    for v in &region.returns {
        live[v.0 as usize] = true;
    }
    for node in region.nodes.iter().rev() {
        if is_live(live, node) {
            for v in &node.operands {
                live[v.0 as usize] = true;
            }
            for inner in &node.regions {
                mark(live, inner);
            }
        }
    }
}

//! A part of a finished program as a program of its own.
//!
//! A traced function and its gradient are one graph; cut at the end of the forward part they become two programs, and
//! what the second needs of the first is handed over as outputs of the one and parameters of the other.

use crate::error::{Result, error};
use crate::node::{Def, Effect, Node, Region, Value};
use crate::{Graph, TensorType};

impl Graph {
    /// A place in `main`: between the operations appended so far and those to come.
    pub fn mark(&self) -> usize {
        self.main().nodes.len()
    }

    /// The latest value of `main` that depends on something.
    pub fn latest(&self) -> Option<Value> {
        self.main().nodes.iter().rev().find(|n| !remakeable(n) && n.results > 0).map(|n| Value(n.first_result))
    }

    /// Values made before `mark` that `outputs` depend on through operations after it: parameters, and results of
    /// operations that take operands (constants are cheaper to make again). In order of their making.
    pub fn crossing(&self, mark: usize, outputs: &[Value]) -> Vec<Value> {
        let main = self.main();
        let mut live = vec![false; self.values.len()];
        let mut found = Vec::new();
        let mut need = |live: &mut Vec<bool>, v: Value| {
            if std::mem::replace(&mut live[v.0 as usize], true) || self.values[v.0 as usize].block != 0 {
                return;
            }
            match self.values[v.0 as usize].def {
                Def::Argument => found.push(v),
                Def::Node(at) if (at as usize) < mark && !remakeable(&main.nodes[at as usize]) => found.push(v),
                Def::Node(_) => {}
            }
        };
        for &v in outputs {
            need(&mut live, v);
        }
        for node in main.nodes[mark..].iter().rev() {
            let first = node.first_result as usize;
            if node.effect == Effect::Impure || live[first..first + node.results as usize].iter().any(|l| *l) {
                uses(node, &mut |v| need(&mut live, v));
            }
        }
        found.sort_unstable();
        found
    }

    /// The parameters of `main` that `outputs` depend on, in order.
    pub fn params_of(&self, outputs: &[Value]) -> Vec<Value> {
        let mut live = vec![false; self.values.len()];
        for &v in outputs {
            live[v.0 as usize] = true;
        }
        for node in self.main().nodes.iter().rev() {
            let first = node.first_result as usize;
            if live[first..first + node.results as usize].iter().any(|l| *l) {
                uses(node, &mut |v| live[v.0 as usize] = true);
            }
        }
        self.params().iter().copied().filter(|v| live[v.0 as usize]).collect()
    }

    /// The program that computes `outputs` from `params`, which are values of `main`: what made them is left out, and
    /// every other value that is needed must follow from them.
    ///
    /// # Errors
    /// When `outputs` depend on a parameter of this program that is not among `params`.
    pub fn extract(&self, name: &str, params: &[Value], outputs: &[Value]) -> Result<Graph> {
        let mut cut = Graph::new(name);
        cut.values = self.values.clone();
        let main = self.main();
        let mut given = vec![false; self.values.len()];
        let mut live = vec![false; self.values.len()];
        for &v in params {
            given[v.0 as usize] = true;
            cut.values[v.0 as usize].def = Def::Argument;
        }
        for &v in outputs {
            live[v.0 as usize] = true;
        }
        let mut kept: Vec<&Node> = Vec::new();
        for node in main.nodes.iter().rev() {
            let results = node.first_result as usize..(node.first_result + node.results) as usize;
            if results.clone().any(|i| live[i] && !given[i]) {
                uses(node, &mut |v| live[v.0 as usize] = true);
                kept.push(node);
            }
        }
        if let Some(missing) = main.args.iter().find(|v| live[v.0 as usize] && !given[v.0 as usize]) {
            return Err(error(
                "extract",
                "params",
                format_args!("a list without parameter {} of the program", missing.0),
                "every parameter that the outputs depend on",
                "add it to the list",
            ));
        }
        let mut nodes: Vec<Node> = kept.into_iter().rev().cloned().collect();
        for (at, node) in nodes.iter_mut().enumerate() {
            for i in node.first_result..node.first_result + node.results {
                if !given[i as usize] {
                    cut.values[i as usize].def = Def::Node(at as u32);
                }
            }
        }
        cut.blocks[0].region = Region { args: params.to_vec(), nodes, returns: outputs.to_vec() };
        cut.parameter_names = params
            .iter()
            .map(|v| main.args.iter().position(|a| a == v).and_then(|i| self.parameter_names[i].clone()))
            .collect();
        cut.donations = vec![None; params.len()];
        cut.meshes = self.meshes.clone();
        cut.partitions = self.partitions;
        Ok(cut)
    }

    /// The types of the parameters of `main`.
    pub fn param_types(&self) -> impl Iterator<Item = &TensorType> {
        self.params().iter().map(|&v| self.ty(v))
    }
}

fn remakeable(node: &Node) -> bool {
    node.operands.is_empty() && node.regions.is_empty() && node.effect == Effect::Pure
}

/// Every value that the operation reads, in its regions too.
fn uses(node: &Node, f: &mut impl FnMut(Value)) {
    for &v in &node.operands {
        f(v);
    }
    for region in &node.regions {
        for v in &region.returns {
            f(*v);
        }
        for inner in &region.nodes {
            uses(inner, f);
        }
    }
}

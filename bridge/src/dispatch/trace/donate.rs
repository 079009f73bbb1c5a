//! Memory that a program may take over from its inputs.
//!
//! Three kinds of input end with the program: a cell that it writes, an argument that the caller gave away, and a tensor
//! whose place another one takes (`p.grad` at each step). Each is paired with a result of its type, so that the result
//! is computed in the old memory; an argument without such a result is free for whatever the compiler makes of it.

use super::program::{In, Out};
use crate::Result;
use primitives::Graph;
use std::sync::Arc;

/// A place whose tensor the caller gave away, and what a later use of the tensor is told.
#[derive(Clone, Debug)]
pub struct Given {
    pub place: u32,
    pub message: Arc<str>,
}

/// What a program does with the memory of its inputs.
#[derive(Clone, Debug, Default)]
pub struct Donations {
    /// Arguments that the caller gave away.
    pub given: Vec<Given>,
    /// A tensor at a place that result `k` of those handed to the caller takes the place of.
    pub renewed: Vec<(u32, usize)>,
}

/// Inputs that are donated, and for each result the place that it renews.
#[derive(Debug, Default)]
pub struct Plan {
    pub donated: Vec<usize>,
    pub renews: Vec<Option<u32>>,
}

/// Whether a result is the new value of what an input reads.
pub fn is_next(input: &In, output: &Out) -> bool {
    match (input, output) {
        (In::Cell(a), Out::Cell(b)) | (In::Slot(a), Out::Slot(b)) => a == b,
        (In::Rng, Out::Rng) => true,
        _ => false,
    }
}

/// Pairs inputs with results and marks them in the graph. Values that are `handed` to the caller keep their memory.
pub fn plan(graph: &mut Graph, inputs: &[In], outputs: &[Out], handed: &[usize], wanted: &Donations) -> Result<Plan> {
    let mut plan = Plan { donated: Vec::new(), renews: vec![None; outputs.len()] };
    let mut taken = vec![false; outputs.len()];
    let mut pair = |graph: &mut Graph, plan: &mut Plan, i: usize, o: usize| -> Result<()> {
        let same = graph.ty(graph.params()[i]).same_shape_and_dtype(graph.ty(graph.outputs()[o]));
        if same && !taken[o] && !plan.donated.contains(&i) && !handed.contains(&i) {
            graph.donate(i, Some(o))?;
            taken[o] = true;
            plan.donated.push(i);
        }
        Ok(())
    };
    for (o, out) in outputs.iter().enumerate() {
        if let Some(i) = inputs.iter().position(|i| is_next(i, out)) {
            pair(graph, &mut plan, i, o)?;
        }
    }
    let cell = |place: u32| inputs.iter().position(|i| matches!(i, In::Cell(p) if *p == place));
    let news: Vec<usize> = (0..outputs.len()).filter(|&o| matches!(outputs[o], Out::New)).collect();
    for &(place, k) in &wanted.renewed {
        if let (Some(i), Some(&o)) = (cell(place), news.get(k)) {
            pair(graph, &mut plan, i, o)?;
            if plan.donated.contains(&i) {
                plan.renews[o] = Some(place);
            }
        }
    }
    for given in &wanted.given {
        let Some(i) = cell(given.place) else { continue };
        for &o in &news {
            pair(graph, &mut plan, i, o)?;
        }
        if !plan.donated.contains(&i) && !handed.contains(&i) {
            graph.donate(i, None)?;
            plan.donated.push(i);
        }
    }
    Ok(plan)
}

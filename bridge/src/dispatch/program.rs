//! The program of one eager call: the graph with its inputs (where each comes from) and outputs (where each goes).

use super::{checks, slots};
use crate::aten::cx::{Env, Source};
use crate::aten::lower::{NewTensor, lower};
use crate::aten::{Arg, ArgPos, Check, Kernel};
use crate::{Error, Result};
use primitives::{DType, Graph, Number, TensorType, Value};

/// Where an input of the program comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Input {
    /// The tensor at this position, the `nth` of the call's tensors.
    Tensor {
        pos: ArgPos,
        nth: u16,
    },
    Number {
        pos: ArgPos,
        dtype: DType,
    },
    /// The process's random state, or one seeded by the argument.
    Rng(Option<ArgPos>),
}

/// Where an output of the program goes.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    New(NewTensor),
    /// The storage of the tensor at this position.
    Mutate(ArgPos),
    Check(Check),
    Rng(Option<ArgPos>),
}

/// A result in the order torch expects it.
#[derive(Clone, Debug, PartialEq)]
pub enum ResultSlot {
    /// Output of the program with this index.
    Output(usize),
    /// A tensor without elements: no output, no storage.
    Empty(NewTensor),
    Undefined,
}

/// A call's program before compilation.
pub struct Program {
    pub graph: Graph,
    pub inputs: Vec<Input>,
    pub outputs: Vec<Output>,
    pub results: Vec<ResultSlot>,
    /// Inputs whose memory an output takes over.
    pub donated: Vec<usize>,
}

/// Storages below this many bytes are not donated: nothing is gained and the call gets slower.
const DONATE_FROM: u64 = 4096;

/// Builds the program of a call.
pub fn build(kernel: &Kernel, args: &[Arg<'_>], env: Env) -> Result<Program> {
    let mut graph = Graph::new(&module_name(&kernel.schema.name));
    let mut source = Inputs { tensors: tensor_positions(args), inputs: Vec::new(), values: Vec::new() };
    let low = lower(kernel, args, &mut graph, &mut source, env)?;
    let (mut outputs, mut values, mut results, mut donated) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut donations = Vec::new();
    let checked = !low.checks.is_empty() && !low.harmless;
    for out in low.outs {
        results.push(match out {
            None => ResultSlot::Undefined,
            Some((_, new)) if new.sizes.contains(&0) => ResultSlot::Empty(new),
            Some((v, new)) => {
                values.push(v);
                outputs.push(Output::New(new));
                ResultSlot::Output(outputs.len() - 1)
            }
        });
    }
    for (pos, slot, v) in low.mutated {
        let input = source
            .inputs
            .iter()
            .position(|i| matches!(i, Input::Tensor { pos, .. } if slot_of(args, *pos) == Some(slot)));
        if let Some(i) = input.filter(|_| slots::with(slot, |s| s.nbytes()).is_ok_and(|n| n >= DONATE_FROM)) {
            donations.push((i, values.len()));
        }
        let old = input.filter(|_| checked).map(|i| graph.params()[i]);
        values.push(match old {
            Some(old) => checks::good_or(&mut graph, low.checks.iter().map(|(c, _)| *c), v, old)?,
            None => v,
        });
        outputs.push(Output::Mutate(pos));
    }
    for (v, check) in low.checks {
        values.push(v);
        outputs.push(Output::Check(check));
    }
    if let Some((pos, v)) = low.rng {
        values.push(v);
        outputs.push(Output::Rng(pos));
    }
    graph.set_outputs(&values)?;
    for (i, o) in donations {
        graph.donate(i, Some(o))?;
        donated.push(i);
    }
    Ok(Program { graph, inputs: source.inputs, outputs, results, donated })
}

fn module_name(op: &str) -> String {
    op.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// Cell of the tensor at `pos` of a call.
pub fn slot_of(args: &[Arg<'_>], pos: ArgPos) -> Option<u32> {
    if pos.arg as usize >= args.len() {
        return None;
    }
    match pos.get(args) {
        Arg::Tensor(t) => Some(t.slot),
        _ => None,
    }
}

fn tensor_positions(args: &[Arg<'_>]) -> Vec<ArgPos> {
    let mut found = Vec::new();
    for (i, arg) in args.iter().enumerate() {
        match arg {
            Arg::Tensor(_) => found.push(ArgPos::arg(i)),
            Arg::List(items) => {
                found.extend(
                    (0..items.len()).filter(|&k| matches!(items[k], Arg::Tensor(_))).map(|k| ArgPos::item(i, k)),
                );
            }
            _ => {}
        }
    }
    found
}

/// Makes a parameter of the program for everything the lowering reads.
struct Inputs {
    /// Positions of the call's tensors, in order.
    tensors: Vec<ArgPos>,
    inputs: Vec<Input>,
    values: Vec<(Input, Value)>,
}

impl Inputs {
    fn input(&mut self, g: &mut Graph, input: Input, ty: TensorType) -> Value {
        if let Some((_, v)) = self.values.iter().find(|(i, _)| *i == input) {
            return *v;
        }
        let v = g.parameter(ty);
        self.inputs.push(input);
        self.values.push((input, v));
        v
    }
}

impl Source for Inputs {
    fn storage_type(&self, slot: u32) -> Result<TensorType> {
        slots::with(slot, |s| s.ty())
    }

    fn base(&mut self, g: &mut Graph, pos: ArgPos, slot: u32) -> Result<Value> {
        let ty = self.storage_type(slot)?;
        let nth = self.tensors.iter().position(|p| *p == pos);
        let nth = nth.ok_or_else(|| Error::internal("a tensor went missing".into()))? as u16;
        Ok(self.input(g, Input::Tensor { pos, nth }, ty))
    }

    fn number(&mut self, g: &mut Graph, pos: ArgPos, _value: Number, dtype: DType) -> Result<Value> {
        Ok(self.input(g, Input::Number { pos, dtype }, TensorType::new(dtype, &[])))
    }

    fn rng(&mut self, g: &mut Graph, pos: Option<ArgPos>) -> Result<Value> {
        Ok(self.input(g, Input::Rng(pos), TensorType::new(DType::U32, &[4])))
    }
}

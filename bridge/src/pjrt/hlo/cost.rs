//! The work of an optimized program, counted by the rules of XLA's own `HloCostAnalysis`, for plugins that have none.
//!
//! One operation of an element is one flop, whatever its type, and a multiplication with its addition two. Functions
//! such as `exponential` count as transcendentals instead. A loop counts one turn, a conditional its dearest branch;
//! what a custom call does is not known and counts as nothing but its memory.

use std::collections::BTreeMap;
use std::ops::{Add, Mul};

use ahash::AHashMap;

use super::instruction::find;
use super::shape::Size;
use super::window;
use super::wire::{Message, Read};

/// A constant of more elements than this is read from memory by a fusion, not kept in its code.
const IMMEDIATE: f64 = 8.;
/// A multiplication and an addition.
const FMA: f64 = 2.;

#[derive(Clone, Copy, Default)]
struct Cost {
    flops: f64,
    transcendentals: f64,
    bytes: f64,
}

impl Cost {
    fn flops(flops: f64) -> Self {
        Self { flops, ..Self::default() }
    }

    fn dearest(self, other: Self) -> Self {
        Self {
            flops: self.flops.max(other.flops),
            transcendentals: self.transcendentals.max(other.transcendentals),
            bytes: self.bytes.max(other.bytes),
        }
    }

    fn moving(self, bytes: f64) -> Self {
        Self { bytes, ..self }
    }
}

impl Add for Cost {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            flops: self.flops + other.flops,
            transcendentals: self.transcendentals + other.transcendentals,
            bytes: self.bytes + other.bytes,
        }
    }
}

impl Mul<f64> for Cost {
    type Output = Self;
    fn mul(self, times: f64) -> Self {
        Self { flops: self.flops * times, transcendentals: self.transcendentals * times, bytes: self.bytes * times }
    }
}

struct Instruction<'a> {
    message: Message<'a>,
    opcode: &'a str,
    size: Size,
    /// Places in the computation.
    operands: Vec<usize>,
}

struct Computation<'a> {
    instructions: Vec<Instruction<'a>>,
    root: usize,
}

/// The counts of an `HloModuleProto` by XLA's names: `flops`, `transcendentals`, `bytes accessed`.
pub(super) fn count(module: &Message) -> Read<BTreeMap<String, f64>> {
    let messages = module.messages(3)?;
    let mut computations = AHashMap::default();
    let mut entry = None;
    for message in &messages {
        let id = message.int(5)?;
        if match module.int(6)? {
            0 => message.text(1)? == module.text(2)?,
            entry => id == entry,
        } {
            entry = Some(id);
        }
        let within = |why| format!("computation {}: {why}", message.text(1).unwrap_or("?"));
        computations.insert(id, Computation::read(message).map_err(within)?);
    }
    let entry = entry.ok_or("a module without an entry computation")?;
    let total = Counting { computations: &computations, known: AHashMap::default() }.computation(entry)?;
    let named = [("flops", total.flops), ("transcendentals", total.transcendentals), ("bytes accessed", total.bytes)];
    Ok(named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

impl<'a> Computation<'a> {
    fn read(message: &Message<'a>) -> Read<Self> {
        let messages = message.messages(2)?;
        let mut places = AHashMap::default();
        for (place, one) in messages.iter().enumerate() {
            places.insert(one.int(35)?, place);
        }
        let place = |id: i64| find(&places, id).copied().ok_or_else(|| format!("{id} is no instruction's id"));
        let root = place(message.int(6)?)?;
        let read = |message: Message<'a>| {
            Ok(Instruction {
                opcode: message.text(2)?,
                size: Size::of(&message.message(3)?.unwrap_or_default())?,
                operands: message.ints(36)?.into_iter().map(place).collect::<Read<_>>()?,
                message,
            })
        };
        Ok(Self { instructions: messages.into_iter().map(read).collect::<Read<_>>()?, root })
    }

    fn operand(&self, of: &Instruction, index: usize) -> Read<&Instruction<'a>> {
        let place = *of.operands.get(index).ok_or_else(|| format!("a {} without operand {index}", of.opcode))?;
        Ok(&self.instructions[place])
    }

    /// What a fusion reads of the value at `place`, from how the instructions in it use that.
    fn read_bytes(&self, place: usize, inner: &dyn Fn(&Instruction, usize) -> Read<f64>) -> Read<f64> {
        let whole = self.instructions[place].size.bytes;
        let (mut bytes, mut read) = (0., false);
        for user in self.instructions.iter().filter(|user| user.operands.contains(&place)) {
            let first = user.operands.first() == Some(&place);
            match user.opcode {
                "fusion" => {
                    for (index, _) in user.operands.iter().enumerate().filter(|(_, operand)| **operand == place) {
                        bytes += inner(user, index)?;
                    }
                }
                "slice" => bytes += user.size.bytes,
                "dynamic-slice" if first => bytes += user.size.bytes,
                // It is written to in place.
                "dynamic-update-slice" if first => (),
                "broadcast" | "reshape" => bytes += whole,
                // All others share one reading.
                _ if !read => {
                    read = true;
                    bytes += whole;
                }
                _ => (),
            }
        }
        Ok(bytes)
    }

    fn parameter(&self, number: usize) -> Read<usize> {
        for (place, one) in self.instructions.iter().enumerate() {
            if one.opcode == "parameter" && one.message.int(9)? == number as i64 {
                return Ok(place);
            }
        }
        Err(format!("it has no parameter {number}"))
    }

    /// What a fusion writes of the value at `place`: of an update in place the new part alone.
    fn written_bytes(&self, place: usize) -> Read<f64> {
        let one = &self.instructions[place];
        match one.opcode {
            "dynamic-update-slice" => Ok(self.operand(one, 1)?.size.bytes),
            _ => Ok(one.size.over_parts(|part| part.bytes)),
        }
    }
}

struct Counting<'m, 'a> {
    computations: &'m AHashMap<i64, Computation<'a>>,
    /// Counts of computations that are done; none for those being counted.
    known: AHashMap<i64, Option<Cost>>,
}

impl<'m, 'a> Counting<'m, 'a> {
    fn get(&self, id: i64) -> Read<&'m Computation<'a>> {
        find(self.computations, id).ok_or_else(|| format!("{id} is no computation's id"))
    }

    fn computation(&mut self, id: i64) -> Read<Cost> {
        match self.known.get(&id) {
            Some(Some(cost)) => return Ok(*cost),
            Some(None) => return Err(format!("computation {id} calls itself")),
            None => self.known.insert(id, None),
        };
        let computation = self.get(id)?;
        let mut total = Cost::default();
        for one in &computation.instructions {
            let cost = self.instruction(one, computation);
            total = total + cost.map_err(|why| format!("instruction {}: {why}", one.message.text(1).unwrap_or("?")))?;
        }
        self.known.insert(id, Some(total));
        Ok(total)
    }

    /// The `index`-th computation that `one` calls, and no memory: that stays in registers.
    fn called(&mut self, one: &Instruction, index: usize) -> Read<Cost> {
        let id = *one.message.ints(38)?.get(index).ok_or_else(|| format!("it calls no computation {index}"))?;
        self.computation(id)
    }

    fn applied(&mut self, one: &Instruction, index: usize, times: f64) -> Read<Cost> {
        Ok((self.called(one, index)? * times).moving(0.))
    }

    fn instruction(&mut self, one: &Instruction<'a>, computation: &Computation<'a>) -> Read<Cost> {
        let operand = |index| computation.operand(one, index);
        let mut moved = one.size.bytes;
        for &place in &one.operands {
            moved += computation.instructions[place].size.bytes;
        }
        let elements = one.size.first().elements();
        let work = match one.opcode {
            "parameter" | "constant" | "get-tuple-element" | "bitcast" | "after-all" | "add-dependency" | "domain" => {
                return Ok(Cost::default());
            }
            "tuple" => return Ok(Cost::default().moving(one.size.bytes)),
            "slice" => return Ok(Cost::default().moving(2. * one.size.bytes)),
            "dynamic-slice" => {
                return Ok(Cost::default().moving(2. * one.size.bytes + operand(1)?.size.bytes));
            }
            "dynamic-update-slice" => {
                return Ok(Cost::default().moving(2. * operand(1)?.size.bytes + operand(2)?.size.bytes));
            }
            "gather" => return Ok(Cost::default().moving(2. * one.size.bytes + operand(1)?.size.bytes)),
            "call" | "async-start" => return self.called(one, 0),
            "fusion" => return self.fusion(one),
            "while" => return Ok(self.called(one, 0)? + self.called(one, 1)?),
            "conditional" => {
                let mut dearest = self.called(one, 0)?;
                for branch in 1..one.message.ints(38)?.len() {
                    dearest = dearest.dearest(self.called(one, branch)?);
                }
                return Ok(dearest);
            }
            "scatter" => return self.scatter(one, computation),
            "dot" => {
                let numbers = one.message.message(30)?.unwrap_or_default();
                let mut width = 1.;
                for dim in numbers.ints(1)? {
                    width *= operand(0)?.size.dim(dim)?;
                }
                Cost::flops(FMA * elements * width)
            }
            "convolution" => {
                let sizes = [&operand(0)?.size, &operand(1)?.size, &one.size];
                Cost::flops(FMA * window::convolution(&one.message, sizes)?)
            }
            "reduce" => self.applied(one, 0, operand(0)?.size.elements() - elements)?,
            "map" => self.applied(one, 0, elements)?,
            "reduce-window" => self.applied(one, 0, elements * (window::elements(&one.message)? - 1.))?,
            "select-and-scatter" => {
                let source = operand(1)?.size.elements();
                let selected = self.applied(one, 0, source * (window::elements(&one.message)? - 1.))?;
                selected + self.applied(one, 1, source)?
            }
            "sort" => {
                let sorted = operand(0)?.size.elements();
                Cost::flops(sorted * sorted.max(1.).log2().ceil())
            }
            "fft" => {
                let levels: f64 = one.message.ints(32)?.iter().map(|&n| (n.max(1) as f64).log2().floor()).product();
                Cost::flops(FMA * 4. * levels * operand(0)?.size.first().elements())
            }
            // Of a triangular matrix one half is read; of a factor one half is written.
            "triangular-solve" => {
                let (a, b) = (&operand(0)?.size, &operand(1)?.size);
                return Ok(Cost::flops(FMA * b.elements() * a.last()?).moving(moved - a.bytes / 2.));
            }
            "cholesky" => {
                let a = &operand(0)?.size;
                return Ok(Cost::flops((a.elements() * a.last()? / 3.).floor()).moving(a.bytes));
            }
            "rng" | "rng-bit-generator" => {
                Cost { transcendentals: one.size.over_parts(Size::elements), ..Cost::default() }
            }
            "all-reduce" | "all-reduce-start" => Cost::flops(one.size.over_parts(Size::elements)),
            opcode if TRANSCENDENTAL.contains(&opcode) => Cost { transcendentals: elements, ..Cost::default() },
            opcode if ELEMENTWISE.contains(&opcode) => Cost::flops(elements),
            _ => Cost::default(),
        };
        Ok(work.moving(moved))
    }

    fn fusion(&mut self, one: &Instruction) -> Read<Cost> {
        let work = self.called(one, 0)?;
        let id = one.message.ints(38)?[0];
        let inside = self.get(id)?;
        let root = &inside.instructions[inside.root];
        let mut bytes = match root.opcode {
            "tuple" => root.operands.iter().map(|&place| inside.written_bytes(place)).sum::<Read<f64>>()?,
            _ => inside.written_bytes(inside.root)?,
        };
        for constant in inside.instructions.iter().filter(|one| one.opcode == "constant") {
            if constant.size.elements() > IMMEDIATE {
                bytes += constant.size.bytes;
            }
        }
        for index in 0..one.operands.len() {
            bytes += self.fusion_reads(id, index)?;
        }
        Ok(work.moving(bytes))
    }

    /// Bytes that a fusion of computation `id` reads of its operand `index`.
    fn fusion_reads(&self, id: i64, index: usize) -> Read<f64> {
        let computation = self.get(id)?;
        computation.read_bytes(computation.parameter(index)?, &|user, index| {
            let inner = *user.message.ints(38)?.first().ok_or("a fusion that calls nothing")?;
            self.fusion_reads(inner, index)
        })
    }

    /// Each element of the updates is read, and what it meets read and written; `n` operands, one index, `n` updates.
    fn scatter(&mut self, one: &Instruction<'a>, computation: &Computation<'a>) -> Read<Cost> {
        let operands = one.operands.len() / 2;
        let mut bytes = computation.operand(one, operands)?.size.bytes;
        for update in operands + 1..one.operands.len() {
            bytes += 3. * computation.operand(one, update)?.size.bytes;
        }
        let updates = computation.operand(one, operands + 1)?.size.elements();
        Ok(self.applied(one, 0, updates)?.moving(bytes))
    }
}

const TRANSCENDENTAL: [&str; 15] = [
    "atan2",
    "cbrt",
    "cosine",
    "erf",
    "exponential",
    "exponential-minus-one",
    "log",
    "log-plus-one",
    "logistic",
    "power",
    "rsqrt",
    "sine",
    "sqrt",
    "tan",
    "tanh",
];

const ELEMENTWISE: [&str; 34] = [
    "abs",
    "add",
    "and",
    "bitcast-convert",
    "ceil",
    "clamp",
    "compare",
    "complex",
    "convert",
    "count-leading-zeros",
    "divide",
    "floor",
    "imag",
    "is-finite",
    "maximum",
    "minimum",
    "multiply",
    "negate",
    "not",
    "or",
    "popcnt",
    "real",
    "reduce-precision",
    "remainder",
    "round-nearest-afz",
    "round-nearest-even",
    "select",
    "shift-left",
    "shift-right-arithmetic",
    "shift-right-logical",
    "sign",
    "stochastic-convert",
    "subtract",
    "xor",
];

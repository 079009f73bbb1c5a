//! Python numbers that are inputs of a traced program: a learning rate, betas, float arguments.
//!
//! torch hands a kernel nothing but the double, so such a number travels under a value of its own: one that no constant
//! of the user's code has, near the real one. Arithmetic on it in Python makes further ones, with their formula. Where
//! one arrives at a kernel it is recognised by its bits and becomes the parameter, or the formula over parameters.
//! A kernel that needs the value itself, or Python code that compares it, gets the real one and leaves a condition
//! behind: the program then serves only numbers that meet it.

use super::condition::{Condition, Relation};
use super::inputs::Capture;
use crate::aten::{Arg, Kernel};
use crate::{Error, Result};
use ahash::AHashMap;
use primitives::{DType, Graph, Number, TensorType, Value};
use std::sync::Arc;

/// The dtype of numbers inside a trace.
const NUMBER: DType = DType::F64;

/// Arithmetic that is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberOp {
    Add,
    Sub,
    Mul,
    Div,
    Pow,
    Min,
    Max,
}

impl NumberOp {
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            NumberOp::Add => a + b,
            NumberOp::Sub => a - b,
            NumberOp::Mul => a * b,
            NumberOp::Div => a / b,
            NumberOp::Pow => a.powf(b),
            NumberOp::Min => a.min(b),
            NumberOp::Max => a.max(b),
        }
    }

    fn emit(self, g: &mut Graph, a: Value, b: Value) -> Result<Value> {
        Ok(match self {
            NumberOp::Add => g.add(a, b)?,
            NumberOp::Sub => g.subtract(a, b)?,
            NumberOp::Mul => g.multiply(a, b)?,
            NumberOp::Div => crate::aten::exact::divide(g, a, b)?,
            NumberOp::Pow => g.power(a, b)?,
            NumberOp::Min => g.minimum(a, b)?,
            NumberOp::Max => g.maximum(a, b)?,
        })
    }
}

#[derive(Clone, Copy, Debug)]
enum Term {
    Known(usize),
    Const(f64),
}

#[derive(Clone, Copy, Debug)]
enum Formula {
    Input(u32),
    /// A value that the device computes.
    Device(Value),
    Of(NumberOp, Term, Term),
}

/// How a number follows from the inputs of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    Input(u32),
    Const(f64),
    Of(NumberOp, Box<(Expression, Expression)>),
}

impl Expression {
    fn of(op: NumberOp, a: Expression, b: Expression) -> Self {
        Expression::Of(op, Box::new((a, b)))
    }

    /// Its value for the numbers of a call.
    pub fn at(&self, numbers: &[f64]) -> f64 {
        match self {
            Expression::Input(n) => numbers[*n as usize],
            Expression::Const(c) => *c,
            Expression::Of(op, sides) => op.of(sides.0.at(numbers), sides.1.at(numbers)),
        }
    }

    /// The last input that it needs.
    fn last(&self) -> Option<u32> {
        match self {
            Expression::Input(n) => Some(*n),
            Expression::Const(_) => None,
            Expression::Of(_, sides) => sides.0.last().max(sides.1.last()),
        }
    }
}

#[derive(Clone, Debug)]
struct Tracked {
    real: f64,
    formula: Formula,
    device: bool,
}

/// The numbers of one trace.
#[derive(Default)]
pub struct Numbers {
    all: Vec<Tracked>,
    by_bits: AHashMap<u64, (usize, bool)>,
    parameters: AHashMap<u32, Value>,
    new_parameters: Vec<(Capture, Value)>,
    inputs: u32,
    pub conditions: Vec<Condition>,
    /// Whether torch may hand over NaN in the place of a number, with the number attached to it.
    pub attached: bool,
}

impl Numbers {
    fn add(&mut self, wanted: f64, real: f64, formula: Formula, device: bool) -> f64 {
        let i = self.all.len();
        let mut fake = wanted;
        let mut salt = (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // A minimum or a maximum is one of its operands, which may be a constant of the code; so may a result that is a
        // round number (x / x). Such a value would make the constant look like the number wherever else it is used.
        let mut common = !matches!(formula, Formula::Of(op, ..) if !matches!(op, NumberOp::Min | NumberOp::Max));
        while common
            || f64::from(fake as f32) == fake
            || !fake.is_finite()
            || self.by_bits.contains_key(&fake.to_bits())
        {
            common = false;
            salt = (salt ^ salt >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let unit = ((salt ^ salt >> 32) >> 11) as f64 / (1u64 << 53) as f64;
            let base = if wanted.is_finite() && wanted != 0.0 { wanted } else { 1e-3 };
            fake = base * (1.01 + 0.01 * unit);
        }
        self.all.push(Tracked { real, formula, device });
        for negative in [false, true] {
            let v = if negative { -fake } else { fake };
            self.by_bits.entry(v.to_bits()).or_insert((i, negative));
            // A number that became a float32 tensor on its way is known too.
            self.by_bits.entry(f64::from(v as f32).to_bits()).or_insert((i, negative));
        }
        fake
    }

    /// Registers an input and returns the value that it goes by.
    pub fn input(&mut self, real: f64) -> f64 {
        let n = self.inputs;
        self.inputs += 1;
        self.add(real, real, Formula::Input(n), false)
    }

    /// A value of the device as a number.
    pub fn device(&mut self, v: Value) -> f64 {
        self.add(3.0, f64::NAN, Formula::Device(v), true)
    }

    fn find(&self, v: f64) -> Option<(usize, bool)> {
        self.by_bits.get(&v.to_bits()).copied()
    }

    fn term(&mut self, v: f64) -> (Term, f64, bool) {
        match self.find(v) {
            None => (Term::Const(v), v, false),
            Some((i, false)) => (Term::Known(i), self.all[i].real, self.all[i].device),
            Some((i, true)) => {
                let formula = Formula::Of(NumberOp::Sub, Term::Const(0.0), Term::Known(i));
                let (real, device) = (-self.all[i].real, self.all[i].device);
                self.all.push(Tracked { real, formula, device });
                (Term::Known(self.all.len() - 1), real, device)
            }
        }
    }

    /// Arithmetic of Python on numbers of which at least one is known.
    pub fn arithmetic(&mut self, op: NumberOp, a: f64, b: f64) -> f64 {
        let ((ta, ra, da), (tb, rb, db)) = (self.term(a), self.term(b));
        self.add(op.of(a, b), op.of(ra, rb), Formula::Of(op, ta, tb), da || db)
    }

    /// The real value behind a number, for Python code that asks for it: the program then holds for this value only.
    ///
    /// # Errors
    /// For a number that only the device knows.
    pub fn specialize(&mut self, v: f64) -> Result<f64> {
        let Some((i, negative)) = self.find(v) else { return Ok(v) };
        self.fix(i)?;
        let real = self.all[i].real;
        Ok(if negative { -real } else { real })
    }

    fn fix(&mut self, i: usize) -> Result<()> {
        match self.all[i].formula {
            Formula::Input(number) => {
                let bound = self.all[i].real;
                self.require(Condition { number, relation: Relation::Is, bound, outcome: true, formulas: None });
                Ok(())
            }
            Formula::Device(_) => Err(Error::refused(
                "the value of a tensor decides what Python does next. Way out: use torch.where, or a static argument.",
            )),
            Formula::Of(_, a, b) => {
                for t in [a, b] {
                    if let Term::Known(k) = t {
                        self.fix(k)?;
                    }
                }
                Ok(())
            }
        }
    }

    fn require(&mut self, c: Condition) {
        if !self.conditions.contains(&c) {
            self.conditions.push(c);
        }
    }

    /// A comparison of Python's.
    pub fn compare(&mut self, relation: Relation, a: f64, b: f64) -> Result<bool> {
        if self.find(a).is_none() && self.find(b).is_some() {
            return self.compare(relation.swapped(), b, a);
        }
        if let (Some((i, false)), None) = (self.find(a), self.find(b))
            && let Formula::Input(number) = self.all[i].formula
        {
            let outcome = relation.holds(self.all[i].real, b);
            self.require(Condition { number, relation, bound: b, outcome, formulas: None });
            return Ok(outcome);
        }
        if let (Some(left), Some(right)) = (self.expression(a), self.expression(b))
            && let Some(number) = left.last().max(right.last())
        {
            let outcome = relation.holds(self.peek(a), self.peek(b));
            let formulas = Some(Arc::new((left, right)));
            self.require(Condition { number, relation, bound: 0.0, outcome, formulas });
            return Ok(outcome);
        }
        let (a, b) = (self.specialize(a)?, self.specialize(b)?);
        Ok(relation.holds(a, b))
    }

    /// The real value, without a condition: for messages.
    pub fn peek(&self, v: f64) -> f64 {
        self.find(v).map_or(v, |(i, negative)| if negative { -self.all[i].real } else { self.all[i].real })
    }

    /// How a number follows from inputs; `None` when the device computes a part of it.
    pub fn expression(&self, v: f64) -> Option<Expression> {
        match self.find(v) {
            None => Some(Expression::Const(v)),
            Some((i, negative)) => {
                let e = self.expression_of(i)?;
                Some(if negative { Expression::of(NumberOp::Sub, Expression::Const(0.0), e) } else { e })
            }
        }
    }

    fn expression_of(&self, i: usize) -> Option<Expression> {
        let side = |t: Term| match t {
            Term::Const(c) => Some(Expression::Const(c)),
            Term::Known(k) => self.expression_of(k),
        };
        Some(match self.all[i].formula {
            Formula::Input(n) => Expression::Input(n),
            Formula::Device(_) => return None,
            Formula::Of(op, a, b) => Expression::of(op, side(a)?, side(b)?),
        })
    }

    /// The value behind a number that is known.
    pub fn lookup(&mut self, g: &mut Graph, n: Number) -> Result<Option<Value>> {
        let Number::Float(f) = n else { return Ok(None) };
        let Some((i, negative)) = self.find(f) else { return Ok(None) };
        let v = self.emit(g, i)?;
        Ok(Some(if negative { g.neg(v)? } else { v }))
    }

    fn emit(&mut self, g: &mut Graph, i: usize) -> Result<Value> {
        match self.all[i].formula {
            Formula::Device(v) => Ok(g.convert(v, NUMBER)?),
            Formula::Input(n) => {
                if let Some(&v) = self.parameters.get(&n) {
                    return Ok(v);
                }
                let v = g.parameter(TensorType::new(NUMBER, &[]));
                self.parameters.insert(n, v);
                self.new_parameters.push((Capture::Number(n), v));
                Ok(v)
            }
            Formula::Of(op, a, b) => {
                let side = |this: &mut Self, g: &mut Graph, t: Term| match t {
                    Term::Const(c) => Ok(g.scalar(NUMBER, c)?),
                    Term::Known(k) => this.emit(g, k),
                };
                let (a, b) = (side(self, g, a)?, side(self, g, b)?);
                op.emit(g, a, b)
            }
        }
    }

    /// Parameters that numbers have become.
    pub fn take_parameters(&mut self) -> Vec<(Capture, Value)> {
        std::mem::take(&mut self.new_parameters)
    }

    fn knows(&self, n: &Number) -> bool {
        matches!(n, Number::Float(f) if self.find(*f).is_some())
    }

    /// Whether a call has a known number among its arguments.
    pub fn any_in(&self, args: &[Arg<'_>]) -> bool {
        !self.all.is_empty()
            && args.iter().any(|a| match a {
                Arg::Float(f) => self.find(*f).is_some(),
                Arg::Scalar(n) | Arg::HostScalar { value: n, .. } => self.knows(n),
                Arg::Floats(v) => v.iter().any(|f| self.find(*f).is_some()),
                Arg::List(items) => self.any_in(items),
                _ => false,
            })
    }

    /// The arguments with real values where the kernel takes a number as part of the program.
    pub fn settle<'a>(&mut self, kernel: &Kernel, args: &[Arg<'a>]) -> Result<Option<Vec<Arg<'a>>>> {
        if !self.any_in(args) {
            return Ok(None);
        }
        let mut out = args.to_vec();
        for (i, arg) in out.iter_mut().enumerate() {
            if kernel.dynamic >> i.min(63) & 1 == 0 {
                self.settle_one(arg)?;
            }
        }
        Ok(Some(out))
    }

    fn settle_one(&mut self, arg: &mut Arg<'_>) -> Result<()> {
        match arg {
            Arg::Float(f) | Arg::Scalar(Number::Float(f)) => *f = self.specialize(*f)?,
            Arg::Floats(v) => {
                for f in v {
                    *f = self.specialize(*f)?;
                }
            }
            Arg::List(items) => {
                for item in items {
                    self.settle_one(item)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// The error for a NaN that may stand for a number of the caller's. A trace that knows no such number is tried next.
pub fn unattached() -> Error {
    Error::refused(
        "torch computed with a number of the caller's on the host, where it cannot be followed. Way out: pass it as a \
         tensor, or as a static argument.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_followed_number_never_looks_like_a_constant() {
        let mut n = Numbers::default();
        let x = n.input(0.5);
        let one = n.arithmetic(NumberOp::Max, 1.0, x);
        let also_one = n.arithmetic(NumberOp::Div, x, x);
        let zero = n.arithmetic(NumberOp::Sub, x, x);
        for constant in [1.0, -1.0, 0.0, 0.5, -0.5] {
            assert!(n.find(constant).is_none(), "{constant}");
        }
        assert_eq!([n.peek(one), n.peek(also_one), n.peek(zero)], [1.0, 1.0, 0.0]);
    }

    #[test]
    fn comparisons_bind_the_program() {
        let mut n = Numbers::default();
        let x = n.input(0.1);
        assert!(!n.compare(Relation::Eq, x, 0.0).unwrap());
        assert!(n.conditions[0].met(&[0.2]));
        assert!(!n.conditions[0].met(&[0.0]));
        let derived = n.arithmetic(NumberOp::Mul, x, 2.0);
        assert!(n.compare(Relation::Lt, derived, 1.0).unwrap());
        assert!(n.conditions[1].met(&[0.2]));
        assert!(!n.conditions[1].met(&[0.6]));
    }

    #[test]
    fn the_value_of_a_device_number_is_an_error() {
        let mut g = Graph::new("t");
        let v = g.parameter(TensorType::new(NUMBER, &[]));
        let mut n = Numbers::default();
        let x = n.device(v);
        assert!(n.specialize(x).is_err());
    }
}

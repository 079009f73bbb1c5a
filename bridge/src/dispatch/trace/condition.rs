//! What a traced program asks of the numbers of a call.

use super::numbers::Expression;
use std::sync::Arc;

/// How Python compared a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The very same double: NaN is NaN, and 0.0 is not -0.0.
    Is,
    Eq,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Relation {
    /// The relation with its sides exchanged.
    pub(super) fn swapped(self) -> Self {
        match self {
            Relation::Lt => Relation::Gt,
            Relation::Le => Relation::Ge,
            Relation::Gt => Relation::Lt,
            Relation::Ge => Relation::Le,
            same => same,
        }
    }

    /// Whether `a` stands in this relation to `b`, as floats are compared; [`Is`](Self::Is) goes by the bits.
    pub fn holds(self, a: f64, b: f64) -> bool {
        match self {
            Relation::Is => a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()),
            Relation::Eq => a == b,
            Relation::Lt => a < b,
            Relation::Le => a <= b,
            Relation::Gt => a > b,
            Relation::Ge => a >= b,
        }
    }
}

/// A condition that input `number` of a call must meet.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The input, or the last one of those that `formulas` need.
    pub number: u32,
    pub relation: Relation,
    pub bound: f64,
    pub outcome: bool,
    /// What was compared, if not the input with `bound`.
    pub formulas: Option<Arc<(Expression, Expression)>>,
}

impl Condition {
    /// Whether it holds for the numbers of a call.
    pub fn met(&self, numbers: &[f64]) -> bool {
        let (a, b) = match &self.formulas {
            Some(f) => (f.0.at(numbers), f.1.at(numbers)),
            None => (numbers[self.number as usize], self.bound),
        };
        self.relation.holds(a, b) == self.outcome
    }

    /// The condition on a number of this name, as a reader would write it.
    pub fn describe(&self, name: &str) -> String {
        let relation = match self.relation {
            Relation::Is => "is",
            Relation::Eq => "==",
            Relation::Lt => "<",
            Relation::Le => "<=",
            Relation::Gt => ">",
            Relation::Ge => ">=",
        };
        let text = match self.formulas {
            Some(_) => format!("what it computes with {name} {relation} another number"),
            None => format!("{name} {relation} {:?}", self.bound),
        };
        if self.outcome { text } else { format!("not {text}") }
    }
}

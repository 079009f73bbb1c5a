//! What a traced program asks of the numbers of a call.

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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Condition {
    pub number: u32,
    pub relation: Relation,
    pub bound: f64,
    pub outcome: bool,
}

impl Condition {
    /// Whether it holds for the numbers of a call.
    pub fn met(&self, numbers: &[f64]) -> bool {
        self.relation.holds(numbers[self.number as usize], self.bound) == self.outcome
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
        let text = format!("{name} {relation} {:?}", self.bound);
        if self.outcome { text } else { format!("not {text}") }
    }
}

//! Formulas over graph values, written as formulas: `x * x.logistic()`.
//!
//! [`formula`] lends the graph to a closure as [`Ex`]pressions, which have operators and methods. All expressions of a
//! formula have one shape; numbers take the shape and dtype of what they meet. The first type error is kept and
//! returned at the end.

use primitives::{DType, Direction, Error, Graph, Number, Result, Value};
use std::cell::RefCell;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Rem, Sub};

struct State<'g> {
    g: &'g mut Graph,
    error: Option<Error>,
}

/// Appends to the graph behind a shared reference; object-safe, so that `Ex` needs one lifetime only.
trait Scope {
    fn apply(&self, fallback: Value, f: &mut dyn FnMut(&mut Graph) -> Result<Value>) -> Value;
}

impl Scope for RefCell<State<'_>> {
    fn apply(&self, fallback: Value, f: &mut dyn FnMut(&mut Graph) -> Result<Value>) -> Value {
        let state = &mut *self.borrow_mut();
        match f(state.g) {
            Ok(v) => v,
            Err(e) => {
                state.error.get_or_insert(e);
                fallback
            }
        }
    }
}

/// A value in a formula.
#[derive(Clone, Copy)]
pub struct Ex<'s> {
    scope: &'s dyn Scope,
    v: Value,
}

/// The other side of an operator: an expression, or a number in its dtype.
pub trait Term<'s>: Copy {
    fn value(self, like: Ex<'s>) -> Ex<'s>;
    /// The expression, unless it is a number.
    fn ex(self) -> Option<Ex<'s>>;
}

impl<'s> Term<'s> for Ex<'s> {
    fn value(self, _like: Ex<'s>) -> Ex<'s> {
        self
    }
    fn ex(self) -> Option<Ex<'s>> {
        Some(self)
    }
}

impl<'s> Term<'s> for f64 {
    fn value(self, like: Ex<'s>) -> Ex<'s> {
        like.constant(self)
    }
    fn ex(self) -> Option<Ex<'s>> {
        None
    }
}

impl<'s> Term<'s> for i64 {
    fn value(self, like: Ex<'s>) -> Ex<'s> {
        like.constant(self)
    }
    fn ex(self) -> Option<Ex<'s>> {
        None
    }
}

impl<'s> Term<'s> for bool {
    fn value(self, like: Ex<'s>) -> Ex<'s> {
        like.constant(self)
    }
    fn ex(self) -> Option<Ex<'s>> {
        None
    }
}

/// Evaluates a formula of `args` with several results.
pub fn formulas<const N: usize, const M: usize>(
    g: &mut Graph,
    args: [Value; N],
    f: impl for<'s> FnOnce([Ex<'s>; N]) -> [Ex<'s>; M],
) -> Result<[Value; M]> {
    let state = RefCell::new(State { g, error: None });
    let out = {
        let scope: &dyn Scope = &state;
        f(args.map(|v| Ex { scope, v })).map(|e| e.v)
    };
    match state.into_inner().error {
        Some(e) => Err(e),
        None => Ok(out),
    }
}

/// Evaluates a formula of `args`.
pub fn formula<const N: usize>(
    g: &mut Graph,
    args: [Value; N],
    f: impl for<'s> FnOnce([Ex<'s>; N]) -> Ex<'s>,
) -> Result<Value> {
    formulas(g, args, |a| [f(a)]).map(|[v]| v)
}

macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        $($(#[$doc])* pub fn $name(self) -> Ex<'s> { self.map(|g, v| g.$name(v)) })*
    };
}

macro_rules! binary {
    ($($name:ident => $op:ident),* $(,)?) => {
        $(pub fn $name(self, other: impl Term<'s>) -> Ex<'s> { self.zip(other, Graph::$op) })*
    };
}

macro_rules! comparison {
    ($($name:ident => $direction:ident),* $(,)?) => {
        $(pub fn $name(self, other: impl Term<'s>) -> Ex<'s> {
            self.zip(other, |g, a, b| g.compare(a, b, Direction::$direction))
        })*
    };
}

impl<'s> Ex<'s> {
    /// Applies a graph function that [`Ex`] has no method for.
    pub fn map(self, f: impl Fn(&mut Graph, Value) -> Result<Value>) -> Ex<'s> {
        let v = self.v;
        Ex { v: self.scope.apply(v, &mut |g| f(g, v)), ..self }
    }

    /// Applies a graph function of two values.
    pub fn zip(self, other: impl Term<'s>, f: impl Fn(&mut Graph, Value, Value) -> Result<Value>) -> Ex<'s> {
        let (a, b) = (self.v, other.value(self).v);
        Ex { v: self.scope.apply(a, &mut |g| f(g, a, b)), ..self }
    }

    /// A number in the dtype and shape of this expression.
    pub fn constant(self, n: impl Into<Number>) -> Ex<'s> {
        let n = n.into();
        self.map(|g, v| g.full_like(v, n))
    }

    pub fn dtype(self) -> DType {
        let mut dtype = DType::F32;
        self.scope.apply(self.v, &mut |g| {
            dtype = g.dtype(self.v);
            Ok(self.v)
        });
        dtype
    }

    unary! {
        ceil, expm1, floor, log1p, round_nearest_even, rsqrt, sign, erf, erfc, erf_inv, lgamma, digamma, bessel_i1e, real,
        imag, conj, is_finite,
    }

    binary! {
        max => maximum, min => minimum, pow => power, atan2 => atan2, complex => complex, polygamma => polygamma,
        zeta => zeta, next_after => next_after, xor => xor, shift_left => shift_left, shift_right => shift_right_arithmetic,
        shift_right_logical => shift_right_logical,
    }

    comparison! { eq => Eq, ne => Ne, lt => Lt, le => Le, gt => Gt, ge => Ge }

    pub fn to(self, dtype: DType) -> Ex<'s> {
        self.map(|g, v| g.convert(v, dtype))
    }

    /// Rounded to what the narrower float `dtype` has, in the dtype that it is in: two conversions could be undone by
    /// the compiler.
    pub fn rounded_to(self, dtype: DType) -> Ex<'s> {
        match dtype {
            DType::F16 => self.map(|g, v| g.reduce_precision(v, 5, 10)),
            DType::BF16 => self.map(|g, v| g.reduce_precision(v, 8, 7)),
            _ => self,
        }
    }

    /// The same bits as another dtype of the same width.
    pub fn bits_as(self, dtype: DType) -> Ex<'s> {
        self.map(|g, v| g.bitcast_convert(v, dtype))
    }

    pub fn is_nan(self) -> Ex<'s> {
        self.ne(self)
    }

    pub fn square(self) -> Ex<'s> {
        self * self
    }

    pub fn recip(self) -> Ex<'s> {
        self.constant(1.0) / self
    }

    /// Rounds towards zero.
    pub fn trunc(self) -> Ex<'s> {
        self.lt(0.0).pick(self.ceil(), self.floor())
    }

    /// `a` where this is true, else `b`. At least one of them is an expression.
    pub fn pick(self, a: impl Term<'s>, b: impl Term<'s>) -> Ex<'s> {
        let like = a.ex().or(b.ex()).unwrap_or(self);
        let (a, b) = (a.value(like).v, b.value(like).v);
        Ex { v: self.scope.apply(a, &mut |g| g.select(self.v, a, b)), ..self }
    }

    /// Polynomial with coefficients from the highest power down.
    pub fn poly(self, coefficients: &[f64]) -> Ex<'s> {
        let (first, rest) = coefficients.split_first().unwrap_or((&0.0, &[]));
        rest.iter().fold(self.constant(*first), |acc, &c| acc * self + c)
    }

    /// Sum of `coefficients[k] * T_k(self)` (Chebyshev polynomials), by Clenshaw's recurrence.
    pub fn chebyshev(self, coefficients: &[f64]) -> Ex<'s> {
        let (mut b1, mut b2) = (self.constant(0.0), self.constant(0.0));
        let twice = self * 2.0;
        for &c in coefficients.iter().skip(1).rev() {
            (b1, b2) = (twice * b1 - b2 + c, b1);
        }
        self * b1 - b2 + coefficients.first().copied().unwrap_or(0.0)
    }
}

macro_rules! operator {
    ($($trait:ident $method:ident $op:ident),* $(,)?) => {
        $(impl<'s, T: Term<'s>> $trait<T> for Ex<'s> {
            type Output = Ex<'s>;
            fn $method(self, other: T) -> Ex<'s> { self.zip(other, Graph::$op) }
        })*
    };
}

operator! {
    Add add add, Sub sub subtract, Mul mul multiply, Rem rem remainder, BitAnd bitand and, BitOr bitor or,
}

impl<'s, T: Term<'s>> Div<T> for Ex<'s> {
    type Output = Ex<'s>;
    fn div(self, other: T) -> Ex<'s> {
        self.zip(other, super::exact::divide)
    }
}

impl<'s> Neg for Ex<'s> {
    type Output = Ex<'s>;
    fn neg(self) -> Ex<'s> {
        self.map(Graph::neg)
    }
}

impl<'s> Not for Ex<'s> {
    type Output = Ex<'s>;
    fn not(self) -> Ex<'s> {
        self.map(Graph::not)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::TensorType;

    fn graph(dtype: DType) -> (Graph, Value) {
        let mut g = Graph::new("main");
        let x = g.parameter(TensorType::new(dtype, &[3]));
        (g, x)
    }

    #[test]
    fn numbers_take_the_type_of_what_they_meet() {
        let (mut g, x) = graph(DType::BF16);
        let y = formula(&mut g, [x], |[x]| x * 2.0 + 1.0).unwrap();
        assert_eq!(g.dtype(y), DType::BF16);
        assert_eq!(&g.dims(y)[..], &[3]);
    }

    #[test]
    fn a_choice_takes_the_type_of_its_values() {
        let (mut g, x) = graph(DType::F32);
        let y = formula(&mut g, [x], |[x]| x.gt(0.0).pick(x, 0.0)).unwrap();
        assert_eq!(g.dtype(y), DType::F32);
    }

    #[test]
    fn the_first_error_is_returned() {
        let (mut g, x) = graph(DType::I32);
        let error = formula(&mut g, [x], |[x]| (x.tanh() + x).sqrt()).unwrap_err();
        assert!(error.to_string().starts_with("tanh"), "{error}");
    }
}

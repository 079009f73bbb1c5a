//! Functions of complex numbers whose parts are infinite, NaN or zeros with a sign, as C99 (annex G) defines them, which
//! is what torch CPU computes. The compiler's own lose the other part of an infinite number, and the side of a cut that
//! a zero's sign tells. Functions that do so are methods of [`Ex`] here; of reals they are the compiler's.

use super::expr::Ex;
use primitives::{DType, Graph};
use std::f64::consts::{FRAC_PI_2, LN_2};

/// A complex number as its parts.
type Parts<'s> = (Ex<'s>, Ex<'s>);

impl<'s> Ex<'s> {
    fn parts(self) -> Parts<'s> {
        (self.real(), self.imag())
    }

    /// Of reals what the compiler has; of complex numbers that, put right by `f(z, y)`.
    fn by(
        self,
        plain: fn(&mut Graph, primitives::Value) -> primitives::Result<primitives::Value>,
        f: Mended,
    ) -> Ex<'s> {
        let y = self.map(plain);
        if !self.dtype().is_complex() {
            return y;
        }
        let (re, im) = f(self.parts(), y.parts());
        re.complex(im)
    }

    /// The absolute value; infinite if a part is.
    pub fn abs(self) -> Ex<'s> {
        let y = self.map(Graph::abs);
        if !self.dtype().is_complex() {
            return y;
        }
        let (a, b) = self.parts();
        (a.infinite() | b.infinite()).pick(f64::INFINITY, y)
    }

    pub fn exp(self) -> Ex<'s> {
        self.by(Graph::exp, exp)
    }

    pub fn log(self) -> Ex<'s> {
        self.by(Graph::log, |(a, b), (re, im)| ((a.infinite() | b.infinite()).pick(f64::INFINITY, re), im))
    }

    pub fn sqrt(self) -> Ex<'s> {
        self.by(Graph::sqrt, sqrt)
    }

    /// `1 / (1 + exp(-x))`.
    pub fn logistic(self) -> Ex<'s> {
        if self.dtype().is_complex() { ((-self).exp() + 1.0).recip() } else { self.map(Graph::logistic) }
    }

    pub fn sinh(self) -> Ex<'s> {
        self.by(Graph::sinh, sinh)
    }

    pub fn cosh(self) -> Ex<'s> {
        self.by(Graph::cosh, cosh)
    }

    pub fn tanh(self) -> Ex<'s> {
        self.by(Graph::tanh, tanh)
    }

    pub fn asinh(self) -> Ex<'s> {
        self.by(Graph::asinh, asinh)
    }

    pub fn acosh(self) -> Ex<'s> {
        self.by(Graph::acosh, |(a, b), (re, im)| {
            let quarter = a.eq(0.0) & b.is_nan();
            (re, quarter.pick(FRAC_PI_2, im.with_sign_of(b)))
        })
    }

    pub fn atanh(self) -> Ex<'s> {
        self.by(Graph::atanh, atanh)
    }

    pub fn sin(self) -> Ex<'s> {
        self.by(Graph::sin, |(a, b), y| {
            let (re, im) = turned(sinh, (a, b), y);
            // C99 leaves the sign open; torch CPU has this one.
            (re, (!a.is_finite() & b.infinite()).pick(f64::INFINITY, im))
        })
    }

    /// `cosh(i z)`.
    pub fn cos(self) -> Ex<'s> {
        self.by(Graph::cos, |(a, b), y| cosh((-b, a), y))
    }

    pub fn tan(self) -> Ex<'s> {
        self.by(Graph::tan, |z, y| turned(tanh, z, y))
    }

    pub fn asin(self) -> Ex<'s> {
        self.by(Graph::asin, |z, y| turned(asinh, z, y))
    }

    pub fn acos(self) -> Ex<'s> {
        self.by(Graph::acos, |(a, b), (re, im)| {
            let quarter = a.eq(0.0) & b.is_nan();
            (quarter.pick(FRAC_PI_2, re), im.with_sign_of(-b))
        })
    }

    pub fn atan(self) -> Ex<'s> {
        self.by(Graph::atan, |z, y| turned(atanh, z, y))
    }

    /// Whether a real number is infinite.
    fn infinite(self) -> Ex<'s> {
        self.map(Graph::abs).eq(f64::INFINITY)
    }

    /// Whether the sign bit of a real number is set.
    pub fn sign_bit(self) -> Ex<'s> {
        let bits = self.bits_as(if self.dtype() == DType::F64 { DType::I64 } else { DType::I32 });
        bits.lt(0)
    }

    /// The magnitude of this real number with the sign of another.
    fn with_sign_of(self, other: Ex<'s>) -> Ex<'s> {
        let size = self.map(Graph::abs);
        other.sign_bit().pick(-size, size)
    }
}

/// Puts right what the compiler has for a function: `(parts of z, parts of the compiler's f(z))` to parts of `f(z)`.
type Mended = for<'s> fn(Parts<'s>, Parts<'s>) -> Parts<'s>;

/// A function `g` with `g(z) = -i f(i z)`, as the circular ones are to the hyperbolic ones.
fn turned<'s>(f: Mended, (a, b): Parts<'s>, (re, im): Parts<'s>) -> Parts<'s> {
    let (re, im) = f((-b, a), (-im, re));
    (im, -re)
}

fn exp<'s>((a, b): Parts<'s>, (re, im): Parts<'s>) -> Parts<'s> {
    let endless = !b.is_finite();
    let (low, high) = (endless & a.eq(f64::NEG_INFINITY), endless & a.eq(f64::INFINITY));
    let on_axis = b.eq(0.0);
    let zero = b.constant(0.0);
    (high.pick(f64::INFINITY, low.pick(0.0, re)), on_axis.pick(b, low.pick(zero.with_sign_of(b), im)))
}

fn sqrt<'s>((a, b): Parts<'s>, (re, im): Parts<'s>) -> Parts<'s> {
    let (up, right, left) = (b.infinite(), a.eq(f64::INFINITY), a.eq(f64::NEG_INFINITY));
    let (lost, infinity) = (b.is_nan(), b.constant(f64::INFINITY));
    let re = (up | right).pick(f64::INFINITY, (left & !lost).pick(0.0, re));
    let im = (up | left).pick(infinity, (right & !lost).pick(0.0, im));
    (re, im.with_sign_of(b))
}

fn sinh<'s>((a, b): Parts<'s>, (re, im): Parts<'s>) -> Parts<'s> {
    let endless = !b.is_finite();
    let zero = endless.pick(a, a * b.map(Graph::cos));
    let re = a.eq(0.0).pick(zero, (endless & a.infinite()).pick(f64::INFINITY, re));
    (re, b.eq(0.0).pick(b, im))
}

fn cosh<'s>((a, b): Parts<'s>, (re, im): Parts<'s>) -> Parts<'s> {
    let endless = !b.is_finite();
    // A zero, with the sign of the product of the signs.
    let zero = a.sign_bit().pick(-b, b).map(Graph::sign);
    let re = (endless & a.infinite()).pick(f64::INFINITY, re);
    let still = endless.pick(0.0, a * b.map(Graph::sin));
    let im = b.eq(0.0).pick(zero, a.eq(0.0).pick(still, im));
    (re, im)
}

fn tanh<'s>((a, b): Parts<'s>, (re, im): Parts<'s>) -> Parts<'s> {
    let (zero, one) = (b.constant(0.0), a.constant(1.0));
    let far = a.infinite();
    let re = far.pick(one.with_sign_of(a), a.eq(0.0).pick(a, re));
    let im = b.eq(0.0).pick(b, (far & !b.is_finite()).pick(zero.with_sign_of(b), im));
    (re, im)
}

fn asinh<'s>((a, b): Parts<'s>, (re, im): Parts<'s>) -> Parts<'s> {
    (re.with_sign_of(a), b.eq(0.0).pick(b, im.with_sign_of(b)))
}

fn atanh<'s>((a, b): Parts<'s>, (re, im): Parts<'s>) -> Parts<'s> {
    let lost = a.is_nan() | b.is_nan();
    let (no_re, no_im) = (lost & a.ne(0.0) & !a.infinite() & !b.infinite(), lost & !b.infinite());
    let zero = a.constant(0.0);
    let none = lost & (a.eq(0.0) | a.infinite() | b.infinite());
    let re = none.pick(zero, no_re.pick(f64::NAN, re));
    let im = no_im.pick(f64::NAN, (lost & b.infinite()).pick(FRAC_PI_2, im));
    (re.with_sign_of(a), im.with_sign_of(b))
}

/// `log(z) / base`, part by part.
pub fn scaled_log(x: Ex<'_>, base: f64) -> Ex<'_> {
    let y = x.log();
    if !x.dtype().is_complex() {
        return y / base;
    }
    let (re, im) = y.parts();
    (re / base).complex(im / base)
}

/// `2^x`.
pub fn exp2(x: Ex<'_>) -> Ex<'_> {
    if !x.dtype().is_complex() {
        return x.constant(2.0).pow(x);
    }
    let (a, b) = x.parts();
    (a * LN_2).complex(b * LN_2).exp()
}

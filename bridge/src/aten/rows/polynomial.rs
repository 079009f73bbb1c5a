//! Orthogonal polynomials `f(x, n)`, by their recurrences, all elements at once up to the largest degree.

use super::util::{In, Out, Takes, inputs};
use crate::Result;
use crate::aten::expr::{Ex, formula, formulas};
use crate::aten::{Cx, Row};
use primitives::DType;

/// What tells one family from another: its degree 1, and the step from degrees k-1 and k to k+1.
struct Family {
    first: for<'s> fn(Ex<'s>) -> Ex<'s>,
    /// `(x, k, p, q)`, with `p` of degree k - 1 and `q` of degree k.
    step: for<'s> fn(Ex<'s>, Ex<'s>, Ex<'s>, Ex<'s>) -> Ex<'s>,
    shifted: bool,
}

fn twice<'s>(x: Ex<'s>, _k: Ex<'s>, p: Ex<'s>, q: Ex<'s>) -> Ex<'s> {
    x * 2.0 * q - p
}

const T: Family = Family { first: |x| x, step: twice, shifted: false };
const U: Family = Family { first: |x| x * 2.0, step: twice, shifted: false };
const V: Family = Family { first: |x| x * 2.0 - 1.0, step: twice, shifted: false };
const W: Family = Family { first: |x| x * 2.0 + 1.0, step: twice, shifted: false };
const H: Family = Family { first: |x| x * 2.0, step: |x, k, p, q| x * 2.0 * q - k * 2.0 * p, shifted: false };
const HE: Family = Family { first: |x| x, step: |x, k, p, q| x * q - k * p, shifted: false };
const L: Family = Family {
    first: |x| x.constant(1.0) - x,
    step: |x, k, p, q| ((k * 2.0 + 1.0 - x) * q - k * p) / (k + 1.0),
    shifted: false,
};
const P: Family =
    Family { first: |x| x, step: |x, k, p, q| ((k * 2.0 + 1.0) * x * q - k * p) / (k + 1.0), shifted: false };

const fn shifted(f: Family) -> Family {
    Family { shifted: true, ..f }
}

macro_rules! family {
    ($name:literal, $family:expr) => {
        [
            Row::pointwise($name, |cx| polynomial(cx, &$family)),
            Row::pointwise(concat!($name, ".n_scalar"), |cx| polynomial(cx, &$family)).dynamic(&["n"]),
            Row::pointwise(concat!($name, ".x_scalar"), |cx| polynomial(cx, &$family)).dynamic(&["x"]),
        ]
    };
}

const FAMILIES: [[Row; 3]; 12] = [
    family!("special_chebyshev_polynomial_t", T),
    family!("special_chebyshev_polynomial_u", U),
    family!("special_chebyshev_polynomial_v", V),
    family!("special_chebyshev_polynomial_w", W),
    family!("special_shifted_chebyshev_polynomial_t", shifted(T)),
    family!("special_shifted_chebyshev_polynomial_u", shifted(U)),
    family!("special_shifted_chebyshev_polynomial_v", shifted(V)),
    family!("special_shifted_chebyshev_polynomial_w", shifted(W)),
    family!("special_hermite_polynomial_h", H),
    family!("special_hermite_polynomial_he", HE),
    family!("special_laguerre_polynomial_l", L),
    family!("special_legendre_polynomial_p", P),
];

pub const ROWS: &[Row] = FAMILIES.as_flattened();

/// `f(x, n)`; `n` counts truncated to an integer, and is 0 when negative.
fn polynomial(cx: &mut Cx<'_, '_>, family: &Family) -> Result<()> {
    let ([x, n], dtype) = inputs(cx, Takes::NO_COMPLEX, Out::Float, [In::T(0), In::T(1)])?;
    let g = &mut *cx.g;
    // Recurrences lose digits, and torch's trigonometric form does not: a wider type makes up for it.
    let compute = DType::F64;
    let (x, n) = (g.convert(x, compute)?, g.convert(n, compute)?);
    let [x, n] = formulas(g, [x, n], |[x, n]| [if family.shifted { x * 2.0 - 1.0 } else { x }, n.trunc()])?;
    let [one, first] = formulas(g, [x], |[x]: [Ex<'_>; 1]| [x.constant(1.0), (family.first)(x)])?;
    let zero_state = formula(g, [n, one, first], |[n, one, first]| n.eq(0.0).pick(one, first))?;
    // State: degree k, polynomials of degrees k-1 and k, the result so far.
    let out = super::gamma::iterate(
        g,
        &[one, one, first, zero_state],
        1 << 16,
        |g, v| formula(g, [v[0], n], |[k, n]| k.lt(n)),
        |g, v| {
            formulas(g, [v[0], v[1], v[2], v[3], x, n], |[k, p, q, out, x, n]| {
                let next = (family.step)(x, k, p, q);
                let k = k + 1.0;
                [k, q, next, k.le(n).pick(next, out)]
            })
            .map(Vec::from)
        },
    )?;
    let y = formula(g, [n, out[3]], |[n, y]| n.lt(0.0).pick(0.0, y))?;
    let y = g.convert(y, dtype)?;
    cx.out(y);
    Ok(())
}

//! Division that stays a division.
//!
//! XLA's compilers turn `x / broadcast(b)` and `x / constant` into `x * (1 / b)`, `(x / b) / c` into `x / (b * c)`,
//! `x / (b / c)` into `x * c / b` and `x / sqrt(b)` into `x * rsqrt(b)`. Each of these rounds twice, so that 49 / 49 is
//! not 1, and torch divides. The rewrites match the op that an operand comes from: an operand in danger goes through a
//! selection that changes nothing, which fuses into the division and costs a comparison an element.

use primitives::{Direction, Graph, Result, Value};

/// `a / b`, rounded once. Integers are divided as [`Graph::divide`] does.
pub fn divide(g: &mut Graph, a: Value, b: Value) -> Result<Value> {
    let dtype = g.dtype(a);
    if !dtype.is_float() && !dtype.is_complex() {
        return g.divide(a, b);
    }
    let (from_a, from_b) = (g.source(a).map(|s| s.0), g.source(b).map(|s| s.0));
    let b = if g.const_value(a).is_some() {
        // Of the rewrites, 1 / broadcast(b) is exact.
        if matches!(from_b, Some("stablehlo.sqrt" | "stablehlo.rsqrt")) { nan_kept(g, b)? } else { b }
    } else if from_b.is_none() || is_power_of_two(g, b) {
        b
    } else {
        // Where `a` is NaN, so is `a / a`.
        let nan = g.compare(a, a, Direction::Ne)?;
        g.select(nan, a, b)?
    };
    let a = if from_a == Some("stablehlo.divide") { nan_kept(g, a)? } else { a };
    g.divide(a, b)
}

/// `v`, through a selection of NaN where it is NaN.
fn nan_kept(g: &mut Graph, v: Value) -> Result<Value> {
    let is_nan = g.compare(v, v, Direction::Ne)?;
    let nan = g.full_like(v, f64::NAN)?;
    g.select(is_nan, nan, v)
}

/// Whether `b` is a constant whose reciprocal is exact.
fn is_power_of_two(g: &Graph, b: Value) -> bool {
    let n = g.const_value(b).map(|n| n.as_f64());
    n.is_some_and(|n| n.is_normal() && n.abs() <= 32768.0 && n.abs() >= 1.0 / 16384.0 && n.to_bits() << 12 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::{DType, TensorType};

    fn selections(f: impl FnOnce(&mut Graph, Value) -> Result<Value>) -> usize {
        let mut g = Graph::new("main");
        let x = g.parameter(TensorType::new(DType::F32, &[3]));
        let y = f(&mut g, x).unwrap();
        g.set_outputs(&[y]).unwrap();
        g.to_text().matches("stablehlo.select").count()
    }

    #[test]
    fn only_divisions_in_danger_are_guarded() {
        let by = |n: f64| {
            selections(|g, x| {
                let n = g.full_like(x, n)?;
                divide(g, x, n)
            })
        };
        assert_eq!((by(49.0), by(0.25), by(3.0)), (1, 0, 1));
        let by_parameter = selections(|g, x| {
            let y = g.parameter(TensorType::new(DType::F32, &[3]));
            divide(g, x, y)
        });
        assert_eq!(by_parameter, 0);
        let by_scalar = selections(|g, x| {
            let s = g.parameter(TensorType::new(DType::F32, &[]));
            let s = g.broadcast_to(s, &[3])?;
            divide(g, x, s)
        });
        assert_eq!(by_scalar, 1);
        let twice = selections(|g, x| {
            let y = divide(g, x, x)?;
            divide(g, y, x)
        });
        assert_eq!(twice, 1);
        let inverse_root = selections(|g, x| {
            let (root, one) = (g.sqrt(x)?, g.full_like(x, 1)?);
            divide(g, one, root)
        });
        assert_eq!(inverse_root, 1);
    }
}

//! NumPy-style broadcasting, made explicit.

use super::cx::Cx;
use crate::{Error, Result};
use primitives::{Dims, Value};

/// Broadcast shape of `a` and `b`; the error is torch's.
pub fn shape(op: &str, a: &[i64], b: &[i64]) -> Result<Dims> {
    let rank = a.len().max(b.len());
    let mut out = Dims::from_elem(1, rank);
    for i in 0..rank {
        let x = if i + a.len() >= rank { a[i + a.len() - rank] } else { 1 };
        let y = if i + b.len() >= rank { b[i + b.len() - rank] } else { 1 };
        out[i] = match (x, y) {
            (x, y) if x == y => x,
            (1, y) => y,
            (x, 1) => x,
            _ => {
                return Err(Error::runtime(
                    op,
                    format!(
                        "The size of tensor a ({x}) must match the size of tensor b ({y}) at non-singleton dimension {i}"
                    ),
                ));
            }
        };
    }
    Ok(out)
}

/// Both values in their common shape.
pub fn pair(cx: &mut Cx<'_, '_>, a: Value, b: Value) -> Result<(Value, Value)> {
    let v = all(cx, &[a, b])?;
    Ok((v[0], v[1]))
}

/// All values in their common shape.
pub fn all(cx: &mut Cx<'_, '_>, values: &[Value]) -> Result<Vec<Value>> {
    let mut dims = Dims::new();
    for &v in values {
        let op = cx.op().to_owned();
        dims = shape(&op, &dims, &cx.g.dims(v))?;
    }
    values.iter().map(|&v| Ok(cx.g.broadcast_to(v, &dims)?)).collect()
}

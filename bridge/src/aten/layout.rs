//! How results lie in memory.

use super::args::{Arg, ArgPos, contiguous_strides};
use crate::Result;
use primitives::{DType, Dims, Graph, Value};

/// A new tensor: its value is laid out as `natural`, its torch sizes and strides view all of it.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTensor {
    pub dtype: DType,
    pub sizes: Dims,
    pub strides: Dims,
    pub natural: Dims,
}

/// Dims from the largest stride to the smallest, size-1 dims last in place; `None` when a broadcast dim makes it moot.
pub fn order_of(sizes: &[i64], strides: &[i64]) -> Option<Vec<usize>> {
    if sizes.iter().zip(strides).any(|(&n, &s)| n > 1 && s == 0) {
        return None;
    }
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    // Only dims longer than 1 have a say; the others keep their place relative to their right neighbour.
    let mut key = vec![0i64; sizes.len()];
    let mut right = 0;
    for d in (0..sizes.len()).rev() {
        if sizes[d] > 1 {
            right = strides[d];
        }
        key[d] = right;
    }
    order.sort_by_key(|&d| std::cmp::Reverse(key[d]));
    Some(order)
}

/// Sizes and strides of the tensors that a pointwise op reads, in the order of its arguments.
pub type Operands = Vec<(Dims, Dims)>;

pub fn operands(map: &[ArgPos], args: &[Arg<'_>]) -> Operands {
    let tensors = map.iter().filter_map(|p| match p.get(args) {
        Arg::Tensor(t) => Some((Dims::from_slice(t.sizes), Dims::from_slice(t.strides))),
        _ => None,
    });
    tensors.collect()
}

/// The dim order, outermost first, that torch gives the result of a pointwise op with `sizes`; `None` for row-major.
///
/// Two dims are ordered by the first operand that tells them apart: by its strides, unless one is broadcast, then by the
/// sizes.
fn pointwise_order(operands: &Operands, sizes: &[i64]) -> Option<Vec<usize>> {
    let rank = sizes.len();
    let mut spread: Vec<Vec<i64>> = Vec::new();
    for (own, strides) in operands.iter().filter(|(own, _)| own.len() <= rank) {
        let lead = rank - own.len();
        if own.iter().zip(&sizes[lead..]).any(|(&n, &m)| n != m && n != 1) {
            continue;
        }
        let stride = |d: usize| match d.checked_sub(lead) {
            Some(k) if own[k] == sizes[d] => strides[k],
            _ => 0,
        };
        spread.push((0..rank).map(stride).collect());
    }
    // Whether dim `a`, taken to lie further in than `b`, lies further out.
    let outer = |a: usize, b: usize| {
        for s in &spread {
            match (s[a], s[b]) {
                (0, _) | (_, 0) => {}
                (x, y) if x != y => return Some(x > y),
                _ if sizes[a] > sizes[b] => return Some(true),
                _ => {}
            }
        }
        None
    };
    // Innermost first; not an order that a sort could use, so the steps are torch's.
    let mut order: Vec<usize> = (0..rank).rev().collect();
    for i in 1..rank {
        let mut at = i;
        for k in (0..i).rev() {
            match outer(order[k], order[at]) {
                Some(true) => {
                    order.swap(k, at);
                    at = k;
                }
                Some(false) => break,
                None => {}
            }
        }
    }
    order.reverse();
    order.windows(2).any(|w| w[0] > w[1]).then_some(order)
}

/// A result of a pointwise op on `like`, of another op without.
pub fn laid_out(g: &mut Graph, v: Value, like: Option<&Operands>) -> Result<(Value, NewTensor)> {
    let ty = g.ty(v).clone();
    match like.and_then(|operands| pointwise_order(operands, &ty.dims)) {
        Some(order) => in_order(g, v, &order),
        None => {
            let strides = contiguous_strides(&ty.dims);
            Ok((v, NewTensor { dtype: ty.dtype, sizes: ty.dims.clone(), strides, natural: ty.dims }))
        }
    }
}

/// A result whose dims lie in memory in `order`, outermost first.
pub fn in_order(g: &mut Graph, v: Value, order: &[usize]) -> Result<(Value, NewTensor)> {
    let ty = g.ty(v).clone();
    let physical = g.transpose(v, order)?;
    let natural = g.dims(physical);
    let inner = contiguous_strides(&natural);
    let mut strides = Dims::from_elem(0, order.len());
    for (k, &d) in order.iter().enumerate() {
        strides[d] = inner[k];
    }
    Ok((physical, NewTensor { dtype: ty.dtype, sizes: ty.dims, strides, natural }))
}

//! Whether a tensor lies in memory with its channels last, which convolutions and pools hand on to their results.

use crate::aten::{Arg, Cx};

/// torch's test for `channels_last` strides (`channels_last_3d` for rank 5); false where both formats fit.
pub fn is_channels_last(arg: &Arg<'_>) -> bool {
    let Arg::Tensor(t) = arg else { return false };
    let order: &[usize] = match t.sizes.len() {
        4 => &[1, 3, 2, 0],
        5 => &[1, 4, 3, 2, 0],
        _ => return false,
    };
    if t.strides[1] == 0 {
        return false;
    }
    let mut least = 0;
    for &d in order {
        if t.sizes[d] == 0 || t.strides[d] < least || (d == 0 && least == t.strides[1]) {
            return false;
        }
        least = t.strides[d] * t.sizes[d].max(1);
    }
    true
}

/// Lays the results out with channels last when one of these arguments is.
pub fn like(cx: &mut Cx<'_, '_>, args: &[usize]) {
    let Some(&i) = args.iter().find(|&&i| is_channels_last(cx.arg(i))) else { return };
    let Arg::Tensor(t) = cx.arg(i) else { return };
    let rank = t.sizes.len();
    let order = std::iter::once(0).chain(2..rank).chain(std::iter::once(1)).collect();
    cx.order = Some(order);
}

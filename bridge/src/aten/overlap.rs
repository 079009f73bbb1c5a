//! What arguments share: a tensor that is written and one that is read at other places of the same memory.

use super::args::{Arg, TensorArg};
use super::kernel::{Form, Kernel};
use super::row::Layout;
use crate::{Error, Result};

/// Fails when a pointwise op would write to memory that it reads at other places, as torch does.
pub fn check(kernel: &Kernel, args: &[Arg<'_>]) -> Result<()> {
    let written = match kernel.form {
        Form::InPlace => 0,
        Form::Out { first } => first,
        _ => return Ok(()),
    };
    let Some(Arg::Tensor(w)) = args.get(written).filter(|_| kernel.row.layout == Layout::Pointwise) else {
        return Ok(());
    };
    let clash = |a: &Arg<'_>| matches!(a, Arg::Tensor(t) if t.slot == w.slot && w.slot != 0 && partly(w, t));
    if args.iter().any(clash) {
        return Err(Error::runtime(
            &kernel.schema.name,
            "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory \
             location. Please clone() the tensor before performing the operation."
                .into(),
        ));
    }
    Ok(())
}

/// Whether two tensors of one storage, each of them dense, share some memory but are not the same view.
fn partly(a: &TensorArg<'_>, b: &TensorArg<'_>) -> bool {
    let span = |t: &TensorArg<'_>| (t.offset, t.offset + t.numel() as u64 * t.dtype.size_of() as u64);
    let same = a.sizes == b.sizes && a.strides == b.strides && a.offset == b.offset;
    if same || a.numel() == 0 || b.numel() == 0 || !dense(a) || !dense(b) {
        return false;
    }
    let ((a0, a1), (b0, b1)) = (span(a), span(b));
    if (a0, a1) == (b0, b1) { a.strides != b.strides } else { a0 < b1 && b0 < a1 }
}

/// Whether the elements lie side by side in memory, in whatever order, without one standing for several.
fn dense(t: &TensorArg<'_>) -> bool {
    let mut dims: Vec<(i64, i64)> =
        t.strides.iter().copied().zip(t.sizes.iter().copied()).filter(|d| d.1 > 1).collect();
    dims.sort_unstable();
    let mut expected = 1;
    dims.into_iter().all(|(stride, size)| {
        let fits = stride == expected;
        expected *= size;
        fits
    })
}

//! What windows meet as they go over a value.

use super::shape::Size;
use super::wire::{Message, Read};

/// Elements of one window.
pub(super) fn elements(instruction: &Message) -> Read<f64> {
    let dims = instruction.message(15)?.unwrap_or_default().messages(1)?;
    dims.iter().map(|dim| Ok(dim.int(1)? as f64)).product()
}

/// Multiplications of a convolution; where its window meets padding or a hole of a dilation there is none.
pub(super) fn convolution(instruction: &Message, [input, kernel, output]: [&Size; 3]) -> Read<f64> {
    let numbers = instruction.message(16)?.unwrap_or_default();
    let window = instruction.message(15)?.unwrap_or_default().messages(1)?;
    let spatial = [numbers.ints(11)?, numbers.ints(6)?, numbers.ints(12)?];
    if spatial.iter().any(|dims| dims.len() != window.len()) {
        return Err(format!("its window has {} dims, its numbers {:?}", window.len(), spatial.map(|dims| dims.len())));
    }
    let groups = |field| Ok::<_, String>(instruction.int(field)?.max(1) as f64);
    let features = (input.dim(numbers.int(8)?)? / groups(50)?) * output.dim(numbers.int(10)?)?;
    let batch = input.dim(numbers.int(7)?)? / groups(58)?;
    let mut meetings = 1.;
    for (i, dim) in window.iter().enumerate() {
        let sizes = [input.dim(spatial[0][i])?, kernel.dim(spatial[1][i])?, output.dim(spatial[2][i])?];
        meetings *= meetings_of(dim, sizes)?;
    }
    Ok(features * batch * meetings)
}

/// In how many pairs of a place in the kernel and one in the result the kernel meets an element of the input.
fn meetings_of(window: &Message, [input, kernel, output]: [f64; 3]) -> Read<f64> {
    let (stride, low) = (window.int(2)?.max(1), window.int(3)?);
    let (dilation, holes) = (window.int(5)?.max(1), window.int(6)?.max(1));
    let (kernel, end, output) = (kernel as i64, input as i64 * holes - (holes - 1), output as i64);
    let mut found = 0;
    for k in 0..kernel {
        let first = k * dilation - low;
        found += if stride == 1 && holes == 1 {
            (end.min(first + output) - first.max(0)).max(0)
        } else {
            (0..output).map(|o| first + o * stride).filter(|at| (0..end).contains(at) && at % holes == 0).count() as i64
        };
    }
    Ok(found as f64)
}

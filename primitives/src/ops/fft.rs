//! Fourier transforms.

use std::borrow::Cow;

use smallvec::smallvec;

use crate::error::{Result, error, list};
use crate::node::{Attr, Value};
use crate::{DType, Dims, Graph};

/// Direction and kind of a Fourier transform.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FftKind {
    /// Complex to complex.
    Fft,
    /// Inverse of `Fft`, divided by the number of elements.
    Ifft,
    /// Real to the non-redundant half of the complex result.
    Rfft,
    /// Inverse of `Rfft`.
    Irfft,
}

impl Graph {
    /// Discrete Fourier transform over the last `lengths.len()` dimensions.
    ///
    /// Shapes: 1 to 3 lengths, equal to the sizes transformed; `Rfft` turns a last size `n` into `n / 2 + 1`, `Irfft`
    /// turns `n / 2 + 1` into `n`. Dtypes: complex; `Rfft` takes f32 or f64. Errors: anything outside that.
    /// Emits `stablehlo.fft`.
    pub fn fft(&mut self, x: Value, kind: FftKind, lengths: &[i64]) -> Result<Value> {
        const OP: &str = "fft";
        let ty = self.ty(x);
        let real_input = kind == FftKind::Rfft;
        if real_input && !matches!(ty.dtype, DType::F32 | DType::F64) {
            return Err(error(OP, "x", ty.dtype, "f32 or f64 for Rfft", "use Fft for complex numbers"));
        }
        if !real_input && !ty.dtype.is_complex() {
            return Err(error(OP, "x", ty.dtype, "a complex type", "use Rfft for real numbers"));
        }
        let n = lengths.len();
        if n == 0 || n > 3 || n > ty.rank() {
            return Err(error(
                OP,
                "lengths",
                list(lengths),
                format_args!("1 to {} lengths", ty.rank().min(3)),
                "transform more dimensions in several steps",
            ));
        }
        let tail = ty.rank() - n;
        let fits = (0..n).all(|i| {
            let length = if i == n - 1 && kind == FftKind::Irfft { lengths[i] / 2 + 1 } else { lengths[i] };
            // A real inverse of length 0 has no elements, nor has its input.
            ty.dims[tail + i] == length || (lengths[i] == 0 && ty.dims[tail + i] == 0)
        });
        if !fits {
            return Err(error(
                OP,
                "lengths",
                list(lengths),
                format_args!(
                    "the last sizes of {ty}{}",
                    if kind == FftKind::Irfft { ", n / 2 + 1 for the last" } else { "" }
                ),
                "slice or pad first",
            ));
        }
        let mut new = ty.with_dtype(if kind == FftKind::Irfft { ty.dtype.real_of() } else { ty.dtype.complex_of() });
        let last = new.rank() - 1;
        match kind {
            FftKind::Rfft => new.dims[last] = if lengths[n - 1] == 0 { 0 } else { lengths[n - 1] / 2 + 1 },
            FftKind::Irfft => new.dims[last] = lengths[n - 1],
            FftKind::Fft | FftKind::Ifft => {}
        }
        let kind = match kind {
            FftKind::Fft => "#stablehlo<fft_type FFT>",
            FftKind::Ifft => "#stablehlo<fft_type IFFT>",
            FftKind::Rfft => "#stablehlo<fft_type RFFT>",
            FftKind::Irfft => "#stablehlo<fft_type IRFFT>",
        };
        let attrs = smallvec![
            ("fft_type", Attr::Raw(Cow::Borrowed(kind))),
            ("fft_length", Attr::I64s(Dims::from_slice(lengths))),
        ];
        self.push1("stablehlo.fft", &[x], attrs, new)
    }
}

//! Which input elements an interpolated element is made of, along one dim: computed on the host, as torch computes it.

use primitives::DType;

/// For each result element, input elements and their weights.
pub type Taps = Vec<Vec<(i64, f64)>>;

/// How elements between two positions are made up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Nearest,
    NearestExact,
    Linear,
    Cubic,
    LinearSmooth,
    CubicSmooth,
    LanczosSmooth,
}

/// Sizes along one dim.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub size: i64,
    pub out: i64,
    pub align_corners: bool,
    /// The scale factor that the user gave.
    pub scale: Option<f64>,
}

/// Arithmetic in the dtype torch uses: f32 unless the data is f64.
#[derive(Clone, Copy)]
struct Arith(bool);

impl Arith {
    fn r(self, x: f64) -> f64 {
        if self.0 { x } else { x as f32 as f64 }
    }
}

impl Span {
    /// Input elements for each result element.
    fn step(&self, a: Arith) -> f64 {
        if self.align_corners {
            return if self.out > 1 { a.r((self.size - 1) as f64 / (self.out - 1) as f64) } else { 0.0 };
        }
        match self.scale {
            Some(s) if s > 0.0 => a.r(1.0 / s),
            _ => a.r(a.r(self.size as f64) / a.r(self.out as f64)),
        }
    }

    /// Position in the input of result element `o`; `cubic` ones may lie before the first element.
    fn source(&self, a: Arith, step: f64, o: i64, cubic: bool) -> f64 {
        if self.align_corners {
            return a.r(step * o as f64);
        }
        let x = a.r(a.r(step * a.r(o as f64 + 0.5)) - 0.5);
        if x < 0.0 && !cubic { 0.0 } else { x }
    }
}

/// Taps of every result element.
pub fn taps(kind: Kind, span: &Span, dtype: DType) -> Taps {
    let a = Arith(dtype == DType::F64);
    match kind {
        Kind::Nearest | Kind::NearestExact => (0..span.out).map(|o| vec![(nearest(kind, span, o), 1.0)]).collect(),
        Kind::Linear => linear(span, a),
        Kind::Cubic => cubic(span, a),
        Kind::LinearSmooth => smooth(span, a, 2.0, |x| (1.0 - x.abs()).max(0.0)),
        Kind::CubicSmooth => smooth(span, a, 4.0, |x| convolution_cubic(x.abs(), -0.5)),
        Kind::LanczosSmooth => smooth(span, a, 6.0, |x| if x.abs() < 3.0 { sinc(x) * sinc(x / 3.0) } else { 0.0 }),
    }
}

fn sinc(x: f64) -> f64 {
    let x = x * std::f64::consts::PI;
    if x == 0.0 { 1.0 } else { x.sin() / x }
}

/// Index of the nearest element, in torch's single precision.
fn nearest(kind: Kind, span: &Span, o: i64) -> i64 {
    let step = match span.scale {
        Some(s) if s > 0.0 => (1.0 / s) as f32,
        _ => span.size as f32 / span.out as f32,
    };
    let at = match kind {
        Kind::NearestExact => ((o as f64 + 0.5) * step as f64) as f32,
        _ => o as f32 * step,
    };
    (at.floor() as i64).min(span.size - 1)
}

fn linear(span: &Span, a: Arith) -> Taps {
    if span.size == span.out {
        return (0..span.out).map(|o| vec![(o, 1.0)]).collect();
    }
    let step = span.step(a);
    (0..span.out)
        .map(|o| {
            let x = span.source(a, step, o, false);
            let i = (x.floor() as i64).min(span.size - 1);
            let next = if i < span.size - 1 { i + 1 } else { i };
            let t = a.r(x - i as f64).clamp(0.0, 1.0);
            vec![(i, a.r(1.0 - t)), (next, t)]
        })
        .collect()
}

/// Keys' cubic kernel with free parameter `a`, at distance `x`.
fn convolution_cubic(x: f64, a: f64) -> f64 {
    if x <= 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    } else {
        0.0
    }
}

fn cubic(span: &Span, a: Arith) -> Taps {
    let step = span.step(a);
    (0..span.out)
        .map(|o| {
            let x = span.source(a, step, o, true);
            let i = x.floor();
            let t = a.r(x - i);
            (-1..3)
                .map(|k| {
                    let at = (i as i64 + k).clamp(0, span.size - 1);
                    (at, a.r(convolution_cubic((t - k as f64).abs(), -0.75)))
                })
                .collect()
        })
        .collect()
}

/// Antialiasing: the filter is as wide as a result element, and its weights add up to one.
fn smooth(span: &Span, a: Arith, width: f64, filter: impl Fn(f64) -> f64) -> Taps {
    let step = span.step(a);
    let reach = if step >= 1.0 { a.r(width * 0.5 * step) } else { width * 0.5 };
    let inverse = if step >= 1.0 { a.r(1.0 / step) } else { 1.0 };
    (0..span.out)
        .map(|o| {
            let center = a.r(step * (o as f64 + 0.5));
            let from = ((center - reach + 0.5) as i64).max(0);
            let to = ((center + reach + 0.5) as i64).min(span.size);
            let weights: Vec<f64> = (from..to).map(|i| a.r(filter((i as f64 - center + 0.5) * inverse))).collect();
            let total: f64 = weights.iter().sum();
            let scale = if total != 0.0 { total } else { 1.0 };
            (from..to).zip(&weights).map(|(i, w)| (i, a.r(w / scale))).collect()
        })
        .collect()
}

/// The taps of the gradient: for each input element, the result elements that it is part of.
pub fn transposed(taps: &Taps, size: i64) -> Taps {
    let mut out = vec![Vec::new(); size as usize];
    for (o, list) in taps.iter().enumerate() {
        for &(i, w) in list {
            out[i as usize].push((o as i64, w));
        }
    }
    out
}

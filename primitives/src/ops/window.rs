//! Reductions over sliding windows.

use smallvec::smallvec;

use super::check::{check_len, first_of};
use crate::error::{Result, error, list};
use crate::node::{Attr, Attrs, Parts, Value};
use crate::{DType, Dims, Graph, TensorType};

/// A sliding window, one entry per dimension of the operand. An empty list other than `dims` means the default:
/// strides and dilations of 1, no padding.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Window {
    /// Sizes of the window.
    pub dims: Vec<i64>,
    pub strides: Vec<i64>,
    /// Spacing of the operand's elements (1 is none).
    pub base_dilations: Vec<i64>,
    /// Spacing of the window's elements (1 is none).
    pub window_dilations: Vec<i64>,
    /// Elements of the initial value added before and after; negative removes.
    pub padding: Vec<(i64, i64)>,
}

/// Size of a dimension with `gap - 1` holes between elements.
pub(crate) fn dilated(size: i64, gap: i64) -> i64 {
    if size == 0 { 0 } else { (size - 1) * gap + 1 }
}

/// Number of places a window takes; 0 when it does not fit once.
pub(crate) fn places(size: i64, window: i64, stride: i64) -> i64 {
    if size < window { 0 } else { (size - window) / stride + 1 }
}

pub(crate) fn padding_attr(padding: &[(i64, i64)]) -> Attr {
    Attr::Table { cols: 2, data: padding.iter().flat_map(|(l, h)| [*l, *h]).collect() }
}

impl Window {
    /// A window of these sizes with stride 1 and no padding.
    pub fn new(dims: &[i64]) -> Window {
        Window { dims: dims.to_vec(), ..Window::default() }
    }

    /// Fills in defaults and checks lengths and signs.
    fn complete(&self, op: &'static str, rank: usize) -> Result<Window> {
        let or_ones = |xs: &Vec<i64>| if xs.is_empty() { vec![1; rank] } else { xs.clone() };
        let w = Window {
            dims: self.dims.clone(),
            strides: or_ones(&self.strides),
            base_dilations: or_ones(&self.base_dilations),
            window_dilations: or_ones(&self.window_dilations),
            padding: if self.padding.is_empty() { vec![(0, 0); rank] } else { self.padding.clone() },
        };
        for (arg, xs) in [
            ("window.dims", &w.dims),
            ("window.strides", &w.strides),
            ("window.base_dilations", &w.base_dilations),
            ("window.window_dilations", &w.window_dilations),
        ] {
            check_len(op, arg, xs.len(), rank)?;
            if xs.iter().any(|x| *x < 1) {
                return Err(error(
                    op,
                    arg,
                    list(xs),
                    "at least 1 each",
                    "1 means dense; leave the list empty for all ones",
                ));
            }
        }
        check_len(op, "window.padding", w.padding.len(), rank)?;
        Ok(w)
    }

    fn result_dims(&self, dims: &[i64]) -> Dims {
        (0..dims.len())
            .map(|i| {
                let (low, high) = self.padding[i];
                let size = low + dilated(dims[i], self.base_dilations[i]) + high;
                places(size, dilated(self.dims[i], self.window_dilations[i]), self.strides[i])
            })
            .collect()
    }
}

impl Graph {
    /// Combines the elements under each place of a window with a region, starting from `init`.
    ///
    /// The region is that of [`reduce`](Self::reduce). Shapes: operands the same; result size is the number of places of
    /// the window. Dtypes: all; each init has its operand's. Errors: none or unequal operands; window lists of another
    /// length or with entries below 1; region results of another type. Emits `stablehlo.reduce_window`.
    pub fn reduce_window(
        &mut self,
        operands: &[Value],
        inits: &[Value],
        window: &Window,
        region: impl FnOnce(&mut Graph, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Vec<Value>> {
        const OP: &str = "reduce_window";
        let first = *first_of(OP, "operands", operands, "at least one operand", "pass the arrays to combine")?;
        check_len(OP, "inits", inits.len(), operands.len())?;
        let shape = self.dims(first);
        let w = window.complete(OP, shape.len())?;
        let out = w.result_dims(&shape);
        let mut results = Vec::with_capacity(operands.len());
        for (v, init) in operands.iter().zip(inits) {
            let want = TensorType::new(self.dtype(*v), &shape);
            self.check_same_type(OP, "operands", *v, &want)?;
            self.check_scalar(OP, "inits", *init, want.dtype)?;
            results.push(want.with_dims(out.clone()));
        }
        let scalars: Vec<TensorType> = results.iter().map(|t| TensorType::scalar(t.dtype)).collect();
        let region = self.region(true, &[&scalars[..], &scalars[..]].concat(), region)?;
        self.check_returns(OP, "region", &region, &scalars)?;
        let attrs: Attrs = smallvec![
            ("window_dimensions", Attr::I64s(Dims::from_slice(&w.dims))),
            ("window_strides", Attr::I64s(Dims::from_slice(&w.strides))),
            ("base_dilations", Attr::I64s(Dims::from_slice(&w.base_dilations))),
            ("window_dilations", Attr::I64s(Dims::from_slice(&w.window_dilations))),
            ("padding", padding_attr(&w.padding)),
        ];
        let all = [operands, inits].concat();
        self.push("stablehlo.reduce_window", &all, &results, Parts { attrs, regions: vec![region], ..Parts::default() })
    }

    /// Sends each element of `source` to the element of `operand` that its window selects, combining what meets.
    ///
    /// `select` takes two elements and returns whether the first stays selected (bool); `scatter` combines two elements.
    /// Regions may not use outer values. Shapes: `source` has the window's places over `operand`; `init` 0-d; result has
    /// the shape of `operand`. Dtypes: all, the same for the three. Errors: other types; dilations; region results of
    /// another type. TPU compilers want two dimensions with window size 1: add them when there are none.
    /// Emits `stablehlo.select_and_scatter`.
    pub fn select_and_scatter(
        &mut self,
        operand: Value,
        source: Value,
        init: Value,
        window: &Window,
        select: impl FnOnce(&mut Graph, &[Value]) -> Result<Vec<Value>>,
        scatter: impl FnOnce(&mut Graph, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Value> {
        const OP: &str = "select_and_scatter";
        let ty = self.ty(operand).with_dtype(self.dtype(operand));
        let w = window.complete(OP, ty.rank())?;
        if w.base_dilations.iter().chain(&w.window_dilations).any(|d| *d != 1) {
            return Err(error(OP, "window", "dilated", "dilations of 1", "dilate with pad first"));
        }
        self.check_same_type(OP, "source", source, &ty.with_dims(w.result_dims(&ty.dims)))?;
        self.check_scalar(OP, "init", init, ty.dtype)?;
        let scalar = TensorType::scalar(ty.dtype);
        let select = self.region(true, &[scalar.clone(), scalar.clone()], select)?;
        self.check_returns(OP, "select", &select, &[TensorType::scalar(DType::Bool)])?;
        let scatter = self.region(true, &[scalar.clone(), scalar.clone()], scatter)?;
        self.check_returns(OP, "scatter", &scatter, &[scalar])?;
        let attrs: Attrs = smallvec![
            ("window_dimensions", Attr::I64s(Dims::from_slice(&w.dims))),
            ("window_strides", Attr::I64s(Dims::from_slice(&w.strides))),
            ("padding", padding_attr(&w.padding)),
        ];
        let parts = Parts { attrs, regions: vec![select, scatter], ..Parts::default() };
        Ok(self.push("stablehlo.select_and_scatter", &[operand, source, init], &[ty], parts)?[0])
    }
}

//! Numbers that a trace follows, for `_numbers.Followed`.

use crate::torch::errors::to_py;
use bridge::dispatch::trace::{self, NumberOp, Relation};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Registers an input; returns the value that it goes by in this trace.
#[pyfunction]
pub fn number_input(real: f64) -> PyResult<f64> {
    trace::with(|t| Ok(t.inputs.numbers.input(real))).map_err(to_py)
}

/// Arithmetic on numbers of which at least one is followed.
#[pyfunction]
pub fn number_arithmetic(op: &str, a: f64, b: f64) -> PyResult<f64> {
    let op = match op {
        "add" => NumberOp::Add,
        "sub" => NumberOp::Sub,
        "mul" => NumberOp::Mul,
        "div" => NumberOp::Div,
        "pow" => NumberOp::Pow,
        "min" => NumberOp::Min,
        "max" => NumberOp::Max,
        other => return Err(PyValueError::new_err(format!("no arithmetic is called {other}"))),
    };
    trace::with(|t| Ok(t.inputs.numbers.arithmetic(op, a, b))).map_err(to_py)
}

/// Compares real values; the program then serves only numbers that compare so.
#[pyfunction]
pub fn number_compare(relation: &str, a: f64, b: f64) -> PyResult<bool> {
    let relation = match relation {
        "eq" => Relation::Eq,
        "lt" => Relation::Lt,
        "le" => Relation::Le,
        other => return Err(PyValueError::new_err(format!("no relation is called {other}"))),
    };
    trace::with(|t| t.inputs.numbers.compare(relation, a, b)).map_err(to_py)
}

/// The real value; the program then serves only this one.
#[pyfunction]
pub fn number_specialize(v: f64) -> PyResult<f64> {
    trace::with(|t| t.inputs.numbers.specialize(v)).map_err(to_py)
}

/// The real value, for messages.
#[pyfunction]
pub fn number_peek(v: f64) -> PyResult<f64> {
    trace::with(|t| Ok(t.inputs.numbers.peek(v))).map_err(to_py)
}

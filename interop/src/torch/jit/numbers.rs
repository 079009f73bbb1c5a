//! Numbers that a trace follows, for `_numbers.Followed`.

use crate::torch::errors::to_py;
use bridge::dispatch::trace::{self, Expression, NumberOp, Relation};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Registers an input; returns the value that it goes by in this trace. `attached` ones reach kernels as objects.
#[pyfunction]
pub fn number_input(real: f64, attached: bool) -> PyResult<f64> {
    trace::with(|t| {
        t.inputs.numbers.attached |= attached;
        Ok(t.inputs.numbers.input(real))
    })
    .map_err(to_py)
}

/// How a number follows from the inputs: `("input", n)`, `("const", value)` or `(op, a, b)`; None when the device knows
/// a part of it alone.
#[pyfunction]
pub fn number_expression(py: Python<'_>, v: f64) -> PyResult<Option<Bound<'_, PyAny>>> {
    let e = trace::with(|t| Ok(t.inputs.numbers.expression(v))).map_err(to_py)?;
    e.map(|e| expression(py, &e)).transpose()
}

fn expression<'py>(py: Python<'py>, e: &Expression) -> PyResult<Bound<'py, PyAny>> {
    Ok(match e {
        Expression::Input(n) => ("input", *n).into_pyobject(py)?.into_any(),
        Expression::Const(c) => ("const", *c).into_pyobject(py)?.into_any(),
        Expression::Of(op, sides) => {
            let name = OPS.iter().find(|(_, o)| o == op).map_or("", |(name, _)| name);
            (name, expression(py, &sides.0)?, expression(py, &sides.1)?).into_pyobject(py)?.into_any()
        }
    })
}

const OPS: [(&str, NumberOp); 7] = [
    ("add", NumberOp::Add),
    ("sub", NumberOp::Sub),
    ("mul", NumberOp::Mul),
    ("div", NumberOp::Div),
    ("pow", NumberOp::Pow),
    ("min", NumberOp::Min),
    ("max", NumberOp::Max),
];

/// Arithmetic on numbers of which at least one is followed.
#[pyfunction]
pub fn number_arithmetic(op: &str, a: f64, b: f64) -> PyResult<f64> {
    let found = OPS.iter().find(|(name, _)| *name == op);
    let op = found.ok_or_else(|| PyValueError::new_err(format!("no arithmetic is called {op}")))?.1;
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

//! Branches and loops of torch's higher-order operators, as regions of the running trace.

use crate::torch::dlpack;
use crate::torch::errors::to_py;
use bridge::aten::args::contiguous_strides;
use bridge::aten::{cx, view};
use bridge::dispatch::trace;
use bridge::dispatch::trace::region::{self, Cells, Checked};
use primitives::{DType, Graph, Value};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::cell::RefCell;

type Built = primitives::Result<Vec<Value>>;
type Checks = Vec<(Value, trace::TracedCheck)>;

/// Runs `f` as an operation with regions; an exception of the user's code comes out as it was raised.
fn append(f: impl FnOnce(&mut Graph, &mut Option<PyErr>) -> bridge::Result<Vec<Value>>) -> PyResult<Vec<Value>> {
    let mut raised = None;
    let result = region::append(|g| f(g, &mut raised));
    match raised {
        Some(e) => Err(e),
        None => result.map_err(to_py),
    }
}

fn placeholder() -> primitives::Error {
    primitives::Error {
        op: "region",
        argument: "body".into(),
        got: "an exception".into(),
        expected: "a result".into(),
        hint: "see the exception",
    }
}

/// Calls `f(*args)` inside the region that `g` is building, with the region's arguments as tensors. A loop's region has
/// the values of `cells` behind them; those that `cells` end with come behind the results.
fn body(
    py: Python<'_>,
    g: &mut Graph,
    f: &Bound<'_, PyAny>,
    args: &[Value],
    cells: &Cells,
    raised: &mut Option<PyErr>,
) -> primitives::Result<(Vec<Value>, Checks)> {
    let (args, given) = args.split_at(args.len().saturating_sub(cells.0.len()));
    let run = || -> PyResult<Vec<Value>> {
        cells.write(given).map_err(to_py)?;
        let mut tensors = Vec::new();
        for &v in args {
            tensors.push(tensor(py, v)?);
        }
        let out = f.call1(PyTuple::new(py, tensors)?)?;
        let mut values = out.try_iter()?.map(|t| value(&t?)).collect::<PyResult<Vec<_>>>()?;
        values.extend(cells.read().map_err(to_py)?);
        Ok(values)
    };
    let mut inner = None;
    let done = region::inside(g, || match run() {
        Ok(v) => Ok(Some(v)),
        Err(e) => {
            inner = Some(e);
            Ok(None)
        }
    });
    match done {
        Ok((Some(values), left)) if cells.cover(&left.written) => Ok((values, left.checks)),
        Ok((Some(_), _)) => {
            *raised = Some(super::refuse(py, "branch"));
            Err(placeholder())
        }
        Ok((None, _)) => {
            *raised = inner;
            Err(placeholder())
        }
        Err(e) => {
            *raised = Some(to_py(e));
            Err(placeholder())
        }
    }
}

/// A new tensor over a value of the trace.
pub fn tensor(py: Python<'_>, v: Value) -> PyResult<Bound<'_, PyAny>> {
    let (slot, ty) = trace::with(|t| Ok((t.cell(v)?, t.graph.ty(v).clone()))).map_err(to_py)?;
    dlpack::wrap(py, slot, ty.dtype, &ty.dims, &contiguous_strides(&ty.dims))
}

/// The value of a tensor, its view read.
pub fn value(t: &Bound<'_, PyAny>) -> PyResult<Value> {
    let t = dlpack::pjrt_arg("higher-order operator", t)?;
    trace::with(|trace| {
        if t.slot == 0 {
            return Ok(trace.graph.full(t.dtype, t.sizes, 0)?);
        }
        let base = trace.read(t.slot)?;
        view::read(&mut trace.graph, base, &cx::view_of(&t))
    })
    .map_err(to_py)
}

/// A region's results with the summary of its checks behind them.
fn with_summary((mut values, checks): (Vec<Value>, Checks), g: &mut Graph, all: &RefCell<Checked>) -> Built {
    values.extend(all.borrow_mut().summary(g, checks)?);
    Ok(values)
}

/// The same for the body of a loop, where `before` is the summary of the rounds so far.
fn with_summaries(
    (mut values, checks): (Vec<Value>, Checks),
    g: &mut Graph,
    all: &RefCell<Checked>,
    before: [Value; 2],
) -> Built {
    let now = all.borrow_mut().summary(g, checks)?;
    values.extend(Checked::earlier(g, before, now)?);
    Ok(values)
}

/// Takes the summary off the results and makes the checks outside.
fn report(checks: RefCell<Checked>, values: &mut Vec<Value>) -> PyResult<()> {
    let at = values.len() - 2;
    let summary = [values[at], values[at + 1]];
    values.truncate(at);
    checks.into_inner().report(summary).map_err(to_py)
}

/// Takes the new values of `cells` off the results and puts them in.
fn settle(cells: &Cells, values: &mut Vec<Value>) -> PyResult<()> {
    let made = values.split_off(values.len() - cells.0.len());
    cells.write(&made).map_err(to_py)
}

fn results<'py>(py: Python<'py>, values: Vec<Value>) -> PyResult<Bound<'py, PyList>> {
    let out = PyList::empty(py);
    for v in values {
        out.append(tensor(py, v)?)?;
    }
    Ok(out)
}

/// `on_true()` or `on_false()`, which return lists of tensors of the same types, and may write to `cells`.
#[pyfunction]
#[pyo3(signature = (pred, on_true, on_false, cells = Vec::new()))]
pub fn trace_cond<'py>(
    py: Python<'py>,
    pred: &Bound<'py, PyAny>,
    on_true: &Bound<'py, PyAny>,
    on_false: &Bound<'py, PyAny>,
    cells: Vec<u32>,
) -> PyResult<Bound<'py, PyList>> {
    let pred = value(pred)?;
    let cells = Cells(cells);
    // Both branches start from the same parameters.
    cells.read().map_err(to_py)?;
    let checks = RefCell::new(Checked::default());
    let mut values = append(|g, raised| {
        let pred = g.reshape(pred, &[])?;
        let pred = g.convert(pred, DType::Bool)?;
        let (mut first, mut second) = (None, None);
        let out = g.if_else(
            pred,
            |g, args| with_summary(body(py, g, on_true, args, &cells, &mut first)?, g, &checks),
            |g, args| with_summary(body(py, g, on_false, args, &cells, &mut second)?, g, &checks),
        );
        *raised = first.or(second);
        Ok(out?)
    })?;
    report(checks, &mut values)?;
    settle(&cells, &mut values)?;
    results(py, values)
}

/// `while cond(*carried): carried = body(*carried)`; both return lists of tensors. `step` may write to
/// `cells`.
#[pyfunction]
#[pyo3(signature = (cond, step, carried, cells = Vec::new()))]
pub fn trace_while<'py>(
    py: Python<'py>,
    cond: &Bound<'py, PyAny>,
    step: &Bound<'py, PyAny>,
    carried: Vec<Bound<'py, PyAny>>,
    cells: Vec<u32>,
) -> PyResult<Bound<'py, PyList>> {
    let mut inits = carried.iter().map(value).collect::<PyResult<Vec<_>>>()?;
    let cells = Cells(cells);
    inits.extend(cells.read().map_err(to_py)?);
    let n = inits.len();
    let checks = RefCell::new(Checked::default());
    let mut condition_checks = false;
    let mut values = append(|g, raised| {
        let (mut first, mut second) = (None, None);
        inits.extend(Checked::none(g)?);
        let out = g.while_loop(
            &inits,
            |g, args| {
                let (out, found) = body(py, g, cond, &args[..n], &cells, &mut first)?;
                let p = g.reshape(out[0], &[])?;
                let p = g.convert(p, DType::Bool)?;
                if found.is_empty() {
                    return Ok(vec![p]);
                }
                condition_checks = true;
                // The loop ends at an offence, which is found again below.
                let summary = Checked::default().summary(g, found)?;
                let fine = Checked::fine(g, summary)?;
                Ok(vec![g.and(p, fine)?])
            },
            |g, args| {
                let made = body(py, g, step, &args[..n], &cells, &mut second)?;
                with_summaries(made, g, &checks, [args[n], args[n + 1]])
            },
        );
        *raised = first.or(second);
        Ok(out?)
    })?;
    report(checks, &mut values)?;
    settle(&cells, &mut values)?;
    let out = results(py, values)?;
    if condition_checks {
        cond.call1(out.to_tuple())?;
    }
    Ok(out)
}

/// `length` times `carry, ys = step(*carry, *(x[i] for x in xs))`, `ys` stacked. `step` returns one list; the first
/// `len(carry)` of it are the next carry.
#[pyfunction]
pub fn trace_scan<'py>(
    py: Python<'py>,
    step: &Bound<'py, PyAny>,
    carry: Vec<Bound<'py, PyAny>>,
    xs: Vec<Bound<'py, PyAny>>,
    length: i64,
    samples: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let inits = carry.iter().map(value).collect::<PyResult<Vec<_>>>()?;
    let xs = xs.iter().map(value).collect::<PyResult<Vec<_>>>()?;
    let n = inits.len();
    let mut types = Vec::new();
    for s in &samples {
        // SAFETY: a live tensor, on any device.
        let dl = unsafe { dlpack::borrow(py, s.as_ptr())? };
        let dtype = dlpack::dtype_of(dl.dtype).ok_or_else(|| pyo3::exceptions::PyTypeError::new_err("scan: dtype"))?;
        types.push((dtype, dl.sizes().to_vec()));
    }
    let checks = RefCell::new(Checked::default());
    let mut values = append(|g, raised| {
        let mut first = None;
        let mut state = vec![g.scalar(DType::I64, 0)?];
        state.extend(&inits);
        for (dtype, sizes) in &types {
            let dims: Vec<i64> = std::iter::once(length).chain(sizes.iter().copied()).collect();
            state.push(g.full(*dtype, &dims, 0)?);
        }
        let summary_at = state.len();
        state.extend(Checked::none(g)?);
        let out = g.while_loop(
            &state,
            |g, args| {
                let end = g.scalar(DType::I64, length)?;
                Ok(vec![g.compare(args[0], end, primitives::Direction::Lt)?])
            },
            |g, args| {
                let i = args[0];
                let mut given: Vec<Value> = args[1..=n].to_vec();
                for &x in &xs {
                    let dims = g.dims(x);
                    let zero = g.scalar(DType::I64, 0)?;
                    let mut starts = vec![zero; dims.len()];
                    starts[0] = i;
                    let mut sizes = dims.to_vec();
                    sizes[0] = 1;
                    let item = g.dynamic_slice(x, &starts, &sizes)?;
                    given.push(g.reshape(item, &dims[1..])?);
                }
                let (made, found) = body(py, g, step, &given, &Cells::default(), &mut first)?;
                let one = g.scalar(DType::I64, 1)?;
                let mut next = vec![g.add(i, one)?];
                next.extend(&made[..n]);
                for (y, &all) in made[n..].iter().zip(&args[n + 1..summary_at]) {
                    let dims = g.dims(all);
                    let zero = g.scalar(DType::I64, 0)?;
                    let mut starts = vec![zero; dims.len()];
                    starts[0] = i;
                    let mut sizes = dims.to_vec();
                    sizes[0] = 1;
                    let row = g.reshape(*y, &sizes)?;
                    next.push(g.dynamic_update_slice(all, row, &starts)?);
                }
                with_summaries((next, found), g, &checks, [args[summary_at], args[summary_at + 1]])
            },
        );
        *raised = first;
        Ok(out?[1..].to_vec())
    })?;
    report(checks, &mut values)?;
    results(py, values)
}

/// The same tensors, but later than everything that was traced before: the compiler neither merges what is computed
/// from them with what was computed from the originals, nor computes it ahead of time.
#[pyfunction]
pub fn trace_barrier<'py>(py: Python<'py>, tensors: Vec<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyList>> {
    let values = tensors.iter().map(value).collect::<PyResult<Vec<_>>>()?;
    let out = append(|g, _| {
        let n = values.len();
        let all: Vec<Value> = values.iter().copied().chain(g.latest()).collect();
        let mut out = g.optimization_barrier(&all)?;
        out.truncate(n);
        Ok(out)
    })?;
    results(py, out)
}

/// Shape and dtype are all that is wanted of a trace: nothing that `f()` does stays in the program.
#[pyfunction]
pub fn trace_probe<'py>(py: Python<'py>, f: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    probe(py, f).map(|(out, _)| out)
}

/// The cells from outside that `f()` writes to, 0 for the random state. Nothing that it does stays in the program.
#[pyfunction]
pub fn trace_written(py: Python<'_>, f: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
    probe(py, f).map(|(_, written)| written)
}

fn probe<'py>(py: Python<'py>, f: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, Vec<u32>)> {
    let mut made = None;
    append(|g, raised| {
        let p = g.scalar(DType::Bool, false)?;
        let mut inner = None;
        let probe = |g: &mut Graph, _: &[Value]| -> Built {
            let run = region::inside(g, || Ok(f.call0()));
            match run {
                Ok((Ok(out), left)) => made = Some((out, left.written)),
                Ok((Err(e), _)) => inner = Some(e),
                Err(e) => inner = Some(to_py(e)),
            }
            Ok(Vec::new())
        };
        // An `if` without results whose operations nobody uses: it is not printed.
        g.if_else(p, probe, |_, _| Ok(Vec::new()))?;
        *raised = inner;
        Ok(Vec::new())
    })?;
    made.ok_or_else(|| super::refuse(py, "branch"))
}

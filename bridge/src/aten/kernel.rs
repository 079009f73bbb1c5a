//! A kernel: one registered overload, derived from a row through the two schemas.

use super::args::{Arg, ArgPos};
use super::cx::can_be_dynamic;
use super::row::{Layout, Numbers, Row};
use super::schema::{Default, Kind, Return, Schema};
use crate::{Error, Result};
use primitives::Number;

/// How an overload follows from its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The row itself.
    Functional,
    /// `add_`: the first result goes into the first argument.
    InPlace,
    /// `add.out`: results go into the arguments from this position on.
    Out { first: usize },
    /// `_foreach_add`: the row on every item of the lists, all in one program.
    Foreach,
    /// `_foreach_add_`.
    ForeachInPlace,
}

/// One overload that torch can call.
#[derive(Debug)]
pub struct Kernel {
    pub id: u32,
    pub row: &'static Row,
    pub form: Form,
    pub schema: Schema,
    /// Bit i: the call's argument i is a number that enters the program as an input.
    pub dynamic: u64,
    /// A call may write more than one tensor.
    pub writes_several: bool,
    /// The row's arguments, as positions in the call's arguments followed by `extra`.
    map: Vec<usize>,
    /// Defaults of row arguments that this overload does not have.
    extra: Vec<Arg<'static>>,
    row_dynamic: u64,
}

impl Kernel {
    /// Derives the overload described by `schema` from `row`, whose own schema is `row_schema`.
    ///
    /// # Errors
    /// When a row argument without default has no counterpart, or a dynamic name is unknown.
    pub fn derive(id: u32, row: &'static Row, form: Form, schema: Schema, row_schema: &Schema) -> Result<Self> {
        let mut extra = Vec::new();
        let mut map = Vec::with_capacity(row_schema.args.len());
        let first_out = match form {
            Form::Out { first } => first,
            _ => schema.args.len(),
        };
        let foreach = matches!(form, Form::Foreach | Form::ForeachInPlace);
        for (i, arg) in row_schema.args.iter().enumerate() {
            let by_name = schema.position(&arg.name).filter(|&p| p < first_out);
            let by_place =
                (i < first_out && foreach && row_schema.position(&schema.args[i].name).is_none()).then_some(i);
            match by_name.or(by_place) {
                Some(p) => map.push(p),
                None => {
                    let value = default_arg(&arg.default, arg.kind).ok_or_else(|| {
                        Error::internal(format!("{}: no argument for `{}` of {}", schema.name, arg.name, row.name))
                    })?;
                    map.push(schema.args.len() + extra.len());
                    extra.push(value);
                }
            }
        }
        let mut row_dynamic = 0u64;
        let mut dynamic = 0u64;
        for name in row.dynamic {
            let i = row_schema
                .position(name)
                .filter(|&i| can_be_dynamic(row_schema.args[i].kind))
                .ok_or_else(|| Error::internal(format!("{}: no number argument `{name}`", row.name)))?;
            row_dynamic |= 1 << i;
            if map[i] < schema.args.len() {
                dynamic |= 1 << map[i];
            }
        }
        let mutated = || schema.args.iter().filter(|a| a.mutated);
        let writes_several = row.writes_several
            || form == Form::ForeachInPlace
            || mutated().count() > 1
            || mutated().any(|a| a.kind == Kind::Tensors);
        Ok(Self { id, row, form, schema, dynamic, writes_several, map, extra, row_dynamic })
    }

    /// Bit i: the row's argument i is dynamic in a call whose arguments are at `map` of `args`.
    pub fn row_dynamic(&self, map: &[ArgPos], args: &[Arg<'_>]) -> u64 {
        if self.row.special.is_empty() {
            return self.row_dynamic;
        }
        let fixed = (0..map.len()).filter(|&i| i < 64 && self.is_special(&args[map[i].arg as usize]));
        fixed.fold(self.row_dynamic, |bits, i| bits & !(1 << i))
    }

    /// Whether an argument that may be dynamic has a value, or a list one, that the row has a program of its own for.
    #[inline]
    pub fn is_special(&self, arg: &Arg<'_>) -> bool {
        !self.row.special.is_empty() && self.has_special(arg)
    }

    fn has_special(&self, arg: &Arg<'_>) -> bool {
        let among = |x: f64| self.row.special.contains(&x);
        match arg {
            Arg::Scalar(Number::Complex(..)) => false,
            Arg::Scalar(n) => among(n.as_f64()),
            Arg::Bool(b) => among(f64::from(*b)),
            Arg::Int(i) => among(*i as f64),
            Arg::Float(x) => among(*x),
            Arg::Floats(v) => v.iter().any(|&x| among(x)),
            Arg::List(items) => items.iter().any(|a| self.has_special(a)),
            _ => false,
        }
    }

    /// Defaults that follow the call's arguments.
    pub fn extra(&self) -> &[Arg<'static>] {
        &self.extra
    }

    /// The number at `pos` of a call with `args`.
    pub fn number(&self, args: &[Arg<'_>], pos: ArgPos) -> Option<Number> {
        match (pos.arg as usize).checked_sub(args.len()) {
            None => pos.number(args),
            Some(i) => ArgPos { arg: i as u16, item: pos.item }.number(&self.extra),
        }
    }

    /// Position of the row's argument `i`.
    pub fn position(&self, i: usize) -> ArgPos {
        ArgPos::arg(self.map[i])
    }

    /// Positions of the row's arguments; for item `k` of the lists in a foreach form.
    pub fn positions(&self, args: &[Arg<'_>], item: Option<usize>) -> Vec<ArgPos> {
        let listed = |p: usize| match self.schema.args.get(p).map(|a| a.kind) {
            Some(Kind::Tensors | Kind::Scalars) => matches!(args.get(p), Some(Arg::List(_) | Arg::Floats(_))),
            _ => false,
        };
        self.map
            .iter()
            .map(|&p| match item {
                Some(k) if listed(p) => ArgPos::item(p, k),
                _ => ArgPos::arg(p),
            })
            .collect()
    }

    /// Checks the numbers that the program does not hold.
    pub fn guard(&self, args: &[Arg<'_>]) -> Result<()> {
        match self.row.guard {
            None => Ok(()),
            Some(guard) => guard(&Numbers { kernel: self, args }),
        }
    }

    /// Number of items that a foreach form runs over; `None` for the other forms.
    pub fn items(&self, args: &[Arg<'_>]) -> Result<Option<usize>> {
        if !matches!(self.form, Form::Foreach | Form::ForeachInPlace) {
            return Ok(None);
        }
        let mut n = None;
        for (spec, arg) in self.schema.args.iter().zip(args) {
            let len = match (spec.kind, arg) {
                (Kind::Tensors | Kind::Scalars, Arg::List(items)) => items.len(),
                (Kind::Scalars, Arg::Floats(v)) => v.len(),
                _ => continue,
            };
            match n {
                None => n = Some(len),
                Some(m) if m != len => {
                    return Err(Error::runtime(
                        &self.schema.name,
                        format!("Tensor lists must have the same number of tensors, got {m} and {len}"),
                    ));
                }
                _ => {}
            }
        }
        n.map(Some).ok_or_else(|| Error::internal(format!("{}: no list", self.schema.name)))
    }

    /// Whether results take the strides of the inputs.
    pub fn preserves_strides(&self) -> bool {
        self.row.layout == Layout::Pointwise
    }

    /// Whether torch expects one list of tensors rather than a tuple.
    pub fn returns_list(&self) -> bool {
        self.schema.returns.first() == Some(&Return::Tensors)
    }
}

/// The default of a schema as an argument; `None` when the argument is required.
pub fn default_arg(default: &Default, kind: Kind) -> Option<Arg<'static>> {
    Some(match default {
        Default::Required => return None,
        Default::None => Arg::None,
        Default::Bool(b) if kind == Kind::Scalar => Arg::Scalar(Number::Bool(*b)),
        Default::Bool(b) => Arg::Bool(*b),
        Default::Int(i) => match kind {
            Kind::Scalar => Arg::Scalar(Number::Int(*i)),
            Kind::Float => Arg::Float(*i as f64),
            Kind::Ints => Arg::Ints([*i][..].into()),
            _ => Arg::Int(*i),
        },
        Default::Float(f) if kind == Kind::Scalar => Arg::Scalar(Number::Float(*f)),
        Default::Float(f) => Arg::Float(*f),
        Default::Ints(v) if matches!(kind, Kind::Floats) => Arg::Floats(v.iter().map(|&x| x as f64).collect()),
        Default::Ints(v) => Arg::Ints(v[..].into()),
        Default::Bools(v) => Arg::Ints(v.iter().map(|&b| b as i64).collect()),
        Default::Str(s) => Arg::Str(Box::leak(s.clone().into_boxed_str())),
        Default::Text(_) => Arg::Ignored,
    })
}

//! ATen schemas, parsed from the text that torch prints for them.
//!
//! The face hands us `str(op._schema)`, so each torch version brings its own schemas and defaults.

use crate::Error;

/// Kind of an argument, as far as parsing a call needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Tensor,
    Tensors,
    Scalar,
    Scalars,
    Int,
    Ints,
    Float,
    Floats,
    Bool,
    Bools,
    Str,
    DType,
    Layout,
    Device,
    MemoryFormat,
    Generator,
    Storage,
    Other,
}

/// Default of an argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Default {
    /// No default: the argument must be given.
    Required,
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Ints(Vec<i64>),
    Bools(Vec<bool>),
    Str(String),
    /// Anything else, as printed (a memory format, for example).
    Text(String),
}

#[derive(Clone, Debug)]
pub struct ArgSpec {
    pub name: String,
    pub kind: Kind,
    pub optional: bool,
    pub mutated: bool,
    pub default: Default,
    /// `int[2]` takes one int for both.
    pub fixed_len: Option<usize>,
}

/// What an op returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Return {
    Tensor,
    /// `Tensor(a!)`: the mutated argument itself.
    Alias,
    Tensors,
    Other,
}

/// One overload's schema.
#[derive(Clone, Debug)]
pub struct Schema {
    /// Name without `aten::`, with the overload after a dot (`add.Tensor`, `relu`).
    pub name: String,
    pub args: Vec<ArgSpec>,
    pub returns: Vec<Return>,
}

impl Schema {
    /// Parses `aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let bad = || Error::schema(text);
        let open = text.find('(').ok_or_else(bad)?;
        let close = matching(text, open).ok_or_else(bad)?;
        let name = text[..open].trim().trim_start_matches("aten::").to_owned();
        let mut args = Vec::new();
        for part in split(&text[open + 1..close]) {
            if part != "*" {
                args.push(argument(part).ok_or_else(bad)?);
            }
        }
        let arrow = text[close..].find("->").ok_or_else(bad)? + close + 2;
        let ret = text[arrow..].trim();
        let inner = ret.strip_prefix('(').and_then(|r| r.strip_suffix(')')).unwrap_or(ret);
        let returns = split(inner).into_iter().map(returned).collect();
        Ok(Self { name, args, returns })
    }

    /// Position of the argument called `name`.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.args.iter().position(|a| a.name == name)
    }
}

fn matching(text: &str, open: usize) -> Option<usize> {
    let mut depth = 0;
    for (i, c) in text[open..].char_indices() {
        match c {
            '(' => depth += 1,
            ')' => {
                depth -= 1;
                if depth == 0 {
                    return Some(open + i);
                }
            }
            _ => {}
        }
    }
    None
}

/// Splits at commas outside of brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (i, c) in text.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts.retain(|p| !p.is_empty());
    parts
}

fn argument(part: &str) -> Option<ArgSpec> {
    let (decl, default) = match part.split_once('=') {
        Some((d, v)) => (d.trim(), parse_default(v.trim())),
        None => (part, Default::Required),
    };
    let (ty, name) = decl.rsplit_once(' ')?;
    let mutated = ty.contains('!');
    let mut base = String::new();
    let mut depth = 0;
    for c in ty.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 => base.push(c),
            _ => {}
        }
    }
    let optional = base.ends_with('?');
    let base = base.trim_end_matches('?');
    let fixed_len = base.split_once('[').and_then(|(_, n)| n.trim_end_matches(']').parse().ok());
    let kind = match base.split_once('[') {
        Some((item, _)) => match item.trim_end_matches('?') {
            "Tensor" => Kind::Tensors,
            "Scalar" => Kind::Scalars,
            "int" | "SymInt" => Kind::Ints,
            "float" => Kind::Floats,
            "bool" => Kind::Bools,
            _ => Kind::Other,
        },
        None => match base {
            "Tensor" => Kind::Tensor,
            "Scalar" => Kind::Scalar,
            "int" | "SymInt" => Kind::Int,
            "float" => Kind::Float,
            "bool" | "SymBool" => Kind::Bool,
            "str" => Kind::Str,
            "ScalarType" => Kind::DType,
            "Layout" => Kind::Layout,
            "Device" => Kind::Device,
            "MemoryFormat" => Kind::MemoryFormat,
            "Generator" => Kind::Generator,
            "Storage" => Kind::Storage,
            _ => Kind::Other,
        },
    };
    // torch prints ScalarType, Layout and MemoryFormat as int: the name tells them apart.
    let kind = match (kind, name) {
        (Kind::Int, "dtype" | "out_dtype" | "output_dtype") => Kind::DType,
        (Kind::Int, "layout") => Kind::Layout,
        (Kind::Int, "memory_format") => Kind::MemoryFormat,
        (k, _) => k,
    };
    Some(ArgSpec { name: name.to_owned(), kind, optional, mutated, default, fixed_len })
}

fn parse_default(text: &str) -> Default {
    if let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        let items = split(inner);
        if items.iter().all(|i| matches!(*i, "True" | "False")) && !items.is_empty() {
            return Default::Bools(items.iter().map(|i| *i == "True").collect());
        }
        if let Ok(ints) = items.iter().map(|i| i.parse()).collect::<Result<Vec<i64>, _>>() {
            return Default::Ints(ints);
        }
        return Default::Text(text.to_owned());
    }
    match text {
        "None" => Default::None,
        "True" => Default::Bool(true),
        "False" => Default::Bool(false),
        _ => {
            if let Ok(v) = text.parse() {
                Default::Int(v)
            } else if let Ok(v) = text.parse() {
                Default::Float(v)
            } else if let Some(s) = text.strip_prefix(['"', '\'']) {
                Default::Str(s.trim_end_matches(['"', '\'']).to_owned())
            } else {
                Default::Text(text.to_owned())
            }
        }
    }
}

fn returned(part: &str) -> Return {
    let ty = part.split_whitespace().next().unwrap_or("");
    if ty.contains('!') && !ty.contains('[') {
        Return::Alias
    } else if ty.starts_with("Tensor") && ty.contains("[]") {
        Return::Tensors
    } else if ty.starts_with("Tensor") {
        Return::Tensor
    } else {
        Return::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_defaults_aliases_and_lists() {
        let s = Schema::parse(
            "aten::foo.out(Tensor(a!) self, Tensor? w=None, int[2] stride=[1, 1], *, Scalar alpha=1, float eps=1.0000000000000001e-05, ScalarType? dtype=None, Tensor(b!)[] outs) -> (Tensor(a!), Tensor)",
        )
        .unwrap();
        assert_eq!(s.name, "foo.out");
        assert_eq!(s.args.len(), 7);
        assert!(s.args[0].mutated && s.args[6].mutated);
        assert_eq!(s.args[1].kind, Kind::Tensor);
        assert!(s.args[1].optional);
        assert_eq!(s.args[2].default, Default::Ints(vec![1, 1]));
        assert_eq!(s.args[2].fixed_len, Some(2));
        assert_eq!(s.args[4].default, Default::Float(1e-5));
        assert_eq!(s.args[5].kind, Kind::DType);
        assert_eq!(s.args[6].kind, Kind::Tensors);
        assert_eq!(s.returns, vec![Return::Alias, Return::Tensor]);
    }
}

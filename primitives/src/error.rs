//! The one error type of this crate.

use std::borrow::Cow;
use std::fmt;

/// A primitive was called with arguments its type rule does not allow.
///
/// `Display` is one line: `add: rhs is tensor<3xf32>, expected tensor<4xf32>; broadcast the operands first`.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct Error {
    /// The primitive, as named on `Graph` (or the StableHLO operation, where an operand is out of sight).
    pub op: &'static str,
    /// The argument at fault, by its parameter name.
    pub argument: Cow<'static, str>,
    /// What was passed.
    pub got: String,
    /// What the type rule wants.
    pub expected: String,
    /// The way out.
    pub hint: &'static str,
}

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} is {}, expected {}", self.op, self.argument, self.got, self.expected)?;
        if !self.hint.is_empty() {
            write!(f, "; {}", self.hint)?;
        }
        Ok(())
    }
}

/// Builds an [`Error`]; kept out of line so that the checks stay small.
#[cold]
pub(crate) fn error(
    op: &'static str,
    argument: impl Into<Cow<'static, str>>,
    got: impl fmt::Display,
    expected: impl fmt::Display,
    hint: &'static str,
) -> Error {
    Error { op, argument: argument.into(), got: got.to_string(), expected: expected.to_string(), hint }
}

/// Formats a list of dimensions as `[2, 3]`.
pub(crate) fn list<T: fmt::Display>(items: &[T]) -> String {
    let mut s = String::from("[");
    for (i, x) in items.iter().enumerate() {
        if i > 0 {
            s.push_str(", ");
        }
        s.push_str(&x.to_string());
    }
    s.push(']');
    s
}

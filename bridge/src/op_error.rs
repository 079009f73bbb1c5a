//! Errors of op calls: constructors for the variants that the table and the dispatcher raise.

use crate::Error;

/// The exception type that torch raises for the mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpErrorKind {
    Runtime,
    Index,
    Type,
    Value,
    NotImplemented,
    LinAlg,
    /// What a trace cannot follow: the face adds the line.
    Refused,
}

impl Error {
    /// A mistake in a call of `op`.
    pub fn op(kind: OpErrorKind, op: &str, message: String) -> Self {
        Error::Op { kind, op: op.to_owned(), message }
    }

    /// A mistake for which torch raises `RuntimeError`.
    pub fn runtime(op: &str, message: String) -> Self {
        Self::op(OpErrorKind::Runtime, op, message)
    }

    /// A mistake for which torch raises `IndexError`.
    pub fn index(op: &str, message: String) -> Self {
        Self::op(OpErrorKind::Index, op, message)
    }

    /// A mistake for which torch raises `TypeError`.
    pub fn type_error(op: &str, message: String) -> Self {
        Self::op(OpErrorKind::Type, op, message)
    }

    /// A mistake for which torch raises `ValueError`.
    pub fn value(op: &str, message: String) -> Self {
        Self::op(OpErrorKind::Value, op, message)
    }

    /// A mistake for which torch raises `torch.linalg.LinAlgError`.
    pub fn linalg(op: &str, message: String) -> Self {
        Self::op(OpErrorKind::LinAlg, op, message)
    }

    /// Something that a trace cannot follow.
    pub fn refused(message: &str) -> Self {
        Self::op(OpErrorKind::Refused, "jit", message.to_owned())
    }

    /// A combination that this op has no lowering for; the face may run it on the CPU.
    pub fn not_implemented(op: &str, message: String) -> Self {
        Self::op(OpErrorKind::NotImplemented, op, message)
    }

    /// An argument of the wrong kind.
    pub fn argument(op: &str, position: usize, got: String, expected: &str) -> Self {
        Self::type_error(op, format!("argument {position}: got {got}, expected {expected}"))
    }

    /// An error of the device, with the op that it came from.
    pub(crate) fn during(mut self, op: &str) -> Self {
        if let Error::Pjrt { message, .. } | Error::OutOfMemory { message, .. } = &mut self {
            *message = format!("{message} (in {op})");
        }
        self
    }

    /// A fault of this library.
    pub fn internal(message: String) -> Self {
        Error::Internal { message }
    }

    /// A schema text that does not parse.
    pub fn schema(text: &str) -> Self {
        Self::internal(format!("cannot parse the schema `{text}`"))
    }
}

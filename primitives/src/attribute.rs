//! Printing of attributes.

use crate::literal::put;
use crate::node::Attr;

/// Appends the value of an attribute.
pub(crate) fn write_attribute(out: &mut String, attr: &Attr) {
    match attr {
        Attr::I64(x) => put(out, format_args!("{x} : i64")),
        Attr::I32(x) => put(out, format_args!("{x} : i32")),
        Attr::Bool(x) => put(out, format_args!("{x}")),
        Attr::I64s(xs) => array(out, "i64", xs),
        Attr::Bools(xs) => array(out, "i1", xs),
        Attr::Table { cols, data } => table(out, *cols, data),
        Attr::Str(s) => quoted(out, s),
        Attr::Raw(s) => out.push_str(s),
        Attr::Unit => {}
        Attr::Splat(_) | Attr::Dense(_) => unreachable!("literals belong to constants"),
    }
}

/// Appends a decimal number; the formatting machinery is several times slower.
pub(crate) fn number(out: &mut String, n: impl Into<u64>) {
    let mut n = n.into();
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    for d in &digits[at..] {
        out.push(*d as char);
    }
}

fn array<T: std::fmt::Display>(out: &mut String, element: &str, items: &[T]) {
    out.push_str("array<");
    out.push_str(element);
    for (i, x) in items.iter().enumerate() {
        out.push_str(if i > 0 { ", " } else { ": " });
        put(out, format_args!("{x}"));
    }
    out.push('>');
}

fn table(out: &mut String, cols: usize, data: &[i64]) {
    out.push_str("dense<");
    if !data.is_empty() {
        out.push('[');
        for (r, row) in data.chunks(cols).enumerate() {
            out.push_str(if r > 0 { ", [" } else { "[" });
            for (c, x) in row.iter().enumerate() {
                if c > 0 {
                    out.push_str(", ");
                }
                put(out, format_args!("{x}"));
            }
            out.push(']');
        }
        out.push(']');
    }
    put(out, format_args!("> : tensor<{}x{cols}xi64>", data.len() / cols));
}

/// A string literal of MLIR: quotes, backslashes and bytes outside printable ASCII are escaped as `\XX`.
pub(crate) fn quoted(out: &mut String, s: &str) {
    out.push('"');
    for b in s.bytes() {
        match b {
            b'"' | b'\\' | 0..=31 | 127.. => put(out, format_args!("\\{b:02X}")),
            _ => out.push(b as char),
        }
    }
    out.push('"');
}

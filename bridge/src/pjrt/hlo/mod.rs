//! The compiler's optimized program: as text, and the work in it counted.
//!
//! A plugin hands it out as a protocol buffer (`xla/service/hlo.proto`, `xla/xla_data.proto`), which few people can
//! read. What is here prints it in the shape that XLA prints HLO in. Field numbers are those of the two files; fields
//! that are not known are passed over, since they come and go between versions.

mod attributes;
mod cost;
mod instruction;
mod literal;
mod module;
mod shape;
mod window;
mod wire;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::{Error, Result};
use wire::{Message, Read};

fn refuse(got: String, expected: &str) -> Error {
    Error::Argument { call: "optimized program", argument: "code", got, expected: expected.to_owned() }
}

/// What `read` makes of the `HloModuleProto` in `bytes`.
fn module<T>(format: &str, bytes: &[u8], read: impl FnOnce(&Message) -> Read<T>) -> Result<T> {
    let made = Message::parse(bytes).and_then(|message| match format {
        "hlo" => read(&message),
        // HloModuleProtoWithConfig: the module, then how it was compiled.
        _ => read(&message.message(1)?.ok_or("no module in it")?),
    });
    made.map_err(|why| {
        refuse(format!("{} bytes of format {format}: {why}", bytes.len()), "a serialized HloModuleProto")
    })
}

/// The text of a program in a format that plugins use: `hlo`, `hlo_with_config`, `mlir`.
///
/// Fails with [`Error::Argument`] where the bytes are no such program, or the format is another one.
pub fn text(format: &str, bytes: &[u8]) -> Result<String> {
    match format {
        "hlo" | "hlo_with_config" => module(format, bytes, module::text),
        "mlir" if bytes.starts_with(b"ML\xefR") => {
            Err(refuse("MLIR bytecode".to_owned(), "MLIR as text: it takes MLIR's own tools to read it"))
        }
        "mlir" => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(why) => Err(refuse(format!("bytes that are no text: {why}"), "MLIR as text")),
        },
        _ => Err(refuse(format!("a program of format {format:?}"), "\"hlo\", \"hlo_with_config\" or \"mlir\"")),
    }
}

/// The work of a program of format `hlo` or `hlo_with_config` by XLA's names: `flops`, `transcendentals` and
/// `bytes accessed`, counted by the rules of XLA's `HloCostAnalysis`.
///
/// Fails with [`Error::Argument`] where the bytes are no such program, or the format is another one.
pub fn cost(format: &str, bytes: &[u8]) -> Result<BTreeMap<String, f64>> {
    match format {
        "hlo" | "hlo_with_config" => module(format, bytes, cost::count),
        _ => {
            Err(refuse(format!("a program of format {format:?}"), "\"hlo\" or \"hlo_with_config\", to count its work"))
        }
    }
}

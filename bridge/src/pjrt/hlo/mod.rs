//! The compiler's optimized program as text.
//!
//! A plugin hands it out as a protocol buffer (`xla/service/hlo.proto`, `xla/xla_data.proto`), which few people can
//! read. What is here prints it in the shape that XLA prints HLO in. Field numbers are those of the two files; fields
//! that are not known are passed over, since they come and go between versions.

mod attributes;
mod instruction;
mod literal;
mod module;
mod shape;
mod wire;

#[cfg(test)]
mod tests;

use crate::{Error, Result};
use wire::Message;

/// The text of a program in a format that plugins use: `hlo`, `hlo_with_config`, `mlir`.
///
/// Fails with [`Error::Argument`] where the bytes are no such program, or the format is another one.
pub fn text(format: &str, bytes: &[u8]) -> Result<String> {
    let refuse = |got: String, expected: &str| Error::Argument {
        call: "optimized program",
        argument: "code",
        got,
        expected: expected.to_owned(),
    };
    match format {
        "hlo" | "hlo_with_config" => {
            let printed = Message::parse(bytes).and_then(|message| match format {
                "hlo" => module::text(&message),
                // HloModuleProtoWithConfig: the module, then how it was compiled.
                _ => module::text(&message.message(1)?.ok_or("no module in it")?),
            });
            printed.map_err(|why| {
                refuse(format!("{} bytes of format {format}: {why}", bytes.len()), "a serialized HloModuleProto")
            })
        }
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

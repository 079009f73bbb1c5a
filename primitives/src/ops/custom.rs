//! Calls out of StableHLO.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

use smallvec::smallvec;

use crate::error::{Result, error, list};
use crate::node::{Attr, Attrs, Parts, Value};
use crate::{Graph, TensorType};

/// Calling convention of a custom call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ApiVersion {
    Original = 1,
    StatusReturning = 2,
    StatusReturningUnified = 3,
    /// XLA's typed FFI; takes a dictionary as backend configuration.
    #[default]
    TypedFfi = 4,
}

/// Static data handed to the target of a custom call.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum BackendConfig {
    #[default]
    None,
    /// An opaque string, for conventions 1 to 3.
    Text(String),
    /// Names with MLIR attributes as text (`("eps", "1.0e-5 : f32")`), for the typed FFI.
    Dict(Vec<(String, String)>),
}

/// Everything of a custom call but its target, operands and results.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct CustomCall {
    pub backend_config: BackendConfig,
    pub api_version: ApiVersion,
    /// The call is kept even when its results are unused.
    pub side_effect: bool,
    /// Minor-to-major dimension orders, one list per operand; `None` leaves them to the compiler.
    pub operand_layouts: Option<Vec<Vec<i64>>>,
    /// As `operand_layouts`, one list per result.
    pub result_layouts: Option<Vec<Vec<i64>>>,
    /// (result, operand): the result is written into the operand's memory.
    pub output_operand_aliases: Vec<(usize, usize)>,
}

fn layouts(lists: &[Vec<i64>]) -> Attr {
    let items: Vec<String> = lists
        .iter()
        .map(|l| {
            let values = if l.is_empty() { String::new() } else { list(l) };
            format!("dense<{values}> : tensor<{}xindex>", l.len())
        })
        .collect();
    Attr::Raw(Cow::Owned(format!("[{}]", items.join(", "))))
}

impl Graph {
    /// Calls a function that the device's runtime knows by name.
    ///
    /// Shapes and dtypes: any; results have `results`. Errors: an empty target; a dictionary for another convention than
    /// the typed FFI, or a text for it; layouts of another count; an alias out of range or of unequal types.
    /// Emits `stablehlo.custom_call`.
    pub fn custom_call(
        &mut self,
        target: &str,
        operands: &[Value],
        results: &[TensorType],
        call: CustomCall,
    ) -> Result<Vec<Value>> {
        const OP: &str = "custom_call";
        if target.is_empty() {
            return Err(error(
                OP,
                "target",
                "an empty name",
                "the name of a registered function",
                "name the function that the plugin knows",
            ));
        }
        let typed = call.api_version == ApiVersion::TypedFfi;
        let mut attrs: Attrs = smallvec![
            ("call_target_name", Attr::Str(target.into())),
            ("api_version", Attr::I32(call.api_version as i32)),
            ("has_side_effect", Attr::Bool(call.side_effect)),
        ];
        match &call.backend_config {
            BackendConfig::None => {}
            BackendConfig::Text(text) if !typed => attrs.push(("backend_config", Attr::Str(Arc::from(&text[..])))),
            BackendConfig::Dict(entries) if typed => {
                let items: Vec<String> = entries.iter().map(|(k, v)| format!("{k} = {v}")).collect();
                attrs.push(("backend_config", Attr::Raw(Cow::Owned(format!("{{{}}}", items.join(", "))))));
            }
            other => {
                return Err(error(
                    OP,
                    "backend_config",
                    if matches!(other, BackendConfig::Text(_)) { "a text" } else { "a dictionary" },
                    if typed { "a dictionary, as the typed FFI takes" } else { "a text, as this api_version takes" },
                    "choose the api_version that the target was registered with",
                ));
            }
        }
        for (arg, given, want) in [
            ("operand_layouts", &call.operand_layouts, operands.len()),
            ("result_layouts", &call.result_layouts, results.len()),
        ] {
            if let Some(l) = given {
                super::check::check_len(OP, arg, l.len(), want)?;
                attrs.push((arg, layouts(l)));
            }
        }
        if call.operand_layouts.is_some() != call.result_layouts.is_some() {
            return Err(error(
                OP,
                "layouts",
                "given for one side",
                "operand_layouts and result_layouts together",
                "give both or neither",
            ));
        }
        if !call.output_operand_aliases.is_empty() {
            let mut text = String::from("[");
            for (i, (result, operand)) in call.output_operand_aliases.iter().enumerate() {
                let same = results
                    .get(*result)
                    .zip(operands.get(*operand))
                    .is_some_and(|(r, o)| r.same_shape_and_dtype(self.ty(*o)));
                if !same {
                    return Err(error(
                        OP,
                        "output_operand_aliases",
                        format_args!("({result}, {operand})"),
                        "a result and an operand of one type",
                        "leave the alias out",
                    ));
                }
                let tuple = if results.len() > 1 { format!("[{result}]") } else { "[]".to_string() };
                write!(
                    text,
                    "{}#stablehlo.output_operand_alias<output_tuple_indices = {tuple}, operand_index = {operand}, \
                     operand_tuple_indices = []>",
                    if i > 0 { ", " } else { "" }
                )
                .expect("writing to a String cannot fail");
            }
            text.push(']');
            attrs.push(("output_operand_aliases", Attr::Raw(Cow::Owned(text))));
        }
        self.push(
            "stablehlo.custom_call",
            operands,
            results,
            Parts { attrs, impure: call.side_effect, ..Parts::default() },
        )
    }
}

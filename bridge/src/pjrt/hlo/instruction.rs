//! One line of a computation: `%add.1 = f32[4]{0} add(f32[4]{0} %a, f32[4]{0} %b), metadata={...}`.

use ahash::AHashMap;

use super::shape::{self, joined};
use super::wire::{Message, Read};
use super::{attributes, literal};

/// What operands look up: name and type of each instruction of the computation by its id.
pub(super) struct Known {
    pub name: String,
    pub shape: String,
}

/// Names of computations by id.
pub(super) type Computations = AHashMap<i64, String>;

/// An `HloInstructionProto`.
pub(super) fn text(
    instruction: &Message,
    known: &AHashMap<i64, Known>,
    computations: &Computations,
    root: bool,
) -> Read<String> {
    let (name, opcode) = (instruction.text(1)?, instruction.text(2)?);
    let within = |why: String| format!("instruction {name}: {why}");
    let shape = instruction.message(3)?.unwrap_or_default();
    let mut out = format!(
        "{}%{name} = {} {opcode}({})",
        if root { "ROOT " } else { "" },
        shape::text(&shape, true).map_err(within)?,
        operands(instruction, opcode, known).map_err(within)?
    );
    let mut attributes = attributes::list(instruction, opcode).map_err(within)?;
    attributes.extend(calls(instruction, opcode, known, computations).map_err(within)?);
    attributes.extend(rest(instruction, known).map_err(within)?);
    for attribute in attributes {
        out += ", ";
        out += &attribute;
    }
    Ok(out)
}

fn operands(instruction: &Message, opcode: &str, known: &AHashMap<i64, Known>) -> Read<String> {
    match opcode {
        "parameter" => return Ok(instruction.int(9)?.to_string()),
        "constant" => return instruction.message(8)?.map_or(Ok("{...}".to_owned()), |value| literal::text(&value)),
        _ => (),
    }
    let ids = instruction.ints(36)?;
    let each = ids.iter().enumerate().map(|(i, &id)| {
        let operand =
            find(known, id).ok_or_else(|| format!("operand {i} has the id {id}, which is no instruction's"))?;
        Ok(format!("{} %{}", operand.shape, operand.name))
    });
    Ok(shape::listed(&each.collect::<Read<Vec<_>>>()?))
}

/// An id is unique in the module, or in its computation alone with the computation's in the upper half.
pub(super) fn find<T>(known: &AHashMap<i64, T>, id: i64) -> Option<&T> {
    known.get(&id).or_else(|| known.get(&(id & 0xffff_ffff)))
}

fn calls(
    instruction: &Message,
    opcode: &str,
    known: &AHashMap<i64, Known>,
    computations: &Computations,
) -> Read<Vec<String>> {
    let ids = instruction.ints(38)?;
    let name = |id: &i64| match find(computations, *id) {
        Some(name) => Ok(format!("%{name}")),
        None => Err(format!("it calls {id}, which is no computation's id")),
    };
    let names = ids.iter().map(name).collect::<Read<Vec<_>>>()?;
    let mut out = Vec::new();
    if instruction.has(11) {
        out.push(format!("kind={}", instruction.text(11)?));
    }
    match (opcode, &names[..]) {
        (_, []) => (),
        ("while", [body, condition]) => out.extend([format!("condition={condition}"), format!("body={body}")]),
        ("select-and-scatter", [select, scatter]) => {
            out.extend([format!("select={select}"), format!("scatter={scatter}")]);
        }
        ("conditional", [yes, no]) if first_is_pred(instruction, known)? => {
            out.extend([format!("true_computation={yes}"), format!("false_computation={no}")]);
        }
        ("conditional", _) => out.push(format!("branch_computations={{{}}}", names.join(", "))),
        ("custom-call", _) => out.push(format!("called_computations={{{}}}", names.join(", "))),
        ("fusion", [called]) => out.push(format!("calls={called}")),
        (_, [called]) if opcode.starts_with("async") => out.push(format!("calls={called}")),
        (_, [called]) => out.push(format!("to_apply={called}")),
        _ => out.push(format!("calls={{{}}}", names.join(", "))),
    }
    Ok(out)
}

/// Whether a `conditional` chooses by a truth value; else by a number.
fn first_is_pred(instruction: &Message, known: &AHashMap<i64, Known>) -> Read<bool> {
    let first = instruction.ints(36)?.first().and_then(|&id| find(known, id));
    Ok(first.is_some_and(|known| known.shape.starts_with("pred[")))
}

/// What any instruction may have: target of a call, sharding, order, where it comes from, what the backend was told.
fn rest(instruction: &Message, known: &AHashMap<i64, Known>) -> Read<Vec<String>> {
    let mut out = Vec::new();
    if instruction.has(28) {
        out.push(format!("custom_call_target={:?}", instruction.text(28)?));
    }
    if instruction.bool(65)? {
        out.push("custom_call_has_side_effect=true".to_owned());
    }
    match instruction.int(77)? {
        2 => out.push("api_version=API_VERSION_STATUS_RETURNING".to_owned()),
        3 => out.push("api_version=API_VERSION_STATUS_RETURNING_UNIFIED".to_owned()),
        4 => out.push("api_version=API_VERSION_TYPED_FFI".to_owned()),
        _ => (),
    }
    if let Some(sharding) = instruction.message(40)? {
        out.push(format!("sharding={}", sharding_text(&sharding)?));
    }
    if let Some(attributes) = instruction.message(68)? {
        let pair = |entry: &Message| Ok(format!("{}={:?}", entry.text(1)?, entry.text(2)?));
        let pairs = attributes.messages(1)?.iter().map(pair).collect::<Read<Vec<_>>>()?;
        if !pairs.is_empty() {
            out.push(format!("frontend_attributes={{{}}}", pairs.join(",")));
        }
    }
    let before = instruction.ints(37)?;
    if !before.is_empty() {
        let names = before.iter().filter_map(|&id| find(known, id)).map(|known| format!("%{}", known.name));
        out.push(format!("control-predecessors={{{}}}", joined(names, ", ")));
    }
    if let Some(metadata) = instruction.message(7)? {
        let mut parts = Vec::new();
        for (number, label) in [(1, "op_type"), (2, "op_name"), (3, "source_file")] {
            if metadata.has(number) {
                parts.push(format!("{label}={:?}", metadata.text(number)?));
            }
        }
        for (number, label) in [(4, "source_line"), (15, "stack_frame_id")] {
            if metadata.int(number)? != 0 {
                parts.push(format!("{label}={}", metadata.int(number)?));
            }
        }
        if !parts.is_empty() {
            out.push(format!("metadata={{{}}}", parts.join(" ")));
        }
    }
    let config = String::from_utf8_lossy(instruction.bytes(43)?);
    if config.starts_with('{') {
        out.push(format!("backend_config={config}"));
    } else if !config.is_empty() {
        out.push(format!("backend_config={config:?}"));
    }
    Ok(out)
}

/// An `OpSharding`: `{replicated}`, `{devices=[2,1]0,1}`, `{devices=[2,2]<=[4]}`.
fn sharding_text(sharding: &Message) -> Read<String> {
    let devices = sharding.ints(4)?;
    Ok(match sharding.int(1)? {
        0 => "{replicated}".to_owned(),
        1 => format!("{{maximal device={}}}", joined(devices, ",")),
        2 => {
            let parts = sharding.messages(5)?.iter().map(sharding_text).collect::<Read<Vec<_>>>()?;
            format!("{{{}}}", parts.join(", "))
        }
        3 => {
            let tiles = joined(sharding.ints(3)?, ",");
            let reshaped = sharding.ints(9)?;
            let order = sharding.ints(10)?;
            let order = if order.windows(2).all(|two| two[0] < two[1]) {
                String::new()
            } else {
                format!("T({})", joined(order, ","))
            };
            let devices = if reshaped.is_empty() {
                joined(devices, ",")
            } else {
                format!("<=[{}]{order}", joined(reshaped, ","))
            };
            let last = if sharding.bool(6)? { " last_tile_dim_replicate" } else { "" };
            format!("{{devices=[{tiles}]{devices}{last}}}")
        }
        4 => "{manual}".to_owned(),
        5 => "{unknown}".to_owned(),
        6 => "{unreduced}".to_owned(),
        other => format!("{{type {other}}}"),
    })
}

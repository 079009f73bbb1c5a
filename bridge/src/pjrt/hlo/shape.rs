//! Types of values: `f32[2,3]{1,0:T(8,128)}`, tuples, and the same without layouts.

use super::wire::{Message, Read};

/// `PrimitiveType` by its number.
pub(super) fn type_name(number: i64) -> String {
    let names = [
        "invalid",
        "pred",
        "s8",
        "s16",
        "s32",
        "s64",
        "u8",
        "u16",
        "u32",
        "u64",
        "f16",
        "f32",
        "f64",
        "tuple",
        "opaque",
        "c64",
        "bf16",
        "token",
        "c128",
        "f8e5m2",
        "f8e4m3fn",
        "s4",
        "u4",
        "f8e4m3b11fnuz",
        "f8e5m2fnuz",
        "f8e4m3fnuz",
        "s2",
        "u2",
        "f8e4m3",
        "f8e3m4",
        "s1",
        "u1",
        "f4e2m1fn",
        "f8e8m0fnu",
        "b",
    ];
    // A type of a later version keeps its number, which says at least that it is none of these.
    usize::try_from(number).ok().and_then(|n| names.get(n)).map_or_else(|| format!("type{number}"), |n| (*n).to_owned())
}

const TUPLE: i64 = 13;
const OPAQUE: i64 = 14;
const TOKEN: i64 = 17;
const BUFFER: i64 = 34;

/// `1,0`
pub(super) fn joined<T: ToString>(items: impl IntoIterator<Item = T>, between: &str) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(between)
}

/// Commas between, and at every fifth the place: long lists tell it, as XLA does.
pub(super) fn listed(items: &[String]) -> String {
    let place = |i: usize| if i > 0 && i.is_multiple_of(5) { format!("/*index={i}*/") } else { String::new() };
    joined(items.iter().enumerate().map(|(i, item)| place(i) + item), ", ")
}

/// A `ShapeProto`.
pub(super) fn text(shape: &Message, layouts: bool) -> Read<String> {
    let kind = shape.int(2)?;
    let parts = || shape.messages(4)?.iter().map(|part| text(part, layouts)).collect::<Read<Vec<_>>>();
    match kind {
        TUPLE => return Ok(format!("({})", listed(&parts()?))),
        BUFFER => return Ok(format!("b({})", parts()?.join(", "))),
        OPAQUE | TOKEN => return Ok(format!("{}[]", type_name(kind))),
        _ => (),
    }
    let dynamic = shape.ints(6)?;
    let dims = shape.ints(3)?.into_iter().enumerate().map(|(i, size)| match dynamic.get(i) {
        Some(1) => format!("<={size}"),
        _ => size.to_string(),
    });
    let mut out = format!("{}[{}]", type_name(kind), joined(dims, ","));
    if let Some(layout) = shape.message(5)?.filter(|_| layouts) {
        let layout = layout_text(&layout)?;
        // A number has no order of dims; only what else is known of its place is worth a word.
        if layout != "{}" {
            out += &layout;
        }
    }
    Ok(out)
}

/// `{1,0:T(8,128)(2,1)S(1)}`: minor to major, then tiles, padding, bits of an element, memory space.
fn layout_text(layout: &Message) -> Read<String> {
    let mut more = String::new();
    let tiles = layout.messages(6)?;
    if !tiles.is_empty() {
        more += "T";
    }
    for tile in &tiles {
        // The smallest number stands for a dim that is merged with the next.
        let dims = tile.ints(1)?.into_iter().map(|d| if d == i64::MIN { "*".to_owned() } else { d.to_string() });
        more += &format!("({})", joined(dims, ","));
    }
    for (number, letter, silent) in [(16, 'L', 1), (7, 'E', 0), (8, 'S', 0)] {
        let value = layout.int(number)?;
        if value != silent && value != 0 {
            more += &format!("{letter}({value})");
        }
    }
    let order = joined(layout.ints(1)?, ",");
    Ok(if more.is_empty() { format!("{{{order}}}") } else { format!("{{{order}:{more}}}") })
}

/// The signature of a `ProgramShapeProto` between computation name and body: `(x: f32[2]) -> f32[2]`.
pub(super) fn signature(program: &Message) -> Read<String> {
    let names = program.texts(3)?;
    let mut parameters = Vec::new();
    for (i, shape) in program.messages(1)?.iter().enumerate() {
        let shape = text(shape, false)?;
        parameters.push(match names.get(i) {
            Some(name) => format!("{name}: {shape}"),
            None => shape,
        });
    }
    let result = program.message(2)?.unwrap_or_default();
    Ok(format!("({}) -> {}", parameters.join(", "), text(&result, false)?))
}

//! Types of values: `f32[2,3]{1,0:T(8,128)}`, tuples, and the same without layouts.

use super::wire::{Message, Read};

/// `PrimitiveType` by its number: its name, and the bytes of an element.
const TYPES: [(&str, i64); 35] = [
    ("invalid", 0),
    ("pred", 1),
    ("s8", 1),
    ("s16", 2),
    ("s32", 4),
    ("s64", 8),
    ("u8", 1),
    ("u16", 2),
    ("u32", 4),
    ("u64", 8),
    ("f16", 2),
    ("f32", 4),
    ("f64", 8),
    ("tuple", 0),
    ("opaque", 8),
    ("c64", 8),
    ("bf16", 2),
    ("token", 0),
    ("c128", 16),
    ("f8e5m2", 1),
    ("f8e4m3fn", 1),
    ("s4", 1),
    ("u4", 1),
    ("f8e4m3b11fnuz", 1),
    ("f8e5m2fnuz", 1),
    ("f8e4m3fnuz", 1),
    ("s2", 1),
    ("u2", 1),
    ("f8e4m3", 1),
    ("f8e3m4", 1),
    ("s1", 1),
    ("u1", 1),
    ("f4e2m1fn", 1),
    ("f8e8m0fnu", 1),
    ("b", 0),
];

fn known(number: i64) -> Option<&'static (&'static str, i64)> {
    usize::try_from(number).ok().and_then(|n| TYPES.get(n))
}

/// The name of a `PrimitiveType`.
pub(super) fn type_name(number: i64) -> String {
    // A type of a later version keeps its number, which says at least that it is none of these.
    known(number).map_or_else(|| format!("type{number}"), |(name, _)| (*name).to_owned())
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

/// A table of a tuple has an address for each part.
const ADDRESS: f64 = 8.;

/// What a value of a `ShapeProto` takes in memory.
#[derive(Default)]
pub(super) struct Size {
    dims: Vec<i64>,
    /// Those of an array, or of the table of a tuple.
    pub bytes: f64,
    /// A tuple's.
    parts: Vec<Size>,
}

impl Size {
    pub fn of(shape: &Message) -> Read<Self> {
        let kind = shape.int(2)?;
        let parts = shape.messages(4)?.iter().map(Self::of).collect::<Read<Vec<_>>>()?;
        let mut size = Self { dims: shape.ints(3)?, bytes: ADDRESS * parts.len() as f64, parts };
        if kind != TUPLE {
            let (_, width) = known(kind).ok_or_else(|| format!("{} has a size that is not known", type_name(kind)))?;
            // Elements of less than a byte may lie side by side.
            let bits = shape.message(5)?.map_or(Ok(0), |layout| layout.int(7))?;
            size.bytes = size.elements() * if bits > 0 { bits as f64 / 8. } else { *width as f64 };
        }
        Ok(size)
    }

    pub fn elements(&self) -> f64 {
        self.dims.iter().map(|&dim| dim as f64).product()
    }

    pub fn dim(&self, dim: i64) -> Read<f64> {
        let size = usize::try_from(dim).ok().and_then(|dim| self.dims.get(dim));
        size.map(|&size| size as f64).ok_or_else(|| format!("dim {dim} of a value with {} dims", self.dims.len()))
    }

    pub fn last(&self) -> Read<f64> {
        self.dim(self.dims.len() as i64 - 1)
    }

    /// The value itself, or a tuple's first part.
    pub fn first(&self) -> &Self {
        self.parts.first().map_or(self, Self::first)
    }

    /// The sum of `f` over a tuple's arrays, which is without its table.
    pub fn over_parts(&self, f: fn(&Self) -> f64) -> f64 {
        if self.parts.is_empty() { f(self) } else { self.parts.iter().map(|part| part.over_parts(f)).sum() }
    }
}

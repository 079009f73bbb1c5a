//! A module: its header, its computations, and which of them is the entry.

use ahash::AHashMap;

use super::attributes::braced;
use super::instruction::{self, Computations, Known};
use super::shape;
use super::wire::{Message, Read};

/// An `HloModuleProto`.
pub(super) fn text(module: &Message) -> Read<String> {
    let computations = module.messages(3)?;
    if computations.is_empty() {
        return Err("a module without computations".to_owned());
    }
    let mut names = Computations::default();
    for computation in &computations {
        names.insert(computation.int(5)?, computation.text(1)?.to_owned());
    }
    let schedule = schedule(module)?;
    let mut out = header(module)?;
    for computation in &computations {
        let entry = match module.int(6)? {
            0 => computation.text(1)? == module.text(2)?,
            id => computation.int(5)? == id,
        };
        out += if entry { "\n\nENTRY " } else { "\n\n" };
        out += &computation_text(computation, &names, &schedule)
            .map_err(|why| format!("computation {}: {why}", computation.text(1).unwrap_or("?")))?;
    }
    Ok(out + "\n")
}

/// `HloModule step, is_scheduled=true, input_output_alias={...}, entry_computation_layout={...}`
fn header(module: &Message) -> Read<String> {
    let mut out = format!("HloModule {}", module.text(1)?);
    if module.has(7) {
        out += ", is_scheduled=true";
    }
    let mut aliases = Vec::new();
    for entry in module.message(8)?.unwrap_or_default().messages(1)? {
        let kind = if entry.int(4)? == 2 { "must-alias" } else { "may-alias" };
        let (output, parameter, inside) = (braced(&entry.ints(1)?), entry.int(2)?, braced(&entry.ints(3)?));
        aliases.push(format!("{output}: ({parameter}, {inside}, {kind})"));
    }
    if !aliases.is_empty() {
        out += &format!(", input_output_alias={{ {} }}", aliases.join(", "));
    }
    if let Some(program) = module.message(4)? {
        let parameters = program.messages(1)?;
        let parameters = parameters.iter().map(|shape| shape::text(shape, true)).collect::<Read<Vec<_>>>()?;
        let result = shape::text(&program.message(2)?.unwrap_or_default(), true)?;
        out += &format!(", entry_computation_layout={{({})->{result}}}", shape::listed(&parameters));
    }
    Ok(out)
}

/// In which order each computation runs, by its id.
fn schedule(module: &Message) -> Read<AHashMap<i64, Vec<i64>>> {
    let mut out = AHashMap::default();
    for entry in module.message(7)?.unwrap_or_default().messages(1)? {
        out.insert(entry.int(1)?, entry.message(2)?.unwrap_or_default().ints(1)?);
    }
    Ok(out)
}

fn computation_text(computation: &Message, names: &Computations, schedule: &AHashMap<i64, Vec<i64>>) -> Read<String> {
    let instructions = computation.messages(2)?;
    let mut known = AHashMap::default();
    let mut places = AHashMap::default();
    for (place, one) in instructions.iter().enumerate() {
        let shape = shape::text(&one.message(3)?.unwrap_or_default(), true)?;
        known.insert(one.int(35)?, Known { name: one.text(1)?.to_owned(), shape });
        places.insert(one.int(35)?, place);
    }
    let root = computation.int(6)?;
    if !places.contains_key(&root) {
        return Err(format!("its root has the id {root}, which is no instruction's"));
    }
    // As it runs, where that is known and complete; else as it is stored, operands first.
    let planned = schedule
        .get(&computation.int(5)?)
        .and_then(|ids| ids.iter().map(|id| places.get(id).copied()).collect::<Option<Vec<_>>>());
    let order = planned.filter(|order| order.len() == instructions.len()).unwrap_or((0..instructions.len()).collect());
    let signature = shape::signature(&computation.message(4)?.unwrap_or_default())?;
    let mut out = format!("%{} {signature} {{\n", computation.text(1)?);
    for place in order {
        let one = &instructions[place];
        out += &format!("  {}\n", instruction::text(one, &known, names, one.int(35)? == root)?);
    }
    Ok(out + "}")
}

//! What an instruction says after its operands: `dimensions={0}`, `kind=kLoop`, `lhs_contracting_dims={1}`.

use super::shape::joined;
use super::wire::{Message, Read};

/// `{1,0}`
pub(super) fn braced(numbers: &[i64]) -> String {
    format!("{{{}}}", joined(numbers, ","))
}

/// The attributes of an `HloInstructionProto` but for the computations that it calls, each as `name=value`.
pub(super) fn list(instruction: &Message, opcode: &str) -> Read<Vec<String>> {
    let mut out = Vec::new();
    dims(instruction, opcode, &mut out)?;
    for (number, name, dims) in [
        (
            30,
            "",
            &[(3, "lhs_batch_dims"), (1, "lhs_contracting_dims"), (4, "rhs_batch_dims"), (2, "rhs_contracting_dims")][..],
        ),
        (
            33,
            "slice_sizes",
            &[
                (1, "offset_dims"),
                (2, "collapsed_slice_dims"),
                (3, "start_index_map"),
                (5, "operand_batching_dims"),
                (6, "start_indices_batching_dims"),
            ],
        ),
        (
            48,
            "scatter",
            &[
                (1, "update_window_dims"),
                (2, "inserted_window_dims"),
                (3, "scatter_dims_to_operand_dims"),
                (5, "input_batching_dims"),
                (6, "scatter_indices_batching_dims"),
            ],
        ),
    ] {
        let Some(numbers) = instruction.message(number)? else { continue };
        for &(field, label) in dims {
            let list = numbers.ints(field)?;
            // A product says only what it has; for the indexing kinds three are said always.
            if !list.is_empty() || (!name.is_empty() && field <= 3) {
                out.push(format!("{label}={}", braced(&list)));
            }
        }
        if !name.is_empty() {
            out.push(format!("index_vector_dim={}", numbers.int(4)?));
        }
        if name == "slice_sizes" {
            out.push(format!("slice_sizes={}", braced(&instruction.ints(34)?)));
        }
    }
    for (number, label) in [(67, "indices_are_sorted"), (69, "unique_indices"), (60, "is_stable")] {
        if instruction.bool(number)? {
            out.push(format!("{label}=true"));
        }
    }
    words(instruction, opcode, &mut out)?;
    collective(instruction, &mut out)?;
    Ok(out)
}

fn dims(instruction: &Message, opcode: &str, out: &mut Vec<String>) -> Read<()> {
    let dims = instruction.ints(14)?;
    match opcode {
        "iota" => out.push(format!("iota_dimension={}", joined(&dims, ","))),
        "broadcast" | "concatenate" | "reduce" | "reverse" | "transpose" => {
            out.push(format!("dimensions={}", braced(&dims)));
        }
        _ if !dims.is_empty() => out.push(format!("dimensions={}", braced(&dims))),
        _ => (),
    }
    let slices = instruction.messages(17)?;
    if !slices.is_empty() {
        // Steps are told for all dims, or, where each is 1, for none.
        let steps = slices.iter().map(|one| one.int(3)).collect::<Read<Vec<_>>>()?;
        let told = steps.iter().any(|&step| step != 1);
        let slice = |(one, step): (&Message, &i64)| {
            let (start, limit) = (one.int(1)?, one.int(2)?);
            Ok(if told { format!("[{start}:{limit}:{step}]") } else { format!("[{start}:{limit}]") })
        };
        let slices = slices.iter().zip(&steps).map(slice).collect::<Read<Vec<_>>>()?;
        out.push(format!("slice={{{}}}", slices.join(", ")));
    }
    if instruction.has(20) {
        out.push(format!("dynamic_slice_sizes={}", braced(&instruction.ints(20)?)));
    }
    if let Some(padding) = instruction.message(21)? {
        let one = |dim: &Message| {
            let (low, high, inner) = (dim.int(1)?, dim.int(2)?, dim.int(3)?);
            Ok(if inner == 0 { format!("{low}_{high}") } else { format!("{low}_{high}_{inner}") })
        };
        let all = padding.messages(1)?.iter().map(one).collect::<Read<Vec<_>>>()?;
        out.push(format!("padding={}", all.join("x")));
    }
    if let Some(window) = instruction.message(15)? {
        let window = window_text(&window)?;
        if !window.is_empty() {
            out.push(format!("window={{{window}}}"));
        }
    }
    if let Some(numbers) = instruction.message(16)? {
        out.push(format!("dim_labels={}", dim_labels(&numbers)?));
    }
    Ok(())
}

/// `size=3x3 stride=2x2 pad=1_1x1_1`; what changes nothing is not said.
fn window_text(window: &Message) -> Read<String> {
    let dims = window.messages(1)?;
    let column = |field: u32| dims.iter().map(|dim| dim.int(field)).collect::<Read<Vec<_>>>();
    let mut out = Vec::new();
    for (field, label, silent) in [
        (1, "size", None),
        (2, "stride", Some(1)),
        (6, "lhs_dilate", Some(1)),
        (5, "rhs_dilate", Some(1)),
        (7, "rhs_reversal", Some(0)),
    ] {
        let values = column(field)?;
        if !values.is_empty() && silent.is_none_or(|silent| values.iter().any(|&value| value != silent)) {
            out.push(format!("{label}={}", joined(&values, "x")));
        }
    }
    let (low, high) = (column(3)?, column(4)?);
    if low.iter().chain(&high).any(|&pad| pad != 0) {
        let pads = low.iter().zip(&high).map(|(low, high)| format!("{low}_{high}"));
        // After `stride`, where XLA has it.
        let place = out.iter().take_while(|part| part.starts_with("si") || part.starts_with("st")).count();
        out.insert(place, format!("pad={}", joined(pads, "x")));
    }
    Ok(out.join(" "))
}

/// `b01f_01io->b01f`: which dim of input, kernel and output is what.
fn dim_labels(numbers: &Message) -> Read<String> {
    let one = |first: (u32, char), second: (u32, char), spatial: u32| -> Read<String> {
        let mut places =
            vec![(numbers.int(first.0)?, first.1.to_string()), (numbers.int(second.0)?, second.1.to_string())];
        places.extend(numbers.ints(spatial)?.into_iter().enumerate().map(|(i, dim)| (dim, i.to_string())));
        places.sort_by_key(|(dim, _)| *dim);
        Ok(joined(places.into_iter().map(|(_, label)| label), ""))
    };
    let (input, kernel, output) =
        (one((7, 'b'), (8, 'f'), 11)?, one((3, 'i'), (4, 'o'), 6)?, one((9, 'b'), (10, 'f'), 12)?);
    Ok(format!("{input}_{kernel}->{output}"))
}

/// A word of an enum by its number, or the number of one that is not known.
fn word(words: &[&str], number: i64) -> String {
    usize::try_from(number)
        .ok()
        .and_then(|n| words.get(n))
        .map_or_else(|| number.to_string(), |word| (*word).to_owned())
}

fn words(instruction: &Message, opcode: &str, out: &mut Vec<String>) -> Read<()> {
    let mut say = |label: &str, value: String| out.push(format!("{label}={value}"));
    for (number, label) in [(50, "feature_group_count"), (58, "batch_group_count")] {
        if instruction.int(number)? > 1 {
            say(label, instruction.int(number)?.to_string());
        }
    }
    if let Some(precision) = instruction.message(51)? {
        let each = precision.ints(1)?;
        if each.iter().any(|&one| one != 0) {
            let words = each.iter().map(|&one| word(&["default", "high", "highest", "packed_nibble"], one));
            say("operand_precision", format!("{{{}}}", joined(words, ",")));
        }
    }
    match opcode {
        "compare" => {
            say("direction", instruction.text(63)?.to_owned());
            if instruction.text(72)? == "TOTALORDER" {
                say("type", "TOTALORDER".to_owned());
            }
        }
        "get-tuple-element" => say("index", instruction.int(13)?.to_string()),
        "reduce-precision" => {
            say("exponent_bits", instruction.int(18)?.to_string());
            say("mantissa_bits", instruction.int(19)?.to_string());
        }
        "fft" => {
            say("fft_type", word(&["FFT", "IFFT", "RFFT", "IRFFT"], instruction.int(31)?));
            say("fft_length", braced(&instruction.ints(32)?));
        }
        "rng" => say("distribution", word(&["rng_invalid", "rng_uniform", "rng_normal"], instruction.int(23)?)),
        "rng-bit-generator" => {
            say("algorithm", word(&["rng_default", "rng_three_fry", "rng_philox"], instruction.int(70)?));
        }
        "rng-get-and-update-state" => say("delta", instruction.int(66)?.to_string()),
        "topk" => {
            say("k", instruction.int(81)?.to_string());
            say("largest", instruction.bool(85)?.to_string());
        }
        "cholesky" => {
            let options = instruction.message(62)?.unwrap_or_default();
            say("lower", options.bool(1)?.to_string());
        }
        "triangular-solve" => {
            let options = instruction.message(59)?.unwrap_or_default();
            for (number, label) in [(1, "left_side"), (2, "lower"), (3, "unit_diagonal")] {
                if options.bool(number)? {
                    say(label, "true".to_owned());
                }
            }
            say("transpose_a", word(&["TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"], options.int(4)?));
        }
        _ if opcode.starts_with("batch-norm") => {
            say("epsilon", instruction.float(24)?.to_string());
            say("feature_index", instruction.int(25)?.to_string());
        }
        _ => (),
    }
    Ok(())
}

fn collective(instruction: &Message, out: &mut Vec<String>) -> Read<()> {
    if instruction.int(26)? > 0 {
        out.push(format!("channel_id={}", instruction.int(26)?));
    }
    let devices = instruction.message(87)?.unwrap_or_default();
    let mut groups = devices.messages(1)?;
    if groups.is_empty() {
        groups = instruction.messages(49)?;
    }
    if let Some(iota) = devices.message(2)? {
        let (groups, each, order) = (iota.int(1)?, iota.int(2)?, iota.ints(4)?);
        let order = if order.windows(2).all(|two| two[0] < two[1]) {
            String::new()
        } else {
            format!("T({})", joined(order, ","))
        };
        out.push(format!("replica_groups=[{groups},{each}]<=[{}]{order}", joined(iota.ints(3)?, ",")));
    } else if !groups.is_empty() {
        let groups = groups.iter().map(|group| Ok(braced(&group.ints(1)?))).collect::<Read<Vec<_>>>()?;
        out.push(format!("replica_groups={{{}}}", groups.join(",")));
    }
    if instruction.bool(71)? {
        out.push("use_global_device_ids=true".to_owned());
    }
    let pairs = instruction.messages(52)?;
    if !pairs.is_empty() {
        let pairs = pairs.iter().map(|pair| Ok(braced(&[pair.int(1)?, pair.int(2)?]))).collect::<Read<Vec<_>>>()?;
        out.push(format!("source_target_pairs={{{}}}", pairs.join(",")));
    }
    Ok(())
}

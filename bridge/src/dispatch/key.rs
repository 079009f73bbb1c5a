//! Cache keys: everything that decides which program a call needs, as words.
//!
//! Kernel and settings first; then per tensor its dtype, sizes, and, unless it is all of its storage, the storage's
//! natural type, strides and offset; then static arguments. Dynamic numbers count by their kind only.

use super::slots::{self, DeviceArray, Held};
use crate::Result;
use crate::aten::cx::Env;
use crate::aten::{Arg, Kernel, TensorArg};
use ahash::AHashMap;
use primitives::Number;
use smallvec::SmallVec;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// What decides a program, as words; see [`key`].
pub type Key = SmallVec<[u64; 40]>;

/// The device values of a call's tensors, in the order of the arguments; `None` for what has none yet.
pub type Arrays = SmallVec<[Option<Arc<DeviceArray>>; 8]>;

/// Builds the key of a call, and picks up its tensors' values on the way: a cell is locked once.
pub fn key(kernel: &Kernel, args: &[Arg<'_>], env: Env) -> Result<(Key, Arrays)> {
    let mut k = Key::new();
    let mut arrays = Arrays::new();
    k.push(kernel.id as u64 | (env.default_dtype as u64) << 32 | (env.precision as u64) << 40);
    for (i, arg) in args.iter().enumerate() {
        push(&mut k, &mut arrays, arg, kernel.dynamic >> i.min(63) & 1 == 1 && !kernel.is_special(arg))?;
    }
    if kernel.writes_several {
        aliases(&mut k, args);
    }
    Ok((k, arrays))
}

/// Which tensors have the same storage. A program that writes several of them writes such a storage once.
fn aliases(k: &mut Key, args: &[Arg<'_>]) {
    let mut seen: AHashMap<u32, u64> = AHashMap::new();
    let mut nth = 0u64;
    let mut see = |arg: &Arg<'_>| {
        let Arg::Tensor(t) = arg else { return };
        nth += 1;
        if t.slot == 0 {
            return;
        }
        match seen.entry(t.slot) {
            Entry::Occupied(first) => k.push(ALIAS | nth << 8 | first.get() << 32),
            Entry::Vacant(place) => {
                place.insert(nth);
            }
        }
    };
    for arg in args {
        match arg {
            Arg::List(items) => items.iter().for_each(&mut see),
            arg => see(arg),
        }
    }
}

// Tags keep arguments of different kinds apart; they sit in the low byte of an argument's first word.
const TENSOR: u64 = 1;
const VIEW: u64 = 2;
const HOST: u64 = 3;
const LIST: u64 = 4;
const DYNAMIC: u64 = 5;
const BOOL: u64 = 6;
const INT: u64 = 7;
const FLOAT: u64 = 8;
const COMPLEX: u64 = 9;
const INTS: u64 = 10;
const FLOATS: u64 = 11;
const DTYPE: u64 = 12;
const STR: u64 = 13;
const FORMAT: u64 = 14;
const SEED: u64 = 15;
const NONE: u64 = 16;
const ALIAS: u64 = 17;

fn push(k: &mut Key, arrays: &mut Arrays, arg: &Arg<'_>, dynamic: bool) -> Result<()> {
    match arg {
        Arg::None => k.push(NONE),
        Arg::Ignored => {}
        Arg::Tensor(t) => arrays.push(tensor(k, t)?),
        Arg::HostScalar { dtype, wrapped, .. } => k.push(HOST | (*dtype as u64) << 8 | (*wrapped as u64) << 16),
        Arg::List(items) => {
            k.push(LIST | (items.len() as u64) << 8);
            for item in items {
                push(k, arrays, item, dynamic)?;
            }
        }
        Arg::Floats(v) if dynamic => k.push(DYNAMIC | 2 << 8 | (v.len() as u64) << 16),
        Arg::Bool(_) if dynamic => k.push(DYNAMIC),
        Arg::Int(_) if dynamic => k.push(DYNAMIC | 1 << 8),
        Arg::Float(_) if dynamic => k.push(DYNAMIC | 2 << 8),
        Arg::Scalar(n) if dynamic => k.push(DYNAMIC | number_kind(*n) << 8),
        Arg::Bool(v) => k.push(BOOL | (*v as u64) << 8),
        Arg::Int(v) => k.extend([INT, *v as u64]),
        Arg::Float(v) => k.extend([FLOAT, v.to_bits()]),
        Arg::Scalar(n) => match *n {
            Number::Bool(v) => k.push(BOOL | (v as u64) << 8),
            Number::Int(v) => k.extend([INT, v as u64]),
            Number::UInt(v) => k.extend([INT | 1 << 8, v]),
            Number::Float(v) => k.extend([FLOAT, v.to_bits()]),
            Number::Complex(re, im) => k.extend([COMPLEX, re.to_bits(), im.to_bits()]),
        },
        Arg::Ints(v) => {
            k.push(INTS | (v.len() as u64) << 8);
            k.extend(v.iter().map(|&x| x as u64));
        }
        Arg::Floats(v) => {
            k.push(FLOATS | (v.len() as u64) << 8);
            k.extend(v.iter().map(|x| x.to_bits()));
        }
        Arg::DType(d) => k.push(DTYPE | (*d as u64) << 8),
        Arg::Str(s) => {
            k.push(STR | (s.len() as u64) << 8);
            for chunk in s.as_bytes().chunks(8) {
                let mut le = [0u8; 8];
                le[..chunk.len()].copy_from_slice(chunk);
                k.push(u64::from_le_bytes(le));
            }
        }
        Arg::MemoryFormat(m) => k.push(FORMAT | (*m as u64) << 8),
        Arg::Seed(_) => k.push(SEED),
    }
    Ok(())
}

fn number_kind(n: Number) -> u64 {
    match n {
        Number::Bool(_) => 0,
        // `Cx::scalar_is_one` sees this one value.
        Number::Int(1) => 5,
        Number::Int(_) => 1,
        Number::Float(_) => 2,
        Number::Complex(..) => 3,
        Number::UInt(_) => 4,
    }
}

/// Adds a tensor; returns its device value.
fn tensor(k: &mut Key, t: &TensorArg<'_>) -> Result<Option<Arc<DeviceArray>>> {
    let head = (t.dtype as u64) << 8 | (t.sizes.len() as u64) << 16;
    if t.slot == 0 {
        k.push(TENSOR | head | 1 << 24);
        k.extend(t.sizes.iter().map(|&n| n as u64));
        return Ok(None);
    }
    slots::with(t.slot, |s| {
        let whole = t.offset == 0 && t.dtype == s.dtype && *t.sizes == s.dims[..] && t.is_contiguous();
        if whole {
            k.push(TENSOR | head);
            k.extend(t.sizes.iter().map(|&n| n as u64));
        } else {
            k.push(VIEW | head | (s.dtype as u64) << 24 | (s.dims.len() as u64) << 32);
            k.extend(t.sizes.iter().map(|&n| n as u64));
            k.extend(t.strides.iter().map(|&n| n as u64));
            k.push(t.offset);
            k.extend(s.dims.iter().map(|&n| n as u64));
        }
        match &s.held {
            Held::Device(a) => Some(a.clone()),
            _ => None,
        }
    })
}

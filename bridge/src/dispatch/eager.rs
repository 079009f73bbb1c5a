//! One op, eagerly: key → executable → execute → new storage.

use super::cache::{self, Entry};
use super::key::{Arrays, key};
use super::program::{Input, Output, ResultSlot, build, slot_of};
use super::queue::{self, Job};
use super::slots::{self, DeviceArray, Held, Storage};
use super::{checks, metrics, rng, scalars};
use crate::aten::cx::Env;
use crate::aten::lower::NewTensor;
use crate::aten::{Arg, Kernel, overlap};
use crate::pjrt;
use crate::{Error, Result};
use primitives::TensorType;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What surrounds a call: the face tells how to let other threads run while we block.
pub trait Host {
    /// Runs `f` with the interpreter's lock released.
    fn unlocked(&self, f: &mut dyn FnMut());
}

/// A host without an interpreter.
pub struct NoHost;

impl Host for NoHost {
    fn unlocked(&self, f: &mut dyn FnMut()) {
        f();
    }
}

/// What a call returned: the cached entry describes the tensors, `slots` are their cells, in the order of the outputs.
pub struct Outcome {
    pub entry: Arc<Entry>,
    pub slots: SmallVec<[u32; 4]>,
}

/// One result of a call.
pub enum Item<'a> {
    Tensor(u32, &'a NewTensor),
    Undefined,
}

impl Outcome {
    /// Number of results.
    pub fn len(&self) -> usize {
        self.entry.results.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entry.results.is_empty()
    }

    /// Results in torch's order.
    pub fn items(&self) -> impl Iterator<Item = Item<'_>> {
        self.entry.results.iter().map(|r| match r {
            ResultSlot::Undefined => Item::Undefined,
            ResultSlot::Empty(new) => Item::Tensor(0, new),
            ResultSlot::Output(i) => match &self.entry.outputs[*i] {
                Output::New(new) => Item::Tensor(self.slots[*i], new),
                _ => Item::Undefined,
            },
        })
    }
}

static DEBUG: AtomicBool = AtomicBool::new(false);
static CHECK_NAN: AtomicBool = AtomicBool::new(false);

/// Debug mode: wait for each op, so that its errors are raised at its own line.
pub fn set_debug(on: bool, check_nan: bool) {
    DEBUG.store(on, Ordering::Relaxed);
    CHECK_NAN.store(on && check_nan, Ordering::Relaxed);
}

/// Whether each call is waited for.
pub fn is_debug() -> bool {
    DEBUG.load(Ordering::Relaxed)
}

pub fn checks_nan() -> bool {
    CHECK_NAN.load(Ordering::Relaxed)
}

/// Why a call has no result.
#[derive(Debug)]
pub enum Failure {
    /// The lowering does not take such arguments (shapes, dtypes).
    Refused(Error),
    /// Of the compiler and of the device.
    Failed(Error),
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        Failure::Failed(e)
    }
}

/// Runs a call. Nothing is stored when it fails.
pub fn run(kernel: &Kernel, args: &[Arg<'_>], env: Env, host: &dyn Host) -> Result<Outcome, Failure> {
    if super::trace::active() {
        return super::trace::run(kernel, args, env).map_err(Failure::Refused);
    }
    kernel.guard(args).map_err(Failure::Refused)?;
    overlap::check(kernel, args).map_err(Failure::Refused)?;
    queue::make_room(host);
    let (key, arrays) = key(kernel, args, env)?;
    let entry = match cache::lookup(&key) {
        Some(entry) => entry,
        None => prepare(kernel, args, env, host, &key)?,
    };
    Ok(launch(entry, kernel, args, arrays, host)?)
}

#[cold]
fn prepare(kernel: &Kernel, args: &[Arg<'_>], env: Env, host: &dyn Host, key: &[u64]) -> Result<Arc<Entry>, Failure> {
    let program = build(kernel, args, env).map_err(Failure::Refused)?;
    let mut made = None;
    let mut program = Some(program);
    host.unlocked(&mut || {
        if let Some(p) = program.take() {
            made = Some(Entry::compile(&kernel.schema.name, p));
        }
    });
    let entry = Arc::new(made.ok_or_else(|| Error::internal("the host did not run the compilation".into()))??);
    cache::insert(key, entry.clone());
    Ok(entry)
}

fn launch(
    entry: Arc<Entry>,
    kernel: &Kernel,
    args: &[Arg<'_>],
    mut arrays: Arrays,
    host: &dyn Host,
) -> Result<Outcome> {
    let mut slots: SmallVec<[u32; 4]> = SmallVec::new();
    if entry.exe.is_none() {
        // Only tensors without elements: nothing to run.
        return Ok(Outcome { entry, slots });
    }
    let at_once = is_debug() || entry.large;
    if at_once {
        // Before the random state is read: other threads may draw meanwhile.
        queue::wait(host)?;
    }
    let mut inputs: SmallVec<[Arc<DeviceArray>; 4]> = SmallVec::new();
    for input in &entry.inputs {
        inputs.push(match *input {
            Input::Tensor { pos, nth } => match arrays.get_mut(nth as usize).and_then(Option::take) {
                Some(a) => a,
                None => array(slot_of(args, pos).unwrap_or(0))?,
            },
            Input::Number { pos, dtype } => {
                let n = kernel.number(args, pos).ok_or_else(|| Error::internal("a number went missing".into()))?;
                scalars::buffer(n, dtype)?
            }
            Input::Rng(None) => rng::state()?,
            Input::Rng(Some(pos)) => match pos.get(args) {
                Arg::Seed(seed) => rng::seeded(*seed)?,
                _ => return Err(Error::internal("a generator went missing".into())),
            },
        });
    }
    let outputs = entry.sizes.iter().map(|&n| DeviceArray::pending(n)).collect();
    let job = Job { entry: entry.clone(), inputs, outputs };
    queue::submit(job, at_once, host, |job, well| {
        for (output, value) in job.entry.outputs.iter().zip(&job.outputs) {
            slots.push(match output {
                Output::New(_) | Output::Rng(_) if !well => 0,
                Output::New(new) => {
                    let held = Held::Device(value.clone());
                    slots::alloc(Storage { held, dtype: new.dtype, dims: new.natural.clone() })?
                }
                Output::Mutate(pos) => {
                    slots::set(slot_of(args, *pos).unwrap_or(0), Held::Device(value.clone()))?;
                    0
                }
                Output::Rng(None) => {
                    rng::set_state(value.clone())?;
                    0
                }
                Output::Rng(Some(_)) | Output::Check(_) => 0,
            });
        }
        Ok(())
    })?;
    Ok(Outcome { entry, slots })
}

/// Debug waits for all outputs, looks for NaNs when asked to; checks are read or kept for later.
pub(super) fn inspect(job: &Job, debug: bool) -> Result<()> {
    let entry = &job.entry;
    if !(debug || entry.checked) {
        return Ok(());
    }
    for (output, value) in entry.outputs.iter().zip(&job.outputs) {
        if let Output::Check(check) = output {
            checks::submit(value.clone(), &entry.op, check, debug)?;
        }
    }
    if debug {
        for (output, value) in entry.outputs.iter().zip(&job.outputs) {
            value.buffer()?.await_ready()?;
            if CHECK_NAN.load(Ordering::Relaxed)
                && let Output::New(new) = output
            {
                super::nan::check(&entry.op, value, &TensorType::new(new.dtype, &new.natural))?;
            }
        }
    }
    Ok(())
}

/// The device value in a cell. Memory that was never written becomes zeros first.
pub fn array(slot: u32) -> Result<Arc<DeviceArray>> {
    match slots::array(slot) {
        Some(a) => Ok(a),
        None => made_array(slot),
    }
}

/// The value of a cell that holds no array yet, or the error that its reader is told.
#[cold]
fn made_array(slot: u32) -> Result<Arc<DeviceArray>> {
    let held = slots::with(slot, |s| match &s.held {
        Held::Device(a) => Ok(a.clone()),
        other => Err((other.clone(), s.ty())),
    })?;
    match held {
        Ok(a) => Ok(a),
        Err((Held::Uninit, ty)) => {
            let zeros = zeros(&ty)?;
            slots::set(slot, Held::Device(zeros.clone()))?;
            Ok(zeros)
        }
        Err((Held::Donated(message), _)) => Err(donated(&message)),
        Err((Held::Traced { trace, .. }, _)) => Err(super::trace::leaked(trace, slot)),
        Err((Held::Device(_), _)) => Err(Error::internal("a cell changed while it was read".into())),
    }
}

/// The error for a tensor that a jit program was given for good.
pub fn donated(message: &str) -> Error {
    Error::runtime("jit", message.into())
}

/// Zeros, made on the device: host memory of that size may not exist, and the device says so with an error.
fn zeros(ty: &TensorType) -> Result<Arc<DeviceArray>> {
    let mut g = primitives::Graph::new("zeros");
    let v = g.full(ty.dtype, &ty.dims, 0)?;
    g.set_outputs(&[v])?;
    let made = super::disk::executable(&g.to_text())?.run(std::iter::empty(), &[])?;
    let buffer = made.into_iter().next().ok_or_else(|| Error::internal("zeros made nothing".into()))?;
    Ok(DeviceArray::single(buffer, ty.size_bytes() as u64))
}

/// Uploads host bytes as a new value.
pub fn upload(bytes: &[u8], ty: &TensorType) -> Result<Arc<DeviceArray>> {
    let client = pjrt::client()?;
    let device = client.device(0)?;
    let buffer = metrics::TO_DEVICE.time(bytes.len(), || client.buffer_from_host(bytes, ty.dtype, &ty.dims, device))?;
    Ok(DeviceArray::single(buffer, ty.size_bytes() as u64))
}

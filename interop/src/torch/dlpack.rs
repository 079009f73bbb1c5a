//! The DLPack exchange API of torch: reading a tensor's metadata without owning it, and making a tensor over our storage.
//!
//! Structs follow DLPack 1.3. A `pjrt` tensor's data address is no memory: it is `cell << 40 | byte offset`.

use crate::torch::errors::to_py;
use bridge::aten::args::TensorArg;
use bridge::dispatch::slots;
use primitives::DType;
use pyo3::ffi::{PyCapsule_GetPointer, PyObject};
use pyo3::prelude::*;
use std::ffi::c_void;
use std::sync::OnceLock;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Version {
    major: u32,
    minor: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Device {
    pub kind: i32,
    pub id: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct DlType {
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
}

/// `DLTensor`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DlTensor {
    pub data: *mut c_void,
    pub device: Device,
    pub ndim: i32,
    pub dtype: DlType,
    pub shape: *mut i64,
    pub strides: *mut i64,
    pub byte_offset: u64,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct Managed {
    version: Version,
    ctx: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
    flags: u64,
    tensor: DlTensor,
}

/// `DLPackExchangeAPI`.
#[repr(C)]
struct Exchange {
    version: Version,
    previous: *mut c_void,
    allocator: *mut c_void,
    managed_from_py: *mut c_void,
    managed_to_py: unsafe extern "C" fn(*mut Managed, *mut *mut c_void) -> i32,
    borrowed_from_py: unsafe extern "C" fn(*mut c_void, *mut DlTensor) -> i32,
    stream: *mut c_void,
}

struct Table(*const Exchange);
// SAFETY: the table is a constant of torch, never written.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

static EXCHANGE: OnceLock<Table> = OnceLock::new();

/// `kDLExtDev`, which torch uses for PrivateUse1.
pub const EXT_DEV: i32 = 12;
/// `kDLCPU`.
pub const CPU: i32 = 1;
/// Bits of a data address below the cell number.
pub const OFFSET_BITS: u32 = 40;

/// Takes torch's exchange table from its capsule.
pub fn init(capsule: &Bound<'_, PyAny>) -> PyResult<()> {
    // SAFETY: a wrong capsule is refused by name; the right one holds a constant table.
    let table = unsafe { PyCapsule_GetPointer(capsule.as_ptr(), c"dlpack_exchange_api".as_ptr()) };
    if table.is_null() {
        return Err(PyErr::fetch(capsule.py()));
    }
    let _ = EXCHANGE.set(Table(table.cast()));
    Ok(())
}

fn exchange() -> PyResult<&'static Exchange> {
    let table = EXCHANGE.get().ok_or_else(|| {
        pyo3::exceptions::PyRuntimeError::new_err("torch_pjrt: the DLPack exchange API was not handed over")
    })?;
    // SAFETY: set from torch's capsule, a constant that lives as long as torch.
    Ok(unsafe { &*table.0 })
}

/// Metadata of a torch tensor on any device, borrowed from it: valid while the tensor lives and is not resized.
///
/// # Safety
/// `object` is a live Python object and the interpreter's lock is held.
pub unsafe fn borrow(py: Python<'_>, object: *mut PyObject) -> PyResult<DlTensor> {
    let mut t = std::mem::MaybeUninit::<DlTensor>::zeroed();
    // SAFETY: the function fills the struct and returns 0, or raises.
    unsafe {
        if (exchange()?.borrowed_from_py)(object.cast(), t.as_mut_ptr()) != 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(t.assume_init())
    }
}

impl DlTensor {
    pub fn sizes<'a>(&self) -> &'a [i64] {
        // SAFETY: the arrays belong to the tensor, which the caller of `borrow` keeps alive.
        unsafe { slice(self.shape, self.ndim) }
    }

    pub fn strides<'a>(&self) -> &'a [i64] {
        // SAFETY: as for `sizes`.
        unsafe { slice(self.strides, self.ndim) }
    }

    pub fn is_pjrt(&self) -> bool {
        self.device.kind == EXT_DEV
    }

    pub fn is_cpu(&self) -> bool {
        self.device.kind == CPU
    }

    /// The tensor as an argument of an op.
    pub fn arg<'a>(&self) -> Option<TensorArg<'a>> {
        let address = self.data as u64 + self.byte_offset;
        Some(TensorArg {
            slot: (address >> OFFSET_BITS) as u32,
            dtype: dtype_of(self.dtype)?,
            sizes: self.sizes(),
            strides: self.strides(),
            offset: address & ((1 << OFFSET_BITS) - 1),
        })
    }
}

/// # Safety
/// `p` points to `n` values, or `n` is 0.
unsafe fn slice<'a>(p: *mut i64, n: i32) -> &'a [i64] {
    if n == 0 {
        return &[];
    }
    // SAFETY: by the caller.
    unsafe { std::slice::from_raw_parts(p, n as usize) }
}

/// Our dtype for DLPack's.
pub fn dtype_of(t: DlType) -> Option<DType> {
    use DType::*;
    if t.lanes != 1 {
        return None;
    }
    Some(match (t.code, t.bits) {
        (2, 32) => F32,
        (2, 64) => F64,
        (2, 16) => F16,
        (4, 16) => BF16,
        (0, 64) => I64,
        (0, 32) => I32,
        (0, 16) => I16,
        (0, 8) => I8,
        (1, 8) => U8,
        (1, 16) => U16,
        (1, 32) => U32,
        (1, 64) => U64,
        (6, 8) => Bool,
        (5, 64) => C64,
        (5, 128) => C128,
        (10, 8) => F8E4M3FN,
        (12, 8) => F8E5M2,
        _ => return None,
    })
}

/// DLPack's dtype for ours.
pub fn dl_type(d: DType) -> DlType {
    use DType::*;
    let code = match d {
        F16 | F32 | F64 => 2,
        BF16 => 4,
        I8 | I16 | I32 | I64 => 0,
        U8 | U16 | U32 | U64 => 1,
        Bool => 6,
        C64 | C128 => 5,
        F8E4M3FN => 10,
        F8E5M2 => 12,
    };
    DlType { code, bits: (d.size_of() * 8) as u8, lanes: 1 }
}

/// Dims that fit into the struct itself.
const INLINE: usize = 6;

/// What a torch storage owns: nothing but the number of its cell.
#[repr(C)]
struct Owner {
    managed: Managed,
    slot: u32,
    dims: [i64; 2 * INLINE],
    /// Dims of tensors of higher rank.
    spilled: Vec<i64>,
}

unsafe extern "C" fn release(m: *mut Managed) {
    // SAFETY: made by `wrap` from a box, and torch calls this once, when the last alias of the storage dies.
    let owner = unsafe { Box::from_raw((*m).ctx.cast::<Owner>()) };
    slots::free(owner.slot);
}

/// A new torch tensor over the storage in `slot`, owned by the tensor from here on.
pub fn wrap<'py>(
    py: Python<'py>,
    slot: u32,
    dtype: DType,
    sizes: &[i64],
    strides: &[i64],
) -> PyResult<Bound<'py, PyAny>> {
    let n = sizes.len();
    let mut owner = Box::new(Owner {
        managed: Managed {
            version: Version { major: 1, minor: 0 },
            ctx: std::ptr::null_mut(),
            deleter: Some(release),
            flags: 0,
            tensor: DlTensor {
                data: ((slot as u64) << OFFSET_BITS) as *mut c_void,
                device: Device { kind: EXT_DEV, id: 0 },
                ndim: n as i32,
                dtype: dl_type(dtype),
                shape: std::ptr::null_mut(),
                strides: std::ptr::null_mut(),
                byte_offset: 0,
            },
        },
        slot,
        dims: [0; 2 * INLINE],
        spilled: Vec::new(),
    });
    if n <= INLINE {
        owner.dims[..n].copy_from_slice(sizes);
        owner.dims[INLINE..INLINE + n].copy_from_slice(strides);
    } else {
        owner.spilled = sizes.iter().chain(strides).copied().collect();
    }
    let raw = Box::into_raw(owner);
    let mut out = std::ptr::null_mut();
    // SAFETY: `raw` is a live box that torch takes over; on failure it stays ours.
    unsafe {
        (*raw).managed.ctx = raw.cast();
        let dims = if n <= INLINE { (&raw mut (*raw).dims).cast::<i64>() } else { (*raw).spilled.as_mut_ptr() };
        (*raw).managed.tensor.shape = dims;
        (*raw).managed.tensor.strides = dims.add(if n <= INLINE { INLINE } else { n });
        if (exchange()?.managed_to_py)(&raw mut (*raw).managed, &mut out) != 0 {
            release(&raw mut (*raw).managed);
            return Err(PyErr::fetch(py));
        }
        Ok(Bound::from_owned_ptr(py, out.cast()))
    }
}

/// The tensor as an op argument; an error when it is not on `pjrt`.
pub fn pjrt_arg<'a>(op: &str, t: &Bound<'a, PyAny>) -> PyResult<TensorArg<'a>> {
    // SAFETY: a live object, and we hold the interpreter's lock.
    let dl = unsafe { borrow(t.py(), t.as_ptr())? };
    dl.is_pjrt()
        .then(|| dl.arg())
        .flatten()
        .ok_or_else(|| to_py(bridge::Error::type_error(op, "expected a tensor on the pjrt device".into())))
}

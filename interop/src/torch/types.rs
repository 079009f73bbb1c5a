//! torch's singletons (dtypes, memory formats), recognised by address.

use ahash::AHashMap;
use bridge::aten::MemoryFormat;
use primitives::{DType, Precision};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use std::sync::OnceLock;

struct Singletons {
    dtypes: AHashMap<usize, DType>,
    formats: AHashMap<usize, MemoryFormat>,
    get_default_dtype: Py<PyAny>,
    get_matmul_precision: Py<PyAny>,
    /// Types that are certainly tensors.
    tensor_types: [usize; 2],
    result_type: Py<PyAny>,
    /// 0-d CPU tensors of half the size of what Python numbers become.
    probes: [Py<PyAny>; 3],
}

static SINGLETONS: OnceLock<Singletons> = OnceLock::new();

const NAMES: &[(&str, DType)] = &[
    ("bool", DType::Bool),
    ("uint8", DType::U8),
    ("int8", DType::I8),
    ("uint16", DType::U16),
    ("int16", DType::I16),
    ("uint32", DType::U32),
    ("int32", DType::I32),
    ("uint64", DType::U64),
    ("int64", DType::I64),
    ("float16", DType::F16),
    ("bfloat16", DType::BF16),
    ("float32", DType::F32),
    ("float64", DType::F64),
    ("complex64", DType::C64),
    ("complex128", DType::C128),
    ("float8_e4m3fn", DType::F8E4M3FN),
    ("float8_e5m2", DType::F8E5M2),
];

const FORMATS: &[(&str, MemoryFormat)] = &[
    ("contiguous_format", MemoryFormat::Contiguous),
    ("preserve_format", MemoryFormat::Preserve),
    ("channels_last", MemoryFormat::ChannelsLast),
    ("channels_last_3d", MemoryFormat::ChannelsLast3d),
];

/// Looks the singletons up in the module `torch`.
pub fn init(torch: &Bound<'_, PyAny>) -> PyResult<()> {
    let mut dtypes = AHashMap::new();
    for (name, dtype) in NAMES {
        let object = torch.getattr(*name)?;
        dtypes.insert(object.as_ptr() as usize, *dtype);
    }
    let mut formats = AHashMap::new();
    for (name, format) in FORMATS {
        formats.insert(torch.getattr(*name)?.as_ptr() as usize, *format);
    }
    let probe = |name: &str| -> PyResult<Py<PyAny>> {
        let kwargs = pyo3::types::PyDict::new(torch.py());
        kwargs.set_item("dtype", torch.getattr(name)?)?;
        kwargs.set_item("device", "cpu")?;
        Ok(torch.call_method("tensor", (0,), Some(&kwargs))?.unbind())
    };
    let _ = SINGLETONS.set(Singletons {
        dtypes,
        formats,
        tensor_types: [
            torch.getattr("Tensor")?.as_ptr() as usize,
            torch.getattr("nn")?.getattr("Parameter")?.as_ptr() as usize,
        ],
        get_matmul_precision: torch.getattr("get_float32_matmul_precision")?.unbind(),
        get_default_dtype: torch.getattr("get_default_dtype")?.unbind(),
        result_type: torch.getattr("result_type")?.unbind(),
        probes: [probe("int32")?, probe("float32")?, probe("complex64")?],
    });
    Ok(())
}

fn all() -> PyResult<&'static Singletons> {
    SINGLETONS
        .get()
        .ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("torch_pjrt: init was not called with torch"))
}

/// Whether a type is `torch.Tensor` or `Parameter` itself.
pub fn is_tensor_type(address: usize) -> bool {
    SINGLETONS.get().is_some_and(|s| s.tensor_types.contains(&address))
}

/// Our dtype for a `torch.dtype` at this address.
pub fn dtype_at(address: usize) -> Option<DType> {
    SINGLETONS.get()?.dtypes.get(&address).copied()
}

/// Our memory format for a `torch.memory_format` at this address.
pub fn memory_format_at(address: usize) -> Option<MemoryFormat> {
    SINGLETONS.get()?.formats.get(&address).copied()
}

/// `torch.get_default_dtype()`.
pub fn default_dtype(py: Python<'_>) -> PyResult<DType> {
    let object = all()?.get_default_dtype.bind(py).call0()?;
    dtype_at(object.as_ptr() as usize).ok_or_else(|| pyo3::exceptions::PyTypeError::new_err("unknown default dtype"))
}

/// `torch.get_float32_matmul_precision()`: how many bits of f32 a matrix unit may drop.
pub fn matmul_precision(py: Python<'_>) -> PyResult<Precision> {
    let name = all()?.get_matmul_precision.bind(py).call0()?;
    Ok(match name.extract::<PyBackedStr>()?.as_ref() {
        "medium" => Precision::Default,
        "high" => Precision::High,
        _ => Precision::Highest,
    })
}

/// Whether a 0-d CPU tensor is a Python number that torch wrapped. Python cannot ask for the flag, but promotion shows
/// it: only a wrapped number gives way to a smaller 0-d tensor of its own category.
pub fn is_wrapped_number(tensor: &Bound<'_, PyAny>, dtype: DType) -> PyResult<bool> {
    let s = all()?;
    let probe = match dtype {
        DType::I64 => &s.probes[0],
        DType::F64 => &s.probes[1],
        DType::C128 => &s.probes[2],
        _ => return Ok(false),
    };
    let py = tensor.py();
    let result = s.result_type.bind(py).call1((probe.bind(py), tensor))?;
    Ok(dtype_at(result.as_ptr() as usize) != Some(dtype))
}

//! Runs a program on the installed plugin and compares with plain Rust.
//!
//! The plugin is the one that `TORCH_PJRT_PLUGIN` or `PJRT_DEVICE` names, else the best one installed where the other
//! tests look too, or in the active Python environment. Without one the tests print why and pass, but under
//! `make test-rust`.
#![allow(dead_code, reason = "each test binary uses a part")]

#[path = "../common/mod.rs"]
pub mod common;

use std::sync::OnceLock;

use bridge::pjrt::{
    Buffer, Client, CompileOptions, NamedValue, Platform, client, select, set_client_options, set_search_roots,
};
use primitives::{DType, Graph, Number, Result, TensorType, Value};

pub type Region<'a> = &'a dyn Fn(&mut Graph, &[Value]) -> Result<Vec<Value>>;

pub fn device() -> Option<&'static Client> {
    static FOUND: OnceLock<Option<&'static Client>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        if !common::roots().is_empty() {
            set_search_roots(common::roots());
        }
        // Collectives need several devices; only CPU plugins can be given more than the machine has.
        if select().is_ok_and(|choice| choice.plugin.platform == Platform::Cpu) {
            set_client_options(vec![("cpu_device_count".into(), NamedValue::Int(4))]).unwrap();
        }
        match client() {
            Ok(client) => Some(client),
            Err(e) => {
                common::missing(&format!("PJRT plugin to run on: {e}"));
                None
            }
        }
    })
}

/// Whether the machine has too few devices, and says so. A CPU plugin was asked for enough of them.
pub fn lacks_devices(client: &Client, needed: usize) -> bool {
    let (has, platform) = (client.num_addressable(), client.platform_name());
    assert!(has >= needed || platform != "cpu", "{has} devices of {platform}, expected {needed}");
    if has < needed {
        println!("skipped: needs {needed} devices, {platform} has {has}");
    }
    has < needed
}

/// An array on the host.
#[derive(Clone, Debug, PartialEq)]
pub struct Arr {
    pub dtype: DType,
    pub dims: Vec<i64>,
    pub data: Vec<Number>,
}

impl Arr {
    /// From numbers that are rounded to `dtype`.
    pub fn new<N: Into<Number> + Copy>(dtype: DType, dims: &[i64], data: &[N]) -> Arr {
        assert_eq!(dims.iter().product::<i64>(), data.len() as i64);
        let round = |n: &N| Number::from_bytes(dtype, &(*n).into().to_bytes(dtype));
        Arr { dtype, dims: dims.to_vec(), data: data.iter().map(round).collect() }
    }

    pub fn f32(dims: &[i64], data: &[f64]) -> Arr {
        Arr::new(DType::F32, dims, data)
    }

    pub fn i32(dims: &[i64], data: &[i64]) -> Arr {
        Arr::new(DType::I32, dims, data)
    }

    pub fn bools(dims: &[i64], data: &[bool]) -> Arr {
        Arr::new(DType::Bool, dims, data)
    }

    /// Numbers that look random but are the same in every run: multiples of 1/8 in (-4, 4), or small integers.
    pub fn mixed(dtype: DType, dims: &[i64]) -> Arr {
        let n: i64 = dims.iter().product();
        let mut x = 12345u64;
        let mut next = || {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((x >> 33) % 63) as i64 - 31
        };
        let data: Vec<Number> = (0..n)
            .map(|_| match next() {
                i if dtype.is_bool() => Number::Bool(i % 2 != 0),
                i if dtype.is_unsigned_int() => Number::Int(i.abs()),
                i if dtype.is_int() => Number::Int(i),
                i if dtype.is_complex() => Number::Complex(i as f64 / 8.0, next() as f64 / 8.0),
                i => Number::Float(i as f64 / 8.0),
            })
            .collect();
        Arr::new(dtype, dims, &data)
    }

    /// An array whose elements are computed from their index.
    pub fn from_fn<N: Into<Number> + Copy>(dtype: DType, dims: &[i64], f: impl FnMut(&[i64]) -> N) -> Arr {
        let mut f = f;
        let data: Vec<N> = indices(dims).iter().map(|i| f(i)).collect();
        Arr::new(dtype, dims, &data)
    }

    pub fn map(&self, dtype: DType, f: impl Fn(f64) -> f64) -> Arr {
        let data: Vec<f64> = self.data.iter().map(|n| f(n.as_f64())).collect();
        Arr::new(dtype, &self.dims, &data)
    }

    pub fn at(&self, index: &[i64]) -> Number {
        assert_eq!(index.len(), self.dims.len());
        let mut flat = 0;
        for (i, d) in index.iter().zip(&self.dims) {
            assert!(*i >= 0 && i < d, "{index:?} in {:?}", self.dims);
            flat = flat * d + i;
        }
        self.data[flat as usize]
    }

    pub fn f(&self, index: &[i64]) -> f64 {
        self.at(index).as_f64()
    }

    pub fn bytes(&self) -> Vec<u8> {
        let size = self.dtype.size_of();
        self.data.iter().flat_map(|n| n.to_bytes(self.dtype)[..size].to_vec()).collect()
    }

    pub fn ty(&self) -> TensorType {
        TensorType::new(self.dtype, &self.dims)
    }
}

/// All indices of an array in row-major order.
pub fn indices(dims: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![vec![]];
    for d in dims {
        all = all.iter().flat_map(|i: &Vec<i64>| (0..*d).map(move |x| [&i[..], &[x]].concat())).collect();
    }
    all
}

/// Builds, compiles and runs a program with these inputs. `None` where there is no plugin.
pub fn run(inputs: &[Arr], build: impl FnOnce(&mut Graph, &[Value]) -> Result<Vec<Value>>) -> Option<Vec<Arr>> {
    Some(run_on(&[inputs.to_vec()], &CompileOptions::default(), build)?.swap_remove(0))
}

/// Runs a program on several devices, with inputs and outputs per device. `None` where there are not enough.
pub fn run_on(
    inputs: &[Vec<Arr>],
    options: &CompileOptions,
    build: impl FnOnce(&mut Graph, &[Value]) -> Result<Vec<Value>>,
) -> Option<Vec<Vec<Arr>>> {
    let client = device()?;
    if lacks_devices(client, inputs.len()) {
        return None;
    }
    let mut g = Graph::new("test");
    if inputs.len() > 1 {
        g.set_partitions(options.num_partitions, options.num_replicas);
    }
    let params: Vec<Value> = inputs[0].iter().map(|a| g.parameter(a.ty())).collect();
    let outputs = build(&mut g, &params).unwrap();
    g.set_outputs(&outputs).unwrap();
    let text = g.to_text();
    let exe = client.compile(&text, options).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let buffers: Vec<Vec<Buffer>> = inputs
        .iter()
        .enumerate()
        .map(|(n, arrays)| {
            let device = client.device(n).unwrap();
            arrays.iter().map(|a| client.buffer_from_host(&a.bytes(), a.dtype, &a.dims, device).unwrap()).collect()
        })
        .collect();
    let lists: Vec<Vec<&Buffer>> = buffers.iter().map(|list| list.iter().collect()).collect();
    let lists: Vec<&[&Buffer]> = lists.iter().map(Vec::as_slice).collect();
    let results = exe.execute_sharded(&lists, &[], None).unwrap();
    let read = |(v, buffer): (&Value, &Buffer)| {
        let dtype = g.dtype(*v);
        let dims = buffer.dims().unwrap().to_vec();
        // The partitioner may cut an output; otherwise the type rule has to agree with the compiler.
        if options.num_partitions == 1 {
            assert_eq!(dims[..], g.dims(*v)[..], "the plugin's shape of an output\n{text}");
        }
        let mut bytes = vec![0u8; buffer.size_bytes().unwrap()];
        buffer.to_host(&mut bytes).unwrap();
        let data = bytes.chunks_exact(dtype.size_of()).map(|b| Number::from_bytes(dtype, b)).collect();
        Arr { dtype, dims, data }
    };
    Some(results.iter().map(|list| outputs.iter().zip(list).map(read).collect()).collect())
}

/// Largest relative error that rounding explains, for a few operations in this type.
pub fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 | DType::C128 => 1e-12,
        DType::F32 | DType::C64 => 3e-6,
        DType::F16 => 2e-3,
        DType::BF16 => 1.6e-2,
        _ => 0.0,
    }
}

/// Panics unless types agree and elements are equal up to rounding; NaN equals NaN, -0.0 equals 0.0.
pub fn check(what: &str, got: &Arr, want: &Arr) {
    check_within(what, got, want, tolerance(want.dtype));
}

pub fn check_within(what: &str, got: &Arr, want: &Arr, tolerance: f64) {
    assert_eq!((got.dtype, &got.dims), (want.dtype, &want.dims), "{what}");
    let close = |a: f64, b: f64| {
        a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * (1.0 + b.abs()) && (a - b).is_finite()
    };
    for (i, (a, b)) in got.data.iter().zip(&want.data).enumerate() {
        let same = match (a, b) {
            (Number::Complex(ar, ai), Number::Complex(br, bi)) => close(*ar, *br) && close(*ai, *bi),
            (Number::Float(a), Number::Float(b)) => close(*a, *b),
            _ => a == b,
        };
        assert!(same, "{what}: element {i} of {:?} is {a:?}, expected {b:?}", want.dims);
    }
}

/// Runs a program with one output and compares.
pub fn expect(what: &str, inputs: &[Arr], want: &Arr, build: impl FnOnce(&mut Graph, &[Value]) -> Result<Value>) {
    if let Some(got) = run(inputs, |g, p| Ok(vec![build(g, p)?])) {
        check(what, &got[0], want);
    }
}

//! Times the small operations that eager mode is made of, on each CPU plugin given, side by side.
//!
//!     cargo run --release -p torch-pjrt-bridge --example compare_plugins -- PLUGIN[,option=value...] ...
//!
//! Each figure is the median over rounds that take turns between the plugins, so that a busy machine disturbs all alike.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use bridge::pjrt::{Buffer, Client, CompileOptions, ElementType, Executable, NamedValue, OptionValue, Plugin};

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

const ROUNDS: usize = 15;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.is_empty() {
        return Err("give the paths of one or more PJRT CPU plugins, as PLUGIN.so or PLUGIN.so,option=value".into());
    }
    let subjects = arguments.iter().map(|argument| Subject::new(argument)).collect::<Result<Vec<_>>>()?;
    println!("| {:44} |{}", "microseconds", subjects.iter().map(|s| format!(" {:>22} |", s.label)).collect::<String>());
    println!("|---|{}", "---|".repeat(subjects.len()));
    for (name, measure) in ROWS {
        let mut samples = vec![Vec::new(); subjects.len()];
        for _ in 0..ROUNDS {
            for (subject, samples) in subjects.iter().zip(&mut samples) {
                samples.push(measure(subject)?);
            }
        }
        let cells: String = samples.iter_mut().map(|samples| format!(" {:>22.2} |", median(samples))).collect();
        println!("| {name:44} |{cells}");
    }
    for (name, overrides) in OVERRIDES {
        for (size, text) in [("one op", MUL4.to_owned()), ("200 ops", mixed(200))] {
            let mut cells = String::new();
            for subject in &subjects {
                let mut options = CompileOptions::default();
                for (option, value) in *overrides {
                    options = options.with(option, value.clone());
                }
                let mut samples = Vec::new();
                for _ in 0..5 {
                    let start = Instant::now();
                    match subject.client.compile(&text, &options) {
                        Ok(_) => samples.push(start.elapsed().as_secs_f64() * 1e6),
                        Err(_) => break,
                    }
                }
                let cell =
                    if samples.is_empty() { "unknown".to_owned() } else { format!("{:.0}", median(&mut samples)) };
                cells += &format!(" {cell:>22} |");
            }
            println!("| {:44} |{cells}", format!("compile {size}, {name}"));
        }
    }
    Ok(())
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

type Measure = fn(&Subject) -> Result<f64>;

const ROWS: [(&str, Measure); 15] = [
    ("f32[4] mul: call only", |s| s.launches(&s.mul4, &s.vec4, 2, Finish::Later)),
    ("f32[4] mul: call, destroy", |s| s.launches(&s.mul4, &s.vec4, 2, Finish::Drop)),
    ("f32[4] mul: call, await, destroy", |s| s.launches(&s.mul4, &s.vec4, 2, Finish::Await)),
    ("f32[4] exp: call, await, destroy", |s| s.launches(&s.exp4, &s.vec4, 1, Finish::Await)),
    ("100 dependent f32[4] ops, await the last", |s| s.chain(&s.mul4, &s.vec4, 100)),
    ("f32[1024] mul: call, await, destroy", |s| s.launches(&s.mul1k, &s.vec1k, 2, Finish::Await)),
    ("100 dependent f32[1024] ops, await the last", |s| s.chain(&s.mul1k, &s.vec1k, 100)),
    ("20 dependent 64x64 matmuls, await the last", |s| s.chain(&s.dot64, &s.mat64, 20)),
    ("64x64 matmul: call, await, destroy", |s| s.launches(&s.dot64, &s.mat64, 2, Finish::Await)),
    ("256x256 matmul: call, await, destroy", |s| s.launches(&s.dot256, &s.mat256, 2, Finish::Await)),
    ("softmax 64x128: call, await, destroy", |s| s.launches(&s.softmax, &s.rows, 1, Finish::Await)),
    ("host to device, 4 floats, copy", |s| s.uploads()),
    ("read a scalar: await, pointer", |s| s.reads()),
    ("serialize one op", |s| s.timed(20, || s.mul4.serialize().map(drop))),
    ("deserialize one op", |s| s.timed(20, || s.client.deserialize(&s.blob, None).map(drop))),
];

const OVERRIDES: &[(&str, &[(&str, OptionValue)])] = &[
    ("defaults", &[]),
    ("opt level 0", &[("xla_backend_optimization_level", OptionValue::Int(0))]),
    ("opt level 1", &[("xla_backend_optimization_level", OptionValue::Int(1))]),
];

enum Finish {
    /// Collect the outputs and destroy them outside the measured time.
    Later,
    Drop,
    Await,
}

struct Subject {
    label: String,
    client: &'static Client,
    mul4: Executable,
    exp4: Executable,
    mul1k: Executable,
    dot64: Executable,
    dot256: Executable,
    softmax: Executable,
    blob: Vec<u8>,
    vec4: Buffer,
    vec1k: Buffer,
    mat64: Buffer,
    mat256: Buffer,
    rows: Buffer,
}

impl Subject {
    fn new(argument: &str) -> Result<Self> {
        let mut parts = argument.split(',');
        let plugin = Plugin::load(Path::new(parts.next().unwrap_or_default()))?;
        let mut options = vec![("cpu_device_count", NamedValue::Int(1))];
        let mut label = plugin.name();
        for part in parts {
            let (name, value) = part.split_once('=').ok_or("an option is name=value")?;
            options.push((name, value.parse().map_or_else(|_| NamedValue::String(value.into()), NamedValue::Bool)));
            label = format!("{} {part}", &label[..label.len().min(4)]);
        }
        let client = Client::create(plugin, &options)?;
        let compile = |text: &str| client.compile(text, &CompileOptions::default());
        let filled = |dims: &[i64]| {
            let bytes = 0.01f32.to_le_bytes().repeat(dims.iter().product::<i64>() as usize);
            client.buffer_from_host(&bytes, ElementType::F32, dims, client.device(0)?)
        };
        let mul4 = compile(MUL4)?;
        Ok(Self {
            blob: mul4.serialize()?,
            mul4,
            exp4: compile(EXP4)?,
            mul1k: compile(&MUL4.replace("4x", "1024x"))?,
            dot64: compile(&dot(64))?,
            dot256: compile(&dot(256))?,
            softmax: compile(SOFTMAX)?,
            vec4: filled(&[4])?,
            vec1k: filled(&[1024])?,
            mat64: filled(&[64, 64])?,
            mat256: filled(&[256, 256])?,
            rows: filled(&[64, 128])?,
            label: label.chars().take(22).collect(),
            client,
        })
    }

    /// Microseconds of one of `count` runs.
    fn timed(&self, count: usize, mut run: impl FnMut() -> bridge::Result<()>) -> Result<f64> {
        let start = Instant::now();
        for _ in 0..count {
            run()?;
        }
        Ok(start.elapsed().as_secs_f64() * 1e6 / count as f64)
    }

    fn launches(&self, executable: &Executable, input: &Buffer, arity: usize, finish: Finish) -> Result<f64> {
        const COUNT: usize = 500;
        let inputs = [input.raw(); 2];
        let mut kept = Vec::with_capacity(COUNT);
        self.timed(COUNT, || {
            let mut outputs = [std::ptr::null_mut()];
            // SAFETY: the input lives in `self` and has the program's type; the one output is taken over.
            let output = unsafe {
                executable.launch(&inputs[..arity], &[], &mut outputs)?;
                Buffer::from_raw(self.client, outputs[0])
            };
            match finish {
                Finish::Later => kept.push(output),
                Finish::Drop => drop(output),
                Finish::Await => output.await_ready()?,
            }
            Ok(())
        })
    }

    /// Microseconds of the whole chain.
    fn chain(&self, executable: &Executable, input: &Buffer, length: usize) -> Result<f64> {
        self.timed(10, || {
            let mut last: Option<Buffer> = None;
            for _ in 0..length {
                let inputs = [last.as_ref().unwrap_or(input).raw(), input.raw()];
                let mut outputs = [std::ptr::null_mut()];
                // SAFETY: both inputs live until after the launch; the one output is taken over.
                last = Some(unsafe {
                    executable.launch(&inputs, &[], &mut outputs)?;
                    Buffer::from_raw(self.client, outputs[0])
                });
            }
            last.map_or(Ok(()), |last| last.await_ready())
        })
    }

    fn uploads(&self) -> Result<f64> {
        let device = self.client.device(0)?;
        self.timed(500, || self.client.buffer_from_host(&[0; 16], ElementType::F32, &[4], device).map(drop))
    }

    fn reads(&self) -> Result<f64> {
        self.timed(500, || {
            self.vec4.await_ready()?;
            black_box(self.vec4.host_ptr()?);
            Ok(())
        })
    }
}

const MUL4: &str = "module @mul { func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.multiply %a, %b : tensor<4xf32>
  return %0 : tensor<4xf32> } }";

const EXP4: &str = "module @exp { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.exponential %a : tensor<4xf32>
  return %0 : tensor<4xf32> } }";

const SOFTMAX: &str = "module @softmax { func.func public @main(%x: tensor<64x128xf32>) -> tensor<64x128xf32> {
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %m = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<64x128xf32>, tensor<f32>) -> tensor<64xf32>
  %mb = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<64xf32>) -> tensor<64x128xf32>
  %d = stablehlo.subtract %x, %mb : tensor<64x128xf32>
  %e = stablehlo.exponential %d : tensor<64x128xf32>
  %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x128xf32>, tensor<f32>) -> tensor<64xf32>
  %sb = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<64xf32>) -> tensor<64x128xf32>
  %r = stablehlo.divide %e, %sb : tensor<64x128xf32>
  return %r : tensor<64x128xf32> } }";

fn dot(n: usize) -> String {
    let ty = format!("tensor<{n}x{n}xf32>");
    format!(
        "module @dot {{ func.func public @main(%a: {ty}, %b: {ty}) -> {ty} {{
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({ty}, {ty}) -> {ty}
  return %0 : {ty} }} }}"
    )
}

/// A program of `count` ops of several kinds, as a training step has them.
fn mixed(count: usize) -> String {
    let ty = "tensor<64x64xf32>";
    let mut body = String::new();
    for i in 0..count {
        let last = if i == 0 { "%x".to_owned() } else { format!("%v{}", i - 1) };
        body += &match i % 5 {
            0 => format!(
                "  %v{i} = stablehlo.dot_general {last}, %x, contracting_dims = [1] x [0] : ({ty}, {ty}) -> {ty}\n"
            ),
            1 => format!("  %v{i} = stablehlo.tanh {last} : {ty}\n"),
            2 => format!("  %v{i} = stablehlo.add {last}, %x : {ty}\n"),
            3 => format!("  %v{i} = stablehlo.transpose {last}, dims = [1, 0] : ({ty}) -> {ty}\n"),
            _ => format!(
                "  %r{i} = stablehlo.reduce({last} init: %zero) applies stablehlo.add across dimensions = [1] : ({ty}, tensor<f32>) -> tensor<64xf32>\n  \
                 %v{i} = stablehlo.broadcast_in_dim %r{i}, dims = [0] : (tensor<64xf32>) -> {ty}\n"
            ),
        };
    }
    format!(
        "module @mixed {{ func.func public @main(%x: {ty}) -> {ty} {{\n  %zero = stablehlo.constant dense<0.0> : tensor<f32>\n{body}  return %v{} : {ty} }} }}",
        count - 1
    )
}

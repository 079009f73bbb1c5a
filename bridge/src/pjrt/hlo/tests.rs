//! Modules made by hand, byte by byte, since a plugin makes each kind of attribute in its own time.

use super::{cost, text};

/// A field on the wire.
fn field(number: u64, value: impl Into<Value>) -> Vec<u8> {
    match value.into() {
        Value::Int(value) => [varint(number << 3), varint(value as u64)].concat(),
        Value::Bytes(bytes) => [varint(number << 3 | 2), varint(bytes.len() as u64), bytes].concat(),
    }
}

enum Value {
    Int(i64),
    Bytes(Vec<u8>),
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Bytes(value.into())
    }
}

impl From<Vec<u8>> for Value {
    fn from(value: Vec<u8>) -> Self {
        Self::Bytes(value)
    }
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn packed(values: &[i64]) -> Vec<u8> {
    values.iter().flat_map(|&value| varint(value as u64)).collect()
}

const F32: i64 = 11;

fn shape(kind: i64, dims: &[i64]) -> Vec<u8> {
    let order: Vec<i64> = (0..dims.len() as i64).rev().collect();
    [field(2, kind), field(3, packed(dims)), field(5, field(1, packed(&order)))].concat()
}

fn instruction(id: i64, name: &str, opcode: &str, shape: Vec<u8>, operands: &[i64], more: Vec<u8>) -> Vec<u8> {
    let operands = field(36, packed(operands));
    [field(1, name), field(2, opcode), field(3, shape), field(35, id), operands, more].concat()
}

fn computation(id: i64, name: &str, instructions: &[Vec<u8>], root: i64, signature: Vec<u8>) -> Vec<u8> {
    let instructions: Vec<u8> = instructions.iter().flat_map(|one| field(2, one.clone())).collect();
    [field(1, name), instructions, field(4, signature), field(5, id), field(6, root)].concat()
}

/// A module whose entry is one instruction of `opcode` over two parameters of f32[2,3], the second a scalar.
fn one(opcode: &str, result: Vec<u8>, more: Vec<u8>) -> Vec<u8> {
    let body = [
        instruction(1, "x", "parameter", shape(F32, &[2, 3]), &[], field(9, 0)),
        instruction(2, "y", "parameter", shape(F32, &[]), &[], field(9, 1)),
        instruction(3, "out", opcode, result.clone(), &[1, 2], more),
    ];
    let signature =
        [field(1, shape(F32, &[2, 3])), field(1, shape(F32, &[])), field(2, result), field(3, "x"), field(3, "y")];
    let called = [instruction(9, "p", "parameter", shape(F32, &[]), &[], field(9, 0))];
    let called = computation(7, "called", &called, 9, field(2, shape(F32, &[])));
    let entry = computation(8, "main", &body, 3, signature.concat());
    [field(1, "m"), field(2, "main"), field(3, called), field(3, entry), field(6, 8)].concat()
}

fn line(module: &[u8]) -> String {
    let text = text("hlo", module).unwrap();
    let line = text.lines().find(|line| line.contains("ROOT %out")).unwrap();
    line.trim().strip_prefix("ROOT %out = ").unwrap().to_owned()
}

#[test]
fn a_module_as_xla_prints_it() {
    let metadata = field(7, [field(2, "f/add"), field(3, "step.py"), field(4, 12)].concat());
    let more = [field(11, "kLoop"), field(38, packed(&[7])), metadata, field(500, "of a later version")].concat();
    let module = one("fusion", shape(F32, &[2, 3]), more);
    let expected = "HloModule m

%called () -> f32[] {
  ROOT %p = f32[] parameter(0)
}

ENTRY %main (x: f32[2,3], y: f32[]) -> f32[2,3] {
  %x = f32[2,3]{1,0} parameter(0)
  %y = f32[] parameter(1)
  ROOT %out = f32[2,3]{1,0} fusion(f32[2,3]{1,0} %x, f32[] %y), kind=kLoop, calls=%called, \
                    metadata={op_name=\"f/add\" source_file=\"step.py\" source_line=12}
}
";
    assert_eq!(text("hlo", &module).unwrap(), expected);
    assert_eq!(text("hlo_with_config", &field(1, module)).unwrap(), expected);
}

#[test]
fn attributes() {
    let dot = [field(1, packed(&[1])), field(2, packed(&[0]))].concat();
    let dim = |size, low| [field(1, size), field(2, 2), field(3, low), field(4, 1), field(5, 1), field(6, 1)].concat();
    let window = [field(1, dim(3, 1)), field(1, dim(3, 1))].concat();
    let labels = [(7, 0), (8, 1), (3, 1), (4, 0), (9, 0), (10, 1)].map(|(number, value)| field(number, value)).concat();
    let spatial = [11, 6, 12].map(|number| field(number, packed(&[2, 3]))).concat();
    let slice = |start, limit, step| field(17, [field(1, start), field(2, limit), field(3, step)].concat());
    let pad = |low, high, inner| field(1, [field(1, low), field(2, high), field(3, inner)].concat());
    let gather = [field(1, packed(&[1])), field(2, packed(&[0])), field(3, packed(&[0])), field(4, 1)].concat();
    let scatter = [field(1, packed(&[1])), field(2, packed(&[0])), field(3, packed(&[0])), field(4, 1)].concat();
    let group = |ids: &[i64]| field(1, field(1, packed(ids)));
    let iota = field(2, [field(1, 2), field(2, 2), field(3, packed(&[2, 2])), field(4, packed(&[1, 0]))].concat());
    let cases = [
        ("dot", field(30, dot), "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
        ("dot", field(51, field(1, packed(&[2, 0]))), "operand_precision={highest,default}"),
        (
            "convolution",
            [field(15, window), field(16, [labels, spatial].concat())].concat(),
            "window={size=3x3 stride=2x2 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01",
        ),
        ("reduce", [field(14, packed(&[0, 1])), field(38, 7)].concat(), "dimensions={0,1}, to_apply=%called"),
        ("broadcast", vec![], "dimensions={}"),
        ("iota", field(14, packed(&[1])), "iota_dimension=1"),
        ("slice", [slice(0, 2, 1), slice(1, 3, 1)].concat(), "slice={[0:2], [1:3]}"),
        ("slice", [slice(0, 2, 1), slice(1, 3, 2)].concat(), "slice={[0:2:1], [1:3:2]}"),
        ("pad", field(21, [pad(1, -2, 0), pad(0, 0, 3)].concat()), "padding=1_-2x0_0_3"),
        (
            "gather",
            [field(33, gather), field(34, packed(&[1, 3])), field(67, 1)].concat(),
            "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}, \
             indices_are_sorted=true",
        ),
        (
            "scatter",
            [field(48, scatter), field(69, 1), field(38, 7)].concat(),
            "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, \
             unique_indices=true, to_apply=%called",
        ),
        ("compare", [field(63, "LT"), field(72, "TOTALORDER")].concat(), "direction=LT, type=TOTALORDER"),
        ("get-tuple-element", field(13, 2), "index=2"),
        ("while", field(38, packed(&[7, 8])), "condition=%main, body=%called"),
        ("conditional", field(38, packed(&[7, 8])), "branch_computations={%called, %main}"),
        ("custom-call", field(28, "TopK\"K"), "custom_call_target=\"TopK\\\"K\""),
        (
            "all-reduce",
            [field(26, 3), field(87, [group(&[0, 1]), group(&[2, 3])].concat()), field(38, 7)].concat(),
            "channel_id=3, replica_groups={{0,1},{2,3}}, to_apply=%called",
        ),
        ("all-gather", field(87, iota), "replica_groups=[2,2]<=[2,2]T(1,0)"),
        (
            "add",
            field(40, [field(1, 3), field(3, packed(&[2, 1])), field(4, packed(&[0, 1]))].concat()),
            "sharding={devices=[2,1]0,1}",
        ),
        ("add", field(37, packed(&[1])), "control-predecessors={%x}"),
        ("add", field(43, "{\"a\":1}"), "backend_config={\"a\":1}"),
    ];
    for (opcode, more, expected) in cases {
        let operands = "(f32[2,3]{1,0} %x, f32[] %y)";
        assert_eq!(line(&one(opcode, shape(F32, &[4]), more)), format!("f32[4]{{0}} {opcode}{operands}, {expected}"));
    }
}

#[test]
fn values_of_constants() {
    let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let floats = |values: &[f32]| field(8, bytes(values));
    let cases = [
        (F32, vec![], floats(&[1e-7]), "1e-07"),
        (F32, vec![1, 1], floats(&[1e-4]), "{ {0.0001} }"),
        (F32, vec![], floats(&[1e-5]), "1e-05"),
        (1, vec![], field(2, packed(&[1])), "true"),
        (F32, vec![3], floats(&[0.1, -2., f32::INFINITY]), "{0.1, -2, inf}"),
        (4, vec![2, 2], field(4, packed(&[1, -2, 3, 4])), "{ { 1, -2 }, { 3, 4 } }"),
        (1, vec![2], field(2, packed(&[1, 0])), "{1, 0}"),
        (16, vec![1], field(13, vec![0xcd, 0x3d]), "{0.1}"),
        (15, vec![], field(12, bytes(&[1.5, -2.])), "(1.5, -2)"),
        (F32, vec![11], floats(&[0.; 11]), "{...}"),
        (21, vec![1], field(21, vec![1]), "{...}"),
    ];
    for (kind, dims, values, expected) in cases {
        let literal = [field(1, shape(kind, &dims)), values].concat();
        let got = line(&one("constant", shape(kind, &dims), field(8, literal)));
        assert!(got.ends_with(&format!(" constant({expected})")), "{got}");
    }
}

#[test]
fn types() {
    let tiled = [
        field(1, packed(&[0, 1])),
        field(6, field(1, packed(&[8, 128]))),
        field(6, field(1, packed(&[2, 1]))),
        field(8, 1),
    ];
    let tiled = [field(2, 16), field(3, packed(&[2, 3])), field(5, tiled.concat())].concat();
    let bounded = [field(2, F32), field(3, packed(&[4])), field(6, packed(&[1]))].concat();
    let tuple =
        |parts: &[Vec<u8>]| [vec![field(2, 13)], parts.iter().map(|p| field(4, p.clone())).collect()].concat().concat();
    let cases = [
        (tiled, "bf16[2,3]{0,1:T(8,128)(2,1)S(1)}"),
        (bounded, "f32[<=4]"),
        (tuple(&[shape(1, &[]), tuple(&[])]), "(pred[], ())"),
        (tuple(&vec![shape(5, &[]); 6]), "(s64[], s64[], s64[], s64[], s64[], /*index=5*/s64[])"),
        (field(2, 17), "token[]"),
        (field(2, 99), "type99[]"),
    ];
    for (shape, expected) in cases {
        assert_eq!(line(&one("add", shape, vec![])), format!("{expected} add(f32[2,3]{{1,0}} %x, f32[] %y)"));
    }
}

#[test]
fn what_is_no_module_is_an_error() {
    let module = one("add", shape(F32, &[2, 3]), vec![]);
    let got = |format: &str, bytes: &[u8]| text(format, bytes).unwrap_err().to_string();
    // Cut off anywhere: an error or, between two fields, a module that lacks something; never a panic.
    let errors = (0..module.len()).filter(|&end| text("hlo", &module[..end]).is_err()).count();
    assert!(errors > module.len() * 9 / 10, "{errors} of {}", module.len());
    let end = module.len() - 10;
    assert!(
        got("hlo", &module[..end])
            .starts_with(&format!("optimized program: argument `code`: got {end} bytes of format hlo: field 3 has "))
    );
    assert!(got("hlo", &[]).contains("a module without computations"));
    assert!(got("hlo", &[0xff; 12]).contains("a number that does not end"));
    assert!(got("hlo_with_config", &[]).contains("no module in it"));
    let stranger = one("add", shape(F32, &[2, 3]), field(36, packed(&[77])));
    assert!(got("hlo", &stranger).contains("computation main: instruction out: operand 2 has the id 77"));
    assert!(got("hlo", &one("call", shape(F32, &[]), field(38, 77))).contains("it calls 77"));
    assert!(got("mlir", b"ML\xefR rest").contains("MLIR bytecode"));
    assert!(got("other", &[]).contains("a program of format \"other\""));
    assert_eq!(text("mlir", b"module {}").unwrap(), "module {}");
}

#[test]
fn work_is_counted() {
    let counted = |bytes: &[u8]| {
        let cost = cost("hlo", bytes).unwrap();
        [cost["flops"], cost["transcendentals"], cost["bytes accessed"]]
    };
    // `one` hands in f32[2,3] and a scalar: 28 bytes.
    let cases = [
        ("multiply", shape(F32, &[2, 3]), [6., 0., 52.]),
        ("tanh", shape(F32, &[2, 3]), [0., 6., 52.]),
        ("copy", shape(16, &[2, 3]), [0., 0., 40.]),
        ("bitcast", shape(F32, &[6]), [0.; 3]),
        ("custom-call", shape(15, &[4]), [0., 0., 60.]),
    ];
    for (opcode, result, expected) in cases {
        assert_eq!(counted(&one(opcode, result, vec![])), expected, "{opcode}");
    }
    // A fusion reads its large constants from memory, not its small ones; what it computes on the way costs none.
    for (elements, constant) in [(8, 0.), (12, 48.)] {
        let vector = || shape(F32, &[elements]);
        let inside = [
            instruction(11, "p", "parameter", vector(), &[], field(9, 0)),
            instruction(12, "c", "constant", vector(), &[], vec![]),
            instruction(13, "s", "add", vector(), &[11, 12], vec![]),
            instruction(14, "t", "tanh", vector(), &[13], vec![]),
        ];
        let entry = [
            instruction(1, "x", "parameter", vector(), &[], field(9, 0)),
            instruction(2, "f", "fusion", vector(), &[1], field(38, 8)),
        ];
        let module = [
            field(3, computation(7, "main", &entry, 2, vec![])),
            field(3, computation(8, "fused", &inside, 14, vec![])),
            field(6, 7),
        ];
        let n = elements as f64;
        assert_eq!(counted(&module.concat()), [n, n, 8. * n + constant]);
    }
}

#[test]
fn what_cannot_be_counted_is_an_error() {
    let got = |format: &str, bytes: &[u8]| cost(format, bytes).unwrap_err().to_string();
    let module = one("add", shape(F32, &[2, 3]), vec![]);
    let errors = (0..module.len()).filter(|&end| cost("hlo", &module[..end]).is_err()).count();
    assert!(errors > module.len() * 9 / 10, "{errors} of {}", module.len());
    assert!(got("hlo", &one("add", shape(99, &[2]), vec![])).contains("type99 has a size that is not known"));
    assert!(
        got("hlo", &one("call", shape(F32, &[]), field(38, 77))).contains("instruction out: 77 is no computation's")
    );
    let itself = [instruction(1, "c", "call", shape(F32, &[]), &[], field(38, 7))];
    let itself = [field(3, computation(7, "main", &itself, 1, vec![])), field(6, 7)].concat();
    assert!(got("hlo", &itself).contains("computation 7 calls itself"));
    assert!(
        got("hlo", &one("dot", shape(F32, &[]), field(30, field(1, packed(&[5]))))).contains("dim 5 of a value with 2")
    );
    assert!(got("mlir", b"module {}").contains("to count its work"));
}

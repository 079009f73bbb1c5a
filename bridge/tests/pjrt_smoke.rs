use bridge::pjrt::*;
const MUL: &str = "module @mul { func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>) { %0 = stablehlo.multiply %a, %b : tensor<4xf32> return %0 : tensor<4xf32> } }";
fn f32s(v: &[f32]) -> Vec<u8> {
    v.iter().flat_map(|x| x.to_le_bytes()).collect()
}
#[test]
fn smoke() {
    for path in std::env::var("PLUGS").unwrap().split(':') {
        let p = Plugin::load(path.as_ref()).unwrap();
        println!("{p:?} {:x} {:?}", p.hash(), p.attributes());
        let c = Client::create(p, &[]).unwrap();
        println!("{c:?} {:?}", c.device(0));
        let e = c.compile(MUL, &CompileOptions::default()).unwrap();
        println!(
            "{:?} {:?} {:?} {:?}",
            e.output_types(),
            e.cost_analysis(),
            e.memory_analysis(),
            c.device(0).unwrap().memory_stats()
        );
        let a = c.buffer_from_host(&f32s(&[1., 2., 3., 4.]), ElementType::F32, &[4], c.device(0).unwrap()).unwrap();
        let o = e.execute(&[&a, &a]).unwrap();
        let mut out = [0u8; 16];
        o[0].to_host(&mut out).unwrap();
        println!("{out:?} {:?}", o[0]);
        assert_eq!(out.to_vec(), f32s(&[1., 4., 9., 16.]));
        let bytes = e.serialize().unwrap();
        let e2 = c.deserialize(&bytes, None).unwrap();
        println!("{:?} {}", e2.output_types(), bytes.len());
        println!("{:?}", e2.optimized_program().map(|(f, p)| (f, p.len())));
        println!("{:?}", e.execute(&[&a]));
        println!("{:?}", c.compile("garbage", &CompileOptions::default()).err());
    }
}

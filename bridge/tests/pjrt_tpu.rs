use bridge::pjrt::*;
const MUL: &str = "module @mul { func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>) { %0 = stablehlo.multiply %a, %b : tensor<4xf32> return %0 : tensor<4xf32> } }";
#[test]
fn tpu() {
    let t = std::time::Instant::now();
    let p = Plugin::load_for_compiling(std::env::var("PLUGS").unwrap().as_ref()).unwrap();
    println!("{:?}", t.elapsed());
    println!("{:?}", p.attributes());
    let c = compile_for_topology(p, "v5e:2x2", MUL, &CompileOptions::default()).unwrap();
    println!("{:?}", t.elapsed());
    println!(
        "{:?} {:?} {:?} {:?} {:?}",
        c.name(),
        c.output_types(),
        c.cost_analysis(),
        c.memory_analysis(),
        c.serialize().map(|b| b.len())
    );
    println!("{:?}", c.optimized_program().map(|(f, p)| (f, p.len())));
    println!("{:?}", compile_for_topology(p, "v9:2x2", MUL, &CompileOptions::default()).err());
    println!("{:?}", t.elapsed());
    println!("{:?}", Client::create(p, &[]).err());
    println!("{:?}", t.elapsed());
}

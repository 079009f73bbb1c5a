//! The examples run and print what they are for. `cargo test` builds them before it runs this.

mod common;

use std::process::Command;

/// What an example prints, with its arguments, on a plugin that it is told.
fn run(name: &str, arguments: &[&str], plugin: &std::path::Path) -> String {
    let tests = std::env::current_exe().unwrap();
    let program = tests.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(program.exists(), "{} is not built: cargo build -p torch-pjrt-bridge --examples", program.display());
    let done = Command::new(program)
        .args(arguments)
        .env("TORCH_PJRT_PLUGIN", plugin)
        .env_remove("PJRT_DEVICE")
        .env("TF_CPP_MIN_LOG_LEVEL", "3")
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (out, err) = (text(done.stdout), text(done.stderr));
    assert!(done.status.success(), "{name}: {out}{err}");
    out
}

#[test]
fn run_module_prints_its_program_and_the_results() {
    for plugin in common::CPU_PLUGINS {
        let Some(path) = common::library(plugin) else { continue };
        let out = run("run_module", &[], &path);
        assert!(out.starts_with("module @layer {") && out.contains("stablehlo.tanh"), "{out}");
        assert!(out.contains(&format!("on cpu with {}", path.display())), "{out}");
        // tanh of 0.5 * 0.1 - 1.0 * 0.5 + 2.0 * -0.1 + 0.0 = -0.65, and of 0.15 + 0.05 = 0.2 in the second row.
        let rows: Vec<Vec<f32>> = out
            .lines()
            .filter_map(|line| line.split_once(" · w + b) = ["))
            .map(|(_, row)| row.trim_end_matches(']').split(", ").map(|number| number.parse().unwrap()).collect())
            .collect();
        assert_eq!(rows.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4], "{out}");
        assert!((rows[0][0] - (-0.65f32).tanh()).abs() < 1e-6 && (rows[1][0] - 0.2f32.tanh()).abs() < 1e-6, "{out}");
    }
}

#[test]
fn compare_plugins_prints_a_figure_for_each_plugin() {
    let found: Vec<_> = common::CPU_PLUGINS.iter().filter_map(|name| common::library(name)).collect();
    let [first, second] = &found[..] else { return };
    let second_label = format!("{},asynchronous=false", second.display());
    let out = run("compare_plugins", &[&first.display().to_string(), &second_label], first);
    let rows: Vec<Vec<&str>> =
        out.lines().map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect();
    assert_eq!(rows[0][0], "microseconds", "{out}");
    assert!(rows[0][2].contains(" asynchronous="), "{out}");
    // Rows for launches, transfers and serialization, then for compiling; below the heading and its line.
    assert_eq!(rows.len(), 2 + 15 + 6, "{out}");
    for row in &rows[2..] {
        assert_eq!(row.len(), 3, "{out}");
        assert!(row[1..].iter().all(|cell| cell.parse::<f64>().is_ok_and(|figure| figure > 0.)), "{row:?} of {out}");
    }
}

#[test]
fn compare_plugins_without_arguments_says_what_it_wants() {
    let tests = std::env::current_exe().unwrap();
    let program = tests.ancestors().nth(2).unwrap().join("examples/compare_plugins");
    let done = Command::new(program).output().unwrap();
    assert!(!done.status.success());
    assert!(String::from_utf8_lossy(&done.stderr).contains("paths of one or more PJRT CPU plugins"));
}

//! The hand-written structs against a real `pjrt_c_api.h`, as a C compiler lays it out.

mod common;

use std::fmt::Write;
use std::process::Command;

use bridge::pjrt::ffi::{self, PJRT_Buffer_MemoryLayout_Tiled, PJRT_NamedValue};

#[test]
fn structs_have_the_layout_of_the_header() {
    let Some(plugin) = common::library("xla_cpu_pjrt") else { return };
    let include = plugin.parent().unwrap().join("include");
    let folder = std::env::temp_dir().join(format!("torch-pjrt-layout-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, program) = (folder.join("layout.c"), folder.join("layout"));
    let ours = our_layout();
    std::fs::write(&source, c_program(&ours)).unwrap();
    let compiled = Command::new("cc").arg("-I").arg(&include).arg(&source).arg("-o").arg(&program).output();
    let Ok(compiled) = compiled else {
        common::missing("C compiler named cc to lay out the header's structs");
        return;
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let theirs = String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap();
    std::fs::remove_dir_all(folder).unwrap();

    let theirs: Vec<usize> = theirs.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(ours.len(), theirs.len());
    for ((what, ours), theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours, theirs, "{what}");
    }
    println!("{} sizes and offsets agree", ours.len());
}

/// What to compare: a C expression and our value of it.
fn our_layout() -> Vec<(String, usize)> {
    let mut all = Vec::new();
    for layout in ffi::layouts() {
        all.push((format!("{}_STRUCT_SIZE", layout.name), layout.size));
        for (field, offset) in layout.fields {
            let field = field.trim_start_matches("r#");
            all.push((format!("offsetof(struct {}, {field})", layout.name), *offset));
        }
    }
    for (slot, offset) in ffi::SLOTS {
        all.push((format!("offsetof(PJRT_Api, {slot})"), *offset));
    }
    // Members of arrays and unions have no spare room, so their sizes must be the very same.
    all.push(("sizeof(struct PJRT_NamedValue)".to_owned(), size_of::<PJRT_NamedValue>()));
    let (kind, value) = (std::mem::offset_of!(PJRT_NamedValue, r#type), std::mem::offset_of!(PJRT_NamedValue, value));
    all.push(("offsetof(struct PJRT_NamedValue, type)".to_owned(), kind));
    all.push(("offsetof(struct PJRT_NamedValue, string_value)".to_owned(), value));
    let tiled = "struct PJRT_Buffer_MemoryLayout_Tiled";
    all.push((format!("sizeof({tiled})"), size_of::<PJRT_Buffer_MemoryLayout_Tiled>()));
    let tiles = std::mem::offset_of!(PJRT_Buffer_MemoryLayout_Tiled, num_tiles);
    all.push((format!("offsetof({tiled}, num_tiles)"), tiles));
    all
}

fn c_program(layout: &[(String, usize)]) -> String {
    let mut program = "#include <stdio.h>\n#include \"pjrt_c_api.h\"\nint main(void) {\n".to_owned();
    for (expression, _) in layout {
        writeln!(program, "  printf(\"%zu\\n\", (size_t)({expression}));").unwrap();
    }
    program + "  return 0;\n}\n"
}

//! The hot door allocates nothing on our side, and nothing is left behind. Alone in its binary, because it counts all
//! allocations of the process; a plugin's own do not pass through Rust's allocator.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use bridge::pjrt::{Buffer, CompileOptions};
use common::{add, cpu_clients, download, upload};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, data: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(data, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Pages of this process in memory.
fn resident_pages() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0)
}

#[test]
fn launches_allocate_and_leak_nothing() {
    for client in cpu_clients() {
        let program = client.compile(add(""), &CompileOptions::default()).unwrap();
        let one = upload(client, &[1.; 4]);
        let launches = |count: usize| {
            let mut sum: Option<Buffer> = None;
            for _ in 0..count {
                let inputs = [sum.as_ref().unwrap_or(&one).raw(), one.raw()];
                let mut outputs = [std::ptr::null_mut()];
                // SAFETY: the inputs live and have the program's types; the output is taken over.
                sum = Some(unsafe {
                    program.launch(&inputs, &[], &mut outputs).unwrap();
                    Buffer::from_raw(client, outputs[0])
                });
                sum.as_ref().unwrap().await_ready().unwrap();
            }
            sum.unwrap()
        };
        launches(10_000);
        let (pages, before) = (resident_pages(), ALLOCATIONS.load(Ordering::Relaxed));
        let sum = launches(50_000);
        assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), before, "a launch, a wait or a drop allocated");
        // 50,000 leaked buffers of even 64 bytes would be 780 pages.
        let grown = resident_pages().saturating_sub(pages);
        assert!(grown < 256, "grew by {grown} pages");
        assert_eq!(download(&sum), [50_001.; 4]);
    }
}

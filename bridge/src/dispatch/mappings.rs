//! Room for the code of compiled programs.
//!
//! A CPU plugin maps the code of each program into memory, four mappings and more for each. On Linux a process has a
//! bounded number of mappings (`vm.max_map_count`), and LLVM ends the process when it gets no more. So before that point
//! the programs that were not used for longest go. Where `/proc` does not say, there is no such bound.

use super::cache;
use std::fs;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most mappings that a program is taken to need.
const FOR_ONE: usize = 64;

/// Programs that may be made before the mappings are counted again: counting takes as long as there are many.
static UNCOUNTED: AtomicUsize = AtomicUsize::new(0);

/// Three quarters of what the system allows; the rest is for what others map.
static BOUND: LazyLock<Option<usize>> = LazyLock::new(|| {
    let limit = fs::read_to_string("/proc/sys/vm/max_map_count").ok()?;
    limit.trim().parse::<usize>().ok().map(|n| n / 4 * 3)
});

fn count() -> Option<usize> {
    let maps = fs::read("/proc/self/maps").ok()?;
    Some(maps.iter().filter(|&&byte| byte == b'\n').count())
}

/// To be called before a program is made.
pub fn make_room() {
    let take = |n: usize| n.checked_sub(1);
    if UNCOUNTED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
        return;
    }
    let (Some(bound), Some(mapped)) = (*BOUND, count()) else {
        return UNCOUNTED.store(usize::MAX, Ordering::Relaxed);
    };
    if mapped >= bound {
        cache::drop_half();
    }
    UNCOUNTED.store((bound.saturating_sub(mapped) / FOR_ONE).max(FOR_ONE), Ordering::Relaxed);
}

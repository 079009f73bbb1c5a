//! Compiled programs in memory: bounded, least recently used out first, counted.

use super::disk;
use super::program::{Input, Output, Program, ResultSlot};
use crate::Result;
use crate::pjrt::Executable;
use ahash::AHashMap;
use parking_lot::RwLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

/// A compiled program with everything that a launch needs.
pub struct Entry {
    pub op: String,
    /// `None` when every result is without elements.
    pub exe: Option<Executable>,
    pub inputs: Vec<Input>,
    pub outputs: Vec<Output>,
    /// Bytes of each output.
    pub sizes: Vec<u64>,
    pub results: Vec<ResultSlot>,
    pub donated: Vec<usize>,
    /// Worth letting other threads run meanwhile.
    pub heavy: bool,
    /// Makes so much that its caller should learn at once that there is no room for it.
    pub large: bool,
    /// Has an output that reports an offence.
    pub checked: bool,
    used: AtomicU64,
}

/// Programs that touch this many bytes may run long enough for other threads to have a turn.
const HEAVY_FROM: u64 = 1 << 17;
/// Results of this many bytes are made on the caller's own thread.
const LARGE_FROM: u64 = 1 << 28;

impl Entry {
    /// What a traced call returns: it describes the results, and has no program of its own.
    pub fn description(op: &str, outputs: Vec<Output>, results: Vec<ResultSlot>) -> Self {
        Self {
            op: op.to_owned(),
            exe: None,
            inputs: Vec::new(),
            sizes: Vec::new(),
            outputs,
            results,
            donated: Vec::new(),
            heavy: false,
            large: false,
            checked: false,
            used: AtomicU64::new(0),
        }
    }

    /// Compiles a program, or loads it from disk.
    pub fn compile(op: &str, program: Program) -> Result<Self> {
        let checked = program.outputs.iter().any(|o| matches!(o, Output::Check(_)));
        let exe = if program.outputs.is_empty() { None } else { Some(disk::executable(&program.graph.to_text())?) };
        let size = |&v| program.graph.ty(v).size_bytes() as u64;
        let sizes: Vec<u64> = program.graph.outputs().iter().map(size).collect();
        let made: u64 = sizes.iter().sum();
        let bytes = program.graph.params().iter().map(size).sum::<u64>() + made;
        let random = program.inputs.iter().any(|i| matches!(i, Input::Rng(_)));
        Ok(Self {
            op: op.to_owned(),
            exe,
            heavy: bytes >= HEAVY_FROM && program.donated.is_empty() && !random,
            checked,
            large: made >= LARGE_FROM,
            sizes,
            inputs: program.inputs,
            outputs: program.outputs,
            results: program.results,
            donated: program.donated,
            used: AtomicU64::new(0),
        })
    }
}

type Map = AHashMap<Box<[u64]>, Arc<Entry>>;

static MAP: LazyLock<RwLock<Map>> = LazyLock::new(RwLock::default);
static CLOCK: AtomicU64 = AtomicU64::new(0);
static CAPACITY: AtomicUsize = AtomicUsize::new(8192);
static HITS: AtomicU64 = AtomicU64::new(0);
static MISSES: AtomicU64 = AtomicU64::new(0);
static EVICTIONS: AtomicU64 = AtomicU64::new(0);
static EXECUTIONS: AtomicU64 = AtomicU64::new(0);

/// Counts of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub entries: usize,
    pub capacity: usize,
    pub hits: u64,
    pub misses: u64,
    pub evictions: u64,
    pub executions: u64,
}

/// Counts since the process began.
pub fn stats() -> Stats {
    Stats {
        entries: MAP.read().len(),
        capacity: CAPACITY.load(Ordering::Relaxed),
        hits: HITS.load(Ordering::Relaxed),
        misses: MISSES.load(Ordering::Relaxed),
        evictions: EVICTIONS.load(Ordering::Relaxed),
        executions: EXECUTIONS.load(Ordering::Relaxed),
    }
}

/// Counts one execution.
pub fn count_execution() {
    EXECUTIONS.fetch_add(1, Ordering::Relaxed);
}

/// The program for a key, marked as used now.
pub fn lookup(key: &[u64]) -> Option<Arc<Entry>> {
    let found = MAP.read().get(key).cloned();
    match &found {
        Some(e) => {
            HITS.fetch_add(1, Ordering::Relaxed);
            e.used.store(CLOCK.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        }
        None => {
            MISSES.fetch_add(1, Ordering::Relaxed);
        }
    }
    found
}

/// Adds a program; beyond the capacity the least recently used eighth goes.
pub fn insert(key: &[u64], entry: Arc<Entry>) {
    entry.used.store(CLOCK.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    let mut map = MAP.write();
    map.insert(key.into(), entry);
    let capacity = CAPACITY.load(Ordering::Relaxed);
    if map.len() > capacity {
        let surplus = (map.len() - capacity).max(capacity / 8);
        let dropped = drop_oldest(&mut map, surplus);
        drop(map);
        drop(dropped);
    }
}

/// Drops the half of the programs that were not used for longest.
pub fn drop_half() {
    let mut map = MAP.write();
    let half = map.len().div_ceil(2);
    let dropped = drop_oldest(&mut map, half);
    drop(map);
    drop(dropped);
}

/// Takes out the `n` programs that were not used for longest, but for one. They end with what is returned, when no
/// other thread waits for the lock any more: to unload many takes time.
fn drop_oldest(map: &mut Map, n: usize) -> Vec<Arc<Entry>> {
    let mut ages: Vec<u64> = map.values().map(|e| e.used.load(Ordering::Relaxed)).collect();
    ages.sort_unstable();
    let Some(&cut) = ages.get(n.min(ages.len().saturating_sub(1))) else { return Vec::new() };
    let dropped: Vec<_> = map.extract_if(|_, e| e.used.load(Ordering::Relaxed) < cut).map(|(_, e)| e).collect();
    EVICTIONS.fetch_add(dropped.len() as u64, Ordering::Relaxed);
    dropped
}

/// Sets the number of programs kept (at least 1).
pub fn set_capacity(n: usize) {
    CAPACITY.store(n.max(1), Ordering::Relaxed);
}

/// Forgets all programs in memory.
pub fn clear() {
    MAP.write().clear();
}

//! The launch queue: a thread of its own launches the programs of eager ops, in the order of their calls, while the
//! caller goes on to the next op. A plugin needs microseconds for a launch, and a CPU plugin runs the program in it.
//!
//! A call's results exist at once, as values that are still pending; whoever reads one waits for it. An op that fails
//! here fails what depends on it, and its error is raised by the next read or synchronize.
//!
//! The thread costs a wake-up, so it comes in only for a run of calls that nobody reads the results of: the first ones
//! after a pause run on the caller's own thread. When it has had nothing to do for a while, it sleeps.

use super::cache::{self, Entry};
use super::eager::{self, Host};
use super::slots::DeviceArray;
use super::{checks, metrics};
use crate::pjrt::{Buffer, is_forked_child};
use crate::{Error, Result};
use parking_lot::{Condvar, Mutex};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// A launch with all that it needs. It keeps its inputs alive.
pub struct Job {
    pub entry: Arc<Entry>,
    pub inputs: SmallVec<[Arc<DeviceArray>; 4]>,
    pub outputs: SmallVec<[Arc<DeviceArray>; 2]>,
}

/// Who may launch: the queue's thread while it is awake, or a caller while it sleeps.
static RUN: Mutex<()> = Mutex::new(());
static JOBS: LazyLock<Mutex<VecDeque<Job>>> = LazyLock::new(Mutex::default);
/// The thread sleeps, or was never started.
static ASLEEP: AtomicBool = AtomicBool::new(true);
/// Whether there is a thread, which the first hand-over starts.
static STARTED: LazyLock<bool> =
    LazyLock::new(|| std::thread::Builder::new().name("pjrt-launch".into()).spawn(serve).is_ok());
static WAKE: Condvar = Condvar::new();
/// Jobs handed over, and jobs done. The first is written under the lock of [`JOBS`].
static QUEUED: AtomicU64 = AtomicU64::new(0);
static DONE: AtomicU64 = AtomicU64::new(0);
/// Callers that sleep until a job is done.
static WAITERS: AtomicU32 = AtomicU32::new(0);
static WAITING: Mutex<()> = Mutex::new(());
static PROGRESS: Condvar = Condvar::new();
/// Launches on callers' threads since somebody last waited for the queue, as every read does.
static STREAK: AtomicU32 = AtomicU32::new(0);

/// From this launch on, a run of launches without a read is handed to the thread.
const LONG: u32 = 6;
/// Jobs past this number make the caller wait, so that it cannot run ahead without end.
const LIMIT: u64 = 1024;
/// How long a thread spins before it sleeps.
const SPIN: Duration = Duration::from_micros(60);

/// How many launches of a run stay on the caller's thread; `None` for all. `TORCH_PJRT_LAUNCH=inline` or `=thread` set
/// it to all or none of them; a machine with one core has no second thread to gain from.
static OWN: LazyLock<Option<u32>> = LazyLock::new(|| match std::env::var("TORCH_PJRT_LAUNCH").as_deref() {
    Ok("inline") => None,
    Ok("thread") => Some(0),
    _ => std::thread::available_parallelism().is_ok_and(|n| n.get() > 1).then_some(LONG),
});

/// Waits while too many jobs wait. A call does so before it reads any cell: meanwhile other threads run, and what they
/// write (the random state above all) must be seen.
pub fn make_room(host: &dyn Host) {
    let queued = QUEUED.load(Ordering::Relaxed);
    if queued.saturating_sub(DONE.load(Ordering::Relaxed)) > LIMIT && !is_forked_child() {
        host.unlocked(&mut || wait_until(|| DONE.load(Ordering::Acquire) >= queued - LIMIT / 2));
    }
}

/// Runs `job`, now or later; who wants it `at_once` has called [`wait`] before reading its inputs. `publish` puts its
/// outputs where others find them: after the program has run, or together with the hand-over, so that nobody can depend
/// on a job that is not in the queue yet. It is told whether all is well: else only what the program writes is wanted.
///
/// # Errors
/// Of a launch on this thread, without a call of `publish`; and of a check.
pub fn submit(job: Job, at_once: bool, host: &dyn Host, publish: impl FnOnce(&Job, bool) -> Result<()>) -> Result<()> {
    if is_forked_child() {
        return Err(Error::Forked);
    }
    let Some(own) = OWN.filter(|_| !at_once) else {
        return run_here(job, host, publish);
    };
    if ASLEEP.load(Ordering::Acquire)
        && STREAK.load(Ordering::Relaxed) < own
        && let Some(_turn) = RUN.try_lock()
    {
        STREAK.fetch_add(1, Ordering::Relaxed);
        return run_here(job, host, publish);
    }
    if !*STARTED {
        // The system has no thread for us: every launch stays here.
        return run_here(job, host, publish);
    }
    let wake = {
        let mut jobs = JOBS.lock();
        // Before the outputs can be seen: whoever sees one must not take the thread for asleep.
        let wake = ASLEEP.swap(false, Ordering::AcqRel);
        if let Err(e) = publish(&job, true) {
            for output in &job.outputs {
                output.fill(Err(e.clone()));
            }
            if wake {
                ASLEEP.store(true, Ordering::Release);
            }
            return Err(e);
        }
        jobs.push_back(job);
        QUEUED.fetch_add(1, Ordering::Release);
        wake
    };
    if wake {
        WAKE.notify_one();
    }
    Ok(())
}

/// Runs a job on this thread, to its error.
fn run_here(job: Job, host: &dyn Host, publish: impl FnOnce(&Job, bool) -> Result<()>) -> Result<()> {
    let mut outs = None;
    // The cells still hold what the outputs replace.
    let mut launch = || outs = Some(launch(&job, 2));
    if job.entry.heavy {
        host.unlocked(&mut launch)
    } else {
        launch()
    }
    let outs = outs.ok_or_else(|| Error::internal("the host did not run the program".into()))??;
    fill(&job, outs);
    let told = eager::inspect(&job, eager::is_debug());
    // Also when a check found an offence: what is written is then what was there, whose memory was given away.
    publish(&job, told.is_ok())?;
    told
}

/// Launches a job's program. `holders` is how many hold a donated input when nobody else wants it.
fn launch(job: &Job, holders: usize) -> Result<SmallVec<[Buffer; 4]>> {
    let entry = &job.entry;
    let exe = entry.exe.as_ref().ok_or_else(|| Error::internal("a job without a program".into()))?;
    let kept: SmallVec<[i64; 4]> =
        entry.donated.iter().filter(|&&i| Arc::strong_count(&job.inputs[i]) > holders).map(|&i| i as i64).collect();
    let mut buffers: SmallVec<[&Buffer; 8]> = SmallVec::new();
    for input in &job.inputs {
        buffers.push(input.buffer()?);
    }
    let start = metrics::EXECUTE.begin();
    let outs = exe.run(buffers.into_iter(), &kept)?;
    metrics::EXECUTE.end(start);
    cache::count_execution();
    Ok(outs)
}

fn fill(job: &Job, outs: SmallVec<[Buffer; 4]>) {
    for (output, buffer) in job.outputs.iter().zip(outs) {
        output.fill(Ok(buffer));
    }
}

/// Runs a job on the queue's thread: nobody waits for its error here.
fn run_queued(job: &Job) {
    // What failed before has been told already.
    let inherited = job.inputs.iter().find_map(|i| i.buffer().err());
    let known = inherited.is_some();
    let run = || inherited.map_or_else(|| launch(job, 1), Err).map(|outs| fill(job, outs));
    let outcome = catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|_| Err(Error::internal(format!("the launch of {} panicked", job.entry.op))));
    let outcome = outcome.map_err(|e| if known { e } else { e.during(&job.entry.op) });
    match outcome {
        Ok(()) => {
            if let Err(e) = eager::inspect(job, false) {
                checks::fail(e);
            }
        }
        Err(e) => {
            if !known {
                checks::fail(e.clone());
            }
            for output in &job.outputs {
                output.fill(Err(e.clone()));
            }
        }
    }
}

/// The queue's thread.
fn serve() {
    let mut batch = VecDeque::new();
    loop {
        let turn = RUN.lock();
        work(&mut batch);
        drop(turn);
        let mut jobs = JOBS.lock();
        if jobs.is_empty() {
            STREAK.store(0, Ordering::Relaxed);
            ASLEEP.store(true, Ordering::Release);
            while jobs.is_empty() {
                WAKE.wait(&mut jobs);
            }
        }
    }
}

/// Runs jobs until there have been none for a while.
fn work(batch: &mut VecDeque<Job>) {
    let mut idle_since = None;
    let mut spins = 0u32;
    loop {
        if QUEUED.load(Ordering::Acquire) != DONE.load(Ordering::Relaxed) {
            std::mem::swap(&mut *JOBS.lock(), batch);
            for job in batch.drain(..) {
                run_queued(&job);
                drop(job);
                DONE.fetch_add(1, Ordering::Release);
                tell_waiters();
            }
            idle_since = None;
            continue;
        }
        spins += 1;
        std::hint::spin_loop();
        if spins.is_multiple_of(64) {
            let now = Instant::now();
            if now - *idle_since.get_or_insert(now) > SPIN {
                return;
            }
            std::thread::yield_now();
        }
    }
}

/// Waits, first awake and then asleep, until `ready`.
fn wait_until(ready: impl Fn() -> bool) {
    let start = Instant::now();
    loop {
        for _ in 0..64 {
            if ready() {
                return;
            }
            std::hint::spin_loop();
        }
        if start.elapsed() > SPIN {
            break;
        }
    }
    // Either the thread sees that somebody waits, or `ready` sees what the thread has done: the fences forbid neither.
    WAITERS.fetch_add(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    let mut lock = WAITING.lock();
    while !ready() {
        PROGRESS.wait(&mut lock);
    }
    drop(lock);
    WAITERS.fetch_sub(1, Ordering::Relaxed);
}

/// Wakes those who sleep in [`wait_until`]: a value that is no job's has come.
pub(super) fn tell_waiters() {
    fence(Ordering::SeqCst);
    if WAITERS.load(Ordering::Relaxed) > 0 {
        drop(WAITING.lock());
        PROGRESS.notify_all();
    }
}

/// [`wait_until`], for something that the queue brings about.
///
/// # Errors
/// In a forked child, where nobody launches.
pub(super) fn wait_for(ready: impl Fn() -> bool) -> Result<()> {
    if is_forked_child() {
        return Err(Error::Forked);
    }
    wait_until(ready);
    Ok(())
}

/// Waits until everything handed over has been launched.
///
/// # Errors
/// In a forked child, where nobody launches.
pub fn wait(host: &dyn Host) -> Result<()> {
    STREAK.store(0, Ordering::Relaxed);
    let target = QUEUED.load(Ordering::Acquire);
    let launched = || DONE.load(Ordering::Acquire) >= target;
    let mut done = Ok(());
    if !launched() {
        host.unlocked(&mut || done = wait_for(launched));
    }
    done
}

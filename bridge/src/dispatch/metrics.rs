//! Counts, bytes and seconds of what the process did with the device, for users who look for torch_xla's metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// One kind of event.
#[derive(Debug, Default)]
pub struct Meter {
    count: AtomicU64,
    nanos: AtomicU64,
    bytes: AtomicU64,
}

/// Launches of programs. Reading the clock twice would be a part of a small op's time, so one in
/// [`SAMPLED`] is timed and stands for all.
pub static EXECUTE: Meter = Meter::new();
/// Copies from host to device.
pub static TO_DEVICE: Meter = Meter::new();
/// Copies from device to host, the wait for the value included.
pub static FROM_DEVICE: Meter = Meter::new();

const SAMPLED: u64 = 16;

impl Meter {
    const fn new() -> Self {
        Self { count: AtomicU64::new(0), nanos: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    /// Runs `f`, which moves `bytes` bytes.
    pub fn time<R>(&self, bytes: usize, f: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = f();
        self.count.fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        result
    }

    /// Counts an event; the clock if it is one to be timed.
    pub fn begin(&self) -> Option<Instant> {
        self.count.fetch_add(1, Ordering::Relaxed).is_multiple_of(SAMPLED).then(Instant::now)
    }

    /// Ends what [`Meter::begin`] began.
    pub fn end(&self, start: Option<Instant>) {
        if let Some(start) = start {
            self.nanos.fetch_add(start.elapsed().as_nanos() as u64 * SAMPLED, Ordering::Relaxed);
        }
    }

    /// Events, seconds and bytes so far.
    pub fn read(&self) -> (u64, f64, u64) {
        let seconds = self.nanos.load(Ordering::Relaxed) as f64 * 1e-9;
        (self.count.load(Ordering::Relaxed), seconds, self.bytes.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::Meter;

    #[test]
    fn meters_add_up() {
        let meter = Meter::default();
        assert_eq!(meter.time(5, || 7), 7);
        meter.time(6, || ());
        let (count, seconds, bytes) = meter.read();
        assert_eq!((count, bytes), (2, 11));
        assert!(seconds > 0.0);
    }

    #[test]
    fn one_event_in_sixteen_is_timed() {
        let meter = Meter::default();
        let timed = (0..32).filter(|_| meter.begin().is_some()).count();
        assert_eq!(timed, 2);
    }
}

//! Checks of values that only the device knows (an index out of range). A program reports one number per check; it is
//! looked at at once when it is ready, else by the next read or synchronize.

use super::eager::Host;
use super::queue;
use super::slots::DeviceArray;
use crate::aten::cx::{NO_OFFENCE, all_content};
use crate::aten::{Check, CheckKind};
use crate::{Error, Result};
use parking_lot::Mutex;
use primitives::{Graph, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

struct Pending {
    value: Arc<DeviceArray>,
    op: String,
    check: Check,
}

static PENDING: Mutex<Vec<Pending>> = Mutex::new(Vec::new());
static FAILED: Mutex<Vec<Error>> = Mutex::new(Vec::new());
static ANY: AtomicBool = AtomicBool::new(false);

/// Pending checks past this number are waited for, so that a long run cannot pile them up.
const LIMIT: usize = 1024;

/// `new` where every one of a program's checks is content, else `old`. The error may surface long after the program has
/// run, and what it was to write must be as before then.
pub(super) fn good_or(g: &mut Graph, checks: impl Iterator<Item = Value>, new: Value, old: Value) -> Result<Value> {
    match all_content(g, checks)? {
        None => Ok(new),
        Some(good) => Ok(g.select(good, new, old)?),
    }
}

/// Looks at a check's value, or keeps it for later.
pub fn submit(value: Arc<DeviceArray>, op: &str, check: &Check, wait: bool) -> Result<()> {
    if wait || value.is_ready()? {
        return look(&value, op, check);
    }
    let full = {
        let mut pending = PENDING.lock();
        pending.push(Pending { value, op: op.to_owned(), check: check.clone() });
        ANY.store(true, Ordering::Release);
        pending.len() >= LIMIT
    };
    if full { settle_launched() } else { Ok(()) }
}

/// Keeps the error of a launch that nobody waited for.
pub(super) fn fail(error: Error) {
    FAILED.lock().push(error);
    ANY.store(true, Ordering::Release);
}

/// Waits for everything launched and every pending check; the first error is raised, the rest are dropped with it.
pub fn settle(host: &dyn Host) -> Result<()> {
    queue::wait(host)?;
    settle_launched()
}

fn settle_launched() -> Result<()> {
    if !ANY.load(Ordering::Acquire) {
        return Ok(());
    }
    let pending = {
        let mut p = PENDING.lock();
        ANY.store(false, Ordering::Release);
        std::mem::take(&mut *p)
    };
    let mut first = std::mem::take(&mut *FAILED.lock()).into_iter().next().map_or(Ok(()), Err);
    for p in pending {
        let r = look(&p.value, &p.op, &p.check);
        if first.is_ok() {
            first = r;
        }
    }
    first
}

fn look(value: &DeviceArray, op: &str, check: &Check) -> Result<()> {
    let mut bytes = [0u8; 8];
    value.buffer()?.to_host(&mut bytes)?;
    offence(i64::from_le_bytes(bytes), op, check)
}

/// The error for a check's value, if it tells of one.
pub fn offence(value: i64, op: &str, check: &Check) -> Result<()> {
    if value == NO_OFFENCE {
        return Ok(());
    }
    let message = check.message.replace("{}", &value.to_string());
    Err(match check.kind {
        CheckKind::Index => Error::index(op, message),
        CheckKind::Runtime => Error::runtime(op, message),
        CheckKind::Value => Error::value(op, message),
        CheckKind::LinAlg => Error::linalg(op, message),
    })
}

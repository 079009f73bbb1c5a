//! Tensors that outlive the trace that made them: they have no value, and say where they were made.

use super::{CURRENT, Trace};
use crate::Error;
use std::sync::Arc;

/// The error for a traced value that is used after its trace ended, or by another thread.
pub fn leaked(trace: u64, slot: u32) -> Error {
    let place = CURRENT.with(|c| match c.try_borrow() {
        Ok(c) => c.as_ref().filter(|t| t.id == trace).and_then(|t| t.inputs.born.get(&slot).cloned()),
        Err(_) => None,
    });
    let place = place.or_else(|| LEAKS.lock().get(&(trace, slot)).cloned()).filter(|p| !p.is_empty());
    let made = place.map(|p| format!(" It was made at {p}.")).unwrap_or_default();
    Error::runtime(
        "jit",
        format!(
            "a tensor that was made while a jit function was traced is used outside of it: its value never existed.{made} \
             Return it from the function instead of keeping it in a variable that jit cannot see"
        ),
    )
}

/// Where cells that outlived their trace were made.
static LEAKS: parking_lot::Mutex<std::collections::BTreeMap<(u64, u32), Arc<str>>> =
    parking_lot::Mutex::new(std::collections::BTreeMap::new());

impl Trace {
    /// Remembers where the cells that stay behind without a value were made, for the error that their use raises.
    pub fn note_leaks(&self, settled: &[u32]) {
        let mut leaks = LEAKS.lock();
        if leaks.len() > 4096 {
            leaks.clear();
        }
        for (&slot, place) in self.inputs.born.iter().filter(|(slot, _)| !settled.contains(slot)) {
            leaks.insert((self.id, slot), place.clone());
        }
    }
}

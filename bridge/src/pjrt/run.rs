//! The dispatcher's way to the hot door: safe, and without an allocation for ordinary programs.

use super::{Buffer, Executable, RawBuffer};
use crate::Result;
use smallvec::SmallVec;
use std::ptr;

impl Executable {
    /// Starts a one-device program whose inputs are known to have the program's types, like [`Executable::launch`].
    /// Inputs at `kept` positions survive a donation.
    pub fn run<'a>(&self, inputs: impl Iterator<Item = &'a Buffer>, kept: &[i64]) -> Result<SmallVec<[Buffer; 4]>> {
        let raw: SmallVec<[RawBuffer; 16]> = inputs.map(Buffer::raw).collect();
        let mut outputs: SmallVec<[RawBuffer; 4]> = SmallVec::from_elem(ptr::null_mut(), self.num_outputs());
        // SAFETY: borrowed buffers are live for the call; there is a place for each output, and each is taken over.
        unsafe {
            self.launch(&raw, kept, &mut outputs)?;
            Ok(outputs.into_iter().map(|p| Buffer::from_raw(self.client(), p)).collect())
        }
    }
}

//! Making the process's client from the environment.

use std::path::Path;

use super::{Client, Plugin};
use crate::{Error, Result};

/// Makes the client that the environment asks for.
pub(super) fn make() -> Result<&'static Client> {
    let path = std::env::var_os("TORCH_PJRT_PLUGIN").ok_or(Error::NoPlugin { roots: Vec::new() })?;
    Client::create(Plugin::load(Path::new(&path))?, &[])
}

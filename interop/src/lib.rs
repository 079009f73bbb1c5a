//! The Python faces of torch_pjrt.

//! ATen op table over StableHLO primitives, the PJRT runtime, and dispatch.

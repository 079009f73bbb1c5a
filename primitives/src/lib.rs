//! StableHLO programs as data.

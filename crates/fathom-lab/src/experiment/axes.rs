//! Axes with names of their own.

/// The axis of variants, which are named by the experiment's author.
pub(crate) const VARIANTS_AXIS: &str = "variants";

/// The axis of `--trace` where the file's variants are about something else than workloads.
pub(crate) const TRACE_AXIS: &str = "trace";

/// The axis of `--on`, where that names several machines, and what a cell's setting of it is
/// called.
pub const MACHINE_AXIS: &str = "on";

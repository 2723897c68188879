//! The bugs: their folders, ground truth, programs and workloads.

pub(crate) mod bug;
pub(crate) mod check;
pub(crate) mod companions;
pub(crate) mod expected;
pub(crate) mod folder;
pub(crate) mod package;
pub(crate) mod program;
pub(crate) mod stacks;
pub(crate) mod workload;

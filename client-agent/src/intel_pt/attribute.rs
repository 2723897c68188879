//! The event that is asked for: the trace, and the records without which it is
//! nobody's.

use super::capability::PtUnit;
use formats::perf_records::SampleId;
use perf_event_open_sys::bindings::perf_event_attr;

/// What each record says of itself.
pub const LAYOUT: SampleId = SampleId(SampleId::TID | SampleId::TIME | SampleId::CPU);

/// The attributes for one processor's event. Kernels before 5.12 know no
/// build-ids in mapping records, and refuse to be asked for them.
pub fn attributes(unit: &PtUnit, build_ids: bool) -> perf_event_attr {
    let mut attr = perf_event_attr {
        type_: unit.event_type,
        size: size_of::<perf_event_attr>() as u32,
        config: unit.config,
        sample_type: LAYOUT.0,
        ..Default::default()
    };
    attr.__bindgen_anon_1.sample_period = 1;
    // Off in the agent, inherited by the command, on from its exec.
    attr.set_disabled(1);
    attr.set_inherit(1);
    attr.set_enable_on_exec(1);
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    attr.set_mmap(1);
    attr.set_mmap2(1);
    attr.set_build_id(build_ids.into());
    attr.set_comm(1);
    attr.set_comm_exec(1);
    attr.set_task(1);
    attr.set_context_switch(1);
    attr.set_sample_id_all(1);
    attr
}

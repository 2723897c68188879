//! This thread, and all that it starts, on one processor, until it is let go.

use anyhow::Result;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

const THIS_THREAD: Pid = Pid::from_raw(0);

pub struct Pinned {
    before: CpuSet,
}

impl Pinned {
    pub fn to_one_processor() -> Result<Pinned> {
        let before = sched_getaffinity(THIS_THREAD)?;
        // The last, because the first has most interrupts to serve.
        let mut allowed = (0..CpuSet::count()).filter(|cpu| before.is_set(*cpu) == Ok(true));
        let mut one = CpuSet::new();
        one.set(allowed.next_back().unwrap_or_default())?;
        sched_setaffinity(THIS_THREAD, &one)?;
        Ok(Pinned { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // The set that it had a moment ago is still allowed.
        let _ = sched_setaffinity(THIS_THREAD, &self.before);
    }
}

//! Bytes of a region → what the process recorded. Pure, and total: a process
//! that has gone wild may have written anything here.

use super::crash::CrashCapture;
use super::lifetimes::{self, FreedRemains};
use super::threads::{self, EndedThreads, ThreadRemains};
use super::words::Words;
use inprocess_layout::{
    CALL_AGENT, CALL_MMAP, CALL_PERF_EVENT_OPEN, CALL_REPLY, CALL_SENDMSG, Control, Header,
    MAPS_BYTES, Region, THREAD_SLOTS, ThreadSlot, WATCH_READY, WATCH_REFUSED,
};
use sketch_model::{
    AimObstacle, Gap, MappingsOf, Pid, ThreadIndex, ThreadLoss, ThreadRecord, WatchCall,
    WatchRefusal,
};
use std::mem::{offset_of, size_of};

/// Whether the runtime has watchpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchState {
    /// It was not asked to, or did not get that far.
    Untried,
    /// Hits come through rings.
    Ready,
    /// Why there are none, in words.
    Refused(WatchRefusal),
}

/// What the runtime says of its watchpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchStatus {
    pub state: WatchState,
    pub armed: u64,
    pub arm_errors: u64,
    pub arms_contended: u64,
    pub arms_over_limit: u64,
    pub arms_sandboxed: u64,
    pub arms_own_stack: u64,
    pub disarms: u64,
    /// They were closed before the run ended.
    pub released: bool,
}

impl WatchStatus {
    /// Whether watchpoints were open to the end, aimed or not.
    pub fn stayed_open(&self) -> bool {
        !self.released && self.state == WatchState::Ready
    }
}

/// What a process left in its region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remains {
    /// The process that recorded; `None` if the runtime was never activated.
    pub pid: Option<Pid>,
    pub threads: Vec<ThreadRecord>,
    pub crash: Option<CrashCapture>,
    /// Bit n: the runtime had a handler for signal n.
    pub handled_signals: u32,
    /// `/proc/self/maps` at activation.
    pub maps: String,
    pub watch: WatchStatus,
    /// Freed blocks; `None` if nobody kept them.
    pub freed: Option<Vec<FreedRemains>>,
    /// Threads that found no slot.
    pub unrecorded_threads: u32,
    pub gaps: Vec<Gap>,
}

impl Remains {
    /// Of a run that left nothing.
    pub fn nothing() -> Remains {
        Remains::read(&[], EndedThreads::default())
    }

    /// `ended` are the threads that ended before the process did.
    pub fn read(region: &[u8], ended: EndedThreads) -> Remains {
        let words = Words(region);
        let header = offset_of!(Region, header);
        let u32_of = |field: usize| words.u32(header + field);
        let mut gaps = Vec::new();

        let forgotten = ended.forgotten;
        let slots = (0..THREAD_SLOTS).filter_map(|number| {
            let at = offset_of!(Region, threads) + number * size_of::<ThreadSlot>();
            threads::read_slot(region.get(at..at + size_of::<ThreadSlot>())?)
        });
        let threads = number(ended.into_threads().chain(slots).collect(), &mut gaps);
        let without = u32_of(offset_of!(Header, threads_without_slot));
        let evicted = u32_of(offset_of!(Header, threads_evicted));
        let slots = THREAD_SLOTS as u32;
        for (count, because) in [
            (without, ThreadLoss::NoRoom { slots }),
            (evicted, ThreadLoss::TooFast),
            (forgotten, ThreadLoss::EndedNotKept),
        ] {
            if count > 0 {
                let count = count.into();
                gaps.push(Gap::ThreadsNotRecorded { count, because });
            }
        }
        let control = offset_of!(Region, control);
        let forbidden = words.u32(control + offset_of!(Control, counter_forbidden)) != 0;
        if forbidden {
            gaps.push(Gap::CounterForbidden);
        }
        let unknown = u32_of(offset_of!(Header, threads_unknown)) != 0;
        if unknown {
            gaps.push(Gap::ThreadIdsUnknown);
        }
        if u32_of(offset_of!(Header, maps_truncated)) != 0 {
            gaps.push(Gap::MappingsCut {
                when: MappingsOf::Start,
                bytes: MAPS_BYTES as u64,
            });
        }
        let crash = CrashCapture::read(words);
        if let Some(crash) = &crash {
            if !crash.complete {
                gaps.push(Gap::CrashCaptureUnfinished);
            }
            if crash.sandboxed {
                gaps.push(Gap::CrashCapturedInSandbox);
            }
            if crash.taken_over {
                gaps.push(Gap::OnlyFirstSignalCaptured);
            }
            if crash.maps_truncated {
                gaps.push(Gap::MappingsCut {
                    when: MappingsOf::Crash,
                    bytes: MAPS_BYTES as u64,
                });
            }
        }
        let maps = words.bytes(
            offset_of!(Region, maps),
            u32_of(offset_of!(Header, maps_length)),
            MAPS_BYTES,
        );
        let pid = u32_of(offset_of!(Header, pid));
        let freed = if pid != 0 {
            lifetimes::read(region, &mut gaps)
        } else {
            None
        };
        Remains {
            freed,
            pid: (pid != 0).then_some(Pid(pid as i32)),
            threads,
            crash,
            handled_signals: u32_of(offset_of!(Header, handled_signals)),
            maps: String::from_utf8_lossy(maps).into_owned(),
            watch: read_watch(words, &mut gaps),
            unrecorded_threads: without
                .saturating_add(evicted)
                .saturating_add(forgotten)
                .saturating_add(unknown.into())
                .saturating_add(forbidden.into()),
            gaps,
        }
    }
}

/// Numbers the threads in the order in which they began to record.
fn number(mut threads: Vec<ThreadRemains>, gaps: &mut Vec<Gap>) -> Vec<ThreadRecord> {
    threads.sort_by_key(|thread| thread.claimed_at);
    let numbered = threads.into_iter().enumerate().map(|(at, thread)| {
        if thread.unfinished > 0 {
            gaps.push(Gap::EventsUnfinished {
                tid: thread.record.tid,
                count: thread.unfinished,
            });
        }
        ThreadRecord {
            index: ThreadIndex(at as u32),
            ..thread.record
        }
    });
    numbered.collect()
}

fn read_watch(words: Words<'_>, gaps: &mut Vec<Gap>) -> WatchStatus {
    let header = offset_of!(Region, header);
    let u64_of = |field: usize| words.u64(header + field);
    let u32_of = |field: usize| words.u32(header + field);
    let state = match u32_of(offset_of!(Header, watch_state)) {
        WATCH_READY => WatchState::Ready,
        WATCH_REFUSED => WatchState::Refused(refusal(
            u32_of(offset_of!(Header, watch_refused_call)),
            words.i32(header + offset_of!(Header, watch_refused_errno)),
        )),
        _ => WatchState::Untried,
    };
    let status = WatchStatus {
        state,
        armed: u64_of(offset_of!(Header, arms)),
        arm_errors: u64_of(offset_of!(Header, arm_errors)),
        arms_contended: u64_of(offset_of!(Header, arms_contended)),
        arms_over_limit: u64_of(offset_of!(Header, arms_over_limit)),
        arms_sandboxed: u64_of(offset_of!(Header, arms_sandboxed)),
        arms_own_stack: u64_of(offset_of!(Header, arms_own_stack)),
        disarms: u64_of(offset_of!(Header, disarms)),
        released: u32_of(offset_of!(Header, watch_released)) != 0,
    };
    for (count, because) in [
        (status.arm_errors, AimObstacle::RefusedByKernel),
        (status.arms_contended, AimObstacle::Contended),
        (status.arms_over_limit, AimObstacle::OverLimit),
        (status.arms_sandboxed, AimObstacle::Sandboxed),
        (status.arms_own_stack, AimObstacle::OwnStack),
    ] {
        if count > 0 {
            gaps.push(Gap::AimsSkipped { count, because });
        }
    }
    status
}

/// What the runtime was refused.
fn refusal(step: u32, errno: i32) -> WatchRefusal {
    let in_program = |call| WatchRefusal::InProgram { call, errno };
    match step {
        CALL_PERF_EVENT_OPEN => in_program(WatchCall::PerfEventOpen),
        CALL_SENDMSG => in_program(WatchCall::Sendmsg),
        CALL_REPLY => WatchRefusal::AgentTooSlow,
        CALL_AGENT => WatchRefusal::AgentRefused,
        CALL_MMAP => WatchRefusal::PageNotMapped,
        _ => WatchRefusal::AtStep { step, errno },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inprocess_layout::{Event, HEAD_EVENTS, KIND_CALL, REGION_SIZE, RING_EVENTS};
    use proptest::prelude::*;

    fn put(region: &mut [u8], at: usize, bytes: &[u8]) {
        region[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// A region in which thread 0 recorded `count` events, numbered by `value`.
    fn region_with(count: u64) -> Vec<u8> {
        let mut region = vec![0; REGION_SIZE];
        let base = offset_of!(Region, threads);
        put(
            &mut region,
            base + offset_of!(ThreadSlot, tid),
            &77u32.to_le_bytes(),
        );
        put(
            &mut region,
            base + offset_of!(ThreadSlot, count),
            &count.to_le_bytes(),
        );
        for index in 0..count {
            let (at, lap) = if index < HEAD_EVENTS as u64 {
                (
                    offset_of!(ThreadSlot, head) + index as usize * size_of::<Event>(),
                    0,
                )
            } else {
                let index = index - HEAD_EVENTS as u64;
                (
                    offset_of!(ThreadSlot, ring)
                        + (index as usize % RING_EVENTS) * size_of::<Event>(),
                    index / RING_EVENTS as u64,
                )
            };
            let kind = KIND_CALL | ((lap & 0xff) as u16) << 8;
            put(
                &mut region,
                base + at + offset_of!(Event, kind),
                &kind.to_le_bytes(),
            );
            put(
                &mut region,
                base + at + offset_of!(Event, value),
                &index.to_le_bytes(),
            );
        }
        region
    }

    #[test]
    fn first_and_last_events_are_kept_and_the_rest_counted() {
        let count = (HEAD_EVENTS + 2 * RING_EVENTS + 7) as u64;
        let remains = Remains::read(&region_with(count), EndedThreads::default());
        let [thread] = remains.threads.as_slice() else {
            panic!("one thread recorded: {:?}", remains.threads.len());
        };
        assert_eq!(thread.tid, 77);
        assert_eq!(thread.head.len(), HEAD_EVENTS);
        assert_eq!(thread.tail.len(), RING_EVENTS);
        assert_eq!(thread.dropped, (RING_EVENTS + 7) as u64);
        assert_eq!(thread.head.first().map(|e| e.value), Some(0));
        assert_eq!(
            thread.tail.first().map(|e| e.value),
            Some(count - RING_EVENTS as u64)
        );
        assert_eq!(thread.tail.last().map(|e| e.value), Some(count - 1));
        assert!(remains.gaps.is_empty());
    }

    #[test]
    fn an_event_of_an_older_lap_is_not_taken_for_a_new_one() {
        let count = (HEAD_EVENTS + RING_EVENTS) as u64;
        let mut region = region_with(count);
        // One more was reserved, but the process died before writing it.
        put(
            &mut region,
            offset_of!(Region, threads) + offset_of!(ThreadSlot, count),
            &(count + 1).to_le_bytes(),
        );
        let remains = Remains::read(&region, EndedThreads::default());
        assert_eq!(remains.threads[0].tail.len(), RING_EVENTS - 1);
        // The one that it would have overwritten, and the one that was not written.
        assert_eq!(remains.threads[0].dropped, 2);
        assert_eq!(remains.gaps, [Gap::EventsUnfinished { tid: 77, count: 1 }]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..9000)) {
            Remains::read(&bytes, EndedThreads::default());
            // The same bytes over the places that hold counts and lengths.
            let mut region = vec![0xff; REGION_SIZE];
            let length = bytes.len().min(region.len());
            region[..length].copy_from_slice(&bytes[..length]);
            Remains::read(&region, EndedThreads::default());
        }
    }
}

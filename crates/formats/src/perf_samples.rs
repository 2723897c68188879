//! Bytes of a perf ring → watchpoint samples. Pure; any bytes give an answer.
//!
//! The format is that of `perf_event_open(2)`, "MMAP layout", for the sample
//! type that the runtime asks for (`WATCH_SAMPLE_TYPE` of the shared memory's layout).
//! Records of kinds that carry nothing for us are skipped by their length.

use crate::cursor::Cursor;
use crate::perf_records::Records;

const PERF_RECORD_LOST: u32 = 2;
const PERF_RECORD_THROTTLE: u32 = 5;
const PERF_RECORD_SAMPLE: u32 = 9;
const PERF_RECORD_LOST_SAMPLES: u32 = 13;
const REGISTERS: usize = 17;
/// A whole sample with `stack` bytes of stack: header, seven words before the
/// registers, the registers with their kind, the stack with its two lengths.
pub const fn sample_bytes(stack: usize) -> usize {
    8 + 6 * 8 + 8 + REGISTERS * 8 + 8 + stack + 8
}

/// One hit, as the kernel sampled it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The id of the event as opened, also for hits of inherited copies.
    pub id: u64,
    pub ip: u64,
    pub pid: i32,
    pub tid: i32,
    /// CLOCK_MONOTONIC, nanoseconds.
    pub time: u64,
    pub address: u64,
    pub cpu: u32,
    /// rax rbx rcx rdx rsi rdi rbp rsp r8 … r15; `None` if the kernel had none.
    pub registers: Option<[u64; 16]>,
    pub stack: Vec<u64>,
}

/// What a stretch of ring held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    pub samples: Vec<Sample>,
    /// Records that the kernel says it could not write.
    pub lost: u64,
    /// How often the kernel stopped an event for hitting too fast.
    pub throttled: u64,
    /// Records that could not be understood.
    pub unreadable: u64,
}

/// Parses whole records, oldest first.
pub fn parse(bytes: &[u8]) -> Contents {
    let mut contents = Contents::default();
    for record in Records::new(bytes) {
        let Ok(record) = record else {
            contents.unreadable += 1;
            break;
        };
        let mut fields = Cursor(record.body);
        let lost = match record.kind {
            PERF_RECORD_SAMPLE => match sample(fields) {
                Some(sample) => {
                    contents.samples.push(sample);
                    Some(0)
                }
                None => None,
            },
            // The event's id comes first.
            PERF_RECORD_LOST => fields.u64().and_then(|_| fields.u64()),
            PERF_RECORD_LOST_SAMPLES => fields.u64(),
            PERF_RECORD_THROTTLE => {
                contents.throttled += 1;
                Some(0)
            }
            _ => Some(0),
        };
        match lost {
            Some(lost) => contents.lost = contents.lost.saturating_add(lost),
            None => contents.unreadable += 1,
        }
    }
    contents
}

fn sample(mut fields: Cursor<'_>) -> Option<Sample> {
    let id = fields.u64()?;
    let ip = fields.u64()?;
    let pid = fields.u32()? as i32;
    let tid = fields.u32()? as i32;
    let time = fields.u64()?;
    let address = fields.u64()?;
    let cpu = fields.u32()?;
    fields.u32()?;
    let abi = fields.u64()?;
    let mut registers = None;
    if abi != 0 {
        let mut all = [0; REGISTERS];
        for register in &mut all {
            *register = fields.u64()?;
        }
        // ax bx cx dx si di bp sp ip r8 … r15: all but ip.
        let mut wanted = [0; 16];
        wanted[..8].copy_from_slice(&all[..8]);
        wanted[8..].copy_from_slice(&all[9..]);
        registers = Some(wanted);
    }
    let reserved = usize::try_from(fields.u64()?).ok()?;
    let mut stack = Vec::new();
    if reserved != 0 {
        let mut bytes = Cursor(fields.bytes(reserved)?);
        let used = fields.u64()?.min(reserved as u64);
        for _ in 0..used / 8 {
            stack.push(bytes.u64()?);
        }
    }
    Some(Sample {
        id,
        ip,
        pid,
        tid,
        time,
        address,
        cpu,
        registers,
        stack,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(kind: u32, body: &[u64]) -> Vec<u8> {
        let size = 8 + 8 * body.len();
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend(((size as u32) << 16).to_le_bytes());
        bytes.extend(body.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    }

    fn sample_body() -> Vec<u64> {
        let mut body = vec![5, 0x40_1000, 11 | 12 << 32, 99, 0x60_0000, 1, 2];
        body.extend(100..117);
        // 32 bytes of stack reserved, 16 of them filled.
        body.extend([32, 0xaa, 0xbb, 0, 0, 16]);
        body
    }

    #[test]
    fn a_sample_is_read_field_by_field() {
        let contents = parse(&record(PERF_RECORD_SAMPLE, &sample_body()));
        let registers = [
            100, 101, 102, 103, 104, 105, 106, 107, 109, 110, 111, 112, 113, 114, 115, 116,
        ];
        assert_eq!(
            contents.samples,
            [Sample {
                id: 5,
                ip: 0x40_1000,
                pid: 11,
                tid: 12,
                time: 99,
                address: 0x60_0000,
                cpu: 1,
                registers: Some(registers),
                stack: vec![0xaa, 0xbb],
            }]
        );
        assert_eq!(contents.unreadable, 0);
    }

    #[test]
    fn losses_are_added_up_and_unknown_records_skipped() {
        let mut bytes = record(PERF_RECORD_LOST, &[1, 40, 0, 0]);
        bytes.extend(record(77, &[1, 2, 3]));
        bytes.extend(record(PERF_RECORD_THROTTLE, &[1, 2, 3]));
        bytes.extend(record(PERF_RECORD_LOST, &[1, 2]));
        bytes.extend(record(PERF_RECORD_SAMPLE, &[1]));
        let contents = parse(&bytes);
        assert_eq!((contents.lost, contents.throttled), (42, 1));
        assert_eq!(contents.unreadable, 1);
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            parse(&bytes);
        }

        #[test]
        fn a_damaged_sample_is_parsed_without_panic(at in 0usize..240, to in any::<u8>()) {
            let mut bytes = record(PERF_RECORD_SAMPLE, &sample_body());
            let at = at % bytes.len();
            bytes[at] = to;
            parse(&bytes);
        }
    }
}

//! Writes `perf.data` as `perf record -e intel_pt//u` does, as a file or as a
//! pipe: the format's second half, written from the kernel's description and
//! not from our reader.

use sketch_model::{PtBuffer, PtRecord, SidebandEvent, SidebandKind};

const INTEL_PT: u32 = 8;
/// IP, TID, TIME, CPU, IDENTIFIER.
const SAMPLE_TYPE: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 16;
/// A record that ends with other fields: no CPU.
const OTHER_SAMPLE_TYPE: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 16;
const ATTR_SIZE: usize = 112;
const TRACE_ID: u64 = 501;
const OTHER_ID: u64 = 777;

pub struct PerfFile {
    records: Vec<u8>,
    features: Vec<(u32, Vec<u8>)>,
}

fn string(text: &str) -> Vec<u8> {
    let padded = (text.len() + 1).next_multiple_of(64);
    let mut out = (padded as u32).to_le_bytes().to_vec();
    out.extend(text.as_bytes());
    out.resize(4 + padded, 0);
    out
}

fn numbers(of: &[u64]) -> Vec<u8> {
    of.iter().flat_map(|n| n.to_le_bytes()).collect()
}

fn ids(of: &[i32]) -> Vec<u8> {
    of.iter().flat_map(|n| n.to_le_bytes()).collect()
}

fn path(text: &str) -> Vec<u8> {
    let mut out = text.as_bytes().to_vec();
    out.resize((text.len() + 1).next_multiple_of(8), 0);
    out
}

fn attr(pmu: u32, config: u64, sample_type: u64) -> Vec<u8> {
    let mut out = vec![0; ATTR_SIZE];
    out[0..4].copy_from_slice(&pmu.to_le_bytes());
    out[4..8].copy_from_slice(&(ATTR_SIZE as u32).to_le_bytes());
    out[8..16].copy_from_slice(&config.to_le_bytes());
    out[16..24].copy_from_slice(&1u64.to_le_bytes());
    out[24..32].copy_from_slice(&sample_type.to_le_bytes());
    // disabled, inherit, exclude_kernel, exclude_hv, sample_id_all
    let flags: u64 = 1 | 1 << 1 | 1 << 5 | 1 << 6 | 1 << 18;
    out[40..48].copy_from_slice(&flags.to_le_bytes());
    out
}

fn attributes() -> [(Vec<u8>, u64); 2] {
    [
        // MTC every 2^3 ticks, as bits 14 to 17 of the configuration say.
        (
            attr(INTEL_PT, 0x300e601 & !(0xf << 14) | 3 << 14, SAMPLE_TYPE),
            TRACE_ID,
        ),
        (attr(1, 9, OTHER_SAMPLE_TYPE), OTHER_ID),
    ]
}

impl PerfFile {
    /// `build_ids` by path, in hex.
    pub fn new(record: &PtRecord, build_ids: &[(String, String)], command: &[&str]) -> Self {
        let mut file = Self {
            records: Vec::new(),
            features: Vec::new(),
        };
        file.info(record);
        for event in &record.sideband {
            file.sideband(event);
        }
        for (index, buffer) in record.buffers.iter().enumerate() {
            file.aux(index, buffer);
        }
        file.describe(record, build_ids, command);
        file
    }

    fn record(&mut self, kind: u32, misc: u16, body: &[u8]) {
        self.records.extend(kind.to_le_bytes());
        self.records.extend(misc.to_le_bytes());
        self.records.extend((body.len() as u16 + 8).to_le_bytes());
        self.records.extend(body);
    }

    fn info(&mut self, record: &PtRecord) {
        let clock = record.clock.unwrap();
        let frequency = record.frequency.unwrap_or_default();
        let mut fields = vec![0; 18];
        fields[0] = u64::from(INTEL_PT);
        fields[1] = u64::from(clock.shift);
        fields[2] = u64::from(clock.mult);
        fields[3] = clock.zero;
        fields[4] = 1;
        fields[5] = 1 << 10;
        fields[6] = 1 << 11;
        fields[9] = 1;
        fields[10] = 1 << 9;
        fields[11] = 0xf << 14;
        fields[12] = u64::from(frequency.counter);
        fields[13] = u64::from(frequency.crystal);
        fields[14] = 1 << 1;
        fields[15] = u64::from(frequency.nominal);
        let body = [ids(&[1, 0]), numbers(&fields)].concat();
        self.record(70, 0, &body);
    }

    fn sideband(&mut self, event: &SidebandEvent) {
        let (pid, tid) = (event.pid, event.tid);
        let (kind, misc, mut body) = match &event.kind {
            SidebandKind::Mapped(it) => {
                let mut body = ids(&[pid, tid]);
                body.extend(numbers(&[it.start.0, it.length, it.file_offset]));
                let mut misc = 2;
                match &it.build_id {
                    Some(id) => {
                        misc |= 1 << 14;
                        let mut bytes = hex::decode(&id.0).unwrap();
                        body.extend([bytes.len() as u8, 0, 0, 0]);
                        bytes.resize(20, 0);
                        body.extend(bytes);
                    }
                    None => body.extend(numbers(&[0x801, 4711, 0])),
                }
                body.extend(ids(&[5, 2]));
                body.extend(path(&it.path));
                (10, misc, body)
            }
            SidebandKind::Comm { name, exec } => {
                let body = [ids(&[pid, tid]), path(name)].concat();
                (3, u16::from(*exec) << 13, body)
            }
            SidebandKind::Fork {
                parent_pid,
                parent_tid,
            } => {
                let body = ids(&[pid, *parent_pid, tid, *parent_tid]);
                (7, 0, [body, numbers(&[0])].concat())
            }
            SidebandKind::Exit => {
                let body = ids(&[pid, pid, tid, tid]);
                (4, 0, [body, numbers(&[0])].concat())
            }
            SidebandKind::ItraceStart => (12, 0, ids(&[pid, tid])),
            SidebandKind::SwitchIn => (15, 2, ids(&[0, 0])),
            SidebandKind::SwitchOut => (15, 2 | 1 << 13, ids(&[0, 0])),
            SidebandKind::Lost(count) => (2, 0, numbers(&[TRACE_ID, *count])),
            SidebandKind::Aux {
                offset,
                size,
                truncated,
                overwritten,
                partial,
            } => {
                let flags = [*truncated, *overwritten, *partial];
                let bits = flags.iter().rev().fold(0, |n, b| n << 1 | u64::from(*b));
                (11, 0, numbers(&[*offset, *size, bits]))
            }
        };
        // Mappings come from the other event, whose records end differently.
        let other = matches!(
            event.kind,
            SidebandKind::Mapped(_) | SidebandKind::Comm { .. }
        );
        body.extend(ids(&[pid, tid]));
        body.extend(numbers(&[event.time_ns.unwrap_or(0)]));
        if !other {
            body.extend(ids(&[event.cpu.map_or(-1, |cpu| cpu as i32), 0]));
        }
        body.extend(numbers(&[if other { OTHER_ID } else { TRACE_ID }]));
        self.record(kind, misc, &body);
    }

    /// In two pieces, as perf writes a buffer that it empties now and then.
    fn aux(&mut self, index: usize, buffer: &PtBuffer) {
        let (first, second) = buffer.bytes.split_at(buffer.bytes.len() / 2);
        for (offset, piece) in [(0, first), (first.len(), second)] {
            let mut body = numbers(&[piece.len() as u64, offset as u64, 0]);
            let cpu = buffer.cpu.map_or(-1, |cpu| cpu as i32);
            body.extend(ids(&[index as i32, buffer.tid.unwrap_or(-1), cpu, 0]));
            self.record(71, 0, &body);
            self.records.extend(piece);
        }
        self.record(68, 0, &[]);
    }

    fn describe(&mut self, record: &PtRecord, build_ids: &[(String, String)], command: &[&str]) {
        let mut of_files = Vec::new();
        for (name, id) in build_ids {
            let mut body = ids(&[-1]);
            let mut id = hex::decode(id).unwrap();
            let length = id.len() as u8;
            id.resize(20, 0);
            body.extend(id);
            body.extend([length, 0, 0, 0]);
            body.extend(path(name));
            of_files.extend([0; 4]);
            of_files.extend((2u16 | 1 << 15).to_le_bytes());
            of_files.extend((body.len() as u16 + 8).to_le_bytes());
            of_files.extend(body);
        }
        let mut words = (command.len() as u32).to_le_bytes().to_vec();
        words.extend(command.iter().flat_map(|word| string(word)));
        self.features = vec![(2, of_files), (3, string("intel-machine"))];
        if let Some(cpu) = record.cpu {
            let text = format!("GenuineIntel,{},{},{}", cpu.family, cpu.model, cpu.stepping);
            self.features.push((9, string(&text)));
        }
        self.features.push((11, words));
    }

    pub fn file(&self) -> Vec<u8> {
        let ids_at = 104;
        let attrs_at = ids_at + 16;
        let data_at = attrs_at + 2 * (ATTR_SIZE + 16);
        let mut out = b"PERFILE2".to_vec();
        let sizes = [104, ATTR_SIZE + 16, attrs_at, 2 * (ATTR_SIZE + 16), data_at];
        out.extend(numbers(&sizes.map(|n| n as u64)));
        out.extend(numbers(&[self.records.len() as u64, 0, 0]));
        let mut bits = [0; 4];
        for (feature, _) in &self.features {
            bits[*feature as usize / 64] |= 1 << (feature % 64);
        }
        out.extend(numbers(&bits));
        for (number, (_, id)) in attributes().iter().enumerate() {
            assert_eq!(out.len(), ids_at + 8 * number);
            out.extend(numbers(&[*id]));
        }
        for (number, (attr, _)) in attributes().iter().enumerate() {
            out.extend(attr);
            out.extend(numbers(&[(ids_at + 8 * number) as u64, 8]));
        }
        assert_eq!(out.len(), data_at);
        out.extend(&self.records);
        let mut at = out.len() + 16 * self.features.len();
        for (_, section) in &self.features {
            out.extend(numbers(&[at as u64, section.len() as u64]));
            at += section.len();
        }
        for (_, section) in &self.features {
            out.extend(section);
        }
        out
    }

    pub fn pipe(&self) -> Vec<u8> {
        let mut head = Self {
            records: b"PERFILE2".to_vec(),
            features: Vec::new(),
        };
        head.records.extend(numbers(&[16]));
        for (attr, id) in attributes() {
            head.record(64, 0, &[attr, numbers(&[id])].concat());
        }
        for (feature, section) in &self.features {
            let body = [numbers(&[u64::from(*feature)]), section.clone()].concat();
            head.record(80, 0, &body);
        }
        [head.records, self.records.clone()].concat()
    }
}

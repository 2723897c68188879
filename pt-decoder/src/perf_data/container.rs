//! The container: header, attributes, features and records of `perf.data`, as a
//! file or as a pipe (`perf record -o -`).
//!
//! Format: `tools/perf/Documentation/perf.data-file-format.txt` of the kernel.
//! Read by ourselves, because crate `linux-perf-data` allocates what lengths in
//! the file ask for, which ends the process, and asserts on others; in our tests
//! it is the second reader that must see the same records.
//!
//! Deliberately absent: compressed files (`perf record -z`), directories, and
//! files of big-endian machines, which have no Intel PT.

use super::PerfDataError;
use formats::cursor::{section_at, u32_at, u64_at};
use formats::perf_records::{self, RecordError, Records, SampleId};
use std::collections::{BTreeMap, HashMap};

const MAGIC: &[u8] = b"PERFILE2";
const SWAPPED_MAGIC: &[u8] = b"2ELIFREP";
const PIPE_HEADER: u64 = 16;
const FILE_HEADER: usize = 104;
const FEATURE_BITS: usize = 256;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const SMALLEST_ATTR: usize = 64;
const RECORD_HEADER: usize = 8;

pub(super) const HEADER_ATTR: u32 = 64;
const HEADER_TRACING_DATA: u32 = 66;
pub(super) const HEADER_BUILD_ID: u32 = 67;
pub(super) const AUXTRACE_INFO: u32 = 70;
pub(super) const AUXTRACE: u32 = 71;
const HEADER_FEATURE: u32 = 80;
const COMPRESSED: u32 = 81;
const COMPRESSED2: u32 = 83;

/// One event that was recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attribute {
    pub(super) pmu: u32,
    pub(super) config: u64,
    pub(super) sample_id: SampleId,
    pub(super) without_kernel: bool,
}

/// A record: its header's fields, its body, and the data that follows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'b> {
    pub(super) kind: u32,
    pub(super) misc: u16,
    pub(super) body: &'b [u8],
    pub(super) data: &'b [u8],
}

/// All that a file holds, as slices of it.
#[derive(Debug, Default)]
pub(super) struct Container<'b> {
    pub(super) attributes: Vec<Attribute>,
    ids: HashMap<u64, usize>,
    pub(super) features: BTreeMap<u32, &'b [u8]>,
    pub(super) records: Vec<Record<'b>>,
    /// The file ends within a record.
    pub(super) truncated: bool,
}

impl<'b> Container<'b> {
    pub(super) fn read(file: &'b [u8]) -> Result<Self, PerfDataError> {
        match file.get(..MAGIC.len()) {
            Some(MAGIC) => {}
            Some(SWAPPED_MAGIC) => return Err(PerfDataError::OtherEndian),
            _ => return Err(PerfDataError::NotPerfData),
        }
        let mut container = Self::default();
        if u64_at(file, 8) == Some(PIPE_HEADER) {
            container.read_records(&file[PIPE_HEADER as usize..])?;
        } else {
            container.read_file(file)?;
        }
        if container.attributes.is_empty() {
            return Err(PerfDataError::Damaged("it has no event attributes"));
        }
        Ok(container)
    }

    fn read_file(&mut self, file: &'b [u8]) -> Result<(), PerfDataError> {
        let damaged = PerfDataError::Damaged;
        let header = file
            .get(..FILE_HEADER)
            .ok_or(damaged("its header is cut off"))?;
        let attr_size = u64_at(header, 16).and_then(|size| usize::try_from(size).ok());
        // Each attribute is followed by the place of its ids.
        let attr_size = attr_size.filter(|size| *size >= SMALLEST_ATTR + 16);
        let attr_size = attr_size.ok_or(damaged("its attributes have no size"))?;
        let attributes =
            section_at(file, file, 24).ok_or(damaged("its attributes lie outside of it"))?;
        for entry in attributes.chunks_exact(attr_size) {
            let ids = section_at(file, entry, attr_size - 16).unwrap_or_default();
            self.add_attribute(entry, ids);
        }
        let offset = u64_at(header, 40).and_then(|at| usize::try_from(at).ok());
        let size = u64_at(header, 48).and_then(|at| usize::try_from(at).ok());
        let data = offset.and_then(|at| file.get(at..));
        let (data, size) = data
            .zip(size)
            .ok_or(damaged("its records lie outside of it"))?;
        // perf writes the size last: without it, it was killed.
        if size == 0 || size > data.len() {
            self.truncated = true;
            return self.read_records(data);
        }
        self.read_features(file, header, &data[size..]);
        self.read_records(&data[..size])
    }

    fn read_features(&mut self, file: &'b [u8], header: &[u8], table: &[u8]) {
        let has = |bit: usize| header[72 + bit / 8] >> (bit % 8) & 1 == 1;
        for (row, bit) in (0..FEATURE_BITS).filter(|bit| has(*bit)).enumerate() {
            if let Some(section) = section_at(file, table, row * 16) {
                self.features.insert(bit as u32, section);
            }
        }
    }

    fn add_attribute(&mut self, attr: &[u8], ids: &[u8]) {
        let fields = (
            u32_at(attr, 0),
            u64_at(attr, 8),
            u64_at(attr, 24),
            u64_at(attr, 40),
        );
        let (Some(pmu), Some(config), Some(sample_type), Some(flags)) = fields else {
            return;
        };
        let sample_id = match flags & SAMPLE_ID_ALL {
            0 => SampleId(0),
            _ => SampleId(sample_type),
        };
        for id in ids.chunks_exact(8) {
            let number = self.attributes.len();
            self.ids.extend(u64_at(id, 0).map(|id| (id, number)));
        }
        self.attributes.push(Attribute {
            pmu,
            config,
            sample_id,
            without_kernel: flags & EXCLUDE_KERNEL != 0,
        });
    }

    fn read_records(&mut self, bytes: &'b [u8]) -> Result<(), PerfDataError> {
        let mut records = Records::new(bytes);
        while let Some(record) = records.next() {
            let Ok(perf_records::Record { kind, misc, body }) = record else {
                return self.end_at(record.err(), bytes.len());
            };
            if kind == COMPRESSED || kind == COMPRESSED2 {
                return Err(PerfDataError::Compressed);
            }
            let follows = match kind {
                AUXTRACE => u64_at(body, 0).unwrap_or(0),
                HEADER_TRACING_DATA => {
                    u32_at(body, 0).map_or(0, |size| u64::from(size).next_multiple_of(8))
                }
                _ => 0,
            };
            let behind = records.rest();
            let follows = usize::try_from(follows).unwrap_or(usize::MAX);
            let data = &behind[..follows.min(behind.len())];
            self.truncated |= follows > behind.len();
            records.pass(data.len());
            self.keep(Record {
                kind,
                misc,
                body,
                data,
            });
        }
        Ok(())
    }

    /// The records end early: either the file does, or a size is damaged.
    fn end_at(&mut self, error: Option<RecordError>, length: usize) -> Result<(), PerfDataError> {
        match error {
            Some(RecordError::BadSize { offset, size })
                if length - offset >= RECORD_HEADER && usize::from(size) < RECORD_HEADER =>
            {
                Err(PerfDataError::Damaged("a record has no size"))
            }
            _ => {
                self.truncated = true;
                Ok(())
            }
        }
    }

    fn keep(&mut self, record: Record<'b>) {
        match record.kind {
            HEADER_ATTR => {
                let size = u32_at(record.body, 4).unwrap_or(0) as usize;
                let split = record.body.split_at_checked(size.max(SMALLEST_ATTR));
                if let Some((attr, ids)) = split {
                    self.add_attribute(attr, ids);
                }
            }
            HEADER_FEATURE => {
                if let Some(feature) = u64_at(record.body, 0) {
                    self.features.insert(feature as u32, &record.body[8..]);
                }
            }
            _ => self.records.push(record),
        }
    }

    /// The fields that end a record of the kernel: those of its event, of which
    /// the id is the last field if there is any doubt.
    pub(super) fn sample_id(&self, body: &[u8]) -> SampleId {
        let first = self
            .attributes
            .first()
            .map_or(SampleId(0), |it| it.sample_id);
        if self.attributes.iter().all(|it| it.sample_id == first) {
            return first;
        }
        let id = body.len().checked_sub(8).and_then(|at| u64_at(body, at));
        id.and_then(|id| self.ids.get(&id))
            .and_then(|number| self.attributes.get(*number))
            .map_or(first, |attribute| attribute.sample_id)
    }
}

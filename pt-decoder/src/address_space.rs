//! What code each process had mapped, and when.
//!
//! A process begins with the mappings of its parent (fork) or none (exec). A
//! mapping where another one was ends an *epoch*: addresses mean other code from
//! then on. Within an epoch addresses are unambiguous, so each has one image.
//! Mappings that come later without replacing anything join the epoch from its
//! start, which is harmless: nothing ran there before.
//!
//! The code itself comes from the caller (`CodeSource`), who knows where files
//! are. What is missing is listed by path and build-id; code without a file
//! (JIT, `//anon`) is always missing, and said to be so.

use crate::image::CodeImage;
use serde::{Deserialize, Serialize};
use sketch_model::{MappedCode, RuntimeAddress, SidebandEvent, SidebandKind};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Finds the bytes of mapped files.
pub trait CodeSource {
    /// `length` bytes of the file at its `file_offset`, or fewer where it ends;
    /// else why not.
    fn code(&self, mapped: &MappedCode) -> Result<Arc<[u8]>, String>;
}

/// Code that was mapped and is not at hand.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MissingCode {
    pub path: String,
    pub build_id: Option<String>,
    pub why: String,
}

/// One state of a process's addresses.
#[derive(Clone, Debug, Default)]
struct Epoch {
    from_ns: u64,
    mapped: BTreeMap<u64, MappedCode>,
}

/// The address spaces of all processes of a recording.
#[derive(Debug, Default)]
pub struct AddressSpaces {
    epochs: BTreeMap<i32, Vec<Epoch>>,
}

impl AddressSpaces {
    /// From records in the order of time.
    pub fn new(sideband: &[SidebandEvent]) -> Self {
        let mut spaces = Self::default();
        for event in sideband {
            let at = event.time_ns.unwrap_or(0);
            match &event.kind {
                SidebandKind::Mapped(mapped) => spaces.map(event.pid, at, mapped),
                SidebandKind::Comm { exec: true, .. } => {
                    let epochs = spaces.epochs.entry(event.pid).or_default();
                    epochs.push(Epoch {
                        from_ns: at,
                        mapped: BTreeMap::new(),
                    });
                }
                SidebandKind::Fork { parent_pid, .. } if *parent_pid != event.pid => {
                    let inherited = spaces.epochs.get(parent_pid).and_then(|it| it.last());
                    let mapped = inherited.map(|it| it.mapped.clone()).unwrap_or_default();
                    let epochs = spaces.epochs.entry(event.pid).or_default();
                    epochs.push(Epoch {
                        from_ns: at,
                        mapped,
                    });
                }
                _ => {}
            }
        }
        spaces
    }

    fn map(&mut self, pid: i32, at: u64, mapped: &MappedCode) {
        let epochs = self.epochs.entry(pid).or_default();
        if epochs.is_empty() {
            epochs.push(Epoch::default());
        }
        let Some(current) = epochs.last_mut() else {
            return;
        };
        let start = mapped.start.0;
        let end = start.saturating_add(mapped.length);
        let replaced: Vec<u64> = current
            .mapped
            .range(..end)
            .filter(|(at, other)| at.saturating_add(other.length) > start)
            .map(|(at, _)| *at)
            .collect();
        if replaced
            .iter()
            .all(|at| current.mapped.get(at) == Some(mapped))
        {
            current.mapped.insert(start, mapped.clone());
            return;
        }
        let mut next = Epoch {
            from_ns: at,
            mapped: current.mapped.clone(),
        };
        for at in replaced {
            next.mapped.remove(&at);
        }
        next.mapped.insert(start, mapped.clone());
        epochs.push(next);
    }

    /// Processes with any code.
    pub fn processes(&self) -> impl Iterator<Item = i32> {
        self.epochs.keys().copied()
    }

    /// All code that a process ever had mapped.
    pub fn mapped(&self, pid: i32) -> impl Iterator<Item = &MappedCode> {
        let epochs = self.epochs.get(&pid).into_iter().flatten();
        epochs.flat_map(|epoch| epoch.mapped.values())
    }

    /// The images of all epochs of all processes, and what is missing in them.
    pub fn images(&self, source: &dyn CodeSource) -> (ProcessImages, BTreeSet<MissingCode>) {
        let (mut images, mut missing) = (ProcessImages::default(), BTreeSet::new());
        let mut known = BTreeMap::new();
        for (pid, epochs) in &self.epochs {
            for epoch in epochs {
                let mut image = CodeImage::new();
                for mapped in epoch.mapped.values() {
                    let key = (mapped.path.clone(), mapped.file_offset, mapped.length);
                    let code = known.entry(key).or_insert_with(|| source.code(mapped));
                    let added = code.clone().and_then(|bytes| {
                        image
                            .add(RuntimeAddress(mapped.start.0), bytes)
                            .map_err(|error| error.to_string())
                    });
                    if let Err(why) = added {
                        missing.insert(MissingCode {
                            path: mapped.path.clone(),
                            build_id: mapped.build_id.as_ref().map(|id| id.0.clone()),
                            why,
                        });
                    }
                }
                let number = images.images.len();
                images.images.push(image);
                let of_process = images.numbers.entry(*pid).or_default();
                of_process.push((epoch.from_ns, number));
            }
        }
        (images, missing)
    }
}

/// Images by process and time.
#[derive(Debug, Default)]
pub struct ProcessImages {
    pub(crate) images: Vec<CodeImage>,
    /// From when on which image holds.
    numbers: BTreeMap<i32, Vec<(u64, usize)>>,
}

impl ProcessImages {
    /// The image of a process at a time; without a time, its last.
    pub(crate) fn number(&self, pid: i32, at_ns: Option<u64>) -> Option<usize> {
        let epochs = self.numbers.get(&pid)?;
        let after = at_ns.map_or(epochs.len(), |at| {
            epochs.partition_point(|(from, _)| *from <= at)
        });
        epochs
            .get(after.saturating_sub(1))
            .map(|(_, number)| *number)
    }

    /// The last image of a process.
    pub fn of(&self, pid: i32) -> Option<&CodeImage> {
        self.images.get(self.number(pid, None)?)
    }
}

//! What the kernel says of this machine's trace unit: files under `/sys` and
//! `/proc`, whose roots are parameters so that tests can make a machine.
//!
//! Branches are traced unless asked otherwise, so neither `pt` nor `branch` is
//! set. Cycle counting stays off (it multiplies the bytes), and so does
//! `noretcomp`: compressed returns start afresh at each synchronisation point,
//! from where a reader begins. Those points come as often as every processor
//! can make them (`psb_period` 0, each 2 KiB), because of an overwritten buffer
//! all before the first one is lost.

use sketch_model::{CpuModel, PtFrequency};
use std::{
    fs, io,
    path::{Path, PathBuf},
};
use thiserror::Error;

/// A timing packet each 2^(3+n) crystal ticks: perf's own choice.
const USUAL_MTC_PERIOD: u32 = 3;

/// Why a run has no Intel PT.
#[derive(Debug, Error)]
pub enum PtRefusal {
    #[error(
        "{} does not exist; control flow is recorded inline (an Intel processor of 2015 or later, \
         not hidden by a hypervisor, would have it)",
        .0.display()
    )]
    Absent(PathBuf),
    #[error("{} cannot be used ({reason}); control flow is recorded inline", path.display())]
    Description { path: PathBuf, reason: String },
    #[error("{call} was refused for Intel PT ({reason}); {remedy}")]
    Call {
        call: &'static str,
        reason: io::Error,
        remedy: &'static str,
    },
}

impl PtRefusal {
    pub fn call(call: &'static str, reason: io::Error) -> PtRefusal {
        let remedy = match reason.raw_os_error() {
            Some(libc::EBUSY) => "another tracer uses it: end that one",
            Some(libc::EACCES | libc::EPERM) if call == "mmap" => {
                "raise kernel.perf_event_mlock_kb or the limit of locked memory"
            }
            Some(libc::EACCES | libc::EPERM | libc::ENOSYS) => {
                "allow perf_event_open in the container's seccomp profile and set \
                 kernel.perf_event_paranoid to 2 or less"
            }
            Some(libc::ENOMEM) => "free some memory",
            Some(libc::EMFILE | libc::ENFILE) => "raise the limit of open files",
            _ => "control flow is recorded inline",
        };
        PtRefusal::Call {
            call,
            reason,
            remedy,
        }
    }
}

/// Where the kernel's files are.
#[derive(Clone, Debug)]
pub struct Machine {
    pub sys: PathBuf,
    pub proc: PathBuf,
}

impl Default for Machine {
    fn default() -> Machine {
        Machine {
            sys: "/sys".into(),
            proc: "/proc".into(),
        }
    }
}

/// A trace unit that can be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtUnit {
    /// `perf_event_attr.type` and `config`.
    pub event_type: u32,
    pub config: u64,
    /// How many windows can be traced instead of everything.
    pub windows: usize,
    pub frequency: PtFrequency,
    pub model: Option<CpuModel>,
    /// The processors that are online.
    pub cpus: Vec<u32>,
}

impl PtUnit {
    /// Reads what the machine has; asks the kernel for nothing yet.
    pub fn detect(machine: &Machine) -> Result<PtUnit, PtRefusal> {
        let folder = Folder(machine.sys.join("bus/event_source/devices/intel_pt"));
        if !folder.0.is_dir() {
            return Err(PtRefusal::Absent(folder.0));
        }
        let event_type = folder.number("type", 10)?;
        let tsc = folder.bits("format/tsc")?;
        let mut config = tsc.with(1);
        let mut mtc_period = 0;
        // Coarse time between the rare full stamps, where there is such a thing.
        if let Some((bit, period, value)) = folder.mtc() {
            config |= bit.with(1) | period.with(value.into());
            mtc_period = value;
        }
        let (counter, crystal) = folder.ratio("tsc_art_ratio").unwrap_or((0, 0));
        let online = machine.sys.join("devices/system/cpu/online");
        let cpus = fs::read_to_string(&online)
            .ok()
            .and_then(|text| processor_list(text.trim()))
            .ok_or_else(|| PtRefusal::Description {
                path: online,
                reason: "it is no list of processors".into(),
            })?;
        Ok(PtUnit {
            event_type,
            config,
            windows: folder.number("nr_addr_filters", 10).unwrap_or(0) as usize,
            frequency: PtFrequency {
                mtc: mtc_period,
                nominal: folder
                    .number("max_nonturbo_ratio", 10)
                    .ok()
                    .and_then(|ratio| u8::try_from(ratio).ok())
                    .unwrap_or(0),
                crystal,
                counter,
            },
            model: fs::read_to_string(machine.proc.join("cpuinfo"))
                .ok()
                .and_then(|text| cpu_model(&text)),
            cpus,
        })
    }
}

/// A field of the event's configuration word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bits {
    first: u32,
    count: u32,
}

impl Bits {
    /// `config:10` or `config:14-17`.
    fn parse(text: &str) -> Option<Bits> {
        let place = text.strip_prefix("config:")?;
        let (first, last) = place.split_once('-').unwrap_or((place, place));
        let (first, last) = (first.parse().ok()?, last.parse::<u32>().ok()?);
        (first <= last && last < 64).then(|| Bits {
            first,
            count: last - first + 1,
        })
    }

    fn with(self, value: u64) -> u64 {
        (value & (u64::MAX >> (64 - self.count))) << self.first
    }
}

/// The unit's folder.
struct Folder(PathBuf);

impl Folder {
    fn text(&self, name: &str) -> Result<(PathBuf, String), PtRefusal> {
        let path = self.0.join(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok((path, text.trim().to_owned())),
            Err(error) => Err(PtRefusal::Description {
                path,
                reason: error.to_string(),
            }),
        }
    }

    fn number(&self, name: &str, radix: u32) -> Result<u32, PtRefusal> {
        let (path, text) = self.text(name)?;
        u32::from_str_radix(&text, radix).map_err(|_| odd(&path, &text))
    }

    fn bits(&self, name: &str) -> Result<Bits, PtRefusal> {
        let (path, text) = self.text(name)?;
        Bits::parse(&text).ok_or_else(|| odd(&path, &text))
    }

    fn ratio(&self, name: &str) -> Option<(u32, u32)> {
        let (_, text) = self.text(name).ok()?;
        let (numerator, denominator) = text.split_once(':')?;
        Some((numerator.parse().ok()?, denominator.parse().ok()?))
    }

    /// The bit that turns timing packets on, and a period that the unit can do.
    fn mtc(&self) -> Option<(Bits, Bits, u8)> {
        if self.number("caps/mtc", 16).ok()? == 0 {
            return None;
        }
        let periods = self.number("caps/mtc_periods", 16).ok()? & 0xffff;
        let period = match periods >> USUAL_MTC_PERIOD & 1 {
            _ if periods == 0 => return None,
            1 => USUAL_MTC_PERIOD,
            _ => periods.trailing_zeros(),
        };
        Some((
            self.bits("format/mtc").ok()?,
            self.bits("format/mtc_period").ok()?,
            u8::try_from(period).ok()?,
        ))
    }
}

fn odd(path: &Path, text: &str) -> PtRefusal {
    PtRefusal::Description {
        path: path.to_path_buf(),
        reason: format!("it says {text:?}"),
    }
}

/// `0-3,8`.
fn processor_list(text: &str) -> Option<Vec<u32>> {
    const MOST: u32 = 1 << 16;
    let mut cpus = Vec::new();
    for piece in text.split(',') {
        let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if last >= MOST {
            return None;
        }
        cpus.extend(first..=last);
    }
    (!cpus.is_empty()).then_some(cpus)
}

/// The first processor of `/proc/cpuinfo`.
fn cpu_model(text: &str) -> Option<CpuModel> {
    let first = text.split("\n\n").next()?;
    let field = |name: &str| {
        first.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim())
        })
    };
    if field("vendor_id")? != "GenuineIntel" {
        return None;
    }
    Some(CpuModel {
        family: field("cpu family")?.parse().ok()?,
        model: field("model")?.parse().ok()?,
        stepping: field("stepping")?.parse().ok()?,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use tempfile::TempDir;

    /// The files of a Skylake (family 6 model 78), as the kernel shows them.
    pub fn skylake() -> (TempDir, Machine) {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine {
            sys: folder.path().join("sys"),
            proc: folder.path().join("proc"),
        };
        let unit = machine.sys.join("bus/event_source/devices/intel_pt");
        for (name, text) in [
            ("type", "8\n"),
            ("nr_addr_filters", "2\n"),
            ("max_nonturbo_ratio", "15\n"),
            ("tsc_art_ratio", "124:2\n"),
            ("caps/mtc", "1\n"),
            ("caps/mtc_periods", "249\n"),
            ("format/tsc", "config:10\n"),
            ("format/mtc", "config:9\n"),
            ("format/mtc_period", "config:14-17\n"),
        ] {
            write(&unit.join(name), text);
        }
        write(&machine.sys.join("devices/system/cpu/online"), "0-1,3\n");
        let cpuinfo = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 78\n\
                       model name\t: Intel(R) Core(TM) m7-6Y75 CPU @ 1.20GHz\nstepping\t: 3\n\n\
                       processor\t: 1\n";
        write(&machine.proc.join("cpuinfo"), cpuinfo);
        (folder, machine)
    }

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn unit_file(machine: &Machine, name: &str) -> PathBuf {
        let unit = machine.sys.join("bus/event_source/devices/intel_pt");
        unit.join(name)
    }

    #[test]
    fn a_skylake_is_described_by_its_files() {
        let (_kept, machine) = skylake();
        let unit = PtUnit::detect(&machine).unwrap();
        let expected = PtUnit {
            event_type: 8,
            // TSC, MTC, and period 3: 0x249 allows 0, 3, 6 and 9.
            config: 1 << 10 | 1 << 9 | 3 << 14,
            windows: 2,
            frequency: PtFrequency {
                mtc: 3,
                nominal: 15,
                crystal: 2,
                counter: 124,
            },
            model: Some(CpuModel {
                family: 6,
                model: 78,
                stepping: 3,
            }),
            cpus: vec![0, 1, 3],
        };
        assert_eq!(unit, expected);
    }

    #[test]
    fn a_broadwell_has_full_time_stamps_only() {
        let (_kept, machine) = skylake();
        write(&unit_file(&machine, "caps/mtc"), "0\n");
        fs::remove_file(unit_file(&machine, "tsc_art_ratio")).unwrap();
        let unit = PtUnit::detect(&machine).unwrap();
        assert_eq!(unit.config, 1 << 10);
        assert_eq!((unit.frequency.mtc, unit.frequency.counter), (0, 0));
        // A unit that has not the usual period gets its shortest.
        write(&unit_file(&machine, "caps/mtc"), "1\n");
        write(&unit_file(&machine, "caps/mtc_periods"), "240\n");
        let unit = PtUnit::detect(&machine).unwrap();
        assert_eq!(unit.config, 1 << 10 | 1 << 9 | 6 << 14);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let (_kept, machine) = skylake();
        let path = unit_file(&machine, "format/tsc");
        for odd in ["config1:10", "config:70", "config:9-3", "ten"] {
            write(&path, odd);
            let refusal = PtUnit::detect(&machine).unwrap_err().to_string();
            let path = path.display();
            let expected =
                format!("{path} cannot be used (it says {odd:?}); control flow is recorded inline");
            assert_eq!(refusal, expected);
        }
    }

    #[test]
    fn a_machine_without_the_unit_gets_the_exact_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let machine = Machine {
            sys: folder.path().into(),
            proc: folder.path().into(),
        };
        let expected = format!(
            "{}/bus/event_source/devices/intel_pt does not exist; control flow is recorded inline \
             (an Intel processor of 2015 or later, not hidden by a hypervisor, would have it)",
            folder.path().display()
        );
        let refusal = PtUnit::detect(&machine).unwrap_err();
        assert_eq!(refusal.to_string(), expected);
    }

    #[test]
    fn processors_of_others_have_no_model() {
        assert_eq!(
            cpu_model("vendor_id\t: AuthenticAMD\ncpu family\t: 25\n"),
            None
        );
        assert_eq!(cpu_model(""), None);
        assert_eq!(processor_list("0"), Some(vec![0]));
        assert_eq!(processor_list("0-99999999"), None);
        assert_eq!(processor_list(""), None);
    }
}

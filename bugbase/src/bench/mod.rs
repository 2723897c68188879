//! `./dev bench NAME`: the measurements that need more than one of our commands.
//!
//! Which there are, and the options that they share.

pub(crate) mod agent;
pub(crate) mod overhead;
pub(crate) mod ranks;
pub(crate) mod slicer;

use anyhow::{Result, bail};
use std::fs;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Arguments {
    /// What to measure: overhead, slicer or agent
    #[arg(default_value = "overhead")]
    what: String,
    /// The real programs to measure: pbzip2, memcached, curl, sqlite3, cppcheck.
    /// With --ranks: the bugs.
    #[arg(long = "program", alias = "programs", value_delimiter = ',')]
    pub programs: Vec<String>,
    /// Of `slicer`: the ranks of the statements that explain each bug, compared with those kept.
    #[arg(long)]
    pub ranks: bool,
    /// With --ranks: keep these ranks.
    #[arg(long, requires = "ranks")]
    pub accept: bool,
    /// Also write the rows to this file.
    #[arg(long)]
    pub json: Option<PathBuf>,
    #[arg(long, default_value = "target/bench")]
    pub folder: PathBuf,
    #[command(flatten)]
    overhead: overhead::Choice,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    match arguments.what.as_str() {
        "overhead" => {
            let folder = arguments.folder.join("overhead");
            let file = arguments.json.clone();
            let file = file.unwrap_or_else(|| folder.join("overhead.json"));
            overhead::run(&arguments.programs, &arguments.overhead, &folder, file)
        }
        "slicer" if arguments.ranks => crate::bench::ranks::run(arguments),
        "slicer" => crate::bench::slicer::run(arguments),
        "agent" => crate::bench::agent::run(&arguments.folder, arguments.json.as_deref()),
        other => bail!("there is no benchmark {other:?}; there are: overhead, slicer, agent"),
    }
}

/// The upper middle; `None` without values.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// A variant beside its base. Who comes first changes with every turn, so that neither
/// profits from the other.
pub fn in_turn<T>(
    turn: usize,
    base: impl FnOnce() -> Result<T>,
    variant: impl FnOnce() -> Result<T>,
) -> Result<(T, T)> {
    if turn.is_multiple_of(2) {
        let base = base()?;
        return Ok((base, variant()?));
    }
    let variant = variant()?;
    Ok((base()?, variant))
}

/// How many work on this machine, as the kernel counts them.
pub fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn neither_is_always_first() {
        let order = RefCell::new(String::new());
        for turn in 0..4 {
            let note = |what: char| {
                order.borrow_mut().push(what);
                Ok(what)
            };
            let pair = in_turn(turn, || note('b'), || note('v')).unwrap();
            assert_eq!(pair, ('b', 'v'));
        }
        assert_eq!(*order.borrow(), "bvvbbvvb");
    }

    #[test]
    fn the_middle_of_nothing_is_nothing() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([]), None);
    }
}

//! `./dev bench NAME`: the measurements that need more than one of our commands.
//!
//! Which there are, and the options that they share.

pub(crate) mod agent;
pub(crate) mod overhead;
pub(crate) mod slicer;

use anyhow::{Result, bail};
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Arguments {
    /// What to measure: overhead, slicer or agent
    #[arg(default_value = "overhead")]
    what: String,
    /// The real programs to measure: pbzip2, memcached, curl, sqlite3, cppcheck.
    #[arg(long = "program", alias = "programs", value_delimiter = ',')]
    pub programs: Vec<String>,
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
        "slicer" => crate::bench::slicer::run(arguments),
        "agent" => crate::bench::agent::run(&arguments.folder, arguments.json.as_ref()),
        other => bail!("there is no benchmark {other:?}; there are: overhead, slicer, agent"),
    }
}

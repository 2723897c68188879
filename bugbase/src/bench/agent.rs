//! `./dev bench agent`: what the agent costs a machine that runs it.
//!
//! Start-up is measured beside the bare command in the same loop, one after the
//! other, so that a busy machine disturbs both; medians, and an A/A row of the
//! bare command against itself for the smallest difference that can be seen. Beside
//! the time that passes stands processor time, which a busy machine disturbs less.
//! The spool is fed through the daemon's own socket with records of a usual
//! size; every record counted was acknowledged, that is, synced to disk.

use crate::bench::overhead::timed::children;
use crate::bench::{load, median};
use crate::corpus::folder::emptied;
use crate::tables::{self, figures, table, words};
use crate::tools::Tools;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const STARTS: usize = 300;
const FEEDERS: usize = 8;
const FEEDING: Duration = Duration::from_secs(5);
const IDLE: Duration = Duration::from_secs(5);
/// A tracked run of the pbzip2 miniature, about.
const RECORD_BYTES: usize = 8 << 10;

#[derive(Serialize)]
struct Row {
    name: &'static str,
    value: f64,
    unit: &'static str,
    aim: &'static str,
}

const fn row(name: &'static str, value: f64, unit: &'static str, aim: &'static str) -> Row {
    Row {
        name,
        value,
        unit,
        aim,
    }
}

pub fn run(folder: &Path, json_file: Option<&Path>) -> Result<()> {
    let agent = Tools::find()?.agent;
    let folder = emptied(folder)?;
    println!("load average before: {}\n", load());
    let mut rows = starts(&agent, &folder)?;
    let mut daemon = Daemon::start(&agent, &folder)?;
    rows.extend(daemon.idle()?);
    let fed = daemon.feed()?;
    rows.push(row(
        "records acknowledged by the daemon, synced",
        fed,
        "1/s",
        "",
    ));
    let runs = daemon.short_runs(&agent, &folder)?;
    rows.push(row(
        "recorded runs of a command that does nothing",
        runs,
        "1/s",
        "",
    ));
    rows.push(row(
        "daemon after that, resident",
        daemon.resident_mb()?,
        "MB",
        "",
    ));
    drop(daemon);
    let built = fs::metadata(&agent)?.len() as f64 / 1e6;
    rows.push(row("agent binary as built", built, "MB", ""));
    let stripped = stripped_mb(&agent, &folder)?;
    rows.push(row("agent binary, stripped", stripped, "MB", "≤ 5"));
    let columns = [
        words("agent", 44),
        figures("measured", 10),
        words("unit", 4),
        words("aim", 4),
    ];
    let cells = rows.iter().map(|row| {
        let value = format!("{:.3}", row.value);
        vec![row.name.into(), value, row.unit.into(), row.aim.into()]
    });
    println!("{}", table(&columns, cells));
    println!("load average after: {}", load());
    json_file.map_or(Ok(()), |file| tables::save(file, &rows))
}

/// Milliseconds that passed, and milliseconds of processor time, of one command.
#[derive(Default)]
struct Times {
    passed: Vec<f64>,
    used: Vec<f64>,
}

impl Times {
    fn of(&mut self, command: &mut Command) -> Result<()> {
        let used_before = children()?;
        let started = Instant::now();
        let status = command.status().context("starting a command to time")?;
        if !status.success() {
            bail!("a command to time ended with {status}");
        }
        self.passed.push(started.elapsed().as_secs_f64() * 1e3);
        self.used.push((children()? - used_before) * 1e3);
        Ok(())
    }
}

fn starts(agent_file: &Path, folder: &Path) -> Result<Vec<Row>> {
    let nothing = "/bin/true";
    let records = folder.join("records.jsonl");
    let [mut bare, mut again, mut transparent, mut recorded] = [(); 4].map(|()| Times::default());
    for _ in 0..STARTS {
        bare.of(&mut Command::new(nothing))?;
        let mut agent = Command::new(agent_file);
        agent.args(["run", "--config", "/dev/null", "--", nothing]);
        transparent.of(&mut agent)?;
        again.of(&mut Command::new(nothing))?;
        let mut agent = Command::new(agent_file);
        agent.args(["run", "--config", "/dev/null", "--cache"]);
        agent
            .arg(folder.join("cache"))
            .arg("--store-record")
            .arg(&records);
        agent.args(["--", nothing]);
        recorded.of(&mut agent)?;
    }
    let middle = |values: Vec<f64>| median(values).unwrap_or(f64::NAN);
    let (bare, used) = (middle(bare.passed), middle(bare.used));
    let ms = |name, value, aim| row(name, value, "ms", aim);
    let passed = |name, times, aim| ms(name, middle(times) - bare, aim);
    let processor = |name, times| ms(name, middle(times) - used, "");
    Ok(vec![
        ms("bare command that does nothing", bare, ""),
        passed("A/A: the same again, difference", again.passed, ""),
        passed(
            "added by the agent, not recording",
            transparent.passed,
            "≤ 5",
        ),
        passed("added by the agent, recording", recorded.passed, "≤ 5"),
        ms("bare command, processor time", used, ""),
        processor("A/A, processor time", again.used),
        processor("added, not recording, processor time", transparent.used),
        processor("added, recording, processor time", recorded.used),
    ])
}

fn stripped_mb(agent: &Path, folder: &Path) -> Result<f64> {
    let stripped = folder.join("failsketch-agent");
    crate::tools::run(Command::new("strip").arg("-o").arg(&stripped).arg(agent))?;
    Ok(fs::metadata(&stripped)?.len() as f64 / 1e6)
}

/// A daemon whose server is away, ended when dropped.
struct Daemon {
    child: Child,
    socket: PathBuf,
}

impl Daemon {
    fn start(agent: &Path, folder: &Path) -> Result<Daemon> {
        let socket = folder.join("agent.sock");
        let config = folder.join("agent.toml");
        // Nothing listens on the discard port here; the spool takes it all.
        let text = format!(
            "server = \"http://127.0.0.1:9\"\nsocket = {socket:?}\ncache = {:?}\n\
             [spool]\nlimit_mb = 4096\n",
            folder.join("daemon")
        );
        fs::write(&config, text).context("writing the daemon's configuration")?;
        let child = Command::new(agent)
            .args(["daemon", "--config"])
            .arg(&config)
            .stderr(Stdio::null())
            .spawn()
            .context("starting the daemon")?;
        let daemon = Daemon { child, socket };
        for _ in 0..200 {
            if UnixStream::connect(&daemon.socket).is_ok() {
                return Ok(daemon);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("the daemon does not listen on {}", daemon.socket.display())
    }

    fn proc_file(&self, name: &str) -> Result<String> {
        let path = format!("/proc/{}/{name}", self.child.id());
        fs::read_to_string(&path).with_context(|| format!("reading {path}"))
    }

    fn resident_mb(&self) -> Result<f64> {
        let status = self.proc_file("status")?;
        let kb = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|value| value.trim().trim_end_matches(" kB").parse::<f64>().ok());
        Ok(kb.context("the daemon's status has no VmRSS")? / 1e3)
    }

    /// User and system time so far, in clock ticks.
    fn ticks(&self) -> Result<u64> {
        let stat = self.proc_file("stat")?;
        let after_the_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let fields: Vec<&str> = after_the_name.split_whitespace().collect();
        let field = |at: usize| fields.get(at).and_then(|f| f.parse::<u64>().ok());
        match (field(11), field(12)) {
            (Some(user), Some(system)) => Ok(user + system),
            _ => bail!("the daemon's stat cannot be read"),
        }
    }

    fn idle(&mut self) -> Result<Vec<Row>> {
        let before = self.ticks()?;
        std::thread::sleep(IDLE);
        let used = (self.ticks()? - before) as f64 * 10.0;
        Ok(vec![
            row("idle daemon, resident", self.resident_mb()?, "MB", "≤ 10"),
            row("idle daemon, CPU time in 5 s", used, "ms", "0"),
        ])
    }

    /// Short runs a second that pass through it, from several clients at once.
    fn short_runs(&self, agent: &Path, folder: &Path) -> Result<f64> {
        const CLIENTS: usize = 4;
        const EACH: usize = 250;
        let started = Instant::now();
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|_| {
                    scope.spawn(|| {
                        let each = EACH.to_string();
                        crate::tools::run(
                            Command::new(agent)
                                .args(["run", "--config"])
                                .arg(folder.join("agent.toml"))
                                .args(["--repeat", &each, "--", "/bin/true"]),
                        )
                    })
                })
                .collect();
            clients
                .into_iter()
                .try_for_each(|c| c.join().unwrap_or_else(|_| bail!("a client panicked")))
        })?;
        Ok((CLIENTS * EACH) as f64 / started.elapsed().as_secs_f64())
    }

    /// Records acknowledged a second, from several clients at once.
    fn feed(&self) -> Result<f64> {
        let until = Instant::now() + FEEDING;
        let counts = std::thread::scope(|scope| {
            let feeders: Vec<_> = (0..FEEDERS)
                .map(|_| scope.spawn(|| feed_until(&self.socket, until)))
                .collect();
            feeders
                .into_iter()
                .map(|feeder| feeder.join().unwrap_or_else(|_| bail!("a feeder panicked")))
                .collect::<Result<Vec<u64>>>()
        })?;
        Ok(counts.iter().sum::<u64>() as f64 / FEEDING.as_secs_f64())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It is ours, and may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn feed_until(socket: &Path, until: Instant) -> Result<u64> {
    let mut connection = UnixStream::connect(socket)?;
    let mut message = vec![b'R'];
    message.extend_from_slice(&(RECORD_BYTES as u32).to_le_bytes());
    message.resize(5 + RECORD_BYTES, b' ');
    let mut count = 0;
    while Instant::now() < until {
        connection.write_all(&message)?;
        let mut answer = [0; 5];
        connection.read_exact(&mut answer)?;
        if answer[0] != b'R' {
            bail!("the daemon refused a record");
        }
        count += 1;
    }
    Ok(count)
}

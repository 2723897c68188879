//! `./dev bench agent`: what the agent costs a machine that runs it.
//!
//! Start-up is measured beside the bare command in the same loop, one after the
//! other, so that a busy machine disturbs both; medians, and an A/A row of the
//! bare command against itself for the smallest difference that can be seen. Beside
//! the time that passes stands processor time, which a busy machine disturbs less.
//! The spool is fed through the daemon's own socket with records of a usual
//! size; every record counted was acknowledged, that is, synced to disk.

use crate::corpus::folder::emptied;
use crate::tools::Tools;
use anyhow::{Context, Result, bail};
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::{Value, json};
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

struct Row {
    name: &'static str,
    value: f64,
    unit: &'static str,
    aim: &'static str,
}

pub fn run(folder: &Path, json_file: Option<&PathBuf>) -> Result<()> {
    let agent = Tools::find()?.agent;
    let folder = emptied(folder)?;
    println!("load average before: {}", load());
    let mut rows = starts(&agent, &folder)?;
    let mut daemon = Daemon::start(&agent, &folder)?;
    rows.extend(daemon.idle()?);
    rows.push(Row {
        name: "records acknowledged by the daemon, synced",
        value: daemon.feed()?,
        unit: "1/s",
        aim: "",
    });
    rows.extend(daemon.short_runs(&agent, &folder)?);
    rows.push(Row {
        name: "daemon after that, resident",
        value: daemon.resident_mb()?,
        unit: "MB",
        aim: "",
    });
    drop(daemon);
    rows.push(Row {
        name: "agent binary as built",
        value: fs::metadata(&agent)?.len() as f64 / 1e6,
        unit: "MB",
        aim: "",
    });
    rows.push(Row {
        name: "agent binary, stripped",
        value: stripped_mb(&agent, &folder)?,
        unit: "MB",
        aim: "≤ 5",
    });
    for row in &rows {
        println!(
            "{:<46} {:>10.3} {:<5} {}",
            row.name, row.value, row.unit, row.aim
        );
    }
    println!("load average after: {}", load());
    if let Some(file) = json_file {
        let rows: Vec<Value> = rows
            .iter()
            .map(|r| json!({"name": r.name, "value": r.value, "unit": r.unit, "aim": r.aim}))
            .collect();
        fs::write(file, serde_json::to_vec_pretty(&rows)?)
            .with_context(|| format!("writing {}", file.display()))?;
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Others that work on this machine, as the kernel counts them.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// Milliseconds that passed, and milliseconds of processor time, of one command.
#[derive(Default)]
struct Times {
    passed: Vec<f64>,
    used: Vec<f64>,
}

impl Times {
    fn of(&mut self, command: &mut Command) -> Result<()> {
        let used_before = processor_ms()?;
        let started = Instant::now();
        let status = command.status().context("starting a command to time")?;
        if !status.success() {
            bail!("a command to time ended with {status}");
        }
        self.passed.push(started.elapsed().as_secs_f64() * 1e3);
        self.used.push(processor_ms()? - used_before);
        Ok(())
    }
}

/// What all children that have ended have used so far.
fn processor_ms() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("asking for processor time")?;
    let ms =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 * 1e3 + time.tv_usec() as f64 / 1e3;
    Ok(ms(usage.user_time()) + ms(usage.system_time()))
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
    let (bare, bare_used) = (median(bare.passed), median(bare.used));
    let row = |name, value, aim| Row {
        name,
        value,
        unit: "ms",
        aim,
    };
    Ok(vec![
        row("bare command that does nothing", bare, ""),
        row(
            "A/A: the same again, difference",
            median(again.passed) - bare,
            "",
        ),
        row(
            "added by the agent, not recording",
            median(transparent.passed) - bare,
            "≤ 5",
        ),
        row(
            "added by the agent, recording",
            median(recorded.passed) - bare,
            "≤ 5",
        ),
        row("bare command, processor time", bare_used, ""),
        row("A/A, processor time", median(again.used) - bare_used, ""),
        row(
            "added, not recording, processor time",
            median(transparent.used) - bare_used,
            "",
        ),
        row(
            "added, recording, processor time",
            median(recorded.used) - bare_used,
            "",
        ),
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
            Row {
                name: "idle daemon, resident",
                value: self.resident_mb()?,
                unit: "MB",
                aim: "≤ 10",
            },
            Row {
                name: "idle daemon, CPU time in 5 s",
                value: used,
                unit: "ms",
                aim: "0",
            },
        ])
    }

    /// Short runs that pass through it, from several clients at once.
    fn short_runs(&self, agent: &Path, folder: &Path) -> Result<Vec<Row>> {
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
        Ok(vec![Row {
            name: "recorded runs of a command that does nothing",
            value: (CLIENTS * EACH) as f64 / started.elapsed().as_secs_f64(),
            unit: "1/s",
            aim: "",
        }])
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

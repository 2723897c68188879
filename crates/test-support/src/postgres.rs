//! A PostgreSQL of the tests' own: one a test process, one database a test.
//!
//! It listens on a socket in a temporary folder and on no port. PostgreSQL refuses
//! to run as root, so where the tests do, it runs as the user that Debian's package
//! made for it. A shell beside it waits for the end of a pipe that this process
//! holds: however this process ends, the shell then stops the server by its
//! process id and removes the folder.

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection};
use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Whether the server may lose everything when the machine dies: a test's may.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    Off,
    On,
}

pub struct Postgres {
    folder: PathBuf,
    databases: AtomicU32,
    /// The end of its input is the server's end.
    _shell: Child,
}

const START: &str = r#"
    "$1/postgres" -D "$2/data" -k "$2" -c listen_addresses= -c fsync="$3" -c max_connections=200 &
    server=$!
    cat >/dev/null
    kill -INT $server
    wait $server
    rm -rf "$2"
"#;

impl Postgres {
    /// The one of this process.
    pub fn shared() -> &'static Postgres {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(|| Postgres::start(Sync::Off))
    }

    pub fn start(sync: Sync) -> Postgres {
        let programs = programs();
        let folder = tempfile::Builder::new()
            .prefix("failsketch-postgres-")
            .tempdir()
            .expect("a temporary folder")
            .keep();
        let owner = unprivileged();
        let as_owner = |program: &Path| {
            let mut command = Command::new(program);
            if let Some((uid, gid)) = owner {
                command.uid(uid).gid(gid);
            }
            command.current_dir("/");
            command
        };
        if let Some((uid, gid)) = owner {
            chown(&folder, Some(uid), Some(gid)).expect("giving the folder away");
        }
        let made = as_owner(&programs.join("initdb"))
            .args(["--auth=trust", "--username=failsketch", "--encoding=UTF8"])
            .args(["--locale=C.UTF-8", "--no-sync", "-D"])
            .arg(folder.join("data"))
            .output()
            .expect("initdb starts");
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(made.status.success(), "initdb failed: {said}");
        let log = File::create(folder.join("log")).expect("a log file");
        let shell = as_owner(Path::new("/bin/sh"))
            .args(["-c", START, "sh"])
            .args([&programs, &folder])
            .arg(if sync == Sync::On { "on" } else { "off" })
            .stdin(Stdio::piped())
            .stdout(log.try_clone().expect("a log file"))
            .stderr(log)
            .spawn()
            .expect("the server starts");
        let postgres = Postgres {
            folder,
            databases: AtomicU32::new(0),
            _shell: shell,
        };
        postgres.wait_until_ready();
        postgres
    }

    /// The address of a new, empty database.
    pub fn database(&self) -> String {
        let number = self.databases.fetch_add(1, Ordering::SeqCst);
        let name = format!("test_{number}");
        self.execute(
            &self.address("postgres"),
            &format!("CREATE DATABASE {name}"),
        );
        self.address(&name)
    }

    /// Runs statements on a connection of their own.
    pub fn execute(&self, url: &str, statements: &str) {
        self.try_execute(url, statements).expect("statements");
    }

    fn try_execute(&self, url: &str, statements: &str) -> Result<(), sqlx::Error> {
        let (url, statements) = (url.to_owned(), statements.to_owned());
        // A thread of its own: the caller may be inside a runtime.
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let mut connection: PgConnection =
                    PgConnectOptions::from_str(&url)?.connect().await?;
                sqlx::raw_sql(sqlx::AssertSqlSafe(statements))
                    .execute(&mut connection)
                    .await?;
                connection.close().await
            })
        };
        std::thread::spawn(run).join().expect("no panic")
    }

    fn address(&self, name: &str) -> String {
        let folder = self.folder.display();
        format!("postgres:///{name}?host={folder}&user=failsketch")
    }

    fn wait_until_ready(&self) {
        for _ in 0..600 {
            if self
                .try_execute(&self.address("postgres"), "SELECT 1")
                .is_ok()
            {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        panic!("PostgreSQL did not start: {log}");
    }
}

/// The folder of the newest installed server's programs.
fn programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let newest = versions
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .max()
        .expect("PostgreSQL is missing: install the Debian package postgresql, as ./dev test does");
    PathBuf::from(format!("/usr/lib/postgresql/{newest}/bin"))
}

/// Whom to run the server as, if not as ourselves.
fn unprivileged() -> Option<(u32, u32)> {
    let ours = fs::metadata("/proc/self").expect("/proc");
    if std::os::unix::fs::MetadataExt::uid(&ours) != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("/etc/passwd");
    let fields = users
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>());
    let mut postgres = fields.filter(|f| f.len() > 3 && f[0] == "postgres");
    let user = postgres
        .next()
        .expect("the user postgres is missing: the Debian package postgresql makes it");
    let number = |text: &str| text.parse().expect("a number in /etc/passwd");
    Some((number(user[2]), number(user[3])))
}

//! The embedded database: one SQLite file in the data folder.
//!
//! Write-ahead logging with full synchronisation: what was acknowledged is on
//! the disk. All writes go through one connection, because SQLite has one
//! writer anyway and a queue in this process is fairer than its busy-waiting;
//! reads have a few connections of their own.
//!
//! The data folder is locked by its one server, so there is nobody to claim work
//! from: every pending run and every job is this server's.

use super::dialect::Dialect;
use super::migrations::{Schema, migrate};
use super::rows::failing_to;
use super::{Storage, StorageError};
use server_files::private_files::make_private_file;
use sqlx::any::AnyPoolOptions;
use sqlx::{AnyConnection, AnyPool, Connection};
use std::io;
use std::path::Path;

pub static SQLITE: Dialect = Dialect {
    schema: Schema {
        // The data folder is locked.
        alone: "",
        version: "SELECT user_version AS version FROM pragma_user_version",
        steps: &[
            include_str!("../../migrations/sqlite/1.sql"),
            include_str!("../../migrations/sqlite/2.sql"),
            include_str!("../../migrations/sqlite/3.sql"),
        ],
    },
    now: "unixepoch()",
    ago: "unixepoch() - $1",
    no_bytes: "x''",
    skip_locked: "",
    numbers: "SELECT value FROM json_each($2)",
    shared: false,
    add_runs: "INSERT INTO runs (id, build, campaign, iteration, plan, record, received)
        VALUES {values} ON CONFLICT (id) DO NOTHING RETURNING id",
    ours: "",
    claim_job: "SELECT id FROM campaigns WHERE preparing = 1 ORDER BY id LIMIT 1",
};

impl Storage {
    /// Opens the SQLite database at `path`, making or upgrading it where needed.
    pub async fn open_sqlite(path: &Path) -> Result<Storage, StorageError> {
        let failed = |doing, source| StorageError::File {
            doing,
            path: path.to_owned(),
            source,
        };
        // SQLite gives its log and its index the mode of the database.
        make_private_file(path).map_err(|error| failed("create", error))?;
        // sqlx reads it out of a URL.
        let named = path.to_str().ok_or_else(|| {
            failed(
                "open",
                io::Error::other("its path is not UTF-8; name another with --data"),
            )
        })?;
        let writer = connected(named, "rwc", 1)
            .await
            .map_err(failing_to("be opened"))?;
        migrate(&writer, &SQLITE.schema, named.to_owned()).await?;
        let readers = connected(named, "ro", 4).await;
        let readers = readers.map_err(failing_to("be opened for reading"))?;
        Ok(Storage::over(&SQLITE, readers, writer, None))
    }
}

async fn connected(path: &str, mode: &str, most: u32) -> Result<AnyPool, sqlx::Error> {
    sqlx::any::install_default_drivers();
    // SQLite takes a name that begins with `file:` for a URL of its own; none with a
    // folder in front does. Every byte in hexadecimal: as a URL is read, `?` and `..`
    // would mean something.
    let path = match Path::new(path).is_absolute() {
        true => path.to_owned(),
        false => format!("./{path}"),
    };
    let path: String = path.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let url = format!("sqlite:{path}?mode={mode}");
    // A pool tries again for half a minute what fails here for good.
    let mut first = AnyConnection::connect(&url).await?;
    configure(&mut first).await?;
    first.close().await?;
    AnyPoolOptions::new()
        .max_connections(most)
        .after_connect(|connection, _| Box::pin(configure(connection)))
        .connect(&url)
        .await
}

async fn configure(connection: &mut AnyConnection) -> Result<(), sqlx::Error> {
    let settings = "PRAGMA busy_timeout = 10000; PRAGMA journal_mode = WAL; \
                    PRAGMA synchronous = FULL";
    let configured = sqlx::raw_sql(settings).execute(connection).await;
    configured.map(|_| ())
}

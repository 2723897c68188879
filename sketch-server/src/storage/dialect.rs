//! What SQLite and PostgreSQL say differently.
//!
//! Both take `$1` for a value, `ON CONFLICT` and 64-bit integers, so that nearly all
//! statements are one text for both. The rest stands here as words that are put
//! into a statement, or as whole statements where work is claimed.

use super::migrations::Schema;

#[derive(Debug)]
pub struct Dialect {
    pub schema: Schema,
    /// The time, as `runs.received` has it.
    pub now: &'static str,
    /// The time so many seconds ago, with the seconds as `$1`.
    pub ago: &'static str,
    /// Bytes: none.
    pub no_bytes: &'static str,
    /// Passes over rows that another server writes at this moment.
    pub skip_locked: &'static str,
    /// The numbers of a JSON list, with the list as `$2`.
    pub numbers: &'static str,
    /// Whether servers may share the database.
    pub shared: bool,
    /// Adds runs and returns the ids of those that are new; `{values}` are their rows.
    pub add_runs: &'static str,
    /// Which pending runs are this server's; `$3` is its name.
    pub ours: &'static str,
    /// Finds the oldest campaign to prepare; `$1` is the name of this server.
    pub claim_job: &'static str,
}

//! Group commit: runs that arrive at the same time share one synchronised write.
//!
//! A disk takes milliseconds to promise that it will not forget, whether for one
//! run or for hundreds. One task therefore takes what has gathered while the last
//! write was under way and writes it at once; each sender is answered after the
//! write that holds its run. Under no load a run is written alone, without delay.
//!
//! The queue is bounded: senders wait in it, and the sockets behind them.
//! Absent: a timer that waits for more. It would add its delay to every quiet
//! moment, and under load the write itself is the wait.

use super::StorageError;
use super::dialect::Dialect;
use super::rows::{column, failing_to, packed};
use sketch_model::RunRecord;
use sqlx::{AnyPool, AssertSqlSafe};
use std::collections::HashSet;
use std::future::Future;
use tokio::sync::{mpsc, oneshot};

/// Runs in one write.
const MOST_TOGETHER: usize = 512;
/// And bytes, packed.
const MOST_BYTES: usize = 8 << 20;
/// Runs that may wait.
const QUEUE: usize = 2_048;

/// A run as it goes into a table.
pub struct Row {
    pub id: String,
    pub build: String,
    pub campaign: Option<i64>,
    pub iteration: Option<i64>,
    pub plan: i64,
    pub record: Vec<u8>,
}

impl Row {
    pub fn of(record: &RunRecord) -> Result<Row, StorageError> {
        // No text of a PostgreSQL may hold it.
        if record.id.0.contains('\0') || record.build.0.contains('\0') {
            return Err(StorageError::NotAdded {
                why: "its id or its build's contains a NUL".into(),
            });
        }
        let variant = record.execution.tracked();
        Ok(Row {
            id: record.id.0.clone(),
            build: record.build.0.clone(),
            campaign: variant.map(|v| v.campaign.0 as i64),
            iteration: variant.map(|v| i64::from(v.iteration)),
            plan: variant.map_or(0, |v| i64::from(v.plan)),
            record: packed(record)?,
        })
    }
}

/// What writes rows durably, all or none, and says which were new.
pub trait Insert: Send + Sync + 'static {
    fn insert(
        &self,
        rows: &[Row],
    ) -> impl Future<Output = Result<HashSet<String>, StorageError>> + Send;
}

/// The table of runs.
pub struct Added {
    pub pool: AnyPool,
    pub dialect: &'static Dialect,
}

impl Insert for Added {
    async fn insert(&self, rows: &[Row]) -> Result<HashSet<String>, StorageError> {
        let mut rows: Vec<&Row> = rows.iter().collect();
        if self.dialect.shared {
            // Always in one order: two servers that are sent the same runs would
            // otherwise wait for each other.
            rows.sort_by(|a, b| a.id.cmp(&b.id));
        }
        let now = self.dialect.now;
        let values = (0..rows.len()).map(|row| placeholders(row, now));
        let values = values.collect::<Vec<String>>().join(", ");
        // One statement is one transaction.
        let insert = self.dialect.add_runs.replace("{values}", &values);
        let mut insert = sqlx::query(AssertSqlSafe(insert)).persistent(false);
        for row in rows {
            insert = insert.bind(&row.id).bind(&row.build).bind(row.campaign);
            insert = insert
                .bind(row.iteration)
                .bind(row.plan)
                .bind(row.record.as_slice());
        }
        let added = insert.fetch_all(&self.pool).await;
        let added = added.map_err(failing_to("add runs"))?;
        added.iter().map(|row| column(row, "id")).collect()
    }
}

/// Where the values of a row go.
fn placeholders(row: usize, now: &str) -> String {
    let [a, b, c, d, e, f] = [1, 2, 3, 4, 5, 6].map(|number| row * 6 + number);
    format!("(${a}, ${b}, ${c}, ${d}, ${e}, ${f}, {now})")
}

struct Arriving {
    row: Row,
    answer: oneshot::Sender<Result<bool, StorageError>>,
}

/// The way in.
#[derive(Clone, Debug)]
pub struct Intake {
    queue: mpsc::Sender<Arriving>,
}

impl Intake {
    /// Starts the writing task on the current runtime; it ends with the last clone.
    pub fn start(into: impl Insert) -> Intake {
        let (queue, mut arriving) = mpsc::channel(QUEUE);
        tokio::spawn(async move {
            while let Some(first) = arriving.recv().await {
                let batch = gathered(first, &mut arriving);
                write(&into, batch).await;
            }
        });
        Intake { queue }
    }

    /// Adds a run; `false` if it is there already.
    pub async fn add(&self, row: Row) -> Result<bool, StorageError> {
        let (answer, written) = oneshot::channel();
        let gone = || StorageError::NotAdded {
            why: "the server is shutting down".into(),
        };
        let sent = self.queue.send(Arriving { row, answer }).await;
        sent.map_err(|_| gone())?;
        written.await.map_err(|_| gone())?
    }
}

fn gathered(first: Arriving, arriving: &mut mpsc::Receiver<Arriving>) -> Vec<Arriving> {
    let mut bytes = first.row.record.len();
    let mut batch = vec![first];
    while batch.len() < MOST_TOGETHER && bytes < MOST_BYTES {
        let Ok(next) = arriving.try_recv() else { break };
        bytes += next.row.record.len();
        batch.push(next);
    }
    batch
}

async fn write(into: &impl Insert, batch: Vec<Arriving>) {
    let (rows, answers): (Vec<Row>, Vec<_>) = batch.into_iter().map(|a| (a.row, a.answer)).unzip();
    match into.insert(&rows).await {
        Ok(mut new) => {
            // Of two senders of one run the first has added it.
            for (row, answer) in rows.iter().zip(answers) {
                // Whoever asked may have left.
                let _ = answer.send(Ok(new.remove(&row.id)));
            }
        }
        Err(error) if rows.len() == 1 => {
            for answer in answers {
                let why = error.to_string();
                let _ = answer.send(Err(StorageError::NotAdded { why }));
            }
        }
        Err(error) => {
            let not_added = |error: &StorageError| StorageError::NotAdded {
                why: error.to_string(),
            };
            let mut unreachable = (!is_refusal(&error)).then_some(error);
            for (row, answer) in rows.iter().zip(answers) {
                // A database that does not answer would be waited for once a row.
                if let Some(error) = &unreachable {
                    let _ = answer.send(Err(not_added(error)));
                    continue;
                }
                // One row that the database will not have must not take the others with it.
                let added = into.insert(std::slice::from_ref(row)).await;
                let _ = match added {
                    Ok(new) => answer.send(Ok(!new.is_empty())),
                    Err(error) => {
                        let told = answer.send(Err(not_added(&error)));
                        unreachable = (!is_refusal(&error)).then_some(error);
                        told
                    }
                };
            }
        }
    }
}

/// Whether the database looked at what it was given and will not have it.
fn is_refusal(error: &StorageError) -> bool {
    match error {
        StorageError::Database { source, .. } => matches!(source, sqlx::Error::Database(_)),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    /// Refuses rows named "bad", and waits before its first write until told.
    struct Table {
        rows: Mutex<HashSet<String>>,
        writes: Mutex<Vec<usize>>,
        entered: AtomicUsize,
        held: tokio::sync::Semaphore,
    }

    impl Insert for Arc<Table> {
        async fn insert(&self, rows: &[Row]) -> Result<HashSet<String>, StorageError> {
            self.entered.fetch_add(1, Ordering::SeqCst);
            let turn = self.held.acquire().await.expect("open");
            drop(turn);
            self.writes.lock().unwrap().push(rows.len());
            if rows.iter().any(|r| r.id == "unreachable") {
                return Err(StorageError::Database {
                    doing: "add runs",
                    source: sqlx::Error::PoolTimedOut,
                });
            }
            if rows.iter().any(|r| r.id == "bad") {
                let why = "bad".into();
                return Err(StorageError::NotAdded { why });
            }
            let mut table = self.rows.lock().unwrap();
            let new = rows.iter().filter(|r| table.insert(r.id.clone()));
            Ok(new.map(|r| r.id.clone()).collect())
        }
    }

    fn row(id: &str) -> Row {
        Row {
            id: id.into(),
            build: "ab".into(),
            campaign: None,
            iteration: None,
            plan: 0,
            record: Vec::new(),
        }
    }

    /// What becomes of a run and of others that gather while it is written, and the
    /// sizes of the writes.
    async fn gathering(first: &str, others: &[&str]) -> (Vec<Option<bool>>, Vec<usize>) {
        let table = Arc::new(Table {
            rows: Mutex::default(),
            writes: Mutex::default(),
            entered: AtomicUsize::new(0),
            held: tokio::sync::Semaphore::new(0),
        });
        let intake = Intake::start(Arc::clone(&table));
        let send = |id: &str| {
            let (intake, row) = (intake.clone(), row(id));
            tokio::spawn(async move { intake.add(row).await.ok() })
        };
        // The first is being written when the others come.
        let mut senders = vec![send(first)];
        while table.entered.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        senders.extend(others.iter().map(|id| send(id)));
        while intake.queue.capacity() > QUEUE - others.len() {
            tokio::task::yield_now().await;
        }
        table.held.add_permits(1);
        let mut answers = Vec::new();
        for sender in senders {
            answers.push(sender.await.expect("answered"));
        }
        let writes = table.writes.lock().unwrap().clone();
        (answers, writes)
    }

    #[tokio::test]
    async fn what_gathers_is_written_at_once_and_a_bad_row_fails_alone() {
        let (answers, writes) = gathering("a", &["b", "a", "bad", "c"]).await;
        assert_eq!(
            answers,
            [Some(true), Some(true), Some(false), None, Some(true)]
        );
        // The first alone, the rest together, then one by one.
        assert_eq!(writes, [1, 4, 1, 1, 1, 1]);
    }

    #[tokio::test]
    async fn a_database_that_does_not_answer_is_asked_once_for_all() {
        let (answers, writes) = gathering("a", &["b", "unreachable", "c"]).await;
        assert_eq!(answers, [Some(true), None, None, None]);
        assert_eq!(writes, [1, 3]);
    }
}

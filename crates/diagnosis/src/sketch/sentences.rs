//! What a ranked predictor says, in one plain sentence with its counts. What it claims
//! is worded by its class (`crate::predictors`); here stands what all classes share.
//!
//! The counts are of runs in which the predictor could be observed; how many
//! could not stands at the end, because loss correlates with failure and the
//! reader must be able to tell.

use crate::predictors;
use sketch_model::{RankedPredictor, Statement, StatementId, Support};
use std::collections::{BTreeMap, BTreeSet};

/// What is needed to name a statement to a reader.
#[derive(Clone, Debug, Default)]
pub struct Names {
    pub statements: BTreeMap<StatementId, Statement>,
    /// Which threads run it: "main", "producer or consumer".
    pub roles: BTreeMap<StatementId, String>,
    /// Statements that take a lock.
    pub locks: BTreeSet<StatementId>,
}

impl Names {
    /// "`fifo->mut = NULL;` (main, pbzip2.c:88)"
    pub fn phrase(&self, id: StatementId) -> String {
        let Some(statement) = self.statements.get(&id) else {
            return format!("statement {id}");
        };
        let place = self.place(statement);
        if statement.text.is_empty() {
            format!("the code {place}")
        } else {
            format!("`{}` {place}", statement.text)
        }
    }

    /// "(main, pbzip2.c:88)"
    pub fn place(&self, statement: &Statement) -> String {
        match self.roles.get(&statement.id) {
            Some(role) => format!("({role}, {})", statement.location),
            None => format!("({})", statement.location),
        }
    }
}

/// The sentence of a ranked predictor.
pub fn sentence(ranked: &RankedPredictor, names: &Names) -> String {
    let support = ranked.score.support;
    format!(
        "In {} of {} failing runs {}; in {} of {} successful runs{}.",
        support.failing_true,
        support.failing_observed(),
        predictors::sentence(&ranked.predictor, names),
        support.successful_true,
        support.successful_observed(),
        unobserved(&support)
    )
}

fn unobserved(support: &Support) -> String {
    match (support.failing_unobserved, support.successful_unobserved) {
        (0, 0) => String::new(),
        (failing, 0) => format!("; not observable in {failing} failing"),
        (0, successful) => format!("; not observable in {successful} successful"),
        (failing, successful) => {
            format!("; not observable in {failing} failing and {successful} successful")
        }
    }
}

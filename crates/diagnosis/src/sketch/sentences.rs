//! What a predictor says, in one plain sentence with its counts.
//!
//! The counts are of runs in which the predictor could be observed; how many
//! could not stands at the end, because loss correlates with failure and the
//! reader must be able to tell.

use sketch_model::{
    LocationName, OrderPattern, Predictor, RankedPredictor, Statement, StatementId, Support,
    ValueShape,
};
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
        let place = match self.roles.get(&id) {
            Some(role) => format!("({role}, {})", statement.location),
            None => format!("({})", statement.location),
        };
        if statement.text.is_empty() {
            format!("the code {place}")
        } else {
            format!("`{}` {place}", statement.text)
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
        claim(&ranked.predictor, names),
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

fn claim(predictor: &Predictor, names: &Names) -> String {
    match predictor {
        Predictor::Branch {
            statement,
            successor,
            ..
        } => format!("{} took its branch {successor}", names.phrase(*statement)),
        Predictor::Value {
            statement,
            location,
            shape,
            caller,
            ..
        } => {
            let by = caller.map(|caller| format!(", called by {},", names.phrase(caller)));
            let saw = match location {
                LocationName::Argument(_) => "passed",
                _ => "saw",
            };
            format!(
                "{}{} {saw} {location} {}",
                names.phrase(*statement),
                by.unwrap_or_default(),
                shape_words(*shape)
            )
        }
        Predictor::Order {
            pattern,
            location,
            statements,
        } => {
            let phrases: Vec<String> = statements.iter().map(|s| names.phrase(*s)).collect();
            if let ([taken, waiting], true) = (
                phrases.as_slice(),
                statements.iter().all(|s| names.locks.contains(s)),
            ) {
                return format!("{taken} took {location} and {waiting} waited for it in vain");
            }
            order_claim(*pattern, &location.to_string(), &phrases)
        }
    }
}

fn shape_words(shape: ValueShape) -> String {
    match shape {
        ValueShape::Zero => "as 0".to_owned(),
        ValueShape::NonZero => "not 0".to_owned(),
        ValueShape::Negative | ValueShape::Unwritten => shape.to_string(),
        ValueShape::Equals(value) => format!("as {}", value as i64),
    }
}

fn order_claim(pattern: OrderPattern, location: &str, phrases: &[String]) -> String {
    if let (OrderPattern::Rws, [read, wrote, slept]) = (pattern, phrases) {
        return format!(
            "{wrote} wrote {location} after {read} read it, and the reader's {slept} then waited in vain"
        );
    }
    let (second, third) = match pattern {
        OrderPattern::Wr => ("read", ""),
        OrderPattern::Rw | OrderPattern::Ww | OrderPattern::Rws => ("wrote", ""),
        OrderPattern::Rwr | OrderPattern::Wwr => ("wrote", "read"),
        OrderPattern::Rww => ("wrote", "wrote"),
        OrderPattern::Wrw => ("read", "wrote"),
    };
    let first = match pattern {
        OrderPattern::Wr | OrderPattern::Ww | OrderPattern::Wwr | OrderPattern::Wrw => "wrote",
        OrderPattern::Rw | OrderPattern::Rwr | OrderPattern::Rww | OrderPattern::Rws => "read",
    };
    match phrases {
        [a, b] => format!("{a} {first} {location} before {b} {second} it"),
        [a, b, c] => format!(
            "{b} {second} {location} after {a} {first} it and before the same thread's {c} {third} it"
        ),
        _ => format!("the order {pattern} on {location} occurred"),
    }
}

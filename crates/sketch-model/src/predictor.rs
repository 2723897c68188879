//! Predictors: yes/no questions about a run whose answer may separate failing
//! from successful ones, and how well it does.

use crate::{LocationName, StatementId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What an observed value looks like. Shapes separate runs where addresses,
/// which differ from run to run, cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueShape {
    Zero,
    NonZero,
    Equals(u64),
    Negative,
    /// Not zero, though no hook saw anything written there.
    Unwritten,
}

impl fmt::Display for ValueShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueShape::Zero => f.write_str("0"),
            ValueShape::NonZero => f.write_str("not 0"),
            ValueShape::Equals(v) => write!(f, "{v}"),
            ValueShape::Negative => f.write_str("negative"),
            ValueShape::Unwritten => f.write_str("not 0, though nothing was seen to write it"),
        }
    }
}

/// Orders of accesses to one location by two threads that can break a program:
/// atomicity violations (three accesses, the middle one by another thread), races (two
/// accesses by different threads), and missed wakeups (a read, another thread's
/// write, and the reader's sleep from which nobody wakes it).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum OrderPattern {
    Rwr,
    Wwr,
    Rww,
    Wrw,
    Ww,
    Wr,
    Rw,
    /// Read, write, sleep.
    Rws,
}

impl fmt::Display for OrderPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OrderPattern::Rwr => "RWR",
            OrderPattern::Wwr => "WWR",
            OrderPattern::Rww => "RWW",
            OrderPattern::Wrw => "WRW",
            OrderPattern::Ww => "WW",
            OrderPattern::Wr => "WR",
            OrderPattern::Rw => "RW",
            OrderPattern::Rws => "RWS",
        })
    }
}

/// A question about a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Predictor {
    /// Did the branch at this statement ever go this way?
    Branch {
        statement: StatementId,
        column: u32,
        successor: u32,
    },
    /// Did an access at this statement ever see a value of this shape?
    Value {
        statement: StatementId,
        column: u32,
        location: LocationName,
        shape: ValueShape,
        /// Only where this statement calls the function that makes the access.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        caller: Option<StatementId>,
    },
    /// Did these accesses to one location ever happen in this order?
    /// The statements are listed in that order.
    Order {
        pattern: OrderPattern,
        location: LocationName,
        statements: Vec<StatementId>,
    },
    /// Did a statement use memory that another one had freed?
    Lifetime {
        /// The one that freed it, then the one that used it.
        statements: [StatementId; 2],
        /// Another thread freed it than the one that used it.
        other_thread: bool,
        /// The program failed there, which says itself that it used it. Or else it was
        /// seen to.
        at_failure: bool,
    },
}

/// Predictors compete within their class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum PredictorClass {
    Lifetime,
    Order,
    Value,
    Branch,
}

impl PredictorClass {
    /// Among equals the use of freed memory says more than an order, that more than a value,
    /// and a value more than a branch.
    pub const ALL: [PredictorClass; 4] = [
        PredictorClass::Lifetime,
        PredictorClass::Order,
        PredictorClass::Value,
        PredictorClass::Branch,
    ];
}

impl fmt::Display for PredictorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PredictorClass::Lifetime => "lifetime",
            PredictorClass::Order => "order",
            PredictorClass::Value => "value",
            PredictorClass::Branch => "branch",
        })
    }
}

impl Predictor {
    pub fn class(&self) -> PredictorClass {
        match self {
            Predictor::Lifetime { .. } => PredictorClass::Lifetime,
            Predictor::Order { .. } => PredictorClass::Order,
            Predictor::Value { .. } => PredictorClass::Value,
            Predictor::Branch { .. } => PredictorClass::Branch,
        }
    }

    /// Whether it is about what a call was given or gave back, and not about memory.
    pub fn is_of_call(&self) -> bool {
        matches!(self, Predictor::Value { location, .. } if location.is_of_call())
    }

    /// The statements it speaks of, in its order.
    pub fn statements(&self) -> &[StatementId] {
        match self {
            Predictor::Branch { statement, .. } | Predictor::Value { statement, .. } => {
                std::slice::from_ref(statement)
            }
            Predictor::Order { statements, .. } => statements,
            Predictor::Lifetime { statements, .. } => statements,
        }
    }

    /// The statements whose execution it states, for explaining what led to them. Where
    /// the caller matters, calls from elsewhere explain nothing.
    pub fn causes(&self) -> &[StatementId] {
        match self {
            Predictor::Value {
                caller: Some(caller),
                ..
            } => std::slice::from_ref(caller),
            _ => self.statements(),
        }
    }
}

/// In how many runs a predictor held, did not hold, and could not be observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Support {
    pub failing_true: u64,
    pub failing_false: u64,
    pub failing_unobserved: u64,
    pub successful_true: u64,
    pub successful_false: u64,
    pub successful_unobserved: u64,
}

impl Support {
    pub fn failing_observed(&self) -> u64 {
        self.failing_true + self.failing_false
    }

    pub fn successful_observed(&self) -> u64 {
        self.successful_true + self.successful_false
    }
}

/// How well a predictor separates failing from successful runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    pub support: Support,
    /// Of the runs in which it held, the share that failed.
    pub precision: f64,
    /// Of the runs that failed, the share in which it held.
    pub recall: f64,
    /// F with β = 0.5: precision counts more.
    pub f_measure: f64,
    /// 95% Wilson intervals.
    pub precision_interval: (f64, f64),
    pub recall_interval: (f64, f64),
    /// Fisher's exact test, one-sided, times the number of predictors tested and
    /// of looks taken (Bonferroni), at most 1.
    pub corrected_p: f64,
}

/// A predictor with its score; those that held in exactly the same runs stand together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankedPredictor {
    pub predictor: Predictor,
    pub class: PredictorClass,
    pub score: Score,
    pub same_runs: Vec<Predictor>,
    /// It speaks only of the failing statement, or of the condition that guards
    /// it: it tells that the run failed, not why.
    #[serde(default)]
    pub symptom: bool,
}

/// All predictors of one population, best first within each class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ranking {
    /// How many predictors were tested.
    pub tested: u64,
    /// How often the population has been looked at, this time included.
    pub looks: u64,
    pub predictors: Vec<RankedPredictor>,
}

impl Ranking {
    pub fn best(&self, class: PredictorClass) -> Option<&RankedPredictor> {
        self.predictors.iter().find(|p| p.class == class)
    }
}

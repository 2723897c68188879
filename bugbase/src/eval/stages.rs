//! How near a diagnosis was after each iteration, and what each technique adds. Pure.
//!
//! Two questions of the published evaluation: accuracy and recurrences against σ, and
//! what is left of the accuracy with the slice alone, with what control flow
//! confirms of it, and with what data flow adds.

use crate::eval::accuracy::{Element, accuracy, computed, relevance};
use crate::eval::diagnosis::Seen;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;

/// The end of one iteration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    pub sigma: u64,
    pub recurrences: u64,
    pub relevance: f64,
    pub accuracy: f64,
}

/// Relevance by lines, whatever the thread: a slice knows no threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Techniques {
    /// The first σ statements of the slice.
    pub slice: f64,
    /// Those of them that ran in the failing run.
    pub control_flow: f64,
    /// The sketch, with what watchpoints discovered.
    pub data_flow: f64,
}

pub fn stages(seen: &[Seen], ideal: &[Element]) -> Vec<Stage> {
    let stage = |seen: &Seen| {
        let near = accuracy(&computed(&seen.sketch), ideal);
        Stage {
            sigma: u64::from(seen.sigma),
            recurrences: seen.failures.saturating_sub(1),
            relevance: near.relevance,
            accuracy: near.overall(),
        }
    };
    seen.iter().map(stage).collect()
}

/// `None` without a slice.
pub fn techniques(slice: &Value, sketch: &Value, ideal: &[Element]) -> Option<Techniques> {
    let sigma = sketch["provenance"]["sigma"].as_u64()? as usize;
    let entries = slice["entries"].as_array()?;
    let lines = |elements: &[Element]| -> BTreeSet<(String, u64)> {
        let lines = elements.iter().map(|e| (e.file.clone(), e.line));
        lines.collect()
    };
    let tracked: BTreeSet<(String, u64)> = entries
        .iter()
        .take(sigma)
        .filter_map(|entry| {
            let location = &entry["statement"]["location"];
            let file = location["file"].as_str()?.rsplit('/').next()?;
            Some((file.to_owned(), location["line"].as_u64()?))
        })
        .collect();
    let drawn = lines(&computed(sketch));
    let ideal: Vec<_> = lines(ideal).into_iter().collect();
    let near = |set: &BTreeSet<(String, u64)>| {
        let set: Vec<_> = set.iter().cloned().collect();
        relevance(&set, &ideal)
    };
    Some(Techniques {
        slice: near(&tracked),
        control_flow: near(&tracked.intersection(&drawn).cloned().collect()),
        data_flow: near(&drawn),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn element(line: u64) -> Element {
        Element {
            thread: "T".into(),
            file: "p.c".into(),
            line,
        }
    }

    /// σ = 3 tracks lines 1, 2 and 3; 3 did not run, 9 was discovered; 1, 2 and 9 are
    /// ideal: 2 of 4, then 2 of 3, then all.
    #[test]
    fn each_technique_adds_its_part() {
        let at = |line: u64| json!({"statement": {"location": {"file": "/s/p.c", "line": line}}});
        let step = |line: u64| {
            let mut step = at(line);
            step["thread"] = json!(0);
            step
        };
        let slice = json!({"entries": [at(1), at(2), at(3), at(4)]});
        let sketch = json!({"provenance": {"sigma": 3}, "steps": [step(9), step(2), step(1)]});
        let ideal = [element(9), element(2), element(1)];
        let found = techniques(&slice, &sketch, &ideal).unwrap();
        assert_eq!(found.slice, 2.0 / 4.0);
        assert_eq!(found.control_flow, 2.0 / 3.0);
        assert_eq!(found.data_flow, 1.0);
        assert_eq!(techniques(&Value::Null, &sketch, &ideal), None);

        let seen = Seen {
            sigma: 2,
            failures: 4,
            sketch,
            ..Seen::default()
        };
        let stages = stages(&[seen], &ideal);
        assert_eq!((stages[0].recurrences, stages[0].accuracy), (3, 1.0));
    }
}

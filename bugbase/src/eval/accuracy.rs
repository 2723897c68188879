//! How near a computed sketch is to the ideal one: relevance and order.
//!
//! The measures are those of the failure-sketching evaluation (Kasikci's thesis,
//! §6.2.3): relevance A_R = |S∩I| / |S∪I|; ordering A_O = 1 − Kendall's tau distance
//! over the number of pairs in S∩I; A is their mean. We deviate in the unit: the
//! thesis counts LLVM instructions, we count source lines in the column of a
//! thread, because that is what people read. Which thread of a run plays which part
//! of the ideal sketch is not known beforehand: the assignment of columns that
//! agrees best is taken.
//!
//! Deliberately absent: IO. Reading a sketch's JSON is `Element`s' business, in
//! `computed`.

use serde_json::Value;
use std::collections::BTreeSet;

/// A source line in the column of a thread.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Element {
    pub thread: String,
    pub file: String,
    pub line: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    pub relevance: f64,
    pub ordering: f64,
}

impl Accuracy {
    pub fn overall(self) -> f64 {
        (self.relevance + self.ordering) / 2.0
    }
}

/// The share of elements that both lists have, of those that either has.
pub fn relevance<T: Ord>(computed: &[T], ideal: &[T]) -> f64 {
    let computed: BTreeSet<&T> = computed.iter().collect();
    let ideal: BTreeSet<&T> = ideal.iter().collect();
    let either = computed.union(&ideal).count();
    if either == 0 {
        return 1.0;
    }
    computed.intersection(&ideal).count() as f64 / either as f64
}

/// How many pairs of the common elements the two lists order differently, and how
/// many pairs there are.
pub fn kendall_tau<T: PartialEq>(computed: &[T], ideal: &[T]) -> (usize, usize) {
    let positions: Vec<usize> = ideal
        .iter()
        .filter_map(|element| computed.iter().position(|other| other == element))
        .collect();
    let mut inversions = 0;
    for (at, first) in positions.iter().enumerate() {
        inversions += positions[at + 1..].iter().filter(|p| *p < first).count();
    }
    let pairs = positions.len() * positions.len().saturating_sub(1) / 2;
    (inversions, pairs)
}

/// The share of pairs that are in the right order; 1 where there is no pair.
pub fn ordering<T: PartialEq>(computed: &[T], ideal: &[T]) -> f64 {
    match kendall_tau(computed, ideal) {
        (_, 0) => 1.0,
        (inversions, pairs) => 1.0 - inversions as f64 / pairs as f64,
    }
}

/// Accuracy under the assignment of columns that agrees best.
pub fn accuracy(computed: &[Element], ideal: &[Element]) -> Accuracy {
    let ours = threads(computed);
    let theirs = threads(ideal);
    let mut best = Accuracy {
        relevance: 0.0,
        ordering: 0.0,
    };
    for assignment in assignments(ours.len(), theirs.len()) {
        let renamed: Vec<Element> = computed
            .iter()
            .map(|element| {
                let column = ours.iter().position(|name| *name == element.thread);
                let part = column.and_then(|at| assignment[at]);
                Element {
                    // A column without a part agrees with nothing.
                    thread: part.map_or(format!("other {}", element.thread), |p| theirs[p].clone()),
                    ..element.clone()
                }
            })
            .collect();
        let this = Accuracy {
            relevance: relevance(&renamed, ideal),
            ordering: ordering(&renamed, ideal),
        };
        let better = (this.relevance, this.ordering) > (best.relevance, best.ordering);
        if better {
            best = this;
        }
    }
    best
}

fn threads(elements: &[Element]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for element in elements {
        if !names.contains(&element.thread) {
            names.push(element.thread.clone());
        }
    }
    names
}

/// All ways to give each of the columns one part or none, no part twice. More
/// columns than this are cut off: the first ones are the sketch's own choice.
const MOST_COLUMNS: usize = 6;

fn assignments(columns: usize, parts: usize) -> Vec<Vec<Option<usize>>> {
    let mut all = vec![Vec::new()];
    for column in 0..columns {
        let mut longer = Vec::new();
        for assignment in &all {
            let free = (0..parts).filter(|part| !assignment.contains(&Some(*part)));
            let choices: Vec<Option<usize>> = if column < MOST_COLUMNS {
                free.map(Some).chain([None]).collect()
            } else {
                vec![None]
            };
            for choice in choices {
                let mut next = assignment.clone();
                next.push(choice);
                longer.push(next);
            }
        }
        all = longer;
    }
    all
}

/// The elements of a sketch as the server gives it, in its order.
pub fn computed(sketch: &Value) -> Vec<Element> {
    let steps = sketch["steps"].as_array().map_or(&[][..], Vec::as_slice);
    let mut elements: Vec<Element> = Vec::new();
    for step in steps {
        let location = &step["statement"]["location"];
        let file = location["file"].as_str().unwrap_or_default();
        let element = Element {
            thread: step["thread"].to_string(),
            file: file.rsplit('/').next().unwrap_or_default().to_owned(),
            line: location["line"].as_u64().unwrap_or_default(),
        };
        // A line drawn twice in a column is one statement.
        if !elements.contains(&element) {
            elements.push(element);
        }
    }
    elements
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(list: &[(&str, u64)]) -> Vec<Element> {
        list.iter()
            .map(|(thread, line)| Element {
                thread: (*thread).into(),
                file: "p.c".into(),
                line: *line,
            })
            .collect()
    }

    /// The thesis's own example: of the pairs AB, AC, BC one differs.
    #[test]
    fn the_thesis_example() {
        assert_eq!(kendall_tau(&["A", "C", "B"], &["A", "B", "C"]), (1, 3));
        assert_eq!(
            ordering(&["A", "C", "B"], &["A", "B", "C"]),
            1.0 - 1.0 / 3.0
        );
        assert_eq!(relevance(&["A", "C", "B"], &["A", "B", "C"]), 1.0);
    }

    /// S = ⟨A,B,X,C⟩, I = ⟨A,B,C,D⟩: three common of five; all pairs in order.
    #[test]
    fn excess_and_missing_statements_cost_relevance_only() {
        let (s, i) = (["A", "B", "X", "C"], ["A", "B", "C", "D"]);
        assert_eq!(relevance(&s, &i), 3.0 / 5.0);
        assert_eq!(kendall_tau(&s, &i), (0, 3));
    }

    /// ⟨D,C,B,A⟩ against ⟨A,B,C,D⟩: all six pairs are the other way round.
    #[test]
    fn the_reverse_order_is_worth_nothing() {
        assert_eq!(ordering(&["D", "C", "B", "A"], &["A", "B", "C", "D"]), 0.0);
    }

    #[test]
    fn nothing_in_common_has_no_pairs() {
        assert_eq!(relevance(&["A"], &["B"]), 0.0);
        assert_eq!(kendall_tau(&["A"], &["B"]), (0, 0));
        assert_eq!(ordering(&["A"], &["A"]), 1.0);
    }

    /// Both threads run lines 1 and 2. Ideal: A1 B1 A2 B2. The sketch has the
    /// columns under other names and the last two the other way round: of six
    /// pairs one differs, and everything is there.
    #[test]
    fn columns_are_assigned_as_they_fit_best() {
        let ideal = elements(&[("A", 1), ("B", 1), ("A", 2), ("B", 2)]);
        let computed = elements(&[("7", 1), ("3", 1), ("3", 2), ("7", 2)]);
        let accuracy = accuracy(&computed, &ideal);
        assert_eq!(accuracy.relevance, 1.0);
        assert_eq!(accuracy.ordering, 1.0 - 1.0 / 6.0);
        assert_eq!(accuracy.overall(), (1.0 + 5.0 / 6.0) / 2.0);
    }

    /// A third column that the ideal sketch does not have is excess.
    #[test]
    fn a_column_too_many_agrees_with_nothing() {
        let ideal = elements(&[("main", 1), ("main", 2)]);
        let computed = elements(&[("1", 1), ("1", 2), ("2", 1)]);
        let accuracy = accuracy(&computed, &ideal);
        assert_eq!(accuracy.relevance, 2.0 / 3.0);
        assert_eq!(accuracy.ordering, 1.0);
    }

    #[test]
    fn a_sketch_is_read_by_file_line_and_thread() {
        let sketch = serde_json::json!({"steps": [
            {"thread": 0, "statement": {"location": {"file": "/a/p.c", "line": 4}}},
            {"thread": 0, "statement": {"location": {"file": "/a/p.c", "line": 4}}},
            {"thread": 1, "statement": {"location": {"file": "/a/p.c", "line": 9}}},
        ]});
        assert_eq!(computed(&sketch), elements(&[("0", 4), ("1", 9)]));
        assert_eq!(computed(&Value::Null), []);
    }
}

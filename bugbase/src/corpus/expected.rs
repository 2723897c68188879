//! Whether a sketch's best predictors are those that the bug's folder expects.

use crate::corpus::bug::{Class, IdealPredictor, Shape};
use serde_json::{Value, json};

/// Whether the best predictor of a class is one of the expected ones.
pub fn is_expected(ideals: &[IdealPredictor], sketch: &Value) -> bool {
    best_predictors(sketch).any(|best| fits_one(ideals, best, sketch))
}

/// Whether one predictor of a sketch is an expected one.
pub fn fits_one(ideals: &[IdealPredictor], predictor: &Value, sketch: &Value) -> bool {
    !is_vacuous(predictor) && ideals.iter().any(|ideal| matches(ideal, predictor, sketch))
}

/// The best predictor of each class, best class first as the sketch has it.
pub fn best_predictors(sketch: &Value) -> impl Iterator<Item = &Value> {
    sketch["predictors"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|predictor| predictor["best"] == true)
}

/// A predictor that no successful run could contradict separates nothing.
fn is_vacuous(predictor: &Value) -> bool {
    let support = &predictor["score"]["support"];
    let count = |name: &str| support[name].as_u64();
    match (count("successful_true"), count("successful_false")) {
        (Some(with), Some(without)) => with + without == 0,
        _ => false,
    }
}

fn matches(ideal: &IdealPredictor, predictor: &Value, sketch: &Value) -> bool {
    let class = json!(ideal.class);
    let body = &predictor["predictor"][class.as_str().unwrap_or_default()];
    if predictor["class"] != class || body.is_null() {
        return false;
    }
    // What a call saw is at the call, wherever the function called lies.
    let statements: Vec<&Value> = match (body["statements"].as_array(), body.get("caller")) {
        _ if ideal.class == Class::Lifetime => vec![&body["freed_by"], &body["used_by"]],
        (Some(several), _) => several.iter().collect(),
        (None, Some(caller)) => vec![caller],
        (None, None) => vec![&body["statement"]],
    };
    let mut quoted = quoted(predictor["sentence"].as_str().unwrap_or_default());
    if body.get("caller").is_some() && quoted.len() > 1 {
        quoted.remove(0);
    }
    let pattern_fits = ideal
        .pattern
        .is_none_or(|pattern| body["pattern"] == json!(pattern));
    let location_fits = ideal
        .location
        .as_ref()
        .is_none_or(|location| *location == location_name(&body["location"]));
    let shape_fits = ideal
        .shape
        .is_none_or(|shape| has_shape(&body["shape"], shape));
    pattern_fits
        && location_fits
        && shape_fits
        && statements.len() == ideal.statements.len()
        && statements
            .iter()
            .zip(&ideal.statements)
            .enumerate()
            .all(|(at, (id, part))| {
                // A statement that is not drawn is still quoted.
                let in_sentence = quoted.get(at).filter(|_| quoted.len() == statements.len());
                text_of(id, sketch)
                    .or(in_sentence.copied())
                    .is_some_and(|text| text.contains(part))
            })
}

/// "queue.mut", or a global's name.
pub fn location_name(location: &Value) -> String {
    let field = &location["field"];
    match (field["record"].as_str(), field["field"].as_str()) {
        (Some(record), Some(field)) => format!("{record}.{field}"),
        _ => match (location["argument"].as_u64(), location.as_str()) {
            (Some(number), _) => format!("argument {number}"),
            (_, Some(other)) => other.to_owned(),
            _ => location["global"].as_str().unwrap_or("unnamed").to_owned(),
        },
    }
}

/// Whether a predictor's shape is the expected one: by name, or because it is a
/// number of that sign; what nothing had written is not zero.
fn has_shape(shape: &Value, expected: Shape) -> bool {
    match shape["equals"].as_u64() {
        Some(value) => match expected {
            Shape::Equals => true,
            Shape::Negative => (value as i64) < 0,
            _ => false,
        },
        None => *shape == json!(expected) || (shape == "unwritten" && expected == Shape::NonZero),
    }
}

fn text_of<'a>(id: &Value, sketch: &'a Value) -> Option<&'a str> {
    let steps = sketch["steps"].as_array()?;
    let step = steps.iter().find(|s| &s["statement"]["id"] == id)?;
    step["statement"]["text"].as_str()
}

/// The statements that a sentence quotes, in its order.
fn quoted(sentence: &str) -> Vec<&str> {
    sentence.split('`').skip(1).step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sketch(predictor: Value, class: &str) -> Value {
        json!({
            "steps": [
                {"statement": {"id": 3, "text": "q->mut = NULL;"}},
                {"statement": {"id": 5, "text": "unlock(fifo->mut);"}},
            ],
            "predictors": [{"best": true, "class": class, "predictor": predictor}],
        })
    }

    fn order(pattern: &str, statements: [u32; 2]) -> Value {
        let order = json!({"order": {
            "pattern": pattern,
            "location": {"field": {"record": "queue", "field": "mut"}},
            "statements": statements,
        }});
        sketch(order, "order")
    }

    fn ideal(text: &str) -> Vec<IdealPredictor> {
        vec![toml::from_str(text).unwrap()]
    }

    #[test]
    fn only_the_named_order_is_the_expected_one() {
        let ideal = ideal(
            "class = 'order'\npattern = 'WR'\nlocation = 'queue.mut'\n\
             statements = ['q->mut = NULL;', 'fifo->mut']",
        );
        assert!(is_expected(&ideal, &order("WR", [3, 5])));
        assert!(!is_expected(&ideal, &order("RW", [3, 5])));
        assert!(!is_expected(&ideal, &order("WR", [5, 3])));
        assert!(!is_expected(&ideal, &order("WR", [3, 9])));
        assert!(!is_expected(&ideal, &json!({})));
    }

    #[test]
    fn what_no_successful_run_could_contradict_is_not_a_finding() {
        let ideal = ideal("class = 'branch'\nstatements = ['unlock']");
        let branch = json!({"branch": {"statement": 5, "column": 1, "successor": 0}});
        let mut sketch = sketch(branch, "branch");
        sketch["predictors"][0]["score"] =
            json!({"support": {"successful_true": 0, "successful_false": 0}});
        assert!(!is_expected(&ideal, &sketch));
        sketch["predictors"][0]["score"]["support"]["successful_false"] = json!(1);
        assert!(is_expected(&ideal, &sketch));
    }

    #[test]
    fn a_statement_that_is_not_drawn_is_known_from_the_sentence() {
        let ideal = ideal(
            "class = 'order'\npattern = 'WR'\nlocation = 'queue.mut'\n\
             statements = ['q->mut = NULL;', 'fifo->mut']",
        );
        let mut undrawn = order("WR", [8, 5]);
        assert!(!is_expected(&ideal, &undrawn));
        undrawn["predictors"][0]["sentence"] =
            json!("`q->mut = NULL;` (main) wrote queue.mut before `unlock(fifo->mut);` read it");
        assert!(is_expected(&ideal, &undrawn));
    }

    #[test]
    fn a_value_is_expected_by_its_shape() {
        let ideal = ideal("class = 'value'\nshape = 'zero'\nstatements = ['fifo->mut']");
        let value = |shape: Value| {
            let value = json!({"value": {"statement": 5, "column": 1, "shape": shape,
                "location": {"global": "g"}}});
            sketch(value, "value")
        };
        assert!(is_expected(&ideal, &value(json!("zero"))));
        assert!(!is_expected(&ideal, &value(json!("negative"))));
        assert!(!is_expected(&ideal, &value(json!({"equals": 3}))));
    }

    #[test]
    fn a_branch_is_expected_by_its_statement() {
        let ideal = ideal("class = 'branch'\nstatements = ['unlock']");
        let branch = |id: u32| {
            let branch = json!({"branch": {"statement": id, "column": 1, "successor": 0}});
            sketch(branch, "branch")
        };
        assert!(is_expected(&ideal, &branch(5)));
        assert!(!is_expected(&ideal, &branch(3)));
    }
}

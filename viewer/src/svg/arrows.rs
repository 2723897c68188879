//! The order arrows of the SVG picture: from box to box, in the gutter between them.

use crate::svg::{GUTTER, Placed};
use sketch_model::FailureSketch;

/// Between two arrows that share a gutter.
const APART: usize = 12;
/// More arrows than this share their lanes again.
const LANES: usize = 4;
const HEAD: usize = 10;

/// A line and its head, as SVG path data.
pub struct ArrowPath {
    pub line: String,
    pub head: String,
}

/// `one_column`: all boxes stand below each other, and the arrows left of them.
/// An arrow whose step the sketch does not have is left out; the words beside the
/// step name it.
pub fn arrows(sketch: &FailureSketch, places: &[&Placed], one_column: bool) -> Vec<ArrowPath> {
    let of_step = |number: u32| {
        let row = sketch.steps.iter().position(|s| s.number == number)?;
        places.iter().find(|p| p.rows.contains(&row))
    };
    let mut paths = Vec::new();
    for arrow in &sketch.arrows {
        let (Some(from), Some(to)) = (of_step(arrow.from_step), of_step(arrow.to_step)) else {
            continue;
        };
        if std::ptr::eq(*from, *to) {
            continue;
        }
        let lane = paths.len() % LANES * APART;
        let (y1, y2) = (from.top + from.height / 2, to.top + to.height / 2);
        let rightward = !one_column && from.left < to.left;
        let leftward = !one_column && from.left > to.left;
        paths.push(if rightward {
            let x = from.left + from.width + GUTTER / 2 - lane;
            path(from.left + from.width, y1, x, y2, to.left)
        } else if leftward {
            let x = from.left - GUTTER / 2 + lane;
            path(from.left, y1, x, y2, to.left + to.width)
        } else {
            let x = from.left.saturating_sub(GUTTER / 4 + lane);
            path(from.left, y1, x, y2, to.left)
        });
    }
    paths
}

/// Out of a box, along a lane, into another box.
fn path(x1: usize, y1: usize, lane: usize, y2: usize, x2: usize) -> ArrowPath {
    let pointing_right = lane < x2;
    let (tip, back) = if pointing_right {
        (x2, x2.saturating_sub(HEAD))
    } else {
        (x2, x2 + HEAD)
    };
    ArrowPath {
        line: format!("M{x1} {y1}H{lane}V{y2}H{back}"),
        head: format!(
            "M{back} {}L{tip} {y2}L{back} {}z",
            y2.saturating_sub(HEAD / 2 + 1),
            y2 + HEAD / 2 + 1
        ),
    }
}

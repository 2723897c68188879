//! Where the order arrows run, without measuring anything.
//!
//! Steps are rows and threads are columns. Between columns lie gutters, and a
//! gutter has as many lanes as arrows that overlap in it. An arrow leaves its
//! first step sideways into a lane, runs along the lane, and turns sideways into
//! its last step; a cell that it crosses gets the strokes that it needs, as a
//! box-drawing character does. Terminal and page draw the same cells, the one
//! with characters, the other with lines as long as the row happens to be.
//!
//! Gutter `g` lies to the left of column `g`.

/// One end-to-end arrow, by row and column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrow {
    pub from: (usize, usize),
    pub to: (usize, usize),
}

/// The strokes of a lane in one row, from its centre outward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strokes {
    pub up: bool,
    pub down: bool,
    pub left: bool,
    pub right: bool,
}

/// How an arrow meets the side of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    Leaves,
    Arrives,
}

/// What crosses one row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// By gutter, then lane.
    pub lanes: Vec<Vec<Strokes>>,
    /// Gutters that an arrow crosses to their right side, on its way to a column further on.
    pub crossed_gutters: Vec<bool>,
    /// Columns that an arrow crosses: they hold no step in this row.
    pub crossed_columns: Vec<bool>,
    /// How arrows meet this row's step.
    pub left: Option<Touch>,
    pub right: Option<Touch>,
}

/// More arrows than this in one gutter are described in words only.
const MAX_LANES: usize = 4;

/// The strokes of every row; the number of lanes is the same in all of them.
pub fn route(rows: usize, columns: usize, arrows: &[Arrow]) -> Vec<Row> {
    let mut occupied: Vec<Vec<Vec<(usize, usize)>>> = vec![Vec::new(); columns + 1];
    let mut placed = Vec::new();
    for arrow in arrows {
        let gutter = gutter_of(arrow, columns);
        let span = (arrow.from.0.min(arrow.to.0), arrow.from.0.max(arrow.to.0));
        let lanes = &mut occupied[gutter];
        let free = lanes
            .iter()
            .position(|spans| spans.iter().all(|s| s.1 < span.0 || span.1 < s.0));
        let lane = match free {
            Some(lane) => lane,
            None if lanes.len() < MAX_LANES => {
                lanes.push(Vec::new());
                lanes.len() - 1
            }
            None => continue,
        };
        lanes[lane].push(span);
        placed.push((*arrow, gutter, lane));
    }

    let empty = Row {
        lanes: occupied
            .iter()
            .map(|lanes| vec![Strokes::default(); lanes.len()])
            .collect(),
        crossed_gutters: vec![false; columns + 1],
        crossed_columns: vec![false; columns],
        left: None,
        right: None,
    };
    let mut grid = vec![empty; rows];
    for (arrow, gutter, lane) in placed {
        let (top, bottom) = (arrow.from.0.min(arrow.to.0), arrow.from.0.max(arrow.to.0));
        for (row, cell) in grid.iter_mut().enumerate().take(bottom + 1).skip(top) {
            let strokes = &mut cell.lanes[gutter][lane];
            strokes.up |= row > top;
            strokes.down |= row < bottom;
        }
        connect(
            &mut grid[arrow.from.0],
            arrow.from.1,
            gutter,
            lane,
            Touch::Leaves,
        );
        connect(
            &mut grid[arrow.to.0],
            arrow.to.1,
            gutter,
            lane,
            Touch::Arrives,
        );
    }
    grid
}

/// The gutter beside the first step, on the side of the last one.
fn gutter_of(arrow: &Arrow, columns: usize) -> usize {
    let (from, to) = (arrow.from.1, arrow.to.1);
    match from.cmp(&to) {
        std::cmp::Ordering::Less => from + 1,
        std::cmp::Ordering::Greater => from,
        std::cmp::Ordering::Equal if from > 0 || columns == 1 => from,
        std::cmp::Ordering::Equal => 1,
    }
}

/// Draws the line between a lane and the step of `row`, which is in `column`.
fn connect(row: &mut Row, column: usize, gutter: usize, lane: usize, touch: Touch) {
    let (near, far): (fn(&mut Strokes) -> &mut bool, _) = if column >= gutter {
        (|s| &mut s.right, lane + 1..row.lanes[gutter].len())
    } else {
        (|s| &mut s.left, 0..lane)
    };
    *near(&mut row.lanes[gutter][lane]) = true;
    for crossed in far {
        row.lanes[gutter][crossed].left = true;
        row.lanes[gutter][crossed].right = true;
    }
    let (gutters, columns) = if column >= gutter {
        // Beyond its lane it crosses the rest of its own gutter as well.
        row.crossed_gutters[gutter] |= column > gutter;
        (gutter + 1..column + 1, gutter..column)
    } else {
        (column + 1..gutter, column + 1..gutter)
    };
    for crossed in gutters {
        row.crossed_gutters[crossed] = true;
        for strokes in &mut row.lanes[crossed] {
            strokes.left = true;
            strokes.right = true;
        }
    }
    for crossed in columns {
        row.crossed_columns[crossed] = true;
    }
    let side = if column >= gutter {
        &mut row.left
    } else {
        &mut row.right
    };
    // Where one arrow ends and the next begins on the same side, the head shows.
    if *side != Some(Touch::Arrives) {
        *side = Some(touch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOWN_RIGHT: Strokes = Strokes {
        up: false,
        down: true,
        left: true,
        right: false,
    };
    const THROUGH: Strokes = Strokes {
        up: true,
        down: true,
        left: false,
        right: false,
    };
    const INTO_RIGHT: Strokes = Strokes {
        up: true,
        down: false,
        left: false,
        right: true,
    };

    #[test]
    fn an_arrow_between_neighbours_turns_twice() {
        let rows = route(
            4,
            2,
            &[Arrow {
                from: (0, 0),
                to: (2, 1),
            }],
        );
        let lane: Vec<Strokes> = rows.iter().map(|r| r.lanes[1][0]).collect();
        assert_eq!(lane, [DOWN_RIGHT, THROUGH, INTO_RIGHT, Strokes::default()]);
        assert_eq!(rows[0].right, Some(Touch::Leaves));
        assert_eq!(rows[2].left, Some(Touch::Arrives));
        assert_eq!(rows[1].left, None);
    }

    #[test]
    fn a_column_between_is_crossed_in_the_last_row_only() {
        let rows = route(
            3,
            3,
            &[Arrow {
                from: (0, 0),
                to: (2, 2),
            }],
        );
        assert_eq!(rows[2].crossed_columns, [false, true, false]);
        assert_eq!(rows[2].crossed_gutters, [false, true, true, false]);
        assert_eq!(rows[0].crossed_columns, [false, false, false]);
    }

    #[test]
    fn arrows_that_meet_in_a_row_take_two_lanes() {
        let there_and_back = [
            Arrow {
                from: (0, 0),
                to: (1, 1),
            },
            Arrow {
                from: (1, 1),
                to: (2, 0),
            },
        ];
        let rows = route(3, 2, &there_and_back);
        assert_eq!(rows[0].lanes[1].len(), 2);
        assert_eq!(rows[1].left, Some(Touch::Arrives));
        assert_eq!(rows[2].right, Some(Touch::Arrives));
    }

    #[test]
    fn in_one_column_the_arrow_runs_to_its_left() {
        let rows = route(
            2,
            1,
            &[Arrow {
                from: (0, 0),
                to: (1, 0),
            }],
        );
        assert!(rows[0].lanes[0][0].right && rows[0].lanes[0][0].down);
        assert_eq!(rows[1].left, Some(Touch::Arrives));
    }

    #[test]
    fn an_arrow_against_time_keeps_its_head() {
        let rows = route(
            2,
            2,
            &[Arrow {
                from: (1, 0),
                to: (0, 1),
            }],
        );
        assert_eq!(rows[0].left, Some(Touch::Arrives));
        assert_eq!(rows[1].right, Some(Touch::Leaves));
    }
}

//! What the terminal and a ticket show, as small snapshots, and that nothing a
//! sketch holds can break the lines.

use crate::common::{
    first_failure, five_threads, hostile, large, pbzip2, served, three_threads, turns_text,
};
use sketch_model::FailureSketch;
use unicode_width::UnicodeWidthChar;

#[test]
fn a_wide_terminal() {
    insta::assert_snapshot!(viewer::text(&pbzip2(), 100, false));
}

#[test]
fn a_narrow_terminal() {
    insta::assert_snapshot!(viewer::text(&pbzip2(), 72, false));
}

#[test]
fn threads_that_find_no_room_share_a_column() {
    insta::assert_snapshot!(drawing(&viewer::text(&pbzip2(), 60, false)));
}

#[test]
fn an_arrow_crosses_a_column_that_lies_between() {
    insta::assert_snapshot!(drawing(&viewer::text(&three_threads(), 120, false)));
}

#[test]
fn after_the_first_failure() {
    insta::assert_snapshot!(drawing(&viewer::text(&first_failure(), 80, false)));
}

#[test]
fn a_ticket() {
    insta::assert_snapshot!(viewer::markdown(&pbzip2()));
}

/// All above the predictors: the answer and the drawing.
fn drawing(text: &str) -> String {
    let end = text.find("What separates").expect("the predictors follow");
    text[..end].to_owned()
}

fn all() -> Vec<FailureSketch> {
    vec![
        pbzip2(),
        three_threads(),
        five_threads(),
        first_failure(),
        hostile("http://127.0.0.1:1"),
    ]
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for sketch in all() {
        for width in (0..=200).step_by(7).chain([60, 72, 80, 100, 1_000]) {
            for line in viewer::text(&sketch, width, false).lines() {
                let cells: usize = line.chars().map(|c| c.width().unwrap_or(0)).sum();
                assert!(
                    cells <= width.max(60),
                    "{cells} cells at width {width}: {line}"
                );
            }
        }
    }
}

#[test]
fn colour_adds_only_its_own_sequences() {
    for sketch in all() {
        let plain = viewer::text(&sketch, 100, false);
        let coloured = viewer::text(&sketch, 100, true);
        assert_ne!(plain, coloured);
        let mut stripped = String::new();
        let mut pieces = coloured.split('\x1b');
        stripped.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            let (sequence, rest) = piece.split_once('m').expect("a colour ends with m");
            assert!(
                sequence.starts_with('[')
                    && sequence[1..]
                        .chars()
                        .all(|c| c.is_ascii_digit() || c == ';'),
                "not a colour: {sequence:?}"
            );
            stripped.push_str(rest);
        }
        assert_eq!(stripped, plain);
    }
}

#[test]
fn hostile_values_are_inert_and_short() {
    let sketch = hostile("http://127.0.0.1:1");
    for shown in [viewer::text(&sketch, 100, false), viewer::markdown(&sketch)] {
        let acting: Vec<char> = shown
            .chars()
            .filter(|c| (c.is_control() && *c != '\n') || turns_text(*c))
            .collect();
        assert!(acting.is_empty(), "{acting:?}");
        assert!(
            shown.contains("\\u{202e}"),
            "the mark is shown by its number"
        );
        assert!(shown.len() < 100_000, "{} bytes", shown.len());
    }
    // Outside of the fenced drawing and of code nothing may open a tag.
    let markdown = viewer::markdown(&sketch);
    let outside: String = markdown.split("```").step_by(2).collect();
    let outside = outside.replace("\\`", "");
    let outside: String = outside.split('`').step_by(2).collect();
    assert!(!outside.contains('<'), "{outside}");
}

#[test]
fn a_sketch_that_does_not_add_up_is_still_shown() {
    let mut sketch = pbzip2();
    sketch.threads.clear();
    sketch.arrows[0].to_step = 99;
    sketch.arrows[0].predictor = 99;
    sketch.steps[1].number = 1;
    sketch.predictors[0].score.precision = f64::NAN;
    assert!(viewer::text(&sketch, 100, true).contains("FAILS HERE"));
    assert!(served(&sketch, &[]).contains("Fails here"));
    sketch.steps.clear();
    sketch.predictors.clear();
    assert!(viewer::text(&sketch, 100, true).contains("No step is drawn yet"));
    assert!(served(&sketch, &[]).contains("No step is drawn yet"));
}

#[test]
fn a_large_sketch_keeps_all_its_steps() {
    let sketch = large();
    let text = viewer::text(&sketch, 100, false);
    assert_eq!(text.matches("pbzip2.c:902").count(), 400);
    let page = served(&sketch, &[1]);
    assert_eq!(page.matches("<li class=\"step ").count(), 2_000);
    assert!(page.len() < 4_000_000, "{} bytes", page.len());
}

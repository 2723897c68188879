//! The sketch of a pbzip2-like bug, made by hand: main frees and clears the
//! queue's mutex while the last consumer still needs it.

#![allow(dead_code)] // each test file uses its own part

use sketch_model::Gap;
use sketch_model::*;

fn statement(id: u32, function: &str, line: u32, text: &str) -> Statement {
    Statement {
        text: text.to_owned(),
        ..test_support::records::statement(id, function, "/src/pbzip2/pbzip2.c", line)
    }
}

fn step(number: u32, thread: u32, statement: Statement) -> SketchStep {
    SketchStep {
        number,
        thread: ThreadIndex(thread),
        statement,
        values: Vec::new(),
        emphasis: Emphasis::Context,
        times: 1,
        unordered_with: Vec::new(),
        discovered: false,
        static_only: false,
    }
}

pub fn value(of: &str, shown: &str, written: bool) -> SketchValue {
    SketchValue {
        of: of.to_owned(),
        shown: shown.to_owned(),
        exact: true,
        written,
    }
}

fn score(
    support: Support,
    precision: (f64, f64, f64),
    recall: (f64, f64, f64),
    f: f64,
    p: f64,
) -> Score {
    Score {
        support,
        precision: precision.0,
        recall: recall.0,
        f_measure: f,
        precision_interval: (precision.1, precision.2),
        recall_interval: (recall.1, recall.2),
        corrected_p: p,
    }
}

fn mutex_field() -> LocationName {
    LocationName::Field {
        record: "queue".to_owned(),
        field: "mut".to_owned(),
    }
}

pub fn pbzip2() -> FailureSketch {
    let mut steps = vec![
        step(
            1,
            0,
            statement(
                11,
                "queueInit",
                872,
                "q->mut = malloc(sizeof(pthread_mutex_t));",
            ),
        ),
        step(
            2,
            0,
            statement(
                12,
                "main",
                1580,
                "ret = pthread_create(&con, NULL, consumer, fifo);",
            ),
        ),
        step(
            3,
            1,
            statement(13, "consumer", 902, "pthread_mutex_lock(fifo->mut);"),
        ),
        step(
            4,
            1,
            statement(
                14,
                "consumer",
                910,
                "if (fifo->empty && syncGetProducerDone() == 1)",
            ),
        ),
        step(5, 0, statement(15, "queueDelete", 889, "free(q->mut);")),
        step(6, 0, statement(16, "queueDelete", 890, "q->mut = NULL;")),
        step(
            7,
            1,
            statement(
                17,
                "consumer",
                912,
                "if (QuietMode != 1) showProgress(percentComplete);",
            ),
        ),
        step(
            8,
            1,
            statement(18, "consumer", 914, "pthread_mutex_unlock(fifo->mut);"),
        ),
    ];
    steps[0].values = vec![value("queue.mut", "0x55d0c1a2f2e0", true)];
    steps[2].values = vec![value("queue.mut", "0x55d0c1a2f2e0", false)];
    steps[2].times = 12;
    steps[3].values = vec![SketchValue {
        exact: false,
        ..value("queue.empty", "1", false)
    }];
    steps[3].unordered_with = vec![5];
    steps[4].unordered_with = vec![4];
    steps[5].emphasis = Emphasis::RootCause;
    steps[5].values = vec![value("queue.mut", "NULL", true)];
    steps[6].static_only = true;
    steps[7].emphasis = Emphasis::Failing;
    steps[7].values = vec![value("queue.mut", "NULL", false)];
    steps[7].discovered = true;

    let perfect = Support {
        failing_true: 9,
        successful_false: 41,
        ..Support::default()
    };
    let often = Support {
        failing_true: 9,
        successful_true: 6,
        successful_false: 33,
        successful_unobserved: 2,
        ..Support::default()
    };
    let order = SketchPredictor {
        class: PredictorClass::Order,
        predictor: Predictor::Order {
            pattern: OrderPattern::Wr,
            location: mutex_field(),
            statements: vec![StatementId(16), StatementId(18)],
        },
        sentence: "In 9 of 9 failing runs `q->mut = NULL` in main ran before \
                   `pthread_mutex_unlock(fifo->mut)` in consumer; in 0 of 41 successful runs."
            .to_owned(),
        score: score(perfect, (1.0, 0.701, 1.0), (1.0, 0.701, 1.0), 1.0, 3.1e-8),
        best: true,
        same_runs: 1,
    };
    let null = SketchPredictor {
        class: PredictorClass::Value,
        predictor: Predictor::Value {
            statement: StatementId(18),
            column: 27,
            location: mutex_field(),
            shape: ValueShape::Zero,
            caller: None,
        },
        sentence: "In 9 of 9 failing runs `queue.mut` was NULL at pbzip2.c:914; in 0 of 41 \
                   successful runs."
            .to_owned(),
        score: score(perfect, (1.0, 0.701, 1.0), (1.0, 0.701, 1.0), 1.0, 3.1e-8),
        best: true,
        same_runs: 0,
    };
    let branch = SketchPredictor {
        class: PredictorClass::Branch,
        predictor: Predictor::Branch {
            statement: StatementId(14),
            column: 9,
            successor: 0,
        },
        sentence: "In 9 of 9 failing runs the branch at pbzip2.c:910 was taken; in 6 of 39 \
                   successful runs."
            .to_owned(),
        score: score(often, (0.6, 0.357, 0.802), (1.0, 0.701, 1.0), 0.652, 0.0132),
        best: true,
        same_runs: 0,
    };
    FailureSketch {
        schema: Schema::default(),
        campaign: CampaignId(7),
        version: 3,
        build: BuildId("9f1c2ab47be05d3377aa0c1e5d90b7c2a8e4f613".to_owned()),
        program: "pbzip2".to_owned(),
        title: "SIGSEGV in consumer (pbzip2.c:914)".to_owned(),
        summary: order.sentence.clone(),
        said: None,
        settled: true,
        stack: vec![
            "pthread_mutex_unlock (libc.so.6)".to_owned(),
            "consumer (pbzip2.c:914)".to_owned(),
            "start_thread (libc.so.6)".to_owned(),
        ],
        threads: vec![
            SketchThread {
                index: ThreadIndex(0),
                role: "main".to_owned(),
                tid: 4711,
                created_at: Vec::new(),
            },
            SketchThread {
                index: ThreadIndex(1),
                role: "consumer".to_owned(),
                tid: 4713,
                created_at: vec![SourceLocation {
                    file: "/src/pbzip2/pbzip2.c".to_owned(),
                    line: 1580,
                }],
            },
            SketchThread {
                index: ThreadIndex(2),
                role: "fileWriter".to_owned(),
                tid: 4714,
                created_at: Vec::new(),
            },
        ],
        steps,
        arrows: vec![OrderArrow {
            from_step: 6,
            to_step: 8,
            predictor: 0,
        }],
        predictors: vec![order, null, branch],
        provenance: Provenance {
            failing_runs: 9,
            successful_runs: 41,
            all_runs: 1_254,
            all_failures: 12,
            sigma: 8,
            iteration: 3,
            slice_statements: 37,
            predictors_tested: 26,
            looks: 3,
            control_flow: "inline branch recorder".to_owned(),
            capabilities: Capabilities::watchpoints(),
            privacy: "values of scalars only, no strings".to_owned(),
            drawn_run: Some(RunId("host-3/18221".to_owned())),
            untracked_failure_rate: Some(0.0026),
            tracked_failure_rate: Some(0.18),
            coverage: None,
            paused_runs: 0,
            watched: Vec::new(),
            promoted: Vec::new(),
        },
        gaps: vec![Gap::Words(
            "The slice does not follow what `fclose` does inside libc.".to_owned(),
        )],
    }
}

/// Everything a program can put into a sketch, at its worst.
pub fn hostile(origin: &str) -> FailureSketch {
    let mut sketch = pbzip2();
    let markup = format!(
        "</style></code><script>fetch('{origin}/leak')</script><img src=\"{origin}/leak\" onerror=alert(1)>\
         \u{202e}gnp.exe\u{2066}\u{1b}[2J\u{1b}]0;owned\u{7}\r\u{9b}1A\0"
    );
    sketch.title = markup.clone();
    sketch.summary = markup.clone();
    sketch.program = markup.clone();
    sketch.build = BuildId(markup.clone());
    sketch.stack = vec![markup.clone()];
    sketch.gaps = vec![Gap::Words(markup.clone())];
    sketch.threads[0].role = markup.clone();
    sketch.provenance.privacy = markup.clone();
    sketch.provenance.drawn_run = Some(RunId(markup.clone()));
    for step in &mut sketch.steps {
        step.statement.text = format!("\tif (漢字) {markup}");
        step.statement.function = markup.clone();
        step.statement.location.file = markup.clone();
        step.values.push(value(&markup, &markup, false));
    }
    sketch.steps[7]
        .values
        .push(value("body", &"A".repeat(10 << 20), false));
    for predictor in &mut sketch.predictors {
        predictor.sentence = markup.clone();
    }
    sketch
}

/// Marks that change the direction of the text around them.
pub fn turns_text(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Three threads, an arrow that crosses a column, and two that meet in a step.
pub fn three_threads() -> FailureSketch {
    let mut sketch = pbzip2();
    sketch.steps[7].thread = ThreadIndex(2);
    for (from_step, to_step) in [(1, 3), (3, 6)] {
        sketch.arrows.push(OrderArrow {
            from_step,
            to_step,
            predictor: 0,
        });
    }
    sketch
}

/// More threads than columns; two of them are not even listed.
pub fn five_threads() -> FailureSketch {
    let mut sketch = three_threads();
    sketch.steps[3].thread = ThreadIndex(5);
    sketch.steps[4].thread = ThreadIndex(6);
    sketch
}

/// What a reader sees after the first failure: no tracked run yet.
pub fn first_failure() -> FailureSketch {
    let mut sketch = pbzip2();
    sketch.settled = false;
    sketch.version = 1;
    sketch.summary =
        "One failure was seen. A failing run of the tracked build is still missing.".to_owned();
    sketch.predictors.clear();
    sketch.arrows.clear();
    sketch.gaps.clear();
    sketch.steps.drain(..7);
    sketch.steps[0].values.clear();
    sketch.steps[0].discovered = false;
    sketch.steps[0].static_only = true;
    sketch.provenance.drawn_run = None;
    sketch.provenance.tracked_failure_rate = None;
    sketch
}

/// Many threads and steps, as a long diagnosis may draw them.
pub fn large() -> FailureSketch {
    sized(64, 2_000)
}

/// So many threads and steps. What matters stands far apart: the cause early, the
/// failure at the end.
pub fn sized(threads: u32, steps: u32) -> FailureSketch {
    let mut sketch = pbzip2();
    let template = sketch.steps.clone();
    sketch.threads = (0..threads)
        .map(|i| SketchThread {
            index: ThreadIndex(i),
            role: "worker".to_owned(),
            tid: 5_000 + i as i32,
            created_at: Vec::new(),
        })
        .collect();
    let cause = steps / 20;
    sketch.steps = (0..steps)
        .map(|i| {
            let like = match i {
                i if i + 1 == steps => 7,
                i if i + 1 == cause.max(1) => 5,
                i => i as usize % 5,
            };
            let marked = like > 4;
            SketchStep {
                number: i + 1,
                thread: ThreadIndex(i % threads),
                unordered_with: if marked {
                    Vec::new()
                } else {
                    template[like].unordered_with.clone()
                },
                ..template[like].clone()
            }
        })
        .collect();
    sketch.arrows[0].from_step = cause.max(1);
    sketch.arrows[0].to_step = steps;
    sketch
}

/// The page of a sketch as a server shows it.
pub fn served(sketch: &FailureSketch, versions: &[u32]) -> String {
    let mut campaign = campaigns().remove(0);
    if !sketch.settled {
        campaign.state = CampaignState::Tracking;
    }
    let view = viewer::SketchView {
        campaign: &campaign,
        versions,
        unfolded: false,
    };
    viewer::sketch_page(sketch, view)
}

/// The sketch that `./dev demo` drew of the pbzip2 miniature on a real machine.
pub fn real() -> FailureSketch {
    serde_json::from_str(include_str!("../../fixtures/pbzip2.json"))
        .expect("the fixture is a sketch")
}

/// Three failures: diagnosed, under way, and one that cannot be diagnosed.
pub fn campaigns() -> Vec<CampaignSummary> {
    let first = CampaignSummary {
        id: CampaignId(7),
        build: BuildId("9f1c2ab47be0".to_owned()),
        program: "pbzip2".to_owned(),
        signature: FailureSignature("a".to_owned()),
        title: "SIGSEGV in consumer (pbzip2.c:914)".to_owned(),
        state: CampaignState::Settled,
        problem: None,
        sigma: 8,
        iteration: 3,
        runs: 1_254,
        failures: 12,
        tracked_failing: 9,
        tracked_successful: 41,
        sketch_version: Some(3),
        best: Some(BestPredictor {
            class: PredictorClass::Order,
            sentence: pbzip2().summary,
            precision: 1.0,
            recall: 1.0,
            f_measure: 1.0,
        }),
        declared: false,
        pinned: false,
        seen: Some(Seen {
            first: 1_794_700_800,
            last: 1_795_219_200,
            days: vec![(20_772, 1), (20_775, 3), (20_777, 2), (20_778, 6)],
        }),
    };
    let second = CampaignSummary {
        id: CampaignId(8),
        program: "curl".to_owned(),
        title: "SIGSEGV in next_url (tool_urlglob.c:511)".to_owned(),
        state: CampaignState::Tracking,
        sigma: 4,
        iteration: 2,
        tracked_failing: 1,
        tracked_successful: 17,
        best: None,
        ..first.clone()
    };
    let third = CampaignSummary {
        id: CampaignId(9),
        program: "legacy".to_owned(),
        title: "SIGABRT in check (legacy.c:12)".to_owned(),
        state: CampaignState::Failed,
        problem: Some("No module of this build could be proven by recompilation.".to_owned()),
        runs: 3,
        failures: 1,
        best: None,
        ..first.clone()
    };
    vec![first, second, third]
}

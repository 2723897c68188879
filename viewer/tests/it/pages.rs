//! The pages around the sketch: what they say, and that nothing in them acts.
//! How they look in a browser is tested with the server that fills them.

use crate::common::{campaigns, first_failure, hostile, pbzip2, turns_text, value};
use sketch_model::Gap;
use sketch_model::*;
use viewer::{AgentSeen, BuildSeen, RunCost, RunSide, SideBySide, SideCell, SideRow};

/// What a reader reads: the page without its tags and its style.
fn words(html: &str) -> String {
    let body = html.split_once("<main").expect("a page").1;
    let mut text = String::new();
    for piece in body.split('<') {
        text.push_str(piece.split_once('>').map_or("", |(_, t)| t));
        text.push(' ');
    }
    let text = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn says(html: &str, expected: &[&str]) {
    let words = words(html);
    for part in expected {
        assert!(words.contains(part), "{part:?} is not in: {words}");
    }
}

fn slice_of(sketch: &FailureSketch) -> Slice {
    let entry = |(i, step): (usize, &SketchStep)| SliceEntry {
        statement: step.statement.clone(),
        distance: i as u32,
        why: (i > 0).then_some(Why {
            kind: DependenceKind::Memory,
            parent: StatementId(18),
        }),
        roles: vec!["main".to_owned()],
        points: Vec::new(),
    };
    let backward: Vec<&SketchStep> = sketch.steps.iter().rev().collect();
    Slice {
        schema: Slice::SCHEMA,
        build: sketch.build.clone(),
        entries: backward.into_iter().enumerate().map(entry).collect(),
        gaps: vec![Gap::LoadsUnresolved { count: 2 }],
    }
}

#[test]
fn a_version_says_what_changed_since_the_one_before() {
    let first = first_failure();
    let mut second = pbzip2();
    (second.version, second.settled) = (2, false);
    second.provenance.sigma = 4;
    second.gaps.push(Gap::FailedOtherwise { count: 13 });
    let mut third = second.clone();
    (third.version, third.settled) = (3, true);
    third.predictors[0].score.f_measure = 0.91;
    third.steps.remove(0);
    let page = viewer::progress_page(&campaigns()[0], &[first, second, third], 0);
    says(
        &page,
        &[
            "Sketch 3 The diagnosis has settled. The leading predictor's F went from 1.00 to 0.91.",
            "1 statement gone: q->mut = malloc(sizeof(pthread_mutex_t)); (pbzip2.c:872).",
            "Sketch 2 There is a first predictor, F 1.00. σ went from 8 to 4.",
            "The first failing run of a tracked build is drawn.",
            "7 statements new: q->mut = malloc(sizeof(pthread_mutex_t)); (pbzip2.c:872),",
            "and 3 more.",
            "New gap: 13 tracked runs failed differently",
            "Sketch 1 Drawn from the slice alone.",
        ],
    );
}

#[test]
fn a_version_in_which_only_counts_moved_says_so() {
    let (before, mut after) = (pbzip2(), pbzip2());
    after.version = 4;
    after.provenance.successful_runs += 1;
    let page = viewer::progress_page(&campaigns()[0], &[before, after], 2);
    says(
        &page,
        &[
            "Sketch 4 only the counts changed",
            "2 earlier sketches are not listed",
        ],
    );
}

#[test]
fn buttons_offer_what_can_be_done() {
    let offered = |state, sketch_version| -> Vec<String> {
        let mut campaign = campaigns().remove(0);
        (campaign.state, campaign.sketch_version) = (state, sketch_version);
        let page = viewer::progress_page(&campaign, &[], 0);
        let forms = page.split("action=\"/campaigns/7/").skip(1);
        forms
            .map(|f| f.split('"').next().unwrap_or_default().to_owned())
            .collect()
    };
    use CampaignState::*;
    assert_eq!(
        offered(Tracking, Some(1)),
        ["stop", "pin", "widen", "declare"]
    );
    assert_eq!(offered(Preparing, None), ["stop", "pin", "widen"]);
    assert_eq!(offered(Stopped, Some(1)), ["resume", "widen", "declare"]);
    assert_eq!(offered(Settled, Some(1)), ["resume", "widen"]);
    assert_eq!(offered(Failed, Some(1)), [""; 0]);
}

#[test]
fn failures_stand_by_program_with_when_they_were_seen() {
    let page = viewer::failures_page(&campaigns());
    says(
        &page,
        &[
            "pbzip2 build 9f1c2ab47be0",
            "settled σ 8, iteration 3: 9 failing, 41 successful last 2026-11-21",
            "curl build",
            "No module of this build could be proven",
        ],
    );
    assert_eq!(page.matches("<section class=\"panel\"").count(), 3);
    let days = page.split("class=\"trend\"").nth(1).expect("a trend");
    let days = days.split("</svg>").next().unwrap_or_default();
    assert_eq!(days.matches("<rect").count(), 4, "{days}");
}

#[test]
fn the_slice_says_why_each_statement_is_in_it() {
    let sketch = pbzip2();
    let page = viewer::slice_page(&campaigns()[0], &slice_of(&sketch), Some(&sketch));
    says(
        &page,
        &[
            "8 statements can have led to the failure",
            "pthread_mutex_unlock (fifo->mut); consumer () pbzip2.c:914 the failing statement",
            "queueDelete () pbzip2.c:890 stores what is loaded by pthread_mutex_unlock(fifo->mut); main drawn",
            "2 loads in the slice go through pointers",
        ]
        .map(|s| s.replace(" ()", "()"))
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>(),
    );
    assert!(page.contains("href=\"/campaigns/7/source?file=/src/pbzip2/pbzip2.c#L890\""));
}

#[test]
fn the_source_has_the_slice_marked() {
    let sketch = pbzip2();
    let text: String = (1..=1_600).map(|n| format!("line({n});\n")).collect();
    let page = viewer::source_page(
        &campaigns()[0],
        &slice_of(&sketch),
        Some(&sketch),
        "/src/pbzip2/pbzip2.c",
        Some(&text),
    );
    for (line, class) in [(914, "failing"), (890, "cause"), (872, "drawn")] {
        let item = format!("<li id=\"L{line}\" class=\"{class}\">");
        assert!(page.contains(&item), "{item}");
    }
    assert!(page.contains("<li id=\"L873\"><a"), "unmarked");
    let page = viewer::source_page(&campaigns()[0], &slice_of(&sketch), None, "/no/such", None);
    says(&page, &["was not registered with the build"]);
}

#[test]
fn of_two_runs_the_values_that_differ_are_marked() {
    let sketch = pbzip2();
    let cell = |shown: &str, position| SideCell {
        times: 3,
        position,
        threads: vec!["consumer".to_owned()],
        values: vec![value("queue.mut", shown, false)],
    };
    let row = |failing: &str, successful: &str| SideRow {
        statement: sketch.steps[7].statement.clone(),
        failing: Some(cell(failing, 2)),
        successful: Some(cell(successful, 1)),
    };
    let side = |id: &str| RunSide {
        id: id.to_owned(),
        agent: "agent-1".to_owned(),
        wall_us: 12_345,
        cpu_us: 2_000,
        gaps: Vec::new(),
    };
    let mut runs = SideBySide {
        iteration: 2,
        failing: Some(side("run-a")),
        successful: Some(side("run-b")),
        rows: vec![row("NULL", "0x55d0")],
    };
    let page = viewer::runs_page(&campaigns()[0], &runs, Some(&sketch));
    assert_eq!(page.matches("class=\"value telling\"").count(), 2);
    says(
        &page,
        &[
            "Failing run run-a on agent-1 · 12 ms, 2 ms of CPU",
            "#2 consumer",
        ],
    );
    runs.rows = vec![row("0x55d1", "0x55d0")];
    let page = viewer::runs_page(&campaigns()[0], &runs, Some(&sketch));
    assert_eq!(
        page.matches("class=\"value telling\"").count(),
        0,
        "addresses always differ"
    );
}

#[test]
fn the_fleet_and_the_builds() {
    let cost = |runs, cpu_us| RunCost {
        runs,
        failures: 1,
        cpu_us,
    };
    let agent = AgentSeen {
        agent: AgentId("agent-1".to_owned()),
        capabilities: Capabilities::watchpoints(),
        build: BuildId("abc".to_owned()),
        assigned: Some(test_support::records::variant(7, 2, 0)),
        first: 0,
        last: 86_400,
        untracked: cost(10, 100_000),
        tracked: cost(20, 220_000),
        gaps: Vec::new(),
        privacy_key: Some("0a1b2c3d".to_owned()),
    };
    let other = |key: &str| AgentSeen {
        agent: AgentId("agent-2".to_owned()),
        privacy_key: Some(key.to_owned()),
        ..agent.clone()
    };
    let incomparable = "Values of machines with different privacy secrets cannot be compared";
    let same = viewer::fleet_page(&[agent.clone(), other("0a1b2c3d")], 0);
    assert!(!same.contains(incomparable));
    says(
        &viewer::fleet_page(&[agent.clone(), other("ffffffff")], 0),
        &[incomparable, "2 secrets are in use", "secret ffffffff"],
    );
    says(
        &viewer::fleet_page(&[agent], 3),
        &[
            "agent-1 values disguised by secret 0a1b2c3d hooks and watchpoints campaign 7 , iteration 2",
            "+10.0% 10.0 ms, 11.0 ms",
            "1970-01-02 00:00",
            "3 further agents",
        ],
    );
    let build = BuildSeen {
        build: BuildId("abc".to_owned()),
        program: "pbzip2".to_owned(),
        path: "/opt/pbzip2".to_owned(),
        modules: 3,
        trackable: 2,
        functions: 40,
        sources: 5,
        without_sandbox: true,
        untrackable: vec!["asm.S: assembly".to_owned()],
        runs: 7,
        failures: 1,
        campaigns: vec![7],
    };
    says(
        &viewer::builds_page(&[build]),
        &[
            "2 of 3",
            "registered without a sandbox",
            "1 part cannot be tracked",
            "asm.S: assembly",
        ],
    );
}

#[test]
fn hostile_words_stay_words_on_every_page() {
    let sketch = hostile("http://127.0.0.1:1");
    let evil = sketch.title.clone();
    let mut campaign = campaigns().remove(0);
    (campaign.title, campaign.program) = (evil.clone(), evil.clone());
    campaign.problem = Some(evil.clone());
    let mut slice = slice_of(&sketch);
    slice.gaps = vec![Gap::Words(evil.clone())];
    slice.entries[0].roles = vec![evil.clone()];
    let file = sketch.steps[0].statement.location.file.clone();
    let run = RunSide {
        id: evil.clone(),
        agent: evil.clone(),
        wall_us: 0,
        cpu_us: 0,
        gaps: vec![Gap::Words(evil.clone())],
    };
    let runs = SideBySide {
        iteration: 1,
        failing: Some(run.clone()),
        successful: Some(run),
        rows: vec![SideRow {
            statement: sketch.steps[0].statement.clone(),
            failing: Some(SideCell {
                times: 1,
                position: 1,
                threads: vec![evil.clone()],
                values: sketch.steps[7].values.clone(),
            }),
            successful: None,
        }],
    };
    let pages = [
        viewer::failures_page(std::slice::from_ref(&campaign)),
        viewer::progress_page(&campaign, &[first_failure(), sketch.clone()], 0),
        viewer::slice_page(&campaign, &slice, Some(&sketch)),
        viewer::source_page(&campaign, &slice, Some(&sketch), &file, Some(&evil)),
        viewer::runs_page(&campaign, &runs, Some(&sketch)),
    ];
    for page in pages {
        let body = page.split_once("<body").expect("a page").1;
        for acting in ["<script", "<img", "onerror=alert(1)>\"", "</style>"] {
            assert!(!body.contains(acting), "{acting} in {body}");
        }
        assert!(!page.chars().any(turns_text));
        assert!(!page.chars().any(|c| c.is_control() && c != '\n'));
        assert!(page.len() < 300_000, "{} bytes", page.len());
    }
}

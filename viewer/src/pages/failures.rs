//! The list of failures: where an on-call engineer begins.
//!
//! Failures of one build of one program stand together, the most recent first:
//! whoever is on call knows the program and asks what is new in it.

use crate::escape::{self, NAME_LIMIT, SENTENCE_LIMIT};
use crate::numbers::{count, date, rate, share};
use crate::shell::{self, Frame, document, sentence};
use crate::table::{Name, figure, table, words};
use maud::{Markup, html};
use sketch_model::{CampaignState, CampaignSummary, Seen};

/// The page that lists all campaigns.
pub fn failures_page(campaigns: &[CampaignSummary]) -> String {
    let body = html! {
        section.answer {
            h1 { "Failures" }
            @if !campaigns.is_empty() {
                p.lead { "Each failure is tracked until something separates failing from successful runs." }
            }
        }
        @if campaigns.is_empty() { (empty()) }
        @for group in grouped(campaigns) { (program(&group)) }
    };
    document(Frame::Served, "Failures", shell::everywhere("/"), body)
}

/// By program and build, in the order of first appearance; within, the latest first.
fn grouped(campaigns: &[CampaignSummary]) -> Vec<Vec<&CampaignSummary>> {
    let mut groups: Vec<Vec<&CampaignSummary>> = Vec::new();
    for c in campaigns {
        let same = |g: &&mut Vec<&CampaignSummary>| {
            g.first()
                .is_some_and(|f| (&f.program, &f.build) == (&c.program, &c.build))
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(c),
            None => groups.push(vec![c]),
        }
    }
    for group in &mut groups {
        let last = |c: &CampaignSummary| c.seen.as_ref().map_or(0, |s| s.last);
        group.sort_by_key(|c| (std::cmp::Reverse(last(c)), c.id));
    }
    groups
}

fn program(group: &[&CampaignSummary]) -> Markup {
    let Some(first) = group.first() else {
        return html! {};
    };
    let name = escape::visible(&first.program, NAME_LIMIT);
    let build: String = first.build.0.chars().take(12).collect();
    html! {
        section.panel aria-label={ "Failures of " (name) } {
            h2 { (name) " " span.fine { "build " code { (escape::visible(&build, NAME_LIMIT)) } } }
            (table(Name::Is(&format!("Failures of {name}")), Some("failures"), html! {
                (words("Failure")) (words("Diagnosis")) (words("Seen")) (figure("Runs")) (figure("Failures"))
                (words("Best predictor so far"))
            }, html! { @for campaign in group { (row(campaign)) } }))
        }
    }
}

fn row(c: &CampaignSummary) -> Markup {
    let failure_rate = (c.runs > 0).then(|| c.failures as f64 / c.runs as f64);
    html! {
        tr {
            th scope="row" {
                a.title href={ "/campaigns/" (c.id) } { (escape::visible(&c.title, SENTENCE_LIMIT)) }
                span.fine { "campaign " (c.id) }
            }
            td {
                span class={ "state " (c.state) } { (c.state) }
                span.fine { (how_far(c)) }
            }
            td.seen data-label="Seen" { (seen(c.seen.as_ref())) }
            td.figure data-label="Runs" { (count(c.runs)) }
            td.figure data-label="Failures" { b { (count(c.failures)) } span.interval { (rate(failure_rate)) } }
            td.best-so-far {
                @if let Some(best) = &c.best {
                    span.says { (sentence(&best.sentence)) }
                    span.fine {
                        (best.class) " · precision " (share(best.precision)) " · recall " (share(best.recall))
                        " · F " (share(best.f_measure))
                    }
                } @else {
                    span.fine { "no predictor yet" }
                }
            }
        }
    }
}

fn how_far(c: &CampaignSummary) -> Markup {
    html! {
        @match (&c.problem, c.state) {
            (Some(problem), _) => (sentence(problem)),
            (None, CampaignState::Preparing) => { "σ " (c.sigma) ", building the tracked program" },
            (None, CampaignState::Settled) if c.declared => { "accepted by a developer at " (c.sigma) " tracked statements" },
            (None, _) => {
                "σ " (c.sigma) ", iteration " (c.iteration) ": " (count(c.tracked_failing)) " failing, "
                (count(c.tracked_successful)) " successful"
            }
        }
    }
}

/// First, last, and the days between as small bars.
fn seen(seen: Option<&Seen>) -> Markup {
    let Some(seen) = seen else {
        return html! { span.fine { "unknown" } };
    };
    let last_day = seen.days.last().map_or(0, |(day, _)| *day);
    let span = Seen::DAYS as u64;
    let highest = seen.days.iter().map(|(_, n)| *n).max().unwrap_or(1).max(1);
    let bars = seen.days.iter().filter_map(|(day, n)| {
        let ago = last_day.checked_sub(*day).filter(|ago| *ago < span)?;
        let height = (*n as f64 / highest as f64 * 20.0).max(2.0);
        Some((((span - 1 - ago) * 6), height, *day, *n))
    });
    html! {
        span { "last " (date(seen.last)) }
        span.fine { "first " (date(seen.first)) }
        svg.trend viewBox="0 0 84 22" role="img" aria-label="Failures by day, the last fourteen days up to the latest" {
            line x1="0" x2="84" y1="21.5" y2="21.5" {}
            @for (x, height, day, n) in bars {
                rect x=(x) y=(format!("{:.1}", 21.0 - height)) width="4" height=(format!("{height:.1}")) {
                    title { (date(day * 86_400).split(' ').next().unwrap_or_default()) ": " (n) }
                }
            }
        }
    }
}

/// What to do when there is nothing to see yet.
fn empty() -> Markup {
    html! {
        section.panel.begin {
            h2 { "No failure has been reported yet" }
            p { "Failsketch begins its work when a registered program fails under an agent." }
            ol {
                li { "Build the program with the compiler wrapper" pre { code { "failsketch cc -O2 -o app app.c -lpthread" } } }
                li { "Register the build with this server" pre { code { "failsketch register ./app --deploy ./app.deployed" } } }
                li { "Run it under an agent on each machine" pre { code { "failsketch-agent run --server URL --key signing.pub -- ./app.deployed" } } }
            }
            p { "The first failure appears on this page by itself; reload to see it." }
        }
    }
}

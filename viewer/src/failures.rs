//! The list of failures: where an on-call engineer begins.

use crate::escape::{self, NAME_LIMIT, SENTENCE_LIMIT};
use crate::numbers::{count, rate, share};
use crate::shell::{self, Frame, document, sentence};
use maud::{Markup, html};
use sketch_model::{CampaignState, CampaignSummary};

/// The page that lists all campaigns.
pub fn failures_page(campaigns: &[CampaignSummary]) -> String {
    let body = html! {
        section.answer {
            h1 { "Failures" }
            @if !campaigns.is_empty() {
                p.lead { "Each failure is followed until runs that fail and runs that do not can be told apart." }
            }
        }
        @if campaigns.is_empty() {
            (empty())
        } @else {
            section.panel aria-label="Failures" {
                div.scroll tabindex="0" role="region" aria-label="Failures" {
                    table.failures {
                        thead { tr {
                            th scope="col" { "Failure" }
                            th scope="col" { "Diagnosis" }
                            th.figure scope="col" { abbr title="tracked statements" { "σ" } }
                            th.figure scope="col" { "Runs" }
                            th.figure scope="col" { "Failures" }
                            th scope="col" { "Best predictor so far" }
                        } }
                        tbody { @for campaign in campaigns { (row(campaign)) } }
                    }
                }
            }
        }
    };
    document(Frame::Served, "Failures", shell::everywhere("/"), body)
}

fn row(c: &CampaignSummary) -> Markup {
    let failure_rate = (c.runs > 0).then(|| c.failures as f64 / c.runs as f64);
    html! {
        tr {
            th scope="row" {
                a.title href={ "/campaigns/" (c.id) } { (escape::visible(&c.title, SENTENCE_LIMIT)) }
                span.fine { (escape::visible(&c.program, NAME_LIMIT)) " · campaign " (c.id) }
            }
            td {
                span class={ "state " (c.state) } { (c.state) }
                span.fine {
                    @match (&c.problem, c.state) {
                        (Some(problem), _) => (sentence(problem)),
                        (None, CampaignState::Preparing) => "making the tracked build",
                        (None, _) => {
                            "iteration " (c.iteration) ": " (count(c.tracked_failing)) " failing, "
                            (count(c.tracked_successful)) " successful"
                        }
                    }
                }
            }
            td.figure data-label="σ" { (c.sigma) }
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

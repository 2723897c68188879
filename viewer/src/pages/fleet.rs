//! The fleet: which agents are there, what their machines can do, what they ran,
//! and what tracking cost them.
//!
//! Everything is as the server has seen it since it started.

use crate::escape::{self, NAME_LIMIT};
use crate::numbers::{count, date};
use crate::shell::{self, Frame, document};
use crate::table::{Name, figure, short, table, words};
use maud::{Markup, html};
use sketch_model::{AgentId, BuildId, Capabilities, Gap, VariantRef};
use std::collections::BTreeSet;

/// Runs of one kind, and the CPU time they took together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunCost {
    pub runs: u64,
    pub failures: u64,
    pub cpu_us: u64,
}

/// An agent as the server has seen it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSeen {
    pub agent: AgentId,
    pub capabilities: Capabilities,
    pub build: BuildId,
    /// What it was last told to run.
    pub assigned: Option<VariantRef>,
    /// Seconds since 1970.
    pub first: u64,
    pub last: u64,
    /// Of P, and of tracked builds.
    pub untracked: RunCost,
    pub tracked: RunCost,
    /// Its last run's losses.
    pub gaps: Vec<Gap>,
    /// Which secret disguised its last run's values, by a fingerprint, if one did.
    pub privacy_key: Option<String>,
}

/// `forgotten` agents found no room in the server's record.
pub fn fleet_page(agents: &[AgentSeen], forgotten: u64) -> String {
    let body = html! {
        section.answer {
            h1 { "Fleet" }
            p.lead { "Agents that have asked this server for work or reported runs since it started." }
        }
        section.panel aria-label="Agents" {
            @if agents.is_empty() {
                p.empty { "No agent has contacted this server yet." }
            } @else {
                (table(Name::Is("Agents"), None, html! {
                    (words("Agent")) (words("Records with")) (words("Runs now")) (figure("Runs of P"))
                    (figure("Runs of P′"))
                    (short("CPU, P′ against P", "mean CPU time of tracked runs against runs of P"))
                    (words("Last contact"))
                }, html! { @for agent in agents { (row(agent)) } }))
                @if secrets(agents) > 1 {
                    p.fine {
                        "Values of machines with different privacy secrets cannot be compared: the same value is disguised differently on each. "
                        (count(secrets(agents) as u64)) " secrets are in use; put one file on all machines (privacy_secret in their configuration)."
                    }
                }
                @if forgotten > 0 { p.fine { (count(forgotten)) " further agents are not listed." } }
                p.fine { "CPU time is the mean over all runs of an agent, whatever their input: a hint, not a measurement. P′ runs on a share of the runs only; one run in eight stays with P." }
            }
        }
    };
    document(Frame::Served, "Fleet", shell::everywhere("/fleet"), body)
}

/// How many secrets disguise the values of these agents.
fn secrets(agents: &[AgentSeen]) -> usize {
    let keys: BTreeSet<_> = agents
        .iter()
        .filter_map(|a| a.privacy_key.as_ref())
        .collect();
    keys.len()
}

fn row(a: &AgentSeen) -> Markup {
    let build: String = a.build.0.chars().take(12).collect();
    html! {
        tr {
            th scope="row" {
                b { (escape::visible(&a.agent.0, NAME_LIMIT)) }
                @if let Some(key) = &a.privacy_key { span.fine { "values disguised by secret " code { (escape::visible(key, NAME_LIMIT)) } } }
                @for gap in a.gaps.iter().take(3) { span.fine { (escape::visible(&gap.to_string(), NAME_LIMIT)) } }
            }
            td data-label="Records with" { (a.capabilities) }
            td data-label="Runs now" {
                @match a.assigned {
                    Some(v) => { a href={ "/campaigns/" (v.campaign) } { "campaign " (v.campaign) } ", iteration " (v.iteration) },
                    None => "P",
                }
                span.fine { code { (escape::visible(&build, NAME_LIMIT)) } }
            }
            td.figure data-label="Runs of P" { (cost(a.untracked)) }
            td.figure data-label="Runs of P′" { (cost(a.tracked)) }
            td.figure data-label="CPU" { (overhead(a.untracked, a.tracked)) }
            td data-label="Last contact" { (date(a.last)) span.fine { "first " (date(a.first)) } }
        }
    }
}

fn cost(c: RunCost) -> Markup {
    html! { b { (count(c.runs)) } @if c.failures > 0 { span.interval { (count(c.failures)) " failed" } } }
}

fn overhead(p: RunCost, tracked: RunCost) -> Markup {
    if p.runs == 0 || tracked.runs == 0 || p.cpu_us == 0 {
        return html! { span.fine { "not known yet" } };
    }
    let mean = |c: RunCost| c.cpu_us as f64 / c.runs as f64;
    let percent = (mean(tracked) / mean(p) - 1.0) * 100.0;
    html! {
        b { (format!("{percent:+.1}%")) }
        span.interval { (format!("{:.1} ms, {:.1} ms", mean(p) / 1_000.0, mean(tracked) / 1_000.0)) }
    }
}

//! The registered builds: what the server can diagnose, and what of it cannot
//! be tracked and why.

use crate::escape::{self, NAME_LIMIT, SENTENCE_LIMIT};
use crate::numbers::{count, counted};
use crate::shell::{self, Frame, document};
use crate::table::{Name, figure, table, words};
use maud::{Markup, html};
use sketch_model::BuildId;

/// A build as the page lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildSeen {
    pub build: BuildId,
    pub program: String,
    pub path: String,
    pub modules: u64,
    pub trackable: u64,
    pub functions: u64,
    pub sources: u64,
    /// Whether it was registered with `--without-sandbox`.
    pub without_sandbox: bool,
    /// What cannot be tracked and why, in words.
    pub untrackable: Vec<String>,
    pub runs: u64,
    pub failures: u64,
    /// Campaigns about it, by number.
    pub campaigns: Vec<u64>,
}

pub fn builds_page(builds: &[BuildSeen]) -> String {
    let body = html! {
        section.answer {
            h1 { "Builds" }
            p.lead { "Programs registered with this server's build store." }
        }
        section.panel aria-label="Builds" {
            @if builds.is_empty() {
                p.empty { "No build is registered yet: " code { "failsketch register BINARY" } " adds one." }
            } @else {
                (table(Name::Is("Builds"), None, html! {
                    (words("Program")) (figure("Proven modules")) (figure("Functions")) (figure("Sources"))
                    (figure("Runs")) (figure("Failures")) (words("Campaigns"))
                }, html! { @for build in builds { (row(build)) } }))
            }
        }
    };
    document(Frame::Served, "Builds", shell::everywhere("/builds"), body)
}

fn row(b: &BuildSeen) -> Markup {
    html! {
        tr {
            th scope="row" {
                b { (escape::visible(&b.program, NAME_LIMIT)) }
                span.fine { code { (escape::visible(&b.build.0, NAME_LIMIT)) } }
                span.fine { (escape::visible(&b.path, NAME_LIMIT)) }
                @if b.without_sandbox {
                    span.fine { "registered without a sandbox" }
                }
                @if !b.untrackable.is_empty() {
                    details.untrackable {
                        summary { (counted(b.untrackable.len() as u64, "part")) " cannot be tracked" }
                        ul.gaps { @for reason in &b.untrackable { li { (escape::visible(reason, SENTENCE_LIMIT)) } } }
                    }
                }
            }
            td.figure data-label="Proven modules" { (count(b.trackable)) " of " (count(b.modules)) }
            td.figure data-label="Functions" { (count(b.functions)) }
            td.figure data-label="Sources" { (count(b.sources)) }
            td.figure data-label="Runs" { (count(b.runs)) }
            td.figure data-label="Failures" { (count(b.failures)) }
            td data-label="Campaigns" {
                @if b.campaigns.is_empty() { span.fine { "none" } }
                @for (i, id) in b.campaigns.iter().enumerate() {
                    @if i > 0 { ", " }
                    a href={ "/campaigns/" (id) } { (id) }
                }
            }
        }
    }
}

//! What all pages share: head, navigation, foot, and text with code in it.

use crate::escape::{self, SENTENCE_LIMIT};
use crate::policy::{SCRIPT_PATH, SERVED_POLICY, STANDALONE_POLICY, STYLE};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sketch_model::CampaignId;

/// A crossed-out diamond in the colours of the page.
const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E\
    %3Crect width='32' height='32' rx='8' fill='%23171923'/%3E\
    %3Cpath d='M8 8v9a5 5 0 0 0 5 5h11' fill='none' stroke='%23f5a524' stroke-width='3.5' stroke-linecap='round'/%3E\
    %3Cpath d='M19 16l6 6-6 6' fill='none' stroke='%23ff5c5c' stroke-width='3.5' stroke-linecap='round' stroke-linejoin='round'/%3E%3C/svg%3E";

/// Where a page is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// From a server: with its script and links to its other pages.
    Served,
    /// From a file: nothing but itself.
    Standalone,
}

/// A whole document.
pub fn document(frame: Frame, title: &str, navigation: Markup, body: Markup) -> String {
    let (policy, served) = match frame {
        Frame::Served => (SERVED_POLICY, true),
        Frame::Standalone => (STANDALONE_POLICY, false),
    };
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                title { (title) " · Failsketch" }
                link rel="icon" href=(PreEscaped(ICON));
                style { (PreEscaped(STYLE)) }
                @if served { script type="module" src=(SCRIPT_PATH) {} }
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header.top {
                    @if served { a.brand href="/" { (brand()) } } @else { span.brand { (brand()) } }
                    (navigation)
                }
                main #main { (body) }
            }
        }
    }
    .into_string()
}

fn brand() -> Markup {
    html! {
        svg viewBox="0 0 32 32" aria-hidden="true" {
            path.brand-line d="M7 6v10a6 6 0 0 0 6 6h12" {}
            path.brand-head d="M20 15l7 7-7 7" {}
        }
        "Failsketch"
    }
}

/// The server's pages that belong to no campaign.
pub fn everywhere(current: &str) -> Markup {
    let pages = [
        ("/", "Failures"),
        ("/fleet", "Fleet"),
        ("/builds", "Builds"),
    ];
    html! {
        nav.trail aria-label="Pages" {
            @for (path, name) in pages {
                a href=(path) aria-current=[(path == current).then_some("page")] { (name) }
            }
        }
    }
}

/// The pages of one campaign, by the last part of their path.
pub fn of_campaign(id: CampaignId, current: &str) -> Markup {
    let pages = [
        ("", "Sketch"),
        ("/progress", "Progress"),
        ("/slice", "Slice"),
        ("/runs", "Runs"),
        ("/source", "Source"),
    ];
    html! {
        (everywhere(""))
        nav.tabs aria-label={ "Campaign " (id) } {
            span { "Campaign " (id) }
            @for (path, name) in pages {
                a href={ "/campaigns/" (id) (path) } aria-current=[(path == current).then_some("page")] { (name) }
            }
        }
    }
}

/// A sentence in which backticks mark code.
pub fn sentence(text: &str) -> Markup {
    let text = escape::visible(text, SENTENCE_LIMIT);
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return html! { (text) };
    }
    html! {
        @for (i, part) in parts.iter().enumerate() {
            @if i % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

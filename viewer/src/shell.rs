//! What all pages share: head, navigation, foot, and text with code in it.

use crate::escape::{self, SENTENCE_LIMIT};
use crate::policy::{IN_PAGE_POLICY, STYLE};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// A crossed-out diamond in the colours of the page.
const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E\
    %3Crect width='32' height='32' rx='8' fill='%23171923'/%3E\
    %3Cpath d='M8 8v9a5 5 0 0 0 5 5h11' fill='none' stroke='%23f5a524' stroke-width='3.5' stroke-linecap='round'/%3E\
    %3Cpath d='M19 16l6 6-6 6' fill='none' stroke='%23ff5c5c' stroke-width='3.5' stroke-linecap='round' stroke-linejoin='round'/%3E%3C/svg%3E";

/// A whole document.
pub fn document(title: &str, navigation: Markup, body: Markup) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(IN_PAGE_POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                title { (title) " · Failsketch" }
                link rel="icon" href=(PreEscaped(ICON));
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header.top {
                    a.brand href="/" {
                        svg viewBox="0 0 32 32" aria-hidden="true" {
                            path.brand-line d="M7 6v10a6 6 0 0 0 6 6h12" {}
                            path.brand-head d="M20 15l7 7-7 7" {}
                        }
                        "Failsketch"
                    }
                    (navigation)
                }
                main #main { (body) }
            }
        }
    }
    .into_string()
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

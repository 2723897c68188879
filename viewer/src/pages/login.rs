//! Logging in: one field for a token, and how to come by one.

use crate::escape::{SENTENCE_LIMIT, visible};
use crate::shell::{Frame, document};
use maud::html;

/// `next` is the page to go on to; `wrong` says why the last attempt failed.
pub fn login_page(next: &str, wrong: Option<&str>) -> String {
    let body = html! {
        section.answer {
            h1 { "Log in" }
            p.lead { "This server shows its sketches to those who have a token." }
        }
        section.panel aria-label="Log in" {
            form.login method="post" action="/login" {
                input type="hidden" name="next" value=(next);
                label for="token" { "Token" }
                input #token type="password" name="token" autocomplete="current-password" required autofocus
                    aria-describedby=[wrong.map(|_| "wrong")];
                button type="submit" { "Log in" }
            }
            @if let Some(wrong) = wrong { p.problem #wrong role="alert" { (visible(wrong, SENTENCE_LIMIT)) } }
            form method="post" action="/logout" { button type="submit" { "Log out of this browser" } }
            p.fine { "Whoever runs the server makes one: " code { "failsketch token add --role developer NAME" } }
        }
    };
    document(Frame::Served, "Log in", html! {}, body)
}

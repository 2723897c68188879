//! The frame of a table on a page: a region that scrolls sideways on a narrow screen,
//! and the heads of its columns. Rows are the pages' own.

use maud::{Markup, html};

/// What a table is called for those who do not see it.
pub enum Name<'a> {
    Is(&'a str),
    /// The id of the heading that names it.
    StandsIn(&'a str),
}

/// `class` is the style's, if the table has one of its own.
pub fn table(name: Name<'_>, class: Option<&str>, heads: Markup, rows: Markup) -> Markup {
    let (label, heading) = match name {
        Name::Is(label) => (Some(label), None),
        Name::StandsIn(heading) => (None, Some(heading)),
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label=[label] aria-labelledby=[heading] {
            table class=[class] {
                thead { tr { (heads) } }
                tbody { (rows) }
            }
        }
    }
}

/// The head of a column of words.
pub fn words(head: &str) -> Markup {
    html! { th scope="col" { (head) } }
}

/// The head of a column of figures.
pub fn figure(head: &str) -> Markup {
    html! { th.figure scope="col" { (head) } }
}

/// The head of a column of figures that is an abbreviation.
pub fn short(head: &str, meaning: &str) -> Markup {
    html! { th.figure scope="col" { abbr title=(meaning) { (head) } } }
}

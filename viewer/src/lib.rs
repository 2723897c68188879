//! Sketch to terminal text, web page and ticket.
//!
//! Everything here is a pure function of a value of `sketch-model`: no IO, no
//! clock, no settings. The same sketch gives the same bytes, which is what lets
//! small snapshots stand for the whole look.
//!
//! Every word that came from a program (source, values, names) passes through
//! [`escape`] before it reaches a terminal or a browser.
//!
//! The arrow of the page is laid out by the rows that it crosses, so nothing needs
//! to be measured, and a page works whole without its script, which only follows
//! a diagnosis under way and moves between steps by keyboard.

mod callgrind;
mod changes;
mod escape;
mod facts;
mod fold;
mod headline;
mod markdown;
mod numbers;
mod page;
mod pages;
mod policy;
mod prose;
mod routing;
mod shell;
mod svg;
mod syntax;
mod table;
mod text;

pub use callgrind::callgrind;
pub use changes::{Change, changes};
pub use escape::{printable, printable_json, printable_lines};
pub use markdown::markdown;
pub use page::{SketchView, sketch_page, standalone};
pub use pages::builds::{BuildSeen, builds_page};
pub use pages::failures::failures_page;
pub use pages::fleet::{AgentSeen, RunCost, fleet_page};
pub use pages::login::login_page;
pub use pages::progress::progress_page;
pub use pages::runs::{RunSide, SideBySide, SideCell, SideRow, runs_page};
pub use pages::slice::slice_page;
pub use pages::source::source_page;
pub use policy::{CONTENT_SECURITY_POLICY, SCRIPT, SCRIPT_PATH};
pub use svg::svg;
pub use text::text;

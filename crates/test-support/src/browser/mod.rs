//! A real browser, and a web server for one test.

pub mod chromium;
pub mod site;

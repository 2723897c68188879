//! Sketch to terminal text and web page.

//! Races of executions that did not happen, predicted from one that did. Pure.
//!
//! An empty room: the issue on prediction fills it. Its door:
//!
//! - `predict(recording) -> Vec<Prediction>`: each with the order that would show it,
//!   to be replayed as its witness.

//! Whole-system tests live in `tests/tests/`; helpers they share live here.

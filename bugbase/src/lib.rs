//! Bugs with ground truth, and the harness that runs them.

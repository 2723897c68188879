//! Signed binary patches from P to a tracked build.

//! Tracking plan and bitcode to a tracked build.

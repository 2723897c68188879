//! Data races: candidates found in the program, graded by what the fleet saw. Pure.
//!
//! An empty room: the issue on races in the field fills it. Its door:
//!
//! - `candidates(program) -> RaceCandidates`: pairs of accesses that nothing seems to
//!   order, each with the reason why it was not left out;
//! - `grade(observations) -> Grade`: what runs of the fleet say of one pair.
//!
//! A race detector is a second reader of the slicer's program and no part of
//! slicing, so it has a room of its own.

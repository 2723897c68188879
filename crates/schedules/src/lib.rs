//! Orders that a run can be made to follow, and what trials of them prove. Pure.
//!
//! An empty room: the issues on the conductor and on races fill it. Its door:
//!
//! - `Schedule`: an order of anchors that a run is made to follow;
//! - `Trial`: one run under a schedule, with the choices that were made and what came of it;
//! - `verdict(trials) -> Verdict`: what the outcomes of both orders say of a race.
//!
//! What belongs here: clocks, cuts, the fewest switches that still fail, outcomes
//! compared. What does not: processes (`conductor`), programs (`slicer`), files.

//! What a developer can do about a diagnosis: stop it, go on, track more, stay with
//! this σ, or declare it answered.

use super::{Campaign, SettledBy, State};

/// What a developer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steering {
    /// No further runs. Nothing happens to a campaign that is over.
    Stop,
    /// Go on where it ended.
    Resume,
    /// The next σ now, without waiting for enough runs.
    Widen,
    /// The last sketch is the answer.
    Declare,
    /// Stay with this σ: no wider build is made until it is unpinned or widened.
    Pin,
    Unpin,
}

impl Steering {
    /// By the verb of the routes and commands.
    pub fn of_verb(verb: &str) -> Option<Steering> {
        Some(match verb {
            "stop" => Steering::Stop,
            "resume" => Steering::Resume,
            "widen" => Steering::Widen,
            "declare" => Steering::Declare,
            "pin" => Steering::Pin,
            "unpin" => Steering::Unpin,
            _ => return None,
        })
    }
}

/// Why what was asked cannot be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotSteer {
    #[error("this campaign has failed; its page says why")]
    Failed,
    #[error("this campaign is running already")]
    UnderWay,
    #[error("a tracked build is being made; widen when it runs")]
    BeingPrepared,
    #[error("the whole slice is tracked already; there is nothing to widen it to")]
    TrackedWhole,
    #[error("this campaign is pinned already")]
    PinnedAlready,
    #[error("this campaign is not pinned")]
    NotPinned,
    #[error("there is no sketch yet that could be the answer")]
    NoSketch,
    #[error("this campaign is settled already")]
    SettledAlready,
}

impl Campaign {
    /// Does what is asked, or says why it cannot be done.
    pub fn steer(self, steering: Steering) -> Result<Campaign, CannotSteer> {
        match (steering, &self.state) {
            (Steering::Stop, State::Active(_)) => {
                let last = self.state.into_stage();
                let state = State::Stopped { last };
                Ok(Campaign { state, ..self })
            }
            (Steering::Stop, _) => Ok(self),
            (_, State::Failed { .. }) => Err(CannotSteer::Failed),
            (Steering::Resume, State::Active(_)) => Err(CannotSteer::UnderWay),
            (Steering::Resume, _) => {
                let state = State::Active(self.state.into_stage());
                Ok(Campaign { state, ..self })
            }
            (Steering::Widen, _) if self.is_preparing() => Err(CannotSteer::BeingPrepared),
            (Steering::Widen, state) => {
                let wider = self.wider().ok_or(CannotSteer::TrackedWhole)?;
                let state = State::Active(state.stage().next(wider));
                Ok(Campaign {
                    state,
                    pinned: false,
                    ..self
                })
            }
            (Steering::Declare, _) if self.learned.sketch_version == 0 => {
                Err(CannotSteer::NoSketch)
            }
            (Steering::Declare, State::Settled { .. }) => Err(CannotSteer::SettledAlready),
            (Steering::Declare, _) => {
                let (by, last) = (SettledBy::Developer, self.state.into_stage());
                let state = State::Settled { by, last };
                Ok(Campaign { state, ..self })
            }
            (Steering::Pin, _) if self.pinned => Err(CannotSteer::PinnedAlready),
            (Steering::Unpin, _) if !self.pinned => Err(CannotSteer::NotPinned),
            (Steering::Pin | Steering::Unpin, _) => Ok(Campaign {
                pinned: steering == Steering::Pin,
                ..self
            }),
        }
    }
}

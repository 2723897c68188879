//! How long to wait before asking somebody again who did not answer. Pure.

use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);

/// Pauses that double from a second to five minutes, until there is an answer.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    next: Duration,
}

impl Backoff {
    pub const fn new() -> Backoff {
        Backoff { next: FIRST }
    }

    /// The pause after one more silence.
    pub fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(LONGEST);
        pause
    }

    pub fn answered(&mut self) {
        self.next = FIRST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often somebody is asked who is silent for so long.
    fn questions(silence: Duration) -> u32 {
        let mut backoff = Backoff::new();
        let mut waited = Duration::ZERO;
        let mut asked = 0;
        while waited < silence {
            waited += backoff.pause();
            asked += 1;
        }
        asked
    }

    #[test]
    fn hours_of_silence_cost_a_dozen_questions_each() {
        assert_eq!(questions(Duration::from_secs(60)), 6);
        // Nine in the first minutes, then twelve an hour.
        assert_eq!(questions(Duration::from_secs(12 * 3600)), 152);
    }

    #[test]
    fn an_answer_makes_it_prompt_again() {
        let mut backoff = Backoff::new();
        for _ in 0..50 {
            backoff.pause();
        }
        assert_eq!(backoff.pause(), LONGEST);
        backoff.answered();
        assert_eq!(backoff.pause(), FIRST);
    }
}

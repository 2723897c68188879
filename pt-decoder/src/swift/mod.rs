//! The quick way through a trace: common packets, followed through a graph of
//! code that remembers where it leads.
//!
//! libipt is right about everything and asks its caches several questions for
//! each branch. Nearly all of a trace is outcomes of branches and targets of
//! indirect ones, for which a graph suffices. Whatever else comes up (lost
//! packets, transactions, code that is missing, anything that contradicts the
//! code) is not decided here: the walk gives up, and libipt decodes that stretch
//! from its last synchronisation point, of which what was told already is passed
//! over. So what is rare is libipt's word, and what is common is compared with it
//! by the tests.
//!
//! The rule that keeps the walk honest: when outcomes are used up, the next packet
//! is looked at *before* any code is followed. Only if it is another outcome or a
//! target may code be followed up to the branch that needs it; otherwise
//! something happened on the way, at an address that the packet states.

mod clock;
pub(crate) mod graph;
mod packet;

use crate::blocks::{ExecutedBlock, TraceSetup};
use crate::ipt::PreparedImage;
use clock::Clock;
use graph::{End, NONE, Node};
use packet::{Swift, packet};
use sketch_model::{RuntimeAddress, Tsc};

/// Calls whose returns a processor may compress.
const DEEPEST: usize = 64;
/// Nodes that may be followed without a packet.
const UNCONFIRMED: u32 = 1 << 12;

/// What the walk found next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Block(ExecutedBlock),
    Paused,
    /// Tracing was turned on; the caller may choose another image.
    Resumed,
    /// All bytes are used; whether tracing was on.
    End {
        tracing: bool,
    },
    /// The walk cannot tell.
    GivesUp,
}

/// What the walk has told since a synchronisation point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// Where the point lies.
    pub(crate) psb: usize,
    pub(crate) instructions: u64,
    pub(crate) pauses: u64,
}

/// Something that happened on the way.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A synchronisation point states where execution is.
    Psb { at: u64, psb: usize, behind: usize },
    /// Interrupted before this instruction.
    Interrupted { at: u64 },
    /// Turned off by the next branch, or on reaching an address.
    Off { at: Option<u64> },
}

pub(crate) struct Walk<'t> {
    trace: &'t [u8],
    position: usize,
    tracing: bool,
    /// Where execution is; [`NONE`] if only `ip` is known.
    node: u32,
    ip: u64,
    /// Outcomes with a stop bit above them; 1 if there are none.
    outcomes: u64,
    target: Option<u64>,
    event: Option<Event>,
    last_ip: u64,
    /// The nodes that called, a ring.
    returns: [u32; DEEPEST],
    depth: usize,
    top: usize,
    clock: Clock,
    unconfirmed: u32,
    pub(crate) told: Told,
    pub(crate) interrupted_at: Option<RuntimeAddress>,
}

impl<'t> Walk<'t> {
    /// From the synchronisation point at `psb`.
    pub(crate) fn new(trace: &'t [u8], psb: usize, setup: TraceSetup) -> Self {
        Self {
            trace,
            position: psb,
            tracing: false,
            node: NONE,
            ip: 0,
            outcomes: 1,
            target: None,
            event: None,
            last_ip: 0,
            returns: [0; DEEPEST],
            depth: 0,
            top: 0,
            clock: Clock::new(setup.frequency),
            unconfirmed: 0,
            told: Told {
                psb,
                ..Told::default()
            },
            interrupted_at: None,
        }
    }

    /// The counter by the last timing packet.
    pub(crate) fn time(&self) -> Option<Tsc> {
        self.clock.now()
    }

    /// The image is another one from here on.
    pub(crate) fn image_changed(&mut self) {
        self.node = NONE;
        self.depth = 0;
    }

    #[inline]
    pub(crate) fn next(&mut self, image: &PreparedImage<'_>) -> Found {
        loop {
            if !self.tracing {
                return self.idle();
            }
            if self.event.is_some() {
                match self.towards_event(image) {
                    Some(found) => return found,
                    None => continue,
                }
            }
            if self.outcomes == 1
                && self.target.is_none()
                && let Some(found) = self.look_ahead()
            {
                return found;
            }
            if self.event.is_none() {
                return match self.step(image) {
                    Some(node) => self.block(node.start, node.last, node.instructions),
                    None => Found::GivesUp,
                };
            }
        }
    }

    fn block(&mut self, start: u64, last: u64, instructions: u32) -> Found {
        self.told.instructions += u64::from(instructions);
        Found::Block(ExecutedBlock {
            start: RuntimeAddress(start),
            last: RuntimeAddress(last),
            instructions,
        })
    }

    /// Follows one node whose branch the trace has confirmed.
    #[inline]
    fn step(&mut self, image: &PreparedImage<'_>) -> Option<Node> {
        let mut graph = image.graph.borrow_mut();
        if self.node == NONE {
            self.node = graph.at(image.code, self.ip)?;
        }
        let number = self.node;
        let node = graph.nodes[number as usize];
        self.node = match node.end {
            End::Conditional => {
                if self.outcomes == 1 {
                    return None;
                }
                let next = match self.outcome() {
                    true => graph.jumped(image.code, number),
                    false => graph.passed(image.code, number),
                };
                // The code behind it is missing: libipt says where.
                if next == NONE {
                    return None;
                }
                next
            }
            End::Jump | End::CallNext => {
                self.follows()?;
                graph.jumped(image.code, number)
            }
            End::Call => {
                self.follows()?;
                self.called(number);
                graph.jumped(image.code, number)
            }
            End::Through => {
                self.follows()?;
                graph.passed(image.code, number)
            }
            End::Return if self.outcomes > 1 => {
                if !self.outcome() {
                    return None;
                }
                let caller = self.returned()?;
                self.ip = graph.nodes[caller as usize].behind;
                graph.passed(image.code, caller)
            }
            End::Return | End::IndirectJump | End::IndirectCall => {
                if self.outcomes > 1 {
                    return None;
                }
                self.ip = self.target.take()?;
                if node.end == End::IndirectCall {
                    self.called(number);
                }
                graph.led(image.code, number, self.ip)
            }
            End::Far => return None,
        };
        if self.node == NONE {
            self.ip = match node.end {
                End::Through => node.behind,
                End::Jump | End::Call | End::CallNext => node.target,
                _ => self.ip,
            };
        }
        Some(node)
    }

    /// Code without a branch may run on for ever.
    #[inline]
    fn follows(&mut self) -> Option<()> {
        self.unconfirmed += 1;
        (self.unconfirmed < UNCONFIRMED).then_some(())
    }

    /// The oldest outcome.
    #[inline]
    fn outcome(&mut self) -> bool {
        self.unconfirmed = 0;
        let stop = 63 - self.outcomes.leading_zeros();
        let oldest = stop - 1;
        let taken = self.outcomes >> oldest & 1 == 1;
        // The outcome's place becomes the stop bit's.
        self.outcomes = self.outcomes & ((1 << oldest) - 1) | 1 << oldest;
        taken
    }

    #[inline]
    fn called(&mut self, caller: u32) {
        self.returns[self.top] = caller;
        self.top = (self.top + 1) % DEEPEST;
        self.depth = (self.depth + 1).min(DEEPEST);
    }

    #[inline]
    fn returned(&mut self) -> Option<u32> {
        self.depth = self.depth.checked_sub(1)?;
        self.top = (self.top + DEEPEST - 1) % DEEPEST;
        Some(self.returns[self.top])
    }

    /// The next packet that is not about time; timing packets are taken in.
    #[inline]
    fn read(&mut self) -> Option<Swift> {
        loop {
            let (found, length) = packet(&self.trace[self.position..])?;
            match found {
                Swift::Nothing | Swift::Mode64 => {}
                Swift::Tsc(tsc) => self.clock.tsc(tsc),
                Swift::Tma { ctc, fast } => self.clock.tma(ctc, fast),
                Swift::Mtc(shown) => self.clock.mtc(shown),
                // Read as a whole, by whoever sees it.
                Swift::Psb => return Some(found),
                _ => {
                    self.position += length;
                    return Some(found);
                }
            }
            self.position += length;
        }
    }

    /// With tracing on and nothing left to follow: what comes next. `None` if
    /// code may be followed.
    #[inline]
    fn look_ahead(&mut self) -> Option<Found> {
        self.unconfirmed = 0;
        match self.read() {
            Some(Swift::Tnt(outcomes)) => self.outcomes = outcomes,
            Some(Swift::Tip(address)) => match address.expand(&mut self.last_ip) {
                Some(target) => self.target = Some(target),
                None => return Some(Found::GivesUp),
            },
            other => return self.happened(other),
        }
        None
    }

    fn happened(&mut self, packet: Option<Swift>) -> Option<Found> {
        self.event = match packet {
            None if self.position == self.trace.len() => {
                return Some(Found::End { tracing: true });
            }
            Some(Swift::Psb) => match self.head() {
                Some((Some(at), behind)) => Some(Event::Psb {
                    at,
                    psb: self.position,
                    behind,
                }),
                _ => return Some(Found::GivesUp),
            },
            Some(Swift::PacketsOff(address)) => Some(Event::Off {
                at: address.expand(&mut self.last_ip),
            }),
            Some(Swift::Fup(address)) => {
                let at = address.expand(&mut self.last_ip);
                let (Some(at), Some(Swift::PacketsOff(to))) = (at, self.read()) else {
                    return Some(Found::GivesUp);
                };
                to.expand(&mut self.last_ip);
                Some(Event::Interrupted { at })
            }
            _ => return Some(Found::GivesUp),
        };
        None
    }

    /// A synchronisation point up to behind its end: the address that it states.
    /// The times in it count at once, whoever asks.
    fn head(&mut self) -> Option<(Option<u64>, usize)> {
        let (mut at, mut position, mut last_ip) = (None, self.position, 0);
        let mut mode = false;
        loop {
            let (found, length) = packet(&self.trace[position..])?;
            position += length;
            match found {
                Swift::Psb if position - length != self.position => return None,
                Swift::Mode64 => mode = true,
                Swift::Psb | Swift::Nothing => {}
                Swift::Tsc(tsc) => self.clock.tsc(tsc),
                Swift::Tma { ctc, fast } => self.clock.tma(ctc, fast),
                Swift::Mtc(shown) => self.clock.mtc(shown),
                Swift::Fup(address) => at = Some(address.expand(&mut last_ip)?),
                // Where code runs, the processor says in which mode.
                Swift::PsbEnd => return (mode || at.is_none()).then_some((at, position)),
                _ => return None,
            }
        }
    }

    /// With tracing off: up to where it is turned on.
    fn idle(&mut self) -> Found {
        loop {
            match self.read() {
                None if self.position == self.trace.len() => {
                    return Found::End { tracing: false };
                }
                Some(Swift::Psb) => {
                    let psb = self.position;
                    let Some((at, behind)) = self.head() else {
                        return Found::GivesUp;
                    };
                    let first = psb == self.told.psb
                        && self.told
                            == Told {
                                psb,
                                ..Told::default()
                            };
                    // Tracing that is on without a word can only be the beginning.
                    if at.is_some() && !first {
                        return Found::GivesUp;
                    }
                    self.synchronised(psb, behind, at.unwrap_or(0));
                    if let Some(at) = at {
                        return self.on(at);
                    }
                }
                Some(Swift::PacketsOn(address)) => {
                    return match address.expand(&mut self.last_ip) {
                        Some(at) => self.on(at),
                        None => Found::GivesUp,
                    };
                }
                _ => return Found::GivesUp,
            }
        }
    }

    fn on(&mut self, at: u64) -> Found {
        self.tracing = true;
        self.ip = at;
        self.node = NONE;
        Found::Resumed
    }

    fn synchronised(&mut self, psb: usize, behind: usize, at: u64) {
        self.told = Told {
            psb,
            ..Told::default()
        };
        self.position = behind;
        self.last_ip = at;
        self.depth = 0;
    }

    /// Follows code to where an event happened. `None` if nothing ran on the way.
    fn towards_event(&mut self, image: &PreparedImage<'_>) -> Option<Found> {
        let event = self.event?;
        let to = match event {
            Event::Psb { at, .. } | Event::Interrupted { at } => Some(at),
            Event::Off { at } => at,
        };
        let mut graph = image.graph.borrow_mut();
        if self.node != NONE {
            self.ip = graph.nodes[self.node as usize].start;
        }
        if to == Some(self.ip) {
            drop(graph);
            return self.arrived(event);
        }
        let Some(number) = graph.at(image.code, self.ip) else {
            return Some(Found::GivesUp);
        };
        let node = graph.nodes[number as usize];
        if let Some(to) = to
            && node.start < to
            && to <= node.last
        {
            self.ip = to;
            self.node = NONE;
            return Some(match graph::up_to(image.code, node.start, to) {
                Some((last, count)) => self.block(node.start, last, count),
                None => Found::GivesUp,
            });
        }
        let next = match node.end {
            End::Jump | End::CallNext | End::Call => graph.jumped(image.code, number),
            End::Through => graph.passed(image.code, number),
            // Turning off takes the place of what the branch would have needed.
            _ => {
                return Some(match event {
                    Event::Off { .. } => {
                        self.event = Some(Event::Off {
                            at: Some(node.behind),
                        });
                        self.ip = node.behind;
                        self.node = NONE;
                        self.block(node.start, node.last, node.instructions)
                    }
                    _ => Found::GivesUp,
                });
            }
        };
        if self.follows().is_none() {
            return Some(Found::GivesUp);
        }
        if node.end == End::Call {
            self.called(number);
        }
        self.node = next;
        if next == NONE {
            self.ip = match node.end {
                End::Through => node.behind,
                _ => node.target,
            };
        }
        Some(self.block(node.start, node.last, node.instructions))
    }

    fn arrived(&mut self, event: Event) -> Option<Found> {
        self.event = None;
        self.unconfirmed = 0;
        match event {
            Event::Psb { at, psb, behind } => {
                self.synchronised(psb, behind, at);
                None
            }
            Event::Interrupted { at } => Some(self.paused(Some(RuntimeAddress(at)))),
            Event::Off { .. } => Some(self.paused(None)),
        }
    }

    fn paused(&mut self, interrupted_at: Option<RuntimeAddress>) -> Found {
        self.tracing = false;
        self.interrupted_at = interrupted_at;
        self.told.pauses += 1;
        Found::Paused
    }
}

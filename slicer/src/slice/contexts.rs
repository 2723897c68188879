//! Who called: what a walk knows of the way that control came.
//!
//! A slice walks backward through functions, and a function that is left upward may be
//! left towards any of its callers. Two things say which one it was. The failing stack:
//! a frame is left towards the frame above it only. And a call that was entered for its
//! result, or for what it stored through a parameter, is left towards that call only.
//! One call deep is enough: what goes deeper, or through memory, may have been called by
//! anybody.
//!
//! Where a context names a caller that is not among the callers there are (a tail call,
//! a thread that is joined), all of them count.

use crate::ir::program::{FunctionId, InstructionRef, Program};
use crate::slice::criteria::{Criterion, Proven, proven_targets};
use crate::slice::{calling_instructions, is_statement};
use rustc_hash::FxHashMap;

/// Position among the known contexts.
pub(crate) type ContextId = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Context {
    /// Called by anybody.
    Free,
    /// A frame of a criterion's stack; 0 is the failing statement's.
    Frame { criterion: u32, frame: u32 },
    /// Called from there, which is itself in another context.
    Called {
        site: InstructionRef,
        outer: ContextId,
    },
}

pub(crate) const FREE: ContextId = 0;

/// The contexts of one slice.
pub(crate) struct Contexts {
    known: Vec<Context>,
    numbers: FxHashMap<Context, ContextId>,
    /// The calls that each frame made, by criterion and frame.
    stacks: Vec<Vec<Vec<InstructionRef>>>,
    /// The innermost frame of each function on a stack.
    homes: FxHashMap<FunctionId, ContextId>,
    /// What the stacks prove of calls through pointers.
    proven: Proven,
}

/// Who a context says that the caller is.
pub(crate) enum Caller<'c> {
    /// One of these calls of the next frame.
    Frame(&'c [InstructionRef], Context),
    Site(InstructionRef, ContextId),
}

impl Caller<'_> {
    pub fn is(&self, call: InstructionRef) -> bool {
        match self {
            Caller::Frame(calls, _) => calls.contains(&call),
            Caller::Site(site, _) => *site == call,
        }
    }
}

impl Contexts {
    /// Contexts of a walk that knows of no stack.
    pub fn none() -> Contexts {
        Contexts {
            known: vec![Context::Free],
            numbers: FxHashMap::from_iter([(Context::Free, FREE)]),
            stacks: Vec::new(),
            homes: FxHashMap::default(),
            proven: Proven::default(),
        }
    }

    pub fn of(program: &Program, criteria: &[Criterion]) -> Contexts {
        let mut contexts = Contexts::none();
        contexts.proven = proven_targets(program, criteria);
        for (number, criterion) in (0..).zip(criteria) {
            let mut frames = Vec::new();
            let mut inner = None;
            let stack = std::iter::once(&criterion.failing).chain(&criterion.stack);
            for statement in stack.copied().filter(|id| is_statement(program, *id)) {
                let calls = inner.map_or_else(Vec::new, |inner| {
                    calling_instructions(program, statement, inner)
                });
                let context = contexts.number(Context::Frame {
                    criterion: number,
                    frame: frames.len() as u32,
                });
                for at in program.members(statement) {
                    contexts.homes.entry(at.function).or_insert(context);
                }
                frames.push(calls);
                inner = Some(statement);
            }
            contexts.stacks.push(frames);
        }
        contexts
    }

    pub fn number(&mut self, context: Context) -> ContextId {
        let known = &mut self.known;
        *self.numbers.entry(context).or_insert_with(|| {
            known.push(context);
            known.len() as ContextId - 1
        })
    }

    /// What is known of the caller of whatever runs in a context.
    pub fn caller(&self, of: ContextId) -> Option<Caller<'_>> {
        match self.known[of as usize] {
            Context::Free => None,
            Context::Called { site, outer } => Some(Caller::Site(site, outer)),
            Context::Frame { criterion, frame } => {
                let frame = frame + 1;
                let calls = self.stacks.get(criterion as usize)?.get(frame as usize)?;
                Some(Caller::Frame(calls, Context::Frame { criterion, frame }))
            }
        }
    }

    /// The context of the caller that [`Contexts::caller`] names.
    pub fn up(&mut self, from: ContextId) -> ContextId {
        let next = match self.caller(from) {
            None => return FREE,
            Some(Caller::Site(_, outer)) => return outer,
            Some(Caller::Frame(_, context)) => context,
        };
        self.number(next)
    }

    /// The context of what a call calls.
    pub fn down(&mut self, site: InstructionRef, here: ContextId) -> ContextId {
        let outer = match self.known[here as usize] {
            Context::Called { .. } => FREE,
            _ => here,
        };
        self.number(Context::Called { site, outer })
    }

    /// The context of a function that is come to by neither call nor caller.
    pub fn home(&self, function: FunctionId) -> ContextId {
        self.homes.get(&function).copied().unwrap_or(FREE)
    }

    /// The same, as seeds say it.
    pub fn home_of(&self, function: FunctionId) -> Context {
        self.known[self.home(function) as usize]
    }

    /// Whether a stack proves that a call, which may call several functions, did not
    /// call this one.
    pub fn is_refuted(&self, call: InstructionRef, callee: FunctionId) -> bool {
        let proven = self.proven.get(&call);
        proven.is_some_and(|only| *only != callee)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(instruction: u32) -> InstructionRef {
        InstructionRef {
            function: 1,
            instruction,
        }
    }

    #[test]
    fn a_call_is_left_to_where_it_was_made_and_one_deep_only() {
        let mut contexts = Contexts::none();
        let inside = contexts.down(site(5), FREE);
        assert!(contexts.caller(inside).unwrap().is(site(5)));
        assert!(!contexts.caller(inside).unwrap().is(site(6)));
        assert_eq!(contexts.up(inside), FREE);
        let deeper = contexts.down(site(7), inside);
        assert_eq!(
            contexts.up(deeper),
            FREE,
            "who called the caller is forgotten"
        );
        assert_eq!(contexts.down(site(5), FREE), inside);
        assert!(contexts.caller(FREE).is_none());
    }

    #[test]
    fn a_frame_is_left_to_the_frame_above_it() {
        let mut contexts = Contexts::none();
        contexts.stacks = vec![vec![vec![], vec![site(3)]]];
        let frame = |frame| Context::Frame {
            criterion: 0,
            frame,
        };
        let inner = contexts.number(frame(0));
        assert!(contexts.caller(inner).unwrap().is(site(3)));
        let outer = contexts.up(inner);
        assert_eq!(contexts.known[outer as usize], frame(1));
        assert!(contexts.caller(outer).is_none(), "nothing is above it");
    }
}

//! Which threads can run a function: roles, by the routine a thread starts with.
//!
//! A role is the name of a start routine, "main" among them, or of a signal
//! handler with "(signal)" behind it, because that runs on whichever thread the
//! signal meets. A `std::thread` starts in the library's own code: its role is
//! the first function of the program that this leads to, if there is just one.

use crate::calls::CallGraph;
use crate::ir::program::{Function, FunctionId};
use std::collections::BTreeSet;

/// How a function is entered other than by a call of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Entry {
    /// A thread begins with it.
    Thread(FunctionId),
    Handler(FunctionId),
    /// A library calls the second on a thread that ran the first.
    From(FunctionId, FunctionId),
}

/// The roles of every function, sorted.
pub(crate) fn roles(
    functions: &[Function],
    graph: &CallGraph,
    entries: &BTreeSet<Entry>,
) -> Vec<Vec<String>> {
    let mut callees: Vec<Vec<FunctionId>> = vec![Vec::new(); functions.len()];
    for (at, targets) in graph.all_targets() {
        callees[at.function as usize].extend(targets);
    }
    let mut roots: Vec<(FunctionId, String)> = Vec::new();
    let main = functions.iter().position(|f| f.name == "main");
    roots.extend(main.map(|id| (id as FunctionId, "main".to_owned())));
    for entry in entries {
        match *entry {
            Entry::Thread(id) => roots.push((id, String::new())),
            Entry::Handler(id) => {
                let name = &functions[id as usize].name;
                roots.push((id, format!("{name} (signal)")));
            }
            Entry::From(caller, target) => callees[caller as usize].push(target),
        }
    }
    let mut roles: Vec<BTreeSet<String>> = vec![BTreeSet::new(); functions.len()];
    for (root, name) in roots {
        let name = if name.is_empty() {
            thread_name(functions, &callees, root)
        } else {
            name
        };
        let mut work = vec![root];
        while let Some(id) = work.pop() {
            if roles[id as usize].insert(name.clone()) {
                work.extend(&callees[id as usize]);
            }
        }
    }
    let sorted = |names: BTreeSet<String>| names.into_iter().collect();
    roles.into_iter().map(sorted).collect()
}

/// The name of the routine that a thread was started for.
fn thread_name(functions: &[Function], callees: &[Vec<FunctionId>], root: FunctionId) -> String {
    let is_library = |id: FunctionId| {
        let name = functions[id as usize].name.as_str();
        let own = ["_ZNSt", "_ZNKSt", "_ZSt", "_ZN9__gnu_cxx"];
        own.iter().any(|prefix| name.starts_with(prefix))
    };
    let mut first: BTreeSet<FunctionId> = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut work = vec![root];
    while let Some(id) = work.pop() {
        if !functions[id as usize].is_defined() || !seen.insert(id) {
            continue;
        }
        if is_library(id) {
            work.extend(&callees[id as usize]);
        } else {
            first.insert(id);
        }
    }
    let only = first.first().filter(|_| first.len() == 1);
    functions[*only.unwrap_or(&root) as usize].name.clone()
}

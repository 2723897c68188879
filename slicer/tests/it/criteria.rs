//! From a failure's stacks to where its slice begins.

use crate::common::*;
use sketch_model::{DependenceKind, Gap, Slice, StatementId};
use slicer::criteria;
use slicer::{Alias, Criterion, Extent, FailureShape, Program, failing_frame, slice_from};

const ABORTING: &str = r#"#include <stdio.h>
#include <stdlib.h>
#include <assert.h>
static int level;
static void say(const char *what) { fputs(what, stderr); }
void die(const char *what) {
    say(what);
    abort();
}
void die_politely(const char *what) {
    if (level > 9)
        say(what);
    die(what);
}
void check(int given) {
    if (given > 3)
        die_politely("too much");
}
void serve(int given) {
    for (;;) {
        assert(given != 7);
        given = given * 5 + level;
    }
}
int main(int argc, char **argv) {
    level = argc;
    check(argc + 1);
    serve(argc);
    return 0;
}
"#;

struct Loaded {
    program: Program,
    text: &'static str,
}

impl Loaded {
    fn new(text: &'static str) -> Loaded {
        Loaded {
            program: load_text(text),
            text,
        }
    }

    /// The statement on the line that holds the text.
    fn at(&self, piece: &str) -> StatementId {
        let line = self.text.lines().position(|l| l.trim() == piece);
        let line = line.unwrap_or_else(|| panic!("no line is {piece}")) as u32 + 1;
        let found = self.program.statement_at(None, "program.c", line);
        found.unwrap_or_else(|| panic!("no statement on {piece}"))
    }

    fn slice(&self, criteria: &[Criterion]) -> Slice {
        let alias = Alias::default();
        slice_from(&self.program, criteria, alias, Extent::Whole, &no_source)
    }
}

#[test]
fn functions_that_end_the_program_are_stepped_out_of() {
    let program = Loaded::new(ABORTING);
    let stack = [
        program.at("abort();"),
        program.at("die(what);"),
        program.at("die_politely(\"too much\");"),
        program.at("check(argc + 1);"),
    ];
    assert_eq!(failing_frame(&program.program, true, &stack), 2);
    let found = criteria(&program.program, FailureShape::Abort, &[stack.to_vec()]);
    let [criterion] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(criterion.failing, stack[2]);
    assert_eq!(criterion.stack, stack[3..]);
    // Behind the failing line comes its condition, and nothing of the message.
    let slice = program.slice(&found);
    let condition = slice
        .entry(program.at("if (given > 3)"))
        .expect("the condition");
    assert_eq!(condition.distance, 10);
    let why = condition.why.as_ref().expect("a reason");
    assert_eq!(why.kind, DependenceKind::Control);
    assert!(slice.entry(program.at("say(what);")).is_none());
}

#[test]
fn a_service_loop_that_never_returns_is_where_its_assertion_failed() {
    let program = Loaded::new(ABORTING);
    let stack = [
        program.at("assert(given != 7);"),
        program.at("serve(argc);"),
    ];
    assert_eq!(failing_frame(&program.program, true, &stack), 0);
    let found = criteria(&program.program, FailureShape::Abort, &[stack.to_vec()]);
    let slice = program.slice(&found);
    assert_eq!(slice.failing().map(|e| e.statement.id), Some(stack[0]));
    assert!(
        slice
            .entry(program.at("given = given * 5 + level;"))
            .is_some()
    );
}

#[test]
fn a_fault_is_where_it_happened() {
    let program = Loaded::new(ABORTING);
    let stack = vec![program.at("abort();"), program.at("die(what);")];
    let found = criteria(
        &program.program,
        FailureShape::Fault,
        std::slice::from_ref(&stack),
    );
    assert_eq!(found, [Criterion::at(stack[0], &stack[1..])]);
}

#[test]
fn nothing_on_the_stack_gives_no_criterion() {
    let program = Loaded::new(ABORTING);
    for shape in [FailureShape::Fault, FailureShape::Abort, FailureShape::Hang] {
        assert_eq!(criteria(&program.program, shape, &[]), []);
        let foreign = vec![vec![StatementId(99_999)], Vec::new()];
        assert_eq!(criteria(&program.program, shape, &foreign), []);
    }
}

const HANGING: &str = r#"#include <pthread.h>
static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t b = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t *first;
static pthread_mutex_t *second;
static int unrelated;
static void *left(void *given) {
    pthread_mutex_lock(&a);
    pthread_mutex_lock(first);
    return given;
}
static void *right(void *given) {
    pthread_mutex_lock(&b);
    pthread_mutex_lock(second);
    return given;
}
int main(void) {
    pthread_t one, two;
    first = &b;
    second = &a;
    unrelated = 5;
    pthread_create(&one, 0, left, 0);
    pthread_create(&two, 0, right, 0);
    pthread_join(one, 0);
    return unrelated;
}
"#;

#[test]
fn a_hang_is_sliced_from_every_blocked_thread() {
    let program = Loaded::new(HANGING);
    let (left, right) = (
        program.at("pthread_mutex_lock(first);"),
        program.at("pthread_mutex_lock(second);"),
    );
    let main = program.at("pthread_join(one, 0);");
    let threads = [vec![right], vec![left], vec![main], vec![left], Vec::new()];
    let found = criteria(&program.program, FailureShape::Hang, &threads);
    let failing: Vec<StatementId> = found.iter().map(|c| c.failing).collect();
    assert_eq!(failing, [right, left, main]);
    let slice = program.slice(&found);
    assert_eq!(slice.failing().map(|e| e.statement.id), Some(right));
    for id in failing {
        assert_eq!(slice.entry(id).map(|e| e.distance), Some(0));
    }
    assert!(slice.entry(program.at("first = &b;")).is_some());
    assert!(slice.entry(program.at("second = &a;")).is_some());
    assert!(slice.entry(program.at("unrelated = 5;")).is_none());
}

const GUARDED: &str = r#"
# 1 "/usr/include/guard.h"
static int share(int by) {
    return 10 / by;
}
# 10 "program.c"
int main(int argc, char **argv) {
    (void)argv;
    return share(argc - 1);
}
"#;

#[test]
fn a_fault_in_a_library_is_the_line_that_called_it() {
    let program = load_text(GUARDED);
    let at = |file, line| program.statement_at(None, file, line).expect("a statement");
    let stack = vec![at("guard.h", 2), at("program.c", 12)];
    for shape in [FailureShape::Fault, FailureShape::Hang] {
        let found = criteria(&program, shape, std::slice::from_ref(&stack));
        assert_eq!(found[0].failing, stack[1]);
    }
    let found = criteria(&program, FailureShape::Fault, std::slice::from_ref(&stack));
    let slice = slice_from(
        &program,
        &found,
        Alias::default(),
        Extent::Whole,
        &no_source,
    );
    assert!(
        slice.entry(stack[0]).is_none(),
        "no line of a library is listed"
    );

    // Whoever registers a build knows better than the path.
    let own = program.with_own_files(&|_| Some(true));
    assert_eq!(failing_frame(&own, false, &stack), 0);
    let none = own.with_own_files(&|_| Some(false));
    let all = "where nothing would be the program's own, that is no answer";
    assert_eq!(failing_frame(&none, false, &stack), 0, "{all}");
}

#[test]
fn a_slice_that_is_cut_says_so_and_is_what_the_whole_one_begins_with() {
    let program = Loaded::new(ABORTING);
    let criteria = [Criterion::at(program.at("abort();"), &[])];
    let alias = Alias::default();
    let slice = |extent| slice_from(&program.program, &criteria, alias, extent, &no_source);
    let whole = slice(Extent::Whole);
    assert!(whole.entries.len() > 3);
    let cut = slice(Extent::Nearest(2));
    assert_eq!(cut.entries, whole.entries[..2]);
    assert!(cut.gaps.contains(&Gap::SliceCut { statements: 2 }));
    let all = slice(Extent::Nearest(whole.entries.len()));
    assert_eq!(all, whole);
}

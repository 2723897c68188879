//! Which threads run a statement: start routines, handlers, callbacks.

use crate::common::*;
use sketch_model::{Gap, Slice, UnknownRoutine};
use slicer::backward_slice;

/// The roles of the failing statement of an annotated program.
fn roles(name: &str, flags: &[&str]) -> Vec<String> {
    let slice = failing_slice(name, flags);
    slice.failing().expect("the criterion").roles.clone()
}

fn failing_slice(name: &str, flags: &[&str]) -> Slice {
    let path = programs_folder().join(name);
    let text = std::fs::read_to_string(&path).expect("the program is readable");
    let line = text.lines().position(|line| line.contains("// FAIL"));
    let line = line.expect("a failing line") as u32 + 1;
    let program = load(&compile(&path, flags));
    let id = program.statement_at(None, name, line);
    backward_slice(&program, id.expect("a statement"), &[], &no_source)
}

#[test]
fn a_handler_says_that_a_signal_runs_it() {
    assert_eq!(roles("signal_sigaction.c", &[]), ["on_user (signal)"]);
    let number = roles("signal_sigaction_number.c", &[]);
    assert_eq!(number, ["on_user (signal)"]);
}

#[test]
fn a_thread_is_named_by_its_routine() {
    assert_eq!(roles("thread_c11.c", &[]), ["work"]);
    assert_eq!(roles("thread_start_choice.c", &[]), ["fast"]);
    assert_eq!(roles("thread_pool.c", &[]), ["worker"]);
    let region = roles("openmp_parallel.c", &["-fopenmp"]);
    assert_eq!(region, ["main", "main.omp_outlined"]);
}

#[test]
fn a_std_thread_is_named_by_the_programs_function() {
    assert_eq!(roles("std_thread_function.cpp", &[]), ["_ZL4worki"]);
    assert_eq!(roles("std_thread_member.cpp", &[]), ["_ZN6Worker3runEv"]);
    let lambda = roles("std_thread_lambda.cpp", &[]);
    assert_eq!(lambda, ["_ZZ4mainENK3$_0clEv"]);
}

#[test]
fn a_callback_runs_on_the_thread_that_hands_it_over() {
    assert_eq!(roles("callback_qsort.c", &[]), ["main"]);
    assert_eq!(roles("callback_atexit.c", &[]), ["main"]);
    assert_eq!(roles("cleanup_push.c", &[]), ["work"]);
    let destructor = roles("callback_key_destructor.c", &[]);
    // The key is made by main, and its value set by the worker.
    assert_eq!(destructor, ["main", "work"]);
}

#[test]
fn a_std_thread_starts_where_the_program_makes_it() {
    let slice = failing_slice("std_thread_global.cpp", &[]);
    let main = |e: &&sketch_model::SliceEntry| e.statement.location.line == 11;
    let creation = slice.entries.iter().find(main).expect("the creation");
    let why = creation.why.as_ref().expect("a reason");
    assert_eq!(why.kind, sketch_model::DependenceKind::ThreadStart);
    // As near as pthread_create would be: nothing of the library lies between.
    assert_eq!(creation.distance, 15);
    let own =
        |e: &sketch_model::SliceEntry| e.statement.location.file_name() == "std_thread_global.cpp";
    assert!(slice.entries.iter().all(own));
}

#[test]
fn a_routine_that_nothing_tells_is_a_gap_and_every_fitting_function() {
    let text = "#include <pthread.h>\n#include <signal.h>\n\
        extern void *(*choose(void))(void *);\n\
        extern void use(void *);\n\
        extern struct sigaction *prepared(void);\n\
        static int x;\n\
        static void *start(void *p) { x = 1; return p; }\n\
        static void handle(int n, siginfo_t *i, void *c) { x = n; }\n\
        int main(void) {\n\
        pthread_t t; use((void *)start); use((void *)handle);\n\
        pthread_create(&t, 0, choose(), 0);\n\
        sigaction(10, prepared(), 0);\n\
        return 10 / x;\n}\n";
    let program = load_text(text);
    let gaps = program.gaps();
    let unknown = |routine| Gap::RoutineUnknown {
        function: "main".to_owned(),
        routine,
    };
    assert!(gaps.contains(&unknown(UnknownRoutine::ThreadStart)));
    let library_function = "sigaction".to_owned();
    assert!(gaps.contains(&unknown(UnknownRoutine::Callback { library_function })));
    let id = program.statement_at(None, "program.c", 13);
    let slice = backward_slice(&program, id.expect("a statement"), &[], &no_source);
    let roles_on = |line: u32| {
        let mut entries = slice.entries.iter();
        let entry = entries.find(|e| e.statement.location.line == line);
        entry.expect("the store is in the slice").roles.clone()
    };
    assert_eq!(roles_on(7), ["start"]);
    assert_eq!(roles_on(8), ["handle (signal)"]);
}

//! A function that was inlined into very many others does not give all of them gates.

use crate::common::{build, run};
use instrumenter::{Way, track};
use sketch_model::PointKind;
use std::fmt::Write;

/// A program in which `take` is inlined into so many functions, each called once.
fn program(users: usize) -> String {
    let mut text = String::from(
        "struct box { volatile int value; } box;\n\
         static inline int take(struct box *b) { return b->value; }\n",
    );
    for user in 0..users {
        writeln!(
            text,
            "__attribute__((noinline)) void user{user}(struct box *b) {{ b->value = take(b) + {user}; }}"
        )
        .unwrap();
    }
    text.push_str("int main(void) {\n");
    for user in 0..users {
        writeln!(text, "    user{user}(&box);").unwrap();
    }
    text + "    return box.value & 127;\n}\n"
}

/// With so many users: how many functions have clones, in how many places the load
/// stands, whether that tells all, and how often it was recorded.
fn loads_of_take(users: usize) -> (usize, u32, bool, usize) {
    let program = build(&[("users.c", &program(users))], &["-O2"], &[]);
    let plan = program.plan(&["take", "user3"]);
    let tracked = track(&program.build, &plan).unwrap();
    let Way::Clones { functions } = tracked.way else {
        panic!("{}", tracked.way);
    };
    let statements = &plan.statements;
    let load = plan.sites.iter().find(|site| {
        let statement = statements.iter().find(|s| s.id == site.statement);
        site.kind == PointKind::Load && statement.is_some_and(|s| s.function == "take")
    });
    let load = load.expect("the load is planned").id;
    let p = run(
        &program.write("p", &program.build.deployed().unwrap()),
        &[],
        false,
    );
    let ran = run(&program.write("tracked", &tracked.deployed), &[], true);
    assert_eq!(ran.status, p.status);
    let recorded = ran.events.iter().flatten();
    (
        functions,
        tracked.placement.places[load.0 as usize],
        tracked.placement.tells_all(load),
        recorded.filter(|event| event.site == load.0).count(),
    )
}

#[test]
fn few_hosts_are_hooked_all() {
    assert_eq!(loads_of_take(10), (10, 10, true, 10));
}

#[test]
fn of_many_hosts_those_of_the_plan_are_hooked_and_the_placement_says_so() {
    assert_eq!(loads_of_take(40), (1, 1, false, 1));
}

//! `failsketch plan` on a registered program: text, JSON, differences, refusals.

use crate::support::{FAILSKETCH, Place};
use build_store::BuildStore;
use sketch_model::{Capabilities, TrackingPlan};

const PROGRAM: (&str, &str) = (
    "main.c",
    "int level = 1, label;\n\
     void lower(int n) {\n\
       if (n > 3)\n\
         level = 0;\n\
     }\n\
     int main(int argc, char **argv) {\n\
       lower(argc);\n\
       label = 10 / level;\n\
       return label;\n\
     }\n",
);

fn registered() -> (Place, String) {
    let place = Place::new(&[PROGRAM]);
    place.run_ok("failsketch-cc -O2 main.c -o prog");
    let mut register = place.command(&format!("{FAILSKETCH} register prog --store"));
    assert!(
        register
            .arg(place.store())
            .output()
            .unwrap()
            .status
            .success()
    );
    let builds = BuildStore::open(place.store()).list().unwrap();
    let id = builds[0].build_id.0.clone();
    (place, id)
}

/// What the command prints, or the error that it ends with.
fn plan(place: &Place, id: &str, arguments: &str) -> Result<String, String> {
    let line = format!("{FAILSKETCH} plan --build {id} {arguments} --store");
    let output = place.command(&line).arg(place.store()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() {
        Ok(text(output.stdout))
    } else {
        Err(text(output.stderr))
    }
}

#[test]
fn the_plans_of_a_statement_are_printed_and_compared() {
    let (place, id) = registered();
    let text = plan(&place, &id, "--at main.c:8 --sigma 2").unwrap();
    assert_eq!(
        plan(&place, &id, "--at main.c:8").unwrap(),
        text,
        "σ is 2 at first"
    );
    for part in [
        "sigma 2 variant 0 for hooks and watchpoints\n",
        "sigma 2 variant 1 for hooks\n",
        "watch 0 level\n",
        "watch - level\n",
        "main main.c:8",
        "load [statement] level arms 0\n",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    let json = plan(&place, &id, "--at main.c:8 --variant 1 --format json").unwrap();
    let plans: Vec<TrackingPlan> = serde_json::from_str(&json).unwrap();
    assert_eq!(plans.len(), 1);
    assert_eq!(plans[0].wants, Capabilities::hooks());
    assert_eq!(plans[0].watched.len(), 0);
    assert!(text.contains(&format!("plan {}\n", plans[0].version())));

    let difference = plan(&place, &id, "--at main.c:8 --sigma 1 --diff 9 --variant 0").unwrap();
    assert!(difference.contains("\n+ lower main.c:4"), "{difference}");
    assert!(!difference.contains("\n- "), "{difference}");
    let same = plan(&place, &id, "--at main.c:8 --diff 2").unwrap();
    assert!(same.lines().all(|line| line.starts_with("plan ")), "{same}");
}

#[test]
fn what_cannot_be_planned_is_said() {
    let (place, id) = registered();
    for (arguments, reason) in [
        ("--at main.c:99", "line 99 of main.c has no code"),
        ("--at main.c", "main.c is not FILE:LINE"),
        ("--at main.c:8 --variant 7", "σ 2 has the plans 0 to 1"),
        (
            "--at main.c:8 --diff 3 --format json",
            "a difference is text",
        ),
    ] {
        let error = plan(&place, &id, arguments).unwrap_err();
        assert!(error.contains(reason), "{arguments}: {error}");
    }
    let error = plan(&place, "zz", "--at main.c:8").unwrap_err();
    assert!(
        error.contains("no registered build begins with zz"),
        "{error}"
    );
}

/// The patch of a plan, and the program it leads to, which runs as the original does.
#[test]
fn a_plan_becomes_a_patch() {
    let (place, id) = registered();
    let patch = |arguments: &str| {
        let line =
            format!("{FAILSKETCH} patch --build {id} --at main.c:8 {arguments} --json --store");
        let output = place.command(&line).arg(place.store()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        serde_json::from_slice::<serde_json::Value>(&output.stdout).map_err(|_| said)
    };
    let both = patch("--whole --data key --out both.patch --tracked tracked").unwrap();
    let branches = patch("--whole --only control-flow --data key --out b.patch").unwrap();
    let accesses = patch("--whole --only data-flow --data key --out a.patch").unwrap();
    let sites = |report: &serde_json::Value| report["sites"].as_u64().unwrap();
    assert_eq!(sites(&both), sites(&branches) + sites(&accesses));
    assert!(sites(&branches) > 0 && sites(&accesses) > 0, "{both}");
    assert_eq!(
        (&both["watched"], &branches["watched"]),
        (&2.into(), &0.into())
    );
    assert!(both["patch_bytes"].as_u64().unwrap() > 1000, "{both}");
    let status = |program: &str| place.command(program).output().unwrap().status.code();
    assert_eq!(status("./tracked"), Some(10));
    assert_eq!(status("./tracked"), status("./prog"));

    let refusal = patch("--variant 9 --data key --out x.patch").unwrap_err();
    assert!(refusal.contains("has the plans 0 to 1"), "{refusal}");
}

//! Arguments, results and strings of tracked calls are what the program passed,
//! and reading strings never faults.

use crate::common::{build, run};
use instrumenter::track;
use runtime::layout::{
    EDGE_SATURATION, Event, KIND_ARGUMENT, KIND_CALL, KIND_RESULT, KIND_TEXT, SIZE_FLAG,
};

const STRINGS: &str = include_str!("../programs/strings.c");

/// What a call passed and returned, in words.
fn told(event: &Event) -> Option<String> {
    let size = usize::from(event.size & !SIZE_FLAG);
    let mask = u64::MAX >> (64 - 8 * size.clamp(1, 8));
    let signed = |value: u64| (value << (64 - 8 * size)) as i64 >> (64 - 8 * size);
    let number = || match event.size & SIZE_FLAG {
        0 => signed(event.value & mask).to_string(),
        _ if event.value == 0 => "null".to_owned(),
        _ => "pointer".to_owned(),
    };
    match event.kind & 0xff {
        KIND_CALL => Some("call".into()),
        KIND_ARGUMENT => Some(format!("{}={}", event.address, number())),
        KIND_RESULT => Some(format!("->{}", number())),
        KIND_TEXT => {
            let words = [event.after, event.address, event.value];
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            assert!(
                bytes[size..].iter().all(|b| *b == 0),
                "no more than the string"
            );
            let more = if event.size & SIZE_FLAG != 0 {
                "..."
            } else {
                ""
            };
            Some(format!("\"{}\"{more}", bytes[..size].escape_ascii()))
        }
        _ => None,
    }
}

#[test]
fn calls_tell_their_arguments_their_results_and_short_strings() {
    for level in ["-O0", "-O2"] {
        let program = build(&[("strings.c", STRINGS)], &[level, "-fPIE"], &["-pie"]);
        let tracked = track(&program.build, &program.plan(&["main"])).unwrap();
        let p = run(
            &program.write("p", &program.build.deployed().unwrap()),
            &["words"],
            false,
        );
        let ran = run(
            &program.write("tracked", &tracked.deployed),
            &["words"],
            true,
        );
        assert_eq!((ran.status, ran.stdout), (p.status, p.stdout), "{level}");
        let told: Vec<String> = ran.events[0].iter().filter_map(told).collect();
        let text = told.join(" ");
        let w = i64::from(b'w') + i64::from(b'o') + i64::from(b'r') + 7;
        let across: i64 = b"across pages".iter().map(|b| i64::from(*b)).sum();
        for expected in [
            format!("call 1=pointer \"words\" 2=3 3=7 ->{w}"),
            format!(
                "call 1=pointer \"xxx\" 2=3 3=-1 ->{}",
                3 * i64::from(b'x') - 1
            ),
            format!("call 1=pointer \"across pages\" 2=12 3=2 ->{}", across + 2),
            "call 1=null 2=0 3=0 ->0".into(),
            "call 1=pointer 2=0 3=1 ->1".into(),
            "->pointer \"a name that is longer th\"...".into(),
            "call 1=pointer \"short\\n\" ->6".into(),
        ] {
            assert!(text.contains(&expected), "{level}: no {expected} in {text}");
        }
        // A call that is only counted any more has no values either.
        let region = ran.region.expect("recording");
        let recorded = region.threads[0].count;
        let most = 100 + 8 * EDGE_SATURATION;
        assert!(recorded < most, "{level}: {recorded} events of 1000 calls");
    }
}

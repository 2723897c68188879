//! The two files must fit into any program: nothing undefined, nothing exported
//! beyond our prefix, no libraries needed.

use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use runtime::layout::{
    DOORS, EDGES, Event, HEAD_EVENTS, REGION_SIZE, RING_EVENTS, TIRING_SITES, ThreadSlot,
};

const HOOKS: [&str; 14] = [
    "__failsketch_access",
    "__failsketch_arm",
    "__failsketch_branch",
    "__failsketch_call",
    "__failsketch_kept_arm",
    "__failsketch_kept_branch",
    "__failsketch_kept_call",
    "__failsketch_kept_clock",
    "__failsketch_kept_read",
    "__failsketch_kept_value",
    "__failsketch_kept_wrote",
    "__failsketch_sync_begin",
    "__failsketch_sync_end",
    "__failsketch_value",
];

#[test]
fn the_linkable_object_stands_alone() {
    let file = object::File::parse(runtime::LINKABLE).expect("an object file");
    let mut hooks = Vec::new();
    for symbol in file.symbols() {
        let name = symbol.name().expect("a name");
        assert!(
            !symbol.is_undefined() || name.is_empty(),
            "{name} is undefined"
        );
        if symbol.is_global() {
            assert!(name.starts_with("__failsketch_"), "{name} is exported");
            if HOOKS.contains(&name) {
                assert_eq!(symbol.kind(), SymbolKind::Text);
                hooks.push(name.to_string());
            }
        }
    }
    hooks.sort();
    assert_eq!(hooks, HOOKS);
    let constructors = file
        .sections()
        .filter(|s| s.name().is_ok_and(|name| name.starts_with(".init_array")))
        .count();
    assert_eq!(constructors, 1);
    // A program's thread-local block is none of ours.
    assert!(
        !file
            .sections()
            .any(|s| s.name().is_ok_and(|name| name.starts_with(".t")
                && name != ".text"
                && !name.starts_with(".text.")))
    );
    // What clones test at their entries: on pages of their own, zero in the file.
    for name in ["__failsketch_enabled", "__failsketch_active"] {
        let symbol = file.symbol_by_name(name).expect("exported");
        assert_eq!(symbol.kind(), SymbolKind::Data);
        assert_eq!((symbol.address() % 4096, symbol.size()), (0, 4));
        let section = symbol.section_index().expect("defined");
        let section = file.section_by_index(section).expect("there");
        assert_eq!(section.kind(), object::SectionKind::UninitializedData);
    }
}

#[test]
fn the_preloadable_object_needs_the_loader_and_offers_what_it_stands_in_front_of() {
    let file = object::File::parse(runtime::PRELOAD).expect("a shared object");
    let names = |undefined: bool| -> Vec<&str> {
        let symbols = file.dynamic_symbols();
        let mut names: Vec<&str> = symbols
            .filter(|symbol| symbol.is_undefined() == undefined)
            .filter_map(|symbol| symbol.name().ok())
            .filter(|name| !name.is_empty())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(true), ["_r_debug"]);
    assert_eq!(
        names(false),
        [
            "__sysv_signal",
            "aligned_alloc",
            "bsd_signal",
            "calloc",
            "free",
            "malloc",
            "memalign",
            "munmap",
            "posix_memalign",
            "pvalloc",
            "realloc",
            "reallocarray",
            "sigaction",
            "signal",
            "sigset",
            "sysv_signal",
            "valloc"
        ]
    );
    // First of all: before libraries run, or start children.
    const DT_FLAGS_1: u64 = 0x6fff_fffb;
    const DF_1_INITFIRST: u64 = 0x20;
    let dynamic = file.section_by_name(".dynamic").expect("is dynamic");
    let bytes = dynamic.data().expect("in the file").chunks_exact(8);
    let words: Vec<u64> = bytes
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
        .collect();
    let mut entries = words.chunks_exact(2);
    let flags = entries.find(|entry| entry[0] == DT_FLAGS_1);
    assert!(flags.is_some_and(|entry| entry[1] & DF_1_INITFIRST != 0));
    // A few kilobytes, as promised.
    assert!(
        runtime::PRELOAD.len() < 24 << 10,
        "{}",
        runtime::PRELOAD.len()
    );
    assert!(
        runtime::LINKABLE.len() < 64 << 10,
        "{}",
        runtime::LINKABLE.len()
    );
}

#[test]
fn the_layout_is_the_one_that_its_version_names() {
    // A change here must come with a new `layout::VERSION`.
    assert_eq!(runtime::layout::VERSION, 16);
    assert_eq!(size_of::<Event>(), 40);
    assert_eq!(
        size_of::<ThreadSlot>(),
        64 + TIRING_SITES * DOORS + 88 * EDGES + 40 * (HEAD_EVENTS + RING_EVENTS)
    );
    assert_eq!(REGION_SIZE % 4096, 0);
    assert!(RING_EVENTS.is_power_of_two());
}

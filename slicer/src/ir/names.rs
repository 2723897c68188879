//! How LLVM and C++ spell names, and what we make of them.
//!
//! clang names a struct type `struct.queue`, `class.ns::Queue` or
//! `union.value`, and LLVM adds `.17` when the name is taken in its context.
//! The number differs between modules, so it is dropped: two types of one name
//! become one record. That errs on the side of more dependences (instances of
//! one C++ template are one record), never of fewer.

/// A record's name without prefix and number; `None` if it is anonymous. What a
/// lambda captures is a class without a name: it keeps its number, which at worst
/// makes two lambdas one.
pub(crate) fn record_name(llvm_name: &str) -> Option<&str> {
    if let Some(lambda) = llvm_name.strip_prefix("class.anon") {
        let number = lambda.strip_prefix('.').unwrap_or(lambda);
        if number.bytes().all(|b| b.is_ascii_digit()) {
            return llvm_name.strip_prefix("class.");
        }
    }
    let name = ["struct.", "class.", "union."]
        .iter()
        .find_map(|prefix| llvm_name.strip_prefix(prefix))
        .unwrap_or(llvm_name);
    let name = without_number(name);
    let name = name.strip_suffix(".base").map_or(name, without_number);
    let anonymous = name.is_empty()
        || name == "anon"
        || name.ends_with("::anon")
        || name.contains("(unnamed ")
        || name.contains("(anonymous struct")
        || name.contains("(anonymous union");
    (!anonymous).then_some(name)
}

fn without_number(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((rest, number))
            if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) =>
        {
            rest
        }
        _ => name,
    }
}

/// `vector<int, allocator<int> >` is a `vector`: debug info names template
/// arguments where LLVM's type names do not.
pub(crate) fn without_template_arguments(name: &str) -> &str {
    if name.starts_with("operator") {
        return name;
    }
    name.split_once('<').map_or(name, |(plain, _)| plain)
}

/// Mangled names of the functions by which libstdc++ brings a callable and its
/// arguments into a new thread. They hand values on and do nothing else, so
/// nobody counts their lines as statements. Other templates of the library do
/// count: a race on a `std::deque` happens on its lines.
const PLUMBING: [&str; 21] = [
    "_ZNSt6thread",
    "_ZSt8__invoke",
    "_ZSt13__invoke_impl",
    "_ZSt7forward",
    "_ZSt4move",
    "_ZSt3get",
    "_ZSt12__get_helper",
    "_ZNSt11_Tuple_impl",
    "_ZNSt10_Head_base",
    "_ZNSt5tuple",
    "_ZNSt10unique_ptrINSt6thread",
    "_ZNKSt10unique_ptrINSt6thread",
    "_ZNSt15__uniq_ptr_implINSt6thread",
    "_ZNSt15__uniq_ptr_dataINSt6thread",
    "_ZNSt7jthread",
    "_ZSt5async",
    "_ZSt9call_once",
    "_ZZSt9call_once",
    "_ZNSt9once_flag",
    "_ZNSt13__future_base",
    "_ZSt6invoke",
];

pub(crate) fn is_plumbing(function: &str) -> bool {
    PLUMBING.iter().any(|prefix| function.starts_with(prefix))
}

/// A path from debug info: the directory joined with a relative file name.
pub(crate) fn join_path(directory: &str, file: &str) -> String {
    let file = file.trim_start_matches("./");
    if file.starts_with('/') || directory.is_empty() {
        file.to_owned()
    } else {
        format!("{}/{file}", directory.trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_and_number_are_dropped() {
        assert_eq!(record_name("struct.queue"), Some("queue"));
        assert_eq!(record_name("struct.queue.17"), Some("queue"));
        assert_eq!(record_name("class.ns::Queue.0"), Some("ns::Queue"));
        assert_eq!(record_name("class.Derived.base"), Some("Derived"));
        assert_eq!(record_name("struct.v1.5x"), Some("v1.5x"));
    }

    #[test]
    fn anonymous_records_have_no_name() {
        assert_eq!(record_name("struct.anon"), None);
        assert_eq!(record_name("union.anon.3"), None);
        assert_eq!(record_name("class.anon.3"), Some("anon.3"));
    }

    #[test]
    fn relative_files_are_joined_with_their_directory() {
        assert_eq!(join_path("/src", "a.c"), "/src/a.c");
        assert_eq!(join_path("/src/", "./a.c"), "/src/a.c");
        assert_eq!(join_path("/src", "/usr/a.h"), "/usr/a.h");
        assert_eq!(join_path("", "a.c"), "a.c");
    }

    #[test]
    fn plumbing_is_what_starts_threads() {
        assert!(is_plumbing("_ZNSt6threadC2IRFvvEJEvEEOT_DpOT0_"));
        assert!(is_plumbing(
            "_ZSt7forwardIRFvvEEOT_RNSt16remove_referenceIS2_E4typeE"
        ));
        assert!(!is_plumbing("_ZNSt5dequeIiSaIiEE9pop_frontEv"));
        assert!(!is_plumbing("main"));
    }

    #[test]
    fn template_arguments_are_dropped() {
        assert_eq!(without_template_arguments("vector<int>"), "vector");
        assert_eq!(without_template_arguments("operator<"), "operator<");
    }
}

//! Response files (`@file`), expanded as the compiler does, for reading only.
//!
//! The compiler gets the arguments as they were given; the wrapper looks into
//! the files to know what the call does. The rules are the GNU ones that LLVM
//! documents for its command-line library: words split at white space, a
//! backslash takes the next character as it is, single and double quotes group.
//! A file that cannot be read is an ordinary argument.

/// Files may name files; this bounds a file that names itself.
const MAX_DEPTH: usize = 16;

/// All words, with those that name response files replaced by their content.
pub fn expand(words: &[String]) -> Vec<String> {
    let mut expanded = Vec::with_capacity(words.len());
    expand_into(words, 0, &mut expanded);
    expanded
}

fn expand_into(words: &[String], depth: usize, expanded: &mut Vec<String>) {
    for word in words {
        let content = word
            .strip_prefix('@')
            .filter(|_| depth < MAX_DEPTH)
            .and_then(|path| std::fs::read_to_string(path).ok());
        match content {
            Some(text) => expand_into(&split(&text), depth + 1, expanded),
            None => expanded.push(word.clone()),
        }
    }
}

fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut current: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, quote) {
            ('\\', _) => current.get_or_insert_default().extend(characters.next()),
            (other, Some(open)) if other == open => quote = None,
            ('"' | '\'', None) => {
                quote = Some(character);
                current.get_or_insert_default();
            }
            (space, None) if space.is_whitespace() => words.extend(current.take()),
            (other, _) => current.get_or_insert_default().push(other),
        }
    }
    words.extend(current);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_backslashes() {
        assert_eq!(
            split("-c  'a b.c'\n-DX=\\\"y\\\" \"-DZ=1 2\" ''"),
            vec!["-c", "a b.c", "-DX=\"y\"", "-DZ=1 2", ""]
        );
    }
}

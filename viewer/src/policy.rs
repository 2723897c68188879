//! The look of the pages and the policy that lets a browser apply nothing else.
//!
//! The one inline style sheet is allowed by its hash; scripts, frames, forms and
//! requests to anywhere are refused. A test computes the hash anew: whoever edits
//! `page.css` is told what to write here.

/// The style sheet of all pages.
pub const STYLE: &str = include_str!("page.css");

macro_rules! rules {
    () => {
        "default-src 'none'; style-src 'sha256-UYFMkDecP0umfj0KEBk07h75R5En4vl/iesGg50lJGY='; \
         img-src data:; base-uri 'none'; form-action 'none'"
    };
}

/// The policy within a page, so that a saved page keeps it.
pub const IN_PAGE_POLICY: &str = rules!();

/// What the server sends as the header `Content-Security-Policy` with every page.
/// Browsers heed `frame-ancestors` in the header only.
pub const CONTENT_SECURITY_POLICY: &str = concat!(rules!(), "; frame-ancestors 'none'");

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    fn base64(bytes: &[u8]) -> String {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut out = String::new();
        for chunk in bytes.chunks(3) {
            let mut word = [0; 4];
            word[1..=chunk.len()].copy_from_slice(chunk);
            let word = u32::from_be_bytes(word);
            for i in 0..4 {
                let digit = (word >> (18 - 6 * i)) & 63;
                out.push(if i <= chunk.len() {
                    DIGITS[digit as usize] as char
                } else {
                    '='
                });
            }
        }
        out
    }

    #[test]
    fn the_policy_allows_exactly_this_style_sheet() {
        let allowed = format!("'sha256-{}'", base64(&Sha256::digest(STYLE.as_bytes())));
        assert!(
            CONTENT_SECURITY_POLICY.contains(&allowed),
            "page.css has changed: write {allowed} into policy.rs"
        );
    }
}

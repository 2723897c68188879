//! The look and the script of the pages, and the policy that lets a browser
//! apply nothing else.
//!
//! The one inline style sheet is allowed by its hash; a test computes it anew:
//! whoever edits `page.css` is told what to write here. A page of the server may
//! also run the server's own script file, listen to the server's events and post
//! the server's own forms. A page on its own may do none of that.

/// The style sheet of all pages.
pub const STYLE: &str = include_str!("page.css");

/// The script of the server's pages, as its own file.
pub const SCRIPT: &str = include_str!("page.js");
/// Where pages expect the server to serve [`SCRIPT`].
pub const SCRIPT_PATH: &str = "/assets/page.js";

macro_rules! look {
    () => {
        "default-src 'none'; style-src 'sha256-HXiFhE6gSRa9UXCLENbPNGmVDBZfIUwbR1mllwQpv1Q='; \
         img-src data:; base-uri 'none'"
    };
}

/// The policy within a page that stands alone.
pub const STANDALONE_POLICY: &str = concat!(look!(), "; form-action 'none'");

macro_rules! served {
    () => {
        concat!(
            look!(),
            "; script-src 'self'; connect-src 'self'; form-action 'self'"
        )
    };
}

/// The policy within a page of the server, so that a saved page keeps it.
pub const SERVED_POLICY: &str = served!();

/// What the server sends as the header `Content-Security-Policy` with every page.
/// Browsers heed `frame-ancestors` in the header only.
pub const CONTENT_SECURITY_POLICY: &str = concat!(served!(), "; frame-ancestors 'none'");

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
        for policy in [STANDALONE_POLICY, SERVED_POLICY, CONTENT_SECURITY_POLICY] {
            assert!(
                policy.contains(&allowed),
                "page.css has changed: write {allowed} into policy.rs"
            );
        }
    }
}

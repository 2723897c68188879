//! A token: a public half by which it is found, and a secret half.
//!
//! `fsk_<16 hex digits>_<64 hex digits>`. The server keeps the public half and the
//! SHA-256 of the secret one. Finding by the public half leaks nothing through
//! timing; the hashes are compared in constant time.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

const PREFIX: &str = "fsk_";
const PUBLIC_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;

/// A token as its holder has it.
pub struct Token {
    public: String,
    secret: [u8; SECRET_BYTES],
}

impl Token {
    /// A new one, from the system's random numbers.
    pub fn random() -> Result<Token, getrandom::Error> {
        let mut public = [0; PUBLIC_BYTES];
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut public)?;
        getrandom::fill(&mut secret)?;
        Ok(Token {
            public: hex::encode(public),
            secret,
        })
    }

    /// Reads what a request brought; `None` if it cannot be a token of ours.
    pub fn read(text: &str) -> Option<Token> {
        let (public, secret) = text.trim().strip_prefix(PREFIX)?.split_once('_')?;
        let whole = public.len() == 2 * PUBLIC_BYTES
            && public
                .bytes()
                .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let mut bytes = [0; SECRET_BYTES];
        hex::decode_to_slice(secret, &mut bytes).ok()?;
        whole.then(|| Token {
            public: public.to_owned(),
            secret: bytes,
        })
    }

    /// The half that may be stored and shown.
    pub fn public(&self) -> &str {
        &self.public
    }

    /// The text for the holder; nobody else keeps it.
    pub fn text(&self) -> String {
        format!("{PREFIX}{}_{}", self.public, hex::encode(self.secret))
    }

    /// What is stored of the secret half.
    pub fn hash(&self) -> String {
        hex::encode(Sha256::digest(self.secret))
    }

    /// Whether `stored` is the hash of this token, in time that does not depend
    /// on how much of it is right.
    pub fn matches(&self, stored: &str) -> bool {
        self.hash().as_bytes().ct_eq(stored.as_bytes()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_back_and_matches_only_its_own_hash() {
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        let read = Token::read(&format!(" {}\n", one.text())).unwrap();
        assert_eq!(read.public(), one.public());
        assert!(read.matches(&one.hash()));
        assert!(!read.matches(&other.hash()));
        assert!(!read.matches("") && !read.matches(&one.hash()[1..]));
    }

    #[test]
    fn what_is_no_token_is_not_read() {
        let good = Token::random().unwrap().text();
        for bad in [
            "",
            "fsk_",
            "fsk__",
            &good[1..],
            &good[..good.len() - 1],
            &good.replace("fsk_", "fsk-"),
            &format!("{good}0"),
            &good.to_uppercase(),
        ] {
            assert!(Token::read(bad).is_none(), "{bad:?}");
        }
    }
}

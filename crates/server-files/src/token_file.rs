//! The token file: who has which role. Read by the server, written by
//! `failsketch token` and by an admin's revocation.
//!
//! It is read again whenever it has changed, so that a revocation holds from the
//! next request on without a restart. A file that cannot be read lets nobody in.
//! Writers take a lock beside it and replace it whole.

use crate::{Role, Token};
use private_files::{open_lock_file, write_private};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A token as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenEntry {
    /// Who has it; for an agent, the only agent it speaks for.
    pub name: String,
    pub role: Role,
    /// An agent's token that any agent may use.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fleet: bool,
    /// The token's public half.
    pub id: String,
    /// SHA-256 of its secret half.
    pub hash: String,
    /// Seconds since 1970.
    pub made: u64,
}

/// A token as it may be shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TokenListed {
    pub name: String,
    pub role: Role,
    /// Whether any agent may use it.
    pub fleet: bool,
    /// The part of the token that is no secret.
    pub id: String,
    /// Seconds since 1970.
    pub made: u64,
}

impl From<&TokenEntry> for TokenListed {
    fn from(entry: &TokenEntry) -> TokenListed {
        TokenListed {
            name: entry.name.clone(),
            role: entry.role,
            fleet: entry.fleet,
            id: entry.id.clone(),
            made: entry.made,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    #[error("cannot {doing} the token file {path}: {source}; check its rights")]
    File {
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(
        "the token file {path} is damaged: {source}; restore it, or remove it and make new tokens with `failsketch token add`"
    )]
    Damaged {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error(
        "the token file {path} may be written by others (mode {mode:o}); run `chmod 600` on it"
    )]
    Exposed { path: PathBuf, mode: u32 },
    #[error("there is a token `{0}` already; revoke it first, or choose another name")]
    Taken(String),
    #[error("there is no token `{0}`; `failsketch token list` shows those there are")]
    Unknown(String),
    #[error("`{0}` is no name for a token; use 1 to 200 printable characters")]
    BadName(String),
    #[error("the system gave no random numbers: {0}")]
    Random(getrandom::Error),
}

#[derive(Default, Serialize, Deserialize)]
struct Stored {
    tokens: Vec<TokenEntry>,
}

/// What tells that the file is still the same.
type Stamp = (u64, u64, i64, i64, i64);

/// The token file of a server.
pub struct TokenFile {
    path: PathBuf,
    read: Mutex<Option<(Stamp, Arc<Vec<TokenEntry>>)>>,
}

impl TokenFile {
    pub fn at(path: &Path) -> TokenFile {
        TokenFile {
            path: path.to_owned(),
            read: Mutex::new(None),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The tokens; `None` if there is no file.
    pub fn tokens(&self) -> Result<Option<Arc<Vec<TokenEntry>>>, TokenFileError> {
        let metadata = match fs::metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failing("examine")(error)),
        };
        let stamp = (
            metadata.ino(),
            metadata.len(),
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.ctime_nsec(),
        );
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, tokens)) = &*read
            && *known == stamp
        {
            return Ok(Some(Arc::clone(tokens)));
        }
        let mode = metadata.mode() & 0o777;
        if mode & 0o022 != 0 {
            return Err(TokenFileError::Exposed {
                path: self.path.clone(),
                mode,
            });
        }
        let tokens = Arc::new(self.load()?.tokens);
        *read = Some((stamp, Arc::clone(&tokens)));
        Ok(Some(tokens))
    }

    /// Makes a token; only its holder will ever have its text.
    pub fn add(
        &self,
        name: &str,
        role: Role,
        fleet: bool,
        now: u64,
    ) -> Result<Token, TokenFileError> {
        let printable = name.chars().all(|c| !c.is_control() && !c.is_whitespace());
        if name.is_empty() || name.len() > 200 || !printable {
            return Err(TokenFileError::BadName(name.escape_default().to_string()));
        }
        let token = Token::random().map_err(TokenFileError::Random)?;
        self.change(|tokens| {
            if tokens.iter().any(|t| t.name == name) {
                return Err(TokenFileError::Taken(name.to_owned()));
            }
            tokens.push(TokenEntry {
                name: name.to_owned(),
                role,
                fleet: fleet && role == Role::Agent,
                id: token.public().to_owned(),
                hash: token.hash(),
                made: now,
            });
            Ok(())
        })?;
        Ok(token)
    }

    /// Takes a token back.
    pub fn revoke(&self, name: &str) -> Result<(), TokenFileError> {
        self.change(|tokens| {
            let before = tokens.len();
            tokens.retain(|t| t.name != name);
            match tokens.len() < before {
                true => Ok(()),
                false => Err(TokenFileError::Unknown(name.to_owned())),
            }
        })
    }

    fn change(
        &self,
        change: impl FnOnce(&mut Vec<TokenEntry>) -> Result<(), TokenFileError>,
    ) -> Result<(), TokenFileError> {
        let lock = open_lock_file(&self.path.with_extension("lock"));
        let lock = lock.map_err(self.failing("lock"))?;
        lock.lock().map_err(self.failing("lock"))?;
        let mut stored = match self.path.try_exists() {
            Ok(false) => Stored::default(),
            Ok(true) => self.load()?,
            Err(error) => return Err(self.failing("examine")(error)),
        };
        change(&mut stored.tokens)?;
        let mut text =
            serde_json::to_vec_pretty(&stored).map_err(|source| TokenFileError::Damaged {
                path: self.path.clone(),
                source,
            })?;
        text.push(b'\n');
        write_private(&self.path, &text).map_err(self.failing("write"))
    }

    fn load(&self) -> Result<Stored, TokenFileError> {
        let text = fs::read(&self.path).map_err(self.failing("read"))?;
        serde_json::from_slice(&text).map_err(|source| TokenFileError::Damaged {
            path: self.path.clone(),
            source,
        })
    }

    fn failing(&self, doing: &'static str) -> impl Fn(io::Error) -> TokenFileError + use<> {
        let path = self.path.clone();
        move |source| TokenFileError::File {
            doing,
            path: path.clone(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn tokens_are_made_found_and_revoked_and_their_text_is_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let book = TokenFile::at(&folder.path().join("tokens.json"));
        assert!(book.tokens().unwrap().is_none());
        let token = book.add("web-7", Role::Agent, false, 5).unwrap();
        let other = TokenFile::at(book.path());
        let listed = other.tokens().unwrap().unwrap();
        assert_eq!((listed.len(), listed[0].role), (1, Role::Agent));
        assert!(token.matches(&listed[0].hash));
        let stored = fs::read_to_string(book.path()).unwrap();
        let text = token.text();
        let secret = text.rsplit_once('_').unwrap().1;
        assert!(!stored.contains(secret), "{stored}");
        let mode = fs::metadata(book.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);

        assert!(matches!(
            book.add("web-7", Role::Admin, false, 6),
            Err(TokenFileError::Taken(_))
        ));
        book.revoke("web-7").unwrap();
        assert!(matches!(
            book.revoke("web-7"),
            Err(TokenFileError::Unknown(_))
        ));
        // The file stays: a server without any token left is closed, not open.
        assert_eq!(other.tokens().unwrap().unwrap().len(), 0);
    }

    #[test]
    fn a_file_that_is_damaged_or_exposed_lets_nobody_in() {
        let folder = tempfile::tempdir().unwrap();
        let book = TokenFile::at(&folder.path().join("tokens.json"));
        book.add("a", Role::Admin, false, 0).unwrap();
        fs::set_permissions(book.path(), fs::Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(book.tokens(), Err(TokenFileError::Exposed { .. })));
        fs::set_permissions(book.path(), fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(book.path(), "{").unwrap();
        assert!(matches!(book.tokens(), Err(TokenFileError::Damaged { .. })));
        assert!(matches!(
            book.add("b", Role::Admin, false, 0),
            Err(TokenFileError::Damaged { .. })
        ));
    }

    #[test]
    fn names_that_would_confuse_a_reader_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let book = TokenFile::at(&folder.path().join("tokens.json"));
        for name in ["", "two words", "a\nb", &"x".repeat(201)] {
            let refused = book.add(name, Role::Agent, false, 0);
            assert!(
                matches!(refused, Err(TokenFileError::BadName(_))),
                "{name:?}"
            );
        }
    }
}

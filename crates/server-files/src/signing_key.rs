//! The server's signing key: made at the first start, kept in the data folder.
//!
//! The secret file is never rewritten. The public file is written anew at each
//! start, so that it cannot drift from the secret.

use code_patch::{PatchError, SecretKey};
use private_files::write_private;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("cannot {doing} {path}: {source}; check the rights of the data folder")]
    File {
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(
        "{path} may be read by others (mode {mode:o}); run `chmod 600` on it, or remove it and let \
         the server make a new pair"
    )]
    Exposed { path: PathBuf, mode: u32 },
    #[error("{path}: {source}")]
    Key { path: PathBuf, source: PatchError },
}

/// The key pair of a server.
pub struct Signing {
    pub secret: SecretKey,
    /// The text of `signing.pub`.
    pub public: String,
}

/// Reads the key of a data folder, or makes one.
pub fn load_or_make(data: &Path) -> Result<Signing, KeyError> {
    let path = data.join("signing.key");
    let bad = |source| KeyError::Key {
        path: path.clone(),
        source,
    };
    let file = |doing| {
        let path = path.clone();
        move |source| KeyError::File {
            doing,
            path,
            source,
        }
    };
    let secret = match fs::read_to_string(&path) {
        Ok(text) => {
            let metadata = fs::metadata(&path).map_err(file("examine"))?;
            let mode = metadata.permissions().mode() & 0o777;
            if mode & 0o077 != 0 {
                return Err(KeyError::Exposed { path, mode });
            }
            SecretKey::from_text(&text).map_err(bad)?
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let secret = SecretKey::generate().map_err(bad)?;
            let text = secret.to_text().map_err(bad)?;
            write_private(&path, text.as_bytes()).map_err(file("write"))?;
            secret
        }
        Err(error) => return Err(file("read")(error)),
    };
    let public = secret.public_key_text().map_err(bad)?;
    let place = data.join("signing.pub");
    write_private(&place, public.as_bytes()).map_err(|source| KeyError::File {
        doing: "write",
        path: place,
        source,
    })?;
    Ok(Signing { secret, public })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_made_once_and_private() {
        let data = tempfile::tempdir().unwrap();
        let first = load_or_make(data.path()).unwrap();
        let again = load_or_make(data.path()).unwrap();
        assert_eq!(first.public, again.public);
        let on_disk = fs::read_to_string(data.path().join("signing.pub")).unwrap();
        assert_eq!(on_disk, first.public);
        for name in ["signing.key", "signing.pub"] {
            let file = fs::metadata(data.path().join(name)).unwrap();
            assert_eq!(file.permissions().mode() & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let data = tempfile::tempdir().unwrap();
        load_or_make(data.path()).unwrap();
        let path = data.path().join("signing.key");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let refusal = load_or_make(data.path()).err().unwrap().to_string();
        assert!(refusal.contains("chmod 600"), "{refusal}");
    }

    #[test]
    fn a_damaged_key_is_refused_and_kept() {
        let data = tempfile::tempdir().unwrap();
        load_or_make(data.path()).unwrap();
        let path = data.path().join("signing.key");
        fs::write(&path, "untrusted comment: nothing\nAAAA\n").unwrap();
        assert!(matches!(
            load_or_make(data.path()),
            Err(KeyError::Key { .. })
        ));
        assert!(fs::read_to_string(&path).unwrap().contains("AAAA"));
    }
}

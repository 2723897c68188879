//! The secret by which values are disguised at `privacy = "shapes"`: one file, which a
//! fleet may share.
//!
//! Where there is none, the agent makes one, for its user alone: values then leave
//! disguised from the first run on, and can be compared among the runs of this machine.
//! To compare those of several machines, the operator puts one file on all of them.
//! Whether two machines have the same one is told by a fingerprint, which travels with
//! every record; the secret itself never leaves the machine.
//!
//! A secret that somebody else chose disguises nothing. So the file in the cache is believed
//! only if the cache is this user's own or root's; a file that the operator names is the
//! operator's to judge.
//!
//! Where a daemon serves the machine, the file is the daemon's, and runs get it over its
//! socket: users that may not read the file still disguise values alike.

use crate::policy::file::Config;
use crate::preload::default_cache;
use crate::process::sys;
use private_files::{make_private_folder, write_private_once};
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Fewer bytes could be guessed.
const LEAST: usize = 16;
/// What is made: so many random words.
const WORDS: usize = 4;
/// The file's name in the cache.
const FILE_NAME: &str = "privacy-secret";

/// Where the secret is: named by the operator, or in the cache.
pub fn path(config: &Config, cache: &Path) -> PathBuf {
    let named = config.privacy_secret.clone();
    named.unwrap_or_else(|| cache.join(FILE_NAME))
}

/// The cache of a configuration.
pub fn cache(config: &Config) -> PathBuf {
    config.cache.clone().unwrap_or_else(default_cache)
}

/// The machine's secret, which is made if there is none.
pub fn read_or_make(config: &Config, cache: &Path) -> Result<Vec<u8>, String> {
    let path = path(config, cache);
    if config.privacy_secret.is_none() {
        // Before it is looked at: nobody else can make a folder that is there.
        make_private_folder(cache).map_err(|error| cannot_make(&path, &error))?;
    }
    match read(config, cache)? {
        Some(secret) => Ok(secret),
        None => make(&path),
    }
}

/// The machine's secret; `None` if there is none yet.
pub fn read(config: &Config, cache: &Path) -> Result<Option<Vec<u8>>, String> {
    if config.privacy_secret.is_none()
        && let Some(owner) = foreign_owner(cache)
    {
        return Err(format!(
            "the privacy secret in {} is not used, because that folder belongs to another user \
             (number {owner}), who may know it; name a file with privacy_secret, or give another \
             --cache",
            cache.display()
        ));
    }
    read_file(&path(config, cache))
}

/// The other user who decides what lies in a folder, if there is one: who owns it, or the
/// link that stands for it. Root is no other user.
pub fn foreign_owner(folder: &Path) -> Option<u32> {
    let looks = [fs::symlink_metadata(folder), fs::metadata(folder)];
    let owners = looks.iter().flatten().map(MetadataExt::uid);
    let own = sys::user_id();
    owners.into_iter().find(|owner| ![own, 0].contains(owner))
}

/// The secret in a file; `None` if there is no file, or an empty one: a crash of the machine
/// leaves such a file.
fn read_file(path: &Path) -> Result<Option<Vec<u8>>, String> {
    match fs::read(path) {
        Ok(secret) if secret.is_empty() => Ok(None),
        Ok(secret) => checked(secret)
            .map(Some)
            .map_err(|why| format!("{why} in {}", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cannot read {}: {error}", path.display())),
    }
}

/// A secret that is long enough.
pub fn checked(secret: Vec<u8>) -> Result<Vec<u8>, String> {
    match secret.len() {
        0..LEAST => Err(format!("the privacy secret is shorter than {LEAST} bytes")),
        _ => Ok(secret),
    }
}

fn cannot_make(path: &Path, error: &io::Error) -> String {
    format!(
        "cannot make the privacy secret {}: {error}; name a file with privacy_secret",
        path.display()
    )
}

/// Two agents that start at once end up with the same one: the first that is there.
fn make(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: io::Error| cannot_make(path, &error);
    let mut secret = String::new();
    for _ in 0..WORDS {
        secret += &format!("{:016x}", sys::random_u64().map_err(failed)?);
    }
    secret.push('\n');
    write_private_once(path, secret.as_bytes()).map_err(failed)?;
    read_file(path)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))
}

/// Tells secrets apart and nothing else of them.
pub fn fingerprint(secret: &[u8]) -> String {
    let mut input = b"failsketch privacy secret ".to_vec();
    input.extend_from_slice(secret);
    code_patch::sha256_hex(&input)[..8].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        os::unix::fs::{PermissionsExt, chown, symlink},
        thread,
    };

    fn named(path: &Path) -> Config {
        Config {
            privacy_secret: Some(path.to_owned()),
            ..Config::default()
        }
    }

    /// In a cache, as where nobody names a file.
    fn in_cache(cache: &Path) -> Result<Vec<u8>, String> {
        super::read_or_make(&Config::default(), cache)
    }

    fn read_or_make(path: &Path) -> Result<Vec<u8>, String> {
        super::read_or_make(&named(path), Path::new("/nowhere"))
    }

    #[test]
    fn a_secret_in_a_cache_that_another_user_owns_is_not_believed() {
        let folder = tempfile::tempdir().expect("a folder");
        let cache = folder.path().join("cache");
        let own = in_cache(&cache).expect("is made");
        assert_eq!(in_cache(&cache), Ok(own.clone()));
        let link = folder.path().join("link");
        symlink(&cache, &link).expect("made");
        assert_eq!(in_cache(&link), Ok(own.clone()), "a link of one's own");
        // Only root gives folders away; whoever else runs this test has none of another's.
        if sys::user_id() != 0 {
            assert_eq!(foreign_owner(Path::new("/")), None);
            return;
        }
        chown(&cache, Some(61917), None).expect("root may");
        for cache in [&cache, &link] {
            let refused = in_cache(cache).expect_err("another user's");
            let words = format!(
                "the privacy secret in {} is not used, because that folder belongs to another \
                 user (number 61917), who may know it;",
                cache.display()
            );
            assert!(refused.starts_with(&words), "{refused}");
        }
        // What the operator names is believed.
        assert_eq!(read_or_make(&cache.join(FILE_NAME)), Ok(own));
        // Nor is a link that another user can turn elsewhere.
        chown(&cache, Some(0), None).expect("root may");
        std::os::unix::fs::lchown(&link, Some(61917), None).expect("root may");
        assert!(in_cache(&link).is_err());
        assert!(in_cache(&cache).is_ok());
    }

    #[test]
    fn a_secret_is_made_once_for_its_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("new/privacy-secret");
        let made: Vec<Vec<u8>> = thread::scope(|scope| {
            let start = || scope.spawn(|| read_or_make(&file).expect("is made"));
            let threads: Vec<_> = (0..8).map(|_| start()).collect();
            let joined = threads.into_iter().map(|t| t.join().expect("no panic"));
            joined.collect()
        });
        assert!(made.iter().all(|secret| *secret == made[0]), "one for all");
        assert_eq!(made[0].len(), 16 * WORDS + 1);
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(&file), 0o600);
        let parent = file.parent().expect("has one");
        assert_eq!(mode(parent), 0o700);
        let left = fs::read_dir(parent).expect("readable").count();
        assert_eq!(left, 1, "nothing else stays");
        let other = read_or_make(&folder.path().join("other")).expect("is made");
        assert_ne!(made[0], other);
        assert_ne!(fingerprint(&made[0]), fingerprint(&other));
        assert_eq!(fingerprint(&other).len(), 8);
    }

    #[test]
    fn what_is_too_short_or_cannot_be_read_is_refused_and_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("short");
        fs::write(&file, "too short").expect("written");
        let refused = read_or_make(&file).expect_err("is short");
        assert!(refused.contains("shorter than 16 bytes in "), "{refused}");
        assert_eq!(fs::read(&file).expect("there"), b"too short");
        let emptied = folder.path().join("emptied");
        fs::write(&emptied, "").expect("written");
        let made = read_or_make(&emptied).expect("is made anew");
        assert_eq!(read_file(&emptied).expect("is there"), Some(made));
        let refused = read_or_make(folder.path()).expect_err("is a folder");
        assert!(refused.starts_with("cannot read "), "{refused}");
        let beneath = read_or_make(&file.join("secret")).expect_err("no folder");
        assert!(beneath.contains("short/secret"), "{beneath}");
    }
}

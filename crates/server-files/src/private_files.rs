//! Files and folders that only the server's own user can open.
//!
//! Records hold values from a program's memory, blobs hold its code, and two files
//! hold secrets, so every file that the server makes has mode 0600 and every folder
//! 0700. The mode is set after the file is made and not only when it is: a umask can
//! take bits away from the mode that a system call asks for, ours included.
//!
//! Absent: access control lists and other file systems' rights. Whoever sets those
//! up means them.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const FILE: u32 = 0o600;
const FOLDER: u32 = 0o700;
/// What group and others must not have.
const OTHERS: u32 = 0o077;

/// Writes a file that nobody else can open. Written beside its place, synced and
/// renamed: whatever happens, the file is the old one or the new one, whole.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = folder_of(path);
    let mut beside = tempfile::Builder::new()
        .prefix(".new-")
        .permissions(Permissions::from_mode(FILE))
        .tempfile_in(folder)?;
    let file = beside.as_file_mut();
    file.set_permissions(Permissions::from_mode(FILE))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    beside.persist(path).map_err(|refused| refused.error)?;
    // The new name is on the disk only when its folder is.
    File::open(folder)?.sync_all()
}

/// Makes an empty private file where there is none. An existing file is not even
/// opened: closing it would end the locks that SQLite holds on it in this process.
pub fn make_private_file(path: &Path) -> io::Result<()> {
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(FILE)
        .open(path);
    match made {
        Ok(file) => file.set_permissions(Permissions::from_mode(FILE)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// A private file to lock, made where it is missing.
pub fn open_lock_file(path: &Path) -> io::Result<File> {
    make_private_file(path)?;
    OpenOptions::new().write(true).open(path)
}

/// Makes a private folder, and those above it that are missing. An existing folder
/// stays as it is: [`tighten`] is for those that are the server's own.
pub fn make_private_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let above = folder_of(path);
    if above != path {
        make_private_folder(above)?;
    }
    match DirBuilder::new().mode(FOLDER).create(path) {
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(FOLDER)),
        // Somebody else made it meanwhile.
        Err(_) if path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Takes from others what they may do with a file or folder. Returns whether there
/// was anything to take. What is not there, and what a link only points to, is
/// left alone.
pub fn tighten(path: &Path) -> io::Result<bool> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let mode = metadata.permissions().mode();
    if metadata.is_symlink() || mode & OTHERS == 0 {
        return Ok(false);
    }
    let kept = mode & 0o7777 & !OTHERS;
    fs::set_permissions(path, Permissions::from_mode(kept))?;
    Ok(true)
}

/// The same for a folder and all files in it, for a folder that is wholly the
/// server's. Returns how many were changed.
pub fn tighten_folder(folder: &Path) -> io::Result<usize> {
    let mut changed = usize::from(tighten(folder)?);
    let inside = match fs::read_dir(folder) {
        Ok(inside) => inside,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(changed),
        Err(error) => return Err(error),
    };
    for entry in inside {
        changed += usize::from(tighten(&entry?.path())?);
    }
    Ok(changed)
}

/// Tightens a data folder that an earlier release, or somebody's umask, left open.
/// `names` are the files that the server makes in it; returns those that were open,
/// the folder included.
pub fn tighten_data(data: &Path, names: &[&str]) -> io::Result<Vec<PathBuf>> {
    // A link to the folder is followed: it is the folder that holds the data.
    let data = fs::canonicalize(data)?;
    let all = std::iter::once(data.clone()).chain(names.iter().map(|name| data.join(name)));
    let mut changed = Vec::new();
    for path in all {
        if tighten(&path)? {
            changed.push(path);
        }
    }
    Ok(changed)
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(above) if above.as_os_str().is_empty() => Path::new("."),
        Some(above) => above,
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn open_to_all(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_is_written_is_private_and_whole_and_leaves_nothing_beside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        write_private(&path, b"first").unwrap();
        open_to_all(&path, 0o644);
        write_private(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(mode(&path), 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        // What cannot be put in its place leaves nothing either.
        fs::create_dir_all(folder.path().join("taken/inside")).unwrap();
        assert!(write_private(&folder.path().join("taken"), b"x").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn folders_are_private_down_from_the_first_that_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        open_to_all(folder.path(), 0o755);
        let deep = folder.path().join("a/b");
        make_private_folder(&deep).unwrap();
        make_private_folder(&deep).unwrap();
        assert_eq!(
            (mode(&deep), mode(&folder.path().join("a"))),
            (0o700, 0o700)
        );
        assert_eq!(mode(folder.path()), 0o755, "it was there before");
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(make_private_folder(&folder.path().join("file/below")).is_err());
    }

    #[test]
    fn an_existing_file_keeps_its_contents() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("database");
        make_private_file(&path).unwrap();
        assert_eq!(mode(&path), 0o600);
        fs::write(&path, "pages").unwrap();
        make_private_file(&path).unwrap();
        drop(open_lock_file(&path).unwrap());
        assert_eq!(fs::read(&path).unwrap(), b"pages");
    }

    #[test]
    fn tightening_names_what_was_open_and_touches_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        fs::create_dir(&data).unwrap();
        for name in ["ours", "closed", "theirs"] {
            fs::write(data.join(name), name).unwrap();
            open_to_all(&data.join(name), 0o644);
        }
        open_to_all(&data.join("closed"), 0o400);
        open_to_all(&data, 0o775);
        let outside = folder.path().join("outside");
        fs::write(&outside, "").unwrap();
        open_to_all(&outside, 0o644);
        std::os::unix::fs::symlink(&outside, data.join("link")).unwrap();
        let names = ["ours", "closed", "link", "missing"];
        let changed = tighten_data(&data, &names).unwrap();
        let data = fs::canonicalize(&data).unwrap();
        assert_eq!(changed, [data.clone(), data.join("ours")]);
        assert_eq!((mode(&data), mode(&data.join("ours"))), (0o700, 0o600));
        assert_eq!(mode(&data.join("closed")), 0o400);
        assert_eq!(mode(&data.join("theirs")), 0o644);
        assert_eq!(mode(&outside), 0o644);
        assert_eq!(tighten_data(&data, &names).unwrap(), [] as [PathBuf; 0]);
        assert_eq!(tighten_folder(&data).unwrap(), 1, "theirs");
        assert_eq!(tighten_folder(&folder.path().join("none")).unwrap(), 0);
    }
}

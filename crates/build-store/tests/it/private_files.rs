//! Files that only their owner can open: modes, wholeness, and what a crash leaves.

use private_files::{
    make_private_file, make_private_folder, open_lock_file, tighten_data, tighten_folder,
    write_private, write_private_once, write_private_unsynced,
};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

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
    write_private_unsynced(&path, b"third").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"third");
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

#[test]
fn the_first_that_writes_wins_and_an_empty_file_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/secret");
    for left_by_a_crash in [false, true] {
        if left_by_a_crash {
            fs::write(&path, "").unwrap();
            open_to_all(&path, 0o644);
        }
        let found: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let write = |number: u8| {
                write_private_once(&path, &[number; 8]).unwrap();
                fs::read(&path).unwrap()
            };
            let threads: Vec<_> = (0..8).map(|n| scope.spawn(move || write(n))).collect();
            let joined = threads.into_iter().map(|thread| thread.join().unwrap());
            joined.collect()
        });
        assert!(found.iter().all(|it| *it == found[0] && it.len() == 8));
        assert_eq!(mode(&path), 0o600);
    }
    write_private_once(&path, b"another").unwrap();
    assert_ne!(fs::read(&path).unwrap(), b"another");
    let inside = path.parent().unwrap();
    assert_eq!(mode(inside), 0o700);
    assert_eq!(fs::read_dir(inside).unwrap().count(), 1, "nothing beside");
}

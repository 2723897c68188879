//! Which source files are the program's own; the one place that decides it.
//!
//! Debug info names files by paths, and whoever made the binary chose them. A file
//! is the program's own if it lies below the build's root and was not found by
//! `-isystem`; anything else is a library's, or none of our business. Only own files
//! are read, and only if they are regular files of text of a reasonable size, whatever
//! links lead to them.
//!
//! The root is what `--root` says. Without it, it is the folder that all compile
//! folders and main sources have in common (or each of the two, if they have nothing in
//! common), and that is the file's own word. So it counts only where it holds the binary
//! itself or the folder that the command is run in: nobody registers a stranger's file
//! from the folder that holds their private keys.

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

/// Bytes of one source file; the largest that we know, SQLite's, has nine million.
const MOST_BYTES: u64 = 32 << 20;

/// Folders that no build owns as a whole, and all below the second list.
const SHARED: &[&str] = &[
    "/",
    "/home",
    "/media",
    "/mnt",
    "/opt",
    "/root",
    "/srv",
    "/tmp",
    "/usr/local",
    "/var",
    "/var/tmp",
];
const SYSTEM: &[&str] = &[
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys",
    "/usr",
];
const SYSTEM_BUT: &[&str] = &["/usr/src", "/usr/local"];

/// Why the text of a file is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    Library,
    Outside,
    Missing,
    NotRegular,
    TooLarge,
    NotText,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LeftOut::Library => "a library's, found by -isystem",
            LeftOut::Outside => "not below the build's root; name its folder with --also",
            LeftOut::Missing => "not there or not readable",
            LeftOut::NotRegular => "not a regular file",
            LeftOut::TooLarge => "larger than 32 MiB",
            LeftOut::NotText => "not text",
        })
    }
}

/// The folders of a program's own files.
#[derive(Clone, Debug, Default)]
pub struct OwnFiles {
    roots: Vec<PathBuf>,
    /// What `-isystem` and the compiler itself name.
    library_folders: HashSet<PathBuf>,
    /// Main sources are the program's own, wherever headers are looked for.
    main_sources: HashSet<PathBuf>,
}

/// What the file to be registered says of itself.
#[derive(Debug, Default)]
pub struct Claims {
    pub compile_folders: Vec<PathBuf>,
    pub main_sources: Vec<PathBuf>,
    pub library_folders: Vec<PathBuf>,
}

/// The folders that the user names at registration.
#[derive(Clone, Debug, Default)]
pub struct Roots {
    pub root: Option<PathBuf>,
    pub also: Vec<PathBuf>,
}

impl OwnFiles {
    pub fn new(claims: &Claims, given: &Roots, binary: &Path) -> Self {
        let roots = match &given.root {
            Some(root) => std::fs::canonicalize(root).into_iter().collect(),
            None => claimed_roots(claims, binary),
        };
        let also = given.also.iter();
        let also = also.filter_map(|folder| std::fs::canonicalize(folder).ok());
        let real = |path: &PathBuf| std::fs::canonicalize(path).ok();
        OwnFiles {
            roots: roots.into_iter().chain(also).collect(),
            library_folders: claims.library_folders.iter().filter_map(real).collect(),
            main_sources: claims.main_sources.iter().filter_map(real).collect(),
        }
    }

    /// Where the file at `place` really is, if it is the program's own.
    pub fn find(&self, place: &Path) -> Result<PathBuf, LeftOut> {
        let real = std::fs::canonicalize(place).map_err(|_| {
            let mut above = place.ancestors().skip(1);
            let nearest = above.find_map(|it| std::fs::canonicalize(it).ok());
            match nearest.is_some_and(|folder| self.is_below_a_root(&folder)) {
                true => LeftOut::Missing,
                false => LeftOut::Outside,
            }
        })?;
        if !self.main_sources.contains(&real)
            && real.ancestors().any(|it| self.library_folders.contains(it))
        {
            return Err(LeftOut::Library);
        }
        match self.is_below_a_root(&real) {
            true => Ok(real),
            false => Err(LeftOut::Outside),
        }
    }

    fn is_below_a_root(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }

    /// The text of the file at `place`, if it is the program's own.
    pub fn read(&self, place: &Path) -> Result<Vec<u8>, LeftOut> {
        let bytes = read_regular(&self.find(place)?, MOST_BYTES)?;
        match bytes.contains(&0) {
            true => Err(LeftOut::NotText),
            false => Ok(bytes),
        }
    }
}

/// Opens a regular file. Nothing else is waited for or followed.
pub fn open_regular(path: &Path) -> Result<File, LeftOut> {
    // A FIFO would otherwise be waited for.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let opened = File::options().read(true).custom_flags(flags).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP | libc::ENXIO) => LeftOut::NotRegular,
        _ => LeftOut::Missing,
    })?;
    let about = file.metadata().map_err(|_| LeftOut::Missing)?;
    if !about.is_file() {
        return Err(LeftOut::NotRegular);
    }
    Ok(file)
}

/// Reads a regular file of at most `most` bytes.
pub fn read_regular(path: &Path, most: u64) -> Result<Vec<u8>, LeftOut> {
    let mut file = open_regular(path)?.take(most + 1);
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(|_| LeftOut::Missing)?;
    match bytes.len() as u64 > most {
        true => Err(LeftOut::TooLarge),
        false => Ok(bytes),
    }
}

/// The folders that the file claims as its roots, where that can be believed: what compile
/// folders and main sources have in common, or what each of the two have.
fn claimed_roots(claims: &Claims, binary: &Path) -> Vec<PathBuf> {
    let places: Vec<PathBuf> = [
        std::fs::canonicalize(binary).ok(),
        std::env::current_dir().ok(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let is_believed = |root: &PathBuf| {
        let own = !SHARED.iter().any(|it| root == Path::new(it))
            && (!SYSTEM.iter().any(|it| root.starts_with(it))
                || SYSTEM_BUT.iter().any(|it| root.starts_with(it)))
            && !home.as_ref().is_some_and(|home| home.starts_with(root));
        own && places.iter().any(|place| place.starts_with(root))
    };
    let folders = || claims.compile_folders.iter().map(PathBuf::as_path);
    let sources = || claims.main_sources.iter().filter_map(|path| path.parent());
    let believed = |claimed: Option<PathBuf>| {
        let real = std::fs::canonicalize(claimed?).ok()?;
        is_believed(&real).then_some(real)
    };
    match believed(common(folders().chain(sources()))) {
        Some(root) => vec![root],
        None => [common(folders()), common(sources())]
            .into_iter()
            .filter_map(believed)
            .collect(),
    }
}

/// The longest path that all of `paths` begin with.
fn common<'p>(paths: impl Iterator<Item = &'p Path>) -> Option<PathBuf> {
    paths
        .map(|path| path.components().collect::<Vec<Component<'_>>>())
        .reduce(|left, right| {
            let pairs = left.iter().zip(&right);
            let length = pairs.take_while(|(one, other)| one == other).count();
            left[..length].to_vec()
        })
        .map(|components| components.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    struct Build {
        folder: tempfile::TempDir,
    }

    impl Build {
        fn new() -> Build {
            let folder = tempfile::tempdir().unwrap();
            for name in ["build/src", "build/vendor", "elsewhere"] {
                std::fs::create_dir_all(folder.path().join(name)).unwrap();
            }
            for name in [
                "build/program",
                "build/src/a.c",
                "build/vendor/v.h",
                "elsewhere/key",
            ] {
                std::fs::write(folder.path().join(name), "text\n").unwrap();
            }
            Build { folder }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn own(&self, given: &Roots) -> OwnFiles {
            let claims = Claims {
                compile_folders: vec![self.path("build")],
                main_sources: vec![self.path("build/src/a.c")],
                library_folders: vec![self.path("build/vendor")],
            };
            OwnFiles::new(&claims, given, &self.path("build/program"))
        }
    }

    #[test]
    fn only_files_below_the_root_that_are_no_librarys_are_read() {
        let build = Build::new();
        let own = build.own(&Roots::default());
        assert_eq!(
            own.read(&build.path("build/src/a.c")),
            Ok(b"text\n".to_vec())
        );
        let left_out = |name: &str| own.read(&build.path(name)).unwrap_err();
        assert_eq!(left_out("build/vendor/v.h"), LeftOut::Library);
        assert_eq!(left_out("elsewhere/key"), LeftOut::Outside);
        assert_eq!(left_out("build/src/../../elsewhere/key"), LeftOut::Outside);
        assert_eq!(left_out("build/src/gone.c"), LeftOut::Missing);
        assert_eq!(own.read(Path::new("/etc/passwd")), Err(LeftOut::Outside));
        let also = build.own(&Roots {
            root: None,
            also: vec![build.path("elsewhere")],
        });
        assert!(also.read(&build.path("elsewhere/key")).is_ok());
    }

    #[test]
    fn links_out_fifos_devices_and_binaries_are_left_out() {
        let build = Build::new();
        let own = build.own(&Roots::default());
        symlink(build.path("elsewhere/key"), build.path("build/link.c")).unwrap();
        symlink(build.path("elsewhere"), build.path("build/folder")).unwrap();
        symlink("/dev/zero", build.path("build/zero.c")).unwrap();
        symlink(build.path("build/src/a.c"), build.path("build/same.c")).unwrap();
        let name = std::ffi::CString::new(build.path("build/fifo.c").to_str().unwrap()).unwrap();
        // SAFETY: the name ends in NUL.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        std::fs::write(build.path("build/binary.c"), b"a\0b").unwrap();
        let large = File::create(build.path("build/large.c")).unwrap();
        large.set_len(MOST_BYTES + 1).unwrap();
        for (name, expected) in [
            ("build/link.c", LeftOut::Outside),
            ("build/folder/key", LeftOut::Outside),
            ("build/zero.c", LeftOut::Outside),
            ("build/fifo.c", LeftOut::NotRegular),
            ("build/src", LeftOut::NotRegular),
            ("build/binary.c", LeftOut::NotText),
            ("build/large.c", LeftOut::TooLarge),
        ] {
            assert_eq!(own.read(&build.path(name)), Err(expected), "{name}");
        }
        assert!(
            own.read(&build.path("build/same.c")).is_ok(),
            "a link inside"
        );
    }

    #[test]
    fn a_root_that_the_file_claims_is_believed_only_around_the_binary() {
        let build = Build::new();
        let claim = |folder: &Path| {
            let claims = Claims {
                compile_folders: vec![folder.to_path_buf()],
                ..Claims::default()
            };
            OwnFiles::new(&claims, &Roots::default(), &build.path("build/program")).roots
        };
        let real = std::fs::canonicalize(build.path("build")).unwrap();
        assert_eq!(claim(&build.path("build")), [real]);
        for folder in ["/", "/etc", "/tmp", "/usr", "/home", "/root"] {
            assert_eq!(claim(Path::new(folder)), [] as [PathBuf; 0], "{folder}");
        }
        assert_eq!(claim(&build.path("elsewhere")), [] as [PathBuf; 0]);
    }
}

//! The runtime as a file, for LD_PRELOAD: written once into the cache under a
//! name made of its content, and compared with that content before every use.

use crate::{error::AgentError, process::sys};
use private_files::{make_private_folder, write_private_unsynced};
use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Where agents of this user keep files when nobody says otherwise.
pub fn default_cache() -> PathBuf {
    let folder = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    folder("XDG_CACHE_HOME")
        .or_else(|| folder("HOME").map(|home| home.join(".cache")))
        .map_or_else(
            || std::env::temp_dir().join(format!("failsketch-{}", sys::user_id())),
            |cache| cache.join("failsketch"),
        )
}

/// Makes the cache folder for this user alone; refuses one that somebody else
/// owns, because what lies in it gets executed.
pub fn prepare_cache(cache: &Path) -> Result<(), AgentError> {
    let failed = |action, reason| AgentError::File {
        action,
        path: cache.to_path_buf(),
        reason,
    };
    make_private_folder(cache).map_err(|e| failed("create the folder", e))?;
    let about = fs::metadata(cache).map_err(|e| failed("inspect the folder", e))?;
    if about.uid() != sys::user_id() {
        return Err(failed(
            "use the folder",
            io::Error::other("it belongs to another user; give --cache"),
        ));
    }
    Ok(())
}

/// The path of the preloadable runtime.
pub fn preload_file(cache: &Path) -> Result<PathBuf, AgentError> {
    let name = format!(
        "runtime-{}.so",
        &code_patch::sha256_hex(runtime::PRELOAD)[..32]
    );
    let path = cache.join(name);
    if fs::read(&path).is_ok_and(|bytes| bytes == runtime::PRELOAD) {
        return Ok(path);
    }
    let written = write_private_unsynced(&path, runtime::PRELOAD);
    written.map_err(|reason| AgentError::File {
        action: "write",
        path: path.clone(),
        reason,
    })?;
    Ok(path)
}

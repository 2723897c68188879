//! A value that runs side by side on this machine share: a small file in the cache,
//! changed under a lock.
//!
//! A file that cannot be read or written begins anew each time, and no run fails for
//! it.

use private_files::{create_private, write_private_unsynced};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    fs,
    marker::PhantomData,
    path::{Path, PathBuf},
};

#[derive(Clone, Debug)]
pub struct Kept<T> {
    file: PathBuf,
    of: PhantomData<T>,
}

impl<T: Default + Serialize + DeserializeOwned> Kept<T> {
    /// In `file`, whose extension says what it is.
    pub fn in_file(file: PathBuf) -> Kept<T> {
        Kept {
            file,
            of: PhantomData,
        }
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Every change counts, whoever makes one at the same time.
    pub fn change<A>(&self, change: impl FnOnce(&mut T) -> A) -> A {
        let kind = self.file.extension().unwrap_or_default().to_string_lossy();
        let lock = create_private(&self.file.with_extension(format!("{kind}-lock")));
        let _held = lock.and_then(|file| file.lock().map(|()| file));
        let bytes = fs::read(&self.file).unwrap_or_default();
        let mut value: T = serde_json::from_slice(&bytes).unwrap_or_default();
        let answer = change(&mut value);
        if let Ok(now) = serde_json::to_vec(&value)
            && now != bytes
        {
            let _ = write_private_unsynced(&self.file, &now);
        }
        answer
    }
}

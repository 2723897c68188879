//! The folders that demo, evaluation and benchmark write into, emptied first.
//!
//! Only a folder that is empty or carries our mark is ever emptied: `--folder`
//! is typed by people.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

const MARK: &str = ".failsketch-bugbase";

/// Makes `folder` an empty one of ours and returns its absolute path.
pub fn emptied(folder: &Path) -> Result<PathBuf> {
    let shown = folder.display();
    if folder.exists() {
        let ours = folder.join(MARK).is_file();
        let mut entries = fs::read_dir(folder).with_context(|| format!("reading {shown}"))?;
        if !ours && entries.next().is_some() {
            bail!("{shown} holds something that is not ours; name another --folder");
        }
        fs::remove_dir_all(folder).with_context(|| format!("emptying {shown}"))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("creating {shown}"))?;
    fs::write(folder.join(MARK), "")?;
    folder
        .canonicalize()
        .with_context(|| format!("finding {shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_folders_are_emptied() {
        let root = std::env::temp_dir().join(format!("bugbase-folder-{}", std::process::id()));
        let folder = emptied(&root).unwrap();
        fs::write(folder.join("earlier"), "").unwrap();
        emptied(&root).unwrap();
        assert!(!folder.join("earlier").exists());

        fs::remove_file(folder.join(MARK)).unwrap();
        fs::create_dir(folder.join("server")).unwrap();
        fs::write(folder.join("precious"), "").unwrap();
        let refusal = emptied(&root).unwrap_err().to_string();
        assert!(refusal.contains("not ours"), "{refusal}");
        assert!(folder.join("precious").exists());
        fs::remove_dir_all(&root).unwrap();
    }
}

//! The file that contains the secret of a cluster.
#![expect(clippy::disallowed_methods, reason = "a small file, made before any job")]

use crate::config::{Secret, read_secret, refused};
use crate::error::{Error, ErrorKind, Result};
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The longest file that is taken for a secret.
const LONGEST: u64 = 4096;

/// The secret of a start of several hosts: that of a file, with what distinguishes the start from others that have
/// the same file. So hosts of different starts that meet by mistake, at a port that both use, do not connect.
pub(super) fn secret(
    file: Option<&Path>,
    home: Option<&Path>,
    run: Option<&str>,
) -> Result<Secret> {
    let mut text = match (file, home) {
        (Some(path), home) => read(&below_home(path, home))?,
        (None, Some(home)) => usual(&home.join(".thalweg"))?,
        (None, None) => {
            let what = "the secret of the hosts is in no file: set `--secret-file` or \
                        `THALWEG_SECRET_FILE`, or `HOME`, for ~/.thalweg/secret";
            return Err(Error::new(ErrorKind::Config, what));
        }
    };
    if let Some(run) = run {
        text.push(b'\n');
        text.extend(run.as_bytes());
    }
    Ok(Secret::new(text))
}

/// A path that may begin with `~/`.
pub(super) fn below_home(path: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

/// The contents of a file that only its owner may read or change, without white space at its end.
fn read(path: &Path) -> Result<Vec<u8>> {
    let mut text = read_secret(path, "the secret of the hosts", LONGEST)?;
    text.truncate(text.trim_ascii_end().len());
    if text.len() < Secret::LEAST {
        let what = format!(
            "a secret needs at least {} bytes, and this file has {}",
            Secret::LEAST,
            text.len()
        );
        return Err(refused(path, what));
    }
    Ok(text)
}

/// The secret of a user: made by the first process that needs it. All processes agree on one, also if several make it
/// at once on different machines that share the folder.
fn usual(folder: &Path) -> Result<Vec<u8>> {
    let path = folder.join("secret");
    if path.try_exists().is_ok_and(|exists| !exists) {
        make(folder, &path)
            .map_err(|cause| refused(&path, "cannot make a secret").caused_by(cause))?;
    }
    read(&path)
}

fn make(folder: &Path, path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut random = [0; 40];
    getrandom::fill(&mut random).map_err(|cause| io::Error::other(cause.to_string()))?;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (name, secret) = random.split_at(8);
    let draft = folder.join(format!("secret-{}", hex(name)));
    let linked = write(&draft, &hex(secret)).and_then(|()| std::fs::hard_link(&draft, path));
    // If it cannot be removed it stays beside the secret, which only this user may read either.
    let _ = std::fs::remove_file(&draft);
    match linked {
        // Another process was faster, and its secret counts.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::os::unix::fs::PermissionsExt as _;

    fn message(path: &Path) -> String {
        let error = read(path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        error.to_string()
    }

    fn chmod(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_secret_is_read_if_others_cannot() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        assert!(message(&path).contains("cannot read the secret of the hosts"));
        write(&path, "0123456789abcdef\n").unwrap();
        assert_eq!(read(&path).unwrap(), b"0123456789abcdef");
        chmod(&path, 0o440);
        read(&path).unwrap();
        for mode in [0o604, 0o620, 0o602] {
            chmod(&path, mode);
            assert!(message(&path).contains(&format!("the mode {mode:03o}, and")));
        }
    }

    #[test]
    fn lengths_are_limited() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        write(&path, "short").unwrap();
        assert!(message(&path).contains("at least 16 bytes, and this file has 5"));
        std::fs::remove_file(&path).unwrap();
        write(&path, &"x".repeat(5000)).unwrap();
        assert!(message(&path).contains("at most 4096 bytes"));
    }

    #[test]
    fn processes_that_make_the_usual_secret_at_once_agree() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".thalweg");
        let secrets: BTreeSet<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| usual(&folder).unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(secrets.len(), 1);
        assert_eq!(secrets.first().unwrap().len(), 64);
        let mode = std::fs::metadata(folder.join("secret")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn paths_may_begin_at_the_home() {
        let home = Path::new("/home/me");
        assert_eq!(below_home(Path::new("~/s"), Some(home)), Path::new("/home/me/s"));
        assert_eq!(below_home(Path::new("/s"), Some(home)), Path::new("/s"));
        assert_eq!(below_home(Path::new("~me/s"), Some(home)), Path::new("~me/s"));
        assert!(secret(None, None, None).is_err());
    }

    #[test]
    fn starts_with_one_file_have_different_secrets() {
        let home = tempfile::tempdir().unwrap();
        let of = |run| secret(None, Some(home.path()), run).unwrap().bytes().to_vec();
        assert_eq!(of(Some("1.0")), of(Some("1.0")));
        assert_ne!(of(Some("1.0")), of(Some("1.1")));
    }
}

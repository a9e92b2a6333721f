//! Expands the inputs that a user names into a sorted list of files.

use std::collections::HashSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use super::decode::Compression;
use crate::data::Data;
use crate::{Error, ErrorKind, Place, Result};

/// A regular file to be read, as it was when the inputs were listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputFile {
    /// Its path, spelled as it was found.
    pub path: PathBuf,
    /// Its size in bytes, compressed if the file is compressed.
    pub bytes: u64,
    /// Its compression, according to the end of its name.
    pub compression: Compression,
}

/// Tells apart the contents of a file at different times, as far as the file system does: its size, and when it was last
/// written, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Data)]
pub(crate) struct FileVersion {
    bytes: u64,
    written: u64,
}

impl FileVersion {
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn of(file: &InputFile) -> Result<Self> {
        let modified = std::fs::metadata(&file.path).and_then(|found| found.modified());
        let modified =
            modified.map_err(|cause| Error::io(&file.path, "look at the file", cause))?;
        let since = modified.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let written = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        Ok(Self { bytes: file.bytes, written })
    }
}

/// The files that `inputs` name. Each input is a file, a directory or a glob.
///
/// A **directory** stands for every regular file below it, at any depth. Names that begin with a dot are skipped, as
/// in a shell, and so are pipes, sockets and devices.
///
/// A **glob** (`*`, `?`, `[a-z]`, `**` for directories at any depth) stands for its matches; a directory that it
/// matches is walked as above. A path that exists is never interpreted as a glob, so that `report[1].txt` can be
/// named.
///
/// Symbolic links are followed. A file that is reached in several ways (named twice, matched by two globs, through a
/// link) is listed, and so read, once: under the name with the fewest components, the first of them if there are
/// several.
///
/// The list is sorted by path, whatever the order of `inputs`, so that every host that sees the
/// same files plans the same splits. Every file is opened once, so that one that cannot be read
/// is reported before the job begins; that costs a few microseconds a file.
///
/// # Errors
/// [`ErrorKind::Io`] when a path is missing or unreadable; [`ErrorKind::Input`] when no input is
/// named, a directory has no file, a glob is malformed or matches none, or a path is not a
/// regular file. Standard input (`-`) cannot be read this way and is refused. The error's
/// [`Place::File`] is the input or the file in question.
///
/// ```
/// use thalweg::io::files::{Compression, expand_inputs};
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let logs = dir.path().join("logs");
/// # std::fs::create_dir(&logs).unwrap();
/// std::fs::write(logs.join("b.log.gz"), "packed").unwrap();
/// std::fs::write(logs.join("a.log"), "hello\n").unwrap();
/// std::fs::write(logs.join(".hidden"), "").unwrap();
///
/// let files = expand_inputs([&logs]).unwrap();
/// assert_eq!(files.len(), 2);
/// assert_eq!((files[0].path.as_path(), files[0].bytes), (logs.join("a.log").as_path(), 6));
/// assert_eq!(files[1].compression, Compression::Gzip);
///
/// let none = expand_inputs([logs.join("*.csv")]).unwrap_err();
/// assert!(none.to_string().ends_with("*.csv: the glob matches nothing"));
/// ```
pub fn expand_inputs<I>(inputs: I) -> Result<Vec<InputFile>>
where
    I: IntoIterator,
    I::Item: AsRef<Path>,
{
    let mut found = Vec::new();
    let mut any = false;
    for input in inputs {
        any = true;
        expand_one(input.as_ref(), &mut found)?;
    }
    if !any {
        return Err(Error::new(ErrorKind::Input, "no input file is named"));
    }
    let mut names: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    for Found { path, identity } in found {
        match names.entry(identity) {
            Entry::Occupied(mut other) => {
                let rank = |path: &Path| path.components().count();
                if (rank(&path), &path) < (rank(other.get()), other.get()) {
                    other.insert(path);
                }
            }
            Entry::Vacant(entry) => {
                entry.insert(path);
            }
        }
    }
    let mut files = names.into_values().map(open_once).collect::<Result<Vec<_>>>()?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// A file that may already have been found under another name.
struct Found {
    path: PathBuf,
    /// The path with all links resolved.
    identity: PathBuf,
}

fn expand_one(input: &Path, found: &mut Vec<Found>) -> Result<()> {
    if input.as_os_str() == "-" {
        return Err(refuse(
            input,
            "standard input cannot be divided among readers, so it is not read here; write it to \
             a file and name that (a file of this name is written ./-)",
        ));
    }
    let before = found.len();
    match fs::metadata(input) {
        Ok(meta) if meta.is_dir() => {
            walk(input, found)?;
            if found.len() == before {
                return Err(refuse(input, "the directory has no file (hidden ones do not count)"));
            }
            Ok(())
        }
        Ok(meta) if meta.is_file() => push_file(input, found),
        Ok(_) => Err(refuse(
            input,
            "not a regular file: a pipe or device cannot be divided among readers; write its \
             bytes to a file and name that",
        )),
        Err(cause) => match input.to_str().filter(|text| text.contains(['*', '?', '['])) {
            // A dangling link whose name looks like a glob is treated as a dangling link.
            Some(pattern) if fs::symlink_metadata(input).is_err() => {
                expand_glob(input, pattern, found)
            }
            _ => Err(missing(input, cause)),
        },
    }
}

fn expand_glob(input: &Path, pattern: &str, found: &mut Vec<Found>) -> Result<()> {
    let glob = Glob::new(pattern).map_err(|cause| {
        refuse(input, "no such file, and as a glob it is malformed").caused_by(cause)
    })?;
    let matches = glob.matches()?;
    let before = found.len();
    for path in &matches {
        let meta = fs::metadata(path).map_err(|cause| missing(path, cause))?;
        if meta.is_dir() {
            walk(path, found)?;
        } else if meta.is_file() && !glob.directories_only {
            push_file(path, found)?;
        }
    }
    match (matches.is_empty(), found.len() == before) {
        (true, _) => Err(refuse(input, "the glob matches nothing")),
        (false, true) => Err(refuse(input, "the glob matches no file, nor a directory with one")),
        (false, false) => Ok(()),
    }
}

/// A pattern, with a step for each of its components.
///
/// The library matches names. The directory walk is our own, because the library's follows cycles of links and fails
/// on names that are not UTF-8.
struct Glob {
    steps: Vec<Step>,
    directories_only: bool,
}

enum Step {
    /// A component without wildcards, including `..` and the root.
    Literal(PathBuf),
    /// A component with wildcards.
    Matching(glob::Pattern),
    /// `**`: any number of directories, including none.
    AnyDepth,
}

impl Glob {
    fn new(pattern: &str) -> Result<Self, glob::PatternError> {
        // Parses the whole pattern, so that an error has its position in the user's text.
        glob::Pattern::new(pattern)?;
        let step = |component: Component<'_>| {
            Ok(match component.as_os_str().to_str() {
                Some("**") => Step::AnyDepth,
                Some(text) if text.contains(['*', '?', '[']) => {
                    Step::Matching(glob::Pattern::new(text)?)
                }
                _ => Step::Literal(component.as_os_str().into()),
            })
        };
        let steps = Path::new(pattern).components().map(step).collect::<Result<_, _>>()?;
        Ok(Self { steps, directories_only: pattern.ends_with(std::path::is_separator) })
    }

    /// The matches of the pattern, in no particular order.
    fn matches(&self) -> Result<Vec<PathBuf>> {
        let mut matches = Vec::new();
        // Directories by their resolved path and the remaining steps, so that cycles of links end, as in `walk`.
        let mut entered = HashSet::new();
        let mut to_take = vec![(PathBuf::new(), 0)];
        while let Some((path, done)) = to_take.pop() {
            let Some(step) = self.steps.get(done) else {
                matches.push(path);
                continue;
            };
            if let Step::Literal(name) = step {
                let path = path.join(name);
                if exists(&path)? {
                    to_take.push((path, done + 1));
                }
                continue;
            }
            let dir = if path.as_os_str().is_empty() { Path::new(".") } else { &path };
            if !dir.is_dir() || !entered.insert((resolve(dir)?, done)) {
                continue;
            }
            let options = glob::MatchOptions {
                case_sensitive: true,
                require_literal_separator: true,
                require_literal_leading_dot: true,
            };
            for entry in list(dir)? {
                let name = entry.file_name();
                let below = path.join(&name);
                match step {
                    Step::Matching(pattern)
                        if pattern.matches_with(&name.to_string_lossy(), options) =>
                    {
                        to_take.push((below, done + 1));
                    }
                    Step::AnyDepth if !is_hidden(&name) && below.is_dir() => {
                        to_take.push((below, done));
                    }
                    _ => {}
                }
            }
            if matches!(step, Step::AnyDepth) {
                to_take.push((dir.to_owned(), done + 1));
            }
        }
        Ok(matches)
    }
}

/// Whether the path exists; a dangling link does.
fn exists(path: &Path) -> Result<bool> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(cause) if matches!(cause.kind(), NotFound | NotADirectory) => Ok(false),
        Err(cause) => Err(Error::io(path, "find the file", cause)),
    }
}

fn list(dir: &Path) -> Result<Vec<fs::DirEntry>> {
    let entries = fs::read_dir(dir).and_then(Iterator::collect);
    entries.map_err(|cause| Error::io(dir, "list the directory", cause))
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

/// Adds every regular file below `root`, in sorted order.
fn walk(root: &Path, found: &mut Vec<Found>) -> Result<()> {
    // Directories by their resolved path: a link to one that was entered before is not followed, so a cycle of links
    // ends, and a directory with two names is walked once.
    let mut entered = HashSet::new();
    let mut to_enter = vec![root.to_owned()];
    while let Some(dir) = to_enter.pop() {
        if !entered.insert(resolve(&dir)?) {
            continue;
        }
        let visible = |entry: &fs::DirEntry| !is_hidden(&entry.file_name());
        let mut entries: Vec<_> =
            list(&dir)?.into_iter().filter(visible).map(|entry| entry.path()).collect();
        // The last one pushed is entered first, hence the descending order.
        entries.sort_by(|a, b| b.cmp(a));
        for path in entries {
            let meta = fs::metadata(&path).map_err(|cause| missing(&path, cause))?;
            if meta.is_dir() {
                to_enter.push(path);
            } else if meta.is_file() {
                push_file(&path, found)?;
            }
        }
    }
    Ok(())
}

fn push_file(path: &Path, found: &mut Vec<Found>) -> Result<()> {
    found.push(Found { path: path.to_owned(), identity: resolve(path)? });
    Ok(())
}

fn resolve(path: &Path) -> Result<PathBuf> {
    fs::canonicalize(path).map_err(|cause| Error::io(path, "resolve the path", cause))
}

/// Opens the file to check that it can be read, and to get its size.
fn open_once(path: PathBuf) -> Result<InputFile> {
    let mut file = File::open(&path).map_err(|cause| Error::io(&path, "open the file", cause))?;
    let bytes = file.metadata().map_err(|cause| Error::io(&path, "open the file", cause))?.len();
    if bytes == 0 {
        // Files under /proc and the like report size 0 and yet have content: no split would cover it.
        let read = file.read(&mut [0]).map_err(|cause| Error::io(&path, "read the file", cause))?;
        if read > 0 {
            return Err(refuse(
                &path,
                "the file has content but no size, so it cannot be divided among readers; copy \
                 it and name the copy",
            ));
        }
    }
    let compression = Compression::of(&path);
    Ok(InputFile { path, bytes, compression })
}

fn refuse(path: &Path, message: &str) -> Error {
    Error::new(ErrorKind::Input, message).at(Place::File(path.to_owned()))
}

fn missing(path: &Path, cause: std::io::Error) -> Error {
    let dangling =
        cause.kind() == std::io::ErrorKind::NotFound && fs::symlink_metadata(path).is_ok();
    let doing = if dangling { "follow the symbolic link" } else { "find the file" };
    Error::io(path, doing, cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        dir
    }

    /// The paths found, relative to the directory.
    fn names(dir: &tempfile::TempDir, inputs: &[&str]) -> Vec<String> {
        let inputs = inputs.iter().map(|input| dir.path().join(input));
        let files = expand_inputs(inputs).unwrap();
        let relative = |f: InputFile| f.path.strip_prefix(dir.path()).unwrap().to_owned();
        files.into_iter().map(|f| relative(f).to_str().unwrap().to_owned()).collect()
    }

    fn error(path: impl AsRef<Path>) -> Error {
        let path = path.as_ref();
        let error = expand_inputs([path]).unwrap_err();
        assert!(matches!(error.place(), Some(Place::File(_))), "{error}");
        error
    }

    #[test]
    fn a_directory_is_every_visible_file_below_it_sorted() {
        let dir = tree(&["b", "a/z", "a/deep/er/f.gz", ".git/x", "a/.secret", "c.zst"]);
        assert_eq!(names(&dir, &[""]), ["a/deep/er/f.gz", "a/z", "b", "c.zst"]);
        // A hidden file or directory that is named explicitly is read.
        assert_eq!(names(&dir, &[".git", "a/.secret"]), [".git/x", "a/.secret"]);
    }

    #[test]
    fn size_and_compression_are_found() {
        let dir = tree(&["a.txt", "b.GZ", "c.zstd", "gz"]);
        let files = expand_inputs([dir.path()]).unwrap();
        let found: Vec<_> = files.iter().map(|f| (f.bytes, f.compression)).collect();
        use Compression::{Gzip, None, Zstd};
        assert_eq!(found, [(5, None), (4, Gzip), (6, Zstd), (2, None)]);
    }

    #[test]
    fn globs_match_files_and_directories_but_nothing_hidden() {
        let dir =
            tree(&["x1.csv", "x2.csv", "y.csv", ".h.csv", "d/x3.csv", "xdir/any", "d/e/x4.csv"]);
        assert_eq!(names(&dir, &["x?.csv"]), ["x1.csv", "x2.csv"]);
        assert_eq!(names(&dir, &["*.csv"]), ["x1.csv", "x2.csv", "y.csv"]);
        assert_eq!(names(&dir, &["x*"]), ["x1.csv", "x2.csv", "xdir/any"]);
        assert_eq!(names(&dir, &["**/x[34].csv"]), ["d/e/x4.csv", "d/x3.csv"]);
        assert_eq!(names(&dir, &["d/**"]), ["d/e/x4.csv", "d/x3.csv"]);
        assert_eq!(names(&dir, &["**/d/*.csv"]), ["d/x3.csv"]);
        assert_eq!(names(&dir, &["xdir/../d/*/*"]), ["xdir/../d/e/x4.csv"]);
        assert_eq!(names(&dir, &["*/"]), ["d/e/x4.csv", "d/x3.csv", "xdir/any"]);
        assert_eq!(names(&dir, &[".*.csv"]), [".h.csv"]);
        assert_eq!(names(&dir, &["[!x]*.csv"]), ["y.csv"]);
    }

    #[cfg(unix)]
    #[test]
    fn names_need_not_be_utf8() {
        use std::os::unix::ffi::OsStrExt;
        let dir = tree(&["a"]);
        let odd = dir.path().join(OsStr::from_bytes(b"o\xffdd.gz"));
        fs::write(&odd, "x").unwrap();
        for input in ["", "*.gz", "**/o?dd*"] {
            let files = expand_inputs([dir.path().join(input)]).unwrap();
            let file = files.last().unwrap();
            assert_eq!((&file.path, file.compression), (&odd, Compression::Gzip));
        }
        assert_eq!(expand_inputs([odd]).unwrap().len(), 1);
    }

    #[test]
    fn a_file_that_exists_is_not_a_glob() {
        let dir = tree(&["report[1].txt", "report1.txt"]);
        assert_eq!(names(&dir, &["report[1].txt"]), ["report[1].txt"]);
    }

    #[test]
    fn a_file_reached_in_several_ways_is_read_once() {
        let dir = tree(&["b", "a"]);
        assert_eq!(names(&dir, &["b", "a", "b", "", "*", "./a"]), ["a", "b"]);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_and_cycles_end() {
        use std::os::unix::fs::symlink;
        let dir = tree(&["d/f", "d/e/g"]);
        symlink("..", dir.path().join("d/up")).unwrap();
        symlink("../..", dir.path().join("d/e/upper")).unwrap();
        symlink("f", dir.path().join("d/link")).unwrap();
        assert_eq!(names(&dir, &[""]), ["d/e/g", "d/f"]);
        assert_eq!(names(&dir, &["d/link"]), ["d/link"]);
        assert_eq!(names(&dir, &["**/g"]), ["d/e/g"]);
        assert_eq!(names(&dir, &["**"]), ["d/e/g", "d/f"]);
        assert_eq!(names(&dir, &["**/**/*/**/g"]), ["d/e/g"]);

        symlink("nowhere", dir.path().join("dangling")).unwrap();
        for input in ["", "dangling", "dang*"] {
            let error = error(dir.path().join(input));
            assert_eq!(error.kind(), ErrorKind::Io);
            assert!(error.to_string().contains("dangling: cannot follow the symbolic link"));
        }
        // A link to itself is an error of the system, not a hang.
        symlink("self", dir.path().join("self")).unwrap();
        assert_eq!(error(dir.path().join("self")).kind(), ErrorKind::Io);
    }

    #[test]
    fn each_mistake_has_its_message() {
        let dir = tree(&["f", "d/.hidden", "g[x]"]);
        let said = |input: &str| {
            let error = error(dir.path().join(input));
            let text = error.to_string();
            let (place, message) = text.split_once(": ").unwrap();
            assert_eq!(place, dir.path().join(input).to_str().unwrap());
            (error.kind(), message.to_owned())
        };
        let (kind, message) = said("nofile");
        assert_eq!(kind, ErrorKind::Io);
        assert!(message.starts_with("cannot find the file: No such file"), "{message}");
        // A path below a file cannot be found either, even by root.
        assert_eq!(said("f/below").0, ErrorKind::Io);
        let (kind, message) = said("d");
        assert_eq!(kind, ErrorKind::Input);
        assert_eq!(message, "the directory has no file (hidden ones do not count)");
        assert_eq!(said("no*").1, "the glob matches nothing");
        assert_eq!(said("[d]").1, "the glob matches no file, nor a directory with one");
        let (kind, message) = said("a[b");
        assert_eq!(kind, ErrorKind::Input);
        assert!(message.starts_with("no such file, and as a glob it is malformed: "), "{message}");
        assert!(said("a***b").1.contains("malformed"));

        let stdin = error("-");
        assert_eq!(stdin.kind(), ErrorKind::Input);
        assert!(stdin.to_string().starts_with("-: standard input cannot be"));
        let none = expand_inputs::<[&str; 0]>([]).unwrap_err();
        assert_eq!(none.to_string(), "no input file is named");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_has_no_size_is_refused() {
        let device = error("/dev/null");
        assert!(device.to_string().starts_with("/dev/null: not a regular file"));
        let proc = error("/proc/self/stat");
        assert!(proc.to_string().contains("content but no size"), "{proc}");
        assert_eq!(proc.kind(), ErrorKind::Input);
    }

    #[cfg(unix)]
    #[test]
    fn an_unreadable_file_is_reported_when_listed() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tree(&["f"]);
        let path = dir.path().join("f");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o0)).unwrap();
        if File::open(&path).is_ok() {
            return; // Root may read everything, so there is nothing to test.
        }
        let error = error(&path);
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("f: cannot open the file"), "{error}");
    }
}

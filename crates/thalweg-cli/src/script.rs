//! The scripts that `sh` runs on remote machines.
//!
//! A script is sent over standard input, and the command line of ssh only says how many bytes it has: so any login shell
//! will do, arguments need no quoting for it, and nothing of the script, the secret least of all, is shown in the list
//! of processes.

use std::fmt::Write as _;

/// The remote command that reads a script of this many bytes and runs it. What follows on standard input is the
/// script's own.
pub(crate) fn command(bytes: usize) -> String {
    // One byte at a time: `dd` must not take what follows.
    format!("exec sh -c 'eval \"$(dd bs=1 count={bytes} 2>/dev/null)\"'")
}

/// A word of a shell's command line that stands for itself.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The folder of copied programs, below the home of the user.
const FOLDER: &str = ".cache/thalweg";

/// Where the copy of a program is, relative to the home: a folder for each digest.
pub(crate) fn place(digest: &str, name: &str) -> String {
    format!("{FOLDER}/{digest}/{name}")
}

/// The lines that [`prepare`] prints begin so: login shells may print other lines.
const MARK: &str = "thalweg-launch";

/// Prints what the machine is, whether it has the program with this digest, and what is missing to run it. If `part` is
/// the name of a file that was just copied, makes it the program.
///
/// Programs that were not launched for a month are removed.
pub(crate) fn prepare(digest: &str, name: &str, part: Option<&str>) -> String {
    let place = place(digest, name);
    let (digest, place) = (quoted(digest), quoted(&place));
    let install = part.map_or(String::new(), |part| {
        format!(
            "if is {part}; then chmod 700 {part} && mv -f {part} {place}; \
             else rm -f {part}; echo {MARK} damaged; fi\n",
            part = quoted(part)
        )
    });
    format!(
        "cd || exit 125
umask 077
echo {MARK} system \"$(uname -s)\" \"$(uname -m)\"
digest() {{ if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi; }}
is() {{ test -f \"$1\" && test \"$(digest < \"$1\" | cut -c 1-64)\" = {digest}; }}
mkdir -p {FOLDER}/{digest} || exit 125
{install}if is {place}; then
  echo {MARK} present
  touch {FOLDER}/{digest}
  find {FOLDER} -mindepth 1 -maxdepth 1 -type d -mtime +30 -exec rm -rf {{}} +
  if command -v ldd >/dev/null; then ldd ./{place} 2>&1 | sed -n 's/.*not found.*/{MARK} missing &/p'; fi
fi
echo {MARK} done
"
    )
}

/// What [`prepare`] has printed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Prepared {
    /// The system and the architecture, as `uname` prints them.
    pub(crate) system: String,
    pub(crate) present: bool,
    /// Whether the copy had another digest.
    pub(crate) damaged: bool,
    /// What the dynamic linker does not find.
    pub(crate) missing: Vec<String>,
    /// Whether the script came to its end.
    pub(crate) done: bool,
}

impl Prepared {
    pub(crate) fn read(output: &str) -> Self {
        let mut prepared = Self::default();
        for line in output.lines().filter_map(|line| line.strip_prefix(MARK)) {
            match line.trim_start().split_once(' ').unwrap_or((line.trim_start(), "")) {
                ("system", system) => system.clone_into(&mut prepared.system),
                ("missing", what) => prepared.missing.push(what.trim().to_owned()),
                ("present", _) => prepared.present = true,
                ("damaged", _) => prepared.damaged = true,
                ("done", _) => prepared.done = true,
                _ => {}
            }
        }
        prepared
    }
}

/// A program to be run on a remote machine.
pub(crate) struct Run<'a> {
    /// Relative to the home.
    pub(crate) program: &'a str,
    pub(crate) arguments: &'a [&'a str],
    pub(crate) variables: &'a [(String, String)],
    pub(crate) directory: &'a str,
    pub(crate) secret: &'a str,
}

/// Runs the program until it ends. Afterwards standard input has names of signals for it, one a line. When that ends,
/// because the launcher or the connection is gone, the program is ended too: by SIGTERM, five seconds later by SIGKILL.
///
/// The secret is in a file without a name, which the program inherits.
pub(crate) fn run(run: &Run<'_>) -> String {
    let mut variables = String::new();
    for (name, value) in run.variables {
        // Writing to a string cannot fail.
        let _ = writeln!(variables, "export {name}={}", quoted(value));
    }
    let no_directory = format!("cannot enter the folder {} here: see --directory", run.directory);
    let arguments = run.arguments.iter().map(|argument| format!(" {}", quoted(argument)));
    format!(
        "program=\"$HOME\"/{program}
cd {directory} || {{ echo {no_directory} >&2; exit 125; }}
file=$(umask 077 && mktemp \"${{TMPDIR:-/tmp}}/thalweg-XXXXXX\") || exit 125
printf %s {secret} > \"$file\" || exit 125
exec 3< \"$file\" 4<&0
rm -f \"$file\"
{variables}export THALWEG_SECRET_FILE=/dev/fd/3
\"$program\"{arguments} 4<&- </dev/null &
job=$!
(
  while read -r name <&4; do kill -s \"$name\" $job; done
  kill -s TERM $job && sleep 5 && kill -s KILL $job
) 3<&- </dev/null >/dev/null 2>&1 &
watch=$!
exec 3<&- 4<&-
wait $job
status=$?
kill $watch 2>/dev/null
exit $status
",
        program = quoted(run.program),
        directory = quoted(run.directory),
        no_directory = quoted(&no_directory),
        secret = quoted(run.secret),
        arguments = arguments.collect::<String>(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::path::Path;
    use std::process::{Child, Command, Output, Stdio};

    /// Runs a script as ssh would: the command by a login shell, the script on standard input.
    fn start(script: &str, home: &Path) -> Child {
        let mut child = Command::new("sh")
            .args(["-c", &command(script.len())])
            .env("HOME", home)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.as_mut().unwrap().write_all(script.as_bytes()).unwrap();
        child
    }

    fn output(script: &str, home: &Path) -> (String, Output) {
        // Standard input stays open until the script has ended.
        let mut child = start(script, home);
        let input = child.stdin.take();
        let output = child.wait_with_output().unwrap();
        drop(input);
        (String::from_utf8_lossy(&output.stdout).into_owned(), output)
    }

    fn digest(bytes: &[u8]) -> String {
        hmac_sha256::Hash::hash(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// A home with a program in its place.
    fn with_program(text: &str) -> (tempfile::TempDir, String) {
        let home = tempfile::tempdir().unwrap();
        let digest = digest(text.as_bytes());
        let prepared = Prepared::read(&output(&prepare(&digest, "a job", None), home.path()).0);
        assert!(prepared.done && !prepared.present, "{prepared:?}");
        let part = place(&digest, "part");
        std::fs::write(home.path().join(&part), text).unwrap();
        let prepared =
            Prepared::read(&output(&prepare(&digest, "a job", Some(&part)), home.path()).0);
        assert!(prepared.done && prepared.present && !prepared.damaged, "{prepared:?}");
        (home, place(&digest, "a job"))
    }

    fn run_it(program: &str, arguments: &[&str], variables: &[(String, String)]) -> String {
        run(&Run { program, arguments, variables, directory: "/", secret: "its secret" })
    }

    #[test]
    fn a_program_is_installed_when_its_digest_is_right() {
        let (home, place) = with_program("#!/bin/sh\n");
        let again = output(&prepare(&digest(b"#!/bin/sh\n"), "a job", None), home.path()).0;
        let prepared = Prepared::read(&again);
        let uname = Command::new("uname").args(["-s", "-m"]).output().unwrap();
        assert_eq!(prepared.system, String::from_utf8_lossy(&uname.stdout).trim());
        assert!(prepared.present && prepared.missing.is_empty(), "{prepared:?}");
        // It has changed since.
        std::fs::write(home.path().join(&place), "other").unwrap();
        let other = output(&prepare(&digest(b"#!/bin/sh\n"), "a job", None), home.path()).0;
        assert!(!Prepared::read(&other).present);
        let part = self::place(&digest(b"#!/bin/sh\n"), "part");
        std::fs::write(home.path().join(&part), "torn").unwrap();
        let torn = output(&prepare(&digest(b"#!/bin/sh\n"), "a job", Some(&part)), home.path()).0;
        let prepared = Prepared::read(&torn);
        assert!(prepared.damaged && !prepared.present && prepared.done);
        assert!(!home.path().join(&part).exists());
    }

    #[test]
    fn lines_of_others_are_passed_over() {
        let prepared = Prepared::read(
            "Welcome!\nthalweg-launch system Linux x86_64\n\
             thalweg-launch missing \tlibx.so.1 => not found\nthalweg-launch done\n",
        );
        assert_eq!(prepared.system, "Linux x86_64");
        assert_eq!(prepared.missing, ["libx.so.1 => not found"]);
        assert!(prepared.done && !prepared.present);
        assert!(!Prepared::read("").done);
    }

    #[test]
    fn arguments_variables_and_the_secret_arrive_as_they_are() {
        let text = "#!/bin/sh\nprintf '<%s>' \"$@\" \"$X\" \"$(cat \"$THALWEG_SECRET_FILE\")\" \"$PWD\"\n\
                    cat\nexit 7\n";
        let (home, program) = with_program(text);
        let odd = "it's \"$HOME\" `x`\n\\ ü *";
        let variables = [("X".to_owned(), odd.to_owned())];
        let (printed, output) = output(&run_it(&program, &[odd, ""], &variables), home.path());
        assert_eq!(printed, format!("<{odd}><><{odd}><its secret></>"));
        assert_eq!(output.status.code(), Some(7));
    }

    #[test]
    fn names_of_signals_reach_the_program() {
        let (home, program) = with_program(
            "#!/bin/sh\ntrap 'echo got it; exit 9' USR1\necho up\nwhile :; do sleep 0.01; done\n",
        );
        let mut child = start(&run_it(&program, &[], &[]), home.path());
        let mut up = [0; 3];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut up).unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"USR1\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), &*output.stdout), (Some(9), &b"got it\n"[..]));
    }

    #[test]
    fn the_program_ends_when_the_connection_does() {
        let (home, program) = with_program("#!/bin/sh\necho up\nexec sleep 600\n");
        let mut child = start(&run_it(&program, &[], &[]), home.path());
        let mut up = [0; 3];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut up).unwrap();
        drop(child.stdin.take());
        assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    }

    #[test]
    fn a_folder_that_is_missing_is_an_error() {
        let (home, program) = with_program("#!/bin/sh\n");
        let script = run(&Run {
            program: &program,
            arguments: &[],
            variables: &[],
            directory: "/no such folder",
            secret: "",
        });
        let (_, output) = output(&script, home.path());
        assert_eq!(output.status.code(), Some(125));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains("cannot enter the folder /no such folder here: see --directory\n"),
            "{said}"
        );
    }
}

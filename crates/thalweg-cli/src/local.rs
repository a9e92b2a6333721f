//! Processes on this machine.

use crate::launch::{Arguments, secret};
use crate::supervise::{Control, Started};
use anyhow::{Context as _, Result};
use rustix::io::{FdFlags, fcntl_setfd};
use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{IsTerminal as _, Seek as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts `count` processes.
pub(crate) fn start(
    count: NonZeroUsize,
    arguments: &Arguments,
    program: &Path,
    rest: &[OsString],
) -> Result<Vec<Started>> {
    let count = count.get();
    let port = match arguments.port {
        Some(port) => port,
        None => free_port().context("there is no free port on loopback")?,
    };
    let secret = secret()?;
    let this = env::current_exe().context("the path of this program is not known")?;
    let mut started = Vec::new();
    for id in 0..count {
        let secret = inherited(&secret).context("cannot pass the secret on")?;
        let mut command = Command::new(&this);
        command.args(["exec", "--parent", &std::process::id().to_string(), "--"]);
        command.arg(program).args(rest);
        command.env_remove("THALWEG_HOSTS").env_remove("THALWEG_LISTEN");
        command.env("THALWEG_HOST_ID", id.to_string());
        command.env("THALWEG_HOST_COUNT", count.to_string());
        command.env("THALWEG_FIRST_HOST", format!("{}:{port}", Ipv4Addr::LOCALHOST));
        command.env("THALWEG_SECRET_FILE", format!("/dev/fd/{}", secret.as_raw_fd()));
        // No variables for cores and memory, which would override the program's file of settings.
        command.env("THALWEG_LOCAL_HOSTS", count.to_string());
        if let Some(cores) = arguments.cores {
            command.env("THALWEG_CORES", cores.to_string());
        }
        // A group of its own, so that the terminal's Ctrl-C comes from the launcher alone; a process in the background
        // could not read a terminal.
        command.process_group(0).stderr(Stdio::piped());
        if id > 0 || std::io::stdin().is_terminal() {
            command.stdin(Stdio::null());
        }
        if id > 0 {
            command.stdout(Stdio::null());
        }
        let child = command.spawn().with_context(|| format!("cannot start host {id}"));
        match child {
            Ok(child) => {
                started.push(Started::new(id, format!("host {id}"), child, Control::Group))
            }
            Err(error) => {
                started.iter_mut().for_each(Started::kill);
                return Err(error);
            }
        }
    }
    Ok(started)
}

/// A port on loopback that nothing listens at. Another program may take it before the first host does, which then says
/// so; systems take ports that were just free last.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// A file without a name that a process inherits which is started while this is open. Nothing of it is left when that
/// has ended, however it ends.
fn inherited(text: &str) -> Result<File> {
    // Only this user may read it, as long as it has a name.
    let (mut file, path) = tempfile::NamedTempFile::new()?.into_parts();
    path.close()?;
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    fcntl_setfd(&file, FdFlags::empty())?;
    Ok(file)
}

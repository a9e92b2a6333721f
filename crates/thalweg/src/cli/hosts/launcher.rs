//! What launchers say of the processes that they have started, in variables of the environment.
//!
//! Pure: variables in, values out. The tests have the variables as SLURM 22.05, Open MPI 4.1 and MPICH 4.0 set them.

use crate::error::{Error, ErrorKind, Result};
use std::num::NonZeroUsize;

/// The variables of a process whose values are text.
#[derive(Clone, Copy)]
pub(super) struct Variables<'a>(pub(super) &'a [(String, String)]);

impl<'a> Variables<'a> {
    /// The value of a variable; an empty one counts as not set.
    pub(super) fn get(self, name: &str) -> Option<&'a str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// How many of the hosts are on this machine, if `thalweg launch --local` has started this process.
    pub(super) fn local_hosts(self) -> Result<Option<usize>> {
        self.number("THALWEG_LOCAL_HOSTS")
    }

    fn number(self, name: &str) -> Result<Option<usize>> {
        self.get(name).map(|value| value.parse().map_err(|_| wrong(name, value))).transpose()
    }

    /// A variable that is there if the launcher's others are.
    fn expect(self, name: &str, launcher: Launcher) -> Result<usize> {
        self.number(name)?.ok_or_else(|| {
            let what = format!("{launcher} has started this process, and `{name}` is not set");
            Error::new(ErrorKind::Config, what)
        })
    }
}

fn wrong(name: &str, value: &str) -> Error {
    let what = format!("`{name}` cannot be `{value}`: expected a whole number");
    Error::new(ErrorKind::Config, what)
}

/// A program that starts processes on hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Launcher {
    OpenMpi,
    /// MPICH and others that start processes by Hydra, such as Intel MPI.
    Mpich,
    Slurm,
    Kubernetes,
}

impl Launcher {
    /// The variable with the number of a process, which the launcher itself does not have.
    pub(super) fn rank_variable(self) -> &'static str {
        match self {
            Self::OpenMpi => "OMPI_COMM_WORLD_RANK",
            Self::Mpich => "PMI_RANK",
            Self::Slurm => "SLURM_PROCID",
            Self::Kubernetes => "JOB_COMPLETION_INDEX",
        }
    }
}

impl std::fmt::Display for Launcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::OpenMpi => "Open MPI",
            Self::Mpich => "MPICH",
            Self::Slurm => "SLURM",
            Self::Kubernetes => "Kubernetes",
        })
    }
}

/// What a launcher says of this process and those that it has started with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Launched {
    pub(super) by: Launcher,
    pub(super) id: usize,
    /// The number of processes; Kubernetes does not say it.
    pub(super) count: Option<usize>,
    /// What all processes of this start have in common, and no other start has.
    pub(super) run: Option<String>,
    /// The machine of the first process.
    pub(super) first: Option<String>,
    /// How many of the processes are on this machine.
    pub(super) local: usize,
    /// The cores that were requested for this process.
    pub(super) cores: Option<NonZeroUsize>,
}

/// What the launcher of this process says, if it was started by one together with others.
///
/// MPI comes before SLURM: in an allocation of SLURM, `mpirun` starts its own processes as a step, and the programs
/// inherit the variables of that step.
pub(super) fn detect(variables: Variables<'_>) -> Result<Option<Launched>> {
    Ok(detect_any(variables)?.filter(|launched| launched.count != Some(1)))
}

/// The same, also if it was started alone.
pub(super) fn detect_any(variables: Variables<'_>) -> Result<Option<Launched>> {
    for detect in [open_mpi, mpich, slurm, kubernetes] {
        if let Some(launched) = detect(variables)? {
            return Ok(Some(launched));
        }
    }
    Ok(None)
}

const LOOPBACK: &str = "127.0.0.1";

fn open_mpi(variables: Variables<'_>) -> Result<Option<Launched>> {
    let by = Launcher::OpenMpi;
    let Some(count) = variables.number("OMPI_COMM_WORLD_SIZE")? else { return Ok(None) };
    let id = variables.expect(by.rank_variable(), by)?;
    let local = variables.expect("OMPI_COMM_WORLD_LOCAL_SIZE", by)?;
    let run = ["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"];
    let run = run.iter().find_map(|name| variables.get(name)).map(str::to_owned);
    let first = first_of_mpi(variables, local == count);
    Ok(Some(Launched { by, id, count: Some(count), run, first, local, cores: None }))
}

fn mpich(variables: Variables<'_>) -> Result<Option<Launched>> {
    let by = Launcher::Mpich;
    // `PMI_SIZE` alone may be from srun, which says more in its own variables.
    let (Some(count), Some(local)) =
        (variables.number("PMI_SIZE")?, variables.number("MPI_LOCALNRANKS")?)
    else {
        return Ok(None);
    };
    let id = variables.expect(by.rank_variable(), by)?;
    let first = first_of_mpi(variables, local == count);
    Ok(Some(Launched { by, id, count: Some(count), run: None, first, local, cores: None }))
}

/// The machine of the first process of an MPI launcher, which does not say it: known if there is one machine, or an
/// allocation of SLURM, of which such launchers use the first node first.
fn first_of_mpi(variables: Variables<'_>, one_machine: bool) -> Option<String> {
    if one_machine {
        return Some(LOOPBACK.to_owned());
    }
    variables.get("SLURM_JOB_NODELIST").and_then(first_node)
}

/// A step of SLURM with several tasks. What runs in a batch script beside its steps is no such task, although
/// `SLURM_PROCID` and `SLURM_NTASKS` are set there.
fn slurm(variables: Variables<'_>) -> Result<Option<Launched>> {
    let by = Launcher::Slurm;
    let (Some(step), Some(count)) =
        (variables.get("SLURM_STEP_ID"), variables.number("SLURM_STEP_NUM_TASKS")?)
    else {
        return Ok(None);
    };
    let id = variables.expect(by.rank_variable(), by)?;
    let job = variables.expect("SLURM_JOB_ID", by)?;
    let node = variables.expect("SLURM_NODEID", by)?;
    let tasks = variables.get("SLURM_STEP_TASKS_PER_NODE").unwrap_or_default();
    let local = tasks_on(tasks, node)
        .filter(|local| *local > 0)
        .ok_or_else(|| unreadable("SLURM_STEP_TASKS_PER_NODE", tasks))?;
    let nodes = variables.get("SLURM_STEP_NODELIST").unwrap_or_default();
    let first = if variables.number("SLURM_STEP_NUM_NODES")? == Some(1) {
        LOOPBACK.to_owned()
    } else {
        first_node(nodes).ok_or_else(|| unreadable("SLURM_STEP_NODELIST", nodes))?
    };
    let cores = match variables.number("SLURM_CPUS_PER_TASK")? {
        None => variables.number("SLURM_CPUS_ON_NODE")?.map(|cores| (cores / local).max(1)),
        requested => requested,
    };
    let (run, first) = (Some(format!("{job}.{step}")), Some(first));
    let cores = cores.and_then(NonZeroUsize::new);
    Ok(Some(Launched { by, id, count: Some(count), run, first, local, cores }))
}

fn unreadable(name: &str, value: &str) -> Error {
    let what = format!("`{name}` cannot be understood: `{value}`");
    Error::new(ErrorKind::Config, what)
}

/// A pod of an Indexed Job, or of a StatefulSet, whose number is the end of its name. Only a program that is given
/// the number of hosts calls this: the pods of other jobs work alone.
fn kubernetes(variables: Variables<'_>) -> Result<Option<Launched>> {
    let by = Launcher::Kubernetes;
    if variables.get("KUBERNETES_SERVICE_HOST").is_none() {
        return Ok(None);
    }
    let id = match variables.number(by.rank_variable())? {
        None => {
            let name = variables.get("HOSTNAME").and_then(|name| name.rsplit_once('-'));
            name.and_then(|(_, ordinal)| ordinal.parse().ok())
        }
        index => index,
    };
    let of = |id| Launched { by, id, count: None, run: None, first: None, local: 1, cores: None };
    Ok(id.map(of))
}

/// The first of the nodes in a list of SLURM, such as `rack1n[08-10,12],login`.
fn first_node(list: &str) -> Option<String> {
    let mut name = String::new();
    let mut rest = list;
    while let Some(at) = rest.find(['[', ',']) {
        name.push_str(&rest[..at]);
        if rest.as_bytes()[at] == b',' {
            rest = "";
            break;
        }
        let (numbers, after) = rest[at + 1..].split_once(']')?;
        let number = numbers.split(['-', ',']).next().filter(|number| !number.is_empty())?;
        name.push_str(number);
        rest = after;
    }
    name.push_str(rest);
    Some(name).filter(|name| !name.is_empty() && !name.contains(['[', ']']))
}

/// The number of tasks on a node, from a list such as `2(x3),1`: three nodes with two tasks each, then one with one.
fn tasks_on(list: &str, mut node: usize) -> Option<usize> {
    for part in list.split(',') {
        let (tasks, nodes) = match part.strip_suffix(')') {
            Some(part) => {
                let (tasks, nodes) = part.split_once("(x")?;
                (tasks, nodes.parse().ok()?)
            }
            None => (part, 1),
        };
        if node < nodes {
            return tasks.parse().ok();
        }
        node -= nodes;
    }
    None
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The variables in these lines of `NAME=value`.
    pub(in super::super) fn variables(text: &str) -> Vec<(String, String)> {
        let pairs = text.lines().filter_map(|line| line.trim().split_once('='));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    fn detected(text: &str) -> Option<Launched> {
        detect(Variables(&variables(text))).unwrap()
    }

    fn refused(text: &str) -> String {
        let error = detect(Variables(&variables(text))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        error.to_string()
    }

    /// `srun -N2 -n3 -c2`, the last task.
    pub(in super::super) const SLURM: &str = "\
        SLURMD_NODENAME=n09
        SLURM_CLUSTER_NAME=test
        SLURM_CPUS_ON_NODE=2
        SLURM_CPUS_PER_TASK=2
        SLURM_GTIDS=2
        SLURM_JOBID=1
        SLURM_JOB_CPUS_PER_NODE=4,2
        SLURM_JOB_ID=1
        SLURM_JOB_NODELIST=n[08-09]
        SLURM_JOB_NUM_NODES=2
        SLURM_LAUNCH_NODE_IPADDR=127.0.0.1
        SLURM_LOCALID=0
        SLURM_NNODES=2
        SLURM_NODEID=1
        SLURM_NODELIST=n[08-09]
        SLURM_NPROCS=3
        SLURM_NTASKS=3
        SLURM_PROCID=2
        SLURM_SRUN_COMM_HOST=127.0.0.1
        SLURM_SRUN_COMM_PORT=46681
        SLURM_STEPID=0
        SLURM_STEP_ID=0
        SLURM_STEP_LAUNCHER_PORT=46681
        SLURM_STEP_NODELIST=n[08-09]
        SLURM_STEP_NUM_NODES=2
        SLURM_STEP_NUM_TASKS=3
        SLURM_STEP_TASKS_PER_NODE=2,1
        SLURM_TASKS_PER_NODE=2,1
        SLURM_TOPOLOGY_ADDR=n09";

    /// A script of `sbatch -N2 -n3`, beside its steps.
    const BATCH: &str = "\
        SLURMD_NODENAME=n08
        SLURM_CPUS_ON_NODE=2
        SLURM_GTIDS=0
        SLURM_JOBID=2
        SLURM_JOB_CPUS_PER_NODE=2,1
        SLURM_JOB_ID=2
        SLURM_JOB_NODELIST=n[08-09]
        SLURM_JOB_NUM_NODES=2
        SLURM_LOCALID=0
        SLURM_NNODES=2
        SLURM_NODEID=0
        SLURM_NODELIST=n[08-09]
        SLURM_NPROCS=3
        SLURM_NTASKS=3
        SLURM_PROCID=0
        SLURM_TASKS_PER_NODE=2,1";

    /// `mpirun -n 2` of Open MPI, on one machine.
    pub(in super::super) const OPEN_MPI: &str = "\
        OMPI_APP_CTX_NUM_PROCS=2
        OMPI_COMM_WORLD_LOCAL_RANK=1
        OMPI_COMM_WORLD_LOCAL_SIZE=2
        OMPI_COMM_WORLD_NODE_RANK=1
        OMPI_COMM_WORLD_RANK=1
        OMPI_COMM_WORLD_SIZE=2
        OMPI_FIRST_RANKS=0
        OMPI_MCA_ess_base_jobid=2127233025
        OMPI_MCA_ess_base_vpid=1
        OMPI_MCA_orte_bound_at_launch=1
        OMPI_MCA_orte_num_nodes=1
        OMPI_UNIVERSE_SIZE=2
        PMIX_HOSTNAME=vm
        PMIX_ID=2127233025.1
        PMIX_NAMESPACE=2127233025
        PMIX_RANK=1
        PMIX_VERSION=4.2.2rc2";

    /// `mpirun -n 3` of MPICH, on one machine.
    pub(in super::super) const MPICH: &str = "\
        GFORTRAN_UNBUFFERED_PRECONNECTED=y
        HYDI_CONTROL_FD=7
        MPIR_CVAR_CH3_INTERFACE_HOSTNAME=vm
        MPI_LOCALNRANKS=3
        MPI_LOCALRANKID=1
        PMI_FD=8
        PMI_RANK=1
        PMI_SIZE=3";

    fn cores(number: usize) -> Option<NonZeroUsize> {
        NonZeroUsize::new(number)
    }

    #[test]
    fn a_step_of_slurm() {
        let expected = Launched {
            by: Launcher::Slurm,
            id: 2,
            count: Some(3),
            run: Some("1.0".to_owned()),
            first: Some("n08".to_owned()),
            local: 1,
            cores: cores(2),
        };
        assert_eq!(detected(SLURM), Some(expected.clone()));
        // The first task of the first node, where two tasks share four cores.
        let other = SLURM.replace("SLURM_CPUS_PER_TASK=2", "").replace("NODEID=1", "NODEID=0");
        let other = other.replace("CPUS_ON_NODE=2", "CPUS_ON_NODE=4").replace("ID=2", "ID=0");
        let first = Launched { id: 0, local: 2, ..expected.clone() };
        assert_eq!(detected(&other), Some(first));
        // More tasks than cores, by `-O`: a node has one core then.
        let other =
            other.replace("CPUS_ON_NODE=4", "CPUS_ON_NODE=1").replace("NODE=2,1", "NODE=9,1");
        let first = Launched { id: 0, local: 9, cores: cores(1), ..expected };
        assert_eq!(detected(&other), Some(first));
        // All on one node.
        let node = SLURM.replace("STEP_NUM_NODES=2", "STEP_NUM_NODES=1");
        assert_eq!(detected(&node).unwrap().first.as_deref(), Some(LOOPBACK));
        // One task alone.
        assert_eq!(detected(&SLURM.replace("NUM_TASKS=3", "NUM_TASKS=1")), None);
    }

    #[test]
    fn a_batch_script_of_slurm_is_no_task() {
        assert_eq!(detected(BATCH), None);
    }

    #[test]
    fn open_mpi_on_one_machine_and_on_several() {
        let expected = Launched {
            by: Launcher::OpenMpi,
            id: 1,
            count: Some(2),
            run: Some("2127233025".to_owned()),
            first: Some(LOOPBACK.to_owned()),
            local: 2,
            cores: None,
        };
        assert_eq!(detected(OPEN_MPI), Some(expected.clone()));
        let several = OPEN_MPI.replace("LOCAL_SIZE=2", "LOCAL_SIZE=1");
        let several = detected(&several).unwrap();
        assert_eq!(several, Launched { first: None, local: 1, ..expected });
    }

    #[test]
    fn mpich_on_one_machine_and_on_several() {
        let expected = Launched {
            by: Launcher::Mpich,
            id: 1,
            count: Some(3),
            run: None,
            first: Some(LOOPBACK.to_owned()),
            local: 3,
            cores: None,
        };
        assert_eq!(detected(MPICH), Some(expected));
        let several = detected(&MPICH.replace("LOCALNRANKS=3", "LOCALNRANKS=2")).unwrap();
        assert_eq!((several.first, several.local), (None, 2));
    }

    #[test]
    fn mpi_within_an_allocation_of_slurm_counts_more_than_the_step_of_its_daemons() {
        let step = SLURM.replace("NUM_TASKS=3", "NUM_TASKS=2").replace("PROCID=2", "PROCID=0");
        for (mpi, count) in [(OPEN_MPI, 2), (MPICH, 3)] {
            let several = mpi.replace("LOCAL_SIZE=2", "LOCAL_SIZE=1");
            let several = several.replace("LOCALNRANKS=3", "LOCALNRANKS=1");
            let launched = detected(&format!("{step}\n{several}")).unwrap();
            assert_eq!((launched.id, launched.count, launched.local), (1, Some(count), 1));
            assert_eq!(launched.first.as_deref(), Some("n08"));
        }
        // What srun sets for programs of MPI does not hide its own variables.
        let pmi = detected(&format!("{SLURM}\nPMI_RANK=2\nPMI_SIZE=3\nPMI_FD=9")).unwrap();
        assert_eq!(pmi.by, Launcher::Slurm);
    }

    #[test]
    fn pods_are_numbered_by_their_index_or_their_name() {
        let cluster = "KUBERNETES_SERVICE_HOST=10.96.0.1\n";
        let id = |text: &str| detected(&format!("{cluster}{text}")).map(|launched| launched.id);
        assert_eq!(id("JOB_COMPLETION_INDEX=4\nHOSTNAME=words-4-x2x1z"), Some(4));
        assert_eq!(id("HOSTNAME=words-12"), Some(12));
        assert_eq!(id("HOSTNAME=words-7d9c6b7f4-x2x1z"), None);
        assert_eq!(id(""), None);
        assert_eq!(detected("HOSTNAME=node-3\nJOB_COMPLETION_INDEX=3"), None);
    }

    #[test]
    fn a_process_that_no_launcher_started_is_alone() {
        assert_eq!(detected("PATH=/bin\nHOSTNAME=node-1\nSLURM_NTASKS=4"), None);
        assert_eq!(detected("OMPI_COMM_WORLD_SIZE="), None);
    }

    #[test]
    fn variables_that_cannot_be_understood_are_named() {
        assert_eq!(
            refused(&OPEN_MPI.replace("COMM_WORLD_SIZE=2", "COMM_WORLD_SIZE=two")),
            "`OMPI_COMM_WORLD_SIZE` cannot be `two`: expected a whole number"
        );
        assert_eq!(
            refused(&MPICH.replace("PMI_RANK=1", "")),
            "MPICH has started this process, and `PMI_RANK` is not set"
        );
        assert_eq!(
            refused(&SLURM.replace("STEP_NODELIST=n[08-09]", "STEP_NODELIST=n[")),
            "`SLURM_STEP_NODELIST` cannot be understood: `n[`"
        );
        assert_eq!(
            refused(&SLURM.replace("STEP_TASKS_PER_NODE=2,1", "STEP_TASKS_PER_NODE=2")),
            "`SLURM_STEP_TASKS_PER_NODE` cannot be understood: `2`"
        );
    }

    #[test]
    fn lists_of_nodes() {
        for (list, first) in [
            ("n1", Some("n1")),
            ("node[01-03,7]", Some("node01")),
            ("node[7]", Some("node7")),
            ("b,node[01-03]", Some("b")),
            ("rack[1-2]n[08-10]-ib,x", Some("rack1n08-ib")),
            ("n[08-10", None),
            ("n[]", None),
            ("n]", None),
            ("", None),
            (",n1", None),
        ] {
            assert_eq!(first_node(list).as_deref(), first, "{list}");
        }
    }

    #[test]
    fn tasks_of_nodes() {
        let on = |node| tasks_on("2(x3),1,4(x2)", node);
        assert_eq!([0, 2, 3, 5, 6].map(on), [Some(2), Some(2), Some(1), Some(4), None]);
        for wrong in ["", "x", "2(3)", "2(x)", "(x2)"] {
            assert_eq!(tasks_on(wrong, 0), None, "{wrong}");
        }
    }
}

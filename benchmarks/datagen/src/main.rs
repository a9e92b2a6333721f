//! Makes datasets: `bench-datagen FOLDER DATASET...`, where a dataset is `text:MEGABYTES`,
//! `keys:KIND:DISTINCT:COUNT`, `points:COUNT`, `items:KIND:COUNT`, `graph:KIND:NODES:EDGES`, `events:KIND:COUNT`,
//! `campaigns` or `collisions:MEGABYTES`. Prints the path of each file, one a line.

use std::path::Path;
use std::process::ExitCode;

use bench_datagen::{Dataset, ensure};

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut args: impl Iterator<Item = String>) -> Result<(), String> {
    let folder = args.next().ok_or("usage: bench-datagen FOLDER DATASET...")?;
    for arg in args {
        let dataset: Dataset = arg.parse()?;
        let made = ensure(&dataset, Path::new(&folder))
            .map_err(|error| format!("{}/{}: {error}", folder, dataset.file_name()))?;
        println!("{}", made.path.display());
    }
    Ok(())
}

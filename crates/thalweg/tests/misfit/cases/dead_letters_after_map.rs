//! `dead_letters` is called with an operator between it and the source.

//~ `dead_letters` is called directly after a source whose records may fail to parse
//~ not such a source
//~ note: call it directly after `csv`, `json_lines`, `parse_lines` or a connector that decodes records

use thalweg::Environment;

fn main() {
    let env = Environment::new();
    let rows = env.csv::<(u32, String)>("rows.csv");
    let (good, bad) = rows.map(|(n, _)| n).dead_letters();
    good.for_each(drop);
    bad.for_each(drop);
}

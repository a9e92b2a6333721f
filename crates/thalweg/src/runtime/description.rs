//! What each host of a job says of it before tasks run, so that a job does not begin where programs differ.

use crate::checkpoint::RestorePoint;
use crate::error::Result;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A job, as one host describes it.
pub(crate) struct Description {
    /// Equal where jobs are.
    pub(crate) fingerprint: u128,
    /// Makes the parts of the job, to find out how two jobs differ: the name of each, and what has to be equal.
    pub(crate) parts: Box<dyn Fn() -> Vec<DescribedPart> + Send + Sync>,
    /// Of the first host: what it sends to the others when all have described the job.
    pub(crate) point: Option<RestorePoint>,
    /// Of the first host: looks whether the job may go on, when all have described it.
    pub(crate) may_go_on: Arc<MayGoOn>,
}

type MayGoOn = dyn Fn() -> Result<()> + Send + Sync;

impl Description {
    /// That of a job without checkpoints.
    pub(crate) fn of(
        fingerprint: u128,
        parts: impl Fn() -> Vec<DescribedPart> + Send + Sync + 'static,
    ) -> Self {
        Self { fingerprint, parts: Box::new(parts), point: None, may_go_on: Arc::new(|| Ok(())) }
    }
}

/// The name of a part of a job, and all of it that has to be equal: fields and their values.
pub(crate) type DescribedPart = (String, Fields);

/// Names and values.
type Fields = Vec<(String, String)>;

/// Where two jobs differ first; `one` and `other` are the names of their hosts.
pub(super) fn difference(
    (one, ours): (&str, &[DescribedPart]),
    (other, theirs): (&str, &[DescribedPart]),
) -> String {
    let length = ours.len().max(theirs.len());
    let differs = (0..length).map(|at| (ours.get(at), theirs.get(at)));
    let mut differs = differs.filter(|(a, b)| a.map(|part| &part.1) != b.map(|part| &part.1));
    let Some((a, b)) = differs.next() else { return "it is not known in what".to_owned() };
    match (a, b) {
        (Some((name, fields)), Some((same, differing))) if name == same => {
            let value = |value: Option<&str>| value.unwrap_or("not set").to_owned();
            let fields = differing_fields(fields, differing).into_iter().map(|(field, (a, b))| {
                format!("{field} is {} on {one}, and {} on {other}", value(a), value(b))
            });
            format!("{name}: {}", fields.collect::<Vec<_>>().join("; "))
        }
        _ => {
            let name = |part: Option<&DescribedPart>| {
                part.map_or("nothing more".to_owned(), |part| part.0.clone())
            };
            format!("{one} has {}, where {other} has {}", name(a), name(b))
        }
    }
}

/// The fields that differ, with both values.
fn differing_fields<'a>(
    ours: &'a Fields,
    theirs: &'a Fields,
) -> BTreeMap<&'a str, (Option<&'a str>, Option<&'a str>)> {
    let mut differing = BTreeMap::<_, (Option<&str>, Option<&str>)>::new();
    for field in ours.iter().filter(|field| !theirs.contains(field)) {
        differing.entry(&*field.0).or_default().0 = Some(&field.1);
    }
    for field in theirs.iter().filter(|field| !ours.contains(field)) {
        differing.entry(&*field.0).or_default().1 = Some(&field.1);
    }
    differing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_part_that_differs_is_named() {
        let fields = |end: &str| {
            vec![("start".to_owned(), "0".to_owned()), ("end".to_owned(), end.to_owned())]
        };
        let part = |name: &str, end: &str| (name.to_owned(), fields(end));
        let job = [part("operator 0, range (a.rs:1)", "1"), part("operator 1, map (a.rs:2)", "2")];
        let differs = |other: &[DescribedPart]| difference(("host 0", &job), ("host 2", other));
        let mut other = job.to_vec();
        assert_eq!(differs(&other), "it is not known in what");
        other[0].1 = fields("7");
        let expected = "operator 0, range (a.rs:1): end is 1 on host 0, and 7 on host 2";
        assert_eq!(differs(&other), expected);
        other[0].1 = vec![("start".to_owned(), "3".to_owned())];
        let expected = "operator 0, range (a.rs:1): end is 1 on host 0, and not set on host 2; \
                        start is 0 on host 0, and 3 on host 2";
        assert_eq!(differs(&other), expected);
        other[0] = part("operator 0, iter (b.rs:3)", "1");
        other[1] = part("operator 1, filter (b.rs:4)", "3");
        let expected =
            "host 0 has operator 1, map (a.rs:2), where host 2 has operator 1, filter (b.rs:4)";
        assert_eq!(differs(&other), expected, "places alone do not differ");
        let expected = "host 0 has operator 1, map (a.rs:2), where host 2 has nothing more";
        assert_eq!(differs(&job[..1]), expected);
    }
}

//! What each host of a job says of it before tasks run, so that a job does not begin where programs differ.

/// A job, as one host describes it.
pub(crate) struct Description {
    /// Equal where jobs are.
    pub(crate) fingerprint: u128,
    /// Makes the parts of the job, to find out how two jobs differ: the name of each, and what has to be equal.
    pub(crate) parts: Box<dyn Fn() -> Vec<DescribedPart> + Send + Sync>,
}

/// The name of a part of a job, and all of it that has to be equal.
pub(crate) type DescribedPart = (String, String);

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
        (Some((name, content)), Some((same, differing))) if name == same => {
            format!("{name} is {content} on {one}, and {differing} on {other}")
        }
        _ => {
            let name = |part: Option<&DescribedPart>| {
                part.map_or("nothing more".to_owned(), |part| part.0.clone())
            };
            format!("{one} has {}, where {other} has {}", name(a), name(b))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_part_that_differs_is_named() {
        let part = |name: &str, content: &str| (name.to_owned(), content.to_owned());
        let job = [part("operator 0, range (a.rs:1)", "1"), part("operator 1, map (a.rs:2)", "2")];
        let differs = |other: &[DescribedPart]| difference(("host 0", &job), ("host 2", other));
        let mut other = job.to_vec();
        assert_eq!(differs(&other), "it is not known in what");
        other[0].1 = "7".to_owned();
        let expected = "operator 0, range (a.rs:1) is 1 on host 0, and 7 on host 2";
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

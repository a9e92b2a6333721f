//! What joins mean, in a few lines.

/// A record of a join's result: the key, and what there is of both sides.
pub type Row<K, L, R> = (K, (Option<L>, Option<R>));

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Inner,
    Left,
    Right,
    Full,
    Semi,
    Anti,
}

/// The result of a join, by a look at every pair.
pub fn join<K, L, R>(kind: Kind, left: &[(K, L)], right: &[(K, R)]) -> Vec<Row<K, L, R>>
where
    K: PartialEq + Clone,
    L: Clone,
    R: Clone,
{
    let mut rows = Vec::new();
    for (key, l) in left {
        let partners: Vec<&R> = right.iter().filter(|r| r.0 == *key).map(|r| &r.1).collect();
        let alone = partners.is_empty();
        match kind {
            Kind::Semi if !alone => rows.push((key.clone(), (Some(l.clone()), None))),
            Kind::Anti if alone => rows.push((key.clone(), (Some(l.clone()), None))),
            Kind::Semi | Kind::Anti => {}
            Kind::Left | Kind::Full if alone => rows.push((key.clone(), (Some(l.clone()), None))),
            _ => rows.extend(
                partners.iter().map(|r| (key.clone(), (Some(l.clone()), Some((*r).clone())))),
            ),
        }
    }
    if matches!(kind, Kind::Right | Kind::Full) {
        let alone = right.iter().filter(|r| !left.iter().any(|l| l.0 == r.0));
        rows.extend(alone.map(|(key, r)| (key.clone(), (None, Some(r.clone())))));
    }
    rows
}

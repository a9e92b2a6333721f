//! What is wrong with a value or a schema, and where in it.

use std::fmt::{self, Display};

/// What is wrong, and the path of fields to it, from within.
#[derive(Debug)]
pub(super) struct Fault(Box<(String, Vec<String>)>);

impl Fault {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self(Box::new((what.into(), Vec::new())))
    }

    /// Adds the field that it is in.
    pub(super) fn within(mut self, field: &str) -> Self {
        self.0.1.push(field.to_owned());
        self
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, path) = &*self.0;
        if !path.is_empty() {
            let path: Vec<_> = path.iter().rev().map(String::as_str).collect();
            write!(f, "field `{}`: ", path.join("."))?;
        }
        f.write_str(what)
    }
}

impl std::error::Error for Fault {}

impl serde::de::Error for Fault {
    fn custom<T: Display>(what: T) -> Self {
        Self::new(what.to_string())
    }
}

impl serde::ser::Error for Fault {
    fn custom<T: Display>(what: T) -> Self {
        Self::new(what.to_string())
    }
}

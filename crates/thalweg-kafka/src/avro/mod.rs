//! Avro in the wire form of schema registries: a zero byte, the id of the writer's schema in four bytes, big-endian, and the
//! value. `schema` parses schemas, `plan` applies the rules of resolution, `de` and `ser` turn bytes into serde values and back, and
//! none of these knows the registry: `registry` has its requests, `http` the connections, `decoder` and `encoder` put both together.

mod de;
mod decimal;
mod decoder;
mod encoder;
mod fault;
mod http;
mod plan;
mod registry;
mod schema;
mod ser;
#[cfg(test)]
mod tests;
#[cfg(feature = "avro-tls")]
mod tls;

pub use decoder::AvroDecoder;
pub use encoder::{AvroEncoder, SubjectName};
pub use registry::SchemaRegistry;

use schema::Schema;
use thalweg::{Error, ErrorKind, Result};

/// A schema of the program, called `what` in errors.
fn parse(text: &str, what: &str) -> Result<Schema> {
    Schema::parse(text, &[]).map_err(|fault| {
        Error::new(ErrorKind::Config, format!("{what} is no schema of Avro")).caused_by(fault)
    })
}

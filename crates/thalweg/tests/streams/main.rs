//! Jobs of several streams, and streams that go from job to job.

mod cache;
mod connect;
mod statistics;
mod zip;

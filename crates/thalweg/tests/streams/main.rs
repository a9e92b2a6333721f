//! Jobs of several streams, sources of several files, and streams that go from job to job.

mod cache;
mod connect;
mod files_in_time;
mod statistics;
mod waiting;
mod zip;

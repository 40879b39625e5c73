//! The command-line program as a user runs it, and what is compared by means of it: other libraries, real matrices, a driver for AMD GPUs.

#[path = "../../../tests/common/mod.rs"]
mod common;

mod cli;
mod hip;
mod matrices;
mod oracles;
mod peers;

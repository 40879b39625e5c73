//! The C API of AmgX over Terrace: programs that were written for AmgX run on it when they are compiled against `include/amgx_c.h` and linked with
//! `libamgxsh.so`. There is no mathematics here. `docs/migrating.md` says what differs.
//!
//! One file for each type of handle: [`config`], [`resources`], [`matrix`], [`vector`], [`solver`], [`distributed`], [`eigensolver`]; [`io`] reads and
//! writes systems, [`library`] is what has no handle; [`mpi`] finds the [`ranks`] of a program, and [`division`] says which rows are whose. An exported function is one call of [`boundary::call`], which turns failures and panics into codes.

// The names are those of C; what a caller must guarantee is said for C, in the header.
#![allow(non_camel_case_types, clippy::missing_safety_doc)]

mod boundary;
mod config;
mod distributed;
mod division;
mod eigensolver;
mod handles;
mod io;
mod library;
mod matrix;
mod mode;
mod mpi;
mod native;
mod printing;
mod ranks;
mod resources;
mod solver;
mod vector;

//! What the library promises to programs in other languages and to readers: the C ABI, its header and symbols, the Fortran module, installed trees,
//! examples, and the pages that are made from tables; and the layers that the sources keep to.

#[path = "../common/mod.rs"]
mod common;

mod allocations;
mod c_programs;
mod consumers;
mod cpp_header;
mod docs;
mod examples;
mod exports;
mod fortran_module;
mod header;
mod hypre;
mod layers;
mod petsc;
mod ranks;

//! The library as a Rust program uses it, on the host and on GPUs. One program, because each links the whole library: only what needs a process of
//! its own (`allocations`, `failed_allocations`, `gpu_memory.rs`) is another.

#[path = "../common/mod.rs"]
mod common;

mod api_calls;
mod determinism;
mod direct;
mod extreme_values;
mod fsai;
mod functions;
mod gallery_solves;
mod gpu;
mod gpu_precision;
mod gpu_setup;
mod gpu_setup_memory;
mod gpu_stress;
mod harness;
mod honest;
mod interface;
mod least_squares;
mod matrix_market;
mod mechanics;
mod null_space;
mod precision;
mod ranks;
mod readers;
mod reorder;
mod several_right_hand_sides;
mod solver;
mod stress;
mod structured;
mod transposed;
mod transposed_preconditioners;
mod update;

//! The host backend: vectors are slices, loops run on the context's threads. It is the oracle for every other backend,
//! so each kernel here gives the same bits whatever the number of threads.

pub mod affinity;
pub mod aggressive;
mod any_matrix;
pub mod arnoldi;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx512;
pub mod bicgstab_step;
mod block_rows;
pub mod cg_step;
pub mod classical_modified;
pub mod dense;
pub mod diagonal;
pub mod dilu;
pub mod direct;
pub mod distributed;
pub mod eigenvalue;
pub mod energy;
pub mod extended_i;
pub mod filtered;
pub mod fsai;
pub mod functions;
pub mod galerkin;
pub mod gauss_seidel;
pub mod hmis;
pub mod interleaved_sum;
pub mod l1_gauss_seidel;
pub mod lanczos;
pub mod least_squares;
mod matrix;
pub mod mis2;
pub mod mm_ext;
pub mod multicolour;
pub mod multipass;
pub mod multivector;
mod multivector_rows;
mod multivector_step;
mod near_null_space;
pub mod operator;
pub mod pairwise;
pub mod pmis;
mod prefetch;
pub mod registers;
pub mod reorder;
pub mod rounding_loss;
pub mod rows;
pub mod scaling;
mod setup;
mod simd;
pub mod smoothed;
pub mod sparse_direct;
pub mod spgemm;
mod spgemm_block_products;
mod spgemm_masks;
mod spgemm_numeric;
pub mod spgemm_symbolic;
pub mod splitting;
pub mod spmv;
pub mod spmv_transposed;
pub mod stencil;
mod storage_factory;
mod store;
pub mod strength;
pub mod symmetry;
pub mod tentative;
#[cfg(feature = "unit-tests")]
mod testing;
pub mod transpose;
pub mod truncate;
pub mod two_stage;
pub mod vector;

use crate::comm::Distribution;
use crate::threads::Threads;
pub(crate) use distributed::divided::DividedMatrix;
pub(crate) use matrix::{HostMatrix, HostPattern};
use std::sync::Arc;

/// The CPU, with threads; perhaps one of several ranks.
#[derive(Clone)]
pub struct Host {
    threads: Threads,
    /// The ranks that have the other parts of vectors.
    over: Option<Arc<Distribution>>,
    /// The ranks that have the other rows of matrices of set-up.
    dividing: Option<Arc<Distribution>>,
}

impl Host {
    /// These threads, such as those of a context.
    pub fn new(threads: &impl AsRef<Threads>) -> Host {
        Host { threads: threads.as_ref().clone(), over: None, dividing: None }
    }

    /// The same as one of several ranks.
    pub(crate) fn over(&self, over: &Arc<Distribution>) -> Host {
        Host { threads: self.threads.clone(), over: Some(Arc::clone(over)), dividing: None }
    }

    /// The same for a set-up that is divided among ranks.
    pub(crate) fn dividing(&self, over: &Arc<Distribution>) -> Host {
        Host { threads: self.threads.clone(), over: None, dividing: Some(Arc::clone(over)) }
    }

    /// The same without the other ranks.
    pub(crate) fn alone(&self) -> Host {
        Host { threads: self.threads.clone(), over: None, dividing: None }
    }

    /// Runs `work` on the threads; inline when already there, or when it is too little.
    pub(crate) fn run<R: Send>(&self, operations: usize, work: impl FnOnce() -> R + Send) -> R {
        self.threads.run(operations, work)
    }
}

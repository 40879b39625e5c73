//! Communicators that fail on one rank, and ranks that stay away: every rank returns an error.

use super::*;
use std::sync::Mutex;
use terrace::comm::{Part, Reduction};

/// A communicator whose operations fail from some operation on, on one rank. The others have to notice.
pub(super) struct Faulty {
    pub inner: Arc<dyn Communicator>,
    pub left: Arc<Mutex<usize>>,
}

impl Faulty {
    fn check(&self) -> Result<()> {
        let mut left = self.left.lock().unwrap();
        if *left == 0 {
            return Err(Error::new(Status::Callback, "the network is down"));
        }
        *left -= 1;
        Ok(())
    }
}

impl Communicator for Faulty {
    fn rank(&self) -> usize {
        self.inner.rank()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn exchange(
        &self,
        tag: i32,
        sends: &[Part],
        outgoing: &[u8],
        receives: &[Part],
        incoming: &mut [u8],
        meanwhile: &mut dyn FnMut(),
    ) -> Result<()> {
        self.check()?;
        self.inner.exchange(tag, sends, outgoing, receives, incoming, meanwhile)
    }

    fn all_gather(&self, own: &[u8], lengths: &[usize], all: &mut [u8]) -> Result<()> {
        self.check()?;
        self.inner.all_gather(own, lengths, all)
    }

    fn all_reduce(&self, numbers: &mut [i64], reduction: Reduction) -> Result<()> {
        self.check()?;
        self.inner.all_reduce(numbers, reduction)
    }

    fn barrier(&self) -> Result<()> {
        self.inner.barrier()
    }

    fn duplicate(&self) -> Result<Arc<dyn Communicator>> {
        Ok(Arc::new(Faulty { inner: self.inner.duplicate()?, left: Arc::clone(&self.left) }))
    }

    fn revoke(&self) {
        self.inner.revoke();
    }

    fn set_timeout(&self, seconds: f64) -> Result<()> {
        self.inner.set_timeout(seconds)
    }
}

/// Whether all went well, when the communicator of rank 1 fails after so many operations. Returns at all, too.
fn survives(a: &Csr<f64>, operations: usize) -> bool {
    let starts = evenly(a.rows, 3);
    let b = right_hand_side(a.rows);
    let left = Arc::new(Mutex::new(operations));
    let ranks = threads(3).into_iter().map(|inner| -> Arc<dyn Communicator> {
        if inner.rank() == 1 { Arc::new(Faulty { inner, left: Arc::clone(&left) }) } else { inner }
    });
    let results = on_ranks(ranks.collect(), |context, rank| -> Result<Status> {
        let own = starts[rank]..starts[rank + 1];
        let matrix = Arc::new(Matrix::distributed(context, Ok(given(a, own.clone())))?);
        let mut solver =
            Solver::new(context, &config(&[("amg.coarsest.max_rows", "20"), ("amg.ranks.gathered_rows", "40")]));
        solver.setup(Some(&matrix))?;
        let mut x = vec![0.0; own.len()];
        solver.solve(&b[own], &mut x, Guess::Zero)
    });
    let failed = results.iter().filter(|result| result.is_err()).count();
    assert!(failed == 0 || failed == 3, "after {operations} operations: {results:?}");
    failed == 0
}

#[test]
fn a_communicator_that_fails_on_one_rank_in_any_phase_fails_on_all() {
    let a = matrix("poisson5:12");
    let mut operations = 0;
    while !survives(&a, operations) {
        // Creation and set-up one by one, then samples of the solve.
        operations += if operations < 150 { 3 } else { 29 };
        assert!(operations < 100_000);
    }
    assert!(operations > 60, "{operations}");
}

#[test]
fn a_rank_that_stays_away_is_waited_for_as_long_as_the_option_says() {
    let a = matrix("poisson5:12");
    let starts = evenly(a.rows, 3);
    let b = right_hand_side(a.rows);
    // Rank 1 takes no part in set-up, or in the second solve, until the others have given up.
    for (away_from_setup, options) in [(true, &[][..]), (false, &[]), (false, &[("amg.ranks.gathered_rows", "40")])] {
        let (done, start) = (std::sync::Barrier::new(3), std::time::Instant::now());
        let options = [options, &[("comm.timeout", "0.1"), ("amg.coarsest.max_rows", "20")]].concat();
        let results = on_ranks(threads(3), |context, rank| {
            let own = starts[rank]..starts[rank + 1];
            let matrix = Arc::new(Matrix::distributed(context, Ok(given(&a, own.clone()))).unwrap());
            let mut solver = Solver::new(context, &config(&options));
            let mut x = vec![0.0; own.len()];
            if away_from_setup && rank == 1 {
                done.wait();
                return solver.setup(Some(&matrix));
            }
            let mut result = solver.setup(Some(&matrix));
            if !away_from_setup {
                result.unwrap();
                solver.solve(&b[own.clone()], &mut x, Guess::Zero).unwrap();
                if rank == 1 {
                    done.wait();
                }
                result = solver.solve(&b[own], &mut x, Guess::Zero).map(|_| ());
            }
            if rank != 1 {
                done.wait();
            }
            result
        });
        for (rank, result) in results.into_iter().enumerate() {
            let error = result.unwrap_err();
            assert_eq!(error.status, Status::Callback, "rank {rank}: {error}");
        }
        assert!(start.elapsed().as_secs() < 30, "{options:?}");
    }
}

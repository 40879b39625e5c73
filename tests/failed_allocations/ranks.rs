//! Solves over ranks.

use super::allocator::{COUNTED, UNTIL};
use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;
use terrace::capi::*;
use terrace::error::Status;
use terrace::sparse::Csr;

/// How many ranks.
const RANKS: usize = 3;

/// A table that a thread may take along.
struct Sent(terrace_communicator);

// SAFETY: the functions may be called from any thread, one at a time.
unsafe impl Send for Sent {}

/// Ranks that are threads, from their rows to a solution. Each large allocation of any rank fails in turn: all ranks then fail in the same call,
/// those that had memory because of the one that had none.
pub fn over_ranks(a: &Csr<f64>, options: &CStr, most: usize) {
    let columns: Vec<i64> = a.columns.iter().map(|column| i64::from(*column)).collect();
    let run = |until: usize| -> (Vec<Vec<terrace_status>>, usize) {
        // SAFETY: tables of null pointers are values.
        let mut tables = vec![unsafe { std::mem::zeroed::<terrace_communicator>() }; RANKS];
        // SAFETY: as many tables.
        assert_eq!(unsafe { terrace_threads_communicator(RANKS as i32, tables.as_mut_ptr()) }, 0);
        // Ready, go, finished, away.
        let barrier = std::sync::Barrier::new(RANKS + 1);
        let work = |rank: usize, Sent(table): Sent| {
            let (first, end) = (a.rows * rank / RANKS, a.rows * (rank + 1) / RANKS);
            let (rows, begin) = (end - first, a.offsets[first] as usize);
            let offsets: Vec<i64> = a.offsets[first..=end].iter().map(|offset| offset - begin as i64).collect();
            let (b, mut x) = (vec![1.0_f64; rows], vec![0.0_f64; rows]);
            let (mut context, mut config, mut solver, mut matrix) = (null_mut(), null_mut(), null_mut(), null_mut());
            let mut statuses = Vec::with_capacity(3);
            // SAFETY: pointers to locals, and arrays of the lengths that are told.
            unsafe {
                assert_eq!(terrace_context_create(c"host:1".as_ptr(), &mut context), 0);
                assert_eq!(terrace_context_set_communicator(context, &table), 0);
                assert_eq!(terrace_config_create(context, &mut config), 0);
                assert_eq!(terrace_config_load_json(config, options.as_ptr()), 0);
                assert_eq!(terrace_solver_create(context, config, &mut solver), 0);
                barrier.wait();
                barrier.wait();
                statuses.push(terrace_matrix_create_csr_distributed(
                    context,
                    a.rows as i64,
                    first as i64,
                    rows as i64,
                    TERRACE_I64,
                    offsets.as_ptr().cast(),
                    TERRACE_I64,
                    columns[begin..].as_ptr().cast(),
                    TERRACE_F64,
                    a.values[begin..].as_ptr().cast(),
                    0,
                    TERRACE_COPY,
                    &mut matrix,
                ));
                if statuses == [0] {
                    statuses.push(terrace_solver_setup(solver, matrix));
                }
                if statuses == [0, 0] {
                    let (b, x) = (b.as_ptr().cast(), x.as_mut_ptr().cast());
                    statuses.push(terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS));
                }
                barrier.wait();
                barrier.wait();
                terrace_solver_destroy(solver);
                terrace_matrix_destroy(matrix);
                terrace_config_destroy(config);
                terrace_context_destroy(context);
                table.free.unwrap()(table.user);
            }
            statuses
        };
        let work = &work;
        std::thread::scope(|scope| {
            let tables = tables.into_iter().map(Sent).enumerate();
            let started: Vec<_> = tables.map(|(rank, table)| scope.spawn(move || work(rank, table))).collect();
            barrier.wait();
            COUNTED.store(0, Relaxed);
            UNTIL.store(until, Relaxed);
            barrier.wait();
            barrier.wait();
            UNTIL.store(0, Relaxed);
            let counted = COUNTED.load(Relaxed);
            barrier.wait();
            (started.into_iter().map(|thread| thread.join().unwrap()).collect(), counted)
        })
    };
    let (statuses, count) = run(0);
    assert_eq!(statuses, vec![vec![0, 0, 0]; RANKS], "{options:?}");
    let most = if std::env::var_os("TERRACE_DEEP").is_some() { usize::MAX } else { most };
    // Where the memory is that of the communicator, its function fails, and all ranks tell that.
    let (mut phases, mut told) = ([0; 3], 0);
    for k in (1..=count).step_by(count.div_ceil(most).max(1)) {
        let (statuses, _) = run(k);
        let last: Vec<terrace_status> = statuses.iter().map(|of| *of.last().unwrap()).collect();
        let same = statuses.iter().all(|of| of.len() == statuses[0].len() && (of.last() == Some(&0)) == (last[0] == 0));
        let accepted = [Status::Success.code(), Status::OutOfMemory.code(), Status::Callback.code()];
        assert!(
            same && last.iter().all(|status| accepted.contains(status)),
            "{options:?}, allocation {k} of {count}: {statuses:?}"
        );
        if last[0] != 0 {
            told += usize::from(last.contains(&Status::OutOfMemory.code()));
            phases[statuses[0].len() - 1] += 1;
        }
    }
    // A handful of allocations need not reach every phase, nor memory of Terrace's own.
    if most < 8 {
        return;
    }
    let failures: usize = phases.iter().sum();
    assert!(phases[0] > 0 && phases[1] > 0 && 2 * told > failures, "{options:?}: {told} of {failures}, {phases:?}");
}

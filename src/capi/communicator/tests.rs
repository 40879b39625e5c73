//! Ranks through the C ABI.

use super::super::testing::*;
use super::super::*;
use super::*;
use crate::error::Status;
use std::ptr::{null, null_mut};

/// A table that a thread may take along.
struct Sent(terrace_communicator);

// SAFETY: the functions may be called from any thread, one at a time.
unsafe impl Send for Sent {}

fn tables(size: i32) -> Vec<Sent> {
    // SAFETY: tables of null pointers are values.
    let empty: terrace_communicator = unsafe { std::mem::zeroed() };
    let mut tables = vec![empty; size as usize];
    assert_eq!(abi!(terrace_threads_communicator(size, tables.as_mut_ptr())), 0);
    tables.into_iter().map(Sent).collect()
}

/// Runs `work` on each rank with a context of it; results in the order of the ranks.
fn on_ranks<R: Send>(size: i32, work: impl Fn(&TestContext, usize) -> R + Sync) -> Vec<R> {
    let run = |rank: usize, table: Sent| {
        let Sent(table) = table;
        let context = TestContext::new();
        assert_eq!(abi!(terrace_context_set_communicator(context.0, &table)), 0, "{}", context.last_error());
        let result = work(&context, rank);
        drop(context);
        // SAFETY: the table is not used again.
        unsafe { table.free.unwrap()(table.user) };
        result
    };
    let run = &run;
    std::thread::scope(|scope| {
        let ranks = tables(size).into_iter().enumerate();
        let started: Vec<_> = ranks.map(|(rank, table)| scope.spawn(move || run(rank, table))).collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Two rows of a tridiagonal matrix of `total` rows, counted from 1, with 32-bit indices.
fn create(
    context: &TestContext,
    total: i64,
    rank: usize,
    columns: Option<&[i32]>,
) -> (terrace_status, *mut terrace_matrix) {
    let (first, mut offsets, mut own, mut values) = (2 * rank as i64 + 1, vec![1_i32], Vec::new(), Vec::new());
    for row in first..first + 2 {
        for (column, value) in [(row - 1, -1.0), (row, 3.0), (row + 1, -1.0)] {
            if (1..=total).contains(&column) {
                own.push(column as i32);
                values.push(value);
            }
        }
        offsets.push(own.len() as i32 + 1);
    }
    let columns = columns.unwrap_or(&own);
    let mut matrix = null_mut();
    let status = abi!(terrace_matrix_create_csr_distributed(
        context.0,
        total,
        first,
        2,
        TERRACE_I32,
        offsets.as_ptr().cast(),
        TERRACE_I32,
        if columns.is_empty() { null() } else { columns.as_ptr().cast() },
        TERRACE_F64,
        values.as_ptr().cast(),
        1,
        TERRACE_COPY,
        &mut matrix
    ));
    (status, matrix)
}

#[test]
fn three_ranks_solve_with_their_rows() {
    let parts = on_ranks(3, |context, rank| {
        let (status, matrix) = create(context, 6, rank, None);
        assert_eq!(status, 0, "{}", context.last_error());
        let (mut rows, mut cols, mut solver) = (0, 0, null_mut());
        assert_eq!(abi!(terrace_matrix_get_size(context.0, matrix, &mut rows, &mut cols, null_mut(), null_mut())), 0);
        assert_eq!((rows, cols), (2, 6));
        assert_eq!(abi!(terrace_solver_create(context.0, null(), &mut solver)), 0);
        assert_eq!(abi!(terrace_solver_setup(solver, matrix)), 0, "{}", context.last_error());
        let (b, mut x) = ([1.0_f64, 1.0], [f64::NAN; 2]);
        let (b, into) = (b.as_ptr().cast(), x.as_mut_ptr().cast());
        // Rank 1 forgets its right-hand side, which all ranks learn.
        let lost = if rank == 1 { null() } else { b };
        let status = abi!(terrace_solver_solve(solver, TERRACE_F64, 1, lost, into, TERRACE_ZERO_GUESS));
        assert_eq!(status, Status::NullArgument.code());
        let expected = if rank == 1 { "b is null" } else { "rank 1 of 3: b is null" };
        assert_eq!(context.last_error(), expected);
        let status = abi!(terrace_solver_solve(solver, TERRACE_F64, 2, b, into, TERRACE_ZERO_GUESS));
        assert_eq!(status, Status::Unsupported.code(), "{}", context.last_error());
        assert_eq!(abi!(terrace_solver_solve(solver, TERRACE_F64, 1, b, into, TERRACE_ZERO_GUESS)), 0);
        let status = abi!(terrace_solver_solve_transposed(solver, TERRACE_F64, 1, b, into, TERRACE_ZERO_GUESS));
        assert_eq!(status, Status::Unsupported.code());

        let mut amg = null_mut();
        assert_eq!(abi!(terrace_amg_setup(context.0, matrix, null(), &mut amg)), Status::Unsupported.code());
        assert!(context.last_error().contains("a solver is"), "{}", context.last_error());
        let status = abi!(terrace_matrix_apply(context.0, matrix, TERRACE_F64, 1.0, b, 0.0, into));
        assert_eq!(status, Status::Unsupported.code());
        assert_eq!(abi!(terrace_solver_destroy(solver)), 0);
        assert_eq!(abi!(terrace_matrix_destroy(matrix)), 0);
        x
    });
    let x = parts.concat();
    for i in 0..6_usize {
        let neighbours = [i.wrapping_sub(1), i + 1].iter().filter_map(|j| x.get(*j)).sum::<f64>();
        assert!((3.0 * x[i] - neighbours - 1.0).abs() < 1e-7, "{x:?}");
    }
}

#[test]
fn wrong_arguments_of_one_rank_are_errors_of_all() {
    let sentences = on_ranks(2, |context, rank| {
        let (status, matrix) = create(context, 4, rank, (rank == 1).then_some(&[]));
        assert_eq!((status, matrix), (Status::NullArgument.code(), null_mut()));
        let first = context.last_error();
        let (status, _) = create(context, 4, rank, (rank == 0).then_some(&[1, 2, 1, 2, 5]));
        assert_eq!(status, Status::MatrixStructure.code());
        (first, context.last_error())
    });
    assert_eq!(sentences[0].0, "rank 1 of 2: columns is null");
    assert_eq!(sentences[1].0, "columns is null");
    assert!(sentences[1].1.starts_with("rank 0 of 2: row 2 has column 5; the matrix has 4"), "{}", sentences[1].1);
}

#[test]
fn tables_are_checked() {
    let context = TestContext::new();
    assert_eq!(abi!(terrace_threads_communicator(0, null_mut())), Status::InvalidArgument.code());
    assert_eq!(abi!(terrace_threads_communicator(2, null_mut())), Status::NullArgument.code());
    let Sent(mut table) = tables(1).remove(0);
    let wait_all = table.wait_all.take();
    assert_eq!(abi!(terrace_context_set_communicator(context.0, &table)), Status::NullArgument.code());
    assert_eq!(context.last_error(), "communicator->wait_all is null");
    table.wait_all = wait_all;
    let on_gpu = TestContext::on(c"sim");
    assert_eq!(abi!(terrace_context_set_communicator(on_gpu.0, &table)), 0, "{}", on_gpu.last_error());
    assert_eq!(abi!(terrace_context_set_communicator(on_gpu.0, null())), 0);
    assert_eq!(create(&context, 2, 0, None).0, Status::NotSetUp.code());
    assert_eq!(abi!(terrace_context_set_communicator(context.0, &table)), 0);
    let (status, matrix) = create(&context, 2, 0, None);
    assert_eq!(status, 0, "{}", context.last_error());
    assert_eq!(abi!(terrace_matrix_destroy(matrix)), 0);
    assert_eq!(abi!(terrace_context_set_communicator(context.0, null())), 0);
    assert_eq!(create(&context, 2, 0, None).0, Status::NotSetUp.code());
    // SAFETY: the table is not used again.
    unsafe { table.free.unwrap()(table.user) };
}

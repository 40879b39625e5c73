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

/// A table whose second message cannot be sent, and that cannot be revoked. `user` counts what is under way.
fn without_revoke(under_way: &mut i32) -> terrace_communicator {
    unsafe extern "C" fn one(_: *mut c_void) -> i32 {
        1
    }
    unsafe extern "C" fn end(_: *mut c_void) {}
    unsafe extern "C" fn receive(
        user: *mut c_void,
        _: *mut c_void,
        _: usize,
        _: i32,
        _: i32,
        _: *mut *mut c_void,
    ) -> i32 {
        // SAFETY: the counter that the table was made with.
        unsafe { *user.cast::<i32>() += 1 };
        0
    }
    unsafe extern "C" fn send(_: *mut c_void, _: *const c_void, _: usize, _: i32, _: i32, _: *mut *mut c_void) -> i32 {
        7
    }
    unsafe extern "C" fn wait_all(user: *mut c_void, count: i32, _: *mut *mut c_void) -> i32 {
        // SAFETY: as above.
        unsafe { *user.cast::<i32>() -= count };
        0
    }
    unsafe extern "C" fn reduce(_: *mut c_void, _: *const i64, _: *mut i64, _: i32, _: i32) -> i32 {
        7
    }
    unsafe extern "C" fn gather(
        _: *mut c_void,
        _: *const c_void,
        _: usize,
        _: *mut c_void,
        _: *const usize,
        _: *const usize,
    ) -> i32 {
        7
    }
    unsafe extern "C" fn duplicate(_: *mut c_void, _: *mut c_void) -> i32 {
        7
    }
    terrace_communicator {
        user: (&raw mut *under_way).cast(),
        rank: Some(one),
        size: Some(one),
        send: Some(send),
        receive: Some(receive),
        wait_all: Some(wait_all),
        all_reduce: Some(reduce),
        all_gather: Some(gather),
        barrier: Some(one),
        duplicate: Some(duplicate),
        revoke: None,
        free: Some(end),
        timeout: None,
    }
}

#[test]
fn a_message_that_cannot_be_sent_leaves_none_under_way() {
    use crate::comm::{Communicator, Part};
    let mut under_way = 0;
    let functions = without_revoke(&mut under_way);
    // SAFETY: the functions are those that the documentation of the table describes.
    let table = unsafe { Table::lent(&functions) }.unwrap();
    let (parts, mut incoming) = ([0, 1].map(|begin| Part { rank: 0, begin, length: 1 }), [0; 2]);
    let error = table.exchange(0, &parts, &[1, 2], &parts, &mut incoming, &mut || ()).unwrap_err();
    assert_eq!((error.status, under_way), (Status::Callback, 0), "{error}");
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
        // Two right-hand sides.
        let (b, mut x) = ([1.0_f64, 1.0, 2.0, 2.0], [f64::NAN; 4]);
        let (b, into) = (b.as_ptr().cast(), x.as_mut_ptr().cast());
        // Rank 1 forgets its right-hand side, which all ranks learn.
        let lost = if rank == 1 { null() } else { b };
        let status = abi!(terrace_solver_solve(solver, TERRACE_F64, 1, lost, into, TERRACE_ZERO_GUESS));
        assert_eq!(status, Status::NullArgument.code());
        let expected = if rank == 1 { "b is null" } else { "rank 1 of 3: b is null" };
        assert_eq!(context.last_error(), expected);
        assert_eq!(abi!(terrace_solver_solve(solver, TERRACE_F64, 2, b, into, TERRACE_ZERO_GUESS)), 0);
        let status = abi!(terrace_solver_solve_transposed(solver, TERRACE_F64, 1, b, into, TERRACE_ZERO_GUESS));
        assert_eq!(status, Status::Unsupported.code());

        // Without a solver: so few rows are solved by the inverse of the coarsest level.
        let (mut amg, mut fsai, mut bytes) = (null_mut(), null_mut(), 0);
        assert_eq!(abi!(terrace_amg_setup(context.0, matrix, null(), &mut amg)), 0, "{}", context.last_error());
        assert_eq!((abi!(terrace_amg_get_rows(amg, &mut rows)), rows), (0, 2));
        let mut y = [f64::NAN; 2];
        let status = abi!(terrace_amg_apply(amg, TERRACE_F64, lost, y.as_mut_ptr().cast()));
        assert_eq!((status, context.last_error().as_str()), (Status::NullArgument.code(), expected));
        assert_eq!(abi!(terrace_amg_apply(amg, TERRACE_F64, b, y.as_mut_ptr().cast())), 0);
        assert!(y.iter().zip(&x).all(|(y, x)| (y - x).abs() < 1e-7), "{y:?} {x:?}");
        // The transpose is refused on every rank, whatever its arguments are.
        let status = abi!(terrace_amg_apply_transposed(amg, TERRACE_F64, lost, y.as_mut_ptr().cast()));
        assert_eq!(status, Status::Unsupported.code());
        assert!(context.last_error().contains("is not available over ranks"), "{}", context.last_error());
        assert_eq!(abi!(terrace_amg_update(amg)), 0);
        assert_eq!(abi!(terrace_amg_destroy(amg)), 0);
        assert_eq!(abi!(terrace_fsai_setup(context.0, matrix, null(), &mut fsai)), 0, "{}", context.last_error());
        assert_eq!(abi!(terrace_fsai_apply(fsai, TERRACE_F64, b, y.as_mut_ptr().cast())), 0);
        assert!(y.iter().zip(&x).all(|(y, x)| (y - x).abs() < 0.2), "{y:?} {x:?}");
        let status = abi!(terrace_fsai_apply_transposed(fsai, TERRACE_F64, b, y.as_mut_ptr().cast()));
        assert_eq!(status, Status::Unsupported.code());
        assert_eq!(abi!(terrace_fsai_destroy(fsai)), 0);
        let status = abi!(terrace_amg_memory_estimate(context.0, matrix, null(), &mut bytes));
        assert_eq!(status, Status::Unsupported.code());
        let status = abi!(terrace_matrix_apply(context.0, matrix, TERRACE_F64, 1.0, b, 0.0, into));
        assert_eq!(status, Status::Unsupported.code());
        assert_eq!(abi!(terrace_solver_destroy(solver)), 0);
        assert_eq!(abi!(terrace_matrix_destroy(matrix)), 0);
        x
    });
    for (k, b) in [1.0, 2.0].into_iter().enumerate() {
        let x: Vec<f64> = parts.iter().flat_map(|part| part[2 * k..][..2].to_vec()).collect();
        for i in 0..6_usize {
            let neighbours = [i.wrapping_sub(1), i + 1].iter().filter_map(|j| x.get(*j)).sum::<f64>();
            assert!((3.0 * x[i] - neighbours - b).abs() < 1e-7 * b, "{x:?}");
        }
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

/// The tridiagonal matrix of `create` in two parts, the own columns from the right to the left, and with a column that no row has.
fn create_in_parts(context: &TestContext, rank: usize, map: Option<&[i64]>) -> (terrace_status, *mut terrace_matrix) {
    let (first, total) = (2 * rank as i64, 6);
    let below = first > 0;
    let above = first + 2 < total;
    let (offsets, columns, values) = ([0_i32, 2, 4], [1_i32, 0, 1, 0], [-1.0_f64, 3.0, 3.0, -1.0]);
    let of_map: Vec<i64> = [above.then_some(first + 2), Some((first + 3) % 6), below.then_some(first - 1)]
        .into_iter()
        .flatten()
        .filter(|j| !(first..first + 2).contains(j))
        .collect();
    let map = map.unwrap_or(&of_map);
    let place = |column: i64| of_map.iter().position(|j| *j == column).map(|k| k as i32);
    let mut other_columns: Vec<i32> = below.then(|| place(first - 1)).flatten().into_iter().collect();
    let other_offsets = [0, other_columns.len() as i32, other_columns.len() as i32 + i32::from(above)];
    other_columns.extend(above.then(|| place(first + 2)).flatten());
    let other_values = vec![-1.0_f64; other_columns.len()];
    let mut matrix = null_mut();
    let status = abi!(terrace_matrix_create_parcsr(
        context.0,
        total,
        first,
        2,
        TERRACE_I32,
        offsets.as_ptr().cast(),
        columns.as_ptr().cast(),
        other_offsets.as_ptr().cast(),
        other_columns.as_ptr().cast(),
        map.len() as i64,
        TERRACE_I64,
        map.as_ptr().cast(),
        TERRACE_F64,
        values.as_ptr().cast(),
        other_values.as_ptr().cast(),
        &mut matrix
    ));
    (status, matrix)
}

/// The same in blocks of 2 x 2, all of which are stored.
fn create_in_blocks(
    context: &TestContext,
    rank: usize,
    flags: terrace_matrix_flags,
) -> (terrace_status, *mut terrace_matrix) {
    let blocks: Vec<i32> =
        (0..3).filter(|block: &i32| block.abs_diff(rank as i32) <= 1).map(|block| block + 1).collect();
    let mut values = Vec::new();
    for block in &blocks {
        for row in [2 * rank as i32, 2 * rank as i32 + 1] {
            for column in [2 * block - 2, 2 * block - 1] {
                values.push([3.0_f32, -1.0, 0.0, 0.0, 0.0][row.abs_diff(column).min(4) as usize]);
            }
        }
    }
    let offsets = [1_i64, blocks.len() as i64 + 1];
    let mut matrix = null_mut();
    let status = abi!(terrace_matrix_create_bsr_distributed(
        context.0,
        3,
        rank as i64 + 1,
        1,
        2,
        TERRACE_I64,
        offsets.as_ptr().cast(),
        TERRACE_I32,
        blocks.as_ptr().cast(),
        TERRACE_F32,
        values.as_ptr().cast(),
        1,
        flags,
        &mut matrix
    ));
    (status, matrix)
}

/// Set-up and a solve for ones.
fn solved(context: &TestContext, matrix: *mut terrace_matrix) -> [f64; 2] {
    let mut solver = null_mut();
    assert_eq!(abi!(terrace_solver_create(context.0, null(), &mut solver)), 0);
    assert_eq!(abi!(terrace_solver_setup(solver, matrix)), 0, "{}", context.last_error());
    let (b, mut x) = ([1.0_f64; 2], [f64::NAN; 2]);
    let (b, into) = (b.as_ptr().cast(), x.as_mut_ptr().cast());
    assert_eq!(abi!(terrace_solver_solve(solver, TERRACE_F64, 1, b, into, TERRACE_ZERO_GUESS)), 0);
    assert_eq!(abi!(terrace_solver_destroy(solver)), 0);
    x
}

#[test]
fn parts_and_blocks_are_the_rows_that_they_stand_for() {
    let parts = on_ranks(3, |context, rank| {
        let (status, matrix) = create(context, 6, rank, None);
        assert_eq!(status, 0);
        let expected = solved(context, matrix);
        let (status, in_parts) = create_in_parts(context, rank, None);
        assert_eq!(status, 0, "{}", context.last_error());
        assert_eq!(solved(context, in_parts), expected);
        let (status, in_blocks) = create_in_blocks(context, rank, TERRACE_COPY);
        assert_eq!(status, 0, "{}", context.last_error());
        let found = solved(context, in_blocks);
        assert!(found.iter().zip(&expected).all(|(f, e)| (f - e).abs() < 1e-6), "{found:?} {expected:?}");

        // New values have the order of creation: twice the matrix is half the solution.
        let mut entries = 0;
        let size = |m, entries: &mut i64| {
            abi!(terrace_matrix_get_size(context.0, m, null_mut(), null_mut(), entries, null_mut()))
        };
        assert_eq!(size(in_parts, &mut entries), 0);
        let others = entries as usize - 4;
        let mut doubled = vec![-2.0_f64, 6.0, 6.0, -2.0];
        doubled.extend(vec![-2.0; others]);
        let status =
            abi!(terrace_matrix_update_values(context.0, in_parts, TERRACE_F64, doubled.as_ptr().cast(), entries));
        assert_eq!(status, 0, "{}", context.last_error());
        let found = solved(context, in_parts);
        assert!(found.iter().zip(&expected).all(|(f, e)| (2.0 * f - e).abs() < 1e-7), "{found:?} {expected:?}");
        for matrix in [matrix, in_parts, in_blocks] {
            assert_eq!(abi!(terrace_matrix_destroy(matrix)), 0);
        }
        expected
    });
    assert!((3.0 * parts[0][0] - parts[0][1] - 1.0).abs() < 1e-7);
}

#[test]
fn wrong_parts_of_one_rank_are_errors_of_all() {
    on_ranks(3, |context, rank| {
        // A map with a row of the rank itself, and one that is too short.
        let (status, _) = create_in_parts(context, rank, (rank == 1).then_some(&[4, 5, 2]));
        assert_eq!(status, Status::MatrixStructure.code());
        let sentence = context.last_error();
        assert!(
            sentence.contains("column_map[2] is 2; accepted: 0 to 5, but for rows 2 to 3 of this rank"),
            "{sentence}"
        );
        let (status, _) = create_in_parts(context, rank, (rank == 1).then_some(&[4]));
        assert_eq!(status, Status::MatrixStructure.code());
        assert!(
            context.last_error().contains("the off-diagonal part: row 2 has column 2 of 1"),
            "{}",
            context.last_error()
        );
        let (status, _) = create_in_blocks(context, rank, if rank == 0 { TERRACE_BORROW } else { TERRACE_COPY });
        assert_eq!(status, Status::Unsupported.code());
        assert!(context.last_error().contains("TERRACE_BORROW: blocks over ranks"), "{}", context.last_error());
    });
}

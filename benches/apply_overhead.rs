//! What the C ABI costs: `terrace_amg_apply` against `Amg::apply` on the same hierarchy of a 100-row matrix, where the work itself is
//! small. The bar is 2 microseconds.

use std::hint::black_box;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Instant;
use terrace::capi::*;
use terrace::{Amg, Config, Context, Matrix, gallery};

const BAR_SECONDS: f64 = 2e-6;

/// Seconds of one call of each, as the shortest of many batches. The batches take turns, so that a busy machine slows both.
fn seconds(mut calls: [&mut dyn FnMut(); 2]) -> [f64; 2] {
    const BATCHES: usize = 200;
    const CALLS: u32 = 500;
    let mut shortest = [f64::INFINITY; 2];
    for _ in 0..BATCHES {
        for (call, shortest) in calls.iter_mut().zip(&mut shortest) {
            let start = Instant::now();
            (0..CALLS).for_each(|_| call());
            *shortest = shortest.min(start.elapsed().as_secs_f64() / f64::from(CALLS));
        }
    }
    shortest
}

fn main() {
    let a = gallery::poisson5(10, 10).expect("a small matrix fits");
    let n = a.rows;
    let (b, mut x, mut y) = (vec![1.0; n], vec![0.0; n], vec![0.0; n]);
    let (mut context, mut matrix, mut c_amg) = (null_mut(), null_mut(), null_mut());
    // SAFETY: the arrays live to the end of this function, which destroys the handles.
    unsafe {
        assert_eq!(terrace_context_create(c"host:1".as_ptr(), &mut context), 0);
        let (o, c, v) = (a.offsets.as_ptr().cast(), a.columns.as_ptr().cast(), a.values.as_ptr().cast());
        let (rows, i, j, f) = (n as i64, TERRACE_I64, TERRACE_I32, TERRACE_F64);
        assert_eq!(terrace_matrix_create_csr(context, rows, rows, i, o, j, c, f, v, 0, TERRACE_COPY, &mut matrix), 0);
        assert_eq!(terrace_amg_setup(context, matrix, null_mut(), &mut c_amg), 0);
    }
    let rust_context = Context::new("host:1").expect("one thread can be had");
    let rust_matrix = Arc::new(Matrix::from_csr(a.clone()).expect("the matrix is sound"));
    let mut amg = Amg::setup(&rust_context, &rust_matrix, &Config::new()).expect("the hierarchy can be built");

    let mut through_c = || {
        // SAFETY: as above; black_box keeps the compiler from seeing through the call.
        let status =
            unsafe { terrace_amg_apply(black_box(c_amg), TERRACE_F64, b.as_ptr().cast(), x.as_mut_ptr().cast()) };
        assert_eq!(status, 0);
    };
    let mut direct = || amg.apply(black_box(&b), &mut y).expect("the hierarchy can be applied");
    let [rust, c] = seconds([&mut direct, &mut through_c]);
    assert_eq!(x, y);
    let overhead = c - rust;
    println!("| Amg::apply | terrace_amg_apply | overhead | bar |\n| --- | --- | --- | --- |");
    println!("| {:.3} us | {:.3} us | {:.3} us | {:.3} us |", rust * 1e6, c * 1e6, overhead * 1e6, BAR_SECONDS * 1e6);
    println!(
        "{{\"benchmark\": \"apply_overhead\", \"rust_s\": {rust:e}, \"c_s\": {c:e}, \"overhead_s\": {overhead:e}}}"
    );
    // SAFETY: the handles are not used again.
    unsafe {
        terrace_amg_destroy(c_amg);
        terrace_matrix_destroy(matrix);
        terrace_context_destroy(context);
    }
    assert!(overhead < BAR_SECONDS, "the C ABI costs {overhead:e} s; the bar is {BAR_SECONDS:e} s");
}

//! Matrices: what makes them, and what is done to them.

use super::allocator::fail_each;
use super::objects::{Objects, destroy, product};
use std::ffi::CStr;
use std::ptr::{null, null_mut};
use terrace::capi::*;
use terrace::gallery;
use terrace::sparse::Csr;

/// Calls that make matrices, and that change them.
pub fn matrices(device: &CStr, a: &Csr<f64>, most: usize) {
    let o = Objects::new(a, device, c"{}");
    let what = |name: &str| format!("{} {name}", device.to_string_lossy());
    make(&o, most, &what);
    change(&o, device, most, &what);
}

/// Values that a matrix stores; it has the rows of that of the objects.
fn size(o: &Objects<'_>, matrix: *const terrace_matrix) -> i64 {
    let (mut rows, mut entries) = (0, 0);
    // SAFETY: alive, and pointers to locals.
    let status = unsafe { terrace_matrix_get_size(o.context, matrix, &mut rows, null_mut(), &mut entries, null_mut()) };
    assert_eq!((status, rows), (0, o.a.rows as i64));
    entries
}

/// Matrices from arrays, and from other matrices.
fn make(o: &Objects<'_>, most: usize, what: &dyn Fn(&str) -> String) {
    let a = o.a;
    let mut made = null_mut();
    let size = |matrix: *const terrace_matrix| size(o, matrix);
    let each = |name: &str, make: &dyn Fn() -> Result<*mut terrace_matrix, terrace_status>, entries: i64| {
        let made = std::cell::Cell::new(null_mut::<terrace_matrix>());
        let mut call = || match make() {
            Ok(matrix) => {
                destroy(&mut made.replace(matrix));
                0
            }
            Err(status) => status,
        };
        fail_each(&what(name), most, &mut || (), &mut call, &mut || assert_eq!(size(made.get()), entries));
        destroy(&mut made.get());
    };
    let status = |status: terrace_status, made: *mut terrace_matrix| if status == 0 { Ok(made) } else { Err(status) };
    each("create", &|| o.create(), a.values.len() as i64);
    let transpose = || {
        let mut made = null_mut();
        // SAFETY: alive, and a pointer to a local.
        status(unsafe { terrace_matrix_transpose(o.context, o.matrix, &mut made) }, made)
    };
    each("transpose", &transpose, a.values.len() as i64);
    let multiply = || {
        let mut made = null_mut();
        // SAFETY: alive, and a pointer to a local.
        status(unsafe { terrace_matrix_multiply(o.context, o.matrix, o.matrix, &mut made) }, made)
    };
    made = multiply().unwrap_or(made);
    let entries = size(made);
    destroy(&mut made);
    each("multiply", &multiply, entries);
    let view = a.view();
    let rows: Vec<i32> = (0..a.rows).flat_map(|i| view.row(i).map(move |_| i as i32)).collect();
    let coordinates = || {
        let (mut made, n, count) = (null_mut(), a.rows as i64, rows.len() as i64);
        let (rows, columns, values) = (rows.as_ptr().cast(), a.columns.as_ptr().cast(), a.values.as_ptr().cast());
        let (index, value) = (TERRACE_I32, TERRACE_F64);
        // SAFETY: arrays of `count` elements, and a pointer to a local.
        let code = unsafe {
            terrace_matrix_create_coo(o.context, n, n, count, index, rows, columns, value, values, 0, &mut made)
        };
        status(code, made)
    };
    each("create from coordinates", &coordinates, a.values.len() as i64);
    let (dims, steps, cells) = five_point(a.rows);
    let stencil = || {
        let (mut made, steps, cells) = (null_mut(), steps.as_ptr().cast(), cells.as_ptr().cast());
        let (value, layout, copy) = (TERRACE_F64, TERRACE_BY_CELL, TERRACE_COPY);
        let dims = dims.as_ptr();
        // SAFETY: arrays as long as the numbers say, and a pointer to a local.
        let code = unsafe {
            terrace_matrix_create_stencil(o.context, dims, null(), 1, 5, steps, value, cells, layout, copy, &mut made)
        };
        status(code, made)
    };
    made = stencil().unwrap_or(made);
    let entries = size(made);
    destroy(&mut made);
    each("create from a stencil", &stencil, entries);
}

/// Sizes, steps and values of a five-point stencil on 25 cells along x.
fn five_point(rows: usize) -> ([i64; 3], [[i32; 3]; 5], Vec<f64>) {
    let dims = [25, rows as i64 / 25, 1];
    let steps: [[i32; 3]; 5] = [[0, 0, 0], [-1, 0, 0], [1, 0, 0], [0, -1, 0], [0, 1, 0]];
    let cells = (0..rows as i64)
        .flat_map(|cell| {
            steps.map(|[x, y, _]| {
                let (x, y) = (cell % dims[0] + i64::from(x), cell / dims[0] + i64::from(y));
                let is_inside = (0..dims[0]).contains(&x) && (0..dims[1]).contains(&y);
                if is_inside { -1.0 } else { 0.0 }
            })
        })
        .enumerate()
        .map(|(k, v)| if k % 5 == 0 { 4.0 } else { v })
        .collect();
    (dims, steps, cells)
}

/// What is done to a matrix.
fn change(o: &Objects<'_>, device: &CStr, most: usize, what: &dyn Fn(&str) -> String) {
    let a = o.a;
    let n = a.rows;
    let (numbers, functions) = (vec![1.0; 2 * n], vec![0; n]);
    let x: Vec<f64> = (0..n).map(|i| (i % 5) as f64).collect();
    let y = std::cell::RefCell::new(vec![0.0; n]);
    let (context, matrix) = (o.context, o.matrix);
    let changes = |name: &str, call: &mut dyn FnMut() -> terrace_status, check: &mut dyn FnMut()| {
        let same = &mut || {
            assert_eq!(size(o, matrix), a.values.len() as i64);
            check();
        };
        fail_each(&what(name), most, &mut || (), call, same);
    };
    let is_product = &mut || assert!(y.borrow().iter().zip(product(a, &x)).all(|(y, p)| (y - p).abs() < 1e-12));
    // SAFETY: in all of these, alive, and arrays as long as the matrix has rows or entries.
    unsafe {
        let (values, count) = (a.values.as_ptr().cast(), a.values.len() as i64);
        let update = &mut || terrace_matrix_update_values(context, matrix, TERRACE_F64, values, count);
        changes("new values", update, &mut || ());
        let (from, f64s) = (x.as_ptr().cast(), TERRACE_F64);
        let to = || y.borrow_mut().as_mut_ptr().cast();
        changes("apply", &mut || terrace_matrix_apply(context, matrix, f64s, 1.0, from, 0.0, to()), is_product);
        // It is symmetric.
        let transposed = &mut || terrace_matrix_apply_transposed(context, matrix, f64s, 1.0, from, 0.0, to());
        changes("apply transposed", transposed, is_product);
        let vectors = &mut || terrace_matrix_set_near_null_space(context, matrix, 1, 2, numbers.as_ptr());
        changes("near-null space", vectors, &mut || ());
        let nodes = &mut || terrace_matrix_set_coordinates(context, matrix, 2, n as i64 / 2, numbers.as_ptr());
        changes("coordinates", nodes, &mut || ());
        let of_unknowns = &mut || terrace_matrix_set_functions(context, matrix, 1, functions.as_ptr());
        changes("functions", of_unknowns, &mut || ());
        let dims = [n as i64, 1, 1];
        let line = gallery::parse(&format!("poisson5:{n}x1")).unwrap().matrix;
        let line = Objects::new(&line, device, c"{}");
        let grid = &mut || terrace_matrix_set_grid(context, line.matrix, dims.as_ptr(), null());
        changes("grid", grid, &mut || ());
    }
}

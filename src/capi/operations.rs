//! Operations on matrices: products, transposes, products with vectors, and the arrays of what came out.

use super::borrow::{slice, slice_mut};
use super::boundary::{Out, call, out, required};
use super::device_arrays;
use super::types::{Index, TERRACE_F64, index, precision, terrace_type};
use super::{terrace_context, terrace_matrix, terrace_status};
use crate::context::Context;
use crate::error::{Result, fail};
use crate::gpu::{Gpu, Indices, Slice};
use crate::matrix::{Matrix, Side};
use crate::scalar::{Element, Precision, with_precision};
use std::ffi::c_void;

/// The product C = A B of two sparse matrices, columns ascending in each row.
///
/// - `context`: not NULL; its threads or its GPU compute the product, which is in the context's memory.
/// - `left`, `right`: not NULL; `left` has as many columns as `right` has rows, and blocks of the same size. They may be the same matrix, and on the host or on
///   a GPU; what is not in the context's memory is copied there.
/// - `product`: host, written on success; destroy it with `terrace_matrix_destroy`. f64 unless both are f32; entries whose sum is zero are
///   kept. It may be used like any other matrix: what set-up asks of its values is checked at set-up.
///
/// Sums are added in the order of the row of `left`, so that every device gives the same bits, with one exception: a GPU multiplies matrices whose entries lie in
/// dense tiles of 4 x 4, like those of elasticity, on its matrix cores, where each sum is a chain of fused multiplications and additions in f64, in the order of
/// `left`'s columns. Those are the same bits every time, and differ from the host's by rounding. Returns when the product is computed, or, with a
/// stream of the caller's, when that is under way on the stream. Errors:
/// `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_SIZE_MISMATCH`, `TERRACE_ERROR_UNSUPPORTED` (a matrix over ranks), `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time
/// for each context; the factors may be shared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_matrix_multiply(
    context: *mut terrace_context,
    left: *const terrace_matrix,
    right: *const terrace_matrix,
    product: *mut *mut terrace_matrix,
) -> terrace_status {
    call!(context, |context| {
        let (left, right) = (&required!(left).matrix, &required!(right).matrix);
        let out = out!(product);
        hand_out(left.multiply(&context.state.context, right)?, out)
    })
}

/// The transpose of a matrix, columns ascending in each row.
///
/// - `context`: not NULL; its threads or its GPU compute the transpose, which is in the context's memory.
/// - `matrix`: not NULL; on the host or on a GPU; copied where it is not in the context's memory.
/// - `transpose`: host, written on success; destroy it with `terrace_matrix_destroy`. Blocks are transposed, too.
///
/// Returns when the transpose is computed, or, with a stream of the caller's, when that is under way on the stream. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_UNSUPPORTED` (a matrix over ranks), `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for
/// each context; the matrix may be shared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_matrix_transpose(
    context: *mut terrace_context,
    matrix: *const terrace_matrix,
    transpose: *mut *mut terrace_matrix,
) -> terrace_status {
    call!(context, |context| {
        let matrix = &required!(matrix).matrix;
        let out = out!(transpose);
        hand_out(matrix.transpose(&context.state.context)?, out)
    })
}

/// The product with a vector, y = alpha A x + beta y.
///
/// - `context`: not NULL; its threads or its GPU compute the product.
/// - `matrix`: not NULL. The first product on a GPU brings it into the format that suits it there, which is kept with the matrix until its
///   values change, unless the matrix borrows values in device memory, which may change at any time.
/// - `vector_type`: `TERRACE_F64` or `TERRACE_F32`, of both vectors; any, whatever the precision of the matrix.
/// - `alpha`, `beta`: finite. With a `beta` of 0 `y` is not read.
/// - `x`: an element for every scalar column. Host, or in the memory of the context's GPU. There it is read in the order of the caller's
///   stream, see `terrace_context_set_stream`; without one, what was begun on the default stream comes first, and work on other streams must
///   be done.
/// - `y`: an element for every scalar row, where `x` is, not overlapping it; overwritten.
///
/// Returns when y is written, or, in device memory with a stream of the caller's, when that is under way on the stream. Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`,
/// `TERRACE_ERROR_UNSUPPORTED`, `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each context; the matrix may be shared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_matrix_apply(
    context: *mut terrace_context,
    matrix: *const terrace_matrix,
    vector_type: terrace_type,
    alpha: f64,
    x: *const c_void,
    beta: f64,
    y: *mut c_void,
) -> terrace_status {
    call!(context, |context| {
        let matrix = &required!(matrix).matrix;
        matrix.check_not_distributed("a product with a vector")?;
        // SAFETY: arrays of these lengths, as the documentation asks.
        unsafe { product(&context.state.context, matrix, Side::Plain, vector_type, (alpha, x), (beta, y)) }
    })
}

/// The product of the transposed matrix with a vector, y = alpha A^T x + beta y.
///
/// - `context`: not NULL; its threads or its GPU compute the product.
/// - `matrix`: not NULL. Threads multiply with it as it is, and take up to 16 vectors of memory for the call, fewer the closer the entries are to the diagonal. The
///   first product on a GPU makes a transposed copy there, which is kept as the copy of `terrace_matrix_apply` is.
/// - `vector_type`, `alpha`, `beta`: as there.
/// - `x`: an element for every scalar row; otherwise as there.
/// - `y`: an element for every scalar column, where `x` is, not overlapping it; overwritten.
///
/// Every call gives the same bits, for any number of threads; a GPU adds in another order than the host. Returns, and has errors, as `terrace_matrix_apply`. One
/// thread at a time for each context; the matrix may be shared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_matrix_apply_transposed(
    context: *mut terrace_context,
    matrix: *const terrace_matrix,
    vector_type: terrace_type,
    alpha: f64,
    x: *const c_void,
    beta: f64,
    y: *mut c_void,
) -> terrace_status {
    call!(context, |context| {
        let matrix = &required!(matrix).matrix;
        matrix.check_not_distributed("a product with a vector")?;
        // SAFETY: arrays of these lengths, as the documentation asks.
        unsafe { product(&context.state.context, matrix, Side::Transposed, vector_type, (alpha, x), (beta, y)) }
    })
}

/// Copies the arrays of a matrix into those of the caller, whose lengths `terrace_matrix_get_size` tells. A stencil has fewer entries in rows, without
/// those that reach outside of the grid: their number is the last row offset less the base.
///
/// - `context`: not NULL.
/// - `matrix`: not NULL.
/// - `offset_type`, `row_offsets`: `TERRACE_I32` or `TERRACE_I64`; an element for every row of blocks and one more.
/// - `column_type`, `columns`: `TERRACE_I32` or `TERRACE_I64`; an element for every block.
/// - `value_type`, `values`: `TERRACE_F64` or `TERRACE_F32`, to which values are rounded; an element for every stored scalar, blocks row by row.
/// - `base`: 0 or 1, from which offsets and columns count.
///
/// Each of the three arrays may be NULL when it is not wanted, and is on the host or in the memory of the context's GPU, where it is written in the order of the caller's
/// stream, or else after the default stream. Returns when they are written, or, in device memory with a stream of the caller's, when that is under way.
/// None of them may overlap an array that the matrix borrows.
///
/// Errors: `TERRACE_ERROR_NULL_ARGUMENT`, `TERRACE_ERROR_INVALID_ARGUMENT`, `TERRACE_ERROR_SIZE_MISMATCH` (more entries than offsets of 32
/// bits can count), `TERRACE_ERROR_UNSUPPORTED`, `TERRACE_ERROR_OUT_OF_MEMORY`, `TERRACE_ERROR_DEVICE`. One thread at a time for each
/// context; the matrix may be shared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_matrix_get_arrays(
    context: *mut terrace_context,
    matrix: *const terrace_matrix,
    offset_type: terrace_type,
    row_offsets: *mut c_void,
    column_type: terrace_type,
    columns: *mut c_void,
    value_type: terrace_type,
    values: *mut c_void,
    base: i32,
) -> terrace_status {
    call!(context, |context| {
        let (context, matrix) = (&context.state.context, &required!(matrix).matrix);
        matrix.check_not_distributed("a copy of the arrays")?;
        if base != 0 && base != 1 {
            return fail!(InvalidArgument, "base is {base}; accepted: 0 or 1");
        }
        let (block, nnz) = (matrix.block(), matrix.row_blocks());
        let (rows, entries) = (matrix.rows() / block.rows, nnz * block.len());
        let offset_type = index("offset_type", offset_type)?;
        if matches!(offset_type, Index::I32)
            && nnz as i64 + i64::from(base) > i64::from(i32::MAX)
            && !row_offsets.is_null()
        {
            return fail!(
                SizeMismatch,
                "offset_type is TERRACE_I32, which cannot count {nnz} entries; use TERRACE_I64"
            );
        }
        let column_type = index("column_type", column_type)?;
        let value_type = precision("value_type", value_type)?;
        for (name, pointer, bytes) in [
            ("row_offsets", row_offsets, (rows + 1).saturating_mul(offset_type.bytes())),
            ("columns", columns, nnz.saturating_mul(column_type.bytes())),
            ("values", values, entries.saturating_mul(value_type.bytes())),
        ] {
            let to = pointer.addr()..pointer.addr().saturating_add(bytes);
            let is_hit = |borrowed: &std::ops::Range<usize>| to.start < borrowed.end && borrowed.start < to.end;
            let borrowed = matrix.borrowed_arrays();
            if let Some((borrowed, _)) = borrowed.iter().find(|(_, range)| !pointer.is_null() && is_hit(range)) {
                return fail!(
                    InvalidArgument,
                    "{name} overlaps the {borrowed} that the matrix borrows; accepted: an array of its own"
                );
            }
        }
        let to = To { context, matrix, base };
        // SAFETY: null or arrays of these lengths, as the documentation asks.
        unsafe {
            to.indices(row_offsets, (offset_type, rows + 1), "row_offsets", true)?;
            to.indices(columns, (column_type, nnz), "columns", false)?;
            match value_type {
                Precision::F32 => to.values::<f32>(values, entries),
                _ => to.values::<f64>(values, entries),
            }?;
        }
        match context.gpu() {
            Some(gpu) => gpu.end_call(),
            None => Ok(()),
        }
    })
}

/// y = alpha A x + beta y, or with Aᵀ.
///
/// # Safety
/// x and y are null, or lead to an element for every scalar column and row of the matrix or its transpose, in either memory.
unsafe fn product(
    context: &Context,
    matrix: &Matrix,
    side: Side,
    vector_type: terrace_type,
    (alpha, x): (f64, *const c_void),
    (beta, y): (f64, *mut c_void),
) -> Result<()> {
    for (name, value) in [("alpha", alpha), ("beta", beta)] {
        if !value.is_finite() {
            return fail!(InvalidArgument, "{name} is {value}; accepted: finite numbers");
        }
        if value.abs() > f64::from(f32::MAX) && vector_type != TERRACE_F64 {
            return fail!(
                InvalidArgument,
                "{name} is {value}; accepted with vectors that are not of f64: numbers of f32"
            );
        }
    }
    let (rows, cols) = match side {
        Side::Plain => (matrix.rows(), matrix.cols()),
        Side::Transposed => (matrix.cols(), matrix.rows()),
    };
    with_precision!(precision("vector_type", vector_type)?, T => {
        let ends = |start: usize, len: usize| start.checked_add(len.checked_mul(size_of::<T>())?);
        let (Some(x_end), Some(y_end)) = (ends(x.addr(), cols), ends(y.addr(), rows)) else {
            return fail!(InvalidArgument, "x or y ends beyond all memory");
        };
        let apart = x_end <= y.addr() || y_end <= x.addr();
        if !apart && rows > 0 && cols > 0 {
            return fail!(InvalidArgument, "y overlaps x; they must be separate arrays");
        }
        if let Some(gpu) = both_on_device(context, (x, cols), (y, rows))? {
            // SAFETY: arrays of these lengths on the GPU, by this function's contract.
            let (x, y) = unsafe { (Slice::<T>::borrowed(x.addr() as u64, cols), Slice::<T>::borrowed_mut(y.addr() as u64, rows)) };
            matrix.apply_on_device(context, side, (alpha, x), (beta, y))?;
            return gpu.end_call();
        }
        // SAFETY: arrays of these lengths on the host, by this function's contract, which do not overlap.
        let (x, y) = unsafe { (slice::<T>(x, cols, "x")?, slice_mut::<T>(y, rows, "y")?) };
        match side {
            Side::Plain => matrix.apply(context, alpha, x, beta, y),
            Side::Transposed => matrix.apply_transposed(context, alpha, x, beta, y),
        }
    })
}

fn hand_out(matrix: Matrix, out: Out<*mut terrace_matrix>) -> Result<()> {
    // SAFETY: not null, and valid for a write as the documentation asks.
    unsafe { out.set(Box::into_raw(Box::new(terrace_matrix::own(matrix)))) };
    Ok(())
}

/// The context's GPU, when both vectors are in its memory; empty ones are anywhere.
fn both_on_device(
    context: &Context,
    (x, cols): (*const c_void, usize),
    (y, rows): (*mut c_void, usize),
) -> Result<Option<&Gpu>> {
    let x = device_arrays::owning_gpu(context, x, "x")?.or(context.gpu().filter(|_| cols == 0));
    let y = device_arrays::owning_gpu(context, y, "y")?.or(context.gpu().filter(|_| rows == 0));
    match (x, y) {
        (Some(gpu), Some(_)) => Ok(Some(gpu)),
        (None, None) => Ok(None),
        (Some(_), None) if cols == 0 => Ok(None),
        (None, Some(_)) if rows == 0 => Ok(None),
        (x, _) => {
            let (on_device, on_host) = if x.is_some() { ("x", "y") } else { ("y", "x") };
            fail!(InvalidArgument, "{on_device} is in device memory and {on_host} is not; they must be in the same")
        }
    }
}

/// Arrays of a matrix on their way to the caller's.
struct To<'a> {
    context: &'a Context,
    matrix: &'a Matrix,
    base: i32,
}

impl To<'_> {
    /// Row offsets, or columns.
    ///
    /// # Safety
    /// `pointer` is null or leads to `len` elements of the type in either memory.
    unsafe fn indices(
        &self,
        pointer: *mut c_void,
        (kind, len): (Index, usize),
        name: &str,
        offsets: bool,
    ) -> Result<()> {
        if pointer.is_null() {
            return Ok(());
        }
        let address = pointer.addr() as u64;
        if let Some(gpu) = device_arrays::owning_gpu(self.context, pointer, name)?
            && self.matrix.is_on(gpu)
        {
            // SAFETY: by this function's contract.
            let to = unsafe {
                match kind {
                    Index::I32 => Indices::I32(Slice::borrowed(address, len)),
                    Index::I64 => Indices::I64(Slice::borrowed(address, len)),
                }
            };
            return self.matrix.export_indices(gpu, offsets, self.base, &to);
        }
        let structure = self.matrix.structure()?;
        let shift = i64::from(self.base) - i64::from(structure.base);
        let at = |i: usize| {
            let index =
                if offsets { structure.offsets.view().raw(i) } else { i64::from(structure.columns.as_slice()[i]) };
            index + shift
        };
        // SAFETY: by this function's contract.
        unsafe {
            match kind {
                Index::I32 => self.put(pointer, len, name, |i| at(i) as i32),
                Index::I64 => self.put(pointer, len, name, at),
            }
        }
    }

    /// # Safety
    /// As for [`To::indices`].
    unsafe fn values<T: crate::scalar::Scalar>(&self, pointer: *mut c_void, len: usize) -> Result<()> {
        if pointer.is_null() {
            return Ok(());
        }
        if let Some(gpu) = device_arrays::owning_gpu(self.context, pointer, "values")?
            && self.matrix.is_on(gpu)
        {
            // SAFETY: by this function's contract.
            let to = unsafe { Slice::<T>::borrowed_mut(pointer.addr() as u64, len) };
            return self.matrix.export_values(gpu, to);
        }
        let shared = self.matrix.shared::<T>()?;
        let values = shared.values.as_slice();
        // SAFETY: by this function's contract.
        unsafe { self.put(pointer, len, "values", |i| values[i]) }
    }

    /// Element by element, from the host.
    ///
    /// # Safety
    /// As for [`To::indices`].
    unsafe fn put<T: Element>(
        &self,
        pointer: *mut c_void,
        len: usize,
        name: &str,
        at: impl Fn(usize) -> T,
    ) -> Result<()> {
        match device_arrays::owning_gpu(self.context, pointer, name)? {
            Some(gpu) => {
                let mut copy = crate::error::try_capacity(len)?;
                copy.extend((0..len).map(at));
                // SAFETY: by this function's contract.
                gpu.write(&copy, unsafe { Slice::borrowed_mut(pointer.addr() as u64, len) })
            }
            None => {
                // SAFETY: by this function's contract.
                let to = unsafe { slice_mut::<T>(pointer, len, name) }?;
                to.iter_mut().enumerate().for_each(|(i, to)| *to = at(i));
                Ok(())
            }
        }
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::testing::*;
    use super::super::*;
    use super::*;
    use crate::error::Status;
    use std::ptr::{null, null_mut};

    /// Sizes and arrays of a matrix as a program on the host gets them.
    fn arrays(context: &TestContext, matrix: *const terrace_matrix, base: i32) -> (Vec<i32>, Vec<i64>, Vec<f64>) {
        let (mut rows, mut nonzeros, mut block) = (0, 0, 0);
        let size = abi!(terrace_matrix_get_size(context.0, matrix, &mut rows, null_mut(), &mut nonzeros, &mut block));
        assert_eq!(size, 0);
        let nnz = nonzeros as usize / (block * block) as usize;
        let mut offsets = vec![0_i32; rows as usize / block as usize + 1];
        let (mut columns, mut values) = (vec![0_i64; nnz], vec![0.0; nonzeros as usize]);
        let (o, c, v) = (offsets.as_mut_ptr().cast(), columns.as_mut_ptr().cast(), values.as_mut_ptr().cast());
        let (i32s, i64s, f64s) = (TERRACE_I32, TERRACE_I64, TERRACE_F64);
        assert_eq!(abi!(terrace_matrix_get_arrays(context.0, matrix, i32s, o, i64s, c, f64s, v, base)), 0);
        (offsets, columns, values)
    }

    fn devices() -> Vec<TestContext> {
        vec![TestContext::new(), TestContext::on(c"sim")]
    }

    #[test]
    fn a_matrix_is_transposed_multiplied_and_read_back() {
        for context in devices() {
            // [1 0 2; 0 0 3] with columns that are not sorted.
            let (offsets, columns, values) = ([1_i32, 3, 4], [3_i32, 1, 3], [2.0_f64, 1.0, 3.0]);
            let (o, c, v) = (offsets.as_ptr().cast(), columns.as_ptr().cast(), values.as_ptr().cast());
            let (i, f, mut a) = (TERRACE_I32, TERRACE_F64, null_mut());
            assert_eq!(abi!(terrace_matrix_create_csr(context.0, 2, 3, i, o, i, c, f, v, 1, 0, &mut a)), 0);
            assert_eq!(arrays(&context, a, 1), (vec![1, 3, 4], vec![3, 1, 3], vec![2.0, 1.0, 3.0]));
            let (mut transposed, mut product) = (null_mut(), null_mut());
            assert_eq!(abi!(terrace_matrix_transpose(context.0, a, &mut transposed)), 0);
            assert_eq!(arrays(&context, transposed, 0), (vec![0, 1, 1, 3], vec![0, 0, 1], vec![1.0, 2.0, 3.0]));
            assert_eq!(abi!(terrace_matrix_multiply(context.0, a, transposed, &mut product)), 0);
            assert_eq!(arrays(&context, product, 0), (vec![0, 2, 4], vec![0, 1, 0, 1], vec![5.0, 6.0, 6.0, 9.0]));

            let (x, mut y) = ([1.0_f64, 2.0], [1.0_f64, 1.0, 1.0]);
            let (x, to): (*const c_void, *mut c_void) = (x.as_ptr().cast(), y.as_mut_ptr().cast());
            assert_eq!(abi!(terrace_matrix_apply(context.0, transposed, f, 2.0, x, -1.0, to)), 0);
            assert_eq!(y, [1.0, -1.0, 15.0]);
            let mut short = [f32::NAN; 2];
            let (ones, to) = ([1.0_f32; 3], short.as_mut_ptr().cast());
            assert_eq!(abi!(terrace_matrix_apply(context.0, a, TERRACE_F32, 1.0, ones.as_ptr().cast(), 0.0, to)), 0);
            assert_eq!(short, [3.0, 3.0]);
            for matrix in [a, transposed, product] {
                assert_eq!(abi!(terrace_matrix_destroy(matrix)), 0);
            }
        }
    }

    #[test]
    fn arrays_and_vectors_may_be_in_device_memory() {
        let context = TestContext::on(c"sim:1");
        let gpu = context.gpu();
        let a = laplacian(&context, 100);
        let mut square = null_mut();
        assert_eq!(abi!(terrace_matrix_multiply(context.0, a, a, &mut square)), 0);
        let (offsets, columns, values) = arrays(&context, square, 1);
        // Once for a matrix that is there, once for one on the host.
        let on_host = TestContext::new();
        let mut other = null_mut();
        assert_eq!(abi!(terrace_matrix_multiply(on_host.0, a, a, &mut other)), 0);
        for matrix in [square, other] {
            let (o, c) = (gpu.upload(&[0_i64; 101]).unwrap(), gpu.upload(&vec![0_i32; columns.len()]).unwrap());
            let v = gpu.upload(&vec![0.0_f32; values.len()]).unwrap();
            let (to, i64s, i32s) = ((pointer(&o), pointer(&c), pointer(&v)), TERRACE_I64, TERRACE_I32);
            let status =
                abi!(terrace_matrix_get_arrays(context.0, matrix, i64s, to.0, i32s, to.1, TERRACE_F32, to.2, 1));
            assert_eq!(status, 0);
            assert!(gpu.fetch(&o).unwrap().iter().zip(&offsets).all(|(a, b)| *a == i64::from(*b)));
            assert!(gpu.fetch(&c).unwrap().iter().zip(&columns).all(|(a, b)| i64::from(*a) == *b));
            assert!(gpu.fetch(&v).unwrap().iter().zip(&values).all(|(a, b)| f64::from(*a) == *b));
            let (x, y) = (gpu.upload(&[1.0; 100]).unwrap(), gpu.upload(&[2.0; 100]).unwrap());
            assert_eq!(
                abi!(terrace_matrix_apply(context.0, matrix, TERRACE_F64, 1.0, pointer(&x), 0.5, pointer(&y))),
                0
            );
            let y = gpu.fetch(&y).unwrap();
            assert_eq!((y[0], y[1], y[50]), (3.0, 0.0, 1.0));
            let (host, on_device) = ([1.0; 100], pointer(&x));
            let mixed =
                abi!(terrace_matrix_apply(context.0, matrix, TERRACE_F64, 1.0, host.as_ptr().cast(), 0.5, on_device));
            assert_eq!(mixed, Status::InvalidArgument.code());
            assert!(context.last_error().contains("y is in device memory and x is not"), "{}", context.last_error());
            assert_eq!(abi!(terrace_matrix_destroy(matrix)), 0);
        }
        assert_eq!(abi!(terrace_matrix_destroy(a)), 0);
    }

    #[test]
    fn arrays_that_the_matrix_borrows_are_not_written_to() {
        let context = TestContext::new();
        let (mut offsets, mut columns, mut values) = ([1_i32, 3, 4], [1_i32, 2, 2], [2.0_f64, 1.0, 3.0]);
        let (o, c, v): (*mut c_void, *mut c_void, *mut c_void) =
            (offsets.as_mut_ptr().cast(), columns.as_mut_ptr().cast(), values.as_mut_ptr().cast());
        let (i, f, none, ctx) = (TERRACE_I32, TERRACE_F64, null_mut(), context.0);
        let mut a = null_mut();
        assert_eq!(abi!(terrace_matrix_create_csr(ctx, 2, 2, i, o, i, c, f, v, 1, TERRACE_BORROW, &mut a)), 0);
        let refused = |o, c, v, text: &str| {
            let status = abi!(terrace_matrix_get_arrays(ctx, a, i, o, i, c, f, v, 0));
            assert_eq!(status, Status::InvalidArgument.code());
            assert!(context.last_error().contains(text), "{}", context.last_error());
        };
        refused(o, none, none, "row_offsets overlaps the row_offsets that the matrix borrows");
        refused(none, c, none, "columns overlaps the columns that the matrix borrows");
        refused(none, none, v, "values overlaps the values that the matrix borrows");
        refused(none, v.wrapping_byte_add(20), none, "columns overlaps the values that the matrix borrows");
        assert_eq!(arrays(&context, a, 1), (vec![1, 3, 4], vec![1, 2, 2], vec![2.0, 1.0, 3.0]));
        assert_eq!(abi!(terrace_matrix_destroy(a)), 0);

        // What was copied belongs to the caller alone.
        assert_eq!(abi!(terrace_matrix_create_csr(ctx, 2, 2, i, o, i, c, f, v, 1, TERRACE_COPY, &mut a)), 0);
        assert_eq!(abi!(terrace_matrix_get_arrays(ctx, a, i, o, i, c, f, v, 0)), 0);
        assert_eq!((offsets, columns), ([0, 2, 3], [0, 1, 1]));
        assert_eq!(abi!(terrace_matrix_destroy(a)), 0);
    }

    #[test]
    fn neither_are_those_in_device_memory() {
        let context = TestContext::on(c"sim");
        let gpu = context.gpu();
        let (o, c) = (gpu.upload(&[0_i64, 1, 2]).unwrap(), gpu.upload(&[0_i32, 1]).unwrap());
        let v = gpu.upload(&[2.0_f64, 3.0]).unwrap();
        let (o, c, v) = (pointer(&o), pointer(&c), pointer(&v));
        let (i64s, i, f, none, ctx) = (TERRACE_I64, TERRACE_I32, TERRACE_F64, null_mut(), context.0);
        let mut a = null_mut();
        assert_eq!(abi!(terrace_matrix_create_csr(ctx, 2, 2, i64s, o, i, c, f, v, 0, TERRACE_BORROW, &mut a)), 0);
        for (c, v, text) in [(c, none, "columns overlaps the columns"), (none, v, "values overlaps the values")] {
            let status = abi!(terrace_matrix_get_arrays(ctx, a, i64s, none, i, c, f, v, 1));
            assert_eq!(status, Status::InvalidArgument.code());
            assert!(context.last_error().contains(text), "{}", context.last_error());
        }
        // Offsets are brought into the library's form in any case.
        assert_eq!(abi!(terrace_matrix_get_arrays(ctx, a, i64s, o, i, none, f, none, 1)), 0);
        assert_eq!(abi!(terrace_matrix_destroy(a)), 0);
    }

    #[test]
    fn products_use_borrowed_values_that_were_changed_in_place() {
        for context in devices() {
            let mut values = vec![1.0, 2.0, 3.0];
            let a = csr(&context, &[0, 1, 3], &[0, 0, 1], &values, 0, TERRACE_BORROW).unwrap();
            let x = [1.0_f64, 10.0];
            for factor in [1.0, 2.0, 4.0] {
                let (mut y, mut z) = ([0.0_f64; 2], [0.0_f64; 2]);
                let (from, y_to, z_to) = (x.as_ptr().cast(), y.as_mut_ptr().cast(), z.as_mut_ptr().cast());
                assert_eq!(abi!(terrace_matrix_apply(context.0, a, TERRACE_F64, 1.0, from, 0.0, y_to)), 0);
                assert_eq!(abi!(terrace_matrix_apply_transposed(context.0, a, TERRACE_F64, 1.0, from, 0.0, z_to)), 0);
                assert_eq!((y, z), ([factor, 32.0 * factor], [21.0 * factor, 30.0 * factor]));
                values.iter_mut().for_each(|v| *v *= 2.0);
            }
            assert_eq!(abi!(terrace_matrix_destroy(a)), 0);
        }
    }

    #[test]
    fn transposed_products_take_vectors_of_the_device() {
        let context = TestContext::on(c"sim");
        // [1 0 2; 0 0 3]
        let (offsets, columns, values) = ([0_i32, 2, 3], [0_i32, 2, 2], [1.0_f64, 2.0, 3.0]);
        let (o, c, v) = (offsets.as_ptr().cast(), columns.as_ptr().cast(), values.as_ptr().cast());
        let (i, f, mut a) = (TERRACE_I32, TERRACE_F64, null_mut());
        assert_eq!(abi!(terrace_matrix_create_csr(context.0, 2, 3, i, o, i, c, f, v, 0, 0, &mut a)), 0);
        let gpu = context.gpu();
        let (x, y) = (gpu.upload(&[1.0_f64, 2.0]).unwrap(), gpu.upload(&[1.0_f64; 3]).unwrap());
        let (from, to) = (pointer(&x), pointer(&y));
        assert_eq!(abi!(terrace_matrix_apply_transposed(context.0, a, f, 2.0, from, -1.0, to)), 0);
        assert_eq!(gpu.fetch(&y).unwrap(), [1.0, -1.0, 15.0]);
        let mut z = [0.0_f64; 3];
        let status = abi!(terrace_matrix_apply_transposed(context.0, a, f, 1.0, from, 0.0, z.as_mut_ptr().cast()));
        assert_eq!(status, Status::InvalidArgument.code());
        assert!(context.last_error().contains("x is in device memory and y is not"), "{}", context.last_error());
        assert_eq!(abi!(terrace_matrix_destroy(a)), 0);
    }

    #[test]
    fn bad_arguments_are_named() {
        let context = TestContext::new();
        let (a, b) = (laplacian(&context, 4), laplacian(&context, 5));
        let mut made = null_mut();
        let refused = |status, expected: Status, text: &str| {
            assert_eq!(status, expected.code());
            assert!(context.last_error().contains(text), "{} should contain {text}", context.last_error());
        };
        refused(abi!(terrace_matrix_multiply(context.0, a, null(), &mut made)), Status::NullArgument, "right is null");
        refused(abi!(terrace_matrix_multiply(context.0, a, a, null_mut())), Status::NullArgument, "product is null");
        let status = abi!(terrace_matrix_multiply(context.0, a, b, &mut made));
        refused(status, Status::SizeMismatch, "the left matrix has 4 columns and the right one 5 rows");
        let mut v = [1.0_f64; 8];
        let p: *mut c_void = v.as_mut_ptr().cast();
        let apply = |alpha, x, y| abi!(terrace_matrix_apply(context.0, a, TERRACE_F64, alpha, x, 0.0, y));
        refused(apply(1.0, null(), p), Status::NullArgument, "x is null");
        refused(apply(f64::NAN, p, p.wrapping_byte_add(32)), Status::InvalidArgument, "alpha is NaN");
        refused(apply(1.0, p, p.wrapping_byte_add(24)), Status::InvalidArgument, "y overlaps x");
        assert_eq!(apply(1.0, p, p.wrapping_byte_add(32)), 0);
        let apply = |alpha, x, y| abi!(terrace_matrix_apply_transposed(context.0, a, TERRACE_F64, alpha, x, 0.0, y));
        refused(apply(1.0, null(), p), Status::NullArgument, "x is null");
        refused(apply(f64::NAN, p, p.wrapping_byte_add(32)), Status::InvalidArgument, "alpha is NaN");
        refused(apply(1.0, p, p.wrapping_byte_add(24)), Status::InvalidArgument, "y overlaps x");
        let none = null_mut();
        let get = |o_type, base| {
            abi!(terrace_matrix_get_arrays(context.0, a, o_type, none, TERRACE_I32, none, TERRACE_F64, none, base))
        };
        refused(get(TERRACE_F64, 0), Status::InvalidArgument, "offset_type is TERRACE_F64");
        refused(get(TERRACE_I32, 2), Status::InvalidArgument, "base is 2");
        assert_eq!(get(TERRACE_I32, 0), 0);
        for matrix in [a, b] {
            assert_eq!(abi!(terrace_matrix_destroy(matrix)), 0);
        }
    }
}

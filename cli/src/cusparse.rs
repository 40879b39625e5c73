//! cuSPARSE as an operator, for benchmarks. It is loaded at run time.

use cudarc::cusparse::sys;
use std::ffi::{CStr, c_void};
use terrace::backend::Operator;
use terrace::gpu::{Buffer, Gpu, Slice};
use terrace::scalar::{Number, Precision};
use terrace::sparse::{Block, CsrView};
use terrace::{Error, Result, Status};

/// Symbols that are called. cudarc panics if one is missing, so they are looked up before.
const SYMBOLS: &[&str] = &[
    "cusparseCreate",
    "cusparseDestroy",
    "cusparseSetStream",
    "cusparseGetErrorString",
    "cusparseCreateCsr",
    "cusparseCreateBsr",
    "cusparseCreateDnVec",
    "cusparseDestroySpMat",
    "cusparseDestroyDnVec",
    "cusparseSpMV_bufferSize",
    "cusparseSpMV_preprocess",
    "cusparseSpMV",
    "cusparseSpMatGetSize",
    "cusparseCsrSetPointers",
    "cusparseSpGEMM_createDescr",
    "cusparseSpGEMM_destroyDescr",
    "cusparseSpGEMM_workEstimation",
    "cusparseSpGEMM_compute",
    "cusparseSpGEMM_copy",
];

/// Algorithms of the product, by their names.
pub const CSR_ALGORITHMS: &[(&str, u32)] = &[("default", 0), ("csr 1", 2), ("csr 2", 3)];

/// The algorithm for matrices of blocks.
pub const BSR_ALGORITHM: (&str, u32) = ("bsr 1", 6);

/// A matrix in f64 as cuSPARSE has it, with 32-bit indices.
pub struct CuSparse {
    gpu: Gpu,
    handle: sys::cusparseHandle_t,
    matrix: sys::cusparseSpMatDescr_t,
    algorithm: sys::cusparseSpMVAlg_t,
    shape: (usize, usize),
    offsets: Buffer<i32>,
    columns: Buffer<i32>,
    values: Buffer<f64>,
    /// Workspace, allocated at the first product, which queries its size.
    scratch: std::sync::OnceLock<Buffer<u8>>,
}

// SAFETY: handles that are used by one thread at a time, like the context.
unsafe impl Send for CuSparse {}
// SAFETY: as above.
unsafe impl Sync for CuSparse {}

fn check(status: sys::cusparseStatus_t, what: &str) -> Result<()> {
    if status == sys::cusparseStatus_t::CUSPARSE_STATUS_SUCCESS {
        return Ok(());
    }
    // SAFETY: a text of the library.
    let text = unsafe { CStr::from_ptr(sys::cusparseGetErrorString(status)) }.to_string_lossy();
    Err(Error::new(Status::Device, format!("cuSPARSE, {what}: {text}")))
}

fn algorithm(number: u32) -> sys::cusparseSpMVAlg_t {
    match number {
        2 => sys::cusparseSpMVAlg_t::CUSPARSE_SPMV_CSR_ALG1,
        3 => sys::cusparseSpMVAlg_t::CUSPARSE_SPMV_CSR_ALG2,
        6 => sys::cusparseSpMVAlg_t::CUSPARSE_SPMV_BSR_ALG1,
        _ => sys::cusparseSpMVAlg_t::CUSPARSE_SPMV_ALG_DEFAULT,
    }
}

impl CuSparse {
    /// A matrix on the device of `gpu`, in the blocks that it has, with one of the algorithms.
    pub fn new(gpu: &Gpu, a: &CsrView<'_, f64>, number: u32) -> Result<CuSparse> {
        gpu.on_cuda(&mut |_| Ok(()))?;
        if a.nnz() > i32::MAX as usize {
            return Err(Error::new(
                Status::Unsupported,
                format!("{} entries are more than 32-bit indices can count", a.nnz()),
            ));
        }
        // SAFETY: loads the library, whose initialisers are its own affair.
        if !unsafe { sys::is_culib_present() } {
            return Err(Error::new(Status::Device, "libcusparse could not be loaded"));
        }
        for symbol in SYMBOLS {
            // SAFETY: only looked up, not called.
            if unsafe { sys::culib().get::<unsafe extern "C" fn()>(symbol.as_bytes()) }.is_err() {
                return Err(Error::new(Status::Device, format!("this cuSPARSE has no {symbol}")));
            }
        }
        let offsets: Vec<i32> = (0..=a.rows).map(|i| (a.offsets.raw(i) - i64::from(a.base)) as i32).collect();
        let columns: Vec<i32> = (0..a.nnz()).map(|k| a.col(k) as i32).collect();
        let mut made = CuSparse {
            gpu: gpu.clone(),
            handle: std::ptr::null_mut(),
            matrix: std::ptr::null_mut(),
            algorithm: algorithm(number),
            shape: (a.scalar_rows(), a.scalar_cols()),
            offsets: gpu.upload(&offsets)?,
            columns: gpu.upload(&columns)?,
            values: gpu.upload(a.values)?,
            scratch: std::sync::OnceLock::new(),
        };
        let (rows, cols, nnz) = (a.rows as i64, a.cols as i64, a.nnz() as i64);
        let (index, base) =
            (sys::cusparseIndexType_t::CUSPARSE_INDEX_32I, sys::cusparseIndexBase_t::CUSPARSE_INDEX_BASE_ZERO);
        let at = |address: u64| address as *mut c_void;
        let kind = sys::cudaDataType::CUDA_R_64F;
        // SAFETY: the arrays live as long as the handles, on the device that is current.
        gpu.on_cuda(&mut |_| unsafe {
            check(sys::cusparseCreate(&mut made.handle), "start")?;
            let (o, c, v) = (at(made.offsets.address()), at(made.columns.address()), at(made.values.address()));
            let created = match a.block {
                Block::SCALAR => {
                    sys::cusparseCreateCsr(&mut made.matrix, rows, cols, nnz, o, c, v, index, index, base, kind)
                }
                Block { rows: br, cols: bc } => sys::cusparseCreateBsr(
                    &mut made.matrix,
                    rows,
                    cols,
                    nnz,
                    br as i64,
                    bc as i64,
                    o,
                    c,
                    v,
                    index,
                    index,
                    base,
                    kind,
                    sys::cusparseOrder_t::CUSPARSE_ORDER_ROW,
                ),
            };
            check(created, "matrix")
        })?;
        Ok(made)
    }
}

impl CuSparse {
    /// The product of a matrix of scalars with itself by the default algorithm, computed anew, and thrown away; its entries. Memory comes from the pool of
    /// the context, as for our own products.
    pub fn square(&self) -> Result<usize> {
        let mut entries = 0;
        self.gpu.on_cuda(&mut |stream| {
            let (mut description, mut product) = (std::ptr::null_mut(), std::ptr::null_mut());
            // SAFETY: matrices on the device that is current; what is made here is destroyed below, whatever comes.
            let done = unsafe { self.square_on(stream, &mut description, &mut product) };
            // SAFETY: not used any more. An error has nowhere to go.
            unsafe {
                if !product.is_null() {
                    let _ = sys::cusparseDestroySpMat(product);
                }
                if !description.is_null() {
                    let _ = sys::cusparseSpGEMM_destroyDescr(description);
                }
            }
            entries = done?;
            Ok(())
        })?;
        Ok(entries)
    }

    /// # Safety
    ///
    /// The device of the matrix is current, and `stream` is one of it.
    unsafe fn square_on(
        &self,
        stream: usize,
        description: &mut sys::cusparseSpGEMMDescr_t,
        product: &mut sys::cusparseSpMatDescr_t,
    ) -> Result<usize> {
        let (index, base) =
            (sys::cusparseIndexType_t::CUSPARSE_INDEX_32I, sys::cusparseIndexBase_t::CUSPARSE_INDEX_BASE_ZERO);
        let kind = sys::cudaDataType::CUDA_R_64F;
        let operation = sys::cusparseOperation_t::CUSPARSE_OPERATION_NON_TRANSPOSE;
        let algorithm = sys::cusparseSpGEMMAlg_t::CUSPARSE_SPGEMM_DEFAULT;
        let (one, zero) = (1.0_f64, 0.0_f64);
        let (alpha, beta): (*const c_void, *const c_void) = ((&raw const one).cast(), (&raw const zero).cast());
        let (rows, cols) = (self.shape.0 as i64, self.shape.1 as i64);
        let offsets = self.gpu.zeroed::<i32>(self.shape.0 + 1)?;
        let at = |address: u64| address as *mut c_void;
        let none = std::ptr::null_mut::<c_void>();
        // SAFETY: as the caller says; arrays live until the product is done.
        unsafe {
            check(sys::cusparseSetStream(self.handle, stream as sys::cudaStream_t), "stream")?;
            check(sys::cusparseSpGEMM_createDescr(description), "description")?;
            let to = at(offsets.address());
            check(
                sys::cusparseCreateCsr(product, rows, cols, 0, to, none, none, index, index, base, kind),
                "product matrix",
            )?;
            let (handle, a, c, d) = (self.handle, self.matrix as *const _, *product, *description);
            macro_rules! step {
                ($function:ident, $($last:expr),*) => {
                    sys::$function(handle, operation, operation, alpha, a, a, beta, c, kind, algorithm, d $(, $last)*)
                };
            }
            let mut bytes = 0;
            check(step!(cusparseSpGEMM_workEstimation, &mut bytes, none), "size of the estimate")?;
            let estimate = self.gpu.allocate::<u8>(bytes.max(1))?;
            check(step!(cusparseSpGEMM_workEstimation, &mut bytes, at(estimate.address())), "estimate")?;
            check(step!(cusparseSpGEMM_compute, &mut bytes, none), "size of the buffer")?;
            let buffer = self.gpu.allocate::<u8>(bytes.max(1))?;
            check(step!(cusparseSpGEMM_compute, &mut bytes, at(buffer.address())), "product")?;
            let (mut n, mut m, mut entries) = (0, 0, 0);
            check(sys::cusparseSpMatGetSize(c as *const _, &mut n, &mut m, &mut entries), "size")?;
            let columns = self.gpu.allocate::<i32>(entries as usize)?;
            let values = self.gpu.allocate::<f64>(entries as usize)?;
            check(sys::cusparseCsrSetPointers(c, to, at(columns.address()), at(values.address())), "arrays")?;
            check(step!(cusparseSpGEMM_copy,), "copy")?;
            Ok(entries as usize)
        }
    }
}

impl Drop for CuSparse {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and not used any more. An error has nowhere to go.
        let _ = self.gpu.on_cuda(&mut |_| unsafe {
            if !self.matrix.is_null() {
                let _ = sys::cusparseDestroySpMat(self.matrix);
            }
            if !self.handle.is_null() {
                let _ = sys::cusparseDestroy(self.handle);
            }
            Ok(())
        });
    }
}

impl Operator<Gpu, f64> for CuSparse {
    fn rows(&self) -> usize {
        self.shape.0
    }

    fn apply(&self, alpha: f64, x: &Slice<f64>, beta: f64, y: &mut Slice<f64>) -> Result<()> {
        assert!(x.len() == self.shape.1 && y.len() == self.shape.0);
        let kind = sys::cudaDataType::CUDA_R_64F;
        let operation = sys::cusparseOperation_t::CUSPARSE_OPERATION_NON_TRANSPOSE;
        let (alpha, beta): (*const c_void, *const c_void) = ((&raw const alpha).cast(), (&raw const beta).cast());
        let (mut vx, mut vy) = (std::ptr::null_mut(), std::ptr::null_mut());
        // One of the three steps of a product, which have the same arguments but for the last.
        macro_rules! step {
            ($function:ident, $last:expr) => {{
                let (matrix, x) = (self.matrix as *const _, vx as *const _);
                let (handle, algorithm) = (self.handle, self.algorithm);
                sys::$function(handle, operation, alpha, matrix, x, beta, vy, kind, algorithm, $last)
            }};
        }
        let mut run = |stream: usize| -> Result<()> {
            // SAFETY: vectors of the matrix's size on its device, which is current; descriptions end with the call, which copies them.
            unsafe {
                check(sys::cusparseSetStream(self.handle, stream as sys::cudaStream_t), "stream")?;
                check(sys::cusparseCreateDnVec(&mut vx, x.len() as i64, x.address() as *mut c_void, kind), "vector")?;
                check(sys::cusparseCreateDnVec(&mut vy, y.len() as i64, y.address() as *mut c_void, kind), "vector")?;
                if self.scratch.get().is_none() {
                    let mut bytes = 0;
                    check(step!(cusparseSpMV_bufferSize, &mut bytes), "size of the buffer")?;
                    let buffer = self.gpu.zeroed::<u8>(bytes.max(1))?;
                    check(step!(cusparseSpMV_preprocess, buffer.address() as *mut c_void), "analysis")?;
                    let _ = self.scratch.set(buffer);
                }
                let buffer = self.scratch.get().map_or(0, |buffer| buffer.address()) as *mut c_void;
                let status = step!(cusparseSpMV, buffer);
                let _ = (sys::cusparseDestroyDnVec(vx), sys::cusparseDestroyDnVec(vy));
                check(status, "product")
            }
        };
        self.gpu.on_cuda(&mut run)
    }

    fn residual(&self, b: &Slice<f64>, x: &Slice<f64>, r: &mut Slice<f64>) -> Result<()> {
        use terrace::backend::Backend;
        self.gpu.copy(b, r);
        self.apply(-1.0, x, 1.0, r)
    }

    fn bytes(&self) -> usize {
        (self.offsets.len() + self.columns.len()) * size_of::<i32>() + self.values.len() * size_of::<f64>()
    }

    fn format(&self) -> String {
        "cusparse".to_string()
    }

    fn precision(&self) -> Precision {
        f64::PRECISION
    }
}

//! Calls that make objects, or change what they were made from.

use super::*;

/// Arguments of a matrix in CSR; the arrays are as long as the sizes say, or null.
struct Arrays {
    context: *mut terrace_context,
    total: i64,
    rows: i64,
    offsets: *const c_void,
    /// The type of the columns.
    format: terrace_type,
    columns: *const c_void,
    values: *const c_void,
    base: i32,
    flags: terrace_matrix_flags,
}

impl World {
    pub(super) fn make_context(&mut self) {
        let device: &CStr =
            self.random.of(&[c"host:1", c"host:1", c"host:2", c"host", c"sim", c"host:x", c"", c"host:0"]);
        let mut context = null_mut();
        // SAFETY: a text and a pointer to a local.
        let status = unsafe { terrace_context_create(device.as_ptr(), &mut context) };
        if self.seen("terrace_context_create", status) == 0 {
            self.contexts.push(context);
        }
    }

    pub(super) fn make_matrix(&mut self) {
        let (mut system, context) = (System::new(&mut self.random), self.context());
        let n = system.rows();
        let entries = system.columns.len();
        if self.random.once_in(6) && entries > 1 {
            let at = self.random.below(entries);
            match self.random.below(5) {
                0 => system.values[at] = f64::NAN,
                1 => system.columns[at] = n as i32,
                2 => system.columns[at] = -1,
                3 => system.offsets[n / 2] = entries as i64,
                _ => system.values[at] = 0.0,
            }
        }
        let flags = if self.random.once_in(3) { TERRACE_SORTED } else { TERRACE_COPY };
        let base = if self.random.once_in(30) { 7 } else { 0 };
        let rows = if self.random.once_in(40) { -1 } else { n as i64 };
        let (offsets, columns) = (system.offsets.as_ptr().cast(), system.columns.as_ptr().cast());
        let values: *const c_void = if self.random.once_in(40) { null() } else { system.values.as_ptr().cast() };
        let format = if self.random.once_in(50) { 77 } else { TERRACE_I32 };
        let arrays = Arrays { context, total: n as i64, rows, offsets, format, columns, values, base, flags };
        let mut handle = null_mut();
        let status = if self.random.once_in(8) {
            self.make_distributed(&arrays, &mut handle)
        } else if self.random.once_in(8) {
            // One rank: blocks of one row, or all entries in the diagonal part.
            match self.random.once_in(2) {
                true => self.make_distributed_blocks(&arrays, &mut handle),
                false => self.make_parcsr(&arrays, &system, &mut handle),
            }
        } else {
            let Arrays { format, columns, values, .. } = arrays;
            let (i64_, f64_) = (TERRACE_I64, TERRACE_F64);
            call!(
                self,
                terrace_matrix_create_csr(
                    context,
                    rows,
                    rows,
                    i64_,
                    offsets,
                    format,
                    columns,
                    f64_,
                    values,
                    base,
                    flags,
                    &mut handle
                )
            )
        };
        if status == 0 {
            self.matrices.push(Matrix { handle, system });
        }
    }

    fn make_distributed(&mut self, arrays: &Arrays, to: &mut *mut terrace_matrix) -> terrace_status {
        let Arrays { context, total, rows, offsets, format, columns, values, base, flags } = *arrays;
        let (i64_, f64_, first) = (TERRACE_I64, TERRACE_F64, if self.random.once_in(10) { 1 } else { 0 });
        call!(
            self,
            terrace_matrix_create_csr_distributed(
                context, total, first, rows, i64_, offsets, format, columns, f64_, values, base, flags, to
            )
        )
    }

    fn make_distributed_blocks(&mut self, arrays: &Arrays, to: &mut *mut terrace_matrix) -> terrace_status {
        let Arrays { context, total, rows, offsets, format, columns, values, base, flags } = *arrays;
        let (i64_, f64_, block) = (TERRACE_I64, TERRACE_F64, if self.random.once_in(10) { 9 } else { 1 });
        call!(
            self,
            terrace_matrix_create_bsr_distributed(
                context, total, 0, rows, block, i64_, offsets, format, columns, f64_, values, base, flags, to
            )
        )
    }

    fn make_parcsr(&mut self, arrays: &Arrays, system: &System, to: &mut *mut terrace_matrix) -> terrace_status {
        let Arrays { context, total, rows, offsets, values, .. } = *arrays;
        let wide: Vec<i64> = system.columns.iter().map(|column| i64::from(*column)).collect();
        let none = vec![0_i64; system.rows() + 1];
        let map_count = if self.random.once_in(10) { 1 } else { 0 };
        let (wide, none, i64_, f64_) = (wide.as_ptr().cast(), none.as_ptr().cast(), TERRACE_I64, TERRACE_F64);
        call!(
            self,
            terrace_matrix_create_parcsr(
                context,
                total,
                0,
                rows,
                i64_,
                offsets,
                wide,
                none,
                null(),
                map_count,
                i64_,
                null(),
                f64_,
                values,
                null(),
                to
            )
        )
    }

    pub(super) fn update_values(&mut self) {
        let (at, context) = (self.random.below(self.matrices.len()), self.context());
        let mut values = self.matrices[at].system.values.clone();
        let factor = 0.5 + self.random.real();
        values.iter_mut().for_each(|v| *v *= factor);
        if self.random.once_in(10) && !values.is_empty() {
            let k = self.random.below(values.len());
            values[k] = f64::INFINITY;
        }
        let count = values.len() as i64 + i64::from(self.random.once_in(10));
        let format = if self.random.once_in(10) { self.format() } else { TERRACE_F64 };
        // A count or format that is not that of the matrix is refused before the array is read.
        let (matrix, from) = (self.matrices[at].handle, values.as_ptr().cast());
        if call!(self, terrace_matrix_update_values(context, matrix, format, from, count)) == 0 {
            self.matrices[at].system.values = values;
        }
    }

    pub(super) fn make_config(&mut self) {
        let (context, mut config) = (self.context(), null_mut());
        // SAFETY: alive or null, and a pointer to a local.
        let status = unsafe { terrace_config_create(context, &mut config) };
        if self.seen("terrace_config_create", status) == 0 {
            self.configs.push(config);
        }
    }

    pub(super) fn set_option(&mut self) {
        let config = self.config().cast_mut();
        let (key, values) = KEYS[self.random.below(KEYS.len())];
        let value = CString::new(self.random.of(values)).unwrap();
        let name = CString::new(key).unwrap();
        if self.random.once_in(5) {
            let end = if self.random.once_in(3) { "" } else { "}" };
            let json = CString::new(format!("{{\"{key}\": {value:?}{end}")).unwrap();
            // SAFETY: alive or null, and texts.
            let status = unsafe { terrace_config_load_json(config, json.as_ptr()) };
            self.seen("terrace_config_load_json", status);
        }
        // SAFETY: alive or null, and texts.
        let status = unsafe { terrace_config_set_str(config, name.as_ptr(), value.as_ptr()) };
        self.seen("terrace_config_set_str", status);
    }

    pub(super) fn make_solver(&mut self) {
        let (context, config, mut solver) = (self.context(), self.config(), null_mut());
        // SAFETY: alive or null, and a pointer to a local.
        let status = unsafe { terrace_solver_create(context, config, &mut solver) };
        if self.seen("terrace_solver_create", status) == 0 {
            self.solvers.push(Solver { handle: solver, set_up: None, has_operator: false });
        }
    }

    /// Matrices in other forms, which are destroyed at once.
    pub(super) fn make_others(&mut self) {
        let (context, mut made) = (self.context(), null_mut());
        let (rows, columns) = ([0_i32, 1, 1, 0], [0_i32, 1, 1, self.random.below(4) as i32]);
        let values = [2.0_f64, 3.0, if self.random.once_in(5) { f64::NAN } else { 1.0 }, 0.5];
        let (from, to, values) = (rows.as_ptr().cast(), columns.as_ptr().cast(), values.as_ptr().cast());
        let (i, f, base) = (TERRACE_I32, TERRACE_F64, if self.random.once_in(9) { 5 } else { 0 });
        let count = if self.random.once_in(9) { -1 } else { 4 };
        let dims = [if self.random.once_in(9) { 3_i64 } else { 2 }, 1, 1];
        if call!(self, terrace_matrix_create_coo(context, 2, 2, count, i, from, to, f, values, base, &mut made)) == 0 {
            call!(self, terrace_matrix_set_grid(context, made, dims.as_ptr(), null()));
            call!(self, terrace_matrix_destroy(made));
        }
        // The last value reaches outside of the grid.
        let outside = if self.random.once_in(5) { 0.5_f64 } else { 0.0 };
        let (steps, entries) = ([0_i32, 0, 0, 1, 0, 0], [2.0, 3.0, 1.0, outside, outside, outside]);
        let (to, entries, flags) = (steps.as_ptr(), entries.as_ptr().cast(), TERRACE_COPY);
        let (dofs, layout) =
            ([1, 1, 1, 0][self.random.below(4)], [TERRACE_BY_OFFSET, TERRACE_BY_CELL][self.random.below(2)]);
        let (of, none) = (dims.as_ptr(), null());
        if call!(
            self,
            terrace_matrix_create_stencil(context, of, none, dofs, 2, to, f, entries, layout, flags, &mut made)
        ) == 0
        {
            call!(self, terrace_matrix_destroy(made));
        }
        let (offsets, size) = ([0_i32, 1], [2, 2, 2, 9, 0][self.random.below(5)]);
        let (from, flags) = (offsets.as_ptr().cast(), TERRACE_COPY);
        if call!(
            self,
            terrace_matrix_create_bsr(context, 1, 1, size, i, from, i, from, f, values, base, flags, &mut made)
        ) == 0
        {
            call!(self, terrace_matrix_destroy(made));
        }
    }
}

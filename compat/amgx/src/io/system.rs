//! A system on the host, between files and objects.

use crate::boundary::{Result, fail};
use crate::division::Division;
use crate::matrix::{Matrix, Rows, Upload};
use crate::native::zeros;
use std::ffi::c_void;
use terrace::capi::TERRACE_F32;

/// A square matrix of blocks with the vectors of a system.
#[derive(Debug, PartialEq)]
pub struct System {
    /// Rows of a block.
    pub block: usize,
    pub offsets: Vec<i32>,
    pub columns: Vec<i32>,
    /// Row by row in each block.
    pub values: Vec<f64>,
    /// The diagonal blocks, if they are not among the others.
    pub diagonal: Option<Vec<f64>>,
    pub rhs: Option<Vec<f64>>,
    pub solution: Option<Vec<f64>>,
}

/// As many times the same number.
pub fn vec_of(len: usize, value: f64) -> Result<Vec<f64>> {
    let mut array = zeros(len)?;
    array.fill(value);
    Ok(array)
}

impl System {
    /// Block rows.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Checks what a file said, before an array is used by an index of another.
    pub fn check(&self) -> Result<()> {
        let (rows, size) = (self.rows(), self.block * self.block);
        let (offsets, columns) = (&self.offsets, &self.columns);
        if offsets[0] != 0 || offsets[rows] as usize != columns.len() || offsets.windows(2).any(|o| o[1] < o[0]) {
            return fail!(IoError, "the row offsets do not ascend from 0 to the number of blocks, {}", columns.len());
        }
        if let Some(column) = columns.iter().find(|column| !(0..rows as i32).contains(column)) {
            return fail!(IoError, "there is a block in column {column}, and there are {rows} columns");
        }
        let lengths = [
            (Some(&self.values), columns.len() * size, "values"),
            (self.diagonal.as_ref(), rows * size, "values of the diagonal"),
            (self.rhs.as_ref(), rows * self.block, "elements of the right-hand side"),
            (self.solution.as_ref(), rows * self.block, "elements of the solution"),
        ];
        for (array, len, name) in lengths {
            if let Some(array) = array.filter(|array| array.len() != len) {
                return fail!(IoError, "there are {} {name}, and {len} are needed", array.len());
            }
        }
        Ok(())
    }

    /// Adds vectors that a file lacks: a right-hand side of ones, or A times ones, and a solution of zeros.
    pub fn complete(&mut self, rhs_from_a: bool) -> Result<()> {
        let (rows, block) = (self.rows(), self.block);
        if self.rhs.is_none() {
            let mut b = vec_of(rows * block, if rhs_from_a { 0.0 } else { 1.0 })?;
            if rhs_from_a {
                for row in 0..rows {
                    let range =
                        self.offsets[row] as usize * block * block..self.offsets[row + 1] as usize * block * block;
                    let diagonal =
                        self.diagonal.as_ref().map_or(&[][..], |d| &d[row * block * block..][..block * block]);
                    for blocks in [&self.values[range], diagonal] {
                        for (i, line) in blocks.chunks_exact(block).enumerate() {
                            b[row * block + i % block] += line.iter().sum::<f64>();
                        }
                    }
                }
            }
            self.rhs = Some(b);
        }
        if self.solution.is_none() {
            self.solution = Some(zeros(rows * block)?);
        }
        Ok(())
    }

    /// The rows of a rank, in ascending order, with columns of the whole matrix.
    pub fn part(&self, division: &Division, rank: usize) -> Result<System> {
        let (block, size) = (self.block, self.block * self.block);
        let (first, rows) = (division.starts[rank], division.rows(rank));
        let mut own = zeros::<usize>(rows)?;
        for row in 0..self.rows() {
            let number = division.number(row);
            if (first..first + rows).contains(&number) {
                own[number - first] = row;
            }
        }
        let range = |row: usize| self.offsets[row] as usize..self.offsets[row + 1] as usize;
        let mut offsets = zeros::<i32>(rows + 1)?;
        for (i, row) in own.iter().enumerate() {
            offsets[i + 1] = offsets[i] + range(*row).len() as i32;
        }
        let (mut columns, mut values) = (zeros::<i32>(offsets[rows] as usize)?, zeros(offsets[rows] as usize * size)?);
        for (i, row) in own.iter().enumerate() {
            let (from, to) = (range(*row), offsets[i] as usize..offsets[i + 1] as usize);
            columns[to.clone()].copy_from_slice(&self.columns[from.clone()]);
            values[to.start * size..to.end * size].copy_from_slice(&self.values[from.start * size..from.end * size]);
        }
        let of = |all: &Option<Vec<f64>>, size: usize| -> Result<Option<Vec<f64>>> {
            let Some(all) = all else { return Ok(None) };
            let mut part = zeros(rows * size)?;
            for (to, row) in part.chunks_exact_mut(size).zip(&own) {
                to.copy_from_slice(&all[row * size..][..size]);
            }
            Ok(Some(part))
        };
        let diagonal = of(&self.diagonal, size)?;
        let (rhs, solution) = (of(&self.rhs, block)?, of(&self.solution, block)?);
        Ok(System { block, offsets, columns, values, diagonal, rhs, solution })
    }

    /// The rows of a rank, whose columns are those of the whole matrix.
    pub fn into_rows(self) -> Rows {
        let System { block, offsets, columns, values, diagonal, .. } = self;
        Rows { block, offsets, columns, whole: None, values, diagonal }
    }

    /// Makes it what a matrix is.
    pub fn into_matrix(self, matrix: &Matrix) -> Result<()> {
        let is_narrow = matrix.mode.matrix == TERRACE_F32;
        let values = InFormat::new(&self.values, is_narrow)?;
        let diagonal = self.diagonal.as_ref().map(|d| InFormat::new(d, is_narrow)).transpose()?;
        let upload = Upload {
            rows: self.rows(),
            entries: self.columns.len(),
            block: self.block,
            offsets: self.offsets.as_ptr(),
            columns: self.columns.as_ptr().cast(),
            wide_columns: false,
            values: values.pointer(),
            diagonal: diagonal.as_ref().map_or(std::ptr::null(), InFormat::pointer),
        };
        // SAFETY: arrays of these lengths, which live until the end of the call.
        unsafe { upload.into_matrix(matrix) }
    }
}

/// Numbers in the format of a mode.
pub enum InFormat<'a> {
    Wide(&'a [f64]),
    Narrow(Vec<f32>),
}

impl InFormat<'_> {
    pub fn new(values: &[f64], is_narrow: bool) -> Result<InFormat<'_>> {
        if !is_narrow {
            return Ok(InFormat::Wide(values));
        }
        let mut narrow = zeros::<f32>(values.len())?;
        narrow.iter_mut().zip(values).for_each(|(to, from)| *to = *from as f32);
        Ok(InFormat::Narrow(narrow))
    }

    pub fn pointer(&self) -> *const c_void {
        match self {
            InFormat::Wide(values) => values.as_ptr().cast(),
            InFormat::Narrow(values) => values.as_ptr().cast(),
        }
    }

    pub fn bytes(&self) -> usize {
        match self {
            InFormat::Wide(values) => size_of_val(*values),
            InFormat::Narrow(values) => size_of_val(values.as_slice()),
        }
    }
}

//! CSR with 16-bit columns, stored as offsets from the smallest column of a group of rows. Coupled unknowns of a mesh
//! usually have close numbers; then the indices take half the bytes. Row offsets have 32 bits.

use super::{Block, CsrView, SharedCsr, Storage};
use crate::error::{Result, try_capacity, try_vec};
use crate::par;
use crate::scalar::Number;
use std::sync::Arc;

/// Rows of a group, a power of two: the kernels process a group at a time.
pub const GROUP: usize = 64;

/// A type that columns are stored in.
pub trait Column: Copy + Send + Sync + 'static {
    /// The column as stored.
    fn to_i32(self) -> i32;
    /// Columns of this type as those of any type.
    fn columns(columns: &[Self]) -> ColumnsRef<'_>;
}

/// Stored columns of any type.
#[derive(Clone, Copy)]
pub enum ColumnsRef<'a> {
    /// 32-bit.
    I32(&'a [i32]),
    /// 16-bit.
    U16(&'a [u16]),
}

impl Column for i32 {
    #[inline(always)]
    fn to_i32(self) -> i32 {
        self
    }
    fn columns(columns: &[i32]) -> ColumnsRef<'_> {
        ColumnsRef::I32(columns)
    }
}

impl Column for u16 {
    #[inline(always)]
    fn to_i32(self) -> i32 {
        i32::from(self)
    }
    fn columns(columns: &[u16]) -> ColumnsRef<'_> {
        ColumnsRef::U16(columns)
    }
}

/// A matrix with columns in 16 bits.
pub struct Compact<S> {
    /// Columns of the matrix.
    pub cols: usize,
    /// Row offsets, one more than rows.
    pub offsets: Vec<u32>,
    /// The smallest column of each [`GROUP`] of rows.
    pub bases: Vec<i32>,
    /// Column of each entry minus the smallest column of its group.
    pub columns: Vec<u16>,
    /// Values.
    pub values: Arc<dyn Storage<S>>,
}

impl<S: Number> Compact<S> {
    /// Converts a matrix; the values are shared. None for block matrices, if a group of rows spans more columns than 16
    /// bits hold, or if less than a fifth of the bytes would be saved, as in f64.
    pub fn new(a: &SharedCsr<S>) -> Result<Option<Compact<S>>> {
        let view = a.view();
        let saved = (size_of::<i32>() - size_of::<u16>()) * 5 >= size_of::<i32>() + size_of::<S>();
        if view.block != Block::SCALAR || !saved || u32::try_from(view.nnz()).is_err() {
            return Ok(None);
        }
        let Some(bases) = bases(&view)? else { return Ok(None) };
        let wide = par::offsets(view.rows, |i| view.row_range(i).len())?;
        let mut columns = try_vec(view.nnz(), 0_u16)?;
        par::for_each_segment_mut(&mut columns, &wide, 1, par::ROW_GRAIN, |rows, columns| {
            let start = wide[rows.start] as usize;
            for i in rows {
                let range = view.row_range(i);
                for (to, k) in columns[range.start - start..].iter_mut().zip(range) {
                    *to = (view.col(k) as i32 - bases[i / GROUP]) as u16;
                }
            }
        });
        let mut offsets = try_capacity(wide.len())?;
        offsets.extend(wide.iter().map(|o| *o as u32));
        Ok(Some(Compact { cols: view.cols, offsets, bases, columns, values: Arc::clone(&a.values) }))
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Bytes that the library holds for it.
    pub fn owned_bytes(&self) -> usize {
        size_of_val(&self.offsets[..])
            + size_of_val(&self.bases[..])
            + size_of_val(&self.columns[..])
            + self.values.owned_bytes()
    }
}

/// The smallest column of each group of rows; none if a column of the group exceeds it by more than 16 bits hold.
fn bases<S: Number>(a: &CsrView<'_, S>) -> Result<Option<Vec<i32>>> {
    let mut bases = try_vec(a.rows.div_ceil(GROUP), 0_i32)?;
    let too_far = par::sum_mut(&mut bases, par::ROW_GRAIN / GROUP, |first, bases| {
        let mut too_far = 0;
        for (g, base) in bases.iter_mut().enumerate() {
            let begin = (first + g) * GROUP;
            let end = (begin + GROUP).min(a.rows);
            let columns = &a.columns[a.row_range(begin).start..a.row_range(end - 1).end];
            let (least, most) = columns.iter().fold((i32::MAX, i32::MIN), |(l, m), c| (l.min(*c), m.max(*c)));
            if columns.is_empty() {
                continue;
            }
            *base = least - a.base;
            too_far += usize::from(most - least > i32::from(u16::MAX));
        }
        too_far as f64
    });
    Ok((too_far == 0.0).then_some(bases))
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::sparse::Csr;

    #[test]
    fn columns_come_back_as_they_were() {
        let a = gallery::poisson7(9, 8, 7).unwrap().into_shared().cast::<f32>().unwrap();
        let compact = Compact::new(&a).unwrap().unwrap();
        let view = a.view();
        assert_eq!((compact.rows(), compact.cols), (view.rows, view.cols));
        for i in 0..view.rows {
            let range = compact.offsets[i] as usize..compact.offsets[i + 1] as usize;
            assert_eq!(range, view.row_range(i));
            for k in range {
                assert_eq!(i32::from(compact.columns[k]) + compact.bases[i / GROUP], view.columns[k]);
            }
        }
        let bytes = view.nnz() * 6 + (view.rows + 1) * 4 + view.rows.div_ceil(GROUP) * 4;
        assert_eq!(compact.owned_bytes(), bytes);
    }

    #[test]
    fn what_does_not_fit_or_save_enough_is_left_as_it_is() {
        let wide = |last: usize| Csr::<f32>::from_triplets(1, 70_000, &[(0, 3, 1.0), (0, last, 1.0)]).unwrap();
        assert!(Compact::new(&wide(65_538).into_shared()).unwrap().is_some());
        assert!(Compact::new(&wide(65_539).into_shared()).unwrap().is_none());
        let double = gallery::poisson5(4, 4).unwrap();
        assert!(
            Compact::new(&double.view().to_blocks(2).unwrap().into_shared().cast::<f32>().unwrap()).unwrap().is_none()
        );
        assert!(Compact::new(&double.into_shared()).unwrap().is_none(), "f64 would save a sixth");
        let empty = Csr::<f32>::from_triplets(130, 5, &[(129, 4, 1.0)]).unwrap().into_shared();
        assert_eq!(Compact::new(&empty).unwrap().unwrap().bases, [0, 0, 4]);
    }
}

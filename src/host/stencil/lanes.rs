//! Several neighbouring cells of a line at once, one in each lane: loops over lanes become operations on registers.

use crate::scalar::Scalar;

/// Cells that are computed together.
pub(super) const LANES: usize = 8;

/// One number for each of these cells.
pub(super) type Lanes<T> = [T; LANES];

/// The first of the cells that are computed together in a line of so many. The last ones come with some before them, which are computed twice.
pub(super) fn starts(cells: usize) -> impl Iterator<Item = usize> {
    let last = cells.saturating_sub(LANES);
    (0..cells).step_by(LANES).map(move |x| x.min(last))
}

#[inline(always)]
pub(super) fn multiply_add<T: Scalar>(sums: &mut Lanes<T>, one: &Lanes<T>, other: &Lanes<T>) {
    for k in 0..LANES {
        sums[k] += one[k] * other[k];
    }
}

/// Elements 2 x + d for d = -1, 0 and 1 and the coarse cells from x on; zero behind the line, and before it the last one where it is periodic.
#[inline(always)]
pub(super) fn by_steps<T: Scalar>(line: &[T], x: usize, periodic: bool) -> [Lanes<T>; 3] {
    let mut fine = [T::ZERO; 2 * LANES];
    match line.get(2 * x..2 * x + 2 * LANES) {
        Some(all) => fine.copy_from_slice(all),
        None => {
            let rest = &line[2 * x..];
            fine[..rest.len()].copy_from_slice(rest);
        }
    }
    let before = match x {
        0 if periodic => line[line.len() - 1],
        0 => T::ZERO,
        _ => line[2 * x - 1],
    };
    let left = std::array::from_fn(|k| if k == 0 { before } else { fine[2 * k - 1] });
    [left, std::array::from_fn(|k| fine[2 * k]), std::array::from_fn(|k| fine[2 * k + 1])]
}

/// Elements x + t of a line for the cells from x on; outside of it zero, or where it is periodic those of the other end.
#[inline(always)]
pub(super) fn cells_at<T: Scalar>(line: &[T], x: usize, t: i8, periodic: bool) -> Lanes<T> {
    let mut cells = [T::ZERO; LANES];
    let Some(first) = x.checked_add_signed(isize::from(t)) else {
        cells[0] = if periodic { line[line.len() - 1] } else { T::ZERO };
        match line.get(..LANES - 1) {
            Some(all) => cells[1..].copy_from_slice(all),
            None => cells[1..=line.len()].copy_from_slice(line),
        }
        return cells;
    };
    let rest = &line[first..];
    if let Some(all) = rest.get(..LANES) {
        cells.copy_from_slice(all);
        return cells;
    }
    cells[rest.len()] = if periodic { line[0] } else { T::ZERO };
    match rest.get(..LANES - 1) {
        Some(all) => cells[..LANES - 1].copy_from_slice(all),
        None => cells[..rest.len()].copy_from_slice(rest),
    }
    cells
}

/// Every other element from x + t on; outside of the line zero, or where it is periodic those of the other end.
#[inline(always)]
pub(super) fn every_other<T: Scalar>(line: &[T], x: usize, t: i8, periodic: bool) -> Lanes<T> {
    let first = x.wrapping_add_signed(isize::from(t));
    if let Some(all) = line.get(first..first.wrapping_add(2 * LANES - 1)) {
        return std::array::from_fn(|k| all[2 * k]);
    }
    std::array::from_fn(|k| match first.wrapping_add(2 * k) {
        at if at < line.len() => line[at],
        at if periodic && at == line.len() => line[0],
        usize::MAX if periodic => line[line.len() - 1],
        _ => T::ZERO,
    })
}

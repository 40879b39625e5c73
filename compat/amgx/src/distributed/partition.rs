//! Which rows are whose, as programs say it.

use crate::boundary::{Code, Failure, Result, count, fail};
use crate::division::{self, Division};
use crate::ranks::Ranks;
use std::ffi::{c_int, c_void};

/// Which rows are whose, as a program says it.
pub enum Partition {
    /// The rank of each row, or null: consecutive rows, as many as each rank gives.
    Vector(*const c_int),
    /// The first row of each rank and the number of all, in 32 bits or not.
    Offsets(*const c_void, bool),
}

/// What does not fit is a parameter of the caller.
pub fn bad<T>(result: std::result::Result<T, String>) -> Result<T> {
    result.map_err(|message| Failure { code: Code::BadParameters, message })
}

impl Partition {
    /// Collective: the division of so many rows, of which this rank gives so many.
    ///
    /// # Safety
    /// Null, or an array with a number for each row, or one more than there are ranks.
    pub unsafe fn division(&self, total: usize, rows: usize, ranks: Option<&Ranks>) -> Result<Division> {
        let size = ranks.map_or(1, |ranks| ranks.size);
        let counts = match ranks {
            None => vec![rows],
            Some(ranks) => {
                let (all, _) = ranks.gather(&[rows as u64, total as u64])?;
                if let Some(rank) = all.chunks_exact(2).position(|of| of[1] != all[1]) {
                    let theirs = all[2 * rank + 1];
                    return fail!(BadParameters, "n_global is {theirs} on rank {rank}, and {} on rank 0", all[1]);
                }
                all.chunks_exact(2).map(|of| of[0] as usize).collect()
            }
        };
        // SAFETY: by this function's contract.
        let division = bad(unsafe {
            match *self {
                Partition::Vector(ranks) if ranks.is_null() => Division::by_counts(&counts, Some(total)),
                Partition::Vector(ranks) => Division::by_vector(std::slice::from_raw_parts(ranks, total), size, size),
                Partition::Offsets(offsets, true) => {
                    let offsets = std::slice::from_raw_parts(offsets.cast::<c_int>(), size + 1);
                    Division::by_offsets(&offsets.iter().map(|offset| i64::from(*offset)).collect::<Vec<_>>(), total)
                }
                Partition::Offsets(offsets, false) => {
                    Division::by_offsets(std::slice::from_raw_parts(offsets.cast::<i64>(), size + 1), total)
                }
            }
        });
        let fits = division.and_then(|division| {
            let (rank, own) = (ranks.map_or(0, |ranks| ranks.rank), division.rows(ranks.map_or(0, |ranks| ranks.rank)));
            if own != rows {
                return fail!(BadParameters, "n is {rows}, and the partition gives rank {rank} {own} rows");
            }
            Ok(division)
        });
        agree_on(ranks, fits)
    }
}

/// Collective: the division, if all ranks have the same.
pub fn agree_on(ranks: Option<&Ranks>, division: Result<Division>) -> Result<Division> {
    let Some(ranks) = ranks else { return division };
    let division = ranks.agree(division)?;
    let (all, _) = ranks.gather(&[division.fingerprint()])?;
    match all.iter().position(|of| *of != all[0]) {
        Some(rank) => fail!(BadParameters, "rank {rank} has another partition than rank 0"),
        None => Ok(division),
    }
}

/// The partition of a file: each row's, or ranges of these sizes, or ranges that are as even as it goes.
///
/// # Safety
/// Null, or arrays of these lengths.
pub unsafe fn of_file(
    total: usize,
    ranks: usize,
    (num_partitions, sizes): (c_int, *const c_int),
    (len, partition): (c_int, *const c_int),
) -> Result<Division> {
    let partitions = match count(num_partitions, "num_partitions")? {
        0 => ranks,
        given => given,
    };
    let sizes = match num_partitions > 0 && !sizes.is_null() {
        // SAFETY: by this function's contract.
        true => Some(unsafe { std::slice::from_raw_parts(sizes, partitions) }),
        false => None,
    };
    if partition.is_null() {
        let each = bad(division::partitions_of_each(partitions, ranks))?;
        let Some(sizes) = sizes else { return Ok(Division::even(total, ranks)) };
        let mut rows = vec![0; ranks];
        for (partition, size) in sizes.iter().enumerate() {
            rows[partition / each] += count(*size, "partition_sizes")?;
        }
        return bad(Division::by_counts(&rows, Some(total)));
    }
    if count(len, "partition_vector_size")? != total {
        return fail!(BadParameters, "partition_vector_size is {len}, and the matrix has {total} rows");
    }
    // SAFETY: by this function's contract.
    let partition = unsafe { std::slice::from_raw_parts(partition, total) };
    let division = bad(Division::by_vector(partition, partitions, ranks))?;
    for (number, size) in sizes.into_iter().flatten().enumerate() {
        let rows = partition.iter().filter(|of| usize::try_from(**of) == Ok(number)).count();
        if usize::try_from(*size) != Ok(rows) {
            return fail!(
                BadParameters,
                "partition_sizes[{number}] is {size}, and partition_vector has {rows} such rows"
            );
        }
    }
    Ok(division)
}

//! How the rows of a matrix are divided among ranks, and their numbers where the rows of a rank are those from one on.
//! Nothing of the crate is used here, so that a test can include the file.

/// The rows of each rank, numbered by rank and on a rank in ascending order of the caller's numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Division {
    /// The number of the first row of each rank, and at the end the number of all.
    pub starts: Vec<usize>,
    /// For each row of the caller's numbering its number, where that is another one for some row.
    pub numbers: Option<Vec<i32>>,
}

impl Division {
    /// Consecutive rows, so many on each rank. `total` are all rows, if that is known.
    pub fn by_counts(counts: &[usize], total: Option<usize>) -> Result<Division, String> {
        let mut starts = vec![0];
        for count in counts {
            starts.push(starts.last().map_or(0, |last: &usize| last.saturating_add(*count)));
        }
        let sum = starts.last().copied().unwrap_or(0);
        if total.is_some_and(|total| total != sum) {
            return Err(format!("n_global is {}, and the ranks have {sum} rows", total.unwrap_or(0)));
        }
        if i32::try_from(sum).is_err() {
            return Err(format!("the ranks have {sum} rows; accepted: at most 2147483647"));
        }
        Ok(Division { starts, numbers: None })
    }

    /// Consecutive rows, from the offset of each rank on.
    pub fn by_offsets(offsets: &[i64], total: usize) -> Result<Division, String> {
        if let Some(rank) = offsets.windows(2).position(|pair| pair[1] < pair[0]) {
            let (begin, end) = (offsets[rank], offsets[rank + 1]);
            return Err(format!("the partition gives rank {rank} the rows from {begin} to {end}, which is less"));
        }
        let (first, last) = (offsets.first().copied(), offsets.last().copied());
        if (first, last) != (Some(0), i64::try_from(total).ok()) {
            let (first, last) = (first.unwrap_or(0), last.unwrap_or(0));
            return Err(format!("the partition goes from {first} to {last}; accepted: from 0 to n_global, {total}"));
        }
        let starts = offsets.iter().map(|offset| usize::try_from(*offset).unwrap_or(0)).collect();
        Ok(Division { starts, numbers: None })
    }

    /// The rank of each row. With several partitions for a rank, consecutive ones are its.
    pub fn by_vector(partition: &[i32], partitions: usize, ranks: usize) -> Result<Division, String> {
        let each = partitions_of_each(partitions, ranks)?;
        let rank_of = |partition: i32| usize::try_from(partition).ok().filter(|p| *p < partitions).map(|p| p / each);
        let mut counts = vec![0; ranks];
        for (row, partition) in partition.iter().enumerate() {
            match rank_of(*partition) {
                Some(rank) => counts[rank] += 1,
                None => {
                    let most = partitions - 1;
                    return Err(format!("the partition gives row {row} to {partition}; accepted: 0 to {most}"));
                }
            }
        }
        let division = Division::by_counts(&counts, None)?;
        if partition.windows(2).all(|pair| rank_of(pair[0]) <= rank_of(pair[1])) {
            return Ok(division);
        }
        let (mut next, mut numbers) = (division.starts.clone(), Vec::new());
        if numbers.try_reserve_exact(partition.len()).is_err() {
            return Err(format!("the numbers of {} rows could not be allocated", partition.len()));
        }
        for partition in partition {
            let rank = rank_of(*partition).unwrap_or(0);
            numbers.push(next[rank] as i32);
            next[rank] += 1;
        }
        Ok(Division { starts: division.starts, numbers: Some(numbers) })
    }

    /// As even as it goes.
    pub fn even(total: usize, ranks: usize) -> Division {
        Division {
            starts: (0..=ranks).map(|rank| (total as u128 * rank as u128 / ranks as u128) as usize).collect(),
            numbers: None,
        }
    }

    /// Rows of all ranks.
    pub fn total(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Rows of a rank.
    pub fn rows(&self, rank: usize) -> usize {
        self.starts[rank + 1] - self.starts[rank]
    }

    /// The number of a row of the caller's numbering.
    pub fn number(&self, row: usize) -> usize {
        self.numbers.as_ref().map_or(row, |numbers| numbers[row] as usize)
    }

    /// For each number the row of the caller's numbering, where these differ.
    pub fn callers(&self) -> Option<Vec<i32>> {
        let numbers = self.numbers.as_ref()?;
        let mut callers = vec![0; numbers.len()];
        for (row, number) in numbers.iter().enumerate() {
            callers[*number as usize] = row as i32;
        }
        Some(callers)
    }

    /// A number that two divisions have in common only if they are the same, but for one case in 2^64.
    pub fn fingerprint(&self) -> u64 {
        let starts = self.starts.iter().map(|start| *start as u64);
        let numbers = self.numbers.iter().flatten().map(|number| *number as u64);
        starts.chain(numbers).fold(0xcbf2_9ce4_8422_2325, |hash, number| {
            let mixed = (hash ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed ^ (mixed >> 29)
        })
    }
}

/// Partitions that each rank has.
pub fn partitions_of_each(partitions: usize, ranks: usize) -> Result<usize, String> {
    match partitions.checked_div(ranks) {
        Some(each) if each > 0 && each * ranks == partitions => Ok(each),
        _ => Err(format!("num_partitions is {partitions}; accepted: a multiple of the number of ranks, {ranks}")),
    }
}

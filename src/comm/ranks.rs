//! What the library builds from a communicator: reductions of numbers, gathered arrays, and errors on which all ranks
//! agree.

use super::{Communicator, Reduction, bytes, bytes_mut};
use crate::error::{Class, Error, Result, Status, fail, try_collect, try_copy, try_vec};
use crate::scalar::Element;
use crate::sync::lock;
use std::sync::{Arc, Mutex};

/// A number of each rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// The smallest.
    pub min: i64,
    /// The mean.
    pub mean: f64,
    /// The largest.
    pub max: i64,
}

/// The ranks of a communicator.
pub struct Ranks {
    communicator: Arc<dyn Communicator>,
    /// The first failure of an operation that could not return it.
    failure: Mutex<Option<Error>>,
    /// The last error that every rank has.
    agreed: Mutex<Option<Error>>,
}

impl Ranks {
    /// Those of a communicator.
    pub fn new(communicator: Arc<dyn Communicator>) -> Ranks {
        Ranks { communicator, failure: Mutex::new(None), agreed: Mutex::new(None) }
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.communicator.rank()
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.communicator.size()
    }

    /// The communicator itself.
    pub fn communicator(&self) -> &dyn Communicator {
        &*self.communicator
    }

    /// Lets this rank wait for others for at most so many seconds; 0 is without end.
    pub fn set_timeout(&self, seconds: f64) -> Result<()> {
        self.communicator.set_timeout(seconds)
    }

    /// Keeps the failure of an operation that cannot return it; `None` then.
    pub fn keep<R>(&self, result: Result<R>) -> Option<R> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                lock(self.failure.lock()).get_or_insert(error);
                None
            }
        }
    }

    /// The first failure that was kept.
    pub fn status(&self) -> Result<()> {
        lock(self.failure.lock()).clone().map_or(Ok(()), Err)
    }

    /// A number, reduced over all ranks.
    pub fn reduce(&self, number: i64, reduction: Reduction) -> Result<i64> {
        let mut numbers = [number];
        self.communicator.all_reduce(&mut numbers, reduction)?;
        Ok(numbers[0])
    }

    /// The largest of a number of each rank that is not negative; NaN is larger than any.
    pub fn largest(&self, number: f64) -> Result<f64> {
        Ok(from_ordered(self.reduce(ordered(number), Reduction::Max)?))
    }

    /// Smallest, mean and largest of some numbers of each rank.
    pub fn spreads(&self, numbers: &[i64]) -> Result<Vec<Spread>> {
        let reduce = |reduction| {
            let mut numbers = try_copy(numbers)?;
            self.communicator.all_reduce(&mut numbers, reduction).map(|()| numbers)
        };
        let (min, sum, max) = (reduce(Reduction::Min)?, reduce(Reduction::Sum)?, reduce(Reduction::Max)?);
        let mean = |sum: i64| sum as f64 / self.size() as f64;
        let spread = |k: usize| Spread { min: min[k], mean: mean(sum[k]), max: max[k] };
        try_collect((0..numbers.len()).map(spread))
    }

    /// Arrays of the same length of all ranks, one after the other, into `all`.
    pub fn gather_into<T: Element>(&self, own: &[T], lengths: &[usize], all: &mut [T]) -> Result<()> {
        self.communicator.all_gather(bytes(own), lengths, bytes_mut(all))
    }

    /// Arrays of all ranks, one after the other, and where each begins, with the end of the last.
    pub fn gather<T: Element>(&self, own: &[T]) -> Result<(Vec<T>, Vec<usize>)> {
        let mut counts = try_vec(self.size(), 0_u64)?;
        let lengths = try_vec(self.size(), size_of::<u64>())?;
        self.gather_into(&[own.len() as u64], &lengths, &mut counts)?;
        let mut starts = try_vec(self.size() + 1, 0)?;
        for (rank, count) in counts.iter().enumerate() {
            starts[rank + 1] = starts[rank] + *count as usize;
        }
        // A rank without memory for all of it must not leave the others waiting.
        let room = try_vec(starts[self.size()], T::default());
        let mut all = self.agree(room)?;
        let mut lengths = lengths;
        lengths.iter_mut().zip(&counts).for_each(|(length, count)| *length = *count as usize * size_of::<T>());
        self.gather_into(own, &lengths, &mut all)?;
        Ok((all, starts))
    }

    /// Collective: the result of this rank if no rank failed. Otherwise an error on every rank: its own where this rank
    /// failed, that of the first rank that failed elsewhere.
    pub fn agree<R>(&self, result: Result<R>) -> Result<R> {
        match self.agreed_error(result.as_ref().err())? {
            Some(error) => result.and(Err(error)),
            None => result,
        }
    }

    /// The error of the first rank that failed, from the error of this rank.
    fn agreed_error(&self, own: Option<&Error>) -> Result<Option<Error>> {
        let size = self.size();
        // A rank whose communicator failed tells less than one that knows why.
        let failed = match own {
            None => 0,
            Some(error) if error.status == Status::Callback => size - self.rank(),
            Some(_) => 2 * size - self.rank(),
        };
        let first = match self.reduce(failed as i64, Reduction::Max) {
            Ok(0) => return Ok(None),
            Ok(first) => (2 * size - first as usize) % size,
            // A broken communicator is told where there is nothing of this rank's own to tell.
            Err(broken) => return Ok(Some(broken)),
        };
        let told = match own {
            Some(error) if first == self.rank() => Some((error.status.code(), error.message.as_bytes())),
            _ => None,
        };
        let (status, message) = told.unwrap_or((0, &[]));
        let other = self.told_by(first, status, message)?;
        *lock(self.agreed.lock()) = Some(own.unwrap_or(&other).clone());
        Ok(Some(other))
    }

    /// As [`Ranks::agree`], after work in which ranks have met. Lack of memory in the middle, or a failure of the
    /// communicator, is returned at once, because the other ranks may not have come as far.
    pub fn settle<R>(&self, result: Result<R>) -> Result<R> {
        match result {
            Err(error) if matches!(error.status.row().class, Class::Resource | Class::Internal) => Err(error),
            result => self.agree(result),
        }
    }

    /// The error of a rank, which alone has a status and a message.
    fn told_by(&self, rank: usize, status: i32, message: &[u8]) -> Result<Error> {
        // At most so many bytes of a sentence, which is what the library allocates without looking.
        let message = &message[..message.len().min(1024)];
        let mut numbers = [-i64::from(status), message.len() as i64];
        self.communicator.all_reduce(&mut numbers, Reduction::Max)?;
        let mut lengths = vec![0; self.size()];
        lengths[rank] = numbers[1] as usize;
        let mut all = vec![0; numbers[1] as usize];
        self.communicator.all_gather(message, &lengths, &mut all)?;
        let status = Status::from_code(-numbers[0] as i32).unwrap_or(Status::Internal);
        Ok(Error::new(status, format!("rank {rank} of {}: {}", self.size(), String::from_utf8_lossy(&all))))
    }

    /// Runs collective work, which may be part of other such work. Errors on which the ranks agreed, or which all of them find in the same
    /// numbers, are just returned. An error of this rank alone, such as lack of memory in the middle, or a panic, makes what the others wait
    /// for fail.
    pub fn run<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<R> {
        let leaving = Leaving(self);
        lock(self.agreed.lock()).take();
        let result = work();
        std::mem::forget(leaving);
        if let Err(error) = &result
            && matches!(error.status.row().class, Class::Resource | Class::Internal)
            && !lock(self.agreed.lock()).as_ref().is_some_and(|agreed| agreed == error)
        {
            self.communicator.revoke();
        }
        result
    }
}

/// A number that is not negative as an integer of the same order, which ranks can reduce; NaN is larger than any.
pub(crate) fn ordered(number: f64) -> i64 {
    number.abs().to_bits() as i64
}

/// The number of which [`ordered`] made an integer.
pub(crate) fn from_ordered(integer: i64) -> f64 {
    f64::from_bits(integer as u64)
}

/// Work that a panic ends.
struct Leaving<'a>(&'a Ranks);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.communicator.revoke();
    }
}

/// Refuses what ranks cannot do together, with what they can.
pub(crate) fn unavailable<R>(what: &str, instead: &str) -> Result<R> {
    fail!(Unsupported, "{what} is not available over ranks; {instead}")
}

//! Ranks as threads of one process.

use super::{Communicator, Part, Reduction, bytes, bytes_mut};
use crate::error::{Result, fail, try_copy, try_vec};
use crate::sync::lock;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// From, to and tag of messages.
type Route = (usize, usize, i32);

/// What the ranks share.
struct Shared {
    size: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Messages that were sent and not received.
    messages: HashMap<Route, VecDeque<Vec<u8>>>,
    /// Buffers of messages that were received.
    free: Vec<Vec<u8>>,
    /// What each rank gave to the collective operation that is under way.
    given: Vec<Vec<u8>>,
    arrived: usize,
    /// Ranks that have yet to read what was given.
    leaving: usize,
    /// Collective operations to which all ranks have arrived.
    complete: u64,
    /// Duplicates that not all ranks have taken, by their number, and how many have.
    duplicates: HashMap<usize, (Arc<Shared>, usize)>,
    /// The rank that gave up.
    revoked: Option<usize>,
    /// Ranks that were dropped.
    left: Vec<bool>,
}

impl Shared {
    fn new(size: usize) -> Arc<Shared> {
        let state = State { given: vec![Vec::new(); size], left: vec![false; size], ..State::default() };
        Arc::new(Shared { size, state: Mutex::new(state), changed: Condvar::new() })
    }
}

/// One of the ranks.
pub(crate) struct ThreadRank {
    rank: usize,
    shared: Arc<Shared>,
    /// Duplicates that this rank has taken.
    duplicates: Mutex<usize>,
    /// How long it waits for others; none is without end.
    timeout: Mutex<Option<Duration>>,
}

/// The communicators of `size` ranks, each of which a thread of its own uses. A rank whose communicator is dropped while
/// others wait for it makes them fail.
pub fn threads(size: usize) -> Vec<Arc<dyn Communicator>> {
    ThreadRank::all(size).into_iter().map(|rank| Arc::new(rank) as _).collect()
}

impl ThreadRank {
    /// All ranks.
    pub fn all(size: usize) -> Vec<ThreadRank> {
        let shared = Shared::new(size);
        (0..size).map(|rank| ThreadRank::new(rank, &shared)).collect()
    }

    fn new(rank: usize, shared: &Arc<Shared>) -> ThreadRank {
        ThreadRank { rank, shared: Arc::clone(shared), duplicates: Mutex::new(0), timeout: Mutex::new(None) }
    }

    /// Waits until `ready` finds what it waits for from this rank, or from all; fails where that will never come, or not
    /// in time.
    fn wait<R>(
        &self,
        from: Option<usize>,
        mut ready: impl FnMut(&mut State) -> Option<R>,
    ) -> Result<(R, MutexGuard<'_, State>)> {
        let Shared { size, changed, .. } = &*self.shared;
        let timeout = *lock(self.timeout.lock());
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = lock(self.shared.state.lock());
        loop {
            if let Some(found) = ready(&mut state) {
                return Ok((found, state));
            }
            let left = || (0..*size).find(|rank| state.left[*rank] && from.is_none_or(|from| from == *rank));
            if let Some(rank) = state.revoked.or_else(left) {
                return fail!(Callback, "the communicator is of no more use: rank {rank} gave up or was destroyed");
            }
            let Some(deadline) = deadline else {
                state = lock(changed.wait(state));
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.revoked = Some(self.rank);
                changed.notify_all();
                let of = from.map_or("all ranks".to_string(), |from| format!("rank {from}"));
                let seconds = timeout.unwrap_or_default().as_secs_f64();
                return fail!(Callback, "rank {} of {size} has waited for {of} for {seconds} seconds", self.rank);
            }
            state = lock(changed.wait_timeout(state, left)).0;
        }
    }

    /// As [`Communicator::duplicate`], which waits for nobody here.
    pub fn another(&self) -> ThreadRank {
        let number = {
            let mut taken = lock(self.duplicates.lock());
            *taken += 1;
            *taken
        };
        let mut state = lock(self.shared.state.lock());
        let size = self.shared.size;
        let (shared, taken) = state.duplicates.entry(number).or_insert_with(|| (Shared::new(size), 0));
        *taken += 1;
        let (shared, all) = (Arc::clone(shared), *taken == size);
        if all {
            state.duplicates.remove(&number);
        }
        ThreadRank::new(self.rank, &shared)
    }

    /// Sends a message. It is copied, so that this does not wait.
    pub fn send(&self, to: usize, tag: i32, message: &[u8]) -> Result<()> {
        let mut state = lock(self.shared.state.lock());
        let mut copy = match state.free.pop() {
            Some(mut buffer) => {
                buffer.clear();
                buffer
            }
            None => Vec::new(),
        };
        crate::error::try_reserve(&mut copy, message.len())?;
        copy.extend_from_slice(message);
        state.messages.entry((self.rank, to, tag)).or_default().push_back(copy);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Waits for a message of this length.
    pub fn receive(&self, from: usize, tag: i32, into: &mut [u8]) -> Result<()> {
        let route = (from, self.rank, tag);
        let (message, mut state) = self.wait(Some(from), |state| state.messages.get_mut(&route)?.pop_front())?;
        let fits = message.len() == into.len();
        if fits {
            into.copy_from_slice(&message);
        }
        let length = message.len();
        state.free.push(message);
        match fits {
            true => Ok(()),
            false => fail!(Internal, "a message of {length} bytes from rank {from} has room for {}", into.len()),
        }
    }

    /// A collective operation: each rank gives bytes, and reads those of all.
    fn together(&self, own: &[u8], read: &mut dyn FnMut(&[Vec<u8>]) -> Result<()>) -> Result<()> {
        let copy = try_copy(own)?;
        // A rank that gave up may have arrived and will not come again.
        let free = |state: &mut State| (state.leaving == 0 && state.revoked.is_none()).then_some(state.complete);
        let (mine, mut state) = self.wait(None, free)?;
        state.given[self.rank] = copy;
        state.arrived += 1;
        if state.arrived == self.shared.size {
            (state.arrived, state.leaving) = (0, self.shared.size);
            state.complete += 1;
            self.shared.changed.notify_all();
        }
        drop(state);
        let ((), mut state) = self.wait(None, |state| (state.complete != mine).then_some(()))?;
        let result = read(&state.given);
        state.leaving -= 1;
        if state.leaving == 0 {
            self.shared.changed.notify_all();
        }
        result
    }
}

impl Drop for ThreadRank {
    fn drop(&mut self) {
        lock(self.shared.state.lock()).left[self.rank] = true;
        self.shared.changed.notify_all();
    }
}

impl Communicator for ThreadRank {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.shared.size
    }

    fn exchange(
        &self,
        tag: i32,
        sends: &[Part],
        outgoing: &[u8],
        receives: &[Part],
        incoming: &mut [u8],
        meanwhile: &mut dyn FnMut(),
    ) -> Result<()> {
        for part in sends {
            self.send(part.rank, tag, &outgoing[part.begin..][..part.length])?;
        }
        meanwhile();
        for part in receives {
            self.receive(part.rank, tag, &mut incoming[part.begin..][..part.length])?;
        }
        Ok(())
    }

    fn all_gather(&self, own: &[u8], lengths: &[usize], all: &mut [u8]) -> Result<()> {
        self.together(own, &mut |given| {
            let mut rest = &mut *all;
            for (given, length) in given.iter().zip(lengths) {
                if given.len() != *length || rest.len() < *length {
                    return fail!(Internal, "a rank gave {} bytes where {length} are expected", given.len());
                }
                let (part, after) = rest.split_at_mut(*length);
                part.copy_from_slice(given);
                rest = after;
            }
            Ok(())
        })
    }

    fn all_reduce(&self, numbers: &mut [i64], reduction: Reduction) -> Result<()> {
        let own = try_copy(numbers)?;
        let mut other = try_vec(numbers.len(), 0)?;
        self.together(bytes(&own), &mut |given| {
            for (rank, given) in given.iter().enumerate() {
                if given.len() != size_of_val(numbers) {
                    return fail!(Internal, "rank {rank} gave {} bytes to a reduction", given.len());
                }
                bytes_mut(&mut other).copy_from_slice(given);
                for (number, other) in numbers.iter_mut().zip(&other) {
                    *number = if rank == 0 { *other } else { reduction.of(*number, *other) };
                }
            }
            Ok(())
        })
    }

    fn barrier(&self) -> Result<()> {
        self.together(&[], &mut |_| Ok(()))
    }

    fn duplicate(&self) -> Result<Arc<dyn Communicator>> {
        Ok(Arc::new(self.another()))
    }

    fn revoke(&self) {
        lock(self.shared.state.lock()).revoked.get_or_insert(self.rank);
        self.shared.changed.notify_all();
    }

    fn set_timeout(&self, seconds: f64) -> Result<()> {
        *lock(self.timeout.lock()) = Duration::try_from_secs_f64(seconds).ok().filter(|timeout| !timeout.is_zero());
        Ok(())
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::comm::{Ranks, Spread};
    use crate::error::{Error, Status};

    /// Runs `work` on each of `size` ranks, and returns the results in the order of the ranks.
    fn on_ranks<R: Send>(size: usize, work: impl Fn(Arc<dyn Communicator>) -> R + Sync) -> Vec<R> {
        std::thread::scope(|scope| {
            let started: Vec<_> = threads(size)
                .into_iter()
                .map(|rank| {
                    let work = &work;
                    scope.spawn(move || work(rank))
                })
                .collect();
            started.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn collective_operations_see_every_rank() {
        for size in [1, 2, 5] {
            let results = on_ranks(size, |c| {
                let copy = c.duplicate().unwrap();
                let own = vec![c.rank() as u8; c.rank()];
                let lengths: Vec<usize> = (0..size).collect();
                let mut all = vec![0; size * (size - 1) / 2];
                for _ in 0..50 {
                    copy.all_gather(&own, &lengths, &mut all).unwrap();
                    c.barrier().unwrap();
                }
                let mut numbers = [c.rank() as i64, -(c.rank() as i64)];
                c.all_reduce(&mut numbers, Reduction::Sum).unwrap();
                let ranks = Ranks::new(c);
                (all, numbers, ranks.spreads(&[3 * ranks.rank() as i64]).unwrap()[0])
            });
            let all: Vec<u8> = (0..size).flat_map(|rank| vec![rank as u8; rank]).collect();
            let sum = (size * (size - 1) / 2) as i64;
            for result in results {
                let spread = Spread { min: 0, mean: 3.0 * sum as f64 / size as f64, max: 3 * (size as i64 - 1) };
                assert_eq!(result, (all.clone(), [sum, -sum], spread));
            }
        }
    }

    #[test]
    fn messages_go_around_a_ring_in_order() {
        let results = on_ranks(3, |c| {
            let (rank, size) = (c.rank(), c.size());
            let send = Part { rank: (rank + 1) % size, begin: 0, length: 1 };
            let receive = Part { rank: (rank + size - 1) % size, begin: 1, length: 1 };
            let (mut seen, mut worked) = (Vec::new(), 0);
            for k in 0..10_u8 {
                let mut into = [0; 2];
                c.exchange(7, &[send], &[10 * k + rank as u8], &[receive], &mut into, &mut || worked += 1).unwrap();
                seen.push(into[1]);
            }
            (seen, worked)
        });
        for (rank, result) in results.into_iter().enumerate() {
            let from = (rank + 2) % 3;
            assert_eq!(result, ((0..10).map(|k| 10 * k + from as u8).collect(), 10));
        }
    }

    #[test]
    fn ranks_agree_on_the_error_of_the_first() {
        let results = on_ranks(4, |c| {
            let ranks = Ranks::new(c);
            let own = match ranks.rank() {
                1 => Err(Error::new(Status::MatrixValues, "row 5")),
                3 => Err(Error::new(Status::OutOfMemory, "none")),
                _ => Ok(()),
            };
            ranks.agree(Ok(())).unwrap();
            ranks.agree(own).unwrap_err()
        });
        let elsewhere = Error::new(Status::MatrixValues, "rank 1 of 4: row 5");
        let expected = [
            elsewhere.clone(),
            Error::new(Status::MatrixValues, "row 5"),
            elsewhere,
            Error::new(Status::OutOfMemory, "none"),
        ];
        assert_eq!(results, expected);
    }

    #[test]
    fn a_rank_that_leaves_makes_the_others_fail() {
        let results = on_ranks(3, |c| {
            if c.rank() == 1 {
                return Status::Success;
            }
            c.barrier().unwrap_err().status
        });
        assert_eq!(results, [Status::Callback, Status::Success, Status::Callback]);
    }

    #[test]
    fn a_message_that_never_comes_is_waited_for_as_long_as_was_said() {
        let done = std::sync::Barrier::new(3);
        let results = on_ranks(3, |c| {
            // Rank 0 sets no limit, and learns from the one that did. Rank 2 sends nothing.
            c.set_timeout(if c.rank() == 1 { 0.05 } else { 0.0 }).unwrap();
            let receive = Part { rank: 2, begin: 0, length: 1 };
            let start = Instant::now();
            let result = match c.rank() {
                2 => Ok(()),
                _ => c.exchange(3, &[], &[], &[receive], &mut [0], &mut || ()),
            };
            let took = start.elapsed();
            done.wait();
            (result, took, c.barrier().unwrap_err().status)
        });
        let messages: Vec<String> =
            results[..2].iter().map(|(r, ..)| r.as_ref().unwrap_err().message.clone()).collect();
        assert_eq!(messages[1], "rank 1 of 3 has waited for rank 2 for 0.05 seconds");
        assert!(messages[0].contains("rank 1 gave up"), "{messages:?}");
        assert!(
            results[1].1 >= Duration::from_millis(50) && results[1].1 < Duration::from_secs(20),
            "{:?}",
            results[1]
        );
        assert!(results.iter().all(|(.., later)| *later == Status::Callback));
    }
}

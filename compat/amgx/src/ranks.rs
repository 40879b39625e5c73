//! The ranks of a communicator: what they tell each other outside of Terrace, and that a failure of one is one of all.

use crate::boundary::{Code, Failure, Result, fail};
use crate::handles::lock;
use crate::native::zeros;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Mutex;
use terrace::capi::{TERRACE_MAX, terrace_communicator};

/// More than one rank, of which this process is one.
pub struct Ranks {
    /// No two of its functions are called at a time.
    table: Mutex<terrace_communicator>,
    /// This rank.
    pub rank: usize,
    /// Their number.
    pub size: usize,
    /// Threads that a context of this rank may have.
    pub threads: i32,
    /// Whether MPI may be called by another thread than that of the program.
    pub may_thread: bool,
}

// SAFETY: the table is used by one thread at a time, in its lock; MPI must allow the threads that the program has.
unsafe impl Send for Ranks {}
// SAFETY: as above.
unsafe impl Sync for Ranks {}

/// Numbers that are sent as their bytes.
pub trait Plain: Copy + Default {}

impl Plain for u8 {}
impl Plain for i32 {}
impl Plain for i64 {}
impl Plain for u64 {}
impl Plain for f64 {}

impl Drop for Ranks {
    fn drop(&mut self) {
        let table = *lock(&self.table);
        if let Some(free) = table.free {
            // SAFETY: its own function, once.
            unsafe { free(table.user) };
        }
    }
}

impl Ranks {
    /// Takes a table over, of which so many ranks are on this machine.
    ///
    /// # Safety
    /// The functions are those that the documentation of the table describes.
    pub unsafe fn new(table: terrace_communicator, here: i32, may_thread: bool) -> Result<Ranks> {
        let [rank, size] = [table.rank, table.size].map(|function| match function {
            // SAFETY: by this function's contract.
            Some(function) => unsafe { function(table.user) },
            None => -1,
        });
        let threads = if may_thread { threads(here) } else { 1 };
        let (own, of) = (usize::try_from(rank), usize::try_from(size));
        match (own, of) {
            (Ok(rank), Ok(size)) if rank < size => {
                Ok(Ranks { table: Mutex::new(table), rank, size, threads, may_thread })
            }
            _ => fail!(Internal, "the communicator has rank {rank} of {size}"),
        }
    }

    /// For Terrace, which duplicates it.
    pub fn with_table<R>(&self, use_it: impl FnOnce(&terrace_communicator) -> R) -> R {
        use_it(&lock(&self.table))
    }

    /// Collective: the largest of each number over the ranks.
    pub fn most<const N: usize>(&self, own: [i64; N]) -> Result<[i64; N]> {
        let (table, mut all) = (lock(&self.table), [0; N]);
        let Some(all_reduce) = table.all_reduce else { return failed("all_reduce", -1) };
        // SAFETY: arrays of this length.
        match unsafe { all_reduce(table.user, own.as_ptr(), all.as_mut_ptr(), N as i32, TERRACE_MAX) } {
            0 => Ok(all),
            code => failed("all_reduce", code),
        }
    }

    /// Collective: the numbers of all ranks one after the other, and where those of each begin.
    pub fn gather<T: Plain>(&self, own: &[T]) -> Result<(Vec<T>, Vec<usize>)> {
        let mut counts = zeros::<u64>(self.size)?;
        self.gather_into(&[own.len() as u64], &mut counts, &vec![1; self.size])?;
        let counts: Vec<usize> = counts.into_iter().map(|count| count as usize).collect();
        let mut all = self.agree(zeros(counts.iter().sum()))?;
        self.gather_into(own, &mut all, &counts)?;
        let mut starts = vec![0; self.size + 1];
        for (rank, count) in counts.iter().enumerate() {
            starts[rank + 1] = starts[rank] + count;
        }
        Ok((all, starts))
    }

    fn gather_into<T: Plain>(&self, own: &[T], all: &mut [T], counts: &[usize]) -> Result<()> {
        let lengths: Vec<usize> = counts.iter().map(|count| count * size_of::<T>()).collect();
        let offsets: Vec<usize> = lengths
            .iter()
            .scan(0, |end, length| {
                *end += length;
                Some(*end - length)
            })
            .collect();
        let table = lock(&self.table);
        let Some(all_gather) = table.all_gather else { return failed("all_gather", -1) };
        let (from, bytes, to) = (own.as_ptr().cast(), size_of_val(own), all.as_mut_ptr().cast());
        // SAFETY: arrays of these lengths.
        match unsafe { all_gather(table.user, from, bytes, to, lengths.as_ptr(), offsets.as_ptr()) } {
            0 => Ok(()),
            code => failed("all_gather", code),
        }
    }

    /// Sends numbers to some ranks, and receives from the same, of whom each sends as many as are received.
    pub fn exchange(&self, neighbours: &[usize], send: &[Vec<i32>], receive: &mut [Vec<i32>]) -> Result<()> {
        const TAG: i32 = 1;
        let table = lock(&self.table);
        let (Some(to), Some(from), Some(wait)) = (table.send, table.receive, table.wait_all) else {
            return failed("send", -1);
        };
        let mut requests: Vec<*mut c_void> = Vec::new();
        let mut begin = || {
            for (place, rank) in neighbours.iter().enumerate() {
                let (out, into, mut request) = (&send[place], &mut receive[place], null_mut());
                let (rank, received, sent) = (*rank as i32, size_of_val(&into[..]), size_of_val(&out[..]));
                // SAFETY: arrays of these lengths, which stay until the messages have come or are cancelled.
                unsafe {
                    if received > 0 {
                        match from(table.user, into.as_mut_ptr().cast(), received, rank, TAG, &mut request) {
                            0 => requests.push(request),
                            code => return failed("receive", code),
                        }
                    }
                    if sent > 0 {
                        match to(table.user, out.as_ptr().cast(), sent, rank, TAG, &mut request) {
                            0 => requests.push(request),
                            code => return failed("send", code),
                        }
                    }
                }
            }
            Ok(())
        };
        let begun = begin();
        if let (Err(_), Some(revoke)) = (&begun, table.revoke) {
            // SAFETY: its own function. What was begun is then cancelled.
            unsafe { revoke(table.user) };
        }
        // SAFETY: the requests of above.
        let code = unsafe { wait(table.user, requests.len() as i32, requests.as_mut_ptr()) };
        begun?;
        if code == 0 { Ok(()) } else { failed("wait_all", code) }
    }

    /// Collective: the result where every rank has one, otherwise the failure of this rank, or of the first that
    /// failed.
    pub fn agree<R>(&self, result: Result<R>) -> Result<R> {
        let own = result.as_ref().err().map_or(0, |failure| failure.code as i64);
        if self.most([own])? == [0] {
            return result;
        }
        // One failure is told to all, without memory that may not be there.
        let mut codes = vec![0; self.size];
        self.gather_into(&[own], &mut codes, &vec![1; self.size])?;
        let text = result.as_ref().err().map_or("", |failure| &failure.message);
        let mut lengths = vec![0; self.size];
        self.gather_into(&[text.len() as u64], &mut lengths, &vec![1; self.size])?;
        let lengths: Vec<usize> = lengths.into_iter().map(|length| length as usize).collect();
        let mut texts = vec![0; lengths.iter().sum()];
        self.gather_into(text.as_bytes(), &mut texts, &lengths)?;
        let of = codes.iter().position(|code| *code != 0).unwrap_or(0);
        let begin: usize = lengths[..of].iter().sum();
        let text = String::from_utf8_lossy(&texts[begin..begin + lengths[of]]).into_owned();
        match result {
            Err(failure) => Err(failure),
            Ok(_) => {
                let message = format!("rank {of} of {}: {text}", self.size);
                Err(Failure { code: Code::from_number(codes[of]), message })
            }
        }
    }
}

/// [`Ranks::agree`] where there are several ranks.
pub fn agree<R>(ranks: Option<&Ranks>, result: Result<R>) -> Result<R> {
    match ranks {
        Some(ranks) => ranks.agree(result),
        None => result,
    }
}

fn failed<R>(function: &str, code: i32) -> Result<R> {
    fail!(Internal, "the communicator failed: {function} gave {code}")
}

/// Threads of each of the ranks on this machine: all that it is bound to, or its share of the machine.
fn threads(here: i32) -> i32 {
    let bound = std::thread::available_parallelism().map_or(1, usize::from);
    // SAFETY: asks for a number.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    let share = usize::try_from(online).unwrap_or(1) / usize::try_from(here).unwrap_or(1).max(1);
    i32::try_from(bound.min(share.max(1))).unwrap_or(1)
}

//! Ranks that are threads, as tables of functions.

use super::terrace_communicator;
use crate::comm::{Communicator, Reduction, ThreadRank};
use crate::error::{Result, Status, fail};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// A message that is waited for.
struct Pending {
    into: *mut u8,
    bytes: usize,
    from: usize,
    tag: i32,
}

/// The tables of all ranks.
pub(super) fn all(size: usize) -> Vec<terrace_communicator> {
    ThreadRank::all(size).into_iter().map(table).collect()
}

fn table(rank: ThreadRank) -> terrace_communicator {
    terrace_communicator {
        user: Box::into_raw(Box::new(rank)).cast(),
        rank: Some(rank_of),
        size: Some(size_of_all),
        send: Some(send),
        receive: Some(receive),
        wait_all: Some(wait_all),
        all_reduce: Some(all_reduce),
        all_gather: Some(all_gather),
        barrier: Some(barrier),
        duplicate: Some(duplicate),
        revoke: Some(revoke),
        free: Some(free),
        timeout: Some(timeout),
    }
}

/// # Safety
/// `user` is that of a table of this file, which was not freed.
unsafe fn rank<'a>(user: *mut c_void) -> &'a ThreadRank {
    // SAFETY: by this function's contract.
    unsafe { &*user.cast::<ThreadRank>() }
}

fn code(result: Result<()>) -> i32 {
    result.map_or_else(|error| error.status.code(), |()| Status::Success.code())
}

unsafe extern "C" fn rank_of(user: *mut c_void) -> i32 {
    // SAFETY: called with the `user` of its table, as is each function below.
    unsafe { rank(user) }.rank() as i32
}

unsafe extern "C" fn size_of_all(user: *mut c_void) -> i32 {
    // SAFETY: as above.
    unsafe { rank(user) }.size() as i32
}

/// A valid slice for a pointer that may be anything when there are no bytes.
///
/// # Safety
/// `data` leads to as many bytes.
unsafe fn bytes_at<'a>(data: *const c_void, bytes: usize) -> &'a [u8] {
    // SAFETY: by this function's contract.
    if bytes == 0 { &[] } else { unsafe { from_raw_parts(data.cast(), bytes) } }
}

unsafe extern "C" fn send(
    user: *mut c_void,
    data: *const c_void,
    bytes: usize,
    to: i32,
    tag: i32,
    request: *mut *mut c_void,
) -> i32 {
    // SAFETY: the caller's bytes and its place for the request; the message is copied.
    unsafe {
        request.write(null_mut());
        code(rank(user).send(to as usize, tag, bytes_at(data, bytes)))
    }
}

unsafe extern "C" fn receive(
    _: *mut c_void,
    data: *mut c_void,
    bytes: usize,
    from: i32,
    tag: i32,
    request: *mut *mut c_void,
) -> i32 {
    let pending = Pending { into: data.cast(), bytes, from: from as usize, tag };
    // SAFETY: the caller's place for the request.
    unsafe { request.write(Box::into_raw(Box::new(pending)).cast()) };
    0
}

unsafe extern "C" fn wait_all(user: *mut c_void, count: i32, requests: *mut *mut c_void) -> i32 {
    let mut first = Ok(());
    // SAFETY: as many requests, null for those of messages that were sent, and boxes of those that are received.
    for request in unsafe { from_raw_parts(requests, count as usize) }.iter().filter(|request| !request.is_null()) {
        // SAFETY: as above; each request is waited for once.
        let pending = unsafe { Box::from_raw(request.cast::<Pending>()) };
        if first.is_ok() && pending.bytes > 0 {
            // SAFETY: the bytes that `receive` was given.
            let into = unsafe { from_raw_parts_mut(pending.into, pending.bytes) };
            // SAFETY: as above.
            first = unsafe { rank(user) }.receive(pending.from, pending.tag, into);
        }
    }
    code(first)
}

unsafe extern "C" fn all_reduce(user: *mut c_void, own: *const i64, all: *mut i64, count: i32, operation: i32) -> i32 {
    let count = count as usize;
    // SAFETY: as many numbers in both arrays.
    let numbers = unsafe {
        std::ptr::copy(own, all, count);
        from_raw_parts_mut(all, count)
    };
    code(match Reduction::from_number(operation) {
        // SAFETY: as above.
        Some(reduction) => unsafe { rank(user) }.all_reduce(numbers, reduction),
        None => fail!(InvalidArgument, "operation is {operation}"),
    })
}

unsafe extern "C" fn all_gather(
    user: *mut c_void,
    own: *const c_void,
    bytes: usize,
    all: *mut c_void,
    lengths: *const usize,
    offsets: *const usize,
) -> i32 {
    // SAFETY: as above.
    let rank = unsafe { rank(user) };
    // SAFETY: one length and one offset for each rank, and room for the bytes of all, which lie one after the other.
    let (own, lengths, offsets) =
        unsafe { (bytes_at(own, bytes), from_raw_parts(lengths, rank.size()), from_raw_parts(offsets, rank.size())) };
    let total = lengths.iter().zip(offsets).map(|(length, offset)| length + offset).max().unwrap_or(0);
    // SAFETY: as above.
    let all = if total == 0 { &mut [] } else { unsafe { from_raw_parts_mut(all.cast::<u8>(), total) } };
    code(rank.all_gather(own, lengths, all))
}

unsafe extern "C" fn barrier(user: *mut c_void) -> i32 {
    // SAFETY: as above.
    code(unsafe { rank(user) }.barrier())
}

unsafe extern "C" fn duplicate(user: *mut c_void, copy: *mut c_void) -> i32 {
    // SAFETY: as above, and a place for a table.
    unsafe { copy.cast::<terrace_communicator>().write(table(rank(user).another())) };
    0
}

unsafe extern "C" fn revoke(user: *mut c_void) {
    // SAFETY: as above.
    unsafe { rank(user) }.revoke();
}

unsafe extern "C" fn timeout(user: *mut c_void, seconds: f64) -> i32 {
    // SAFETY: as above.
    code(unsafe { rank(user) }.set_timeout(seconds))
}

unsafe extern "C" fn free(user: *mut c_void) {
    if !user.is_null() {
        // SAFETY: it came from a box, and is not used again.
        drop(unsafe { Box::from_raw(user.cast::<ThreadRank>()) });
    }
}

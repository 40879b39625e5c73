// Shared by the kernels that write SELL chunks.
#pragma once
#include "scan.h"

// Lanes per chunk.
constexpr int CHUNK_LANES = 32;

// Long rows are copied to shared memory in tiles of whole chunks, with coalesced loads. Lanes that read one row each from global memory
// would read a cache line each.
constexpr int TILE = BLOCK;

// Begins of the rows of a tile in global and in shared memory, a thread for each. Returns the number of their entries.
template <class Starts, class Begins>
DEVICE i64 find_rows(i64 first, int count, i64 rows, const In<i64> &offsets, const In<i32> &order, Starts &starts,
                     Begins &begins) {
    const i64 place = first + thread_index();
    const bool is_row = thread_index() < count && place < rows;
    const i64 row = is_row && order.len > 0 ? order[place] : place;
    const i64 start = is_row ? offsets[row] : 0;
    i64 total;
    const i64 before = block_sum_before(is_row ? offsets[row + 1] - start : 0, total);
    starts[thread_index()] = start;
    begins[thread_index()] = static_cast<i32>(before);
    if (thread_index() == 0) {
        begins[TILE] = static_cast<i32>(total);
    }
    return total;
}

// Lanes that copy a row, if rows are not contiguous.
constexpr int COPYING = 8;
// Entries of a thread whose loads are in flight at the same time.
constexpr int COPIES = 4;

template <class T, class Starts, class Begins, class To>
DEVICE void copy_rows(bool in_order, const Starts &starts, const Begins &begins, const In<T> &from, To &to) {
    if (in_order) {
        const i64 start = starts[0];
        const int total = begins[TILE];
        for (int base = thread_index(); base < total; base += COPIES * BLOCK) {
            T entry[COPIES];
            UNROLL
            for (int c = 0; c < COPIES; ++c) {
                entry[c] = base + c * BLOCK < total ? from.once(start + base + c * BLOCK) : T(0);
            }
            UNROLL
            for (int c = 0; c < COPIES; ++c) {
                if (base + c * BLOCK < total) {
                    to[base + c * BLOCK] = entry[c];
                }
            }
        }
        return;
    }
    for (int r = thread_index() / COPYING; r < TILE; r += BLOCK / COPYING) {
        const i64 start = starts[r];
        const int begin = begins[r];
        const int length = begins[r + 1] - begin;
        for (int base = Group<COPYING>::rank(); base < length; base += COPIES * COPYING) {
            T entry[COPIES];
            UNROLL
            for (int c = 0; c < COPIES; ++c) {
                entry[c] = base + c * COPYING < length ? from[start + base + c * COPYING] : T(0);
            }
            UNROLL
            for (int c = 0; c < COPIES; ++c) {
                if (base + c * COPYING < length) {
                    to[begin + base + c * COPYING] = entry[c];
                }
            }
        }
    }
}

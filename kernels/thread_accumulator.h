// A per-thread accumulator for one row of an interpolation: coarse unknowns and their weights.
#pragma once
#include "truncate.h"

// Entries in the order of insertion, in shared memory. Slot s of all threads of a block is contiguous, so there are
// no bank conflicts. One byte of each key is in registers and selects the slots to compare.
template <class T, int SLOTS, class K, class W> struct ThreadAccumulator {
    static_assert(SLOTS == 16, "four words of bytes");
    static constexpr int SLOT_BITS = 4;
    K keys;
    W weights;
    u32 bytes[SLOTS / 4];
    int count;

    DEVICE i32 &key(int slot) const { return keys[slot * BLOCK + thread_index()]; }
    DEVICE T &weight(int slot) const { return weights[slot * BLOCK + thread_index()]; }
    DEVICE void clear() {
        UNROLL
        for (int r = 0; r < SLOTS / 4; ++r) {
            bytes[r] = 0;
        }
        count = 0;
    }
    DEVICE void barrier() const {}

    // The slot of c, or -1. With `insert` a new c is appended; -1 then means that the accumulator is full.
    DEVICE int slot_of(i32 c, bool insert) {
        // The highest bit of a byte distinguishes keys from empty slots.
        const u32 byte = (static_cast<u32>(c) & 127) | 128, four = byte * 0x01010101u;
        u32 candidates = 0;
        UNROLL
        for (int r = 0; r < SLOTS / 4; ++r) {
            // Sets the highest bit of each byte that is zero, and possibly of bytes above it. Bit 7 - r of byte b
            // stands for the entry that was inserted 4 r + b entries before the last.
            const u32 differs = bytes[r] ^ four;
            candidates |= ((differs - 0x01010101u) & ~differs & 0x80808080u) >> r;
        }
        ROLLED
        while (candidates != 0) {
            const int bit = lowest_bit(candidates), slot = count - 1 - (bit >> 3) - 4 * (7 - (bit & 7));
            if (key(slot) == c) {
                return slot;
            }
            candidates &= candidates - 1;
        }
        if (!insert || count == SLOTS) {
            return -1;
        }
        // The newest entry has the lowest byte.
        UNROLL
        for (int r = SLOTS / 4 - 1; r > 0; --r) {
            bytes[r] = bytes[r] << 8 | bytes[r - 1] >> 24;
        }
        bytes[0] = bytes[0] << 8 | byte;
        key(count) = c;
        weight(count) = 0;
        return count++;
    }
};

template <class T, int SLOTS, class K, class W> DEVICE ThreadAccumulator<T, SLOTS, K, W> thread_accumulator(K keys, W weights) {
    return ThreadAccumulator<T, SLOTS, K, W>{keys, weights, {}, 0};
}

// Writes the largest weights, times `scale`: truncation to `most` entries. Writes nothing if row < 0.
template <class T, int SLOTS, class K, class W>
DEVICE void write_row(const ThreadAccumulator<T, SLOTS, K, W> &m, i64 row, T scale, T total, const Target<T> &p) {
    if (row < 0) {
        return;
    }
    int n = 0;
    ROLLED
    for (int slot = 0; slot < m.count; ++slot) {
        const i32 c = m.key(slot);
        const T w = m.weight(slot) * scale;
        if (w != 0) {
            m.key(n) = c;
            m.weight(n) = w;
            ++n;
        }
    }
    T bound = 0;
    int kept = 0;
    ROLLED
    for (; kept < n && kept < p.most; ++kept) {
        T size = -1;
        i32 column = 0;
        int at = 0;
        ROLLED
        for (int e = kept; e < n; ++e) {
            const T other = size_of(m.weight(e));
            const i32 c = m.key(e);
            if (stays_before(other, c, size, column)) {
                size = other;
                column = c;
                at = e;
            }
        }
        bound = kept == 0 ? times(p.factor, size) : bound;
        if (!(size >= bound)) {
            break;
        }
        const T w = m.weight(at);
        m.weight(at) = m.weight(kept);
        m.key(at) = m.key(kept);
        // The entries that were selected before are sorted by column.
        int to = kept;
        ROLLED
        for (; to > 0 && m.key(to - 1) > column; --to) {
            m.key(to) = m.key(to - 1);
            m.weight(to) = m.weight(to - 1);
        }
        m.key(to) = column;
        m.weight(to) = w;
    }
    T rescaled = 1;
    if (kept < n) {
        T sum = 0;
        ROLLED
        for (int e = 0; e < kept; ++e) {
            sum += m.weight(e);
        }
        rescaled = row_scale(sum, total);
    }
    const i64 start = p.start(row);
    ROLLED
    for (int e = 0; e < kept; ++e) {
        p.columns[start + e] = m.key(e);
        p.values[start + e] = m.weight(e) * rescaled;
    }
    p.counts[row] = kept;
}

// Writes the weights of the columns that the row has in a known pattern.
template <class T, int SLOTS, class K, class W>
DEVICE void write_pattern(ThreadAccumulator<T, SLOTS, K, W> &m, i64 row, T scale, T total, const Target<T> &p) {
    if (row < 0) {
        return;
    }
    const i64 start = p.start(row), end = p.offsets[row + 1];
    int left = 0;
    ROLLED
    for (int slot = 0; slot < m.count; ++slot) {
        left += m.weight(slot) * scale != 0;
    }
    T sum = 0;
    ROLLED
    for (i64 e = start; e < end; ++e) {
        const int slot = m.slot_of(p.columns[e], false);
        const T w = slot < 0 ? 0 : m.weight(slot) * scale;
        left -= w != 0;
        sum += w;
        p.values[e] = w;
    }
    if (left > 0) {
        const T rescaled = row_scale(sum, total);
        ROLLED
        for (i64 e = start; e < end; ++e) {
            p.values[e] = p.values[e] * rescaled;
        }
    }
}

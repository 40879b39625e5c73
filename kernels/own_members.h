// Coarse unknowns and their weights for one row of an interpolation, which a single thread computes.
#pragma once
#include "truncate.h"

// Members in the order in which they came, in shared memory, slot by slot for all threads of a block, which so never meet in a bank. A byte of each
// is in registers, and tells where to look.
template <class T, int SLOTS, class K, class W> struct OwnMembers {
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

    // The slot of c, which is put there if it is `added` and not there yet; -1 if it is not there, or does not fit.
    DEVICE int place(i32 c, bool added) {
        // The highest bit tells bytes of members from empty ones.
        const u32 byte = (static_cast<u32>(c) & 127) | 128, four = byte * 0x01010101u;
        u32 candidates = 0;
        UNROLL
        for (int r = 0; r < SLOTS / 4; ++r) {
            // The highest bit of each byte that is zero, and perhaps of others above one: bit 7 - r stands for the last member but r * 4 there.
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
        if (!added || count == SLOTS) {
            return -1;
        }
        // The newest member has the lowest byte.
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

template <class T, int SLOTS, class K, class W> DEVICE OwnMembers<T, SLOTS, K, W> own_members(K keys, W weights) {
    return OwnMembers<T, SLOTS, K, W>{keys, weights, {}, 0};
}

// The largest weights, times `scale`, written where there is room for `most`; none where row < 0.
template <class T, int SLOTS, class K, class W>
DEVICE void write_row(const OwnMembers<T, SLOTS, K, W> &m, i64 row, T scale, T total, const Target<T> &p) {
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
        // Those that were picked before stand in the order of columns.
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

// The weights of the columns that the row has in a pattern.
template <class T, int SLOTS, class K, class W>
DEVICE void write_pattern(OwnMembers<T, SLOTS, K, W> &m, i64 row, T scale, T total, const Target<T> &p) {
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
        const int slot = m.place(p.columns[e], false);
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

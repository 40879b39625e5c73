// Truncation of a row of interpolation weights, as in src/host/truncate.rs.
#pragma once
#include "hash_accumulator.h"

// What is done with a row.
constexpr int ROW_SHORT = 0;   // written where there is room for the most entries that it may have, and counted
constexpr int ROW_COUNT = 1;   // counted
constexpr int ROW_WRITE = 2;   // written where the counts say
constexpr int ROW_PATTERN = 3; // weights of given columns

// Output rows of an interpolation.
template <class T> struct Target {
    int mode;
    // Largest number of entries of a row; 0 keeps all.
    int most;
    // Entries below this fraction of the largest are dropped.
    T factor;
    In<i64> offsets;
    Out<i32> columns;
    Out<T> values;
    Out<i32> counts;

    DEVICE i64 start(i64 row) const { return mode == ROW_SHORT ? row * most : offsets[row]; }
    DEVICE bool counting() const { return mode == ROW_SHORT || mode == ROW_COUNT; }
    // Writes the row of a coarse unknown.
    DEVICE void identity(i64 row, i32 number) const {
        if (counting()) {
            counts[row] = 1;
        }
        if (mode != ROW_COUNT) {
            const i64 at = start(row);
            columns[at] = number;
            values[at] = 1;
        }
    }
};

template <class T> DEVICE T size_of(T v) { return v < 0 ? -v : v; }

// The factor that makes the sum of the weights equal to `total`.
template <class T> DEVICE T row_scale(T sum, T total) { return sum != 0 && total != 0 ? total / sum : 1; }

// The sum of the values of a row, in order. Lanes have written the values. Tiles without a row have n = 0.
template <class T, int N> DEVICE T sum_in_order(const Out<T> &values, i64 start, int n) {
    T sum = 0;
    for (int first = 0; Tile<N>::any(first < n); first += N) {
        const int e = first + Tile<N>::rank();
        const T v = e < n ? values[start + e] : 0;
        for (int lane = 0; lane < N && Tile<N>::any(first + lane < n); ++lane) {
            sum += Tile<N>::shuffle(v, lane);
        }
    }
    return sum;
}

// If `scaled`, scales the n values of a row so that their sum becomes `total`.
template <class T, int N> DEVICE void rescale_row(bool scaled, const Out<T> &values, i64 start, int n, T total) {
    if (!Tile<N>::any(scaled)) {
        return;
    }
    Tile<N>::barrier();
    const T scale = row_scale(sum_in_order<T, N>(values, start, scaled ? n : 0), total);
    Tile<N>::barrier();
    for (int e = Tile<N>::rank(); scaled && e < n; e += N) {
        values[start + e] = values[start + e] * scale;
    }
}

// Whether the first of two weights is kept before the second, as in src/host/truncate.rs: the larger one; of equal
// ones that with the smaller hash of its column. Sizes are not negative.
DEVICE u32 mixed(i32 column) {
    const u32 h = static_cast<u32>(column) * 0x9e3779b1u;
    return (h ^ h >> 15) * 0x85ebca77u;
}
template <class T> DEVICE bool stays_before(T size, i32 column, T other_size, i32 other) {
    return size > other_size || (size == other_size && mixed(column) < mixed(other));
}

// How many of n entries are kept before one with this size and column.
template <class T, class M> DEVICE int larger_ones(const M &m, int n, T size, i32 column) {
    int larger = 0;
    ROLLED
    for (int o = 0; o < n; ++o) {
        larger += stays_before(size_of(m.weight(o)), m.key(o), size, column);
    }
    return larger;
}

// Counts or writes the entries of an accumulator, times `scale`, truncated. Tiles without a row have row < 0.
template <class T, int N, class K, class W>
DEVICE void write_row(const HashAccumulator<T, N, K, W> &m, i64 row, T scale, T total, const Target<T> &p) {
    const int n = m.compact(row >= 0 ? scale : 0);
    T largest = 0;
    ROLLED
    for (int e = Tile<N>::rank(); e < n; e += N) {
        const T size = size_of(m.weight(e));
        largest = size > largest ? size : largest;
    }
    const T bound = times(p.factor, tile_max<N>(largest));
    const i64 start = row >= 0 && p.mode != ROW_COUNT ? p.start(row) : 0;
    if (!Tile<N>::any(n > N)) {
        // One entry for each lane.
        const int e = Tile<N>::rank();
        const bool is_one = e < n;
        T w = is_one ? m.weight(e) : 0;
        const i32 column = is_one ? m.key(e) : 0;
        const T size = size_of(w);
        bool stays = is_one && size >= bound;
        stays = stays && (p.most == 0 || n <= p.most || larger_ones(m, n, size, column) < p.most);
        const u64 all = Tile<N>::ballot(stays);
        const int kept = count_bits(all);
        if (row >= 0 && e == 0 && p.counting()) {
            p.counts[row] = kept;
        }
        if (p.mode == ROW_COUNT) {
            return;
        }
        int before = 0;
        ROLLED
        for (u64 rest = all; Tile<N>::any(rest != 0); rest &= rest - 1) {
            const i32 other = Tile<N>::shuffle(column, rest != 0 ? lowest_bit(rest) : 0);
            before += rest != 0 && other < column;
        }
        const bool scaled = kept < n;
        if (Tile<N>::any(scaled)) {
            T sum = 0;
            ROLLED
            for (int k = 0; Tile<N>::any(scaled && k < kept); ++k) {
                const u64 lane = Tile<N>::ballot(stays && before == k);
                const T next = Tile<N>::shuffle(w, lane != 0 ? lowest_bit(lane) : 0);
                sum += lane != 0 ? next : 0;
            }
            w = scaled ? w * row_scale(sum, total) : w;
        }
        if (stays) {
            p.columns[start + before] = column;
            p.values[start + before] = w;
        }
        return;
    }
    // A dropped entry gets weight zero. It is not among the largest, so later comparisons count as many larger ones
    // as before.
    int kept = 0;
    ROLLED
    for (int first = 0; Tile<N>::any(first < n); first += N) {
        const int e = first + Tile<N>::rank();
        bool stays = e < n && size_of(m.weight(e)) >= bound;
        stays = stays && (p.most == 0 || n <= p.most || larger_ones(m, n, size_of(m.weight(e)), m.key(e)) < p.most);
        kept += count_bits(Tile<N>::ballot(stays));
        Tile<N>::barrier();
        if (e < n && !stays) {
            m.weight(e) = 0;
        }
        Tile<N>::barrier();
    }
    if (row >= 0 && Tile<N>::rank() == 0 && p.counting()) {
        p.counts[row] = kept;
    }
    if (p.mode == ROW_COUNT) {
        return;
    }
    ROLLED
    for (int e = Tile<N>::rank(); e < n; e += N) {
        if (m.weight(e) != 0) {
            int before = 0;
            ROLLED
            for (int o = 0; o < n; ++o) {
                before += m.weight(o) != 0 && m.key(o) < m.key(e);
            }
            p.columns[start + before] = m.key(e);
            p.values[start + before] = m.weight(e);
        }
    }
    rescale_row<T, N>(kept < n, p.values, start, kept, total);
}

// Writes the weights, times `scale`, of the columns of a known pattern, and rescales them if others are dropped. The
// accumulator is not compacted yet.
template <class T, int N, class K, class W>
DEVICE void write_pattern(const HashAccumulator<T, N, K, W> &m, i64 row, T scale, T total, const Target<T> &p) {
    const i64 start = row >= 0 ? p.start(row) : 0;
    const int n = row >= 0 ? static_cast<int>(p.offsets[row + 1] - start) : 0;
    int left = 0;
    ROLLED
    for (int slot = Tile<N>::rank(); row >= 0 && slot < m.slots; slot += N) {
        left += m.key(slot) >= 0 && m.weight(slot) * scale != 0;
    }
    ROLLED
    for (int e = Tile<N>::rank(); e < n; e += N) {
        const int slot = m.slot_of(p.columns[start + e], false);
        const T w = slot < 0 ? 0 : m.weight(slot) * scale;
        left -= w != 0;
        p.values[start + e] = w;
    }
    UNROLL
    for (int step = N / 2; step > 0; step /= 2) {
        left += Tile<N>::shuffle(left, Tile<N>::rank() ^ step);
    }
    rescale_row<T, N>(left > 0, p.values, start, n, total);
}

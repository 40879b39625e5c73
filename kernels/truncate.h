// Truncation of a row of weights, as src/host/truncate.rs does it.
#pragma once
#include "members.h"

// What becomes of a row.
constexpr int ROW_SHORT = 0;   // at most TRUNCATE_MOST entries: written where there is room for that many, and counted
constexpr int ROW_COUNT = 1;   // counted
constexpr int ROW_WRITE = 2;   // written where the counts say
constexpr int ROW_PATTERN = 3; // weights of given columns

// Entries that are picked one after the other.
constexpr int TRUNCATE_MOST = 16;

// Where the rows of an interpolation go.
template <class T> struct Target {
    int mode;
    // Most entries of a row; 0 keeps all.
    int most;
    // Share of the largest below which an entry is dropped.
    T factor;
    In<i64> offsets;
    Out<i32> columns;
    Out<T> values;
    Out<i32> counts;

    DEVICE i64 start(i64 row) const { return mode == ROW_SHORT ? row * most : offsets[row]; }
    DEVICE void count(i64 row, int n) const {
        if (mode == ROW_SHORT || mode == ROW_COUNT) {
            counts[row] = n;
        }
    }
    // The row of a coarse unknown, or one that has nothing.
    DEVICE void identity(i64 row, i32 number) const {
        count(row, 1);
        if (mode != ROW_COUNT) {
            const i64 at = start(row);
            columns[at] = number;
            values[at] = 1;
        }
    }
};

template <class T> DEVICE T size_of(T v) { return v < 0 ? -v : v; }

// What weights are multiplied with so that their sum becomes `total`.
template <class T> DEVICE T row_scale(T sum, T total) { return sum != 0 && total != 0 ? total / sum : 1; }

// The largest weights of n compacted members, at most so many as the target wants: brought to the front, ascending by column. Returns how many.
template <class T, int N, class K, class W> DEVICE int pick_largest(const Members<T, N, K, W> &m, int n, const Target<T> &p) {
    T bound = 0;
    int kept = 0;
    for (; kept < n && kept < p.most; ++kept) {
        T size = -1;
        i32 column = 0;
        int at = -1;
        for (int e = kept + Group<N>::rank(); e < n; e += N) {
            const T other = size_of(m.weight(e));
            const i32 c = m.key(e);
            if (other > size || (other == size && c < column)) {
                size = other;
                column = c;
                at = e;
            }
        }
        UNROLL
        for (int step = N / 2; step > 0; step /= 2) {
            const int from = Group<N>::rank() ^ step;
            const T other = Group<N>::shuffle(size, from);
            const i32 c = Group<N>::shuffle(column, from);
            const int e = Group<N>::shuffle(at, from);
            if (other > size || (other == size && c < column)) {
                size = other;
                column = c;
                at = e;
            }
        }
        bound = kept == 0 ? times(p.factor, size) : bound;
        if (at < 0 || !(size >= bound)) {
            break;
        }
        if (Group<N>::rank() == 0) {
            const T w = m.weight(at);
            m.weight(at) = m.weight(kept);
            m.key(at) = m.key(kept);
            // Those that were picked before stand in the order of columns.
            int to = kept;
            for (; to > 0 && m.key(to - 1) > column; --to) {
                m.key(to) = m.key(to - 1);
                m.weight(to) = m.weight(to - 1);
            }
            m.key(to) = column;
            m.weight(to) = w;
        }
        m.meet();
    }
    return kept;
}

// A row of few entries.
template <class T, int N, class K, class W> DEVICE void write_short(const Members<T, N, K, W> &m, int n, i64 row, T total, const Target<T> &p) {
    const int kept = pick_largest(m, n, p);
    T scale = 1;
    if (kept < n) {
        T sum = 0;
        for (int e = 0; e < kept; ++e) {
            sum += m.weight(e);
        }
        scale = row_scale(sum, total);
    }
    const i64 start = p.start(row);
    for (int e = Group<N>::rank(); e < kept; e += N) {
        p.columns[start + e] = m.key(e);
        p.values[start + e] = m.weight(e) * scale;
    }
    if (Group<N>::rank() == 0) {
        p.count(row, kept);
    }
}

// The sum of the values of a row, one after the other. Lanes have written them.
template <class T, int N> DEVICE T sum_in_order(const Out<T> &values, i64 start, int n) {
    T sum = 0;
    for (int first = 0; first < n; first += N) {
        const int e = first + Group<N>::rank();
        const T v = e < n ? values[start + e] : 0;
        for (int lane = 0; lane < N && first + lane < n; ++lane) {
            sum += Group<N>::shuffle(v, lane);
        }
    }
    return sum;
}

// A row of any length, counted or written: each member's place is found by comparing it with all others.
template <class T, int N, class K, class W> DEVICE void write_long(const Members<T, N, K, W> &m, int n, i64 row, T total, const Target<T> &p) {
    T largest = 0;
    for (int e = Group<N>::rank(); e < n; e += N) {
        const T size = size_of(m.weight(e));
        largest = size > largest ? size : largest;
    }
    const T bound = times(p.factor, group_max<N>(largest));
    int kept = 0;
    for (int e = Group<N>::rank(); e < n; e += N) {
        kept += size_of(m.weight(e)) >= bound;
    }
    kept = group_sum<N>(kept);
    const bool limited = p.most > 0 && kept > p.most;
    kept = limited ? p.most : kept;
    if (p.mode == ROW_COUNT) {
        if (Group<N>::rank() == 0) {
            p.counts[row] = kept;
        }
        return;
    }
    const auto stays = [&](int e) {
        const T size = size_of(m.weight(e));
        if (!(size >= bound) || !limited) {
            return size >= bound;
        }
        int better = 0;
        for (int o = 0; o < n; ++o) {
            const T other = size_of(m.weight(o));
            better += other > size || (other == size && m.key(o) < m.key(e));
        }
        return better < p.most;
    };
    const i64 start = p.start(row);
    // What goes loses its weight: it is not among the largest, so those that are compared later find as many larger ones as before.
    for (int first = 0; first < n; first += N) {
        const int e = first + Group<N>::rank();
        const bool goes = e < n && !stays(e);
        m.meet(); // all keys of these lanes are compared
        if (goes) {
            m.weight(e) = 0;
        }
        m.meet();
    }
    for (int e = Group<N>::rank(); e < n; e += N) {
        if (m.weight(e) != 0) {
            int before = 0;
            for (int o = 0; o < n; ++o) {
                before += m.weight(o) != 0 && m.key(o) < m.key(e);
            }
            p.columns[start + before] = m.key(e);
            p.values[start + before] = m.weight(e);
        }
    }
    if (kept < n) {
        m.meet();
        const T scale = row_scale(sum_in_order<T, N>(p.values, start, kept), total);
        m.meet();
        for (int e = Group<N>::rank(); e < kept; e += N) {
            p.values[start + e] = p.values[start + e] * scale;
        }
    }
}

// The weights of the columns that the row has; others go, and the sum stays. Nothing is compacted yet.
template <class T, int N, class K, class W> DEVICE void write_pattern(const Members<T, N, K, W> &m, i64 row, T factor, T total, const Target<T> &p) {
    const i64 start = p.start(row);
    const int n = static_cast<int>(p.offsets[row + 1] - start);
    int left = 0;
    for (int slot = Group<N>::rank(); slot < m.slots; slot += N) {
        left += m.seen(slot) >= 0 && m.weight(slot) * factor != 0;
    }
    for (int e = Group<N>::rank(); e < n; e += N) {
        const int slot = m.find(p.columns[start + e]);
        const T w = slot < 0 ? 0 : m.weight(slot) * factor;
        left -= w != 0;
        p.values[start + e] = w;
    }
    if (group_sum<N>(left) > 0) {
        m.meet();
        const T scale = row_scale(sum_in_order<T, N>(p.values, start, n), total);
        m.meet();
        for (int e = Group<N>::rank(); e < n; e += N) {
            p.values[start + e] = p.values[start + e] * scale;
        }
    }
}

// Truncation of rows in global memory, such as those of a product. A tile of lanes reads its row several times and
// needs no memory of its own.
#include "truncate.h"

// The rows to truncate. Without `lengths` they are contiguous; with it, there is space for one entry more in each
// row.
template <class T> struct LongRows {
    In<i64> offsets;
    In<i32> lengths;
    In<i32> columns;
    In<T> values;
    DEVICE i64 begin(i64 row) const { return offsets[row] + (lengths.len > 0 ? row : 0); }
    DEVICE int length(i64 row) const { return lengths.len > 0 ? lengths[row] : static_cast<int>(offsets[row + 1] - offsets[row]); }
};

// Which weights of a row are kept: those of at least `bound`; if these are too many, the largest ones, up to the last
// of them.
template <class T> struct Selection {
    T bound;
    bool limited;
    T last_size;
    i32 last_column;
    DEVICE bool keeps(T w, i32 column) const {
        const T size = size_of(w);
        return w != 0 && size >= bound && !(limited && stays_before(last_size, last_column, size, column));
    }
};

// Selects among n weights. `kept` is the number that is kept, `nonzero` the number of weights that are not 0. Tiles
// without a row have n = 0.
template <class T, int N>
DEVICE Selection<T> select(const LongRows<T> &from, i64 begin, int n, const Target<T> &p, int &kept, int &nonzero) {
    const int rank = Tile<N>::rank();
    T largest = 0;
    nonzero = 0;
    for (int e = rank; e < n; e += N) {
        const T size = size_of(from.values[begin + e]);
        largest = size > largest ? size : largest;
        nonzero += size != 0;
    }
    Selection<T> selection{times(p.factor, tile_max<N>(largest)), false, 0, 0};
    kept = 0;
    for (int e = rank; e < n; e += N) {
        kept += selection.keeps(from.values[begin + e], 0);
    }
    UNROLL
    for (int step = N / 2; step > 0; step /= 2) {
        nonzero += Tile<N>::shuffle(nonzero, rank ^ step);
        kept += Tile<N>::shuffle(kept, rank ^ step);
    }
    const bool limited = p.most > 0 && kept > p.most;
    // Selects the next largest weight, up to `most` times.
    for (int picked = 0; Tile<N>::any(limited && picked < p.most); ++picked) {
        T size = -1;
        i32 column = 0;
        for (int e = rank; limited && e < n; e += N) {
            const T other = size_of(from.values[begin + e]);
            const i32 c = from.columns[begin + e];
            const bool is_next = picked == 0 || stays_before(selection.last_size, selection.last_column, other, c);
            if (is_next && stays_before(other, c, size, column)) {
                size = other;
                column = c;
            }
        }
        UNROLL
        for (int step = N / 2; step > 0; step /= 2) {
            const T other = Tile<N>::shuffle(size, rank ^ step);
            const i32 c = Tile<N>::shuffle(column, rank ^ step);
            if (stays_before(other, c, size, column)) {
                size = other;
                column = c;
            }
        }
        selection.last_size = size;
        selection.last_column = column;
    }
    selection.limited = limited;
    kept = limited ? p.most : kept;
    return selection;
}

// The sum of all weights of a row, in order.
template <class T, int N> DEVICE T sum_of_row(const In<T> &values, i64 begin, int n) {
    T sum = 0;
    for (int first = 0; Tile<N>::any(first < n); first += N) {
        const int e = first + Tile<N>::rank();
        const T v = e < n ? values[begin + e] : 0;
        for (int lane = 0; lane < N && Tile<N>::any(first + lane < n); ++lane) {
            sum += Tile<N>::shuffle(v, lane);
        }
    }
    return sum;
}

template <class T, int N> DEVICE void truncate_row(const LongRows<T> &from, i64 begin, int n, i64 row, const Target<T> &p) {
    int kept, nonzero;
    const Selection<T> selection = select<T, N>(from, begin, n, p, kept, nonzero);
    if (p.mode == ROW_COUNT) {
        if (row >= 0 && Tile<N>::rank() == 0) {
            p.counts[row] = kept;
        }
        return;
    }
    const i64 start = row >= 0 ? p.start(row) : 0;
    bool ascends = true;
    for (int e = Tile<N>::rank() + 1; e < n; e += N) {
        ascends = ascends && from.columns[begin + e - 1] < from.columns[begin + e];
    }
    ascends = Tile<N>::ballot(!ascends) == 0;
    int written = 0;
    for (int first = 0; Tile<N>::any(first < n); first += N) {
        const int e = first + Tile<N>::rank();
        const T w = e < n ? from.values[begin + e] : 0;
        const i32 column = e < n ? from.columns[begin + e] : 0;
        const bool stays = e < n && selection.keeps(w, column);
        const u64 all = Tile<N>::ballot(stays);
        int to = written + Tile<N>::rank_among(all);
        if (stays && !ascends) {
            to = 0;
            for (int o = 0; o < n; ++o) {
                const i32 other = from.columns[begin + o];
                to += other < column && selection.keeps(from.values[begin + o], other);
            }
        }
        if (stays) {
            p.columns[start + to] = column;
            p.values[start + to] = w;
        }
        written += count_bits(all);
    }
    if (Tile<N>::any(kept < nonzero)) {
        rescale_row<T, N>(kept < nonzero, p.values, start, kept, sum_of_row<T, N>(from.values, begin, n));
    }
}

// Writes the weights of the columns that the row has in a known pattern.
template <class T, int N> DEVICE void truncate_to_pattern(const LongRows<T> &from, i64 begin, int n, i64 row, const Target<T> &p) {
    const i64 start = row >= 0 ? p.start(row) : 0;
    const int wanted = row >= 0 ? static_cast<int>(p.offsets[row + 1] - start) : 0;
    int left = 0;
    for (int e = Tile<N>::rank(); e < n; e += N) {
        left += from.values[begin + e] != 0;
    }
    for (int e = Tile<N>::rank(); e < wanted; e += N) {
        const i32 column = p.columns[start + e];
        T w = 0;
        for (int o = 0; o < n; ++o) {
            if (from.columns[begin + o] == column) {
                w = from.values[begin + o];
                break;
            }
        }
        left -= w != 0;
        p.values[start + e] = w;
    }
    UNROLL
    for (int step = N / 2; step > 0; step /= 2) {
        left += Tile<N>::shuffle(left, Tile<N>::rank() ^ step);
    }
    if (Tile<N>::any(left > 0)) {
        rescale_row<T, N>(left > 0, p.values, start, wanted, sum_of_row<T, N>(from.values, begin, n));
    }
}

#define TRUNCATE(T, N) \
    KERNEL(truncate_##T##_##N, i64 rows, i32 mode, i32 most, f64 factor, In<i64> offsets, In<i32> lengths, In<i32> columns, In<T> values, \
           In<i64> to_offsets, Out<i32> to_columns, Out<T> to_values, Out<i32> counts) { \
        const LongRows<T> from{offsets, lengths, columns, values}; \
        const Target<T> to{mode, most, As<T>::of(factor), to_offsets, to_columns, to_values, counts}; \
        const i64 at = global_index() / N, row = at < rows ? at : -1; \
        const i64 begin = row >= 0 ? from.begin(row) : 0; \
        const int n = row >= 0 ? from.length(row) : 0; \
        if (mode == ROW_PATTERN) { \
            truncate_to_pattern<T, N>(from, begin, n, row, to); \
        } else { \
            truncate_row<T, N>(from, begin, n, row, to); \
        } \
    }
TRUNCATE(f64, 8)
TRUNCATE(f64, 32)
TRUNCATE(f32, 8)
TRUNCATE(f32, 32)

// Symbolic phase: for each entry of a pattern the position of its column in the row that is truncated, or NOT_THERE,
// which is beyond the longest row. A thread for each row.
constexpr u8 NOT_THERE = 255;
KERNEL(truncate_symbolic, i64 rows, In<i64> offsets, In<i32> columns, In<i64> to_offsets, In<i32> to_columns, Out<u8> positions) {
    const i64 row = global_index();
    if (row >= rows) {
        return;
    }
    const i64 begin = offsets[row], end = offsets[row + 1];
    for (i64 e = to_offsets[row]; e < to_offsets[row + 1]; ++e) {
        i64 at = begin;
        while (at < end && columns[at] != to_columns[e]) {
            ++at;
        }
        positions[e] = at < end ? static_cast<u8>(at - begin) : NOT_THERE;
    }
}

// Numeric phase: the weights of the pattern's columns, from these positions. A thread for each row, which is short.
template <class T>
DEVICE void truncate_numeric(i64 rows, const In<i64> &offsets, const In<T> &values, const In<i64> &to_offsets, const In<u8> &positions,
                               const Out<T> &to_values) {
    const i64 row = global_index();
    if (row >= rows) {
        return;
    }
    const i64 begin = offsets[row], end = offsets[row + 1], start = to_offsets[row], last = to_offsets[row + 1];
    const auto weight = [&](i64 e) {
        const int position = positions[e];
        return position != NOT_THERE ? values[begin + position] : T(0);
    };
    T total = 0, sum = 0;
    int left = 0;
    for (i64 k = begin; k < end; ++k) {
        const T v = values[k];
        total += v;
        left += v != 0;
    }
    for (i64 e = start; e < last; ++e) {
        const T w = weight(e);
        sum += w;
        left -= w != 0;
    }
    const T scale = left > 0 ? row_scale(sum, total) : T(1);
    for (i64 e = start; e < last; ++e) {
        to_values[e] = weight(e) * scale;
    }
}
#define TRUNCATE_NUMERIC(T) \
    KERNEL(truncate_numeric_##T, i64 rows, In<i64> offsets, In<T> values, In<i64> to_offsets, In<u8> positions, Out<T> to_values) { \
        truncate_numeric<T>(rows, offsets, values, to_offsets, positions, to_values); \
    }
TRUNCATE_NUMERIC(f64)
TRUNCATE_NUMERIC(f32)

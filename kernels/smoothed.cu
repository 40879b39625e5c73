// Numeric phase of smoothed prolongators of scalars; see smoothed.h. Products are added in the order of A's row, with the
// bits of src/host/smoothed.rs.
#include "smoothed.h"

#define SMOOTHED_ROWS(T, CAP) \
    KERNEL(smoothed_rows_##T##_##CAP, i64 rows, In<i64> offsets, In<i32> columns, In<T> values, In<i32> aggregates, \
           In<i64> entries, In<T> tentative, In<T> inverse, f64 factor, In<i64> to_offsets, Out<i32> to_columns, \
           Out<T> to_values) { \
        const Smoothing<T> p{aggregates, entries, tentative, inverse, As<T>::of(factor)}; \
        smoothed_rows<T, CAP, true>(rows, offsets, columns, values, p, to_offsets, to_columns, to_values); \
    }
#define SMOOTHED_ROWS_(T) SMOOTHED_ROWS(T, 8) SMOOTHED_ROWS(T, 12)
FOR_SETUP(SMOOTHED_ROWS_)

// Scalar P: rows that exceed a thread's capacity, by 32 lanes. Columns are written unless `to_columns` is empty.
template <class T>
DEVICE void smoothed_wide_rows(i64 rows, int cap, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                               const Smoothing<T> &p, const In<i64> &to_offsets, const Out<i32> &to_columns,
                               const Out<T> &to_values) {
    using Lanes = Group<32>;
    SHARED(i32, list, BLOCK / 32 * MAX_SHARED_ROW);
    SHARED(T, sums, BLOCK / 32 * MAX_SHARED_ROW);
    const int rank = Lanes::rank();
    const int start = thread_index() / 32 * MAX_SHARED_ROW;
    const auto is_wide = [&](i64 row) { return to_offsets[row + 1] - to_offsets[row] > cap; };
    each_row_of_group(rows, cap, is_wide, [&](i64 row) {
        const i64 begin = offsets[row];
        const i64 end = offsets[row + 1];
        if (end - begin > MAX_SHARED_ROW) {
            return;
        }
        const i32 own_aggregate = p.aggregates[row];
        const T own = own_aggregate != OUTSIDE ? p.tentative[p.entry(row)] : T(0);
        const T scale = times(p.factor, p.inverse[row]);
        const i64 to = to_offsets[row];
        GroupAccumulator<decltype(list)> found{list, start, 0};
        for (i64 base = begin; base < end; base += 32) {
            const i64 k = base + rank;
            i32 g = OUTSIDE;
            T term = 0;
            if (k < end) {
                const i64 node = columns.once(k);
                const T value = values.once(k);
                g = p.aggregates[node];
                term = g != OUTSIDE ? times(value, p.tentative[p.entry(node)]) : T(0);
            }
            const int before = found.count;
            const bool leads = leads_aggregate(g);
            const int slot = found.slot_of(g, leads);
            T sum = leads && slot < before ? sums[start + slot] : T(0);
            UNROLL
            for (int m = 0; m < 32; ++m) {
                const i32 other = Lanes::shuffle(g, m);
                const T theirs = Lanes::shuffle(term, m);
                sum = other == g ? sum + theirs : sum;
            }
            if (leads) {
                sums[start + slot] = sum;
            }
            Lanes::barrier();
        }
        each_ascending(list, start, found.count, [&](int before, int d, i32 aggregate) {
            const T scaled = times(sums[start + d], scale);
            if (to_columns.len > 0) {
                to_columns[to + before] = aggregate;
            }
            to_values[to + before] = aggregate == own_aggregate ? scaled + own : scaled;
        });
        Lanes::barrier();
    });
}

#define SMOOTHED_WIDE_ROWS(T) \
    KERNEL(smoothed_wide_rows_##T, i64 rows, i32 cap, In<i64> offsets, In<i32> columns, In<T> values, In<i32> aggregates, \
           In<i64> entries, In<T> tentative, In<T> inverse, f64 factor, In<i64> to_offsets, Out<i32> to_columns, \
           Out<T> to_values) { \
        const Smoothing<T> p{aggregates, entries, tentative, inverse, As<T>::of(factor)}; \
        smoothed_wide_rows<T>(rows, cap, offsets, columns, values, p, to_offsets, to_columns, to_values); \
    }
FOR_SETUP(SMOOTHED_WIDE_ROWS)

// Scalar P with known columns: rows of A with too many entries and rows of P with more than `cap` aggregates, a block
// of threads for each. Blocks search all rows for them.
template <class T>
DEVICE void smoothed_long(i64 rows, int cap, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                          const Smoothing<T> &p, const In<i64> &to_offsets, const In<i32> &to_columns, const Out<T> &to_values) {
    SHARED(i32, owners, BLOCK);
    SHARED(T, terms, BLOCK);
    SHARED(i32, longs, BLOCK);
    const int thread = thread_index();
    for (i64 first = block_index() * BLOCK; first < rows; first += block_count() * BLOCK) {
        const i64 candidate = first + thread;
        const bool is_long = candidate < rows && offsets[candidate + 1] - offsets[candidate] > MAX_SHARED_ROW &&
                             to_offsets[candidate + 1] - to_offsets[candidate] > cap;
        i64 total;
        const i64 before = block_sum_before(is_long ? 1 : 0, total);
        if (is_long) {
            longs[before] = thread;
        }
        barrier();
        for (i64 l = 0; l < total; ++l) {
            const i64 row = first + longs[l];
            const i64 to = to_offsets[row];
            const i64 to_end = to_offsets[row + 1];
            for (i64 e = to + thread; e < to_end; e += BLOCK) {
                to_values[e] = T(0);
            }
            barrier();
            for (i64 base = offsets[row]; base < offsets[row + 1]; base += BLOCK) {
                const i64 k = base + thread;
                const i64 node = k < offsets[row + 1] ? columns[k] : 0;
                const i32 g = k < offsets[row + 1] ? p.aggregates[node] : OUTSIDE;
                owners[thread] = g;
                terms[thread] = g != OUTSIDE ? times(values[k], p.tentative[p.entry(node)]) : T(0);
                barrier();
                bool leads = g != OUTSIDE;
                for (int m = 0; m < thread && leads; ++m) {
                    leads = owners[m] != g;
                }
                if (leads) {
                    i64 low = to;
                    for (i64 high = to_end; high - low > 1;) {
                        const i64 middle = (low + high) / 2;
                        (to_columns[middle] <= g ? low : high) = middle;
                    }
                    T sum = to_values[low];
                    for (int m = thread; m < BLOCK; ++m) {
                        sum = owners[m] == g ? sum + terms[m] : sum;
                    }
                    to_values[low] = sum;
                }
                barrier();
            }
            const T scale = times(p.factor, p.inverse[row]);
            const i32 own = p.aggregates[row];
            for (i64 e = to + thread; e < to_end; e += BLOCK) {
                const T scaled = times(to_values[e], scale);
                to_values[e] = to_columns[e] == own ? scaled + p.tentative[p.entry(row)] : scaled;
            }
            barrier();
        }
        barrier();
    }
}

#define SMOOTHED_LONG(T) \
    KERNEL(smoothed_long_##T, i64 rows, i32 cap, In<i64> offsets, In<i32> columns, In<T> values, In<i32> aggregates, \
           In<i64> entries, In<T> tentative, In<T> inverse, f64 factor, In<i64> to_offsets, In<i32> to_columns, \
           Out<T> to_values) { \
        const Smoothing<T> p{aggregates, entries, tentative, inverse, As<T>::of(factor)}; \
        smoothed_long<T>(rows, cap, offsets, columns, values, p, to_offsets, to_columns, to_values); \
    }
FOR_SETUP(SMOOTHED_LONG)

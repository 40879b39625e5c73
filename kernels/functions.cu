// Matrices of several unknown functions (hypre's num_functions): the function of each unknown, and the couplings
// within a function.
#include "tile.h"

// Functions of unknowns that are numbered point by point.
KERNEL(interleaved_functions, i64 unknowns, i32 count, Out<u8> functions) {
    const i64 i = global_index();
    if (i < unknowns) {
        functions[i] = static_cast<u8>(i % count);
    }
}

// Functions of the coarse unknowns.
KERNEL(functions_coarse, i64 unknowns, In<u8> functions, In<i32> number, Out<u8> coarse) {
    const i64 i = global_index();
    if (i < unknowns && number[i] >= 0) {
        coarse[number[i]] = functions[i];
    }
}

// The number of couplings of each row within its function. N lanes for each row.
template <int N>
DEVICE void functions_count(i64 rows, const In<i64> &offsets, const In<i32> &columns, const In<u8> &functions, const Out<i32> &counts) {
    const i64 i = global_index() / N;
    const bool is_row = i < rows;
    const int own = is_row ? functions[i] : 0;
    const i64 end = is_row ? offsets[i + 1] : 0;
    int count = 0;
    for (i64 k = is_row ? offsets[i] + Tile<N>::rank() : 0; k < end; k += N) {
        count += functions[columns.once(k)] == own;
    }
    count = tile_sum<N>(count);
    if (is_row && Tile<N>::rank() == 0) {
        counts[i] = count;
    }
}

// The couplings within a function, in the order of the rows. Columns are written unless `to_columns` is empty: an
// update knows them. V has the size of the values, which are copied bitwise.
template <class V, int N>
DEVICE void functions_within(i64 rows, const In<i64> &offsets, const In<i32> &columns, const In<V> &values, const In<u8> &functions,
                             const In<i64> &to_offsets, const Out<i32> &to_columns, const Out<V> &to_values) {
    const i64 i = global_index() / N;
    const bool is_row = i < rows;
    const int own = is_row ? functions[i] : 0;
    const i64 begin = is_row ? offsets[i] : 0;
    const i64 end = is_row ? offsets[i + 1] : 0;
    i64 at = is_row ? to_offsets[i] : 0;
    for (i64 start = begin; Tile<N>::any(start < end); start += N) {
        const i64 k = start + Tile<N>::rank();
        const i32 column = k < end ? columns.once(k) : 0;
        const bool is_within = k < end && functions[column] == own;
        const u64 all = Tile<N>::ballot(is_within);
        if (is_within) {
            const i64 to = at + Tile<N>::rank_among(all);
            to_values[to] = values.once(k);
            if (to_columns.len > 0) {
                to_columns[to] = column;
            }
        }
        at += count_bits(all);
    }
}

#define FUNCTIONS_WITHIN(V, N) \
    KERNEL(functions_within_##V##_##N, i64 rows, In<i64> offsets, In<i32> columns, In<V> values, In<u8> functions, In<i64> to_offsets, \
           Out<i32> to_columns, Out<V> to_values) { \
        functions_within<V, N>(rows, offsets, columns, values, functions, to_offsets, to_columns, to_values); \
    }
#define FUNCTIONS(N) \
    KERNEL(functions_count_##N, i64 rows, In<i64> offsets, In<i32> columns, In<u8> functions, Out<i32> counts) { \
        functions_count<N>(rows, offsets, columns, functions, counts); \
    } \
    FUNCTIONS_WITHIN(u64, N) \
    FUNCTIONS_WITHIN(u32, N)
FUNCTIONS(4) FUNCTIONS(8) FUNCTIONS(16) FUNCTIONS(32)

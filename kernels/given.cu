// Matrices that a caller gives in device memory: brought into the library's types, and checked. What is wrong is found here and told by the host,
// which has the sentences.
#include "portability.h"

// Offsets counted from 0; `flag` tells that they decrease, or do not begin at the base.
template <class I> DEVICE void take_offsets(i64 n, i32 base, const In<I> &from, const Out<i64> &to, const Out<i32> &flag) {
    const i64 i = global_index();
    if (i < n) {
        const i64 offset = from[i] - base;
        to[i] = offset;
        if (i == 0 ? offset != 0 : offset < from[i - 1] - base) {
            flag[0] = 1;
        }
    }
}

#define TAKE_OFFSETS(I) \
    KERNEL(take_offsets_##I, i64 n, i32 base, In<I> from, Out<i64> to, Out<i32> flag) { \
        take_offsets<I>(n, base, from, to, flag); \
    }
TAKE_OFFSETS(i32)
TAKE_OFFSETS(i64)

// Columns of 32 bits, counted from 0; `flag` tells of those that 32 bits do not hold.
template <class I> DEVICE void take_columns(i64 n, i32 base, const In<I> &from, const Out<i32> &to, const Out<i32> &flag) {
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        if (i < n) {
            const i64 column = static_cast<i64>(from[i]) - base;
            to[i] = static_cast<i32>(column);
            if (column != static_cast<i32>(column)) {
                flag[0] = 1;
            }
        }
    }
}

#define TAKE_COLUMNS(I) \
    KERNEL(take_columns_##I, i64 n, i32 base, In<I> from, Out<i32> to, Out<i32> flag) { \
        take_columns<I>(n, base, from, to, flag); \
    }
TAKE_COLUMNS(i32)
TAKE_COLUMNS(i64)

// Lanes of a row.
constexpr int CHECKING = 8;

// Flags rows with columns outside of the matrix or twice, or out of order where order was promised; with values that are not finite; without
// diagonal or with a zero on it, where the matrix is square.
template <class T>
DEVICE void check_rows(i64 rows, i64 cols, i32 width, i32 square, i32 structure, i32 sorted, const In<i64> &offsets,
                       const In<i32> &columns, const In<T> &values, const Out<i32> &flag) {
    using G = Group<CHECKING>;
    const i64 row = global_index() / CHECKING;
    if (row >= rows) {
        return;
    }
    const i64 start = offsets[row];
    const i64 end = offsets[row + 1];
    bool wrong = false;
    bool ascending = true;
    bool diagonal = square == 0;
    for (i64 k = start + G::rank(); k < end; k += CHECKING) {
        const i32 column = columns[k];
        wrong = wrong || column < 0 || column >= cols;
        ascending = ascending && (k == start || columns[k - 1] < column);
        if (square != 0 && column == row) {
            diagonal = true;
            for (int r = 0; r < width; ++r) {
                wrong = wrong || values[(k * width + r) * width + r] == T(0);
            }
        }
    }
    const i64 scalars = square != 0 ? width * width : width;
    for (i64 k = start * scalars + G::rank(); k < end * scalars; k += CHECKING) {
        // What is infinite or no number, minus itself is not zero.
        const T v = values[k];
        wrong = wrong || v - v != T(0);
    }
    const bool in_order = G::ballot(!ascending) == 0;
    if (structure != 0 && !in_order) {
        wrong = wrong || sorted != 0;
        for (i64 k = start + G::rank(); k < end; k += CHECKING) {
            for (i64 l = start; l < k; ++l) {
                wrong = wrong || columns[l] == columns[k];
            }
        }
    }
    const bool has_diagonal = G::ballot(diagonal) != 0;
    if (wrong || !has_diagonal) {
        flag[0] = 1;
    }
}

#define CHECK_ROWS(T) \
    KERNEL(check_rows_##T, i64 rows, i64 cols, i32 width, i32 square, i32 structure, i32 sorted, In<i64> offsets, \
           In<i32> columns, In<T> values, Out<i32> flag) { \
        check_rows<T>(rows, cols, width, square, structure, sorted, offsets, columns, values, flag); \
    }
CHECK_ROWS(f64)
CHECK_ROWS(f32)

// Flags the formats that do not hold every value exactly: f16 at 0, bf16 at 1, f32 at 2.
template <class T> DEVICE void check_exact(i64 n, const In<T> &values, const Out<i32> &flags) {
    if (flags[0] != 0 && flags[1] != 0 && flags[2] != 0) {
        return; // others have seen enough, and writing it again would only take turns
    }
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        if (i < n) {
            const f64 v = to_f64(values[i]);
            const f32 narrow = to_f32(v);
            if (to_f64(to_f16(narrow)) != v) {
                flags[0] = 1;
            }
            if (to_f64(to_bf16(narrow)) != v) {
                flags[1] = 1;
            }
            if (to_f64(narrow) != v) {
                flags[2] = 1;
            }
        }
    }
}

KERNEL(check_exact_f64, i64 n, In<f64> values, Out<i32> flags) { check_exact<f64>(n, values, flags); }
KERNEL(check_exact_f32, i64 n, In<f32> values, Out<i32> flags) { check_exact<f32>(n, values, flags); }

// The constant in each component of a node: vectors of all rows, one for each of the rows that a node has.
KERNEL(constants, i64 rows, i32 dofs, Out<f64> vectors) {
    const i64 i = global_index();
    if (i < rows * dofs) {
        vectors[i] = i % rows % dofs == i / rows ? 1.0 : 0.0;
    }
}

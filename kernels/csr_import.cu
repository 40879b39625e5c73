// Import of a CSR or BSR matrix in device memory: conversion of its indices, and checks. Kernels only flag a defect; the host then finds the row
// and reports it.
#include "portability.h"

// Offsets counted from 0. Sets `flag` where they decrease or do not begin at the base.
template <class I> DEVICE void import_offsets(i64 n, i32 base, const In<I> &from, const Out<i64> &to, const Out<i32> &flag) {
    const i64 i = global_index();
    if (i < n) {
        const i64 offset = from[i] - base;
        to[i] = offset;
        if (i == 0 ? offset != 0 : offset < from[i - 1] - base) {
            flag[0] = 1;
        }
    }
}

#define IMPORT_OFFSETS(I) \
    KERNEL(import_offsets_##I, i64 n, i32 base, In<I> from, Out<i64> to, Out<i32> flag) { \
        import_offsets<I>(n, base, from, to, flag); \
    }
IMPORT_OFFSETS(i32)
IMPORT_OFFSETS(i64)

// Columns of 32 bits, counted from 0. Sets `flag` where a column exceeds 32 bits.
template <class I> DEVICE void import_columns(i64 n, i32 base, const In<I> &from, const Out<i32> &to, const Out<i32> &flag) {
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

#define IMPORT_COLUMNS(I) \
    KERNEL(import_columns_##I, i64 n, i32 base, In<I> from, Out<i32> to, Out<i32> flag) { \
        import_columns<I>(n, base, from, to, flag); \
    }
IMPORT_COLUMNS(i32)
IMPORT_COLUMNS(i64)

// Lanes per row.
constexpr int ROW_LANES = 8;

// Sets `flag` for rows with columns out of range, duplicate or, where `sorted` is promised, out of order; with values that are not finite; and in
// square matrices without a diagonal entry or with a zero on the diagonal.
template <class T>
DEVICE void check_rows(i64 rows, i64 cols, i32 width, i32 square, i32 structure, i32 sorted, const In<i64> &offsets,
                       const In<i32> &columns, const In<T> &values, const Out<i32> &flag) {
    using G = Group<ROW_LANES>;
    const i64 row = global_index() / ROW_LANES;
    if (row >= rows) {
        return;
    }
    const i64 start = offsets[row];
    const i64 end = offsets[row + 1];
    bool wrong = false;
    bool ascending = true;
    bool diagonal = square == 0;
    for (i64 k = start + G::rank(); k < end; k += ROW_LANES) {
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
    for (i64 k = start * scalars + G::rank(); k < end * scalars; k += ROW_LANES) {
        // v - v is NaN for infinity and NaN.
        const T v = values[k];
        wrong = wrong || v - v != T(0);
    }
    const bool in_order = G::ballot(!ascending) == 0;
    if (structure != 0 && !in_order) {
        wrong = wrong || sorted != 0;
        for (i64 k = start + G::rank(); k < end; k += ROW_LANES) {
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
        return; // all flags are set; writing them again would only serialise
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

// The near-null space of constants: one vector for each dof of a node, 1 at this dof of every node.
KERNEL(constants, i64 rows, i32 dofs, Out<f64> vectors) {
    const i64 i = global_index();
    if (i < rows * dofs) {
        vectors[i] = i % rows % dofs == i / rows ? 1.0 : 0.0;
    }
}

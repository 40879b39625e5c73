// Filtered prolongators; see src/host/filtered.rs. Sums have the order of the host, so the bits are the same.
#include "coarse_space.h"

// Longest row that is filtered, as in src/backend/common.rs.
constexpr i64 MAX_FILTERED = 512;
// Largest change of a vector by a row that is corrected.
constexpr f64 MAX_UNCORRECTED = 1e-8;
// Largest correction of a row, by the squares of its values and of those of the row.
constexpr f64 MAX_CORRECTION = 1.0;

// The square of the norm of each block. A thread has a block.
template <class T> DEVICE void filtered_norms(i64 blocks, int width, const In<T> &values, const Out<f64> &norms) {
    const i64 b = global_index();
    if (b >= blocks) {
        return;
    }
    f64 sum = 0;
    for (int e = 0; e < width; ++e) {
        const f64 v = static_cast<f64>(values[b * width + e]);
        sum += times(v, v);
    }
    norms[b] = sum;
}

// 1 for each block that stays by its norm, 0 for the others. 32 lanes for a row.
KERNEL(filtered_flags, i64 rows, f64 lost, In<i64> offsets, In<f64> norms, Out<i32> kept) {
    const i64 row = global_index() / 32;
    if (row >= rows) {
        return;
    }
    const i64 begin = offsets[row];
    const i64 end = offsets[row + 1];
    for (i64 b = begin + Group<32>::rank(); b < end; b += 32) {
        if (end - begin > MAX_FILTERED) {
            kept[b] = 1;
            continue;
        }
        const f64 norm = norms[b];
        f64 total = 0;
        f64 smaller = 0;
        for (i64 c = begin; c < end; ++c) {
            total += norms[c];
            if (norms[c] < norm || (norms[c] == norm && c <= b)) {
                smaller += norms[c];
            }
        }
        kept[b] = smaller >= times(lost, total) ? 1 : 0;
    }
}

// Whether the blocks of a row that are kept can be corrected to do what all of them do, by little beside the row.
template <class T>
DEVICE bool can_be_corrected(i64 row, int n, const CoarseSpace &space, const In<f64> &inverse, const In<i64> &offsets, const In<i32> &columns,
                             const In<T> &values, const Out<i32> &kept) {
    const int m = space.m;
    const int k = space.k;
    f64 whole = 0;
    f64 changed = 0;
    for (int r = 0; r < n; ++r) {
        f64 action[8];
        f64 size[8];
        f64 multipliers[8];
        f64 corrected[8];
        for (int c = 0; c < k; ++c) {
            action[c] = 0;
            size[c] = 0;
            corrected[c] = 0;
        }
        for (i64 b = offsets[row]; b < offsets[row + 1]; ++b) {
            for (int q = 0; q < m; ++q) {
                const f64 value = static_cast<f64>(values[(b * n + r) * m + q]);
                whole += times(value, value);
                for (int c = 0; c < k; ++c) {
                    const f64 product = times(value, space.at(columns[b], q, c));
                    size[c] += magnitude(product);
                    action[c] += kept[b] == 0 ? product : 0.0;
                }
            }
        }
        for (int c = 0; c < k; ++c) {
            f64 sum = 0;
            for (int q = 0; q < k; ++q) {
                sum += times(action[q], inverse[(row * k + q) * k + c]);
            }
            multipliers[c] = sum;
        }
        for (i64 b = offsets[row]; b < offsets[row + 1]; ++b) {
            for (int q = 0; q < m && kept[b] != 0; ++q) {
                f64 change = 0;
                for (int c = 0; c < k; ++c) {
                    change += times(multipliers[c], space.at(columns[b], q, c));
                }
                changed += times(change, change);
                for (int c = 0; c < k; ++c) {
                    corrected[c] += times(change, space.at(columns[b], q, c));
                }
            }
        }
        for (int c = 0; c < k; ++c) {
            if (magnitude(action[c] - corrected[c]) > times(MAX_UNCORRECTED, size[c])) {
                return false;
            }
        }
    }
    return changed <= times(MAX_CORRECTION, whole);
}

// Keeps all blocks of a row whose remaining ones cannot be corrected, and counts. A thread has a row.
template <class T>
DEVICE void filtered_counts(i64 rows, int n, const CoarseSpace &space, const In<f64> &inverse, const In<i64> &offsets, const In<i32> &columns,
                            const In<T> &values, const Out<i32> &kept, const Out<i32> &counts) {
    const i64 row = global_index();
    if (row >= rows) {
        return;
    }
    const bool whole = !can_be_corrected(row, n, space, inverse, offsets, columns, values, kept);
    i32 count = 0;
    for (i64 b = offsets[row]; b < offsets[row + 1]; ++b) {
        if (whole) {
            kept[b] = 1;
        }
        count += kept[b];
    }
    counts[row] = count;
}

// The columns of the blocks that stay. A thread has a row.
KERNEL(filtered_columns, i64 rows, In<i64> offsets, In<i32> columns, In<i32> kept, In<i64> to_offsets, Out<i32> to_columns) {
    const i64 row = global_index();
    if (row >= rows) {
        return;
    }
    i64 to = to_offsets[row];
    for (i64 b = offsets[row]; b < offsets[row + 1]; ++b) {
        if (kept[b] != 0) {
            to_columns[to++] = columns[b];
        }
    }
}

// The values of the blocks that stay. A thread has a scalar row.
template <class T>
DEVICE void filtered_values(i64 rows, int n, const CoarseSpace &space, const In<f64> &inverse, const In<i64> &offsets, const In<i32> &columns,
                            const In<T> &values, const In<i64> &to_offsets, const In<i32> &to_columns, const Out<T> &to_values) {
    const i64 index = global_index();
    const i64 row = index / n;
    if (row >= rows) {
        return;
    }
    const int r = static_cast<int>(index - row * n);
    const int m = space.m;
    const int k = space.k;
    f64 action[8];
    f64 multipliers[8];
    for (int p = 0; p < k; ++p) {
        action[p] = 0;
    }
    const i64 to_end = to_offsets[row + 1];
    i64 next = to_offsets[row];
    for (i64 b = offsets[row]; b < offsets[row + 1]; ++b) {
        const i32 g = columns[b];
        if (next < to_end && to_columns[next] == g) {
            ++next;
            continue;
        }
        for (int p = 0; p < k; ++p) {
            for (int q = 0; q < m; ++q) {
                action[p] += times(static_cast<f64>(values[(b * n + r) * m + q]), space.at(g, q, p));
            }
        }
    }
    for (int p = 0; p < k; ++p) {
        f64 sum = 0;
        for (int q = 0; q < k; ++q) {
            sum += times(action[q], inverse[(row * k + q) * k + p]);
        }
        multipliers[p] = sum;
    }
    next = to_offsets[row];
    for (i64 b = offsets[row]; b < offsets[row + 1] && next < to_end; ++b) {
        const i32 g = columns[b];
        if (to_columns[next] != g) {
            continue;
        }
        for (int p = 0; p < m; ++p) {
            f64 change = 0;
            for (int q = 0; q < k; ++q) {
                change += times(multipliers[q], space.at(g, p, q));
            }
            to_values[(next * n + r) * m + p] = As<T>::of(static_cast<f64>(values[(b * n + r) * m + p]) + change);
        }
        ++next;
    }
}

#define FILTERED(T) \
    KERNEL(filtered_norms_##T, i64 blocks, i32 width, In<T> values, Out<f64> norms) { filtered_norms<T>(blocks, width, values, norms); } \
    KERNEL(filtered_counts_##T, i64 rows, i32 n, i64 count, i32 m, i32 k, In<f64> vectors, In<f64> inverse, In<i64> offsets, \
           In<i32> columns, In<T> values, Out<i32> kept, Out<i32> counts) { \
        filtered_counts<T>(rows, n, CoarseSpace{count, m, k, vectors}, inverse, offsets, columns, values, kept, counts); \
    } \
    KERNEL(filtered_values_##T, i64 rows, i32 n, i64 count, i32 m, i32 k, In<f64> vectors, In<f64> inverse, In<i64> offsets, In<i32> columns, \
           In<T> values, In<i64> to_offsets, In<i32> to_columns, Out<T> to_values) { \
        filtered_values<T>(rows, n, CoarseSpace{count, m, k, vectors}, inverse, offsets, columns, values, to_offsets, to_columns, to_values); \
    }
FOR_SETUP(FILTERED)

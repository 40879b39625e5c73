// Diagonals of matrices, their inverses, inverses of diagonal blocks, and their storage: as in src/host/diagonal.rs,
// with its bits.
#include "numbers.h"

DEVICE void put_number(const Any &out, int format, i64 i, f64 v) {
    if (format == F64) {
        out.out<f64>()[i] = v;
    } else {
        out.out<f32>()[i] = to_f32(v);
    }
}

// d / s^2, the diagonal of a matrix whose variables were multiplied by powers of two s; an empty array means ones.
// Sums scale like their terms, bit by bit.
DEVICE f64 scaled_by(const In<f64> &scale, i64 i, i64 j, f64 d) {
    return scale.len > 0 ? d * reciprocal_of_power(scale[i]) * reciprocal_of_power(scale[j]) : d;
}

// Scalar matrices: N lanes for a row, which load it together and add its absolute values in order. Without `l1` only
// the diagonal is read. `scale` is empty, or has a power of two for each row.
template <class T, int N>
DEVICE void diagonal_rows(i64 rows, int inverted, int l1, const In<f64> &scale, const In<i64> &offsets,
                          const In<i32> &columns, const In<T> &values, int format, const Any &out) {
    using Lanes = Group<N>;
    const i64 row = global_index() / N;
    if (row >= rows) {
        return;
    }
    const i64 end = offsets[row + 1];
    i64 at = -1;
    f64 norm = 0.0;
    for (i64 base = offsets[row]; base < end; base += N) {
        const i64 k = base + Lanes::rank();
        const i32 column = k < end ? columns[k] : -1;
        const u64 hit = Lanes::ballot(column == row);
        if (at < 0 && hit != 0) {
            at = base + lowest_bit(hit);
        }
        if (l1) {
            f64 share = 0.0;
            if (k < end && column != row) {
                share = magnitude(to_f64(values.once(k)));
            }
            UNROLL
            for (int m = 0; m < N; ++m) {
                norm += Lanes::shuffle(share, m);
            }
        } else if (at >= 0) {
            break;
        }
    }
    if (Lanes::rank() == 0) {
        f64 d = at < 0 ? 0.0 : to_f64(values[at]);
        d = scaled_by(scale, row, row, d + with_sign(norm, d));
        put_number(out, format, row, inverted ? inverse_or_zero(d) : d);
    }
}

// Entries whose loads a thread issues together.
constexpr int DIAGONAL_BATCH = 8;

// The same for short rows, a thread for each.
template <class T>
DEVICE void diagonal_short_rows(i64 rows, int inverted, int l1, const In<f64> &scale, const In<i64> &offsets,
                                const In<i32> &columns, const In<T> &values, int format, const Any &out) {
    const i64 row = global_index();
    if (row >= rows) {
        return;
    }
    const i64 end = offsets[row + 1];
    i64 at = -1;
    f64 norm = 0.0;
    for (i64 base = offsets[row]; base < end; base += DIAGONAL_BATCH) {
        i32 column[DIAGONAL_BATCH];
        UNROLL
        for (int b = 0; b < DIAGONAL_BATCH; ++b) {
            column[b] = base + b < end ? columns[base + b] : -1;
        }
        if (l1) {
            f64 share[DIAGONAL_BATCH];
            UNROLL
            for (int b = 0; b < DIAGONAL_BATCH; ++b) {
                share[b] = base + b < end ? magnitude(to_f64(values[base + b])) : 0.0;
            }
            UNROLL
            for (int b = 0; b < DIAGONAL_BATCH; ++b) {
                norm += column[b] == row ? 0.0 : share[b];
            }
        }
        UNROLL
        for (int b = 0; b < DIAGONAL_BATCH; ++b) {
            at = at < 0 && column[b] == row ? base + b : at;
        }
        if (!l1 && at >= 0) {
            break;
        }
    }
    f64 d = at < 0 ? 0.0 : to_f64(values[at]);
    d = scaled_by(scale, row, row, d + with_sign(norm, d));
    put_number(out, format, row, inverted ? inverse_or_zero(d) : d);
}

// The inverse of the l1 diagonal of a matrix whose variables are multiplied by powers of two, a thread for each row,
// and in seen[1] the ordered bits of its largest |v| / (s_i s_j).
template <class T>
DEVICE void diagonal_and_largest(i64 rows, const In<f64> &s, const In<i64> &offsets, const In<i32> &columns,
                                 const In<T> &values, const Out<T> &inverse, const Out<u64> &seen) {
    const i64 row = global_index();
    u64 largest = 0;
    if (row < rows) {
        const i64 end = offsets[row + 1];
        const f64 own = reciprocal_of_power(s[row]);
        f64 d = 0.0;
        bool found = false;
        f64 norm = 0.0;
        for (i64 base = offsets[row]; base < end; base += DIAGONAL_BATCH) {
            i32 column[DIAGONAL_BATCH];
            f64 value[DIAGONAL_BATCH];
            f64 other[DIAGONAL_BATCH];
            UNROLL
            for (int b = 0; b < DIAGONAL_BATCH; ++b) {
                column[b] = base + b < end ? columns[base + b] : -1;
                value[b] = base + b < end ? to_f64(values[base + b]) : 0.0;
            }
            UNROLL
            for (int b = 0; b < DIAGONAL_BATCH; ++b) {
                other[b] = column[b] >= 0 ? s[column[b]] : 1.0;
            }
            UNROLL
            for (int b = 0; b < DIAGONAL_BATCH; ++b) {
                norm += column[b] == row ? 0.0 : magnitude(value[b]);
                const bool first = column[b] == row && !found;
                d = first ? value[b] : d;
                found = found || first;
                const f64 v = value[b] * own * reciprocal_of_power(other[b]);
                const u64 bits = v == v ? ordered(magnitude(v)) : 0;
                largest = bits > largest ? bits : largest;
            }
        }
        d = (d + with_sign(norm, d)) * own * own;
        inverse[row] = As<T>::of(inverse_or_zero(d));
    }
    largest = group_max<WARP>(largest);
    // The stored maximum only grows, so an old value decides correctly.
    if (Group<WARP>::rank() == 0 && largest > seen[1]) {
        atomic_max(seen[1], largest);
    }
}

#define DIAGONAL_AND_LARGEST(T) \
    KERNEL(diagonal_and_largest_##T, i64 rows, In<f64> s, In<i64> offsets, In<i32> columns, In<T> values, \
           Out<T> inverse, Out<u64> seen) { \
        diagonal_and_largest<T>(rows, s, offsets, columns, values, inverse, seen); \
    }
FOR_SETUP(DIAGONAL_AND_LARGEST)

#define DIAGONAL_ROWS(T, N) \
    KERNEL(diagonal_rows_##T##_##N, i64 rows, i32 inverted, i32 l1, In<f64> scale, In<i64> offsets, In<i32> columns, \
           In<T> values, i32 format, Any out) { \
        diagonal_rows<T, N>(rows, inverted, l1, scale, offsets, columns, values, format, out); \
    }
#define DIAGONAL_ROWS_(T) \
    KERNEL(diagonal_rows_##T##_1, i64 rows, i32 inverted, i32 l1, In<f64> scale, In<i64> offsets, In<i32> columns, \
           In<T> values, i32 format, Any out) { \
        diagonal_short_rows<T>(rows, inverted, l1, scale, offsets, columns, values, format, out); \
    } \
    DIAGONAL_ROWS(T, 8)
FOR_SETUP(DIAGONAL_ROWS_)

// Inverts the n x n matrix m of a group in place by exchanges of its diagonal, best pivot first. Each lane has a
// column, and the size that its pivot is compared with.
template <int LANES, class M> DEVICE void invert(M &m, int first, int n, f64 bound) {
    using Lanes = Group<LANES>;
    const int j = Lanes::rank();
    u32 left = (1u << n) - 1;
    f64 size = j < n ? magnitude(m[first + j * n + j]) : 0.0;
    for (;;) {
        const f64 share = size > 0.0 ? magnitude(m[first + j * n + j]) / size : 0.0;
        int k = -1;
        f64 best = 0.0;
        for (int other = 0; other < n; ++other) {
            const f64 theirs = Lanes::shuffle(share, other);
            if ((left >> other & 1) != 0 && (k < 0 || theirs > best)) {
                k = other;
                best = theirs;
            }
        }
        if (k < 0 || !(best > bound)) {
            break;
        }
        left &= ~(1u << k);
        const f64 pivot = m[first + k * n + k];
        const f64 row = j < n ? m[first + k * n + j] : 0.0;
        for (int i = 0; i < n; ++i) {
            if (i != k && j < n && j != k) {
                const f64 factor = m[first + i * n + k] / pivot;
                const f64 change = times(factor, row);
                m[first + i * n + j] -= change;
                if (i == j && (left >> i & 1) != 0) {
                    size += magnitude(change);
                }
            }
        }
        Lanes::barrier();
        if (j == k) {
            for (int i = 0; i < n; ++i) {
                m[first + i * n + k] = i == k ? 1.0 / pivot : -(m[first + i * n + k] / pivot);
            }
        } else if (j < n) {
            m[first + k * n + j] = row / pivot;
        }
        Lanes::barrier();
    }
    for (int k = 0; k < n; ++k) {
        if ((left >> k & 1) != 0 && j < n) {
            m[first + k * n + j] = 0.0;
            m[first + j * n + k] = 0.0;
        }
    }
    Lanes::barrier();
}

// Matrices of n x n blocks: LANES lanes for a block row, one for each of its scalar rows and columns. `width` is 1
// for the diagonal and n for the diagonal blocks, whose pivots up to `bound` are rounding errors.
template <class T, int LANES>
DEVICE void diagonal_blocks(i64 rows, int n, int width, int inverted, int l1, f64 bound, const In<f64> &scale,
                            const In<i64> &offsets, const In<i32> &columns, const In<T> &values, int format,
                            const Any &out) {
    using Lanes = Group<LANES>;
    // The stride between the blocks of two groups avoids bank conflicts.
    constexpr int STRIDE = LANES * LANES + LANES;
    SHARED(f64, m, BLOCK / LANES * STRIDE);
    const i64 row = global_index() / LANES;
    if (row >= rows) {
        return;
    }
    const int r = Lanes::rank();
    const int first = thread_index() / LANES * STRIDE;
    const i64 end = offsets[row + 1];
    i64 at = -1;
    f64 norm = 0.0;
    for (i64 base = offsets[row]; base < end; base += LANES) {
        const i32 column = base + r < end ? columns[base + r] : -1;
        const u64 hit = Lanes::ballot(column == row);
        if (at < 0 && hit != 0) {
            at = base + lowest_bit(hit);
        }
        if (!l1 && at >= 0) {
            break;
        }
        const int count = !l1 ? 0 : end - base < LANES ? static_cast<int>(end - base) : LANES;
        for (int k = 0; k < count; ++k) {
            const i64 j = Lanes::shuffle(column, k);
            if (r < n && (width == 1 || j != row)) {
                f64 sum = 0.0;
                for (int c = 0; c < n; ++c) {
                    if (j != row || c != r) {
                        sum += magnitude(to_f64(values[((base + k) * n + r) * n + c]));
                    }
                }
                norm += sum;
            }
        }
    }
    for (int e = r; e < n * n; e += LANES) {
        const f64 v = at < 0 ? 0.0 : to_f64(values[at * n * n + e]);
        m[first + e] = scaled_by(scale, row * n + e / n, row * n + e % n, v);
    }
    Lanes::barrier();
    f64 d = r < n ? m[first + r * n + r] : 0.0;
    d += with_sign(r < n ? scaled_by(scale, row * n + r, row * n + r, norm) : 0.0, d);
    if (width == 1) {
        if (r < n) {
            put_number(out, format, row * n + r, inverted ? inverse_or_zero(d) : d);
        }
        return;
    }
    if (r < n) {
        m[first + r * n + r] = d;
    }
    Lanes::barrier();
    invert<LANES>(m, first, n, bound);
    for (int e = r; e < n * n; e += LANES) {
        put_number(out, format, row * n * n + e, m[first + e]);
    }
}

#define DIAGONAL_BLOCKS(T, LANES) \
    KERNEL(diagonal_blocks_##T##_##LANES, i64 rows, i32 n, i32 width, i32 inverted, i32 l1, f64 bound, In<f64> scale, \
           In<i64> offsets, In<i32> columns, In<T> values, i32 format, Any out) { \
        diagonal_blocks<T, LANES>(rows, n, width, inverted, l1, bound, scale, offsets, columns, values, format, out); \
    }
#define DIAGONAL_BLOCKS_(T) DIAGONAL_BLOCKS(T, 4) DIAGONAL_BLOCKS(T, 8)
FOR_SETUP(DIAGONAL_BLOCKS_)

// out = factor x in a narrower format. `seen` gets the bits of the largest |x|, of the largest that became zero, and of a
// number that is not zero if one overflowed.
template <class T, class S> DEVICE void store_looking(i64 n, f64 factor, const In<T> &x, const Out<S> &out, const Out<u64> &seen) {
    u64 largest = 0;
    u64 vanished = 0;
    u64 lost = 0;
    for (i64 i = global_index(); i < n; i += block_count() * BLOCK) {
        const f64 exact = to_f64(x[i]);
        const S stored = As<S>::of(factor * exact);
        out[i] = stored;
        const f64 size = magnitude(exact);
        const u64 bits = size == size ? ordered(size) : 0;
        largest = bits > largest ? bits : largest;
        vanished = to_f32(stored) == 0.0f && bits > vanished ? bits : vanished;
        lost = is_finite(to_f64(stored)) ? lost : 1;
    }
    largest = group_max<WARP>(largest);
    vanished = group_max<WARP>(vanished);
    lost = group_max<WARP>(lost);
    if (Group<WARP>::rank() == 0) {
        atomic_max(seen[0], largest);
        if (vanished != 0) {
            atomic_max(seen[1], vanished);
        }
        if (lost != 0) {
            atomic_max(seen[2], lost);
        }
    }
}

#define STORE_LOOKING(T) \
    KERNEL(store_looking_##T, i64 n, f64 factor, In<T> x, i32 format, Any out, Out<u64> seen) { \
        if (format == F16) { \
            store_looking<T, f16>(n, factor, x, out.out<f16>(), seen); \
        } else if (format == F32) { \
            store_looking<T, f32>(n, factor, x, out.out<f32>(), seen); \
        } else { \
            store_looking<T, bf16>(n, factor, x, out.out<bf16>(), seen); \
        } \
    }
FOR_SETUP(STORE_LOOKING)

#define STORE_SCALED_DIAGONAL(T) \
    KERNEL(store_scaled_##T, i64 n, f64 factor, In<T> x, i32 format, Any out) { \
        for (i64 i = global_index(); i < n; i += block_count() * BLOCK) { \
            put_number(out, format, i, factor * to_f64(x[i])); \
        } \
    }
FOR_SETUP(STORE_SCALED_DIAGONAL)

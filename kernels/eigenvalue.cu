// Lanczos and power iterations for the largest eigenvalue of D^-1 A; see src/host/eigenvalue.rs. The scalars of the
// recurrence stay on the device: each block of the next kernel adds up the partial sums of an inner product, with the
// same bits.
#include "eigenvalue.h"

// A random start vector in which all rows have equal weight. With a diagonal D also z = D^-1 u and the partial sums
// of u z.
template <class T>
DEVICE void eigen_start(i64 n, int width, const In<T> &inverse, const Out<T> &u, const Out<T> &z, const Out<f64> &parts) {
    f64 sum = 0.0;
    for (i64 i = global_index(); i < n; i += block_count() * BLOCK) {
        const f64 random = static_cast<f64>(hash(static_cast<u64>(i), 0) >> 11) * 0x1p-53 - 0.5;
        const T own = inverse[width == 1 ? i : i * width + i % width];
        const f64 d = magnitude(to_f64(own));
        const T start = As<T>::of(d == 0.0 ? 0.0 : random / square_root(d));
        u[i] = start;
        if (width == 1) {
            const T product = own * start;
            z[i] = product;
            sum += to_f64(product) * to_f64(start);
        }
    }
    if (width == 1) {
        put_part(sum, parts);
    }
}

// z = D^-1 u, and the partial sums of u z.
template <class T>
DEVICE void eigen_pair(i64 n, int width, const In<T> &inverse, const In<T> &u, const Out<T> &z, const Out<f64> &parts) {
    f64 sum = 0.0;
    for (i64 i = global_index(); i < n; i += block_count() * BLOCK) {
        T product = 0;
        const i64 first = i - i % width;
        for (int c = 0; c < width; ++c) {
            product += inverse[i * width + c] * u[first + c];
        }
        z[i] = product;
        sum += to_f64(product) * to_f64(u[i]);
    }
    put_part(sum, parts);
}

// This lane's part of the product of scalar row r in block row `row` with z.
template <int N, class T>
DEVICE T lane_product(i64 row, int r, int n, const In<i64> &offsets, const In<i32> &columns, const In<T> &values, const In<T> &z) {
    const i64 end = offsets[row + 1];
    T sum = 0;
    for (i64 k = offsets[row] + Group<N>::rank(); k < end; k += N) {
        const i64 column = static_cast<i64>(columns[k]) * n;
        for (int c = 0; c < n; ++c) {
            sum += values[(k * n + r) * n + c] * z[column + c];
        }
    }
    return sum;
}

// This lane's parts of the products of all scalar rows of a row of n x n blocks, and the sum of the Frobenius norms
// of its blocks.
template <int N, int n, class T>
DEVICE f64 lane_products(i64 row, const In<i64> &offsets, const In<i32> &columns, const In<T> &values, const In<T> &z, T *sums) {
    const i64 end = offsets[row + 1];
    f64 norms = 0.0;
    for (i64 k = offsets[row] + Group<N>::rank(); k < end; k += N) {
        const i64 column = static_cast<i64>(columns[k]) * n;
        T of_z[n];
        UNROLL
        for (int c = 0; c < n; ++c) {
            of_z[c] = z[column + c];
        }
        f64 square = 0.0;
        UNROLL
        for (int e = 0; e < n * n; ++e) {
            const T value = values.once(k * n * n + e);
            sums[e / n] += value * of_z[e % n];
            square += to_f64(value) * to_f64(value);
        }
        norms += square_root(square);
    }
    return norms;
}

// Steps whose loads a warp issues together, of three blocks each: as many blocks as a row of tetrahedra has.
constexpr int BLOCK_STEPS = 5;

// The product of a row of 3 x 3 blocks with z, by a warp: lane r < 3 gets that of scalar row r. Each of 27 lanes has one
// entry of three blocks that follow each other, so that a load of theirs is one piece of memory.
template <class T>
DEVICE T block_row_product(i64 row, const In<i64> &offsets, const In<i32> &columns, const In<T> &values, const In<T> &z) {
    using Lanes = Group<32>;
    const int lane = Lanes::rank();
    const int entry = lane % 9;
    const i64 end = lane < 27 ? offsets[row + 1] : 0;
    T sum = 0;
    for (i64 k = offsets[row] + lane / 9; k < end; k += 3 * BLOCK_STEPS) {
        i32 column[BLOCK_STEPS];
        T value[BLOCK_STEPS];
        UNROLL
        for (int b = 0; b < BLOCK_STEPS; ++b) {
            const bool is_here = k + 3 * b < end;
            column[b] = is_here ? columns[k + 3 * b] : 0;
            value[b] = is_here ? values.once((k + 3 * b) * 9 + entry) : T(0);
        }
        UNROLL
        for (int b = 0; b < BLOCK_STEPS; ++b) {
            sum += k + 3 * b < end ? value[b] * z[static_cast<i64>(column[b]) * 3 + entry % 3] : T(0);
        }
    }
    // Over the three blocks, then over the columns of a scalar row.
    sum += Lanes::shuffle(sum, (lane + 9) & 31) + Lanes::shuffle(sum, (lane + 18) & 31);
    const int first = 3 * (lane % 3);
    return Lanes::shuffle(sum, first) + Lanes::shuffle(sum, first + 1) + Lanes::shuffle(sum, first + 2);
}

// The norm of the block of D^-1 in a row of n x n blocks, or the largest element if D is a diagonal.
template <class T> DEVICE f64 norm_of_inverse(i64 row, int n, int width, const In<T> &inverse) {
    f64 norm = 0.0;
    for (int e = 0; e < n * width; ++e) {
        const f64 v = magnitude(to_f64(inverse[row * n * width + e]));
        norm = width > 1 ? norm + v * v : v > norm ? v : norm;
    }
    return width > 1 ? square_root(norm) : norm;
}

// Entries whose loads a lane issues together.
constexpr int EIGEN_BATCH = 8;

// The same for scalar matrices, with the sum of absolute values.
template <int N, class T>
DEVICE T lane_product(i64 row, const In<i64> &offsets, const In<i32> &columns, const In<T> &values, const In<T> &z, T &size) {
    const i64 end = offsets[row + 1];
    T sum = 0;
    for (i64 k = offsets[row] + Group<N>::rank(); k < end; k += EIGEN_BATCH * N) {
        i32 column[EIGEN_BATCH];
        T value[EIGEN_BATCH];
        UNROLL
        for (int b = 0; b < EIGEN_BATCH; ++b) {
            column[b] = k + b * N < end ? columns[k + b * N] : -1;
            value[b] = k + b * N < end ? values[k + b * N] : T(0);
        }
        UNROLL
        for (int b = 0; b < EIGEN_BATCH; ++b) {
            sum += column[b] >= 0 ? value[b] * z[column[b]] : T(0);
            size += value[b] < 0 ? -value[b] : value[b];
        }
    }
    return sum;
}

// q = A z / beta for rows of n x n blocks, or scalars if n is 1, N lanes for each scalar row or a warp for a row of 3 x 3
// blocks, and the partial sums of z q. Beta is the norm from the partial sums before; a block of threads returns if it ends the recurrence. The first
// product of a scalar matrix, or of one with compile-time block size DIM, also computes the largest row sum of D^-1
// A, as ordered bits; it has N lanes for each block row.
template <class T, int N, bool BLOCKS, int DIM>
DEVICE void eigen_product(i64 rows, int n, int width, i64 step, int power, const In<i64> &offsets, const In<i32> &columns,
                          const In<T> &values, const In<T> &inverse, const In<T> &z, const In<f64> &before,
                          const Recurrence &known, const Out<T> &q, const Out<f64> &parts, const Out<u64> &bound) {
    T scale = 0;
    if (!begin_product(step, power, before, known, scale)) {
        return;
    }
    f64 share = 0.0;
    u64 largest = 0;
    if constexpr (DIM > 0) {
        for (i64 row = global_index() / N; step == 0 && row < rows; row += block_count() * (BLOCK / N)) {
            T sums[DIM] = {};
            const f64 norms = group_sum<N>(lane_products<N, DIM>(row, offsets, columns, values, z, sums));
            largest = larger_bits(largest, norms * norm_of_inverse(row, DIM, width, inverse));
            UNROLL
            for (int r = 0; r < DIM; ++r) {
                const T product = scale * group_sum<N>(sums[r]);
                if (Group<N>::rank() == 0) {
                    q[row * DIM + r] = product;
                    share += to_f64(product) * to_f64(z[row * DIM + r]);
                }
            }
        }
        if (step == 0) {
            put_largest(largest, bound);
            put_part(share, parts);
            return;
        }
    }
    if constexpr (DIM == 3) {
        constexpr int LANES = 32;
        const int r = Group<LANES>::rank();
        for (i64 row = global_index() / LANES; row < rows; row += block_count() * (BLOCK / LANES)) {
            const T product = scale * block_row_product(row, offsets, columns, values, z);
            if (r < DIM) {
                q[row * DIM + r] = product;
                share += to_f64(product) * to_f64(z[row * DIM + r]);
            }
        }
    } else {
        for (i64 line = global_index() / N; line < rows * n; line += block_count() * (BLOCK / N)) {
            T sum;
            T size = 0;
            if constexpr (BLOCKS) {
                const i64 row = line / n;
                sum = lane_product<N>(row, static_cast<int>(line - row * n), n, offsets, columns, values, z);
            } else {
                sum = lane_product<N>(line, offsets, columns, values, z, size);
            }
            sum = group_sum<N>(sum);
            if (!BLOCKS && step == 0) {
                largest = larger_bits(largest, magnitude(to_f64(inverse[line])) * to_f64(group_sum<N>(size)));
            }
            if (Group<N>::rank() == 0) {
                const T product = scale * sum;
                q[line] = product;
                share += to_f64(product) * to_f64(z[line]);
            }
        }
        if (!BLOCKS && step == 0) {
            put_largest(largest, bound);
        }
    }
    put_part(share, parts);
}

// Alpha of a step from the partial sums of z q; block 0 stores it.
DEVICE f64 eigen_alpha(i64 step, const In<f64> &before, const Recurrence &known) {
    const f64 alpha = known.sign() * sum_of_parts(before) / known.beta(step);
    if (global_index() == 0) {
        known.alpha(step) = alpha;
        known.done() = static_cast<f64>(step + 1);
    }
    return alpha;
}

// The next u = q - alpha v - beta v', written over the u before the last; v is the last u over beta. With a diagonal
// D also z and the partial sums of u z.
template <class T>
DEVICE void eigen_update(i64 n, int width, i64 step, const In<f64> &before, const Recurrence &known, const In<T> &q,
                         const In<T> &last, const In<T> &inverse, const Out<T> &u, const Out<T> &z, const Out<f64> &parts) {
    if (known.ended() != 0.0) {
        return;
    }
    const f64 alpha = eigen_alpha(step, before, known);
    const f64 beta = known.beta(step);
    const T of_last = As<T>::of(alpha / beta);
    const T of_older = As<T>::of(step > 0 ? beta / known.beta(step - 1) : beta);
    f64 sum = 0.0;
    for (i64 i = global_index(); i < n; i += block_count() * BLOCK) {
        T next = q[i] - of_last * last[i];
        if (step > 0) {
            next -= of_older * u[i];
        }
        u[i] = next;
        if (width == 1) {
            const T product = inverse[i] * next;
            z[i] = product;
            sum += to_f64(product) * to_f64(next);
        }
    }
    if (width == 1) {
        put_part(sum, parts);
    }
}

// A bound of the eigenvalues of D^-1 A for a block matrix, as ordered bits: the largest row sum of products of
// Frobenius norms.
template <class T, int N>
DEVICE void eigen_bound(i64 rows, int n, int width, const In<i64> &offsets, const In<T> &values, const In<T> &inverse,
                        const Out<u64> &bound) {
    u64 largest = 0;
    for (i64 row = global_index() / N; row < rows; row += block_count() * (BLOCK / N)) {
        f64 sum = 0.0;
        for (i64 k = offsets[row] + Group<N>::rank(); k < offsets[row + 1]; k += N) {
            f64 square = 0.0;
            for (int e = 0; e < n * n; ++e) {
                const f64 v = to_f64(values.once(k * n * n + e));
                square += v * v;
            }
            sum += square_root(square);
        }
        largest = larger_bits(largest, group_sum<N>(sum) * norm_of_inverse(row, n, width, inverse));
    }
    put_largest(largest, bound);
}

#define EIGEN(T) \
    KERNEL(eigen_start_##T, i64 n, i32 width, In<T> inverse, Out<T> u, Out<T> z, Out<f64> parts) { \
        eigen_start<T>(n, width, inverse, u, z, parts); \
    } \
    KERNEL(eigen_pair_##T, i64 n, i32 width, In<T> inverse, In<T> u, Out<T> z, Out<f64> parts) { \
        eigen_pair<T>(n, width, inverse, u, z, parts); \
    } \
    KERNEL(eigen_update_##T, i64 n, i32 width, i64 step, i64 steps, In<f64> before, Out<f64> state, In<T> q, In<T> last, \
           In<T> inverse, Out<T> u, Out<T> z, Out<f64> parts) { \
        eigen_update<T>(n, width, step, before, Recurrence{state, steps}, q, last, inverse, u, z, parts); \
    }
FOR_SETUP(EIGEN)

#define EIGEN_PRODUCT(name, T, N, BLOCKS, DIM) \
    KERNEL_OF(4, name##_##T##_##N, i64 rows, i32 n, i32 width, i64 step, i64 steps, i32 power, In<i64> offsets, In<i32> columns, \
              In<T> values, In<T> inverse, In<T> z, In<f64> before, Out<f64> state, Out<T> q, Out<f64> parts, Out<u64> bound) { \
        eigen_product<T, N, BLOCKS, DIM>(rows, n, width, step, power, offsets, columns, values, inverse, z, before, \
                                    Recurrence{state, steps}, q, parts, bound); \
    }
#define EIGEN_BOUND(T, N) \
    KERNEL_OF(4, eigen_bound_##T##_##N, i64 rows, i32 n, i32 width, In<i64> offsets, In<T> values, \
              In<T> inverse, Out<u64> bound) { \
        eigen_bound<T, N>(rows, n, width, offsets, values, inverse, bound); \
    }
#define EIGEN_ROWS(T) \
    EIGEN_PRODUCT(eigen_product, T, 1, false, 0) \
    EIGEN_PRODUCT(eigen_product, T, 8, false, 0) \
    EIGEN_PRODUCT(eigen_product_3x3, T, 4, true, 3) \
    EIGEN_PRODUCT(eigen_product_3x3, T, 32, true, 3) \
    EIGEN_PRODUCT(eigen_product_6x6, T, 4, true, 6) \
    EIGEN_PRODUCT(eigen_product_6x6, T, 32, true, 6) \
    EIGEN_PRODUCT(eigen_product_blocks, T, 4, true, 0) \
    EIGEN_PRODUCT(eigen_product_blocks, T, 32, true, 0) \
    EIGEN_BOUND(T, 4) \
    EIGEN_BOUND(T, 32)
FOR_SETUP(EIGEN_ROWS)

// Lanczos steps for any symmetric operator, whose products come from elsewhere; see src/host/lanczos.rs. A random start
// vector and the partial sums of its square.
template <class T> DEVICE void lanczos_start(i64 n, const Out<T> &u, const Out<f64> &parts) {
    f64 sum = 0.0;
    for (i64 i = global_index(); i < n; i += block_count() * BLOCK) {
        const T start = As<T>::of(static_cast<f64>(hash(static_cast<u64>(i), 0) >> 11) * 0x1p-53 - 0.5);
        u[i] = start;
        sum += to_f64(start) * to_f64(start);
    }
    put_part(sum, parts);
}

// q over beta, where q is the product with u and beta the norm of u from the partial sums before, and the partial sums of
// u q. A block of threads returns if beta ends the recurrence.
template <class T>
DEVICE void lanczos_product(i64 n, i64 step, const In<f64> &before, const Recurrence &known, const In<T> &u, const Out<T> &q,
                            const Out<f64> &parts) {
    if (known.ended() != 0.0) {
        return;
    }
    const f64 beta = square_root(sum_of_parts(before));
    const f64 least = step == 0 ? 0.0 : 1e-10 * magnitude(known.alpha(step - 1));
    const bool ends = !is_finite(beta) || beta <= least;
    if (global_index() == 0) {
        known.sign() = 1.0;
        known.beta(step) = beta;
        if (ends) {
            known.ended() = 1.0;
        }
    }
    if (ends) {
        return;
    }
    const T scale = As<T>::of(1.0 / beta);
    f64 sum = 0.0;
    for (i64 i = global_index(); i < n; i += block_count() * BLOCK) {
        const T scaled = scale * q[i];
        q[i] = scaled;
        sum += to_f64(scaled) * to_f64(u[i]);
    }
    put_part(sum, parts);
}

// The next u = q - alpha v - beta v', written over the one before the last, and the partial sums of its square.
template <class T>
DEVICE void lanczos_update(i64 n, i64 step, const In<f64> &before, const Recurrence &known, const In<T> &q, const In<T> &last,
                           const Out<T> &u, const Out<f64> &parts) {
    if (known.ended() != 0.0) {
        return;
    }
    const f64 alpha = eigen_alpha(step, before, known);
    const f64 beta = known.beta(step);
    const T of_last = As<T>::of(alpha / beta);
    const T of_older = As<T>::of(step > 0 ? beta / known.beta(step - 1) : beta);
    f64 sum = 0.0;
    for (i64 i = global_index(); i < n; i += block_count() * BLOCK) {
        const T next = q[i] - of_last * last[i] - of_older * u[i];
        u[i] = next;
        sum += to_f64(next) * to_f64(next);
    }
    put_part(sum, parts);
}

#define LANCZOS(T) \
    KERNEL(lanczos_start_##T, i64 n, Out<T> u, Out<f64> parts) { lanczos_start<T>(n, u, parts); } \
    KERNEL(lanczos_product_##T, i64 n, i64 step, i64 steps, In<f64> before, Out<f64> state, In<T> u, Out<T> q, Out<f64> parts) { \
        lanczos_product<T>(n, step, before, Recurrence{state, steps}, u, q, parts); \
    } \
    KERNEL(lanczos_update_##T, i64 n, i64 step, i64 steps, In<f64> before, Out<f64> state, In<T> q, In<T> last, Out<T> u, \
           Out<f64> parts) { \
        lanczos_update<T>(n, step, before, Recurrence{state, steps}, q, last, u, parts); \
    }
FOR_SETUP(LANCZOS)

// One block of threads: alpha of the last step, or with `power` the norm after it, as its beta.
KERNEL(eigen_last, i64 step, i64 steps, i32 power, In<f64> before, Out<f64> state) {
    const Recurrence known{state, steps};
    if (known.ended() != 0.0) {
        return;
    }
    if (!power) {
        eigen_alpha(step, before, known);
        return;
    }
    const f64 square = sum_of_parts(before);
    if (thread_index() == 0) {
        known.beta(step) = square_root(magnitude(square));
        known.done() = static_cast<f64>(step);
    }
}

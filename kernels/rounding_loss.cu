// The loss of rounding a level to 16 bits, for the choice of its formats: as in src/host/rounding_loss.rs, up to rounding.
#include "numbers.h"
#include "reduce.h"
#include "scalar_row.h"

// The right-hand side of inverse iterations: random numbers between -1 and 1 in the units of the rows. Diagonals become
// positive.
KERNEL(inverse_iteration_start, i64 n, Out<f64> diagonal, Out<f64> b) {
    const i64 i = global_index();
    if (i < n) {
        const f64 size = magnitude(diagonal[i]);
        diagonal[i] = size;
        b[i] = static_cast<f64>(static_cast<i64>(hash(static_cast<u64>(i), 4))) / 9223372036854775807.0 * square_root(size);
    }
}

// Numbers that are measured, sums before maxima: scalar rows, w·A w, |w|_D^2, the errors of f16 and bf16, and the largest
// fraction of a row that underflows in each.
constexpr int LOSS_NUMBERS = 7;
constexpr int LOSS_SUMS = 5;

// The sample of scalar rows, as in src/backend/common.rs.
constexpr i64 SAMPLE_CHUNK = 64;
constexpr i64 LEAST_DISTANCE = 16;
constexpr i64 SAMPLED_ROWS = 1 << 17;
constexpr i64 SAMPLED_WHOLE = 1 << 13;
constexpr u64 SAMPLE_SEED = 6;

struct Sampled {
    bool whole;
    // The number of chunks of which one is in the sample, a power of two, less one.
    u64 mask;
    DEVICE explicit Sampled(i64 lines) : whole(lines <= SAMPLED_WHOLE), mask(LEAST_DISTANCE - 1) {
        while (static_cast<i64>(mask) + 1 < lines / SAMPLED_ROWS) {
            mask = 2 * mask + 1;
        }
    }
    DEVICE bool operator()(i64 line) const {
        return whole || (hash(static_cast<u64>(line / SAMPLE_CHUNK), SAMPLE_SEED) & mask) == 0;
    }
};

// Largest number of blocks that measure a matrix; the numbers of unused ones are zero.
constexpr int LOSS_PARTS = 1024;

// Absolute values of the diagonal in the rows of the sample; zero where there is none. Block rows that they are coupled with
// are marked, where there is an array for it.
#define SAMPLE_DIAGONAL(T) \
    KERNEL(sample_diagonal_##T, i64 rows, i32 br, In<i64> offsets, In<i32> columns, In<T> values, Out<f64> diagonal, \
           Out<i32> marks) { \
        const i64 line = global_index(); \
        if (line < rows * br && Sampled(rows * br)(line)) { \
            const i64 row = line / br; \
            const i64 r = line % br; \
            f64 found = 0.0; \
            if (marks.len > 0) { \
                marks[row] = 1; \
            } \
            for (i64 k = offsets[row]; k < offsets[row + 1]; ++k) { \
                if (marks.len > 0) { \
                    marks[columns[k]] = 1; \
                } \
                if (columns[k] == row) { \
                    found += to_f64(values[(k * br + r) * br + r]); \
                } \
            } \
            diagonal[line] = magnitude(found); \
        } \
    }
FOR_SETUP(SAMPLE_DIAGONAL)

// Reduces the numbers over the block. All threads take part.
DEVICE void block_losses(f64 (&own)[LOSS_NUMBERS], const Out<f64> &out, i64 first) {
    constexpr int WARPS = BLOCK / WARP;
    SHARED(f64, partial, LOSS_NUMBERS * WARPS);
    UNROLL
    for (int k = 0; k < LOSS_NUMBERS; ++k) {
        const f64 v = k < LOSS_SUMS ? lanes_sum<WARP>(own[k]) : group_max<WARP>(own[k]);
        if (thread_index() % WARP == 0) {
            partial[k * WARPS + thread_index() / WARP] = v;
        }
    }
    barrier();
    const int k = thread_index();
    if (k < LOSS_NUMBERS) {
        f64 all = 0.0;
        for (int i = 0; i < WARPS; ++i) {
            const f64 v = partial[k * WARPS + i];
            all = k < LOSS_SUMS ? all + v : (v > all ? v : all);
        }
        out[first + k] = all;
    }
}

// Rounding a row to S: the error of its product with x, and the sum of the entries that become zero.
template <class S> struct RowLoss {
    f64 error = 0.0;
    f64 vanished = 0.0;
    DEVICE void add(f64 exact, f64 x) {
        const f64 rounded = to_f64(As<S>::of(exact));
        error += (rounded - exact) * x;
        vanished += rounded == 0.0 ? magnitude(exact) : 0.0;
    }
    // Adds those of the other lanes that share the row, in any order.
    template <int N> DEVICE void join() {
        error = group_sum<N>(error);
        vanished = group_sum<N>(vanished);
    }
};

// A power of two for each row or column; an empty array means ones.
DEVICE f64 power_of(const In<f64> &s, i64 i) { return s.len == 0 ? 1.0 : s[i]; }

// Measures a matrix A, or a prolongator P to a level of A with this diagonal. N lanes share a scalar row.
// `of_columns` is a smooth vector of the level of columns, s are scalings. Of a matrix `of_rows` is the same vector. Of a
// prolongator it becomes the product with all rows, or with the marked rows of A, in blocks of `per_mark`.
template <class T, int N>
DEVICE void rounding_loss(i64 rows, int br, int bc, i32 transfer, i32 per_mark, const In<i32> &marks,
                          const In<f64> &s_rows, const In<f64> &s_columns, const In<f64> &diagonal, const Out<f64> &of_rows, const In<f64> &of_columns,
                          const In<i64> &offsets, const In<i32> &columns, const In<T> &values, const Out<f64> &parts) {
    f64 own[LOSS_NUMBERS] = {};
    const auto add_row = [&](int k, f64 error, f64 vanished, f64 sum, f64 s, f64 d) {
        f64 cost = f64_of(0x7ff0000000000000ll);
        if (is_finite(error)) {
            cost = transfer != 0 ? error * error / (s * s) * d : error == 0.0 ? 0.0 : error * error * s * s / d;
        }
        own[3 + k] += cost;
        const f64 share = sum > 0.0 ? vanished / sum : 0.0;
        own[LOSS_SUMS + k] = share > own[LOSS_SUMS + k] ? share : own[LOSS_SUMS + k];
    };
    const i64 lines = rows * br;
    const Sampled is_sampled(lines);
    for (i64 line = global_index() / N; line < lines; line += block_count() * (BLOCK / N)) {
        const bool sampled = is_sampled(line);
        if (!sampled && (transfer == 0 || (marks.len > 0 && marks[per_mark == 1 ? line : line / per_mark] == 0))) {
            continue;
        }
        const i64 row = line / br;
        const i64 start = offsets[row];
        const ScalarRow scalars{start, (offsets[row + 1] - start) * bc, static_cast<int>(line % br), br, bc};
        const f64 s = power_of(s_rows, line);
        const f64 left = transfer != 0 ? s : reciprocal_of_power(s);
        f64 product = 0.0;
        f64 sum = 0.0;
        RowLoss<f16> half;
        RowLoss<bf16> brain;
        for (i64 e = Group<N>::rank(); e < scalars.entries; e += N) {
            const i64 column = scalars.column(e, columns);
            const f64 v = to_f64(values.once(scalars.at(e)));
            const f64 w = of_columns[column];
            product += v * w;
            if (sampled) {
                const f64 s_column = power_of(s_columns, column);
                const f64 exact = v * left * reciprocal_of_power(s_column);
                const f64 x = s_column * w;
                half.add(exact, x);
                brain.add(exact, x);
                sum += magnitude(exact);
            }
        }
        product = group_sum<N>(product);
        if (sampled) {
            sum = group_sum<N>(sum);
            half.template join<N>();
            brain.template join<N>();
        }
        if (Group<N>::rank() == 0) {
            if (transfer != 0) {
                of_rows[line] = product;
            }
            if (sampled) {
                const f64 d = diagonal[line];
                const f64 w = of_rows[line];
                own[0] += 1.0;
                own[1] += w * product;
                own[2] += d * w * w;
                add_row(0, half.error, half.vanished, sum, s, d);
                add_row(1, brain.error, brain.vanished, sum, s, d);
            }
        }
    }
    block_losses(own, parts, block_index() * LOSS_NUMBERS);
}

#define ROUNDING_LOSS(T, NAME, N, BR, BC) \
    KERNEL(rounding_loss_##T##_##NAME, i64 rows, i32 br, i32 bc, i32 transfer, i32 per_mark, In<i32> marks, \
           In<f64> s_rows, In<f64> s_columns, In<f64> diagonal, Out<f64> of_rows, In<f64> of_columns, In<i64> offsets, In<i32> columns, In<T> values, \
           Out<f64> parts) { \
        static_cast<void>(br), static_cast<void>(bc); \
        rounding_loss<T, N>(rows, BR, BC, transfer, per_mark, marks, s_rows, s_columns, diagonal, of_rows, of_columns, offsets, columns, values, parts); \
    }
#define ROUNDING_LOSS_(T) \
    ROUNDING_LOSS(T, 2, 2, 1, 1) ROUNDING_LOSS(T, 8, 8, 1, 1) ROUNDING_LOSS(T, 32, 32, 1, 1) \
    ROUNDING_LOSS(T, blocks, 32, br, bc)
FOR_SETUP(ROUNDING_LOSS_)

// Reduces the parts of each matrix: a block of threads for each matrix.
KERNEL(rounding_loss_finish, In<f64> parts, Out<f64> result) {
    f64 own[LOSS_NUMBERS] = {};
    const i64 matrix = block_index();
    for (i64 part = thread_index(); part < LOSS_PARTS; part += BLOCK) {
        const i64 first = (matrix * LOSS_PARTS + part) * LOSS_NUMBERS;
        UNROLL
        for (int k = 0; k < LOSS_NUMBERS; ++k) {
            const f64 v = parts[first + k];
            own[k] = k < LOSS_SUMS ? own[k] + v : (v > own[k] ? v : own[k]);
        }
    }
    block_losses(own, result, matrix * LOSS_NUMBERS);
}

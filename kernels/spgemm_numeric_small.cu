// Numeric phase of SpGEMM as in spgemm_numeric_blocks.cu, for small blocks of A. A block of threads stages the rows
// of A of its blocks of C in shared memory. A thread computes all rows of some columns, so that it reads each block
// of B once.
#include "spgemm_blocks.h"
#include "numbers.h"

// The factors and products. The products of block `out` of C are from starts[out] on: the lower 16 bits are the entry
// in its row of A, the upper ones the block in the row of B. Row k of B begins with block begins[k]; without such an
// array it is block k alone.
template <class T> struct SmallBlockProducts {
    i64 outputs;
    In<i64> offsets;
    In<i32> columns;
    In<T> left;
    In<i64> begins;
    Out<T> right;
    In<i32> row_of;
    In<i64> starts;
    In<u32> codes;
    DEVICE i64 begin(i64 k) const { return begins.len > 0 ? begins[k] : k; }
};

// Blocks of A that fit into shared memory; beyond that they are read from global memory. Rows of a smoothed
// prolongator are short: the same number of its blocks covers more rows of A, so a block of threads computes fewer of
// them.
constexpr int STAGED_BLOCKS = 320;
constexpr int STAGED_SMOOTHED_BLOCKS = 576;
constexpr int SMOOTHED_OUTPUTS = 72;

// Calls `epilogue` with a block of C, its row, the first column of this thread, and the sums.
template <int OUTER, int INNER, int WIDTH, int CAPACITY, int MAX_OUTPUTS, class T, class BlockEpilogue> DEVICE void small_block_products(const SmallBlockProducts<T> &f, const BlockEpilogue &epilogue) {
    constexpr int WIDE = WIDTH % 2 == 0 ? 2 : 1, LANES = WIDTH / WIDE, OUTS = BLOCK / LANES < MAX_OUTPUTS ? BLOCK / LANES : MAX_OUTPUTS, SIZE = OUTER * INNER;
    SHARED(T, stage, CAPACITY *SIZE);
    SHARED(i64, from, CAPACITY);
    const i64 first = block_index() * OUTS, last = first + OUTS < f.outputs ? first + OUTS : f.outputs;
    const i64 begin = first < last ? f.offsets[f.row_of[first]] : 0, end = first < last ? f.offsets[f.row_of[last - 1] + 1] : 0;
    const bool fits = end - begin <= CAPACITY;
    if (fits) {
        const int count = static_cast<int>(end - begin);
        for (int e = thread_index(); e < count; e += BLOCK) {
            from[e] = f.begin(f.columns[begin + e]);
        }
        for (int e = thread_index(); e < count * SIZE; e += BLOCK) {
            stage[e] = f.left.once(begin * SIZE + e);
        }
    }
    barrier();
    const i64 out = first + thread_index() / LANES;
    if (thread_index() >= OUTS * LANES || out >= last) {
        return;
    }
    const int column = thread_index() % LANES * WIDE;
    const i32 row = f.row_of[out];
    const i64 start = f.starts[out], row_begin = f.offsets[row];
    const int count = static_cast<int>(f.starts[out + 1] - start), base = static_cast<int>(row_begin - begin);
    T sum[OUTER][WIDE] = {};
    u32 code = count > 0 ? f.codes[start] : 0;
    ROLLED
    for (int term = 0; term < count; ++term) {
        const int entry = static_cast<int>(code & 0xffff);
        const i64 block = (fits ? from[base + entry] : f.begin(f.columns[row_begin + entry])) + static_cast<i64>(code >> 16);
        code = term + 1 < count ? f.codes[start + term + 1] : 0;
        Pack<T, WIDE> y[INNER];
        T x[SIZE];
        UNROLL
        for (int q = 0; q < INNER; ++q) {
            y[q] = f.right.template pack<WIDE>(block * (INNER * WIDTH) + q * WIDTH + column);
        }
        UNROLL
        for (int e = 0; e < SIZE; ++e) {
            x[e] = fits ? stage[(base + entry) * SIZE + e] : f.left[(row_begin + entry) * SIZE + e];
        }
        UNROLL
        for (int r = 0; r < OUTER; ++r) {
            UNROLL
            for (int c = 0; c < WIDE; ++c) {
                UNROLL
                for (int q = 0; q < INNER; ++q) {
                    sum[r][c] += times(x[r * INNER + q], y[q].of[c]);
                }
            }
        }
    }
    epilogue(out, row, column, sum);
}

// The product. With `fill` a zero on the diagonal becomes a one.
#define SPGEMM_NUMERIC_SMALL(OUTER, INNER, WIDTH, T) \
    KERNEL_OF(4, spgemm_numeric_small_##OUTER##_##INNER##_##WIDTH##_##T, i64 outputs, In<i64> offsets, In<i32> columns, In<T> left, In<i64> begins, \
              Out<T> right, In<i32> row_of, In<i64> starts, In<u32> codes, In<i32> to_columns, Out<T> values, i32 fill) { \
        constexpr int WIDE = WIDTH % 2 == 0 ? 2 : 1; \
        const SmallBlockProducts<T> f{outputs, offsets, columns, left, begins, right, row_of, starts, codes}; \
        small_block_products<OUTER, INNER, WIDTH, STAGED_BLOCKS, BLOCK>(f, [&](i64 out, i32 row, int column, const T(&sum)[OUTER][WIDE]) { \
            UNROLL \
            for (int r = 0; r < OUTER; ++r) { \
                Pack<T, WIDE> pack; \
                UNROLL \
                for (int c = 0; c < WIDE; ++c) { \
                    const bool is_empty = fill != 0 && sum[r][c] == T(0) && r == column + c && to_columns[out] == row; \
                    pack.of[c] = is_empty ? T(1) : sum[r][c]; \
                } \
                values.put(out * (OUTER * WIDTH) + r * WIDTH + column, pack); \
            } \
        }); \
    }
#define SPGEMM_NUMERIC_SMALL_OF(T) SPGEMM_NUMERIC_SMALL(3, 3, 3, T) SPGEMM_NUMERIC_SMALL(3, 3, 6, T)
FOR_SETUP(SPGEMM_NUMERIC_SMALL_OF)

// A smoothed prolongator P_0 + factor D^-1 A P_0, as in smoothed.h, with the products of A P_0. Rows of P_0 are one
// block each.
template <int N, int WIDTH, class T>
DEVICE void smoothed_small(const SmallBlockProducts<T> &f, const In<i32> &aggregates, const In<T> &inverse, T factor, const In<i32> &to_columns,
                            const Out<T> &values) {
    constexpr int WIDE = WIDTH % 2 == 0 ? 2 : 1;
    small_block_products<N, N, WIDTH, STAGED_SMOOTHED_BLOCKS, SMOOTHED_OUTPUTS>(f, [&](i64 out, i32 row, int column, const T(&sum)[N][WIDE]) {
        const bool is_own = to_columns[out] == aggregates[row];
        const i64 own = is_own ? f.begin(row) * (N * WIDTH) : 0;
        UNROLL
        for (int r = 0; r < N; ++r) {
            Pack<T, WIDE> pack, tentative{};
            if (is_own) {
                tentative = f.right.template pack<WIDE>(own + r * WIDTH + column);
            }
            UNROLL
            for (int c = 0; c < WIDE; ++c) {
                T product = 0;
                UNROLL
                for (int d = 0; d < N; ++d) {
                    product += times(inverse[(static_cast<i64>(row) * N + r) * N + d], sum[d][c]);
                }
                const T v = times(factor, product);
                pack.of[c] = is_own ? v + tentative.of[c] : v;
            }
            values.put(out * (N * WIDTH) + r * WIDTH + column, pack);
        }
    });
}
#define SMOOTHED_SMALL(N, WIDTH, T) \
    KERNEL_OF(4, smoothed_small_##N##_##WIDTH##_##T, i64 outputs, In<i64> offsets, In<i32> columns, In<T> left, In<i64> begins, Out<T> right, \
              In<i32> row_of, In<i64> starts, In<u32> codes, In<i32> aggregates, In<T> inverse, f64 factor, In<i32> to_columns, Out<T> values) { \
        const SmallBlockProducts<T> f{outputs, offsets, columns, left, begins, right, row_of, starts, codes}; \
        smoothed_small<N, WIDTH>(f, aggregates, inverse, As<T>::of(factor), to_columns, values); \
    }
#define SMOOTHED_SMALL_OF(T) SMOOTHED_SMALL(3, 3, T) SMOOTHED_SMALL(3, 6, T)
FOR_SETUP(SMOOTHED_SMALL_OF)

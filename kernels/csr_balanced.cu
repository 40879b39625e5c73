// SpMV in CSR with a few long rows, which are divided into pieces. The first launch sums the pieces, a group of lanes for each. The
// second adds the partial sums of each long row, again by a group, and computes the other rows as csr.cu does.
#include "csr.h"
#include "spmv_epilogue.h"

// Lanes of a piece, and of the sums of a row.
constexpr int PIECE_LANES = 32;

// Rows with more than `limit` entries: their number and entries are added to `sums`, and the length of the longest goes to `longest`.
KERNEL(count_long_rows, i64 rows, i64 limit, In<i64> offsets, Out<i64> sums, Out<u64> longest) {
    const i64 row = global_index();
    const i64 length = row < rows ? offsets[row + 1] - offsets[row] : 0;
    if (length > limit) {
        atomic_add(sums[0], static_cast<i64>(1));
        atomic_add(sums[1], length);
        atomic_max(longest[0], static_cast<u64>(length));
    }
}

KERNEL(mark_long_rows, i64 rows, i64 limit, In<i64> offsets, Out<i32> marks) {
    const i64 row = global_index();
    if (row < rows) {
        marks[row] = offsets[row + 1] - offsets[row] > limit ? 1 : 0;
    }
}

// Lists the marked rows, and the number of pieces of each. `places` is the exclusive scan of the marks.
KERNEL(list_long_rows, i64 rows, i64 limit, i64 piece, In<i64> offsets, In<i64> places, Out<i32> list, Out<i32> counts) {
    const i64 row = global_index();
    const i64 length = row < rows ? offsets[row + 1] - offsets[row] : 0;
    if (length > limit) {
        list[places[row]] = static_cast<i32>(row);
        counts[places[row]] = static_cast<i32>((length + piece - 1) / piece);
    }
}

// First entry and length of the pieces of listed rows. `firsts` is the first piece of each row.
KERNEL(cut_long_rows, i64 piece, In<i64> offsets, In<i32> list, In<i64> firsts, Out<i64> begins, Out<i32> lengths) {
    const i64 k = global_index() / PIECE_LANES;
    if (k >= list.len) {
        return;
    }
    const i64 end = offsets[list[k] + 1];
    i64 begin = offsets[list[k]] + Group<PIECE_LANES>::rank() * piece;
    for (i64 p = firsts[k] + Group<PIECE_LANES>::rank(); p < firsts[k + 1]; p += PIECE_LANES) {
        begins[p] = begin;
        lengths[p] = static_cast<i32>(end - begin < piece ? end - begin : piece);
        begin += PIECE_LANES * piece;
    }
}

template <class S, class X, class A>
DEVICE void csr_pieces(const In<i64> &begins, const In<i32> &lengths, const In<i32> &columns, const In<S> &values, const In<X> &x,
                       const Out<f64> &sums) {
    const i64 piece = global_index() / PIECE_LANES;
    const int lane = thread_index() % PIECE_LANES;
    A sum = 0;
    if (piece < begins.len) {
        const i64 begin = begins[piece];
        sum = row_part<A>(lane, PIECE_LANES, lengths[piece], columns.from(begin), values.from(begin), x);
    }
    sum = lanes_sum<PIECE_LANES>(sum);
    if (piece < begins.len && lane == 0) {
        sums[piece] = to_f64(sum);
    }
}

// The first blocks of threads have the long rows, which may take longest.
template <class S, class X, class A>
DEVICE void csr_balanced(i64 rows, int shift, i64 limit, const In<i64> &offsets, const In<i32> &columns, const In<S> &values,
                         const In<i32> &list, const In<i64> &firsts, const In<f64> &sums, const In<X> &x, const Epilogue &f) {
    constexpr int OF_BLOCK = BLOCK / PIECE_LANES;
    const i64 list_blocks = (list.len + OF_BLOCK - 1) / OF_BLOCK;
    f64 share = 0.0;
    if (block_index() < list_blocks) {
        const i64 k = global_index() / PIECE_LANES;
        const int lane = thread_index() % PIECE_LANES;
        f64 sum = 0.0;
        if (k < list.len) {
            const i64 end = firsts[k + 1];
            for (i64 p = firsts[k] + lane; p < end; p += PIECE_LANES) {
                sum += sums[p];
            }
        }
        sum = lanes_sum<PIECE_LANES>(sum);
        if (k < list.len && lane == 0) {
            share = apply_epilogue(f, list[k], As<A>::of(sum));
        }
    } else {
        const int lanes = 1 << shift;
        const i64 row = (block_index() - list_blocks) * (BLOCK >> shift) + (thread_index() >> shift);
        const int lane = thread_index() & (lanes - 1);
        const i64 start = row < rows ? offsets[row] : 0;
        const i64 count = row < rows ? offsets[row + 1] - start : 0;
        A sum = 0;
        if (count <= limit) {
            sum = row_part<A>(lane, lanes, static_cast<int>(count), columns.from(start), values.from(start), x);
        }
        for (int mask = lanes / 2; mask > 0; mask /= 2) {
            sum += shuffle_xor(sum, mask);
        }
        if (row < rows && count <= limit && lane == 0) {
            share = apply_epilogue(f, row, sum);
        }
    }
    store_epilogue_sum(f, share);
}

#define CSR_BALANCED(S, X, A) \
    KERNEL_OF(4, csr_pieces_##S##_##X##_##A, In<i64> begins, In<i32> lengths, In<i32> columns, In<S> values, In<X> x, Out<f64> sums) { \
        csr_pieces<S, X, A>(begins, lengths, columns, values, x, sums); \
    } \
    KERNEL_OF(4, csr_balanced_##S##_##X##_##A, i64 rows, i32 shift, i64 limit, In<i64> offsets, In<i32> columns, In<S> values, \
              In<i32> list, In<i64> firsts, In<f64> sums, In<X> x, Epilogue f) { \
        csr_balanced<S, X, A>(rows, shift, limit, offsets, columns, values, list, firsts, sums, x, f); \
    }
FOR_STORAGE_VECTOR_AND_SUM(CSR_BALANCED)

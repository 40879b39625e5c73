// Coarse numbering: the number of each coarse unknown of a C/F splitting on the coarse level.
#include "scan.h"

// Unknowns of a thread and of a block; the same as in `src/gpu/setup/coarse_numbering.rs`.
constexpr int COARSE_PER_THREAD = 16;
constexpr int COARSE_PER_BLOCK = BLOCK * COARSE_PER_THREAD;

DEVICE int coarse_bits(i64 n, i64 start, const In<u8> &coarse) {
    int bits = 0;
    if (start + COARSE_PER_THREAD <= n) {
        const Pack<u8, COARSE_PER_THREAD> pack = coarse.pack_once<COARSE_PER_THREAD>(start);
        UNROLL
        for (int k = 0; k < COARSE_PER_THREAD; ++k) {
            bits |= (pack.of[k] != 0) << k;
        }
    } else {
        for (int k = 0; start + k < n; ++k) {
            bits |= (coarse[start + k] != 0) << k;
        }
    }
    return bits;
}

KERNEL(coarse_numbering_sums, i64 n, In<u8> coarse, Out<i64> sums) {
    const i64 start = block_index() * COARSE_PER_BLOCK + thread_index() * COARSE_PER_THREAD;
    i64 total;
    block_sum_before(count_bits(coarse_bits(n, start, coarse)), total);
    if (thread_index() == 0) {
        sums[block_index()] = total;
    }
}

// The coarse number of each unknown, -1 for fine ones. `sums` is the exclusive scan over the blocks.
KERNEL(coarse_numbers, i64 n, In<u8> coarse, In<i64> sums, Out<i32> number) {
    const i64 start = block_index() * COARSE_PER_BLOCK + thread_index() * COARSE_PER_THREAD;
    const int bits = coarse_bits(n, start, coarse);
    i64 total;
    i64 next = sums[block_index()] + block_sum_before(count_bits(bits), total);
    for (int k = 0; k < COARSE_PER_THREAD && start + k < n; ++k) {
        const bool is_coarse = (bits >> k & 1) != 0;
        number[start + k] = is_coarse ? static_cast<i32>(next) : -1;
        next += is_coarse;
    }
}

// The coarse unknowns in ascending order.
KERNEL(coarse_unknowns, i64 rows, In<i32> number, Out<i32> unknowns) {
    const i64 i = global_index();
    if (i < rows && number[i] >= 0) {
        unknowns[number[i]] = static_cast<i32>(i);
    }
}

// The vectors of a near-null space on coarse unknowns. A thread has an unknown.
KERNEL(injected_vectors, i64 rows, i32 count, i64 coarse, In<i32> number, In<f64> vectors, Out<f64> to) {
    const i64 i = global_index();
    if (i >= rows || number[i] < 0) {
        return;
    }
    for (int c = 0; c < count; ++c) {
        to[c * coarse + number[i]] = vectors[c * rows + i];
    }
}

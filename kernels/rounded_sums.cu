// SpMV in CSR or BSR with sums that are rounded to the 16-bit format of the result after each term. The 8 lanes of a row have the 8
// partial sums of the host. For comparison with codes that round in this way, not for speed: one kernel for all formats.
#include "spmv_epilogue.h"

constexpr int PARTIAL_SUMS = 8;

KERNEL(rounded_sums, i64 rows, i32 br, i32 bc, In<i64> offsets, In<i32> columns, i32 storage, Any values, i32 vector,
       Any x, Epilogue f) {
    const int own = thread_index() / PARTIAL_SUMS;
    const int whole = whole_rows(f, BLOCK / PARTIAL_SUMS);
    const i64 row = block_index() * whole + own;
    const int lane = thread_index() % PARTIAL_SUMS;
    const bool has = own < whole && row < rows;
    f32 sum = 0;
    if (has) {
        const i64 start = offsets[row / br];
        const i64 terms = (offsets[row / br + 1] - start) * bc;
        for (i64 t = lane; t < terms; t += PARTIAL_SUMS) {
            const i64 k = start + t / bc;
            const i64 c = t % bc;
            const f32 value = load_any<f32>(values, storage, (k * br + row % br) * bc + c);
            const i64 column = static_cast<i64>(columns[k]) * bc + c;
            sum = rounded(f.format, sum + value * load_any<f32>(x, vector, column));
        }
    }
    const int base = thread_index() % WARP - lane;
    f32 total = 0;
    for (int i = 0; i < PARTIAL_SUMS; ++i) {
        total = rounded(f.format, total + shuffle(sum, base + i));
    }
    if (f.width > 1) {
        exchange_and_apply_block_epilogue<BLOCK / PARTIAL_SUMS>(f, has && lane == 0, row, own, total);
        return;
    }
    f64 share = 0.0;
    if (has && lane == 0) {
        share = apply_epilogue(f, row, total);
    }
    store_epilogue_sum(f, share);
}

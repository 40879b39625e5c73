// SpGEMM for rows of C that exceed every hash table, and for any row of blocks. A block of threads computes one row.
// Its columns are bits of a bitmap of `words` words in global memory, which is zero before and after. Its sums are in
// the memory of C.
#include "spgemm.h"

// Marks the columns of a row of C. Returns how many of them this thread marked first. Each warp reads its own rows of
// B.
DEVICE int mark_columns(const Factors &f, i64 row, const Out<u32> &bits, i64 base) {
    int found = 0;
    const i64 end = f.offsets[row + 1];
    for (i64 k = f.offsets[row] + thread_index() / WARP; k < end; k += BLOCK / WARP) {
        const i64 j = f.columns[k];
        const i64 last = f.ends[j];
        for (i64 t = f.begins[j] + Group<WARP>::rank(); t < last; t += WARP) {
            const i32 column = f.right_columns[t];
            const u32 bit = 1u << column % 32;
            found += (atomic_or(bits[base + column / 32], bit) & bit) == 0 ? 1 : 0;
        }
    }
    return found;
}

// Symbolic phase: counts the columns of the rows in a list, whose first element is its length.
KERNEL(spgemm_long_symbolic, In<i32> list, In<i64> offsets, In<i32> columns, In<i64> begins, In<i64> ends, In<i32> right_columns,
       i64 words, Out<u32> bits, Out<i32> counts) {
    SHARED(i64, sums, BLOCK / WARP);
    const Factors f{offsets, columns, begins, ends, right_columns};
    const i64 base = block_index() * words;
    const Rows rows{0, list};
    for (i64 l = block_index(); l < rows.count(); l += block_count()) {
        const i64 row = rows[l];
        i64 total;
        block_sum_before(sums, mark_columns(f, row, bits, base), total);
        if (thread_index() == 0) {
            counts[row] = static_cast<i32>(total);
        }
        for (i64 w = thread_index(); w < words; w += BLOCK) {
            bits[base + w] = 0;
        }
        barrier();
    }
}

// Writes the columns of a row of C in ascending order from `to` on, and clears the bitmap.
template <class Sums>
DEVICE void write_columns(Sums &sums, i64 words, const Out<u32> &bits, i64 base, i64 to, const Out<i32> &columns) {
    for (i64 w = 0; w < words; w += BLOCK) {
        const i64 own = w + thread_index();
        u32 word = own < words ? bits[base + own] : 0;
        i64 total;
        i64 at = to + block_sum_before(sums, count_bits(word), total);
        if (word != 0) {
            bits[base + own] = 0;
        }
        for (; word != 0; word &= word - 1) {
            columns[at++] = static_cast<i32>(own * 32) + lowest_bit(word);
        }
        to += total;
    }
}

// The position of a column among ascending ones.
DEVICE i64 position_of(const Out<i32> &columns, i64 start, i64 end, i32 column) {
    while (start + 1 < end) {
        const i64 middle = (start + end) / 2;
        if (columns[middle] <= column) {
            start = middle;
        } else {
            end = middle;
        }
    }
    return start;
}

// Symbolic phase: columns of these rows.
KERNEL(spgemm_long_pattern, In<i32> list, In<i64> offsets, In<i32> columns, In<i64> begins, In<i64> ends, In<i32> right_columns,
       In<i64> to, Out<i32> to_columns, i64 words, Out<u32> bits) {
    SHARED(i64, sums, BLOCK / WARP);
    const Factors f{offsets, columns, begins, ends, right_columns};
    const i64 base = block_index() * words;
    const Rows rows{0, list};
    for (i64 l = block_index(); l < rows.count(); l += block_count()) {
        const i64 row = rows[l];
        mark_columns(f, row, bits, base);
        barrier();
        write_columns(sums, words, bits, base, to[row], to_columns);
        barrier();
    }
}

// Numeric phase: values of these rows with known columns, for blocks of `outer` x `inner` times `inner` x `width`.
// With `fill` a zero on the diagonal becomes a one.
template <class T>
DEVICE void spgemm_long_values(const Rows &rows, const Factors &f, const In<T> &left, const In<T> &right, int outer, int inner,
                               int width, const In<i64> &to, const Out<i32> &columns, const Out<T> &values, int fill) {
    const int block = outer * width;
    for (i64 l = block_index(); l < rows.count(); l += block_count()) {
        const i64 row = rows[l];
        const i64 start = to[row];
        const i64 end = to[row + 1];
        for (i64 k = start * block + thread_index(); k < end * block; k += BLOCK) {
            values[k] = 0;
        }
        for (i64 k = f.offsets[row]; k < f.offsets[row + 1]; ++k) {
            barrier();
            const i64 j = f.columns[k];
            const i64 begin = f.begins[j];
            const i64 elements = (f.ends[j] - begin) * block;
            for (i64 e = thread_index(); e < elements; e += BLOCK) {
                const i64 entry = begin + e / block;
                const int in_block = static_cast<int>(e % block);
                const i64 a = k * outer * inner + in_block / width * inner;
                const i64 b = entry * inner * width + in_block % width;
                const i64 at = position_of(columns, start, end, f.right_columns[entry]) * block + in_block;
                T sum = values[at];
                for (int q = 0; q < inner; ++q) {
                    sum += times(left[a + q], right[b + q * width]);
                }
                values[at] = sum;
            }
        }
        barrier();
        if (fill != 0) {
            const i64 diagonal = start < end ? position_of(columns, start, end, static_cast<i32>(row)) : 0;
            if (start < end && columns[diagonal] == row && thread_index() < outer) {
                T &d = values[diagonal * block + thread_index() * (width + 1)];
                d = d == T(0) ? T(1) : d;
            }
        }
    }
}

#define SPGEMM_LONG(T) \
    KERNEL(spgemm_long_values_##T, In<i32> list, In<i64> offsets, In<i32> columns, In<i64> begins, In<i64> ends, \
           In<i32> right_columns, In<T> left, In<T> right, i32 outer, i32 inner, i32 width, In<i64> to, Out<i32> to_columns, \
           Out<T> to_values, i32 fill) { \
        spgemm_long_values<T>(Rows{0, list}, Factors{offsets, columns, begins, ends, right_columns}, left, right, outer, inner, width, to, \
                              to_columns, to_values, fill); \
    }
SPGEMM_LONG(f64)
SPGEMM_LONG(f32)

// Symbolic phase of SpGEMM of dense blocks for numeric-only updates: finds once for a pattern the products of each
// block of C; see spgemm_numeric_blocks.cu.
#include "spgemm_blocks.h"

// Calls `work` for the products of a row of C, in the order of the entries of A: 32 of them at a time, one for each lane of a
// group. It gets whether the lane has one, its entry of A in the row, its block of B in the row of B and among all, and
// the lane's entry among those of the 32 products with the first and the last of these.
template <class Work> DEVICE void each_product(const Factors &f, i64 row, const Work &work) {
    using Lanes = Group<32>;
    const i64 start = f.offsets[row], end = f.offsets[row + 1];
    for (i64 base = start; base < end; base += 32) {
        const i64 k = base + Lanes::rank();
        const i64 column = k < end ? f.columns[k] : 0;
        const i64 begin = k < end ? f.begins[column] : 0;
        const i32 length = k < end ? static_cast<i32>(f.ends[column] - begin) : 0;
        i32 upto = length;
        UNROLL
        for (int step = 1; step < 32; step *= 2) {
            const i32 before = Lanes::shuffle(upto, Lanes::rank() >= step ? Lanes::rank() - step : Lanes::rank());
            upto += Lanes::rank() >= step ? before : 0;
        }
        const i32 total = Lanes::shuffle(upto, 31);
        for (i32 first = 0; first < total; first += 32) {
            const i32 product = first + Lanes::rank();
            // The first entry whose products end behind this one.
            int entry = 0;
            UNROLL
            for (int step = 16; step > 0; step /= 2) {
                entry += Lanes::shuffle(upto, entry + step - 1) <= product ? step : 0;
            }
            const i32 of_row = product - Lanes::shuffle(upto - length, entry);
            const i64 of_all = Lanes::shuffle(begin, entry) + of_row;
            const int lowest = Lanes::shuffle(entry, 0), highest = Lanes::shuffle(entry, total - first < 32 ? total - first - 1 : 31);
            work(product < total, base - start + entry, of_row, of_all, entry, lowest, highest);
        }
    }
}

// A team of N lanes goes along a row of A with a hash table of the columns of the row of C. Without `starts` it
// counts the products of each block of C, with `starts` it stores them: as the codes of spgemm_numeric_small.cu if
// `codes` is given, else as of_left and of_right. Another kernel computes rows with at most `from` columns, and rows
// with more columns than three quarters of the table.
template <int N, int SLOTS>
DEVICE void spgemm_symbolic_blocks(i64 rows, int from, const Factors &f, const In<i64> &to, const In<i32> &to_columns, const Out<i32> &counts,
                              const Out<i32> &row_of, const In<i64> &starts, const Out<u16> &of_left, const Out<u32> &of_right,
                              const Out<u32> &codes) {
    constexpr int TEAMS = BLOCK / N;
    SHARED(i32, keys, TEAMS *SLOTS);
    SHARED(i32, positions, TEAMS *SLOTS);
    SHARED(i32, used, TEAMS *SLOTS);
    const int lane = Team<N>::rank();
    const int first = thread_index() / N * SLOTS;
    for (i64 row = global_index() / N; row < rows; row += block_count() * TEAMS) {
        const i64 start = to[row], length = to[row + 1] - start;
        if (length <= from || length > SLOTS * 3 / 4) {
            continue;
        }
        for (int s = lane; s < SLOTS; s += N) {
            keys[first + s] = EMPTY;
            used[first + s] = 0;
        }
        team_barrier<N>();
        int found = 0;
        for (int e = lane; e < length; e += N) {
            positions[slot_of<SLOTS>(keys, first, to_columns[start + e], found)] = e;
        }
        team_barrier<N>();
        const auto put = [&](i64 term, i64 entry, i64 of_row, i64 of_all) {
            if (codes.len > 0) {
                codes[term] = static_cast<u32>(entry) | static_cast<u32>(of_row) << 16;
            } else {
                of_left[term] = static_cast<u16>(entry);
                of_right[term] = static_cast<u32>(of_all);
            }
        };
        if constexpr (N == 32) {
            each_product(f, row, [&](bool is_product, i64 entry, i64 of_row, i64 of_all, int own, int lowest, int highest) {
                const int position = is_product ? positions[slot_of<SLOTS>(keys, first, f.right_columns[of_all], found)] : 0;
                int before = 0;
                // Products of one entry of A belong to different blocks of C.
                for (int e = lowest; e <= highest; ++e) {
                    if (is_product && own == e) {
                        before = used[first + position];
                        used[first + position] = before + 1;
                    }
                    team_barrier<N>();
                }
                if (is_product && starts.len > 0) {
                    put(starts[start + position] + before, entry, of_row, of_all);
                }
            });
        } else {
            for (i64 k = f.offsets[row]; k < f.offsets[row + 1]; ++k) {
                const i64 column = f.columns[k];
                for (i64 at = f.begins[column] + lane; at < f.ends[column]; at += N) {
                    const int position = positions[slot_of<SLOTS>(keys, first, f.right_columns[at], found)];
                    if (starts.len > 0) {
                        put(starts[start + position] + used[first + position], k - f.offsets[row], at - f.begins[column], at);
                    }
                    used[first + position] += 1;
                }
                team_barrier<N>();
            }
        }
        for (int e = lane; starts.len == 0 && e < length; e += N) {
            counts[start + e] = used[first + e];
            row_of[start + e] = static_cast<i32>(row);
        }
        team_barrier<N>();
    }
}

#define SPGEMM_SYMBOLIC_BLOCKS(N, SLOTS) \
    KERNEL(spgemm_symbolic_blocks_##N, i64 rows, i32 from, In<i64> offsets, In<i32> columns, In<i64> begins, In<i64> ends, In<i32> right_columns, \
           In<i64> to, In<i32> to_columns, Out<i32> counts, Out<i32> row_of, In<i64> starts, Out<u16> of_left, Out<u32> of_right, \
           Out<u32> codes) { \
        spgemm_symbolic_blocks<N, SLOTS>(rows, from, Factors{offsets, columns, begins, ends, right_columns}, to, to_columns, counts, row_of, starts, \
                                    of_left, of_right, codes); \
    }
SPGEMM_SYMBOLIC_BLOCKS(32, 352)
SPGEMM_SYMBOLIC_BLOCKS(256, 3072)

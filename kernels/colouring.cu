// Multicolour ordering: colours of rows, and matrices with rows ordered by colour, as in src/host/multicolour.rs. A
// row takes the smallest colour that no neighbour has once all neighbours with a larger weight are coloured. Colours
// that are assigned at the same time do not change the result.
#include "numbers.h"

constexpr i32 NO_COLOUR = -1;

// Lanes for a row.
constexpr int COLOUR_LANES = 8;

DEVICE bool outweighs(i64 i, i64 j) {
    const u64 own = hash(static_cast<u64>(i), 0);
    const u64 other = hash(static_cast<u64>(j), 0);
    return own > other || (own == other && i > j);
}

KERNEL(colour_begin, i64 n, Out<i32> colours) {
    const i64 i = global_index();
    if (i < n) {
        colours[i] = NO_COLOUR;
    }
}

// Calls `work` for the neighbours of a row that this lane has: those of the pattern, and those of the transpose where
// it differs.
struct Neighbours {
    In<i64> offsets;
    In<i32> columns;
    In<i64> turned_offsets;
    In<i32> turned_columns;
    bool both;
    template <class Work> DEVICE void each(i64 i, const Work &work) const {
        for (i64 k = offsets[i] + Group<COLOUR_LANES>::rank(); k < offsets[i + 1]; k += COLOUR_LANES) {
            work(columns[k]);
        }
        for (i64 k = both ? turned_offsets[i] + Group<COLOUR_LANES>::rank() : 0; both && k < turned_offsets[i + 1];
             k += COLOUR_LANES) {
            work(turned_columns[k]);
        }
    }
};

// One round. open[round] tells whether it has work; the first one always has. open[round + 1] becomes 1 if a row is
// left. `most` gets the number of colours.
KERNEL(colour_round, i64 n, i32 round, In<i64> offsets, In<i32> columns, In<i64> turned_offsets, In<i32> turned_columns,
       In<i64> differs, Out<i64> open, Out<i32> most, Out<i32> colours) {
    using Lanes = Group<COLOUR_LANES>;
    if (round > 0 && open[round] == 0) {
        return;
    }
    const Neighbours near{offsets, columns, turned_offsets, turned_columns, differs[0] != 0};
    for (i64 i = global_index() / COLOUR_LANES; i < n; i += block_count() * (BLOCK / COLOUR_LANES)) {
        if (Lanes::shuffle(colours[i], 0) != NO_COLOUR) {
            continue;
        }
        bool waits = false;
        near.each(i, [&](i32 j) { waits = waits || (colours[j] == NO_COLOUR && outweighs(j, i)); });
        if (Lanes::ballot(waits) != 0) {
            if (Lanes::rank() == 0 && open[round + 1] == 0) {
                open[round + 1] = 1;
            }
            continue;
        }
        // The smallest colour that no neighbour has, 64 at a time.
        u64 used = ~0ull;
        int first = -64;
        while (used == ~0ull) {
            first += 64;
            used = 0;
            near.each(i, [&](i32 j) {
                const int above = colours[j] - first;
                used |= above >= 0 && above < 64 ? 1ull << above : 0;
            });
            UNROLL
            for (int step = COLOUR_LANES / 2; step > 0; step /= 2) {
                used |= Lanes::shuffle(used, Lanes::rank() ^ step);
            }
        }
        if (Lanes::rank() == 0) {
            const int colour = first + lowest_bit(~used);
            colours[i] = colour;
            if (colour >= most[0]) {
                atomic_max(most[0], colour + 1);
            }
        }
    }
}

// Rows that one block of threads orders; the same as in `src/gpu/setup/colouring.rs`.
constexpr int COLOUR_PIECE = 4096;

KERNEL(colour_count, i64 n, i64 pieces, In<i32> colours, Out<i32> counts) {
    const i64 i = global_index();
    if (i < n) {
        atomic_add(counts[colours[i] * pieces + i / COLOUR_PIECE], 1);
    }
}

// Rows by colour, ascending in each: a block of threads for each piece. `done` counts the rows of a colour and a
// piece that are done.
KERNEL(colour_order, i64 n, i64 pieces, In<i32> colours, In<i64> starts, Out<i32> done, Out<i32> rows) {
    SHARED(i32, of, BLOCK);
    const int thread = thread_index();
    for (int base = 0; base < COLOUR_PIECE; base += BLOCK) {
        const i64 i = block_index() * COLOUR_PIECE + base + thread;
        const i32 own = i < n ? colours[i] : NO_COLOUR;
        of[thread] = own;
        barrier();
        int before = 0;
        bool last = true;
        for (int other = 0; other < BLOCK; ++other) {
            const bool same = of[other] == own;
            before += same && other < thread ? 1 : 0;
            last = last && (!same || other <= thread);
        }
        if (own != NO_COLOUR) {
            const i64 at = own * pieces + block_index();
            const i32 earlier = done[at];
            rows[starts[at] + earlier + before] = static_cast<i32>(i);
        }
        barrier();
        if (own != NO_COLOUR && last) {
            done[own * pieces + block_index()] += before + 1;
        }
        barrier();
    }
}

// The begin of each colour.
KERNEL(colour_starts, i64 count, i64 pieces, In<i64> starts, Out<i64> colour_starts_to) {
    const i64 c = global_index();
    if (c <= count) {
        colour_starts_to[c] = starts[c * pieces];
    }
}

// Row lengths in another order.
KERNEL(reorder_counts, i64 n, In<i32> rows, In<i64> offsets, Out<i32> counts) {
    const i64 i = global_index();
    if (i < n) {
        counts[i] = static_cast<i32>(offsets[rows[i] + 1] - offsets[rows[i]]);
    }
}

// Columns and `size` values for each, in the order of `rows`. Values of any format are copied as integers of their
// width.
template <class Bits>
DEVICE void reorder_rows(i64 n, int size, const In<i32> &rows, const In<i64> &offsets, const In<i32> &columns,
                         const In<Bits> &values, const In<i64> &to_offsets, const Out<i32> &to_columns, const Out<Bits> &to_values) {
    const i64 i = global_index() / COLOUR_LANES;
    if (i >= n) {
        return;
    }
    const i64 from = offsets[rows[i]];
    const i64 to = to_offsets[i];
    const i64 count = to_offsets[i + 1] - to;
    for (i64 k = Group<COLOUR_LANES>::rank(); k < count; k += COLOUR_LANES) {
        to_columns[to + k] = columns[from + k];
    }
    for (i64 e = Group<COLOUR_LANES>::rank(); e < count * size; e += COLOUR_LANES) {
        to_values[to * size + e] = values[from * size + e];
    }
}

// `size` values of each row in the order of `rows`.
template <class Bits> DEVICE void reorder_numbers(i64 n, int size, const In<i32> &rows, const In<Bits> &from, const Out<Bits> &to) {
    const i64 e = global_index();
    if (e < n * size) {
        const i64 i = e / size;
        to[e] = from[static_cast<i64>(rows[i]) * size + (e - i * size)];
    }
}

#define REORDER(Bits, BYTES) \
    KERNEL(reorder_rows_##BYTES, i64 n, i32 size, In<i32> rows, In<i64> offsets, In<i32> columns, In<Bits> values, \
           In<i64> to_offsets, Out<i32> to_columns, Out<Bits> to_values) { \
        reorder_rows<Bits>(n, size, rows, offsets, columns, values, to_offsets, to_columns, to_values); \
    } \
    KERNEL(reorder_numbers_##BYTES, i64 n, i32 size, In<i32> rows, In<Bits> from, Out<Bits> to) { \
        reorder_numbers<Bits>(n, size, rows, from, to); \
    }
REORDER(u64, 8)
REORDER(u32, 4)
REORDER(u16, 2)

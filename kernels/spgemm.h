// Common parts of SpGEMM, C = A B: a team of lanes for each row of C, with a hash accumulator in shared memory.
//
// A team goes along the entries a_ik of its row, and for each along row k of B, whose columns differ. So sums need no
// atomics, and products are added in the order of the row of A, as on the host.
#pragma once
#include "scan.h"
#include "tile.h"

constexpr i32 EMPTY = -1;

// Largest number of columns of a row of C that a thread merges, while the other lanes of its warp wait. A multiple of
// 4; the same as in `src/gpu/setup/spgemm/method.rs`.
constexpr int MERGED_COLUMNS = 32;

// Patterns of the factors. Row k of B is from begins[k] to ends[k]. For a compact matrix these are offsets[k] and
// offsets[k + 1].
struct Factors {
    In<i64> offsets;
    In<i32> columns;
    In<i64> begins;
    In<i64> ends;
    In<i32> right_columns;
};

// The first n rows, or the rows of a list, whose first element is its length.
struct Rows {
    i64 n;
    In<i32> list;
    DEVICE i64 count() const { return list.len > 0 ? list[0] : n; }
    DEVICE i64 operator[](i64 i) const { return list.len > 0 ? list[1 + i] : i; }
};

// Operations of a team of N lanes of a warp, or of a whole block. Conditions are uniform in a team; control flow
// around the operations is uniform in a warp.
template <int N> struct Team {
    static DEVICE int rank() { return thread_index() & (N - 1); }
    static DEVICE void barrier() {
        if constexpr (N < BLOCK) {
            Tile<N>::barrier();
        } else {
            ::barrier();
        }
    }
    // Whether a condition holds for any team of the warp, or for the block.
    static DEVICE bool any(bool condition) {
        if constexpr (N < BLOCK) {
            return Tile<N>::any(condition);
        } else {
            return condition;
        }
    }
    // The sum over the lanes of the team. `sums` is as in block_sum_before.
    template <class Sums> static DEVICE int sum(Sums &sums, int v) {
        if constexpr (N < BLOCK) {
            return tile_sum<N>(v);
        } else {
            i64 total;
            block_sum_before(sums, v, total);
            return static_cast<int>(total);
        }
    }
};

// Makes writes of a team's lanes visible to the team. Teams do not wait for each other.
template <int N> DEVICE void team_barrier() {
    if constexpr (N < BLOCK) {
        Group<N>::barrier();
    } else {
        barrier();
    }
}

DEVICE u32 hash_of(i32 column, u32 of) { return static_cast<u32>(static_cast<u64>(static_cast<u32>(column) * 0x9e3779b1u) * of >> 32); }

// The slot of a column in the hash table that begins at `first`. A new column is inserted. Returns -1 when the table
// is full. The read before the atomic exchange avoids most exchanges.
template <int SLOTS, class Keys> DEVICE int slot_of(Keys &keys, int first, i32 column, int &found) {
    int slot = static_cast<int>(hash_of(column, SLOTS));
    for (int probe = 0; probe < SLOTS; ++probe) {
        i32 key = keys[first + slot];
        if (key == EMPTY) {
            key = atomic_swap_if(keys[first + slot], EMPTY, column);
            if (key == EMPTY) {
                ++found;
                return first + slot;
            }
        }
        if (key == column) {
            return first + slot;
        }
        slot = slot + 1 == SLOTS ? 0 : slot + 1;
    }
    return -1;
}

// N staged entries a_ik for each team: the begin and length of row k of B, and a_ik. Entries that the teams of a warp
// use at the same time are neighbours, which avoids bank conflicts.
template <class Begins, class Lengths, class Factored> struct StagedEntries {
    Begins &begins;
    Lengths &lengths;
    Factored &factors;
};
template <class B, class L, class F> DEVICE StagedEntries<B, L, F> staged_entries(B &begins, L &lengths, F &factors) {
    return StagedEntries<B, L, F>{begins, lengths, factors};
}

// A product whose factors are being loaded.
template <class T> struct PendingProduct {
    i32 column;
    int k;
    T value;
};

// Entries of a row of A per lane of a team; longer rows go to a larger team.
constexpr int MAX_ENTRIES_PER_LANE = 64;

// The result of a lane whose table is full: larger than any table.
constexpr int TABLE_FULL = 1 << 20;

// Accumulates a row of C in the hash table of its team; without VALUES only columns. Returns how many columns this
// lane inserted, or TABLE_FULL.
template <int N, int SLOTS, bool VALUES, class T, class Keys, class Values, class E>
DEVICE int accumulate_row(const Factors &f, const In<T> &left, const In<T> &right, bool is_row, i64 row, Keys &keys, Values &values, const E &entries) {
    constexpr int TEAMS = BLOCK / N;
    const int lane = Team<N>::rank();
    const int team = thread_index() / N;
    const int first = team * SLOTS;
    for (int s = lane; s < SLOTS; s += N) {
        keys[first + s] = EMPTY;
        if constexpr (VALUES) {
            values[first + s] = 0;
        }
    }
    const i64 start = is_row ? f.offsets[row] : 0;
    i64 end = is_row ? f.offsets[row + 1] : 0;
    // This lane's next entry, and the column of the one after it.
    i64 begin = 0;
    i32 length = 0, column = 0;
    T factor = 0;
    const auto load_column = [&](i64 at) { column = at < end ? f.columns[at] : EMPTY; };
    const auto load_entry = [&](i64 at) {
        length = 0;
        if (at < end) {
            begin = f.begins[column];
            length = static_cast<i32>(f.ends[column] - begin);
            if constexpr (VALUES) {
                factor = left[at];
            }
        }
    };
    load_column(start + lane);
    load_entry(start + lane);
    load_column(start + N + lane);
    int found = 0;
    for (i64 base = start; Team<N>::any(base < end); base += N) {
        entries.begins[lane * TEAMS + team] = begin;
        entries.lengths[lane * TEAMS + team] = length;
        if constexpr (VALUES) {
            entries.factors[lane * TEAMS + team] = factor;
        }
        load_entry(base + N + lane);
        load_column(base + 2 * N + lane);
        Team<N>::barrier();
        // Factors are loaded one step before they are multiplied.
        int k = team;
        int last = team + (end - base < N ? static_cast<int>(end - base) : N) * TEAMS;
        int t = lane;
        const auto load = [&](PendingProduct<T> &product) {
            product.column = EMPTY;
            product.k = k;
            if (k < last) {
                const int count = entries.lengths[k];
                if (t < count) {
                    const i64 at = entries.begins[k] + t;
                    product.column = f.right_columns[at];
                    if constexpr (VALUES) {
                        product.value = right[at];
                    }
                }
                t += N;
                if (t - lane >= count) {
                    k += TEAMS;
                    t = lane;
                }
            }
        };
        PendingProduct<T> product{EMPTY, 0, T(0)}, next = product;
        load(product);
        while (Team<N>::any(product.k < last)) {
            load(next);
            // A lane whose table is full inserts nothing more. In a warp it ends its loops, in a block it skips its
            // products. Testing `found` here would cost warps a third of their time.
            if (product.column != EMPTY && (N < BLOCK || found < TABLE_FULL)) {
                const int slot = slot_of<SLOTS>(keys, first, product.column, found);
                if (slot < 0) {
                    found = TABLE_FULL;
                    if constexpr (N < BLOCK) {
                        end = start;
                        last = 0;
                    }
                } else if constexpr (VALUES) {
                    values[slot] = values[slot] + times(entries.factors[product.k], product.value);
                }
            }
            Team<N>::barrier();
            product = next;
        }
    }
    return found;
}

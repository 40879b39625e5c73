// What products of sparse matrices share: a team of lanes for each row of C = A B, and a table of its columns in shared memory.
//
// A team goes along the entries a_ik of its row, and within each along row k of B, whose columns differ: so sums need no atomics, and are added
// in the order of the row of A, as on the host.
#pragma once
#include "scan.h"
#include "tile.h"

constexpr i32 EMPTY = -1;

// Columns of a row of C up to which a thread merges it: the other lanes of its warp wait. A multiple of 4; `src/gpu/setup/spgemm.rs` knows it, too.
constexpr int MERGED_COLUMNS = 32;

// Patterns of the factors. Row k of B is from begins[k] to ends[k]: the offsets, and the offsets from the second one on, unless there is room
// between rows.
struct Factors {
    In<i64> offsets;
    In<i32> columns;
    In<i64> begins;
    In<i64> ends;
    In<i32> right_columns;
};

// The first n rows, or, where there is a list, those that follow their number in it.
struct Rows {
    i64 n;
    In<i32> list;
    DEVICE i64 count() const { return list.len > 0 ? list[0] : n; }
    DEVICE i64 operator[](i64 i) const { return list.len > 0 ? list[1 + i] : i; }
};

// Operations of a team of N lanes of a warp, or of the block. Conditions are the same for all lanes of a team; control flow around operations is
// the same for a warp.
template <int N> struct Team {
    static DEVICE int rank() { return thread_index() & (N - 1); }
    static DEVICE void barrier() {
        if constexpr (N < BLOCK) {
            Tile<N>::barrier();
        } else {
            ::barrier();
        }
    }
    // Whether a condition holds for a team that control flow is shared with.
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

// What lanes of a team wrote before, all of them read after. Teams do not wait for each other.
template <int N> DEVICE void team_barrier() {
    if constexpr (N < BLOCK) {
        Group<N>::barrier();
    } else {
        barrier();
    }
}

DEVICE u32 hash_of(i32 column, u32 of) { return static_cast<u32>(static_cast<u64>(static_cast<u32>(column) * 0x9e3779b1u) * of >> 32); }

// The slot of a column in the table from `first` on, where it is put if it is new; -1 when there is no room. The read before the exchange spares
// most of these.
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

// AtHand a_ik at hand, N for each team: where row k of B begins, its length, and a_ik. Those that teams of a warp use at the same time are
// neighbours, which keeps them in different banks.
template <class Begins, class Lengths, class Factored> struct AtHand {
    Begins &begins;
    Lengths &lengths;
    Factored &factors;
};
template <class B, class L, class F> DEVICE AtHand<B, L, F> at_hand(B &begins, L &lengths, F &factors) {
    return AtHand<B, L, F>{begins, lengths, factors};
}

// A term that is under way from memory.
template <class T> struct Term {
    i32 column;
    int k;
    T value;
};

// Entries of a row of A for each lane of a team, beyond which a larger team takes the row.
constexpr int MOST_NAMED = 64;

// Of a lane that found no room: more than any table has.
constexpr int NO_ROOM = 1 << 20;

// Adds up a row of C in the table of its team; without VALUES only columns are found. Gives how many columns this lane was the first to find, or
// NO_ROOM.
template <int N, int SLOTS, bool VALUES, class T, class Keys, class Values, class E>
DEVICE int add_row(const Factors &f, const In<T> &left, const In<T> &right, bool is_row, i64 row, Keys &keys, Values &values, const E &entries) {
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
    // The entry of this lane that comes next, and the column of the one after it.
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
        // Terms are loaded one step before they are added.
        int k = team;
        int last = team + (end - base < N ? static_cast<int>(end - base) : N) * TEAMS;
        int t = lane;
        const auto load = [&](Term<T> &term) {
            term.column = EMPTY;
            term.k = k;
            if (k < last) {
                const int count = entries.lengths[k];
                if (t < count) {
                    const i64 at = entries.begins[k] + t;
                    term.column = f.right_columns[at];
                    if constexpr (VALUES) {
                        term.value = right[at];
                    }
                }
                t += N;
                if (t - lane >= count) {
                    k += TEAMS;
                    t = lane;
                }
            }
        };
        Term<T> term{EMPTY, 0, T(0)}, next = term;
        load(term);
        while (Team<N>::any(term.k < last)) {
            load(next);
            // A lane that found no room is done, and does not go through the full table for each of its terms: where the lanes of a warp go on together it has no
            // terms any more, in a block it passes over them. To look at `found` here would cost warps a third of their time.
            if (term.column != EMPTY && (N < BLOCK || found < NO_ROOM)) {
                const int slot = slot_of<SLOTS>(keys, first, term.column, found);
                if (slot < 0) {
                    found = NO_ROOM;
                    if constexpr (N < BLOCK) {
                        end = start;
                        last = 0;
                    }
                } else if constexpr (VALUES) {
                    values[slot] = values[slot] + times(entries.factors[term.k], term.value);
                }
            }
            Team<N>::barrier();
            term = next;
        }
    }
    return found;
}

// Scripts of the rows of extended+i interpolation, by which extended_i_renew.cu computes them for other values. Done once for a pattern; see
// extended_i_renew.h.
#include "extended_i_renew.h"
#include "groups.h"

// One for each fine unknown whose row has columns, or has none.
KERNEL(extended_i_fine_flags, i64 n, i32 has_columns, In<i32> number, In<i64> kept, Out<i32> flags) {
    const i64 i = global_index();
    if (i < n) {
        flags[i] = number[i] < 0 && (kept[i + 1] > kept[i]) == (has_columns != 0) ? 1 : 0;
    }
}

// Those, in order.
KERNEL(extended_i_fine_rows, i64 n, In<i64> before, Out<i32> fine) {
    const i64 i = global_index();
    if (i < n && before[i + 1] > before[i]) {
        fine[before[i]] = static_cast<i32>(i);
    }
}

// Columns of each row, for rows that stand where coarse unknowns have their numbers; others have none.
KERNEL(extended_i_spread, i64 n, In<i32> number, In<i64> offsets, Out<i32> counts) {
    const i64 i = global_index();
    if (i < n) {
        counts[i] = number[i] < 0 ? 0 : static_cast<i32>(offsets[number[i] + 1] - offsets[number[i]]);
    }
}

// The slot of a column in the table from `first` on, or -1.
template <int SLOTS, class Keys> DEVICE int slot_if_there(Keys &keys, int first, i32 column) {
    int slot = static_cast<int>(hash_of(column, SLOTS));
    for (int probe = 0; probe < SLOTS; ++probe) {
        const i32 key = keys[first + slot];
        if (key == column) {
            return first + slot;
        }
        if (key == EMPTY) {
            return -1;
        }
        slot = slot + 1 == SLOTS ? 0 : slot + 1;
    }
    return -1;
}

// What a row has so far of each kind.
struct Script {
    int pairs = 0;
    int weak = 0;
    int terms[FOLLOWED] = {};
    // The most terms of a column that is kept.
    DEVICE int rounds() const {
        int most = 0;
        UNROLL
        for (int c = 0; c < RENEWED_KEPT; ++c) {
            most = terms[c] > most ? terms[c] : most;
        }
        return most;
    }
    DEVICE int length() const { return SCRIPT_UNIT * (1 + pairs) + weak + RENEWED_KEPT * rounds() + terms[WITNESS]; }
};

// Couplings of each fine unknown to coarse ones, one after the other from where its row of the matrix begins: their numbers, and of each its place in the row
// and what it is.
constexpr int LISTED_STRONG = 1 << 8;
constexpr int LISTED_COUNTS = 1 << 9;
struct Listed {
    In<i32> numbers;
    In<u16> codes;
    // How many they are; less than none in a row that is too long.
    In<i32> counts;
};

// Makes those lists. A tile of lanes for each row.
template <class T, int N>
DEVICE void extended_i_lists(i64 rows, const Entries<T> &a, const In<u8> &kinds, const Out<i64> &heads, const Out<i32> &numbers, const Out<u16> &codes,
                             const Out<i32> &counts) {
    const i64 k = global_index() / N;
    const bool is_fine = k < rows && a.number[k] < 0;
    const i64 begin = is_fine ? a.offsets[k] : 0, end = is_fine ? a.offsets[k + 1] : 0;
    const bool is_positive = is_fine && (heads[HEAD * k] & 1) != 0;
    int count = 0;
    for (i64 start = begin; Tile<N>::any(start < end); start += N) {
        const i64 at = start + Tile<N>::rank();
        const u8 kind = at < end ? kinds[at] : 0;
        const bool is_coarse = (kind & ENTRY_COARSE) != 0;
        const u64 all = Tile<N>::ballot(is_coarse);
        if (is_coarse) {
            const int to = count + Tile<N>::rank_among(all);
            const bool is_strong = (kind & ENTRY_STRONG) != 0, counts_now = (a.values[at] < 0) == is_positive;
            numbers[begin + to] = a.number[a.columns[at]];
            codes[begin + to] = static_cast<u16>((static_cast<int>(at - begin) & 255) | (is_strong ? LISTED_STRONG : counts_now ? LISTED_COUNTS : 0));
        }
        count += count_bits(all);
    }
    if (is_fine && Tile<N>::rank() == 0) {
        counts[k] = end - begin < NO_PLACE ? count : -1;
    }
}

// Numbers of couplings that are listed, none where a row is too long.
KERNEL(extended_i_listed, i64 rows, In<i32> number, In<i32> counts, Out<i32> listed) {
    const i64 k = global_index();
    if (k < rows) {
        listed[k] = number[k] < 0 && counts[k] > 0 ? counts[k] : 0;
    }
}

template <class T> struct Plan {
    Entries<T> a;
    In<u8> kinds;
    Listed listed;
    // The columns that rows keep.
    In<i64> kept;
    In<i32> kept_columns;
    In<i32> fine;
};

// Goes along the strong fine neighbours of row i, whose members are marked in a table, a lane for each, and adds to a script, which is written where
// `writes` tells; `all` is then the whole of it.
template <int SLOTS, class T, class Keys, class Marks>
DEVICE bool go_along(const Plan<T> &p, i64 i, Keys &keys, Marks &marks, int first, Script &script, bool writes, const Script &all, i64 at,
                     const Out<u16> &out) {
    using Lanes = Group<32>;
    const int lane = Lanes::rank();
    const i64 begin = p.a.offsets[i], end = p.a.offsets[i + 1];
    const u64 below = (1ull << lane) - 1;
    const i64 weak_codes = at + SCRIPT_UNIT * (1 + all.pairs), all_terms = weak_codes + all.weak;
    bool fits = true;
    for (i64 base = begin; base < end; base += 32) {
        const u8 kind = base + lane < end ? p.kinds[base + lane] : 0;
        const bool is_one = (kind & ENTRY_STRONG) != 0 && (kind & ENTRY_COARSE) == 0;
        const i64 k = is_one ? p.a.columns[base + lane] : 0;
        const i64 from = is_one ? p.a.offsets[k] : 0;
        const int count = is_one ? p.listed.counts[k] : 0;
        fits = fits && count >= 0;
        int members = 0, places[FOLLOWED];
        UNROLL
        for (int c = 0; c < FOLLOWED; ++c) {
            places[c] = NO_PLACE;
        }
        for (int m = 0; m < count; ++m) {
            const int code = p.listed.codes[from + m];
            const int slot = (code & (LISTED_STRONG | LISTED_COUNTS)) != 0 ? slot_if_there<SLOTS>(keys, first, p.listed.numbers[from + m]) : -1;
            const int mark = slot >= 0 ? marks[slot] : ROLE_MEMBER;
            members += slot >= 0 && (code & LISTED_COUNTS) != 0 ? 1 : 0;
            UNROLL
            for (int c = 0; c < FOLLOWED; ++c) {
                places[c] = mark == c ? m : places[c];
            }
        }
        const u64 pairs = Lanes::ballot(is_one);
        const int n = script.pairs + count_bits(pairs & below);
        int upto = members;
        UNROLL
        for (int step = 1; step < 32; step *= 2) {
            const int before = Lanes::shuffle(upto, lane >= step ? lane - step : lane);
            upto += lane >= step ? before : 0;
        }
        if (writes && is_one) {
            const i64 back = position_of(static_cast<i32>(i), p.a.columns, from, p.a.offsets[k + 1], -1);
            const u32 its_place = back < 0 ? NO_PLACE : static_cast<u32>(back - from);
            const i64 unit = at + SCRIPT_UNIT * (1 + n);
            out[unit] = static_cast<u16>(static_cast<u32>(base - begin + lane) | its_place << 8);
            out[unit + 1] = static_cast<u16>(members);
            out[unit + 2] = static_cast<u16>(k & 0xffff);
            out[unit + 3] = static_cast<u16>(k >> 16);
            i64 weak = weak_codes + script.weak + upto - members;
            u32 rank = 0;
            for (int m = 0; members > 0 && m < count; ++m) {
                const int code = p.listed.codes[from + m];
                if ((code & LISTED_COUNTS) != 0) {
                    if (slot_if_there<SLOTS>(keys, first, p.listed.numbers[from + m]) >= 0) {
                        out[weak] = static_cast<u16>(static_cast<u32>(m) | (rank & 3) << PART_SHIFT);
                        ++weak;
                    }
                    ++rank;
                }
            }
        }
        UNROLL
        for (int c = 0; c < FOLLOWED; ++c) {
            const u64 its = Lanes::ballot(places[c] != NO_PLACE);
            if (writes && places[c] != NO_PLACE) {
                const int which = script.terms[c] + count_bits(its & below);
                const i64 term = c < WITNESS ? all_terms + RENEWED_KEPT * which + c : all_terms + RENEWED_KEPT * all.rounds() + which;
                out[term] = static_cast<u16>(static_cast<u32>(n) | static_cast<u32>(places[c]) << 8);
            }
            script.terms[c] += count_bits(its);
        }
        script.pairs += count_bits(pairs);
        script.weak += Lanes::shuffle(upto, 31);
    }
    if (writes) {
        UNROLL
        for (int c = 0; c < RENEWED_KEPT; ++c) {
            for (int t = all.terms[c] + lane; t < all.rounds(); t += 32) {
                out[all_terms + RENEWED_KEPT * t + c] = static_cast<u16>(NO_TERM);
            }
        }
    }
    return Lanes::ballot(!fits) == 0;
}

// Lengths of scripts in units, or scripts and roles. Rows that have none are too long. `seen` gets how many have more than `many` neighbours, which are
// listed when scripts are written.
// Members are in a table of SLOTS, three quarters of which may be taken.
template <class T, int SLOTS>
DEVICE void extended_i_plan(i64 count, int many, const Plan<T> &p, const Out<i64> &heads, const Out<i32> &units, const In<i32> &starts,
                            const Out<u16> &out, const Out<u8> &roles, const Out<i32> &seen) {
    using Lanes = Group<32>;
    SHARED(i32, keys, BLOCK / 32 * SLOTS);
    SHARED(i32, marks, BLOCK / 32 * SLOTS);
    SHARED(i32, uses, BLOCK / 32 * SLOTS);
    const int lane = Lanes::rank(), first = thread_index() / 32 * SLOTS;
    const bool writes = starts.len > 0;
    for (i64 f = global_index() / 32; f < count; f += block_count() * (BLOCK / 32)) {
        const i64 i = p.fine[f];
        const i64 begin = p.a.offsets[i], end = p.a.offsets[i + 1];
        const bool is_planned = !writes || starts[f + 1] > starts[f];
        for (int s = lane; s < SLOTS; s += 32) {
            keys[first + s] = EMPTY;
            marks[first + s] = ROLE_MEMBER;
            uses[first + s] = 0;
        }
        Lanes::barrier();
        int found = 0;
        bool fits = end - begin < NO_PLACE;
        // The strong ones of a list join the table.
        const auto join = [&](i64 from, int listed) {
            for (int m = 0; m < listed; ++m) {
                if ((p.listed.codes[from + m] & LISTED_STRONG) != 0) {
                    const int slot = slot_of<SLOTS>(keys, first, p.listed.numbers[from + m], found);
                    fits = slot >= 0 && fits;
                    if (slot >= 0) {
                        atomic_add(uses[slot], 1);
                    }
                }
            }
        };
        if (is_planned && lane == 0) {
            join(begin, p.listed.counts[i]);
        }
        for (i64 base = begin; base < end && is_planned; base += 32) {
            const u8 kind = base + lane < end ? p.kinds[base + lane] : 0;
            if ((kind & ENTRY_STRONG) != 0 && (kind & ENTRY_COARSE) == 0) {
                const i64 k = p.a.columns[base + lane];
                join(p.a.offsets[k], p.listed.counts[k]);
            }
        }
        found = group_sum<32>(found);
        fits = Lanes::ballot(!fits) == 0 && found <= SLOTS * 3 / 4 && is_planned;
        Lanes::barrier();
        Script script;
        bool has_dropped = false;
        if (fits) {
            const i64 kept = p.kept[i];
            const int wanted = static_cast<int>(p.kept[i + 1] - kept);
            const int own = lane < wanted ? slot_if_there<SLOTS>(keys, first, p.kept_columns[kept + lane]) : -1;
            if (own >= 0) {
                marks[own] = lane;
            }
            // Columns that it keeps are members, unless the patterns are others.
            fits = Lanes::ballot(lane < wanted && own < 0) == 0;
            Lanes::barrier();
            // Of those that are dropped the one with the fewest terms, about, and of these the first.
            i32 fewest = 0x7fffffff, dropped = 0x7fffffff;
            for (int s = first + lane; s < first + SLOTS; s += 32) {
                fewest = keys[s] != EMPTY && marks[s] == ROLE_MEMBER && uses[s] < fewest ? uses[s] : fewest;
            }
            fewest = Lanes::least(fewest);
            for (int s = first + lane; s < first + SLOTS; s += 32) {
                dropped = keys[s] != EMPTY && marks[s] == ROLE_MEMBER && uses[s] == fewest && keys[s] < dropped ? keys[s] : dropped;
            }
            dropped = Lanes::least(dropped);
            has_dropped = dropped != 0x7fffffff;
            if (has_dropped && lane == 0) {
                marks[slot_if_there<SLOTS>(keys, first, dropped)] = WITNESS;
            }
            Lanes::barrier();
            fits = go_along<SLOTS>(p, i, keys, marks, first, script, false, Script{}, 0, out) && fits;
        }
        if (!writes) {
            if (lane == 0) {
                units[f] = fits ? (script.length() + SCRIPT_UNIT - 1) / SCRIPT_UNIT : 0;
                if (fits && script.pairs > many) {
                    atomic_add(seen[0], 1);
                }
            }
        } else {
            const i64 at = static_cast<i64>(starts[f]) * SCRIPT_UNIT;
            if (fits) {
                if (lane == 0) {
                    const int flags = (has_dropped ? HAS_DROPPED : 0) | (script.weak > 0 ? HAS_WEAK : 0);
                    out[at] = static_cast<u16>(script.pairs | flags);
                    out[at + 1] = static_cast<u16>(script.rounds());
                    out[at + 2] = static_cast<u16>(script.terms[WITNESS]);
                    out[at + 3] = static_cast<u16>(script.weak);
                    if (script.pairs > many) {
                        seen[1 + atomic_add(seen[0], 1)] = static_cast<i32>(f);
                    }
                }
                Script again;
                go_along<SLOTS>(p, i, keys, marks, first, again, true, script, at, out);
            }
            const bool is_positive = (heads[HEAD * i] & 1) != 0;
            for (i64 q = begin + lane; q < end; q += 32) {
                const u8 kind = p.kinds[q];
                const i32 column = p.a.columns[q];
                const bool is_coarse = (kind & ENTRY_COARSE) != 0, is_strong = (kind & ENTRY_STRONG) != 0;
                int role = is_strong ? ROLE_FINE : ROLE_DIAGONAL;
                if (is_coarse) {
                    const int slot = fits ? slot_if_there<SLOTS>(keys, first, p.a.number[column]) : -1;
                    role = slot >= 0 ? marks[slot] : ROLE_DIAGONAL;
                    const bool counts = (p.a.values[q] < 0) == is_positive;
                    role |= is_strong ? ROLE_STRONG : counts ? ROLE_WEAK : ROLE_DID_NOT_COUNT;
                }
                roles[q] = static_cast<u8>(role | (column == i ? ROLE_ITSELF : 0));
            }
        }
        Lanes::barrier();
    }
}

#define EXTENDED_I_LISTS(T) \
    KERNEL(extended_i_lists_##T, i64 rows, In<i64> offsets, In<i32> columns, In<T> values, In<i32> number, In<u8> kinds, Out<i64> heads, \
           Out<i32> numbers, Out<u16> codes, Out<i32> counts) { \
        extended_i_lists<T, 8>(rows, Entries<T>{offsets, columns, values, number}, kinds, heads, numbers, codes, counts); \
    }
#define EXTENDED_I_PLAN(T, SLOTS) \
    KERNEL(extended_i_plan_##T##_##SLOTS, i64 count, i32 many, In<i64> offsets, In<i32> columns, In<T> values, In<i32> number, In<u8> kinds, \
           Out<i64> heads, In<i32> numbers, In<u16> codes, In<i32> counts, In<i64> kept, In<i32> kept_columns, In<i32> fine, Out<i32> units, \
           In<i32> starts, Out<u16> out, Out<u8> roles, Out<i32> seen) { \
        extended_i_plan<T, SLOTS>(count, many, \
                           Plan<T>{Entries<T>{offsets, columns, values, number}, kinds, Listed{numbers, codes, counts}, kept, kept_columns, fine}, \
                           heads, units, starts, out, roles, seen); \
    }
#define EXTENDED_I_PLANS(T) EXTENDED_I_LISTS(T) EXTENDED_I_PLAN(T, 64) EXTENDED_I_PLAN(T, 256)
EXTENDED_I_PLANS(f64)
EXTENDED_I_PLANS(f32)

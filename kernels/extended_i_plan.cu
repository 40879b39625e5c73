// Scripts of the rows of extended+i interpolation, by which extended_i_renew.cu computes them for other values. Done once for a pattern; see
// extended_i_renew.h.
#include "extended_i_renew.h"
#include "groups.h"

// A table of the members of a row, 32 lanes for each, and how many fit.
constexpr int PLAN_SLOTS = 256;
constexpr int PLAN_MOST = 192;

// One for each fine unknown.
KERNEL(extended_i_fine_flags, i64 n, In<i32> number, Out<i32> flags) {
    const i64 i = global_index();
    if (i < n) {
        flags[i] = number[i] < 0 ? 1 : 0;
    }
}

// The fine unknowns, in order.
KERNEL(extended_i_fine_rows, i64 n, In<i32> number, In<i64> before, Out<i32> fine) {
    const i64 i = global_index();
    if (i < n && number[i] < 0) {
        fine[before[i]] = static_cast<i32>(i);
    }
}

// The slot of a column in the table from `first` on, or -1.
template <class Keys> DEVICE int slot_if_there(Keys &keys, int first, i32 column) {
    int slot = static_cast<int>(hash_of(column, PLAN_SLOTS));
    for (int probe = 0; probe < PLAN_SLOTS; ++probe) {
        const i32 key = keys[first + slot];
        if (key == column) {
            return first + slot;
        }
        if (key == EMPTY) {
            return -1;
        }
        slot = slot + 1 == PLAN_SLOTS ? 0 : slot + 1;
    }
    return -1;
}

// What a row has so far of each kind.
struct Script {
    int pairs = 0;
    int weak = 0;
    int terms[FOLLOWED] = {};
    DEVICE int length() const {
        int all = SCRIPT_UNIT + (weak > 0 ? 2 : 1) * pairs + weak;
        UNROLL
        for (int c = 0; c < FOLLOWED; ++c) {
            all += terms[c];
        }
        return all;
    }
};

template <class T> struct Plan {
    Entries<T> a;
    In<u8> kinds;
    Out<i64> heads;
    // The columns that rows keep.
    In<i64> kept;
    In<i32> kept_columns;
    In<i32> fine;
};

// Goes along the strong fine neighbours of row i, whose members are marked in a table, and adds to a script, which is written where `out` has room.
template <class T, class Keys, class Marks>
DEVICE bool go_along(const Plan<T> &p, i64 i, Keys &keys, Marks &marks, int first, Script &script, bool writes, const Script &all, i64 at,
                     const Out<u16> &out) {
    using Lanes = Group<32>;
    const int lane = Lanes::rank();
    const i64 begin = p.a.offsets[i], end = p.a.offsets[i + 1];
    const u64 below = (1ull << lane) - 1;
    const i64 weak_counts = at + SCRIPT_UNIT + all.pairs, weak_codes = weak_counts + all.pairs;
    bool fits = true;
    for (i64 base = begin; base < end; base += 32) {
        const bool is_there = base + lane < end;
        const u8 kind = is_there ? p.kinds[base + lane] : 0;
        const i32 column = is_there ? p.a.columns[base + lane] : 0;
        for (u64 left = Lanes::ballot((kind & ENTRY_STRONG) != 0 && (kind & ENTRY_COARSE) == 0); left != 0; left &= left - 1) {
            const int which = lowest_bit(left);
            const i64 k = Lanes::shuffle(column, which);
            const i64 from = p.a.offsets[k], to = p.a.offsets[k + 1];
            const bool is_positive = (p.heads[HEAD * k] & 1) != 0;
            int back = NO_PLACE, rank = 0, members = 0;
            fits = fits && to - from < NO_PLACE;
            for (i64 start = from; start < to; start += 32) {
                const i64 q = start + lane;
                const bool is_one = q < to;
                const u8 its = is_one ? p.kinds[q] : 0;
                const i32 l = is_one ? p.a.columns[q] : -1;
                const u32 place = static_cast<u32>(q - from) & 255;
                const u64 found = Lanes::ballot(l == i);
                back = found != 0 ? static_cast<int>(start - from) + lowest_bit(found) : back;
                const bool is_coarse = (its & ENTRY_COARSE) != 0, is_strong = (its & ENTRY_STRONG) != 0;
                const int slot = is_coarse ? slot_if_there(keys, first, p.a.number[l]) : -1;
                const bool counts = is_coarse && !is_strong && (p.a.values[q] < 0) == is_positive;
                const int mark = slot >= 0 && (is_strong || counts) ? marks[slot] : ROLE_MEMBER;
                const u64 counting = Lanes::ballot(counts), weak = Lanes::ballot(counts && slot >= 0);
                if (writes && counts && slot >= 0) {
                    const u32 part = static_cast<u32>(rank + count_bits(counting & below)) & 3;
                    out[weak_codes + script.weak + members + count_bits(weak & below)] = static_cast<u16>(place | part << PART_SHIFT);
                }
                rank += count_bits(counting);
                members += count_bits(weak);
                i64 terms = at + SCRIPT_UNIT + (all.weak > 0 ? 2 : 1) * all.pairs + all.weak;
                UNROLL
                for (int c = 0; c < FOLLOWED; ++c) {
                    // A row has a column once.
                    const bool is_term = Lanes::ballot(mark == c) != 0;
                    if (writes && mark == c) {
                        out[terms + script.terms[c]] = static_cast<u16>(static_cast<u32>(script.pairs) | place << 8);
                    }
                    script.terms[c] += is_term ? 1 : 0;
                    terms += all.terms[c];
                }
            }
            if (writes && lane == 0) {
                out[at + SCRIPT_UNIT + script.pairs] = static_cast<u16>(static_cast<u32>(base - begin + which) | static_cast<u32>(back) << 8);
                if (all.weak > 0) {
                    out[weak_counts + script.pairs] = static_cast<u16>(members);
                }
            }
            ++script.pairs;
            script.weak += members;
        }
    }
    return fits;
}

// Lengths of scripts in units, or scripts and roles. Rows that have none are too long. `seen` gets how many have more than `many` neighbours, which are
// listed when scripts are written.
template <class T>
DEVICE void extended_i_plan(i64 count, int many, const Plan<T> &p, const Out<i32> &units, const In<i32> &starts, const Out<u16> &out,
                            const Out<u8> &roles, const Out<i32> &seen) {
    using Lanes = Group<32>;
    SHARED(i32, keys, BLOCK / 32 * PLAN_SLOTS);
    SHARED(i32, marks, BLOCK / 32 * PLAN_SLOTS);
    const int lane = Lanes::rank(), first = thread_index() / 32 * PLAN_SLOTS;
    const bool writes = starts.len > 0;
    for (i64 f = global_index() / 32; f < count; f += block_count() * (BLOCK / 32)) {
        const i64 i = p.fine[f];
        const i64 begin = p.a.offsets[i], end = p.a.offsets[i + 1];
        const bool is_planned = !writes || starts[f + 1] > starts[f];
        for (int s = lane; s < PLAN_SLOTS; s += 32) {
            keys[first + s] = EMPTY;
            marks[first + s] = ROLE_MEMBER;
        }
        Lanes::barrier();
        int found = 0;
        bool fits = end - begin < NO_PLACE;
        for (i64 base = begin; base < end && is_planned; base += 32) {
            const bool is_there = base + lane < end;
            const u8 kind = is_there ? p.kinds[base + lane] : 0;
            const i32 column = is_there ? p.a.columns[base + lane] : 0;
            if ((kind & ENTRY_STRONG) != 0 && (kind & ENTRY_COARSE) != 0) {
                fits = slot_of<PLAN_SLOTS>(keys, first, p.a.number[column], found) >= 0 && fits;
            }
            for (u64 left = Lanes::ballot((kind & ENTRY_STRONG) != 0 && (kind & ENTRY_COARSE) == 0); left != 0; left &= left - 1) {
                const i64 k = Lanes::shuffle(column, lowest_bit(left));
                for (i64 q = p.a.offsets[k] + lane; q < p.a.offsets[k + 1]; q += 32) {
                    if (p.kinds[q] == (ENTRY_STRONG | ENTRY_COARSE)) {
                        fits = slot_of<PLAN_SLOTS>(keys, first, p.a.number[p.a.columns[q]], found) >= 0 && fits;
                    }
                }
            }
        }
        found = group_sum<32>(found);
        fits = Lanes::ballot(!fits) == 0 && found <= PLAN_MOST && is_planned;
        Lanes::barrier();
        Script script;
        bool has_dropped = false;
        if (fits) {
            const i64 kept = p.kept[i];
            const int wanted = static_cast<int>(p.kept[i + 1] - kept);
            const int own = lane < wanted ? slot_if_there(keys, first, p.kept_columns[kept + lane]) : -1;
            if (own >= 0) {
                marks[own] = lane;
            }
            // Columns that it keeps are members, unless the patterns are others.
            fits = Lanes::ballot(lane < wanted && own < 0) == 0;
            Lanes::barrier();
            i32 dropped = 0x7fffffff;
            for (int s = first + lane; s < first + PLAN_SLOTS; s += 32) {
                dropped = keys[s] != EMPTY && marks[s] == ROLE_MEMBER && keys[s] < dropped ? keys[s] : dropped;
            }
            dropped = Lanes::least(dropped);
            has_dropped = dropped != 0x7fffffff;
            if (has_dropped && lane == 0) {
                marks[slot_if_there(keys, first, dropped)] = WITNESS;
            }
            Lanes::barrier();
            fits = go_along(p, i, keys, marks, first, script, false, script, 0, out) && fits;
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
                    out[at + 1] = static_cast<u16>(script.terms[0] | script.terms[1] << 8);
                    out[at + 2] = static_cast<u16>(script.terms[2] | script.terms[3] << 8);
                    out[at + 3] = static_cast<u16>(script.terms[WITNESS]);
                    if (script.pairs > many) {
                        seen[1 + atomic_add(seen[0], 1)] = static_cast<i32>(f);
                    }
                }
                Script again;
                go_along(p, i, keys, marks, first, again, true, script, at, out);
            }
            const bool is_positive = (p.heads[HEAD * i] & 1) != 0;
            for (i64 q = begin + lane; q < end; q += 32) {
                const u8 kind = p.kinds[q];
                const i32 column = p.a.columns[q];
                const bool is_coarse = (kind & ENTRY_COARSE) != 0, is_strong = (kind & ENTRY_STRONG) != 0;
                int role = is_strong ? ROLE_FINE : ROLE_DIAGONAL;
                if (is_coarse) {
                    const int slot = fits ? slot_if_there(keys, first, p.a.number[column]) : -1;
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

#define EXTENDED_I_PLAN(T) \
    KERNEL(extended_i_plan_##T, i64 count, i32 many, In<i64> offsets, In<i32> columns, In<T> values, In<i32> number, In<u8> kinds, \
           Out<i64> heads, In<i64> kept, In<i32> kept_columns, In<i32> fine, Out<i32> units, In<i32> starts, Out<u16> out, Out<u8> roles, \
           Out<i32> seen) { \
        extended_i_plan<T>(count, many, Plan<T>{Entries<T>{offsets, columns, values, number}, kinds, heads, kept, kept_columns, fine}, units, \
                           starts, out, roles, seen); \
    }
EXTENDED_I_PLAN(f64)
EXTENDED_I_PLAN(f32)

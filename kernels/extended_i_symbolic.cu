// Symbolic phase of the numeric-only update of extended+i interpolation: computes the symbolic data of each row once
// for a pattern; see extended_i_numeric.h.
#include "extended_i_numeric.h"
#include "groups.h"

// Flags the fine unknowns whose rows have columns, or those whose rows have none.
KERNEL(extended_i_fine_flags, i64 n, i32 has_columns, In<i32> number, In<i64> kept, Out<i32> flags) {
    const i64 i = global_index();
    if (i < n) {
        flags[i] = number[i] < 0 && (kept[i + 1] > kept[i]) == (has_columns != 0) ? 1 : 0;
    }
}

// The flagged unknowns in order.
KERNEL(extended_i_fine_rows, i64 n, In<i64> before, Out<i32> fine) {
    const i64 i = global_index();
    if (i < n && before[i + 1] > before[i]) {
        fine[before[i]] = static_cast<i32>(i);
    }
}

// Scatters row lengths to the coarse unknowns that the rows belong to; other rows have length 0.
KERNEL(extended_i_spread, i64 n, In<i32> number, In<i64> offsets, Out<i32> counts) {
    const i64 i = global_index();
    if (i < n) {
        counts[i] = number[i] < 0 ? 0 : static_cast<i32>(offsets[number[i] + 1] - offsets[number[i]]);
    }
}

// The slot of a column in the hash table that begins at `first`, or -1.
template <int SLOTS, class Keys> DEVICE int find_slot(Keys &keys, int first, i32 column) {
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

// Lengths of the parts of a row's symbolic data.
struct SymbolicLengths {
    int pairs = 0;
    int weak = 0;
    int terms[TRACKED] = {};
    // The largest number of products of a kept column.
    DEVICE int rounds() const {
        int most = 0;
        UNROLL
        for (int c = 0; c < MAX_KEPT; ++c) {
            most = terms[c] > most ? terms[c] : most;
        }
        return most;
    }
    DEVICE int length() const { return SYMBOLIC_UNIT * (1 + pairs) + weak + MAX_KEPT * rounds() + terms[WITNESS]; }
};

// The couplings of each fine unknown to coarse ones, from the begin of its row on: the coarse numbers, and codes with
// the position in the row and a flag.
constexpr int LISTED_STRONG = 1 << 8;
constexpr int LISTED_COUNTS = 1 << 9;
struct Listed {
    In<i32> numbers;
    In<u16> codes;
    // Their number; -1 if the row is too long.
    In<i32> counts;
};

// Lists these couplings. A tile of lanes for each row.
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
        counts[k] = end - begin < NO_POSITION ? count : -1;
    }
}

// Numbers of listed couplings; none if the row is too long.
KERNEL(extended_i_listed, i64 rows, In<i32> number, In<i32> counts, Out<i32> listed) {
    const i64 k = global_index();
    if (k < rows) {
        listed[k] = number[k] < 0 && counts[k] > 0 ? counts[k] : 0;
    }
}

template <class T> struct SymbolicInput {
    Entries<T> a;
    In<u8> kinds;
    Listed listed;
    // The columns that truncation kept.
    In<i64> kept;
    In<i32> kept_columns;
    In<i32> fine;
};

// Goes through the strong fine neighbours of row i, a lane for each, and adds to its symbolic data. Ĉ_i is in the
// hash table, with the tracked columns marked. The data is written if `writes`; `all` then has the final lengths.
template <int SLOTS, class T, class Keys, class Marks>
DEVICE bool visit_neighbours(const SymbolicInput<T> &p, i64 i, Keys &keys, Marks &marks, int first, SymbolicLengths &symbolic, bool writes, const SymbolicLengths &all, i64 at,
                     const Out<u16> &out) {
    using Lanes = Group<32>;
    const int lane = Lanes::rank();
    const i64 begin = p.a.offsets[i], end = p.a.offsets[i + 1];
    const u64 below = (1ull << lane) - 1;
    const i64 weak_codes = at + SYMBOLIC_UNIT * (1 + all.pairs), all_terms = weak_codes + all.weak;
    bool fits = true;
    for (i64 base = begin; base < end; base += 32) {
        const u8 kind = base + lane < end ? p.kinds[base + lane] : 0;
        const bool is_one = (kind & ENTRY_STRONG) != 0 && (kind & ENTRY_COARSE) == 0;
        const i64 k = is_one ? p.a.columns[base + lane] : 0;
        const i64 from = is_one ? p.a.offsets[k] : 0;
        const int count = is_one ? p.listed.counts[k] : 0;
        fits = fits && count >= 0;
        int in_pattern = 0, positions[TRACKED];
        UNROLL
        for (int c = 0; c < TRACKED; ++c) {
            positions[c] = NO_POSITION;
        }
        for (int m = 0; m < count; ++m) {
            const int code = p.listed.codes[from + m];
            const int slot = (code & (LISTED_STRONG | LISTED_COUNTS)) != 0 ? find_slot<SLOTS>(keys, first, p.listed.numbers[from + m]) : -1;
            const int mark = slot >= 0 ? marks[slot] : ROLE_COARSE;
            in_pattern += slot >= 0 && (code & LISTED_COUNTS) != 0 ? 1 : 0;
            UNROLL
            for (int c = 0; c < TRACKED; ++c) {
                positions[c] = mark == c ? m : positions[c];
            }
        }
        const u64 pairs = Lanes::ballot(is_one);
        const int n = symbolic.pairs + count_bits(pairs & below);
        int upto = in_pattern;
        UNROLL
        for (int step = 1; step < 32; step *= 2) {
            const int before = Lanes::shuffle(upto, lane >= step ? lane - step : lane);
            upto += lane >= step ? before : 0;
        }
        if (writes && is_one) {
            const i64 back = position_of(static_cast<i32>(i), p.a.columns, from, p.a.offsets[k + 1], -1);
            const u32 its_position = back < 0 ? NO_POSITION : static_cast<u32>(back - from);
            const i64 unit = at + SYMBOLIC_UNIT * (1 + n);
            out[unit] = static_cast<u16>(static_cast<u32>(base - begin + lane) | its_position << 8);
            out[unit + 1] = static_cast<u16>(in_pattern);
            out[unit + 2] = static_cast<u16>(k & 0xffff);
            out[unit + 3] = static_cast<u16>(k >> 16);
            i64 weak = weak_codes + symbolic.weak + upto - in_pattern;
            u32 rank = 0;
            for (int m = 0; in_pattern > 0 && m < count; ++m) {
                const int code = p.listed.codes[from + m];
                if ((code & LISTED_COUNTS) != 0) {
                    if (find_slot<SLOTS>(keys, first, p.listed.numbers[from + m]) >= 0) {
                        out[weak] = static_cast<u16>(static_cast<u32>(m) | (rank & 3) << PART_SHIFT);
                        ++weak;
                    }
                    ++rank;
                }
            }
        }
        UNROLL
        for (int c = 0; c < TRACKED; ++c) {
            const u64 its = Lanes::ballot(positions[c] != NO_POSITION);
            if (writes && positions[c] != NO_POSITION) {
                const int which = symbolic.terms[c] + count_bits(its & below);
                const i64 term = c < WITNESS ? all_terms + MAX_KEPT * which + c : all_terms + MAX_KEPT * all.rounds() + which;
                out[term] = static_cast<u16>(static_cast<u32>(n) | static_cast<u32>(positions[c]) << 8);
            }
            symbolic.terms[c] += count_bits(its);
        }
        symbolic.pairs += count_bits(pairs);
        symbolic.weak += Lanes::shuffle(upto, 31);
    }
    if (writes) {
        UNROLL
        for (int c = 0; c < MAX_KEPT; ++c) {
            for (int t = all.terms[c] + lane; t < all.rounds(); t += 32) {
                out[all_terms + MAX_KEPT * t + c] = static_cast<u16>(NO_PRODUCT);
            }
        }
    }
    return Lanes::ballot(!fits) == 0;
}

// Marks the tracked columns in the hash table: those that truncation kept, and as the witness one of the dropped. Of these
// it is one with the fewest terms, about, and of them the one with the lowest number. False if a kept column is missing.
template <int SLOTS, class T, class Keys, class Marks>
DEVICE bool mark_tracked(const SymbolicInput<T> &p, i64 i, Keys &keys, Marks &marks, const Marks &uses, int first, bool &has_dropped) {
    using Lanes = Group<32>;
    const int lane = Lanes::rank();
    const i64 kept = p.kept[i];
    const int wanted = static_cast<int>(p.kept[i + 1] - kept);
    const int own = lane < wanted ? find_slot<SLOTS>(keys, first, p.kept_columns[kept + lane]) : -1;
    if (own >= 0) {
        marks[own] = lane;
    }
    // Kept columns are in the table, unless the patterns are others.
    const bool are_found = Lanes::ballot(lane < wanted && own < 0) == 0;
    Lanes::barrier();
    i32 fewest = 0x7fffffff, dropped = 0x7fffffff;
    for (int s = first + lane; s < first + SLOTS; s += 32) {
        fewest = keys[s] != EMPTY && marks[s] == ROLE_COARSE && uses[s] < fewest ? uses[s] : fewest;
    }
    fewest = Lanes::least(fewest);
    for (int s = first + lane; s < first + SLOTS; s += 32) {
        dropped = keys[s] != EMPTY && marks[s] == ROLE_COARSE && uses[s] == fewest && keys[s] < dropped ? keys[s] : dropped;
    }
    dropped = Lanes::least(dropped);
    has_dropped = dropped != 0x7fffffff;
    if (has_dropped && lane == 0) {
        marks[find_slot<SLOTS>(keys, first, dropped)] = WITNESS;
    }
    Lanes::barrier();
    return are_found;
}

// Writes the roles of the entries of row i. Ĉ_i is in the hash table, if it `fits`.
template <int SLOTS, class T, class Keys, class Marks>
DEVICE void write_roles(const SymbolicInput<T> &p, i64 i, i64 begin, i64 end, Keys &keys, Marks &marks, int first, bool fits, const Out<i64> &heads,
                        const Out<u8> &roles) {
    const int lane = Group<32>::rank();
    const bool is_positive = (heads[HEAD * i] & 1) != 0;
    for (i64 q = begin + lane; q < end; q += 32) {
        const u8 kind = p.kinds[q];
        const i32 column = p.a.columns[q];
        const bool is_coarse = (kind & ENTRY_COARSE) != 0, is_strong = (kind & ENTRY_STRONG) != 0;
        int role = is_strong ? ROLE_FINE : ROLE_DIAGONAL;
        if (is_coarse) {
            const int slot = fits ? find_slot<SLOTS>(keys, first, p.a.number[column]) : -1;
            role = slot >= 0 ? marks[slot] : ROLE_DIAGONAL;
            const bool counts = (p.a.values[q] < 0) == is_positive;
            role |= is_strong ? ROLE_STRONG : counts ? ROLE_WEAK : ROLE_DID_NOT_COUNT;
        }
        roles[q] = static_cast<u8>(role | (column == i ? ROLE_ITSELF : 0));
    }
}

// The lengths of symbolic data in units, or the data and the roles of entries. A row that exceeds the capacity has
// none. `seen` counts, and then lists, the rows with more than `many` neighbours. Ĉ_i is in a hash table of SLOTS,
// three quarters full at most.
template <class T, int SLOTS>
DEVICE void extended_i_symbolic(i64 count, int many, const SymbolicInput<T> &p, const Out<i64> &heads, const Out<i32> &units, const In<i32> &starts,
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
        const bool is_wanted = !writes || starts[f + 1] > starts[f];
        for (int s = lane; s < SLOTS; s += 32) {
            keys[first + s] = EMPTY;
            marks[first + s] = ROLE_COARSE;
            uses[first + s] = 0;
        }
        Lanes::barrier();
        int found = 0;
        bool fits = end - begin < NO_POSITION;
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
        if (is_wanted && lane == 0) {
            join(begin, p.listed.counts[i]);
        }
        for (i64 base = begin; base < end && is_wanted; base += 32) {
            const u8 kind = base + lane < end ? p.kinds[base + lane] : 0;
            if ((kind & ENTRY_STRONG) != 0 && (kind & ENTRY_COARSE) == 0) {
                const i64 k = p.a.columns[base + lane];
                join(p.a.offsets[k], p.listed.counts[k]);
            }
        }
        found = group_sum<32>(found);
        fits = Lanes::ballot(!fits) == 0 && found <= SLOTS * 3 / 4 && is_wanted;
        Lanes::barrier();
        SymbolicLengths symbolic;
        bool has_dropped = false;
        if (fits) {
            fits = mark_tracked<SLOTS>(p, i, keys, marks, uses, first, has_dropped);
            fits = visit_neighbours<SLOTS>(p, i, keys, marks, first, symbolic, false, SymbolicLengths{}, 0, out) && fits;
        }
        if (!writes) {
            if (lane == 0) {
                units[f] = fits ? (symbolic.length() + SYMBOLIC_UNIT - 1) / SYMBOLIC_UNIT : 0;
                if (fits && symbolic.pairs > many) {
                    atomic_add(seen[0], 1);
                }
            }
        } else {
            const i64 at = static_cast<i64>(starts[f]) * SYMBOLIC_UNIT;
            if (fits) {
                if (lane == 0) {
                    const int flags = (has_dropped ? HAS_DROPPED : 0) | (symbolic.weak > 0 ? HAS_WEAK : 0);
                    out[at] = static_cast<u16>(symbolic.pairs | flags);
                    out[at + 1] = static_cast<u16>(symbolic.rounds());
                    out[at + 2] = static_cast<u16>(symbolic.terms[WITNESS]);
                    out[at + 3] = static_cast<u16>(symbolic.weak);
                    if (symbolic.pairs > many) {
                        seen[1 + atomic_add(seen[0], 1)] = static_cast<i32>(f);
                    }
                }
                SymbolicLengths again;
                visit_neighbours<SLOTS>(p, i, keys, marks, first, again, true, symbolic, at, out);
            }
            write_roles<SLOTS>(p, i, begin, end, keys, marks, first, fits, heads, roles);
        }
        Lanes::barrier();
    }
}

#define EXTENDED_I_LISTS(T) \
    KERNEL(extended_i_lists_##T, i64 rows, In<i64> offsets, In<i32> columns, In<T> values, In<i32> number, In<u8> kinds, Out<i64> heads, \
           Out<i32> numbers, Out<u16> codes, Out<i32> counts) { \
        extended_i_lists<T, 8>(rows, Entries<T>{offsets, columns, values, number}, kinds, heads, numbers, codes, counts); \
    }
#define EXTENDED_I_SYMBOLIC(T, SLOTS) \
    KERNEL(extended_i_symbolic_##T##_##SLOTS, i64 count, i32 many, In<i64> offsets, In<i32> columns, In<T> values, In<i32> number, In<u8> kinds, \
           Out<i64> heads, In<i32> numbers, In<u16> codes, In<i32> counts, In<i64> kept, In<i32> kept_columns, In<i32> fine, Out<i32> units, \
           In<i32> starts, Out<u16> out, Out<u8> roles, Out<i32> seen) { \
        extended_i_symbolic<T, SLOTS>(count, many, \
                           SymbolicInput<T>{Entries<T>{offsets, columns, values, number}, kinds, Listed{numbers, codes, counts}, kept, kept_columns, fine}, \
                           heads, units, starts, out, roles, seen); \
    }
#define EXTENDED_I_SYMBOLICS(T) EXTENDED_I_LISTS(T) EXTENDED_I_SYMBOLIC(T, 64) EXTENDED_I_SYMBOLIC(T, 256)
EXTENDED_I_SYMBOLICS(f64)
EXTENDED_I_SYMBOLICS(f32)

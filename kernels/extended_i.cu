// Extended+i interpolation; see src/host/extended_i.rs for the formula and the order of sums. A first kernel notes for each fine unknown what
// its neighbours ask for; then a tile of lanes computes a row, with the members of Ĉ_i in a table. Each lane has one of the strong fine neighbours:
// what these need of memory is under way at the same time. Only adding to the weights goes from neighbour to neighbour.
#include "extended_i.h"

// The kinds of all entries of fine rows, and their couplings, of which `near` each have places of their own.
template <class T, int N>
DEVICE void extended_i_couplings(i64 rows, int near, const Entries<T> &a, const In<i64> &strong_offsets, const In<i32> &strong_columns,
                                 const Out<u8> &kinds, const Couplings<T> &to) {
    const i64 k = global_index() / N;
    const bool is_fine = k < rows && a.number[k] < 0;
    const i64 begin = is_fine ? a.offsets[k] : 0, end = is_fine ? a.offsets[k + 1] : 0;
    const i64 first = begin + Tile<N>::rank();
    StrongRow<N> strong{is_fine ? strong_offsets[k] : 0, is_fine ? strong_offsets[k + 1] : 0};
    const i32 own_column = first < end ? a.columns[first] : -1;
    const T own_value = first < end ? a.values[first] : 0;
    bool is_positive = own_column == k && own_value > 0;
    for (i64 at = first + N; at < end; at += N) {
        is_positive = is_positive || (a.columns[at] == k && a.values[at] > 0);
    }
    is_positive = Tile<N>::ballot(is_positive) != 0;
    int count = 0;
    for (i64 start = begin; Tile<N>::any(start < end); start += N) {
        const i64 at = start + Tile<N>::rank();
        const i32 l = at >= end ? -1 : at == first ? own_column : a.columns[at];
        const T v = at >= end ? 0 : at == first ? own_value : a.values[at];
        const i32 number = l >= 0 ? a.number[l] : -1;
        const bool is_strong = strong.next(strong_columns, l);
        const bool counts = (v < 0) == is_positive;
        const bool matters = number >= 0 && (is_strong || counts);
        if (l >= 0) {
            kinds[at] = (is_strong ? ENTRY_STRONG : 0) | (number >= 0 ? ENTRY_COARSE : 0);
        }
        const u64 all = Tile<N>::ballot(matters);
        if (matters) {
            const int place = count + Tile<N>::rank_among(all);
            const i32 c = is_strong ? number : ~number;
            if (place < near) {
                to.near_columns[k * near + place] = c;
                to.near_values[k * near + place] = counts ? v : 0;
            } else {
                to.columns[begin + place] = c;
                to.values[begin + place] = counts ? v : 0;
            }
        }
        count += count_bits(all);
    }
    for (int place = count + Tile<N>::rank(); is_fine && place < near; place += N) {
        to.near_columns[k * near + place] = COUPLING_NONE;
        to.near_values[k * near + place] = 0;
    }
    if (is_fine && Tile<N>::rank() == 0) {
        to.reach[k] = count << 1 | (is_positive ? 1 : 0);
    }
}

// What a tile works with.
template <class T, int N, class K, class W, class S> struct Room {
    Members<T, N, K, W> members;
    // Places in the row of the strong fine neighbours.
    K queue;
    i64 queue_base;
    int queue_length;
    // Of the near couplings of N neighbours: slots, from 1 on, or 0 for none, and shares.
    S slots;
    W shares;
    i64 shares_base;
};

template <class T, int N, class K, class W, class S>
DEVICE Room<T, N, K, W, S> room_of(const Members<T, N, K, W> &members, K queue, i64 queue_base, int queue_length, S slots, W shares,
                                   i64 shares_base) {
    return Room<T, N, K, W, S>{members, queue, queue_base, queue_length, slots, shares, shares_base};
}

// Row `row` of the interpolation, that of unknown i, for each tile; row is -1 where there is none. Whether Ĉ_i fits into the table and the
// neighbours into the queue.
template <class T, int N, int R, class K, class W, class S>
DEVICE bool extended_i_row(const ExtendedI<T> &e, i64 i, i64 row, const Room<T, N, K, W, S> &room, const Target<T> &p) {
    const Members<T, N, K, W> &m = room.members;
    const Couplings<T> &near = e.couplings;
    const int rank = Tile<N>::rank();
    m.clear();
    const i64 begin = row >= 0 ? e.a.offsets[i] : 0;
    const int length = row >= 0 ? static_cast<int>(e.a.offsets[i + 1] - begin) : 0;

    // C_i, and the places of F_i.
    bool fits = true, found = false;
    int queued = 0;
    for (int start = 0; Tile<N>::any(start < length); start += N) {
        const int place = start + rank;
        const u8 kind = place < length ? e.kinds[begin + place] : 0;
        if (kind == (ENTRY_STRONG | ENTRY_COARSE)) {
            fits = m.insert(e.a.number[e.a.columns[begin + place]]) && fits;
            found = true;
        }
        const bool is_fine = kind == ENTRY_STRONG;
        const u64 all = Tile<N>::ballot(is_fine);
        const int to = queued + Tile<N>::rank_among(all);
        if (is_fine && to < room.queue_length) {
            room.queue[room.queue_base + to] = place;
        }
        fits = fits && (!is_fine || to < room.queue_length);
        queued += count_bits(all);
    }
    fits = Tile<N>::ballot(!fits) == 0;
    queued = fits ? queued : 0;
    Tile<N>::barrier();

    // What F_i adds to C_i.
    Near<R> own;
    if (e.extended) {
        for (int start = 0; Tile<N>::any(start < queued); start += N) {
            if (start + rank < queued) {
                const i64 k = e.a.columns[begin + room.queue[room.queue_base + start + rank]];
                own.load(near.near_columns, k);
                UNROLL
                for (int t = 0; t < R; ++t) {
                    if (own.columns[t] >= 0) {
                        fits = m.insert(own.columns[t]) && fits;
                        found = true;
                    }
                }
                if (own.columns[R - 1] != COUPLING_NONE) {
                    const int count = near.reach[k] >> 1;
                    const i64 from = e.a.offsets[k];
                    for (int t = R; t < count; ++t) {
                        const i32 c = near.columns[from + t];
                        if (c >= 0) {
                            fits = m.insert(c) && fits;
                            found = true;
                        }
                    }
                }
            }
        }
        fits = Tile<N>::ballot(!fits) == 0;
    }
    // Without members there is nothing to be done.
    const bool works = Tile<N>::ballot(found) != 0 && fits;
    Tile<N>::barrier();
    if (row >= 0 && fits && !works && rank == 0 && p.counting()) {
        p.counts[row] = 0;
    }
    if (!Tile<N>::any(works || (p.mode == ROW_PATTERN && row >= 0 && fits))) {
        return fits;
    }

    // What the row has itself: couplings to members are weights, other ones that are weak join the diagonal.
    Quarters<T, N> diagonal, total;
    for (int start = 0; Tile<N>::any(works && start < length); start += N) {
        const int place = start + rank;
        T to_diagonal = 0, to_member = 0;
        if (works && place < length) {
            const u8 kind = e.kinds[begin + place];
            const T value = e.a.values[begin + place];
            const int slot = (kind & ENTRY_COARSE) != 0 ? m.find(e.a.number[e.a.columns[begin + place]]) : -1;
            if (slot >= 0) {
                m.weight(slot) = value;
                to_member = value;
            } else if ((kind & ENTRY_STRONG) == 0) {
                to_diagonal = value;
            }
        }
        diagonal.add(to_diagonal);
        total.add(to_member);
    }
    Tile<N>::barrier();

    // Each a_ik is spread over Ĉ_i and i in proportion to ā_kl.
    for (int start = 0; Tile<N>::any(works && start < queued); start += N) {
        const bool is_one = works && start + rank < queued;
        T values[R], share = 0, to_diagonal = 0, to_members = 0;
        i64 from = 0;
        int count = 0;
        if (is_one) {
            const int place = room.queue[room.queue_base + start + rank];
            const i64 k = e.a.columns[begin + place];
            const T a_ik = e.a.values[begin + place];
            const i32 reach = near.reach[k];
            load_near<R>(near.near_values, k, values);
            if (queued > N || !e.extended) { // otherwise they are still there
                own.load(near.near_columns, k);
            }
            from = e.a.offsets[k];
            count = reach >> 1;
            const T back = e.extended ? e.back(from, e.a.offsets[k + 1], (reach & 1) != 0, static_cast<i32>(i), place) : 0;
            T part[4] = {0, 0, 0, 0};
            UNROLL
            for (int t = 0; t < R; ++t) {
                const i32 c = own.columns[t];
                const int slot = c == COUPLING_NONE ? -1 : m.find(coupling_number(c));
                own.columns[t] = slot;
                part[t % 4] += slot >= 0 ? values[t] : 0;
            }
            for (int t = R; t < count; t += 4) {
                UNROLL
                for (int s = 0; s < 4; ++s) {
                    if (t + s < count && m.find(coupling_number(near.columns[from + t + s])) >= 0) {
                        part[s] += near.values[from + t + s];
                    }
                }
            }
            const T others = (part[0] + part[2]) + (part[1] + part[3]), sum = others + back;
            share = sum == 0 ? 0 : a_ik / sum;
            to_diagonal = sum == 0 ? a_ik : times(share, back);
            to_members = times(share, others);
            UNROLL
            for (int t = 0; t < R; ++t) {
                const i64 at = room.shares_base + rank * R + t;
                room.slots[at] = sum == 0 ? 0 : own.columns[t] + 1;
                room.shares[at] = times(share, values[t]);
            }
            count = sum == 0 ? 0 : count;
        }
        diagonal.add(to_diagonal);
        total.add(to_members);
        Tile<N>::barrier();
        const bool beyond = Tile<N>::any(count > R);
        for (int step = 0; step < N && Tile<N>::any(works && start + step < queued); ++step) {
            const bool is_there = works && start + step < queued;
            for (int t = rank; is_there && t < R; t += N) {
                const i64 at = room.shares_base + step * R + t;
                const int slot = room.slots[at];
                if (slot > 0) {
                    m.weight(slot - 1) += room.shares[at];
                }
            }
            if (beyond) {
                const int its_count = Tile<N>::shuffle(count, step);
                const i64 its_from = Tile<N>::shuffle(from, step);
                const T its_share = Tile<N>::shuffle(share, step);
                for (int t = R + rank; is_there && t < its_count; t += N) {
                    const int slot = m.find(coupling_number(near.columns[its_from + t]));
                    if (slot >= 0) {
                        m.weight(slot) += times(its_share, near.values[its_from + t]);
                    }
                }
            }
            Tile<N>::barrier();
        }
    }
    const T pivot = diagonal.sum(), scale = pivot == 0 ? 0 : -1 / pivot;
    const T sum = total.sum() * scale;
    if (p.mode == ROW_PATTERN) {
        write_pattern(m, fits ? row : -1, scale, sum, p);
    } else {
        const int n = m.compact(works ? scale : 0);
        write_row(m, n, works ? row : -1, sum, p);
    }
    return fits;
}

// At most this many members, each counted as often as it is found, and neighbours.
template <class T, int N> DEVICE i32 extended_i_bound(const ExtendedI<T> &e, bool wanted, i64 i) {
    i32 bound = 0;
    for (i64 at = wanted ? e.a.offsets[i] + Tile<N>::rank() : 0; wanted && at < e.a.offsets[i + 1]; at += N) {
        const u8 kind = e.kinds[at];
        if ((kind & ENTRY_STRONG) != 0) {
            bound += 1 + ((kind & ENTRY_COARSE) != 0 ? 0 : e.couplings.reach[e.a.columns[at]] >> 1);
        }
    }
    UNROLL
    for (int step = N / 2; step > 0; step /= 2) {
        bound += Tile<N>::shuffle(bound, Tile<N>::rank() ^ step);
    }
    return bound;
}

// Rows with tables of SLOTS and queues in shared memory: all of them, or those that `list` names for the second time. What does not fit goes to
// `more`.
template <class T, int N, int SLOTS, int R>
DEVICE void extended_i_rows(i64 rows, bool again, const ExtendedI<T> &e, const In<i32> &only, const Target<T> &p, const Out<i32> &list,
                            const Out<i32> &more, const Out<i32> &left) {
    constexpr int TILES = BLOCK / N, PROBES = SLOTS < 64 ? SLOTS : 64, QUEUE = SLOTS / 2;
    SHARED(i32, keys, TILES * SLOTS);
    SHARED(T, weights, TILES * SLOTS);
    SHARED(i32, queue, TILES * QUEUE);
    SHARED(u16, slots, TILES * N * R);
    SHARED(T, shares, TILES * N * R);
    const int tile = thread_index() / N;
    const auto members = members_of<T, N>(keys, weights, tile * SLOTS, SLOTS, PROBES, false);
    const auto room = room_of(members, queue, tile * QUEUE, QUEUE, slots, shares, tile * N * R);
    const i64 count = again ? left[LEFT_FIRST] : rows;
    const i64 step = block_count() * TILES;
    for (i64 at = block_index() * TILES + tile; Tile<N>::any(at < count); at += step) {
        i64 row = at >= count ? -1 : again ? list[at] : at;
        const i64 i = row < 0 ? 0 : only.len > 0 ? only[row] : row;
        const i32 number = row < 0 ? -1 : e.a.number[i];
        if (number >= 0) {
            if (Tile<N>::rank() == 0) {
                p.identity(row, number);
            }
            row = -1;
        }
        if (!Tile<N>::any(row >= 0)) {
            continue;
        }
        const bool fits = extended_i_row<T, N, R>(e, i, row, room, p);
        if (Tile<N>::any(!fits)) {
            const i32 bound = again ? extended_i_bound<T, N>(e, !fits, i) : 0;
            if (!fits && Tile<N>::rank() == 0) {
                more[atomic_add(left[again ? LEFT_SECOND : LEFT_FIRST], 1)] = static_cast<i32>(row);
                atomic_max(left[LEFT_LARGEST], bound);
            }
        }
    }
}

// The rows of `list`, with tables and queues of `slots` in global memory, one for each tile.
template <class T, int N, int R>
DEVICE void extended_i_far(i64 count, i32 slots, const ExtendedI<T> &e, const In<i32> &only, const Target<T> &p, const In<i32> &list,
                           const Out<i32> &keys, const Out<T> &weights) {
    const i64 tile = global_index() / N, tiles = block_count() * (BLOCK / N);
    // Queues and shares lie behind the tables.
    const auto members = members_of<T, N>(keys, weights, tile * slots, slots, slots, true);
    const i64 behind = tiles * slots;
    const Room<T, N, Out<i32>, Out<T>, Out<i32>> room{members, keys, behind + tile * slots, slots, Out<i32>{keys.data + 2 * behind, keys.len - 2 * behind},
                                            Out<T>{weights.data + behind, weights.len - behind}, tile * N * R};
    for (i64 at = tile; Tile<N>::any(at < count); at += tiles) {
        const i64 row = at < count ? list[at] : -1;
        extended_i_row<T, N, R>(e, row < 0 ? 0 : only.len > 0 ? only[row] : row, row, room, p);
    }
}

// Rows that were written where there is room for `most` entries each, put together.
template <class T>
DEVICE void extended_i_gather(i64 rows, i32 most, const In<i32> &columns, const In<T> &values, const In<i64> &offsets, const Out<i32> &to_columns,
                              const Out<T> &to_values) {
    const i64 at = global_index(), row = at / most, entry = at % most;
    if (row < rows) {
        const i64 start = offsets[row];
        if (start + entry < offsets[row + 1]) {
            to_columns[start + entry] = columns.once(at);
            to_values[start + entry] = values.once(at);
        }
    }
}

#define EXTENDED_I_COUPLINGS(T, N) \
    KERNEL_OF(5, extended_i_couplings_##T##_##N, i64 rows, i32 near, In<i64> offsets, In<i32> columns, In<T> values, In<i32> number, \
              In<i64> strong_offsets, In<i32> strong_columns, Out<u8> kinds, Out<i32> near_columns, Out<T> near_values, \
              Out<i32> far_columns, Out<T> far_values, Out<i32> reach) { \
        extended_i_couplings<T, N>(rows, near, Entries<T>{offsets, columns, values, number}, strong_offsets, strong_columns, kinds, \
                                   Couplings<T>{near_columns, near_values, far_columns, far_values, reach}); \
    }
#define EXTENDED_I_ROWS(T, N, SLOTS, R) \
    KERNEL_OF(R == 4 ? 4 : 3, extended_i_##T##_##N##_##SLOTS##_##R, i64 rows, i32 again, i32 how, i32 most, f64 factor, EXTENDED_I_LEVEL(T), \
              Out<i32> list, Out<i32> more, Out<i32> left) { \
        extended_i_rows<T, N, SLOTS, R>(rows, again != 0, EXTENDED_I_OF(T), only, EXTENDED_I_TO(T), list, more, left); \
    }
#define EXTENDED_I_FAR(T, R) \
    KERNEL(extended_i_far_##T##_##R, i64 count, i32 slots, i32 how, i32 most, f64 factor, EXTENDED_I_LEVEL(T), In<i32> list, Out<i32> keys, \
           Out<T> weights) { \
        extended_i_far<T, 32, R>(count, slots, EXTENDED_I_OF(T), only, EXTENDED_I_TO(T), list, keys, weights); \
    }
#define EXTENDED_I(T) \
    EXTENDED_I_COUPLINGS(T, 8) \
    EXTENDED_I_COUPLINGS(T, 16) \
    EXTENDED_I_COUPLINGS(T, 32) \
    EXTENDED_I_ROWS(T, 8, 32, 4) \
    EXTENDED_I_ROWS(T, 16, 64, 4) \
    EXTENDED_I_ROWS(T, 16, 64, 8) \
    EXTENDED_I_ROWS(T, 32, 128, 8) \
    EXTENDED_I_ROWS(T, 32, 256, 4) \
    EXTENDED_I_ROWS(T, 32, 256, 8) \
    EXTENDED_I_FAR(T, 4) \
    EXTENDED_I_FAR(T, 8) \
    KERNEL(extended_i_gather_##T, i64 rows, i32 most, In<i32> columns, In<T> values, In<i64> offsets, Out<i32> to_columns, \
           Out<T> to_values) { \
        extended_i_gather<T>(rows, most, columns, values, offsets, to_columns, to_values); \
    }
EXTENDED_I(f64)
EXTENDED_I(f32)

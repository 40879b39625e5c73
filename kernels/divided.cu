// Set-up that is divided among ranks: rows of other ranks, columns by global numbers and by those of this rank, transposes, and the states of unknowns at
// the boundary.
#include "numbers.h"

// Neighbouring threads that share a row.
constexpr int LANES = 8;

// Entries of the rows of a list.
KERNEL(divided_lengths, i64 n, In<i32> rows, In<i64> offsets, Out<i32> lengths) {
    const i64 i = global_index();
    if (i < n) {
        lengths[i] = static_cast<i32>(offsets[rows[i] + 1] - offsets[rows[i]]);
    }
}

// Entries of all rows.
KERNEL(divided_all_lengths, i64 n, In<i64> offsets, Out<i32> lengths) {
    const i64 i = global_index();
    if (i < n) {
        lengths[i] = static_cast<i32>(offsets[i + 1] - offsets[i]);
    }
}

// The numbers from `first` on.
KERNEL(divided_numbers, i64 n, i32 first, Out<i32> to) {
    const i64 i = global_index();
    if (i < n) {
        to[i] = first + static_cast<i32>(i);
    }
}

// Global numbers of columns: those of own unknowns begin with `first`, and `below` ghosts come before them.
KERNEL(divided_to_global, i64 n, i32 below, i32 own, i32 first, In<i32> ghosts, In<i32> local, Out<i32> global) {
    const i64 k = global_index();
    if (k < n) {
        const i32 j = local[k], at = j - below;
        global[k] = at >= 0 && at < own ? first + at : ghosts[at < 0 ? j : j - own];
    }
}

// The opposite; -1 for what has no number here.
KERNEL(divided_to_local, i64 n, i32 below, i32 own, i32 first, i32 count, In<i32> ghosts, In<i32> global, Out<i32> local) {
    const i64 k = global_index();
    if (k < n) {
        const i32 at = global[k] - first;
        if (at >= 0 && at < own) {
            local[k] = below + at;
        } else {
            const i32 ghost = place_of(ghosts, count, global[k]);
            local[k] = ghost < below ? ghost : ghost + own;
        }
    }
}

// The nodes of unknowns, of `size` each, and unknowns by their nodes' local numbers.
KERNEL(divided_nodes, i64 n, i32 size, In<i32> unknowns, Out<i32> nodes) {
    const i64 k = global_index();
    if (k < n) {
        nodes[k] = unknowns[k] / size;
    }
}
KERNEL(divided_node_columns, i64 n, i32 size, In<i32> nodes, In<i32> unknowns, Out<i32> columns) {
    const i64 k = global_index();
    if (k < n) {
        columns[k] = nodes[k] * size + unknowns[k] % size;
    }
}

// Columns of other ranks, in any order: how many in the first element of the list, and behind it those that there is room for.
KERNEL(divided_outside, i64 n, i32 own, i32 first, i32 room, In<i32> global, Out<i32> list) {
    const i64 k = global_index();
    if (k < n) {
        const i32 at = global[k] - first;
        if (at < 0 || at >= own) {
            const i32 place = atomic_add(list[0], 1);
            if (place < room) {
                list[1 + place] = global[k];
            }
        }
    }
}

// Offsets of the rows of lower ghosts, of own rows, and of the rows of higher ghosts.
KERNEL(divided_join_offsets, i64 below, i64 own, i64 above, In<i64> lower, In<i64> offsets, In<i64> higher, Out<i64> to) {
    const i64 i = global_index();
    if (i < below) {
        to[i] = lower[i];
    } else if (i <= below + own) {
        to[i] = lower[below] + offsets[i - below] - offsets[0];
    } else if (i <= below + own + above) {
        to[i] = lower[below] + offsets[own] - offsets[0] + higher[i - below - own];
    }
}

// For transposes: how many entries come for some rows from lower and from higher ranks.
KERNEL(divided_add_lengths, i64 n, In<i32> rows, In<i64> lower, In<i64> higher, Out<i32> lengths, Out<i32> before) {
    const i64 i = global_index();
    if (i < n) {
        const i32 l = static_cast<i32>(lower[i + 1] - lower[i]);
        lengths[rows[i]] += l + static_cast<i32>(higher[i + 1] - higher[i]);
        before[rows[i]] = l;
    }
}

#define MOVES(T) \
    /* Some unknowns, of so many elements each. */ \
    KERNEL(divided_pack_##T, i64 n, i64 below, i32 width, In<i32> elements, In<T> x, Out<T> packed) { \
        const i64 i = global_index(); \
        if (i < n) { \
            packed[i] = x[(below + elements[i / width]) * width + i % width]; \
        } \
    } \
    /* An array into another one, from an element on. */ \
    KERNEL(divided_copy_##T, i64 n, i64 at, In<T> from, Out<T> to) { \
        const i64 i = global_index(); \
        if (i < n) { \
            to[at + i] = from[i]; \
        } \
    }
MOVES(u8) MOVES(u32) MOVES(u64)
#define ROWS(T) \
    /* What other ranks have found for own unknowns. */ \
    KERNEL(divided_take_##T, i64 n, i64 below, i32 width, In<i32> elements, In<T> found, Out<T> to) { \
        const i64 i = global_index(); \
        if (i < n) { \
            to[(below + elements[i / width]) * width + i % width] = found[i]; \
        } \
    } \
    /* The entries of the rows of a list, of so many elements each. */ \
    KERNEL(divided_gather_##T, i64 n, i32 width, In<i32> rows, In<i64> offsets, In<i64> to_offsets, In<T> from, Out<T> to) { \
        const i64 i = global_index() / LANES; \
        for (i64 k = thread_index() % LANES; i < n && k < (to_offsets[i + 1] - to_offsets[i]) * width; k += LANES) { \
            to[to_offsets[i] * width + k] = from[offsets[rows[i]] * width + k]; \
        } \
    } \
    /* Own entries of the rows of a transpose, behind those of lower ranks. */ \
    KERNEL(divided_place_##T, i64 n, i32 width, In<i64> offsets, In<i64> to_offsets, In<i32> before, In<T> from, Out<T> to) { \
        const i64 i = global_index() / LANES; \
        for (i64 k = thread_index() % LANES; i < n && k < (offsets[i + 1] - offsets[i]) * width; k += LANES) { \
            to[(to_offsets[i] + before[i]) * width + k] = from[offsets[i] * width + k]; \
        } \
    } \
    /* Entries of other ranks, at the begin and at the end of some rows. */ \
    KERNEL(divided_place_others_##T, i64 n, i32 width, In<i32> rows, In<i64> lower, In<i64> higher, In<i64> to_offsets, In<T> lower_from, \
           In<T> higher_from, Out<T> to) { \
        const i64 i = global_index(); \
        if (i < n) { \
            const i64 begin = to_offsets[rows[i]], end = to_offsets[rows[i] + 1]; \
            for (i64 k = lower[i] * width; k < lower[i + 1] * width; ++k) { \
                to[(begin - lower[i]) * width + k] = lower_from[k]; \
            } \
            for (i64 k = higher[i] * width; k < higher[i + 1] * width; ++k) { \
                to[(end - higher[i + 1]) * width + k] = higher_from[k]; \
            } \
        } \
    }
ROWS(u32) ROWS(u64)

// Ones for zeros on the diagonal of own rows, of blocks of `size` rows.
#define DIAGONALS(T) \
    KERNEL(divided_diagonals_##T, i64 n, i64 first, i32 size, In<i64> offsets, In<i32> columns, Out<T> values) { \
        const i64 i = global_index(); \
        for (i64 k = i < n ? offsets[first + i] : 0; i < n && k < offsets[first + i + 1]; ++k) { \
            for (i32 r = 0; columns[k] == first + i && r < size; ++r) { \
                const i64 at = (k * size + r) * size + r; \
                if (values[at] == 0) { \
                    values[at] = 1; \
                } \
            } \
        } \
    }
FOR_SETUP(DIAGONALS)

// Adds what other ranks have found for own unknowns.
KERNEL(divided_add, i64 n, i64 below, In<i32> elements, In<i32> values, Out<i32> to) {
    const i64 i = global_index();
    if (i < n) {
        atomic_add(to[below + elements[i]], values[i]);
    }
}

// Global numbers of coarse unknowns from those of this rank alone; -1 for the others.
KERNEL(divided_coarse_numbers, i64 n, i32 before, In<i32> own, Out<i32> to) {
    const i64 i = global_index();
    if (i < n) {
        to[i] = own[i] < 0 ? -1 : before + own[i];
    }
}

// The first vector of an estimate of the largest eigenvalue, as on the host: random by global numbers, over the roots of D^-1's diagonal.
#define EIGEN_START(T) \
    KERNEL(divided_eigen_start_##T, i64 n, i64 first, i32 width, In<T> inverse, Out<T> u) { \
        const i64 i = global_index(); \
        if (i < n) { \
            const f64 random = static_cast<f64>(hash(static_cast<u64>(first + i), 0) >> 11) / 9007199254740992.0 - 0.5; \
            const f64 d = magnitude(to_f64(inverse[i * width + i % width])); \
            u[i] = As<T>::of(d == 0.0 ? 0.0 : random / square_root(d)); \
        } \
    }
FOR_SETUP(EIGEN_START)

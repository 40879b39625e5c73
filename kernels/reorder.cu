// Renumbering by breadth-first search, as in src/host/reorder.rs, and the measure of locality. A node has `unit` rows of the matrix.
#include "numbers.h"
#include "scan.h"

// `reached` has from which position of the order a node was reached first, counted backward so that the first one is the largest:
// ROOT for roots, 0 for none.
constexpr i32 ROOT = 0x7fffffff;
DEVICE i32 from_position(i64 position) { return static_cast<i32>(ROOT - 1 - position); }

// The entries of a node that the search looks at.
struct Neighbours {
    i64 begin;
    i64 end;
};
DEVICE Neighbours neighbours(i64 node, i32 unit, i32 most, const In<i64> &offsets) {
    const i64 begin = offsets[node * unit];
    const i64 end = offsets[(node + 1) * unit];
    return {begin, end < begin + most ? end : begin + most};
}

// Which nodes without a number become roots: one in 2^bits.
KERNEL(reorder_roots, i64 nodes, i32 bits, In<i32> reached, Out<u8> roots) {
    const i64 i = global_index();
    if (i < nodes) {
        const u64 mask = (u64(1) << bits) - 1;
        roots[i] = reached[i] == 0 && (i == 0 || (hash(static_cast<u64>(i), 0) & mask) == 0);
    }
}

// Appends the roots to the `count` nodes of the order.
KERNEL(reorder_append_roots, i64 nodes, i64 count, In<i32> number, Out<i32> order, Out<i32> reached) {
    const i64 i = global_index();
    if (i < nodes && number[i] >= 0) {
        order[count + number[i]] = static_cast<i32>(i);
        reached[i] = ROOT;
    }
}

// Neighbouring threads that share a node, as in src/gpu/setup/reorder.rs, and nodes of a block at a time. A thread alone would wait for each neighbour
// in turn.
constexpr int LANES = 8;
constexpr int NODES = BLOCK / LANES;

// Marks what is reached from a node. All lanes of it take part.
DEVICE void reach(i64 node, i64 position, i32 unit, i32 most, const In<i64> &offsets, const In<i32> &columns, const Out<i32> &reached) {
    const Neighbours all = neighbours(node, unit, most, offsets);
    const i32 own = from_position(position);
    for (i64 k = all.begin + Group<LANES>::rank(); k < all.end; k += LANES) {
        const i32 j = columns[k] / unit;
        // Most neighbours were reached before, and reading is cheaper.
        if (reached[j] < own) {
            atomic_max(reached[j], own);
        }
    }
}

// Marks what is reached from the nodes of a level.
KERNEL(reorder_reach, i64 begin, i64 end, i32 unit, i32 most, In<i64> offsets, In<i32> columns, In<i32> order, Out<i32> reached) {
    const i64 position = begin + global_index() / LANES;
    if (position < end) {
        reach(order[position], position, unit, most, offsets, columns, reached);
    }
}

// Calls `visit` with each node that is reached first from a position, among those of the entries of this lane: as many as the other lanes have, one
// after the other.
template <class Order, class Reached, class Visit>
DEVICE void for_children(i64 position, i32 unit, i32 most, const In<i64> &offsets, const In<i32> &columns, const Order &order,
                         const Reached &reached, const Visit &visit) {
    const Neighbours all = neighbours(order[position], unit, most, offsets);
    const i32 own = from_position(position);
    const i64 share = (all.end - all.begin + LANES - 1) / LANES;
    const i64 begin = all.begin + Group<LANES>::rank() * share;
    const i64 end = begin + share < all.end ? begin + share : all.end;
    for (i64 k = begin; k < end; ++k) {
        const i32 j = columns[k] / unit;
        if (reached[j] == own) {
            // The rows of a node may name a neighbour several times.
            bool is_first = true;
            for (i64 l = all.begin; unit > 1 && l < k && is_first; ++l) {
                is_first = columns[l] / unit != j;
            }
            if (is_first) {
                visit(j);
            }
        }
    }
}

// The part of a level that a block of threads has: whole tiles of nodes.
struct Part {
    i64 begin;
    i64 end;
};
DEVICE Part part_of_level(i64 begin, i64 end, i32 blocks) {
    const i64 tiles = (end - begin + NODES - 1) / NODES;
    const i64 nodes = (tiles + blocks - 1) / blocks * NODES;
    const i64 first = begin + nodes * block_index();
    return {first < end ? first : end, first + nodes < end ? first + nodes : end};
}

// How many nodes are reached first from the part of each block. Level l is between ends[l] and ends[l + 1].
KERNEL(reorder_count, i32 level, i32 blocks, i32 unit, i32 most, In<i64> offsets, In<i32> columns, In<i32> order, In<i32> reached,
       In<i64> ends, Out<i64> sums) {
    const Part part = part_of_level(ends[level], ends[level + 1], blocks);
    i64 own = 0;
    for (i64 position = part.begin + thread_index() / LANES; position < part.end; position += NODES) {
        for_children(position, unit, most, offsets, columns, order, reached, [&](i32) { ++own; });
    }
    i64 total;
    block_sum_before(own, total);
    if (thread_index() == 0) {
        sums[block_index()] = total;
    }
}

// Appends these nodes to the order, and marks what is reached from them where `reaches` is 1.
KERNEL(reorder_append, i32 level, i32 blocks, i32 reaches, i32 unit, i32 most, In<i64> offsets, In<i32> columns, In<i64> sums,
       Out<i32> order, Out<i32> reached, Out<i64> ends) {
    const i64 end = ends[level + 1];
    const Part part = part_of_level(ends[level], end, blocks);
    i64 mine = 0;
    i64 all = 0;
    for (int b = thread_index(); b < blocks; b += BLOCK) {
        mine += b < block_index() ? sums[b] : 0;
        all += sums[b];
    }
    i64 before;
    i64 total;
    block_sum_before(mine, before);
    block_sum_before(all, total);
    if (block_index() == 0 && thread_index() == 0) {
        ends[level + 2] = end + total;
    }
    i64 next = end + before;
    for (i64 tile = part.begin; tile < part.end; tile += NODES) {
        const i64 position = tile + thread_index() / LANES;
        i64 own = 0;
        if (position < part.end) {
            for_children(position, unit, most, offsets, columns, order, reached, [&](i32) { ++own; });
        }
        i64 at = next + block_sum_before(own, total);
        if (own > 0) {
            for_children(position, unit, most, offsets, columns, order, reached, [&](i32 j) { order[at++] = j; });
        }
        if (reaches != 0) {
            barrier(); // the others of the tile are appended
            for (i64 child = next + thread_index() / LANES; child < next + total; child += NODES) {
                reach(order[child], child, unit, most, offsets, columns, reached);
            }
        }
        next += total;
    }
}

KERNEL(reorder_inverse, i64 nodes, In<i32> order, Out<i32> inverse) {
    const i64 k = global_index();
    if (k < nodes) {
        inverse[order[k]] = static_cast<i32>(k);
    }
}

// A block of threads for each chunk of nodes, whose first are given: cache lines of x that it touches, and entries of the matrix. Each chunk
// has `words` of the bitmap. Without an order the maps are empty.
KERNEL(reorder_locality, i32 unit, i32 length, i32 most, i32 of_line, i64 words, In<i64> firsts, In<i64> offsets, In<i32> columns,
       In<i32> order, In<i32> inverse, Out<u32> bits, Out<i64> found) {
    const i64 chunk = block_index();
    i64 lines = 0;
    i64 entries = 0;
    for (int at = thread_index(); at < length; at += BLOCK) {
        const i64 p = firsts[chunk] + at;
        const i64 i = order.len > 0 ? order[p] : p;
        const i64 begin = offsets[i * unit];
        const i64 all = offsets[(i + 1) * unit];
        const i64 end = all < begin + most ? all : begin + most;
        for (i64 k = begin; k < end; ++k) {
            const i64 j = columns[k] / unit;
            const i64 line = (inverse.len > 0 ? inverse[j] : j) / of_line;
            const u32 bit = 1u << line % 32;
            lines += (atomic_or(bits[chunk * words + line / 32], bit) & bit) == 0;
        }
        entries += end - begin;
    }
    atomic_add(found[0], lines);
    atomic_add(found[1], entries);
}

// Entries of the rows of the renumbered matrix.
KERNEL(reorder_row_lengths, i64 rows, i32 unit, In<i32> order, In<i64> offsets, Out<i32> lengths) {
    const i64 row = global_index();
    if (row < rows) {
        const i64 from = static_cast<i64>(order[row / unit]) * unit + row % unit;
        lengths[row] = static_cast<i32>(offsets[from + 1] - offsets[from]);
    }
}

// Columns of the renumbered matrix, in the order of the entries of the old one. `lanes` neighbouring threads for each row.
KERNEL(reorder_columns, i64 rows, i32 unit, i32 lanes, In<i32> order, In<i32> inverse, In<i64> offsets, In<i32> columns, In<i64> to_offsets,
       Out<i32> to) {
    const i64 row = global_index() / lanes;
    if (row >= rows) {
        return;
    }
    const i64 from = static_cast<i64>(order[row / unit]) * unit + row % unit;
    const i64 begin = offsets[from];
    const i64 length = offsets[from + 1] - begin;
    for (i64 k = thread_index() & (lanes - 1); k < length; k += lanes) {
        const i32 column = columns.once(begin + k);
        to[to_offsets[row] + k] = inverse[column / unit] * unit + column % unit;
    }
}

// Values of the renumbered matrix, whose columns ascend; blocks have `len` values. V has the size of the values, which are copied bitwise.
template <class V>
DEVICE void reorder_values(i64 rows, i32 unit, i32 lanes, i32 len, const In<i32> &order, const In<i32> &inverse, const In<i64> &offsets,
                           const In<i32> &columns, const In<V> &values, const In<i64> &to_offsets, const In<i32> &to_columns,
                           const Out<V> &to) {
    const i64 row = global_index() / lanes;
    if (row >= rows) {
        return;
    }
    const i64 from = static_cast<i64>(order[row / unit]) * unit + row % unit;
    const i64 start = to_offsets[row];
    for (i64 k = offsets[from] + (thread_index() & (lanes - 1)); k < offsets[from + 1]; k += lanes) {
        const i32 old = columns[k];
        const i32 column = inverse[old / unit] * unit + old % unit;
        i64 first = start;
        i64 last = to_offsets[row + 1] - 1;
        while (first < last) {
            const i64 middle = first + (last - first) / 2;
            if (to_columns[middle] < column) {
                first = middle + 1;
            } else {
                last = middle;
            }
        }
        for (int e = 0; e < len; ++e) {
            to[first * len + e] = values.once(k * len + e);
        }
    }
}

#define REORDER_VALUES(V) \
    KERNEL(reorder_values_##V, i64 rows, i32 unit, i32 lanes, i32 len, In<i32> order, In<i32> inverse, In<i64> offsets, In<i32> columns, \
           In<V> values, In<i64> to_offsets, In<i32> to_columns, Out<V> to) { \
        reorder_values<V>(rows, unit, lanes, len, order, inverse, offsets, columns, values, to_offsets, to_columns, to); \
    }
REORDER_VALUES(u64)
REORDER_VALUES(u32)

// y = x, node by node from where `map` says; a node has `width` elements.
template <class X, class Y> DEVICE void reorder_gather(i64 n, i32 width, const In<i32> &map, const In<X> &x, const Out<Y> &y) {
    UNROLL
    for (int e = 0; e < ELEMENTS; ++e) {
        const i64 i = first_element() + e * BLOCK;
        if (i < n) {
            const i64 from = width == 1 ? map.once(i) : static_cast<i64>(map[i / width]) * width + i % width;
            y[i] = As<Y>::of(x[from]);
        }
    }
}

#define REORDER_GATHER(X) \
    KERNEL(reorder_gather_##X, i64 n, i32 width, In<i32> map, In<X> x, i32 format, Any y) { \
        if (format == F64) { \
            reorder_gather<X, f64>(n, width, map, x, y.out<f64>()); \
        } else { \
            reorder_gather<X, f32>(n, width, map, x, y.out<f32>()); \
        } \
    }
REORDER_GATHER(f64)
REORDER_GATHER(f32)

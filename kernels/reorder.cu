// Renumbering by clusters of clusters, as in src/host/reorder.rs, and the measure of locality. A node has `unit` rows of the matrix.
#include "numbers.h"

// One round of clustering: a node without a cluster joins that of the first neighbour that has one, or becomes a seed if its hash is
// among the first eighths. Clusters are named by their seeds, -1 is none; before the first round the array is empty.
KERNEL(reorder_clusters, i64 nodes, i32 unit, i32 most, i64 seed, i32 eighths, In<i64> offsets, In<i32> columns, In<i32> before,
       Out<i32> cluster) {
    const i64 i = global_index();
    if (i >= nodes) {
        return;
    }
    i32 own = before.len > 0 ? before[i] : -1;
    if (own < 0) {
        const i64 begin = offsets[i * unit];
        const i64 all = offsets[(i + 1) * unit];
        const i64 end = all < begin + most ? all : begin + most;
        for (i64 k = begin; k < end && own < 0 && before.len > 0; ++k) {
            own = before[columns[k] / unit];
        }
        if (own < 0 && hash(static_cast<u64>(i), static_cast<u64>(seed)) >> 61 < static_cast<u64>(eighths)) {
            own = static_cast<i32>(i);
        }
    }
    cluster[i] = own;
}

// Which nodes are seeds of clusters.
KERNEL(reorder_seeds, i64 nodes, In<i32> cluster, Out<u8> seeds) {
    const i64 i = global_index();
    if (i < nodes) {
        seeds[i] = cluster[i] == i;
    }
}

// The number of the cluster of each node, from those of the seeds.
KERNEL(reorder_number, i64 nodes, In<i32> number, Out<i32> cluster) {
    const i64 i = global_index();
    if (i < nodes) {
        cluster[i] = number[cluster[i]];
    }
}

// 0, 1, 2 and so on.
KERNEL(reorder_identity_i64, i64 n, Out<i64> to) {
    const i64 i = global_index();
    if (i < n) {
        to[i] = i;
    }
}
KERNEL(reorder_identity_i32, i64 n, Out<i32> to) {
    const i64 i = global_index();
    if (i < n) {
        to[i] = static_cast<i32>(i);
    }
}

// For each member of each cluster one neighbour of the cluster, or the cluster itself.
KERNEL(reorder_links, i64 nodes, i32 unit, i32 most, In<i64> offsets, In<i32> columns, In<i32> members, In<i32> cluster,
       Out<i32> links) {
    const i64 p = global_index();
    if (p >= nodes) {
        return;
    }
    const i64 i = members[p];
    const i32 own = cluster[i];
    const i64 begin = offsets[i * unit];
    const i64 all = offsets[(i + 1) * unit];
    const i64 end = all < begin + most ? all : begin + most;
    i32 link = own;
    for (i64 k = begin; k < end && link == own; ++k) {
        link = cluster[columns[k] / unit];
    }
    links[p] = link;
}

// How many members the clusters in an order have.
KERNEL(reorder_lengths, i64 clusters, In<i32> order, In<i64> offsets, Out<i32> lengths) {
    const i64 k = global_index();
    if (k < clusters) {
        const i64 c = order[k];
        lengths[k] = static_cast<i32>(offsets[c + 1] - offsets[c]);
    }
}

// Where the members of each cluster begin in the order of their level.
KERNEL(reorder_starts, i64 clusters, In<i32> order, In<i64> starts, Out<i64> of_cluster) {
    const i64 k = global_index();
    if (k < clusters) {
        of_cluster[order[k]] = starts[k];
    }
}

// The members of all clusters in that order.
KERNEL(reorder_expand, i64 nodes, In<i32> members, In<i32> cluster, In<i64> offsets, In<i64> starts, Out<i32> order) {
    const i64 p = global_index();
    if (p < nodes) {
        const i32 i = members[p];
        const i64 c = cluster[i];
        order[starts[c] + p - offsets[c]] = i;
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

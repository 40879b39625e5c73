// The tentative prolongator: on each aggregate an orthonormal basis of the near-null-space vectors, restricted to the
// aggregate. The bits are those of src/host/tentative.rs: a sum over the rows of an aggregate has W partial sums, one
// for each lane, added in the order of `group_sum<W>`.
#include "numbers.h"
#include "scan.h"

// The position of each node among those of its aggregate, in any order, and the sizes of aggregates.
KERNEL(aggregate_count, i64 n, In<i32> aggregates, Out<i32> position, Out<i32> sizes) {
    const i64 i = global_index();
    if (i < n) {
        const i32 g = aggregates[i];
        if (g >= 0) {
            position[i] = atomic_add(sizes[g], 1);
        }
    }
}

KERNEL(aggregate_fill, i64 n, In<i32> aggregates, In<i32> position, In<i64> starts, Out<i32> members) {
    const i64 i = global_index();
    if (i < n) {
        const i32 g = aggregates[i];
        if (g >= 0) {
            members[starts[g] + position[i]] = static_cast<i32>(i);
        }
    }
}

// Lanes that sort the nodes of an aggregate, and the largest aggregate that they sort.
constexpr int AGGREGATE_LANES = 8;
constexpr int FEW_MEMBERS = 512;

// Sorts the nodes of each aggregate: the rank of a node is the number of smaller ones. Larger aggregates go to the
// list `large`, whose first element is its length.
KERNEL(aggregate_sort, i64 count, In<i64> starts, In<i32> members, Out<i32> sorted, Out<i32> large) {
    const i64 g = global_index() / AGGREGATE_LANES;
    if (g >= count) {
        return;
    }
    const i64 start = starts[g];
    const int size = static_cast<int>(starts[g + 1] - start);
    const int rank = Group<AGGREGATE_LANES>::rank();
    if (size > FEW_MEMBERS) {
        if (rank == 0) {
            large[1 + atomic_add(large[0], 1)] = static_cast<i32>(g);
        }
        return;
    }
    for (int m = rank; m < size; m += AGGREGATE_LANES) {
        const i32 mine = members[start + m];
        int before = 0;
        for (int other = 0; other < size; ++other) {
            before += members[start + other] < mine ? 1 : 0;
        }
        sorted[start + before] = mine;
    }
}

// The same for large aggregates: a block of threads goes over all nodes for each.
KERNEL(aggregate_sort_large, i64 n, In<i32> aggregates, In<i32> large, In<i64> starts, Out<i32> sorted) {
    for (i64 k = block_index(); k < large[0]; k += block_count()) {
        const i32 g = large[1 + k];
        i64 at = starts[g];
        for (i64 base = 0; base < n; base += BLOCK) {
            const i64 i = base + thread_index();
            const bool own = i < n && aggregates[i] == g;
            i64 total;
            const i64 before = block_sum_before(own ? 1 : 0, total);
            if (own) {
                sorted[at + before] = static_cast<i32>(i);
            }
            at += total;
        }
    }
}

// 1 for each node that belongs to an aggregate: the row lengths of the prolongator.
KERNEL(aggregate_flags, i64 n, In<i32> aggregates, Out<i32> belongs) {
    const i64 i = global_index();
    if (i < n) {
        belongs[i] = aggregates[i] >= 0 ? 1 : 0;
    }
}

KERNEL(tentative_columns, i64 n, In<i32> aggregates, In<i64> offsets, Out<i32> columns) {
    const i64 i = global_index();
    if (i < n && aggregates[i] >= 0) {
        columns[offsets[i]] = aggregates[i];
    }
}

KERNEL(tentative_counting, i64 n, Out<i64> offsets) {
    const i64 i = global_index();
    if (i < n) {
        offsets[i] = i;
    }
}

// A remainder below this fraction of a column is rounding error.
constexpr f64 DEPENDENT = 1e-10;

// Rows of an aggregate that a lane holds in registers.
template <int K> constexpr int HELD = K > 2 && K <= 6 ? 12 : 8;

// Input and output of the orthonormalisation. Vectors are columns of `rows` numbers; those of the coarse level have K
// for each aggregate. `entries` is the entry of the prolongator for each node; empty if it is the node's number.
struct Tentative {
    i64 count;
    i64 rows;
    int dofs;
    In<i64> starts;
    In<i32> members;
    In<f64> vectors;
    In<i64> entries;
    Out<f64> coarse;
    template <class Index> DEVICE i64 node(i64 start, Index i) const { return members[start + i / dofs]; }
    // The position of row i of an aggregate among the rows of the prolongator's blocks.
    template <class Index> DEVICE i64 row_of(i64 start, Index i) const {
        const i64 at = node(start, i);
        return (entries.len > 0 ? entries[at] : at) * dofs + i % dofs;
    }
    template <class Index> DEVICE f64 vector(i64 start, Index i, int c) const {
        return vectors[c * rows + node(start, i) * dofs + i % dofs];
    }
};

// Writes column c of R, whose elements above the diagonal are given.
template <int K> DEVICE void put_column(const Tentative &t, i64 g, int c, const f64 *above, f64 own) {
    UNROLL
    for (int b = 0; b < K; ++b) {
        t.coarse[c * t.count * K + g * K + b] = b < c ? above[b] : b == c ? own : 0.0;
    }
}

// W lanes for an aggregate, whose rows they hold in registers. Larger aggregates go to the list `large`, whose first
// element is its length.
template <int K, int W> DEVICE void tentative_small(const Tentative &t, int format, const Any &out, const Out<i32> &large) {
    const i64 g = global_index() / W;
    if (g >= t.count) {
        return;
    }
    const int rank = Group<W>::rank();
    const i64 start = t.starts[g];
    const i64 rows = (t.starts[g + 1] - start) * t.dofs;
    if (rows > HELD<K> * W) {
        if (rank == 0) {
            large[1 + atomic_add(large[0], 1)] = static_cast<i32>(g);
        }
        return;
    }
    f64 q[HELD<K>][K];
    UNROLL
    for (int s = 0; s < HELD<K>; ++s) {
        const int i = s * W + rank;
        UNROLL
        for (int c = 0; c < K; ++c) {
            q[s][c] = i < rows ? t.vector(start, i, c) : 0.0;
        }
    }
    const auto dot = [&](int a, int b) {
        f64 sum = 0.0;
        UNROLL
        for (int s = 0; s < HELD<K>; ++s) {
            sum += times(q[s][a], q[s][b]);
        }
        return group_sum<W>(sum);
    };
    UNROLL
    for (int c = 0; c < K; ++c) {
        f64 above[K] = {};
        const f64 original = square_root(dot(c, c));
        UNROLL
        for (int pass = 0; pass < 2; ++pass) {
            UNROLL
            for (int b = 0; b < c; ++b) {
                const f64 projection = dot(b, c);
                above[b] += projection;
                UNROLL
                for (int s = 0; s < HELD<K>; ++s) {
                    q[s][c] -= times(projection, q[s][b]);
                }
            }
        }
        const f64 norm = square_root(dot(c, c));
        const bool independent = norm > DEPENDENT * original;
        const f64 scale = independent ? 1.0 / norm : 0.0;
        UNROLL
        for (int s = 0; s < HELD<K>; ++s) {
            q[s][c] = times(q[s][c], scale);
        }
        if (rank == 0) {
            put_column<K>(t, g, c, above, independent ? norm : 0.0);
        }
    }
    UNROLL
    for (int s = 0; s < HELD<K>; ++s) {
        const int i = s * W + rank;
        if (i < rows) {
            const i64 at = t.row_of(start, i) * K;
            UNROLL
            for (int c = 0; c < K; ++c) {
                if (format == F64) {
                    out.out<f64>()[at + c] = q[s][c];
                } else {
                    out.out<f32>()[at + c] = to_f32(q[s][c]);
                }
            }
        }
    }
}

// The same for large aggregates, whose rows are in `q`, which has the size of the result and may be the result.
template <int K, int W>
DEVICE void tentative_large(const Tentative &t, const Out<f64> &q, int format, const Any &out, const In<i32> &large) {
    const int rank = Group<W>::rank();
    for (i64 k = global_index() / W; k < large[0]; k += block_count() * (BLOCK / W)) {
        const i64 g = large[1 + k];
        const i64 start = t.starts[g];
        const i64 rows = (t.starts[g + 1] - start) * t.dofs;
        // Each lane handles its own rows only.
        for (i64 i = rank; i < rows; i += W) {
            for (int c = 0; c < K; ++c) {
                q[t.row_of(start, i) * K + c] = t.vector(start, i, c);
            }
        }
        const auto dot = [&](int a, int b) {
            f64 sum = 0.0;
            for (i64 i = rank; i < rows; i += W) {
                const i64 at = t.row_of(start, i) * K;
                sum += times(q[at + a], q[at + b]);
            }
            return group_sum<W>(sum);
        };
        for (int c = 0; c < K; ++c) {
            f64 above[K] = {};
            const f64 original = square_root(dot(c, c));
            for (int pass = 0; pass < 2; ++pass) {
                UNROLL
                for (int b = 0; b < K; ++b) {
                    if (b < c) {
                        const f64 projection = dot(b, c);
                        above[b] += projection;
                        for (i64 i = rank; i < rows; i += W) {
                            const i64 at = t.row_of(start, i) * K;
                            q[at + c] -= times(projection, q[at + b]);
                        }
                    }
                }
            }
            const f64 norm = square_root(dot(c, c));
            const bool independent = norm > DEPENDENT * original;
            const f64 scale = independent ? 1.0 / norm : 0.0;
            for (i64 i = rank; i < rows; i += W) {
                const i64 at = t.row_of(start, i) * K + c;
                q[at] = times(q[at], scale);
            }
            if (rank == 0) {
                put_column<K>(t, g, c, above, independent ? norm : 0.0);
            }
        }
        if (format != F64) {
            for (i64 i = rank; i < rows; i += W) {
                const i64 at = t.row_of(start, i) * K;
                for (int c = 0; c < K; ++c) {
                    out.out<f32>()[at + c] = to_f32(q[at + c]);
                }
            }
        }
    }
}

// The same W as in `src/host/tentative.rs`.
#define TENTATIVE(K, W) \
    KERNEL(tentative_small_##K, i64 count, i64 rows, i32 dofs, In<i64> starts, In<i32> members, In<f64> vectors, \
           In<i64> entries, Out<f64> coarse, i32 format, Any out, Out<i32> large) { \
        tentative_small<K, W>(Tentative{count, rows, dofs, starts, members, vectors, entries, coarse}, format, out, large); \
    } \
    KERNEL(tentative_large_##K, i64 count, i64 rows, i32 dofs, In<i64> starts, In<i32> members, In<f64> vectors, \
           In<i64> entries, Out<f64> coarse, Out<f64> q, i32 format, Any out, In<i32> large) { \
        tentative_large<K, W>(Tentative{count, rows, dofs, starts, members, vectors, entries, coarse}, q, format, out, large); \
    }
TENTATIVE(1, 8)
TENTATIVE(2, 8)
TENTATIVE(3, 32)
TENTATIVE(4, 32)
TENTATIVE(5, 32)
TENTATIVE(6, 32)
TENTATIVE(7, 32)
TENTATIVE(8, 32)

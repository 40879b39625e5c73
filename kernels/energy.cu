// Energy-minimising prolongators; see src/host/energy.rs. Sums have the order of the host, so the bits are the same.
#include "coarse_space.h"

// The position of an aggregate among ascending columns, or -1.
DEVICE i64 position_of(const In<i32> &columns, i64 begin, i64 end, i32 aggregate) {
    while (begin < end) {
        const i64 middle = begin + (end - begin) / 2;
        const i32 found = columns[middle];
        if (found == aggregate) {
            return middle;
        }
        if (found < aggregate) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return -1;
}

// The strong neighbours of each node, and the node itself.
KERNEL(energy_neighbours, i64 rows, In<i64> offsets, In<i32> columns, Out<i64> to_offsets, Out<i32> to_columns) {
    const i64 i = global_index();
    if (i > rows) {
        return;
    }
    to_offsets[i] = offsets[i] + i;
    if (i < rows) {
        const i64 end = offsets[i + 1];
        for (i64 k = offsets[i]; k < end; ++k) {
            to_columns[k + i] = columns[k];
        }
        to_columns[end + i] = static_cast<i32>(i);
    }
}

// The Gram matrix of the coarse near-null space on the aggregates of each row, or on those that are kept where there are
// flags, as a block diagonal matrix. A thread has an element.
KERNEL(energy_gram, i64 rows, i64 count, i32 m, i32 k, In<f64> vectors, In<i64> offsets, In<i32> columns, In<i32> kept, Out<i64> to_offsets,
       Out<i32> to_columns, Out<f64> gram) {
    const i64 index = global_index();
    const i64 row = index / (k * k);
    if (row >= rows) {
        return;
    }
    const int e = static_cast<int>(index - row * k * k);
    const CoarseSpace space{count, m, k, vectors};
    f64 sum = 0;
    for (i64 b = offsets[row]; b < offsets[row + 1]; ++b) {
        if (kept.len > 0 && kept[b] == 0) {
            continue;
        }
        const i32 g = columns[b];
        for (int r = 0; r < m; ++r) {
            sum += times(space.at(g, r, e / k), space.at(g, r, e % k));
        }
    }
    gram[index] = sum;
    if (e == 0) {
        to_columns[row] = static_cast<i32>(row);
        to_offsets[row + 1] = row + 1;
        if (row == 0) {
            to_offsets[0] = 0;
        }
    }
}

// Writes P_0 into the pattern of P, whose values are zero. 32 lanes for a row.
template <class T>
DEVICE void energy_start(i64 rows, int width, const In<i32> &aggregates, const In<i64> &entries, const In<T> &tentative, const In<i64> &offsets,
                         const In<i32> &columns, const Out<T> &values) {
    const i64 row = global_index() / 32;
    if (row >= rows || aggregates[row] < 0) {
        return;
    }
    const i64 to = position_of(columns, offsets[row], offsets[row + 1], aggregates[row]);
    const i64 from = entries.len > 0 ? entries[row] : row;
    for (int e = Group<32>::rank(); e < width; e += 32) {
        values[to * width + e] = tentative[from * width + e];
    }
}

// A P on the pattern of P. 32 lanes for a row, each with some elements of every block.
template <class T>
DEVICE void energy_product(i64 rows, int n, int c, const In<i64> &a_offsets, const In<i32> &a_columns, const In<T> &a_values,
                           const In<i64> &offsets, const In<i32> &columns, const In<T> &values, const Out<T> &product) {
    const i64 row = global_index() / 32;
    if (row >= rows) {
        return;
    }
    const int width = n * c;
    const i64 begin = a_offsets[row];
    const i64 end = a_offsets[row + 1];
    for (i64 b = offsets[row]; b < offsets[row + 1]; ++b) {
        const i32 g = columns[b];
        for (int e = Group<32>::rank(); e < width; e += 32) {
            const int r = e / c;
            const int col = e % c;
            T sum = 0;
            for (i64 k = begin; k < end; ++k) {
                const i32 j = a_columns[k];
                const i64 at = position_of(columns, offsets[j], offsets[j + 1], g);
                for (int d = 0; at >= 0 && d < n; ++d) {
                    sum += times(a_values[(k * n + r) * n + d], values[(at * n + d) * c + col]);
                }
            }
            product[b * width + e] = sum;
        }
    }
}

// The multipliers by which the constraint of each row is kept. A thread has a scalar row.
template <class T>
DEVICE void energy_multipliers(i64 rows, int n, const CoarseSpace &space, const In<f64> &inverse, const In<i64> &offsets, const In<i32> &columns,
                               const In<T> &product, const Out<f64> &multipliers) {
    const i64 index = global_index();
    const i64 row = index / n;
    if (row >= rows) {
        return;
    }
    const int r = static_cast<int>(index - row * n);
    const int k = space.k;
    f64 action[8];
    for (int p = 0; p < k; ++p) {
        action[p] = 0;
    }
    for (i64 b = offsets[row]; b < offsets[row + 1]; ++b) {
        const i32 g = columns[b];
        for (int p = 0; p < k; ++p) {
            for (int q = 0; q < space.m; ++q) {
                action[p] += times(static_cast<f64>(product[(b * n + r) * space.m + q]), space.at(g, q, p));
            }
        }
    }
    for (int p = 0; p < k; ++p) {
        f64 sum = 0;
        for (int q = 0; q < k; ++q) {
            sum += times(action[q], inverse[(row * k + q) * k + p]);
        }
        multipliers[index * k + p] = sum;
    }
}

// P -= w D^-1 (A P - what the multipliers take out). 32 lanes for a row.
template <class T>
DEVICE void energy_update(i64 rows, int n, const CoarseSpace &space, T weight, const In<T> &inverse, const In<f64> &multipliers,
                          const In<i64> &offsets, const In<i32> &columns, const In<T> &product, const Out<T> &values) {
    const i64 row = global_index() / 32;
    if (row >= rows) {
        return;
    }
    const int k = space.k;
    const int m = space.m;
    const int width = n * m;
    const i64 end = offsets[row + 1] * width;
    for (i64 at = offsets[row] * width + Group<32>::rank(); at < end; at += 32) {
        const i64 b = at / width;
        const int e = static_cast<int>(at - b * width);
        const int r = e / m;
        const int col = e % m;
        const i32 g = columns[b];
        T sum = 0;
        for (int q = 0; q < n; ++q) {
            f64 change = 0;
            for (int p = 0; p < k; ++p) {
                change += times(multipliers[(row * n + q) * k + p], space.at(g, col, p));
            }
            const T kept = As<T>::of(static_cast<f64>(product[b * width + q * m + col]) - change);
            sum += times(inverse[(row * n + r) * n + q], kept);
        }
        values[at] = values[at] - times(weight, sum);
    }
}

#define ENERGY(T) \
    KERNEL(energy_start_##T, i64 rows, i32 width, In<i32> aggregates, In<i64> entries, In<T> tentative, In<i64> offsets, In<i32> columns, \
           Out<T> values) { \
        energy_start<T>(rows, width, aggregates, entries, tentative, offsets, columns, values); \
    } \
    KERNEL(energy_product_##T, i64 rows, i32 n, i32 c, In<i64> a_offsets, In<i32> a_columns, In<T> a_values, In<i64> offsets, In<i32> columns, \
           In<T> values, Out<T> product) { \
        energy_product<T>(rows, n, c, a_offsets, a_columns, a_values, offsets, columns, values, product); \
    } \
    KERNEL(energy_multipliers_##T, i64 rows, i32 n, i64 count, i32 m, i32 k, In<f64> vectors, In<f64> inverse, In<i64> offsets, In<i32> columns, \
           In<T> product, Out<f64> multipliers) { \
        energy_multipliers<T>(rows, n, CoarseSpace{count, m, k, vectors}, inverse, offsets, columns, product, multipliers); \
    } \
    KERNEL(energy_update_##T, i64 rows, i32 n, i64 count, i32 m, i32 k, In<f64> vectors, f64 weight, In<T> inverse, In<f64> multipliers, \
           In<i64> offsets, In<i32> columns, In<T> product, Out<T> values) { \
        energy_update<T>(rows, n, CoarseSpace{count, m, k, vectors}, As<T>::of(weight), inverse, multipliers, offsets, columns, product, values); \
    }
FOR_SETUP(ENERGY)

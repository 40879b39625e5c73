// Scaling of a coarse correction e: x += α e for α = r·y / w·y, where w = A e, and y is e for the energy norm of the error or w for the norm of the residual.
#include "numbers.h"
#include "reduce.h"

// Each block's partial sum of r·y, followed by those of w·y.
template <class T> DEVICE void error_dots(i64 n, const In<T> &r, const In<T> &w, const In<T> &y, const Out<f64> &parts) {
    f64 ry[ELEMENTS] = {};
    f64 wy[ELEMENTS] = {};
    const i64 step = block_count() * BLOCK;
    for (i64 i = global_index(); i < n; i += ELEMENTS * step) {
        UNROLL
        for (int e = 0; e < ELEMENTS; ++e) {
            const i64 k = i + e * step;
            if (k < n) {
                const f64 element = to_f64(y[k]);
                ry[e] += to_f64(r[k]) * element;
                wy[e] += to_f64(w[k]) * element;
            }
        }
    }
    const f64 first = block_sum((ry[0] + ry[1]) + (ry[2] + ry[3]));
    barrier();
    const f64 second = block_sum((wy[0] + wy[1]) + (wy[2] + wy[3]));
    if (thread_index() == 0) {
        parts[block_index()] = first;
        parts[block_count() + block_index()] = second;
    }
}

// Each block adds all parts by itself: they are few, and one launch is saved.
template <class T> DEVICE void add_scaled_error(i64 n, i64 count, const In<f64> &parts, const In<T> &e, const Out<T> &x) {
    using A = Wide<T>;
    SHARED(f64, factor, 1);
    const f64 dividend = parts_sum(parts, 0, count);
    barrier();
    const f64 divisor = parts_sum(parts, count, 2 * count);
    if (thread_index() == 0) {
        // As in src/backend.rs.
        factor[0] = divisor > 0.0 ? dividend / divisor : 1.0;
    }
    barrier();
    const A alpha = As<A>::of(factor[0]);
    const i64 step = block_count() * BLOCK;
    for (i64 i = global_index(); i < n; i += step) {
        x[i] = As<T>::of(alpha * As<A>::of(e[i]) + As<A>::of(x[i]));
    }
}

#define ERROR_SCALING(T) \
    KERNEL(error_dots_##T, i64 n, In<T> r, In<T> w, In<T> y, Out<f64> parts) { error_dots<T>(n, r, w, y, parts); } \
    KERNEL(add_scaled_error_##T, i64 n, i64 count, In<f64> parts, In<T> e, Out<T> x) { add_scaled_error<T>(n, count, parts, e, x); }
FOR_FORMATS(ERROR_SCALING)

// What becomes of a row's product: the three forms in which a matrix is applied.
#pragma once
#include "portability.h"

constexpr int OVERWRITE = 0;
constexpr int SCALE = 1;
constexpr int RESIDUAL = 2;

// y_i = alpha ax, alpha ax + beta y_i, or b_i - ax.
template <class Y>
DEVICE void finish(int form, f64 alpha, f64 beta, const In<Y> &b, const Out<Y> &y, i64 i, Y ax) {
    if (form == RESIDUAL) {
        y[i] = b[i] - ax;
    } else if (form == SCALE) {
        y[i] = static_cast<Y>(alpha) * ax + static_cast<Y>(beta) * y[i];
    } else {
        y[i] = static_cast<Y>(alpha) * ax;
    }
}

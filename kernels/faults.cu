// Kernels that do what is not allowed, to see that `sim` finds it; no GPU gets them.
#include "reduce.h"

// Half of the threads of a block pass a barrier by.
KERNEL(fault_barrier, Out<f64> x) {
    if (thread_index() < BLOCK / 2) {
        barrier();
    }
    x[0] = 1.0;
}

// One lane ends before the others exchange values.
KERNEL(fault_exchange, Out<f64> x) {
    if (thread_index() == 5) {
        return;
    }
    x[0] = shuffle_xor(1.0, 1);
}

// Shared memory is read before it is written, and beyond its end.
KERNEL(fault_shared, i32 index, Out<f64> x) {
    SHARED(f64, s, 8);
    x[0] = s[index];
}

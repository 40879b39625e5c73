// All kernels in one translation unit: one image for a GPU, one registry for `sim`.
#include "vector.cu"
#include "krylov.cu"
#include "csr.cu"
#include "slices.cu"
#include "block_slices.cu"
#include "dense.cu"
#include "multicolour.cu"
#include "rounded.cu"

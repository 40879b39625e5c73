// All kernels in one translation unit: one image for a GPU, one registry for `sim`.
#include "vector.cu"
#include "csr.cu"
#include "sliced_ell.cu"
#include "bsr.cu"
#include "dense.cu"

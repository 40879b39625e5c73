// What the kernels of SELL chunks share.
#pragma once
#include "spmv_epilogue.h"

// Threads that share a chunk.
constexpr int GROUP = 32;

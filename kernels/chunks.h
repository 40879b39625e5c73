// What the kernels of SELL chunks share.
#pragma once
#include "finish.h"

// Threads that share a chunk.
constexpr int GROUP = 32;

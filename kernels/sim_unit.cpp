// One kernel file, TERRACE_UNIT, for the simulated GPU. Everything is in a namespace: names of kernels are common words.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace terrace_sim {}
// So that kernels find their functions as ::name, too.
using namespace terrace_sim;

namespace terrace_sim {
#include TERRACE_UNIT
}

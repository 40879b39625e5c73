// One kernel file, TERRACE_UNIT, for the simulated GPU. Everything is in a namespace of the width of a warp, so that both widths fit into one program.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

namespace JOIN(terrace_sim, TERRACE_WARP) {}
// So that kernels find their functions as ::name, too.
using namespace JOIN(terrace_sim, TERRACE_WARP);

namespace JOIN(terrace_sim, TERRACE_WARP) {
#include TERRACE_UNIT
}

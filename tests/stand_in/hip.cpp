// A stand-in for AMD's driver, so that the code that talks to it runs where there is no such GPU: device memory is host memory, and the kernels
// are those of the simulation. It is as strict as a driver is not: code objects must be for gfx942 (or bitcode) and have every kernel
// that is asked for, memory must be freed, streams and devices must be the right ones.
//
// Memory of a program's own, from hipMalloc, is closed to the host but for copies and kernels: what takes such an address for one of the host
// ends with a segmentation fault, as with a real GPU.
//
//   STAND_IN_DEVICES   number of devices, 1 unless given
// It is linked with the static library of the simulated GPU.
#define TERRACE_SIM

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <sys/mman.h>

namespace terrace_sim {
#include "../../kernels/sim.h"
}
using namespace terrace_sim;

extern "C" {
const void *terrace_sim_find(const char *name);
void *terrace_sim_create();
int terrace_sim_launch(void *room, const void *kernel, long long blocks, void **arguments, const unsigned char *sizes,
                         std::size_t count, int reverse, char *message, std::size_t message_len);
}

namespace {

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NO_DEVICE = 100, NO_BINARY = 209, NOT_FOUND = 500 };

struct Launch {
    const sim::Entry *entry;
    long long blocks;
    std::vector<std::vector<unsigned char>> values;
};

struct Stream {
    int device;
    // Of a capture that is under way.
    std::vector<Launch> *captured;
};

struct Module {
    std::string image;
    bool is_bitcode;
};

std::mutex mutex;
std::map<unsigned long long, std::size_t> memory;
// Those of hipMalloc, whole pages.
std::map<unsigned long long, std::size_t> closed;
void *engine = nullptr;
Stream null_stream = {0, nullptr};
thread_local int current = 0;

int devices() {
    const char *text = std::getenv("STAND_IN_DEVICES");
    return text == nullptr ? 1 : std::atoi(text);
}

// A stream of the device that is current; 0 is the default stream.
Stream *stream_of(void *handle) {
    Stream *stream = handle == nullptr ? &null_stream : static_cast<Stream *>(handle);
    return handle == nullptr || stream->device == current ? stream : nullptr;
}

// Whether bytes lie in memory that is allocated.
bool holds(unsigned long long address, std::size_t bytes) {
    auto after = memory.upper_bound(address);
    if (after == memory.begin()) {
        return false;
    }
    --after;
    return address + bytes <= after->first + after->second;
}

// Opens the memory of hipMalloc while it lives, with the mutex held.
struct Open {
    Open() { protect(PROT_READ | PROT_WRITE); }
    ~Open() { protect(PROT_NONE); }
    static void protect(int access) {
        for (const auto &pages : closed) {
            mprotect(reinterpret_cast<void *>(pages.first), pages.second, access);
        }
    }
};

int run(Launch &launch) {
    const Open open;
    if (engine == nullptr) {
        engine = terrace_sim_create();
    }
    std::vector<void *> arguments;
    for (auto &value : launch.values) {
        arguments.push_back(value.data());
    }
    char message[512] = "";
    const int failed = terrace_sim_launch(engine, launch.entry, launch.blocks, arguments.data(), launch.entry->sizes,
                                         launch.entry->count, 0, message, sizeof message);
    if (failed != 0) {
        std::fprintf(stderr, "%s\n", message);
    }
    return failed != 0 ? INVALID_VALUE : SUCCESS;
}

} // namespace

#define API extern "C" __attribute__((visibility("default"))) int
#define LOCKED std::lock_guard<std::mutex> lock(mutex)

API hipInit(unsigned) { return devices() > 0 ? SUCCESS : NO_DEVICE; }
API hipGetDeviceCount(int *count) {
    *count = devices();
    return *count > 0 ? SUCCESS : NO_DEVICE;
}
API hipDeviceGet(int *device, int number) {
    *device = number;
    return SUCCESS;
}
API hipDeviceGetName(char *name, int len, int device) {
    std::snprintf(name, static_cast<std::size_t>(len), "stand-in %d", device);
    return SUCCESS;
}
API hipGetDevice(int *device) {
    *device = current;
    return SUCCESS;
}
API hipSetDevice(int device) {
    current = device;
    return device < devices() ? SUCCESS : INVALID_VALUE;
}
API hipRuntimeGetVersion(int *version) {
    *version = 60243134;
    return SUCCESS;
}
extern "C" const char *hipGetErrorName(int error) {
    return error == NO_DEVICE ? "hipErrorNoDevice" : error == OUT_OF_MEMORY ? "hipErrorOutOfMemory" : "hipErrorUnknown";
}
extern "C" const char *hipGetErrorString(int error) {
    return error == NO_DEVICE ? "no ROCm-capable device is detected" : error == OUT_OF_MEMORY ? "out of memory" : "unknown error";
}

API hipStreamCreateWithFlags(void **stream, unsigned flags) {
    *stream = new Stream{current, nullptr};
    return flags == 1 ? SUCCESS : INVALID_VALUE;
}
API hipStreamDestroy(void *stream) {
    if (static_cast<Stream *>(stream)->captured != nullptr) {
        std::fputs("stand-in: a stream is destroyed while its capture is under way\n", stderr);
    }
    delete static_cast<Stream *>(stream);
    return SUCCESS;
}
API hipStreamSynchronize(void *stream) {
    Stream *s = stream_of(stream);
    return s != nullptr && s->captured == nullptr ? SUCCESS : INVALID_VALUE;
}
API hipEventCreateWithFlags(void **event, unsigned flags) {
    *event = new int(0);
    return flags == 2 ? SUCCESS : INVALID_VALUE;
}
API hipEventDestroy(void *event) {
    delete static_cast<int *>(event);
    return SUCCESS;
}
API hipEventRecord(void *event, void *stream) {
    *static_cast<int *>(event) = 1;
    return stream_of(stream) != nullptr ? SUCCESS : INVALID_VALUE;
}
API hipStreamWaitEvent(void *stream, void *event, unsigned) {
    return *static_cast<int *>(event) == 1 && stream_of(stream) != nullptr ? SUCCESS : INVALID_VALUE;
}

API hipPointerGetAttribute(void *value, int attribute, unsigned long long address) {
    LOCKED;
    if (!holds(address, 1)) {
        return INVALID_VALUE;
    }
    *static_cast<int *>(value) = attribute == 2 ? 2 : current;
    return SUCCESS;
}

API hipMemPoolCreate(void **pool, const int *properties) {
    *pool = new int(properties[3]);
    return properties[0] == 1 && properties[2] == 1 && properties[3] == current ? SUCCESS : INVALID_VALUE;
}
API hipMemPoolSetAttribute(void *, int attribute, void *) { return attribute == 4 ? SUCCESS : INVALID_VALUE; }
API hipMemPoolTrimTo(void *, std::size_t) { return SUCCESS; }
API hipMemGetInfo(std::size_t *free, std::size_t *total) {
    *free = *total = std::size_t(1) << 30;
    return SUCCESS;
}
API hipMemPoolDestroy(void *pool) {
    delete static_cast<int *>(pool);
    return SUCCESS;
}
API hipMallocFromPoolAsync(unsigned long long *address, std::size_t bytes, void *pool, void *stream) {
    LOCKED;
    if (*static_cast<int *>(pool) != current || stream_of(stream) == nullptr) {
        return INVALID_VALUE;
    }
    void *made = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (made == nullptr) {
        return OUT_OF_MEMORY;
    }
    std::memset(made, 0xff, bytes);
    *address = reinterpret_cast<unsigned long long>(made);
    memory[*address] = bytes;
    return SUCCESS;
}
API hipFreeAsync(unsigned long long address, void *) {
    LOCKED;
    if (memory.erase(address) == 0) {
        return INVALID_VALUE;
    }
    std::free(reinterpret_cast<void *>(address));
    return SUCCESS;
}
API hipHostMalloc(void **pointer, std::size_t bytes, unsigned) {
    *pointer = std::malloc(bytes);
    return SUCCESS;
}
API hipHostFree(void *pointer) {
    std::free(pointer);
    return SUCCESS;
}
API hipMemcpyHtoDAsync(unsigned long long to, const void *from, std::size_t bytes, void *stream) {
    LOCKED;
    if (!holds(to, bytes) || stream_of(stream) == nullptr) {
        return INVALID_VALUE;
    }
    const Open open;
    std::memcpy(reinterpret_cast<void *>(to), from, bytes);
    return SUCCESS;
}
API hipMemcpyDtoHAsync(void *to, unsigned long long from, std::size_t bytes, void *stream) {
    LOCKED;
    if (!holds(from, bytes) || stream_of(stream) == nullptr) {
        return INVALID_VALUE;
    }
    const Open open;
    std::memcpy(to, reinterpret_cast<const void *>(from), bytes);
    return SUCCESS;
}
API hipMemsetD8Async(unsigned long long to, unsigned char value, std::size_t bytes, void *stream) {
    LOCKED;
    if (!holds(to, bytes) || stream_of(stream) == nullptr) {
        return INVALID_VALUE;
    }
    const Open open;
    std::memset(reinterpret_cast<void *>(to), value, bytes);
    return SUCCESS;
}

// What a program with arrays of its own calls.
API hipMalloc(unsigned long long *address, std::size_t bytes) {
    LOCKED;
    const std::size_t pages = (bytes + 4095) / 4096 * 4096;
    void *made = mmap(nullptr, pages, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) {
        return OUT_OF_MEMORY;
    }
    *address = reinterpret_cast<unsigned long long>(made);
    memory[*address] = bytes;
    closed[*address] = pages;
    return SUCCESS;
}
API hipFree(unsigned long long address) {
    LOCKED;
    if (closed.count(address) == 0) {
        return INVALID_VALUE;
    }
    munmap(reinterpret_cast<void *>(address), closed[address]);
    closed.erase(address);
    memory.erase(address);
    return SUCCESS;
}
API hipMemcpyHtoD(unsigned long long to, const void *from, std::size_t bytes) {
    return hipMemcpyHtoDAsync(to, from, bytes, nullptr);
}
API hipMemcpyDtoH(void *to, unsigned long long from, std::size_t bytes) { return hipMemcpyDtoHAsync(to, from, bytes, nullptr); }

// The length of LLVM bitcode: blocks follow each other, each with a word for its kind and a word for its length in words.
static std::size_t bitcode_length(const unsigned char *bytes) {
    std::size_t at = 4;
    for (;;) {
        std::uint32_t kind = 0, words = 0;
        std::memcpy(&kind, bytes + at, sizeof kind);
        std::memcpy(&words, bytes + at + 4, sizeof words);
        if ((kind & 3) != 1) {
            return at;
        }
        at += 8 + std::size_t(words) * 4;
    }
}

// An ELF file for AMD GPUs says in its flags for which; its end follows from its table of sections. `make test` makes bitcode in its place, and the
// kernels of it are found by their names without an end.
API hipModuleLoadData(void **module, const void *image) {
    const auto *bytes = static_cast<const unsigned char *>(image);
    if (std::memcmp(bytes, "BC\xc0\xde", 4) == 0) {
        *module = new Module{std::string(static_cast<const char *>(image), bitcode_length(bytes)), true};
        return SUCCESS;
    }
    std::uint32_t flags = 0;
    std::uint64_t sections = 0;
    std::uint16_t size = 0, count = 0;
    std::memcpy(&sections, bytes + 40, sizeof sections);
    std::memcpy(&flags, bytes + 48, sizeof flags);
    std::memcpy(&size, bytes + 58, sizeof size);
    std::memcpy(&count, bytes + 60, sizeof count);
    if (std::memcmp(bytes, "\177ELF", 4) != 0 || (flags & 0xff) != 0x4c) {
        return NO_BINARY;
    }
    *module = new Module{std::string(static_cast<const char *>(image), sections + std::uint64_t(size) * count), false};
    return SUCCESS;
}
API hipModuleUnload(void *module) {
    delete static_cast<Module *>(module);
    return SUCCESS;
}
API hipModuleGetFunction(void **function, void *module, const char *name) {
    const void *entry = terrace_sim_find(name);
    const auto *loaded = static_cast<const Module *>(module);
    const std::string symbol = loaded->is_bitcode ? std::string(name) : std::string(1, '\0') + name + ".kd" + '\0';
    if (entry == nullptr || loaded->image.find(symbol) == std::string::npos) {
        return NOT_FOUND;
    }
    *function = const_cast<void *>(entry);
    return SUCCESS;
}
API hipModuleLaunchKernel(void *function, unsigned blocks, unsigned y, unsigned z, unsigned threads, unsigned, unsigned,
                          unsigned, void *stream, void **arguments, void **) {
    LOCKED;
    Stream *s = stream_of(stream);
    if (s == nullptr || y != 1 || z != 1 || threads != BLOCK) {
        return INVALID_VALUE;
    }
    Launch launch = {static_cast<const sim::Entry *>(function), blocks, {}};
    for (std::size_t i = 0; i < launch.entry->count; ++i) {
        const auto *value = static_cast<const unsigned char *>(arguments[i]);
        launch.values.emplace_back(value, value + launch.entry->sizes[i]);
    }
    if (s->captured != nullptr) {
        if (std::getenv("STAND_IN_CAPTURE_FAILS") != nullptr) {
            return OUT_OF_MEMORY;
        }
        s->captured->push_back(launch);
        return SUCCESS;
    }
    return run(launch);
}

API hipStreamBeginCapture(void *stream, int mode) {
    Stream *s = stream_of(stream);
    if (stream == nullptr || s == nullptr || mode != 1) {
        return INVALID_VALUE;
    }
    s->captured = new std::vector<Launch>;
    return SUCCESS;
}
API hipStreamEndCapture(void *stream, void **graph) {
    Stream *s = static_cast<Stream *>(stream);
    *graph = s->captured;
    s->captured = nullptr;
    return SUCCESS;
}
API hipGraphInstantiateWithFlags(void **instance, void *graph, unsigned long long) {
    *instance = new std::vector<Launch>(*static_cast<std::vector<Launch> *>(graph));
    return SUCCESS;
}
API hipGraphDestroy(void *graph) {
    delete static_cast<std::vector<Launch> *>(graph);
    return SUCCESS;
}
API hipGraphExecDestroy(void *instance) { return hipGraphDestroy(instance); }
API hipGraphLaunch(void *instance, void *stream) {
    LOCKED;
    if (stream_of(stream) == nullptr) {
        return INVALID_VALUE;
    }
    for (Launch &launch : *static_cast<std::vector<Launch> *>(instance)) {
        if (run(launch) != SUCCESS) {
            return INVALID_VALUE;
        }
    }
    return SUCCESS;
}

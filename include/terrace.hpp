// terrace.hpp: the C++17 interface of Terrace, algebraic multigrid: terrace.h in classes, header only. terrace.h documents each function
// in full; the comments here name it.
//
// Objects: context, matrix, config, amg, fsai, solver and report own what they were made from, move, and do not copy. They may be destroyed in
// any order. An object that was moved from, or whose creation failed, is empty: it may be destroyed and assigned to, and every other call
// on it is TERRACE_ERROR_NULL_ARGUMENT. get() is the handle of the C interface, which stays the object's.
//
// Errors: every function that can fail has a last argument `status &result`. Without it, anything but success throws terrace::error, which
// is a std::runtime_error with the status and the library's sentence; a solve that did not converge throws, too. With it, nothing of the
// library's throws: result has the outcome, and conditions such as TERRACE_NOT_CONVERGED can be accepted.
//
//     solver.solve(b, x);                     // or: terrace::status result;
//                                             //     solver.solve(b, x, result);
//                                             //     if (!result.ok()) std::puts(result.sentence().c_str());
//
// A build without exceptions, or with TERRACE_NO_EXCEPTIONS defined, has the second form alone. What a failed call would have returned is
// then 0, empty or an empty object.
//
// Arrays: any container with data() and size(): std::vector, std::array, std::span, C arrays; terrace::span for a pointer and a length. The
// number format follows from the element. Sizes are checked before the library reads anything; what does not fit is
// TERRACE_ERROR_SIZE_MISMATCH. Arrays are on the host, but where a function says that it takes device memory, too: give those as
// terrace::device(pointer, length).
//
// Callbacks: any callable. The object keeps a copy as long as the library may call it, and what it throws is thrown again when the call of
// the library that called it returns; nothing is thrown through the library.
//
// Blocking: a call returns when its work is done, but for vectors in device memory and a stream of the caller's; see context::set_stream.
//
// Threads: one thread at a time uses a context and the objects made from it; different contexts are independent. A matrix may be used
// through several contexts at the same time, as long as nobody changes it meanwhile.
#ifndef TERRACE_HPP
#define TERRACE_HPP

#include "terrace.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#if !defined(TERRACE_NO_EXCEPTIONS) && !defined(__cpp_exceptions)
#define TERRACE_NO_EXCEPTIONS
#endif

// Programs may join files that were compiled with and without exceptions: the two forms have names of their own for the linker.
#ifdef TERRACE_NO_EXCEPTIONS
#define TERRACE_OR_THROW
#define TERRACE_FORM without_exceptions
#else
#define TERRACE_OR_THROW = throws()
#define TERRACE_FORM with_exceptions
#endif

namespace terrace {
inline namespace TERRACE_FORM {

namespace detail {
inline std::string last_error(const terrace_context *context) {
    std::size_t needed = 0;
    terrace_last_error(context, nullptr, 0, &needed);
    std::string text(needed, '\0');
    terrace_last_error(context, text.data(), text.size(), nullptr);
    if (!text.empty()) text.pop_back();
    return text;
}
struct access;
} // namespace detail

/// How a call ended.
class status {
public:
    /// Success.
    status() = default;
    /// 0 success, positive a condition that a caller may accept, negative an error: a TERRACE_ constant of terrace.h.
    terrace_status code() const noexcept { return code_; }
    /// Success.
    bool ok() const noexcept { return code_ == TERRACE_SUCCESS; }
    /// An error; neither success nor a condition.
    bool failed() const noexcept { return code_ < 0; }
    /// Like "TERRACE_ERROR_SIZE_MISMATCH"; static (terrace_status_name).
    const char *name() const noexcept { return terrace_status_name(code_); }
    /// What the status means in general; static (terrace_status_sentence).
    const char *meaning() const noexcept { return terrace_status_sentence(code_); }
    /// Which argument, which value, what would be accepted; empty after a success.
    const std::string &sentence() const noexcept { return sentence_; }

private:
    friend struct detail::access;
    terrace_status code_ = TERRACE_SUCCESS;
    std::string sentence_;
};

/// Thrown by calls without a status; what() is the name of the status and the sentence.
class error : public std::runtime_error {
public:
    explicit error(const status &outcome)
        : std::runtime_error(std::string(outcome.name()) + ": " + outcome.sentence()), outcome_(outcome) {}
    /// The status with its sentence.
    const status &outcome() const noexcept { return outcome_; }
    /// outcome().code().
    terrace_status code() const noexcept { return outcome_.code(); }

private:
    status outcome_;
};

#ifndef TERRACE_NO_EXCEPTIONS
/// The default of `status &result`: names no status, so that the call throws.
inline status &throws() noexcept {
    static status none;
    return none;
}
#endif

namespace detail {

struct access {
    static void set(status &result, terrace_status code, std::string &&sentence) {
        result.code_ = code;
        result.sentence_ = std::move(sentence);
    }
};

inline bool is_thrown(const status &result) noexcept {
#ifdef TERRACE_NO_EXCEPTIONS
    static_cast<void>(result);
    return false;
#else
    return &result == &throws();
#endif
}

/// The end of every call on this thread: stores or throws its outcome.
inline void conclude(terrace_status code, status &result) {
    if (code == TERRACE_SUCCESS) {
        if (!is_thrown(result)) result = status();
        return;
    }
    status outcome;
    access::set(outcome, code, last_error(nullptr));
#ifndef TERRACE_NO_EXCEPTIONS
    if (is_thrown(result)) throw error(outcome);
#endif
    result = std::move(outcome);
}

/// What a callback has thrown, until the call that called it returns.
class thrown {
public:
#ifdef TERRACE_NO_EXCEPTIONS
    template <class Body>
    int keep(Body &&body) {
        return body();
    }
    void release() {}
#else
    /// Runs the body; 1 when it throws.
    template <class Body>
    int keep(Body &&body) noexcept {
        try {
            return body();
        } catch (...) {
            if (!exception_) exception_ = std::current_exception();
            return 1;
        }
    }
    void release() {
        if (exception_) std::rethrow_exception(std::exchange(exception_, nullptr));
    }

private:
    std::exception_ptr exception_;
#endif
};

/// The log of a context. Everything made from the context holds it, because the library logs for them as well.
struct log {
    using function = std::function<void(terrace_log_level, std::string_view)>;
    struct sink {
        function call;
        thrown exception;
    };
    std::unique_ptr<sink> current;

    static void line(terrace_log_level level, const char *message, void *user) {
        sink &to = *static_cast<sink *>(user);
        to.exception.keep([&] {
            to.call(level, message);
            return 0;
        });
    }
    void release() {
        if (current) current->exception.release();
    }
};

/// A handle with its destroy function, and the log that it may call.
template <class Handle, terrace_status (*destroy)(Handle *)>
class object {
public:
    object(object &&) noexcept = default;
    object &operator=(object &&other) noexcept {
        handle_ = std::move(other.handle_);
        log_ = std::move(other.log_);
        return *this;
    }
    /// The handle of the C interface; null when the object is empty. It stays the object's.
    Handle *get() const noexcept { return handle_.get(); }
    /// Not empty.
    explicit operator bool() const noexcept { return handle_ != nullptr; }

protected:
    struct deleter {
        void operator()(Handle *handle) const noexcept { destroy(handle); }
    };
    ~object() = default;
    explicit object(std::shared_ptr<log> log) : log_(std::move(log)) {}

    /// Takes what a creating function made, then ends the call.
    template <class Create>
    void create(Create &&function, status &result) {
        Handle *handle = nullptr;
        const terrace_status code = function(&handle);
        handle_.reset(handle);
        finish(code, result);
    }
    void finish(terrace_status code, status &result) const {
        if (log_) log_->release();
        conclude(code, result);
    }

    // Declared in this order: the log is there until the handle is destroyed.
    std::shared_ptr<log> log_;
    std::unique_ptr<Handle, deleter> handle_;
    friend struct logs;
};

struct logs {
    template <class Object>
    static const std::shared_ptr<log> &of(const Object &object) {
        return object.log_;
    }
};

/// A text of a function with (buf, len, needed).
template <class Function>
terrace_status text(Function &&function, std::string &out) {
    std::size_t needed = 0;
    terrace_status code = function(nullptr, 0, &needed);
    if (code != TERRACE_SUCCESS) return code;
    out.assign(needed, '\0');
    code = function(out.data(), out.size(), &needed);
    out.resize(code == TERRACE_SUCCESS && !out.empty() ? std::strlen(out.c_str()) : 0);
    return code;
}

/// A NUL-terminated argument: a literal, a pointer or a std::string.
class zstring {
public:
    zstring(const char *text) noexcept : text_(text) {}
    zstring(const std::string &text) noexcept : text_(text.c_str()) {}
    const char *c_str() const noexcept { return text_; }

private:
    const char *text_;
};

template <class Container>
using element = std::remove_pointer_t<decltype(std::data(std::declval<Container &>()))>;

template <class T>
constexpr bool is_index = std::is_integral_v<T> && !std::is_same_v<std::remove_cv_t<T>, bool> &&
                          (sizeof(T) == 4 || sizeof(T) == 8);
template <class T>
constexpr bool is_value = std::is_same_v<std::remove_cv_t<T>, double> || std::is_same_v<std::remove_cv_t<T>, float>;
template <class T>
constexpr terrace_type type_of = is_index<T> ? (sizeof(T) == 4 ? TERRACE_I32 : TERRACE_I64)
                                             : (sizeof(T) == 4 ? TERRACE_F32 : TERRACE_F64);

template <class T>
struct owns_elements : std::false_type {};
template <class T, class A>
struct owns_elements<std::vector<T, A>> : std::true_type {};
template <class T, std::size_t N>
struct owns_elements<std::array<T, N>> : std::true_type {};

} // namespace detail

/// A pointer and a number of elements, on the host.
template <class T>
class span {
public:
    /// No elements.
    constexpr span() noexcept = default;
    /// `size` elements from `data` on.
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    /// The elements of a container with data() and size(), which must live as long as the span is used.
    template <class Container, class = std::enable_if_t<std::is_convertible_v<detail::element<Container> (*)[], T (*)[]>>>
    constexpr span(Container &&container) noexcept
        : data_(std::data(container)), size_(static_cast<std::size_t>(std::size(container))) {}
    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](std::size_t i) const noexcept { return data_[i]; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

/// An array in the memory of the context's GPU; see device().
template <class T>
class device_span {
public:
    constexpr device_span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }

private:
    T *data_;
    std::size_t size_;
};

/// `size` elements from `data` on, in the memory of the context's GPU. Nothing here reads them.
template <class T>
constexpr device_span<T> device(T *data, std::size_t size) noexcept {
    return {data, size};
}

namespace detail {

template <class T>
struct is_device : std::false_type {};
template <class T>
struct is_device<device_span<T>> : std::true_type {};

/// An array of any accepted number format. Void is void or const void.
template <class Void, bool indices>
class any_array {
    template <class T>
    static constexpr bool accepts = (indices ? is_index<T> : is_value<T>)&&(std::is_const_v<Void> || !std::is_const_v<T>);

public:
    /// No array: null in C.
    constexpr any_array(std::nullptr_t) noexcept {}
    template <class Container, class = std::enable_if_t<accepts<element<Container>>>>
    constexpr any_array(Container &&container) noexcept
        : data(std::data(container)), size(static_cast<std::int64_t>(std::size(container))),
          type(type_of<element<Container>>), is_temporary(!std::is_lvalue_reference_v<Container> &&
                                                          owns_elements<std::decay_t<Container>>::value),
          is_on_device(is_device<std::decay_t<Container>>::value) {}

    Void *data = nullptr;
    std::int64_t size = 0;
    terrace_type type = indices ? TERRACE_I32 : TERRACE_F64;
    /// A vector that is gone when the call returns.
    bool is_temporary = false;
    bool is_on_device = false;
};

/// The last of some host offsets, less the base of 0 or 1. 0 where it makes no sense, which the library finds.
template <class Array>
std::int64_t entries(const Array &row_offsets, std::int32_t base) noexcept {
    const bool is_narrow = row_offsets.type == TERRACE_I32;
    const char *last = static_cast<const char *>(row_offsets.data) + (row_offsets.size - 1) * (is_narrow ? 4 : 8);
    std::int32_t narrow = 0;
    std::int64_t wide = 0;
    // Not a load: the caller may have another type of the same width.
    if (is_narrow)
        std::memcpy(&narrow, last, sizeof narrow);
    else
        std::memcpy(&wide, last, sizeof wide);
    if (is_narrow) wide = narrow;
    return wide > 0 && (base == 0 || base == 1) ? wide - base : 0;
}

inline std::string misfit(const char *argument, std::int64_t given, std::int64_t needed) {
    return std::string(argument) + " has " + std::to_string(given) + " elements; " + std::to_string(needed) +
           " are needed";
}

} // namespace detail

/// Arguments that take arrays of either width: offsets and columns to read, or to write.
using index_array = detail::any_array<const void, true>;
using index_buffer = detail::any_array<void, true>;
/// Arguments that take double or float: to read, or to write.
using value_array = detail::any_array<const void, false>;
using value_buffer = detail::any_array<void, false>;

/// The version of the loaded library; TERRACE_VERSION_MAJOR and its siblings are those of the header.
struct version {
    std::int32_t major = 0, minor = 0, patch = 0;
    /// Asks the library (terrace_version). From any thread at any time; does not fail.
    static version of_library() noexcept {
        version v;
        terrace_version(&v.major, &v.minor, &v.patch);
        return v;
    }
};

/// Bytes of device memory of a context; a limit of 0 is none.
struct memory {
    std::int64_t used = 0, peak = 0, limit = 0;
};

/// A device with its threads, its log and the sentence of its last error.
class context : public detail::object<terrace_context, terrace_context_destroy> {
public:
    /// Opens a device: "host", "host:4" for four threads, "cuda:0", "hip:0" (terrace_context_create). Returns when its threads are
    /// started. Errors: TERRACE_ERROR_DEVICE, TERRACE_ERROR_INVALID_ARGUMENT, TERRACE_ERROR_OUT_OF_MEMORY. From any thread.
    explicit context(detail::zstring device, status &result TERRACE_OR_THROW) : object(std::make_shared<detail::log>()) {
        create([&](terrace_context **out) { return terrace_context_create(device.c_str(), out); }, result);
    }

    /// Changes the number of threads (terrace_context_set_threads). Errors: TERRACE_ERROR_INVALID_ARGUMENT,
    /// TERRACE_ERROR_OUT_OF_MEMORY.
    void set_threads(std::int32_t threads, status &result TERRACE_OR_THROW) {
        finish(terrace_context_set_threads(get(), threads), result);
    }

    /// The number of threads (terrace_context_get_threads).
    std::int32_t threads(status &result TERRACE_OR_THROW) const {
        std::int32_t threads = 0;
        finish(terrace_context_get_threads(get(), &threads), result);
        return threads;
    }

    /// Sends log lines up to a level to `function(terrace_log_level, std::string_view)`, on the thread that calls the library
    /// (terrace_context_set_log). The function is kept until another one is set or the context and all that was made from it are gone. It
    /// must not use these objects. nullptr is silence. Errors: TERRACE_ERROR_INVALID_ARGUMENT.
    void set_log(terrace_log_level level, std::function<void(terrace_log_level, std::string_view)> function,
                 status &result TERRACE_OR_THROW) {
        std::unique_ptr<detail::log::sink> sink;
        if (function) sink = std::make_unique<detail::log::sink>(detail::log::sink{std::move(function), {}});
        const terrace_status code =
            terrace_context_set_log(get(), level, sink ? &detail::log::line : nullptr, sink.get());
        if (code == TERRACE_SUCCESS) log_->current = std::move(sink);
        finish(code, result);
    }

    /// Library and context as a JSON object (terrace_context_info).
    std::string info(status &result TERRACE_OR_THROW) const {
        std::string json;
        finish(detail::text([&](char *b, std::size_t l, std::size_t *n) { return terrace_context_info(get(), b, l, n); },
                            json),
               result);
        return json;
    }

    /// The sentence of the last call with this context, or with an object made from it, that was not a success (terrace_last_error); of
    /// this thread when the context is empty. May be called from a callback.
    std::string last_error() const { return detail::last_error(get()); }

    /// Makes a sentence the last error of the context, as if the library had found it (terrace_context_set_error). Always ends like a
    /// failed call, with `code`, which is negative.
    void set_error(terrace_status code, detail::zstring sentence, status &result TERRACE_OR_THROW) {
        finish(terrace_context_set_error(get(), code, sentence.c_str()), result);
    }

    /// Panics inside the library, to see that a build turns that into TERRACE_ERROR_INTERNAL (terrace_context_raise_panic).
    void raise_panic(status &result TERRACE_OR_THROW) { finish(terrace_context_raise_panic(get()), result); }

    /// Puts the work of a context on a GPU on a stream of the caller's: a cudaStream_t or hipStream_t, which must live until another is set or
    /// all objects of the context are gone; nullptr is a stream of the library's own (terrace_context_set_stream, which says what
    /// calls then wait for). Errors: TERRACE_ERROR_UNSUPPORTED on the host, TERRACE_ERROR_DEVICE.
    void set_stream(void *stream, status &result TERRACE_OR_THROW) {
        finish(terrace_context_set_stream(get(), stream), result);
    }

    /// Makes the context that of one rank of a communicator, which is duplicated; nullptr makes it one without ranks. Collective: every rank
    /// calls it (terrace_context_set_communicator). `include/terrace_mpi.h` has the same for an MPI_Comm. Errors: TERRACE_ERROR_NULL_ARGUMENT,
    /// TERRACE_ERROR_INVALID_ARGUMENT, TERRACE_ERROR_UNSUPPORTED on a GPU, TERRACE_ERROR_CALLBACK, TERRACE_ERROR_OUT_OF_MEMORY.
    void set_communicator(const terrace_communicator *communicator, status &result TERRACE_OR_THROW) {
        finish(terrace_context_set_communicator(get(), communicator), result);
    }

    /// Waits for everything that the objects of the context have begun on its device (terrace_context_synchronize). Errors: what failed
    /// there.
    void synchronize(status &result TERRACE_OR_THROW) { finish(terrace_context_synchronize(get()), result); }

    /// Limits the device memory of all objects of the context together; 0 is no limit (terrace_context_set_memory_limit). Errors:
    /// TERRACE_ERROR_INVALID_ARGUMENT, TERRACE_ERROR_UNSUPPORTED on the host.
    void set_memory_limit(std::int64_t bytes, status &result TERRACE_OR_THROW) {
        finish(terrace_context_set_memory_limit(get(), bytes), result);
    }

    /// Device memory of all objects of the context together; 0 on the host (terrace_context_get_memory).
    terrace::memory memory(status &result TERRACE_OR_THROW) const {
        terrace::memory m;
        finish(terrace_context_get_memory(get(), &m.used, &m.peak, &m.limit), result);
        return m;
    }
};

/// Communicators whose ranks are threads of this process, one for each rank; freed with this object (terrace_threads_communicator). Each is given
/// to a context of its own, by the thread that uses that.
class thread_ranks {
public:
    /// Of so many ranks (terrace_threads_communicator). Errors: TERRACE_ERROR_INVALID_ARGUMENT.
    explicit thread_ranks(std::int32_t size, status &result TERRACE_OR_THROW)
        : ranks_(static_cast<std::size_t>(size > 0 ? size : 0), terrace_communicator()) {
        const terrace_status code = terrace_threads_communicator(size, ranks_.data());
        if (code != TERRACE_SUCCESS) ranks_.clear();
        detail::conclude(code, result);
    }
    thread_ranks(const thread_ranks &) = delete;
    thread_ranks &operator=(const thread_ranks &) = delete;
    ~thread_ranks() {
        for (terrace_communicator &rank : ranks_) rank.free(rank.user);
    }

    /// How many ranks, and the communicator of one.
    std::size_t size() const noexcept { return ranks_.size(); }
    const terrace_communicator *operator[](std::size_t rank) const noexcept { return &ranks_[rank]; }

private:
    std::vector<terrace_communicator> ranks_;
};

/// How a matrix takes its arrays.
struct layout {
    /// TERRACE_COPY, or TERRACE_BORROW for arrays that live until the matrix and everything set up with it are gone; with `|
    /// TERRACE_SORTED` when columns ascend in each row. A temporary vector cannot be borrowed.
    terrace_matrix_flags flags = TERRACE_COPY;
    /// From which offsets and columns count: 0 or 1.
    std::int32_t base = 0;
    /// Columns, of blocks for BSR; as many as rows unless given.
    std::int64_t cols = -1;
};

/// A logically rectangular grid of cells, numbered with x fastest.
struct grid {
    /// Cells along x, y and z; a grid in two dimensions has 1 along z.
    std::array<std::int64_t, 3> dims = {1, 1, 1};
    /// Axes along which the last cell is a neighbour of the first, not 0.
    std::array<std::int32_t, 3> periodic = {0, 0, 0};
};

/// A sparse matrix. It belongs to no context: each call names the one whose threads or GPU do the work. The matrix may be destroyed after
/// set-up; arrays that it borrowed must stay.
class matrix : public detail::object<terrace_matrix, terrace_matrix_destroy> {
public:
    /// A matrix from compressed sparse rows (terrace_matrix_create_csr).
    ///
    /// - `row_offsets`: one more than rows. `columns`, `values`: at least as many as the last offset says.
    /// - `how`: copies or borrows, counts from 0 or 1, is square or not.
    ///
    /// Each array is on the host or in the memory of the context's GPU; sizes beside offsets in device memory are checked when the library has
    /// read them. Returns when the arrays are checked and copied. Errors:
    /// TERRACE_ERROR_SIZE_MISMATCH, TERRACE_ERROR_INVALID_ARGUMENT, TERRACE_ERROR_MATRIX_STRUCTURE, TERRACE_ERROR_MATRIX_VALUES,
    /// TERRACE_ERROR_UNSUPPORTED, TERRACE_ERROR_OUT_OF_MEMORY.
    static matrix csr(const context &on, index_array row_offsets, index_array columns, value_array values, const layout &how,
                      status &result TERRACE_OR_THROW) {
        return make(on, 1, false, row_offsets, columns, values, how, result);
    }
    /// A square matrix that copies arrays which count from 0.
    static matrix csr(const context &on, index_array row_offsets, index_array columns, value_array values,
                      status &result TERRACE_OR_THROW) {
        return make(on, 1, false, row_offsets, columns, values, layout(), result);
    }

    /// The rows of this rank of a square matrix. Collective: every rank of the context's communicator calls it
    /// (terrace_matrix_create_csr_distributed).
    ///
    /// - `total_rows`: rows of all ranks. `first_row`: the first of this rank, counted from `how.base`.
    /// - `row_offsets`: of the rows of this rank. `columns`: those of the whole matrix. All arrays are on the host.
    ///
    /// Errors, on every rank: as csr(), TERRACE_ERROR_NOT_SET_UP without a communicator, TERRACE_ERROR_CALLBACK.
    static matrix csr_distributed(const context &on, std::int64_t total_rows, std::int64_t first_row, index_array row_offsets,
                                  index_array columns, value_array values, const layout &how,
                                  status &result TERRACE_OR_THROW) {
        matrix made(detail::logs::of(on));
        const bool has_offsets = row_offsets.size > 0 && row_offsets.data;
        const std::int64_t needed = has_offsets ? detail::entries(row_offsets, how.base) : 0;
        const bool borrows = (how.flags & TERRACE_BORROW) != 0;
        // What is wrong here must be an error on the other ranks, too, so that it is left to the library.
        const bool fits = has_offsets && columns.size >= needed && values.size >= needed && !(borrows && values.is_temporary);
        made.borrows_ = borrows;
        made.create(
            [&](terrace_matrix **out) {
                return terrace_matrix_create_csr_distributed(on.get(), total_rows, first_row, row_offsets.size - 1, row_offsets.type,
                                                             fits ? row_offsets.data : nullptr, columns.type, columns.data,
                                                             values.type, values.data, how.base, how.flags, out);
            },
            result);
        if (fits)
            made.measure(on);
        else if (borrows && values.is_temporary)
            refuse_temporary(on, "values", result);
        else
            refuse_size(on, columns.size < needed ? "columns" : "values", columns.size < needed ? columns.size : values.size, needed,
                        result);
        return made;
    }

    /// The rows of blocks of this rank of a square matrix. Collective (terrace_matrix_create_bsr_distributed).
    ///
    /// - `total_block_rows`: rows of blocks of all ranks. `first_block_row`: the first of this rank, counted from `how.base`.
    /// - `block_size`: rows and columns of a block, 1 to 8.
    /// - `row_offsets`, `columns`: count blocks. `values`: block_size * block_size for each block, row by row; copied.
    ///
    /// Errors, on every rank: as csr_distributed(); TERRACE_ERROR_UNSUPPORTED for values to borrow.
    static matrix bsr_distributed(const context &on, std::int64_t total_block_rows, std::int64_t first_block_row,
                                  std::int32_t block_size, index_array row_offsets, index_array columns, value_array values,
                                  const layout &how, status &result TERRACE_OR_THROW) {
        matrix made(detail::logs::of(on));
        const bool has_offsets = row_offsets.size > 0 && row_offsets.data;
        const std::int64_t needed = has_offsets ? detail::entries(row_offsets, how.base) : 0;
        const std::int64_t of_values = needed * block_size * block_size;
        const bool fits = has_offsets && columns.size >= needed && values.size >= of_values;
        made.create(
            [&](terrace_matrix **out) {
                return terrace_matrix_create_bsr_distributed(on.get(), total_block_rows, first_block_row, row_offsets.size - 1,
                                                             block_size, row_offsets.type, fits ? row_offsets.data : nullptr,
                                                             columns.type, columns.data, values.type, values.data, how.base,
                                                             how.flags, out);
            },
            result);
        if (fits)
            made.measure(on);
        else
            refuse_size(on, columns.size < needed ? "columns" : "values", columns.size < needed ? columns.size : values.size,
                        columns.size < needed ? needed : of_values, result);
        return made;
    }

    /// The rows of this rank in two parts, as hypre's ParCSR and PETSc's MPIAIJ hold them. Collective; indices are counted from 0, and all
    /// arrays are copied (terrace_matrix_create_parcsr).
    ///
    /// - `total_rows`: rows of all ranks. `first_row`: the first of this rank.
    /// - `diagonal_offsets`, `diagonal_columns`, `diagonal_values`: columns that are rows of this rank, the first of which is column 0.
    /// - `off_diagonal_offsets`, `off_diagonal_columns`, `off_diagonal_values`: the others; column k is `column_map[k]` of the whole. All
    ///   offsets and columns have one type.
    ///
    /// Errors, on every rank: as csr_distributed().
    static matrix parcsr(const context &on, std::int64_t total_rows, std::int64_t first_row, index_array diagonal_offsets,
                         index_array diagonal_columns, value_array diagonal_values, index_array off_diagonal_offsets,
                         index_array off_diagonal_columns, value_array off_diagonal_values, index_array column_map,
                         status &result TERRACE_OR_THROW) {
        matrix made(detail::logs::of(on));
        const auto rows = diagonal_offsets.size - 1;
        const bool has_offsets = rows >= 0 && diagonal_offsets.data && off_diagonal_offsets.data && off_diagonal_offsets.size == rows + 1;
        const std::int64_t own = has_offsets ? detail::entries(diagonal_offsets, 0) : 0;
        const std::int64_t others = has_offsets ? detail::entries(off_diagonal_offsets, 0) : 0;
        const bool same = diagonal_columns.type == diagonal_offsets.type && off_diagonal_offsets.type == diagonal_offsets.type &&
                          off_diagonal_columns.type == diagonal_offsets.type && off_diagonal_values.type == diagonal_values.type;
        const std::int64_t of_own = diagonal_columns.size < diagonal_values.size ? diagonal_columns.size : diagonal_values.size;
        const std::int64_t of_others =
            off_diagonal_columns.size < off_diagonal_values.size ? off_diagonal_columns.size : off_diagonal_values.size;
        // What is wrong here must be an error on the other ranks, too, so that it is left to the library.
        const bool fits = has_offsets && same && of_own >= own && of_others >= others;
        made.create(
            [&](terrace_matrix **out) {
                return terrace_matrix_create_parcsr(on.get(), total_rows, first_row, rows, diagonal_offsets.type,
                                                    fits ? diagonal_offsets.data : nullptr, diagonal_columns.data,
                                                    off_diagonal_offsets.data, off_diagonal_columns.data, column_map.size, column_map.type,
                                                    column_map.data, diagonal_values.type, diagonal_values.data,
                                                    off_diagonal_values.data, out);
            },
            result);
        if (fits)
            made.measure(on);
        else if (has_offsets && same)
            refuse_size(on, of_own < own ? "the diagonal part" : "the off-diagonal part", of_own < own ? of_own : of_others,
                        of_own < own ? own : others, result);
        return made;
    }

    /// A matrix from compressed sparse rows of square blocks (terrace_matrix_create_bsr).
    ///
    /// - `block_size`: rows and columns of a block, 1 to 8.
    /// - `row_offsets`, `columns`: count blocks. `values`: block_size * block_size for each block, row by row.
    ///
    /// Otherwise as csr().
    static matrix bsr(const context &on, std::int32_t block_size, index_array row_offsets, index_array columns,
                      value_array values, const layout &how, status &result TERRACE_OR_THROW) {
        return make(on, block_size, true, row_offsets, columns, values, how, result);
    }
    /// A square matrix that copies arrays which count from 0.
    static matrix bsr(const context &on, std::int32_t block_size, index_array row_offsets, index_array columns,
                      value_array values, status &result TERRACE_OR_THROW) {
        return make(on, block_size, true, row_offsets, columns, values, layout(), result);
    }

    /// Scalar rows, scalar columns, stored values, and rows of a block; 0 when the matrix is empty (terrace_matrix_get_size).
    std::int64_t rows() const noexcept { return size().rows; }
    std::int64_t cols() const noexcept { return size().cols; }
    std::int64_t nonzeros() const noexcept { return size().nonzeros; }
    std::int32_t block_size() const noexcept { return size().block; }

    /// A matrix from entries in any order, of which those at the same place are added (terrace_matrix_create_coo).
    ///
    /// - `rows`, `cols`: of the matrix.
    /// - `row_indices`, `column_indices`: both of the same type, counted from `base`, which is 0 or 1; `values`: as many.
    ///
    /// Each array is on the host or in the memory of the context's GPU, and copied; the matrix is on the host. Returns when it is made.
    /// Errors: as csr().
    static matrix coo(const context &on, std::int64_t rows, std::int64_t cols, index_array row_indices, index_array column_indices,
                      value_array values, std::int32_t base, status &result TERRACE_OR_THROW) {
        matrix made(detail::logs::of(on));
        if (column_indices.size != row_indices.size) {
            refuse_size(on, "column_indices", column_indices.size, row_indices.size, result);
            return made;
        }
        if (values.size != row_indices.size) {
            refuse_size(on, "values", values.size, row_indices.size, result);
            return made;
        }
        if (column_indices.type != row_indices.type) {
            refuse(on, TERRACE_ERROR_INVALID_ARGUMENT, "row_indices and column_indices differ in their type", result);
            return made;
        }
        made.create(
            [&](terrace_matrix **out) {
                return terrace_matrix_create_coo(on.get(), rows, cols, row_indices.size, row_indices.type, row_indices.data,
                                                 column_indices.data, values.type, values.data, base, out);
            },
            result);
        made.measure(on);
        return made;
    }

    /// A matrix on a structured grid from a stencil, without any index (terrace_matrix_create_stencil).
    ///
    /// - `cells`: the grid. `dofs_per_cell`: unknowns of a cell, 1 to 8.
    /// - `offsets`: the steps along x, y and z to each neighbour, 32 bits, each -1, 0 or 1; three for each of 1 to 27 offsets.
    /// - `values`: one block of dofs_per_cell * dofs_per_cell values for each offset and cell; zero where it reaches outside of the grid.
    /// - `order`: TERRACE_BY_OFFSET, one array over all cells for each entry, or TERRACE_BY_CELL, all of a cell together.
    /// - `flags`: TERRACE_COPY, or TERRACE_BORROW for values by offset that live until the matrix and everything set up with it are gone.
    ///
    /// Returns when the values are checked. Errors: TERRACE_ERROR_SIZE_MISMATCH, TERRACE_ERROR_INVALID_ARGUMENT,
    /// TERRACE_ERROR_MATRIX_VALUES, TERRACE_ERROR_UNSUPPORTED, TERRACE_ERROR_OUT_OF_MEMORY.
    static matrix stencil(const context &on, const grid &cells, std::int32_t dofs_per_cell, index_array offsets,
                          value_array values, terrace_stencil_layout order, terrace_matrix_flags flags,
                          status &result TERRACE_OR_THROW) {
        matrix made(detail::logs::of(on));
        if ((flags & TERRACE_BORROW) != 0 && values.is_temporary) {
            refuse_temporary(on, "values", result);
            return made;
        }
        if (offsets.type != TERRACE_I32 || offsets.size % 3 != 0) {
            refuse(on, TERRACE_ERROR_INVALID_ARGUMENT, "offsets has not three elements of 32 bits for each offset", result);
            return made;
        }
        std::int64_t needed = offsets.size / 3;
        bool is_in_range = dofs_per_cell >= 1 && dofs_per_cell <= 8 && needed <= 27;
        for (const std::int64_t n : cells.dims) {
            // The library refuses grids with more unknowns than 31 bits.
            is_in_range = is_in_range && n >= 1 && needed <= 27 * (std::int64_t(1) << 31) / n;
            if (is_in_range) needed *= n;
        }
        needed *= is_in_range ? dofs_per_cell * dofs_per_cell : 1;
        if (is_in_range && values.size != needed) {
            refuse_size(on, "values", values.size, needed, result);
            return made;
        }
        made.borrows_ = (flags & TERRACE_BORROW) != 0;
        made.create(
            [&](terrace_matrix **out) {
                return terrace_matrix_create_stencil(on.get(), cells.dims.data(), cells.periodic.data(), dofs_per_cell,
                                                     narrow(offsets.size / 3), static_cast<const std::int32_t *>(offsets.data),
                                                     values.type, values.data, order, flags, out);
            },
            result);
        made.measure(on);
        return made;
    }

    /// Says that the unknowns of a matrix in rows are the cells of a structured grid, for the next set-up (terrace_matrix_set_grid). Errors:
    /// TERRACE_ERROR_INVALID_ARGUMENT, TERRACE_ERROR_SIZE_MISMATCH, TERRACE_ERROR_MATRIX_STRUCTURE, TERRACE_ERROR_OUT_OF_MEMORY. Nobody else
    /// may use the matrix meanwhile.
    void set_grid(const context &on, const grid &cells, status &result TERRACE_OR_THROW) {
        end(on, terrace_matrix_set_grid(on.get(), get(), cells.dims.data(), cells.periodic.data()), result);
    }

    /// Replaces the values and keeps the structure; solvers and hierarchies take them over by update() (terrace_matrix_update_values).
    ///
    /// - `values`: all that the matrix stores, in the order and the format of creation, on the host or in the memory of the context's GPU.
    ///   Copied or borrowed as at creation; a temporary vector cannot be borrowed.
    ///
    /// Returns when they are checked; nothing has changed on failure. Errors: TERRACE_ERROR_SIZE_MISMATCH, TERRACE_ERROR_INVALID_ARGUMENT,
    /// TERRACE_ERROR_MATRIX_VALUES, TERRACE_ERROR_OUT_OF_MEMORY. Nobody else may use the matrix meanwhile.
    void update_values(const context &on, value_array values, status &result TERRACE_OR_THROW) {
        if (borrows_ && values.is_temporary) return refuse_temporary(on, "values", result);
        end(on, terrace_matrix_update_values(on.get(), get(), values.type, values.data, values.size), result);
    }

    /// Vectors that the matrix maps to almost nothing, for the next set-up (terrace_matrix_set_near_null_space).
    ///
    /// - `dofs_per_node`: unknowns of a node, 1 to 8; the block size when that is more than 1.
    /// - `vectors`: 1 to 8 of rows() elements, one after the other, on the host or in the memory of the context's GPU; copied. None
    ///   removes those that were given, and coordinates.
    ///
    /// Errors: TERRACE_ERROR_SIZE_MISMATCH, TERRACE_ERROR_INVALID_ARGUMENT, TERRACE_ERROR_OUT_OF_MEMORY. Nobody else may use the matrix
    /// meanwhile.
    void set_near_null_space(const context &on, std::int32_t dofs_per_node, value_array vectors,
                             status &result TERRACE_OR_THROW) {
        if (!is_double(on, "vectors", vectors, result)) return;
        const std::int64_t count = rows() > 0 ? vectors.size / rows() : 0;
        if (get() && vectors.size != count * rows()) return refuse_size(on, "vectors", vectors.size, (count + 1) * rows(), result);
        end(on,
            terrace_matrix_set_near_null_space(on.get(), get(), dofs_per_node, narrow(count),
                                               static_cast<const double *>(vectors.data)),
            result);
    }

    /// The coordinates of the nodes of an elasticity problem, from which set-up knows the rigid-body modes
    /// (terrace_matrix_set_coordinates).
    ///
    /// - `dimension`: 2 or 3, the unknowns of a node.
    /// - `coordinates`: x0 y0 z0 x1 y1 z1 ..., rows() elements, on the host or in the memory of the context's GPU; copied.
    ///
    /// Errors and threads: as set_near_null_space().
    void set_coordinates(const context &on, std::int32_t dimension, value_array coordinates, status &result TERRACE_OR_THROW) {
        if (!is_double(on, "coordinates", coordinates, result)) return;
        if (get() && coordinates.size != rows()) return refuse_size(on, "coordinates", coordinates.size, rows(), result);
        const std::int64_t nodes = dimension > 0 ? coordinates.size / dimension : 0;
        end(on,
            terrace_matrix_set_coordinates(on.get(), get(), dimension, nodes,
                                           static_cast<const double *>(coordinates.data)),
            result);
    }

    /// The function that each unknown belongs to, whatever their numbering, for the next set-up (terrace_matrix_set_functions).
    ///
    /// - `count`: how many functions there are, 1 to 64; 0 removes those that were given.
    /// - `functions`: rows() elements of 32 bits from 0 to `count` - 1, on the host or in the memory of the context's GPU; copied.
    ///
    /// Errors and threads: as set_near_null_space().
    void set_functions(const context &on, std::int32_t count, index_array functions, status &result TERRACE_OR_THROW) {
        if (count != 0 && functions.type != TERRACE_I32)
            return refuse(on, TERRACE_ERROR_INVALID_ARGUMENT, "functions has elements of 64 bits; accepted: 32 bits", result);
        if (get() && count != 0 && functions.size != rows()) return refuse_size(on, "functions", functions.size, rows(), result);
        end(on, terrace_matrix_set_functions(on.get(), get(), count, static_cast<const std::int32_t *>(functions.data)), result);
    }

    /// y = alpha A x + beta y (terrace_matrix_apply).
    ///
    /// - `x`, `y`: cols() and rows() elements, both double or both float, not overlapping; both on the host, or both in the memory of the
    ///   context's GPU. y is not read when beta is 0.
    ///
    /// Returns when y is written, or, in device memory with a stream of the caller's, when that is under way. Errors:
    /// TERRACE_ERROR_SIZE_MISMATCH, TERRACE_ERROR_INVALID_ARGUMENT, TERRACE_ERROR_OUT_OF_MEMORY, TERRACE_ERROR_DEVICE.
    void apply(const context &on, double alpha, value_array x, double beta, value_buffer y, status &result TERRACE_OR_THROW) const {
        if (!fits(on, x, cols(), y, rows(), result)) return;
        end(on, terrace_matrix_apply(on.get(), get(), x.type, alpha, x.data, beta, y.data), result);
    }
    /// y = alpha A^T x + beta y (terrace_matrix_apply_transposed); x has rows() and y cols() elements. Otherwise as apply().
    void apply_transposed(const context &on, double alpha, value_array x, double beta, value_buffer y,
                          status &result TERRACE_OR_THROW) const {
        if (!fits(on, x, rows(), y, cols(), result)) return;
        end(on, terrace_matrix_apply_transposed(on.get(), get(), x.type, alpha, x.data, beta, y.data), result);
    }

    /// The product of two matrices, columns ascending in each row, in the memory of the context (terrace_matrix_multiply). Returns when
    /// it is computed, or under way on a stream of the caller's. Errors: TERRACE_ERROR_SIZE_MISMATCH, TERRACE_ERROR_OUT_OF_MEMORY,
    /// TERRACE_ERROR_DEVICE.
    static matrix multiply(const context &on, const matrix &left, const matrix &right, status &result TERRACE_OR_THROW) {
        matrix product(detail::logs::of(on));
        product.create(
            [&](terrace_matrix **out) { return terrace_matrix_multiply(on.get(), left.get(), right.get(), out); }, result);
        product.measure(on);
        return product;
    }

    /// The transpose, columns ascending in each row (terrace_matrix_transpose). Blocking and errors as multiply().
    matrix transpose(const context &on, status &result TERRACE_OR_THROW) const {
        matrix transpose(detail::logs::of(on));
        transpose.create([&](terrace_matrix **out) { return terrace_matrix_transpose(on.get(), get(), out); }, result);
        transpose.measure(on);
        return transpose;
    }

    /// Copies the arrays of the matrix into those of the caller (terrace_matrix_get_arrays).
    ///
    /// - `row_offsets`: one more than the rows of blocks. `columns`: an element for each block. `values`: nonzeros() elements, to whose
    ///   format values are rounded. Each is on the host or in the memory of the context's GPU; nullptr for what is not wanted.
    /// - `base`: 0 or 1, from which offsets and columns count.
    ///
    /// Returns when they are written, or, in device memory with a stream of the caller's, when that is under way. Errors:
    /// TERRACE_ERROR_SIZE_MISMATCH, TERRACE_ERROR_INVALID_ARGUMENT, TERRACE_ERROR_OUT_OF_MEMORY, TERRACE_ERROR_DEVICE.
    void get_arrays(const context &on, index_buffer row_offsets, index_buffer columns, value_buffer values, std::int32_t base,
                    status &result TERRACE_OR_THROW) const {
        const std::int64_t block = get() ? block_size() : 1;
        const std::int64_t offsets = rows() / block + 1, entries = nonzeros() / (block * block);
        if (get() && row_offsets.data && row_offsets.size != offsets)
            return refuse_size(on, "row_offsets", row_offsets.size, offsets, result);
        if (get() && columns.data && columns.size != entries) return refuse_size(on, "columns", columns.size, entries, result);
        if (get() && values.data && values.size != nonzeros())
            return refuse_size(on, "values", values.size, nonzeros(), result);
        end(on,
            terrace_matrix_get_arrays(on.get(), get(), row_offsets.type, row_offsets.data, columns.type, columns.data,
                                      values.type, values.data, base),
            result);
    }

private:
    struct extent {
        std::int64_t rows = 0, cols = 0, nonzeros = 0;
        std::int32_t block = 0;
    };
    extent extent_;
    bool borrows_ = false;

    explicit matrix(std::shared_ptr<detail::log> log) : object(std::move(log)) {}

    /// A size never changes; that of a matrix that was moved from is 0.
    extent size() const noexcept { return get() ? extent_ : extent(); }

    static matrix make(const context &on, std::int32_t block_size, bool blocks, index_array row_offsets, index_array columns,
                       value_array values, const layout &how, status &result) {
        matrix made(detail::logs::of(on));
        const bool borrows = (how.flags & TERRACE_BORROW) != 0;
        const std::int64_t per_block = static_cast<std::int64_t>(block_size) * block_size;
        for (const auto &[name, is_temporary] : {std::pair{"row_offsets", row_offsets.is_temporary},
                                                 std::pair{"columns", columns.is_temporary},
                                                 std::pair{"values", values.is_temporary}}) {
            if (borrows && is_temporary) {
                refuse_temporary(on, name, result);
                return made;
            }
        }
        if (row_offsets.size < 1) {
            refuse(on, TERRACE_ERROR_SIZE_MISMATCH, "row_offsets has 0 elements; 1 or more are needed", result);
            return made;
        }
        if (row_offsets.data && !row_offsets.is_on_device) {
            const std::int64_t needed = detail::entries(row_offsets, how.base);
            if (columns.size < needed) {
                refuse_size(on, "columns", columns.size, needed, result);
                return made;
            }
            // The library refuses blocks of other sizes.
            if (block_size >= 1 && block_size <= 8 && values.size < needed * per_block) {
                refuse_size(on, "values", values.size, needed * per_block, result);
                return made;
            }
        }
        const std::int64_t rows = row_offsets.size - 1, cols = how.cols < 0 ? rows : how.cols;
        made.borrows_ = borrows;
        made.create(
            [&](terrace_matrix **out) {
                return blocks ? terrace_matrix_create_bsr(on.get(), rows, cols, block_size, row_offsets.type,
                                                          row_offsets.data, columns.type, columns.data, values.type,
                                                          values.data, how.base, how.flags, out)
                              : terrace_matrix_create_csr(on.get(), rows, cols, row_offsets.type, row_offsets.data,
                                                          columns.type, columns.data, values.type, values.data, how.base,
                                                          how.flags, out);
            },
            result);
        made.measure(on);
        // Of offsets in device memory only the library knows the last one.
        if (made && columns.size < made.nonzeros() / per_block)
            made.drop(on, "columns", columns.size, made.nonzeros() / per_block, result);
        else if (made && values.size < made.nonzeros())
            made.drop(on, "values", values.size, made.nonzeros(), result);
        return made;
    }

    void drop(const context &on, const char *argument, std::int64_t given, std::int64_t needed, status &result) {
        handle_.reset();
        refuse_size(on, argument, given, needed, result);
    }

    void measure(const context &on) noexcept {
        if (get()) terrace_matrix_get_size(on.get(), get(), &extent_.rows, &extent_.cols, &extent_.nonzeros, &extent_.block);
    }

    static std::int32_t narrow(std::int64_t count) noexcept {
        return count > INT32_MAX ? INT32_MAX : static_cast<std::int32_t>(count);
    }
    static void end(const context &on, terrace_status code, status &result) {
        if (const auto &log = detail::logs::of(on)) log->release();
        detail::conclude(code, result);
    }
    static void refuse(const context &on, terrace_status code, const std::string &sentence, status &result) {
        detail::conclude(terrace_context_set_error(on.get(), code, sentence.c_str()), result);
    }
    static void refuse_size(const context &on, const char *argument, std::int64_t given, std::int64_t needed, status &result) {
        refuse(on, TERRACE_ERROR_SIZE_MISMATCH, detail::misfit(argument, given, needed), result);
    }
    static void refuse_temporary(const context &on, const char *argument, status &result) {
        refuse(on, TERRACE_ERROR_INVALID_ARGUMENT,
               std::string(argument) + " is a temporary, which cannot be borrowed; accepted: an array that outlives the matrix",
               result);
    }
    /// Whether x and y have these lengths and the same format.
    bool fits(const context &on, const value_array &x, std::int64_t of_x, const value_buffer &y, std::int64_t of_y,
              status &result) const {
        if (get() && x.size != of_x)
            refuse_size(on, "x", x.size, of_x, result);
        else if (get() && y.size != of_y)
            refuse_size(on, "y", y.size, of_y, result);
        else if (x.type != y.type)
            refuse(on, TERRACE_ERROR_INVALID_ARGUMENT, "x and y differ in their number format", result);
        else
            return true;
        return false;
    }
    static bool is_double(const context &on, const char *argument, const value_array &values, status &result) {
        if (values.type == TERRACE_F64) return true;
        refuse(on, TERRACE_ERROR_INVALID_ARGUMENT, std::string(argument) + " is float; accepted: double", result);
        return false;
    }
};

/// A set of option values; what was not set has its default. Solvers and hierarchies copy it.
class config : public detail::object<terrace_config, terrace_config_destroy> {
public:
    /// All defaults (terrace_config_create).
    explicit config(const context &on, status &result TERRACE_OR_THROW) : object(detail::logs::of(on)) {
        create([&](terrace_config **out) { return terrace_config_create(on.get(), out); }, result);
    }

    /// Sets any option from text (terrace_config_set_str). Nothing is changed on failure. Errors, here and below:
    /// TERRACE_ERROR_UNKNOWN_OPTION, TERRACE_ERROR_OPTION_VALUE, TERRACE_ERROR_UNSUPPORTED.
    void set(detail::zstring key, const char *value, status &result TERRACE_OR_THROW) {
        finish(terrace_config_set_str(get(), key.c_str(), value), result);
    }
    void set(detail::zstring key, const std::string &value, status &result TERRACE_OR_THROW) {
        set(key, value.c_str(), result);
    }
    /// Sets an option that accepts numbers: whole (terrace_config_set_int) or real (terrace_config_set_real).
    template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number> && !std::is_same_v<Number, bool>>>
    void set(detail::zstring key, Number value, status &result TERRACE_OR_THROW) {
        if constexpr (std::is_integral_v<Number>)
            finish(terrace_config_set_int(get(), key.c_str(), static_cast<std::int64_t>(value)), result);
        else
            finish(terrace_config_set_real(get(), key.c_str(), static_cast<double>(value)), result);
    }

    /// The precision of one part of a level (terrace_config_set_level). Errors: TERRACE_ERROR_INVALID_ARGUMENT.
    void set_level(std::int32_t level, terrace_level_part part, terrace_type precision, status &result TERRACE_OR_THROW) {
        finish(terrace_config_set_level(get(), level, part, precision), result);
    }

    /// The sweeps of a level before and after the coarse correction (terrace_config_set_level_sweeps). Errors:
    /// TERRACE_ERROR_INVALID_ARGUMENT, TERRACE_ERROR_OPTION_VALUE.
    void set_level_sweeps(std::int32_t level, std::int32_t pre, std::int32_t post, status &result TERRACE_OR_THROW) {
        finish(terrace_config_set_level_sweeps(get(), level, pre, post), result);
    }

    /// Sets every option of a JSON object, or nothing when any of it is refused (terrace_config_load_json). Errors: those of set(), and
    /// TERRACE_ERROR_PARSE.
    void load_json(detail::zstring json, status &result TERRACE_OR_THROW) {
        finish(terrace_config_load_json(get(), json.c_str()), result);
    }

    /// Sets every option of a preset, like "elasticity" (terrace_config_load_preset). Errors: TERRACE_ERROR_OPTION_VALUE.
    void load_preset(detail::zstring name, status &result TERRACE_OR_THROW) {
        finish(terrace_config_load_preset(get(), name.c_str()), result);
    }

    /// The value of an option as text: what was set, or its default (terrace_config_get_str). Errors: TERRACE_ERROR_UNKNOWN_OPTION.
    std::string get_text(detail::zstring key, status &result TERRACE_OR_THROW) const {
        std::string value;
        finish(detail::text(
                   [&](char *b, std::size_t l, std::size_t *n) { return terrace_config_get_str(get(), key.c_str(), b, l, n); },
                   value),
               result);
        return value;
    }

    /// The value of an option that is a whole number (terrace_config_get_int). Errors: TERRACE_ERROR_UNKNOWN_OPTION,
    /// TERRACE_ERROR_OPTION_VALUE (it is no whole number).
    std::int64_t get_int(detail::zstring key, status &result TERRACE_OR_THROW) const {
        std::int64_t value = 0;
        finish(terrace_config_get_int(get(), key.c_str(), &value), result);
        return value;
    }

    /// The value of an option that is a number (terrace_config_get_real). Errors: as get_int().
    double get_real(detail::zstring key, status &result TERRACE_OR_THROW) const {
        double value = 0;
        finish(terrace_config_get_real(get(), key.c_str(), &value), result);
        return value;
    }

    /// What was set, as a JSON object (terrace_config_to_json).
    std::string to_json(status &result TERRACE_OR_THROW) const {
        std::string json;
        finish(detail::text([&](char *b, std::size_t l, std::size_t *n) { return terrace_config_to_json(get(), b, l, n); },
                            json),
               result);
        return json;
    }
};

namespace detail {
/// Null in C means all defaults; an empty config does not.
inline bool is_set(const context &on, const config &options, status &result) {
    if (options) return true;
    conclude(terrace_context_set_error(on.get(), TERRACE_ERROR_NULL_ARGUMENT, "config is empty: it was moved from or not created"),
             result);
    return false;
}
} // namespace detail

/// A snapshot of what a set-up and the last solve did. terrace.h lists the keys.
class report : public detail::object<terrace_report, terrace_report_destroy> {
public:
    /// A whole number (terrace_report_get_int).
    ///
    /// - `key`: like "levels", "iterations", "rows".
    /// - `index`: the level, 0 the finest, or the right-hand side, for keys of those; else not used.
    ///
    /// Errors, here and below: TERRACE_ERROR_INVALID_ARGUMENT for an unknown key, an index out of range or a key of another type.
    std::int64_t get_int(detail::zstring key, std::int64_t index, status &result TERRACE_OR_THROW) const {
        std::int64_t value = 0;
        finish(terrace_report_get_int(get(), key.c_str(), index, &value), result);
        return value;
    }
    std::int64_t get_int(detail::zstring key, status &result TERRACE_OR_THROW) const { return get_int(key, 0, result); }

    /// A number, whole or real (terrace_report_get_real). Times are in seconds.
    double get_real(detail::zstring key, std::int64_t index, status &result TERRACE_OR_THROW) const {
        double value = 0.0;
        finish(terrace_report_get_real(get(), key.c_str(), index, &value), result);
        return value;
    }
    double get_real(detail::zstring key, status &result TERRACE_OR_THROW) const { return get_real(key, 0, result); }

    /// A text (terrace_report_get_str).
    std::string get_str(detail::zstring key, std::int64_t index, status &result TERRACE_OR_THROW) const {
        std::string value;
        finish(detail::text([&](char *b, std::size_t l,
                                std::size_t *n) { return terrace_report_get_str(get(), key.c_str(), index, b, l, n); },
                            value),
               result);
        return value;
    }
    std::string get_str(detail::zstring key, status &result TERRACE_OR_THROW) const { return get_str(key, 0, result); }

    /// The residual norms of a right-hand side over the norm of it: before the first iteration, and after each
    /// (terrace_report_get_history).
    std::vector<double> history(std::int64_t right_hand_side, status &result TERRACE_OR_THROW) const {
        std::vector<double> norms;
        std::int64_t needed = 0;
        terrace_status code = terrace_report_get_history(get(), right_hand_side, nullptr, 0, &needed);
        if (code == TERRACE_SUCCESS) {
            norms.resize(static_cast<std::size_t>(needed));
            code = terrace_report_get_history(get(), right_hand_side, norms.data(), needed, nullptr);
        }
        finish(code, result);
        return norms;
    }
    std::vector<double> history(status &result TERRACE_OR_THROW) const { return history(0, result); }

    /// A summary for people (terrace_report_to_text).
    std::string to_text(status &result TERRACE_OR_THROW) const {
        std::string text;
        finish(detail::text([&](char *b, std::size_t l, std::size_t *n) { return terrace_report_to_text(get(), b, l, n); },
                            text),
               result);
        return text;
    }

    /// Everything as a JSON object (terrace_report_to_json).
    std::string to_json(status &result TERRACE_OR_THROW) const {
        std::string json;
        finish(detail::text([&](char *b, std::size_t l, std::size_t *n) { return terrace_report_to_json(get(), b, l, n); },
                            json),
               result);
        return json;
    }

private:
    friend class amg;
    friend class fsai;
    friend class solver;
    explicit report(std::shared_ptr<detail::log> log) : object(std::move(log)) {}
};

/// A multigrid hierarchy, set up for a matrix.
class amg : public detail::object<terrace_amg, terrace_amg_destroy> {
public:
    /// Builds the hierarchy of a square matrix (terrace_amg_setup). The matrix may be destroyed afterwards, arrays that it borrowed must
    /// stay. Returns when it is built. Errors: TERRACE_ERROR_SIZE_MISMATCH, TERRACE_ERROR_MATRIX_VALUES, TERRACE_ERROR_OPTION_VALUE,
    /// TERRACE_ERROR_UNSUPPORTED, TERRACE_ERROR_PRECISION_LOST, TERRACE_ERROR_OUT_OF_MEMORY, TERRACE_ERROR_DEVICE.
    amg(const context &on, const matrix &a, const config &options, status &result TERRACE_OR_THROW)
        : object(detail::logs::of(on)) {
        if (detail::is_set(on, options, result)) setup(on, a, options.get(), result);
    }
    /// With default options.
    amg(const context &on, const matrix &a, status &result TERRACE_OR_THROW) : object(detail::logs::of(on)) {
        setup(on, a, nullptr, result);
    }

    /// Takes over new values of the matrix; the hierarchy is as before on failure (terrace_amg_update). Returns when it is done. Errors:
    /// TERRACE_ERROR_MATRIX_VALUES, TERRACE_ERROR_PRECISION_LOST, TERRACE_ERROR_OUT_OF_MEMORY, TERRACE_ERROR_DEVICE.
    void update(status &result TERRACE_OR_THROW) { finish(terrace_amg_update(get()), result); }

    /// One cycle from zero, x = M b (terrace_amg_apply).
    ///
    /// - `b`, `x`: rows() elements, both double or both float, not overlapping; both on the host, or both in the memory of the context's GPU.
    ///
    /// Returns when x is written, or, in device memory with a stream of the caller's, when that is under way. Errors:
    /// TERRACE_ERROR_SIZE_MISMATCH, TERRACE_ERROR_INVALID_ARGUMENT, TERRACE_ERROR_PRECISION_LOST, TERRACE_ERROR_OUT_OF_MEMORY,
    /// TERRACE_ERROR_DEVICE.
    void apply(value_array b, value_buffer x, status &result TERRACE_OR_THROW) {
        apply_by(terrace_amg_apply, b, x, result);
    }

    /// One cycle of the preconditioner of the transposed matrix, x ~ A^-T b (terrace_amg_apply_transposed): of a symmetric matrix as apply(),
    /// else of a second hierarchy, which the first call sets up. Otherwise as apply(). Errors: those of apply() and of the constructor.
    void apply_transposed(value_array b, value_buffer x, status &result TERRACE_OR_THROW) {
        apply_by(terrace_amg_apply_transposed, b, x, result);
    }

    /// Scalar rows of the matrix (terrace_amg_get_rows).
    std::int64_t rows(status &result TERRACE_OR_THROW) const {
        std::int64_t rows = 0;
        finish(terrace_amg_get_rows(get(), &rows), result);
        return rows;
    }

    /// The value of an option as the last set-up used it: what was set, or what `auto` became (terrace_amg_get_option). Errors:
    /// TERRACE_ERROR_UNKNOWN_OPTION.
    std::string option(detail::zstring key, status &result TERRACE_OR_THROW) const {
        std::string value;
        finish(detail::text([&](char *b, std::size_t l, std::size_t *n) { return terrace_amg_get_option(get(), key.c_str(), b, l, n); },
                            value),
               result);
        return value;
    }

    /// What set-up did (terrace_amg_report).
    terrace::report report(status &result TERRACE_OR_THROW) const {
        terrace::report made(log_);
        made.create([&](terrace_report **out) { return terrace_amg_report(get(), out); }, result);
        return made;
    }

    /// As context::set_error (terrace_amg_set_error).
    void set_error(terrace_status code, detail::zstring sentence, status &result TERRACE_OR_THROW) {
        finish(terrace_amg_set_error(get(), code, sentence.c_str()), result);
    }

    /// Bytes that a hierarchy of the matrix would hold, on a GPU the most device memory at one time (terrace_amg_memory_estimate). Returns
    /// when a sample was set up. Errors: as the constructor.
    static std::int64_t memory_estimate(const context &on, const matrix &a, const config &options,
                                        status &result TERRACE_OR_THROW) {
        return detail::is_set(on, options, result) ? estimate(on, a, options.get(), result) : 0;
    }
    /// With default options.
    static std::int64_t memory_estimate(const context &on, const matrix &a, status &result TERRACE_OR_THROW) {
        return estimate(on, a, nullptr, result);
    }

private:
    template <class Apply>
    void apply_by(Apply apply, value_array b, value_buffer x, status &result) {
        std::int64_t rows = 0;
        terrace_status code = terrace_amg_get_rows(get(), &rows);
        if (code == TERRACE_SUCCESS && b.size != rows) code = refuse(detail::misfit("b", b.size, rows));
        if (code == TERRACE_SUCCESS && x.size != rows) code = refuse(detail::misfit("x", x.size, rows));
        if (code == TERRACE_SUCCESS && b.type != x.type)
            code = terrace_amg_set_error(get(), TERRACE_ERROR_INVALID_ARGUMENT, "b and x differ in their number format");
        if (code == TERRACE_SUCCESS) code = apply(get(), b.type, b.data, x.data);
        finish(code, result);
    }
    void setup(const context &on, const matrix &a, const terrace_config *options, status &result) {
        create([&](terrace_amg **out) { return terrace_amg_setup(on.get(), a.get(), options, out); }, result);
    }
    static std::int64_t estimate(const context &on, const matrix &a, const terrace_config *options, status &result) {
        std::int64_t bytes = 0;
        const terrace_status code = terrace_amg_memory_estimate(on.get(), a.get(), options, &bytes);
        if (const auto &log = detail::logs::of(on)) log->release();
        detail::conclude(code, result);
        return bytes;
    }
    terrace_status refuse(const std::string &sentence) {
        return terrace_amg_set_error(get(), TERRACE_ERROR_SIZE_MISMATCH, sentence.c_str());
    }
};

/// A factorised sparse approximate inverse (FSAI), set up for a matrix.
class fsai : public detail::object<terrace_fsai, terrace_fsai_destroy> {
public:
    /// Computes the factors by the options "fsai.*" (terrace_fsai_setup). The matrix may be destroyed afterwards, arrays that it borrowed
    /// must stay. Returns when it is computed. Errors: TERRACE_ERROR_SIZE_MISMATCH, TERRACE_ERROR_MATRIX_VALUES, TERRACE_ERROR_OPTION_VALUE,
    /// TERRACE_ERROR_UNSUPPORTED, TERRACE_ERROR_PRECISION_LOST, TERRACE_ERROR_OUT_OF_MEMORY, TERRACE_ERROR_DEVICE.
    fsai(const context &on, const matrix &a, const config &options, status &result TERRACE_OR_THROW)
        : object(detail::logs::of(on)) {
        if (detail::is_set(on, options, result)) setup(on, a, options.get(), result);
    }
    /// With default options.
    fsai(const context &on, const matrix &a, status &result TERRACE_OR_THROW) : object(detail::logs::of(on)) {
        setup(on, a, nullptr, result);
    }

    /// Takes over new values of the matrix on the same pattern; as before on failure (terrace_fsai_update). Returns when it is done. Errors:
    /// TERRACE_ERROR_MATRIX_VALUES, TERRACE_ERROR_PRECISION_LOST, TERRACE_ERROR_OUT_OF_MEMORY, TERRACE_ERROR_DEVICE.
    void update(status &result TERRACE_OR_THROW) { finish(terrace_fsai_update(get()), result); }

    /// One application, x = M b (terrace_fsai_apply).
    ///
    /// - `b`, `x`: rows() elements, both double or both float, not overlapping; both on the host, or both in the memory of the context's GPU.
    ///
    /// Returns when x is written, or, in device memory with a stream of the caller's, when that is under way. Errors:
    /// TERRACE_ERROR_SIZE_MISMATCH, TERRACE_ERROR_INVALID_ARGUMENT, TERRACE_ERROR_PRECISION_LOST, TERRACE_ERROR_OUT_OF_MEMORY,
    /// TERRACE_ERROR_DEVICE.
    void apply(value_array b, value_buffer x, status &result TERRACE_OR_THROW) {
        apply_by(terrace_fsai_apply, b, x, result);
    }

    /// One application of the transpose, x = M^T b (terrace_fsai_apply_transposed): of a symmetric matrix as apply(), else with factors that
    /// the first call computes. Otherwise as apply(). Errors: those of apply() and of update().
    void apply_transposed(value_array b, value_buffer x, status &result TERRACE_OR_THROW) {
        apply_by(terrace_fsai_apply_transposed, b, x, result);
    }

    /// Scalar rows of the matrix (terrace_fsai_get_rows).
    std::int64_t rows(status &result TERRACE_OR_THROW) const {
        std::int64_t rows = 0;
        finish(terrace_fsai_get_rows(get(), &rows), result);
        return rows;
    }

    /// The value of an option as the last set-up used it: what was set, or what `auto` became (terrace_fsai_get_option). Errors:
    /// TERRACE_ERROR_UNKNOWN_OPTION.
    std::string option(detail::zstring key, status &result TERRACE_OR_THROW) const {
        std::string value;
        finish(detail::text([&](char *b, std::size_t l, std::size_t *n) { return terrace_fsai_get_option(get(), key.c_str(), b, l, n); },
                            value),
               result);
        return value;
    }

    /// What set-up did (terrace_fsai_report).
    terrace::report report(status &result TERRACE_OR_THROW) const {
        terrace::report made(log_);
        made.create([&](terrace_report **out) { return terrace_fsai_report(get(), out); }, result);
        return made;
    }

    /// As context::set_error (terrace_fsai_set_error).
    void set_error(terrace_status code, detail::zstring sentence, status &result TERRACE_OR_THROW) {
        finish(terrace_fsai_set_error(get(), code, sentence.c_str()), result);
    }

    /// Bytes that an FSAI of the matrix would hold, on a GPU the most device memory at one time (terrace_fsai_memory_estimate). Returns
    /// when a sample was set up. Errors: as the constructor.
    static std::int64_t memory_estimate(const context &on, const matrix &a, const config &options,
                                        status &result TERRACE_OR_THROW) {
        return detail::is_set(on, options, result) ? estimate(on, a, options.get(), result) : 0;
    }
    /// With default options.
    static std::int64_t memory_estimate(const context &on, const matrix &a, status &result TERRACE_OR_THROW) {
        return estimate(on, a, nullptr, result);
    }

private:
    template <class Apply>
    void apply_by(Apply apply, value_array b, value_buffer x, status &result) {
        std::int64_t rows = 0;
        terrace_status code = terrace_fsai_get_rows(get(), &rows);
        if (code == TERRACE_SUCCESS && b.size != rows) code = refuse(detail::misfit("b", b.size, rows));
        if (code == TERRACE_SUCCESS && x.size != rows) code = refuse(detail::misfit("x", x.size, rows));
        if (code == TERRACE_SUCCESS && b.type != x.type)
            code = terrace_fsai_set_error(get(), TERRACE_ERROR_INVALID_ARGUMENT, "b and x differ in their number format");
        if (code == TERRACE_SUCCESS) code = apply(get(), b.type, b.data, x.data);
        finish(code, result);
    }
    void setup(const context &on, const matrix &a, const terrace_config *options, status &result) {
        create([&](terrace_fsai **out) { return terrace_fsai_setup(on.get(), a.get(), options, out); }, result);
    }
    static std::int64_t estimate(const context &on, const matrix &a, const terrace_config *options, status &result) {
        std::int64_t bytes = 0;
        const terrace_status code = terrace_fsai_memory_estimate(on.get(), a.get(), options, &bytes);
        if (const auto &log = detail::logs::of(on)) log->release();
        detail::conclude(code, result);
        return bytes;
    }
    terrace_status refuse(const std::string &sentence) {
        return terrace_fsai_set_error(get(), TERRACE_ERROR_SIZE_MISMATCH, sentence.c_str());
    }
};

namespace detail {

/// An operator or preconditioner of the caller's, with the number format of its vectors.
struct callback {
    explicit callback(terrace_type type) : type(type) {}
    virtual ~callback() = default;
    terrace_type type;
    thrown exception;
};

template <class T, class Function>
struct callback_of final : callback {
    explicit callback_of(Function &&function) : callback(type_of<T>), function(std::move(function)) {}
    Function function;

    static std::int32_t call(std::int64_t n, const void *x, void *y, void *user) {
        auto &self = *static_cast<callback_of *>(user);
        return self.exception.keep([&]() -> int {
            const span<const T> in(static_cast<const T *>(x), static_cast<std::size_t>(n));
            const span<T> out(static_cast<T *>(y), static_cast<std::size_t>(n));
            if constexpr (std::is_void_v<std::invoke_result_t<Function &, span<const T>, span<T>>>) {
                self.function(in, out);
                return 0;
            } else {
                return self.function(in, out);
            }
        });
    }
};

/// A monitor of the caller's.
struct monitor {
    virtual ~monitor() = default;
    thrown exception;
};

template <class Function>
struct monitor_of final : monitor {
    explicit monitor_of(Function &&function) : function(std::move(function)) {}
    Function function;

    // An exception ends the solve.
    static std::int32_t call(std::int64_t right_hand_side, std::int64_t iteration, double residual, void *user) {
        auto &self = *static_cast<monitor_of *>(user);
        return self.exception.keep([&]() -> int {
            if constexpr (std::is_void_v<std::invoke_result_t<Function &, std::int64_t, std::int64_t, double>>) {
                self.function(right_hand_side, iteration, residual);
                return 0;
            } else {
                return self.function(right_hand_side, iteration, residual) ? 1 : 0;
            }
        });
    }
};

template <class T>
struct may_be_empty : std::is_pointer<T> {};
template <class T>
struct may_be_empty<std::function<T>> : std::true_type {};

} // namespace detail

/// A Krylov method with its preconditioner.
class solver : public detail::object<terrace_solver, terrace_solver_destroy> {
public:
    /// Makes a solver; nothing is computed yet (terrace_solver_create).
    solver(const context &on, const config &options, status &result TERRACE_OR_THROW) : object(detail::logs::of(on)) {
        if (detail::is_set(on, options, result)) make(on, options.get(), result);
    }
    /// With default options.
    explicit solver(const context &on, status &result TERRACE_OR_THROW) : object(detail::logs::of(on)) {
        make(on, nullptr, result);
    }

    /// Bytes that a solver of the matrix would hold, on a GPU the most device memory at one time (terrace_solver_memory_estimate).
    ///
    /// - `updates`: whether update() will be called.
    ///
    /// Returns when a sample was set up. Errors: as setup().
    static std::int64_t memory_estimate(const context &on, const matrix &a, const config &options, bool updates,
                                        status &result TERRACE_OR_THROW) {
        return detail::is_set(on, options, result) ? estimate(on, a, options.get(), updates, result) : 0;
    }
    /// With default options.
    static std::int64_t memory_estimate(const context &on, const matrix &a, bool updates,
                                        status &result TERRACE_OR_THROW) {
        return estimate(on, a, nullptr, updates, result);
    }

    solver(solver &&) noexcept = default;
    solver &operator=(solver &&other) noexcept {
        object::operator=(std::move(other));
        operator_ = std::move(other.operator_);
        preconditioner_ = std::move(other.preconditioner_);
        monitor_ = std::move(other.monitor_);
        works_in_ = other.works_in_;
        return *this;
    }
    /// The callbacks are there until the handle is destroyed.
    ~solver() { handle_.reset(); }

    /// Replaces the matrix in the Krylov method by y = A x of the caller (terrace_solver_set_operator). The matrix of setup() then only
    /// builds the preconditioner. The solver must be set up again.
    ///
    /// - `T`: double, or float when the solver works in f32 (option "solver.precision"); solve() refuses another one.
    /// - `rows`: length of x and y.
    /// - `function`: function(terrace::span<const T> x, terrace::span<T> y) with host arrays, on the thread that calls solve(); y is not
    ///   initialised. It returns nothing, or an int that is 0 unless the solve is to end with TERRACE_ERROR_CALLBACK. It must not use
    ///   this solver. The solver keeps it until another operator is set.
    ///
    /// Errors: TERRACE_ERROR_INVALID_ARGUMENT, TERRACE_ERROR_NULL_ARGUMENT.
    template <class T = double, class Function>
    void set_operator(std::int64_t rows, Function function, status &result TERRACE_OR_THROW) {
        set<T>(operator_, std::move(function), result, [&](terrace_apply_callback call, void *user) {
            return terrace_solver_set_operator(get(), rows, call, user);
        });
    }

    /// Replaces the preconditioner by y = M x of the caller (terrace_solver_set_preconditioner). Otherwise as set_operator().
    template <class T = double, class Function>
    void set_preconditioner(Function function, status &result TERRACE_OR_THROW) {
        set<T>(preconditioner_, std::move(function), result, [&](terrace_apply_callback call, void *user) {
            return terrace_solver_set_preconditioner(get(), call, user);
        });
    }

    /// Removes the operator of the caller, or its preconditioner: the matrix is multiplied with again, and the option "solver.preconditioner"
    /// holds again. An empty std::function does the same. The solver must be set up again.
    void set_operator(std::nullptr_t, status &result TERRACE_OR_THROW) {
        remove(operator_, terrace_solver_set_operator(get(), 0, nullptr, nullptr), result);
    }
    void set_preconditioner(std::nullptr_t, status &result TERRACE_OR_THROW) {
        remove(preconditioner_, terrace_solver_set_preconditioner(get(), nullptr, nullptr), result);
    }

    /// Builds the preconditioner from another matrix than the one of setup(), with as many rows (terrace_solver_set_preconditioner_matrix).
    /// It may be destroyed afterwards, arrays that it borrowed must stay. The solver must be set up again. An empty one is refused with
    /// TERRACE_ERROR_NULL_ARGUMENT.
    void set_preconditioner_matrix(const matrix &of, status &result TERRACE_OR_THROW) {
        if (get() && !of)
            return end(terrace_solver_set_error(get(), TERRACE_ERROR_NULL_ARGUMENT,
                                                "matrix is empty: it was moved from or not created"),
                       result);
        end(terrace_solver_set_preconditioner_matrix(get(), of.get()), result);
    }
    /// Builds it from the matrix of setup() again.
    void set_preconditioner_matrix(std::nullptr_t, status &result TERRACE_OR_THROW) {
        end(terrace_solver_set_preconditioner_matrix(get(), nullptr), result);
    }

    /// Calls a function with the residual norm of each iteration, which may end the solve (terrace_solver_set_monitor).
    ///
    /// - `function`: function(std::int64_t right_hand_side, std::int64_t iteration, double residual), on the thread that calls solve(). It
    ///   returns nothing, or something that is true when the solve is to end with TERRACE_STOPPED. It must not use this solver. The
    ///   solver keeps it until another monitor is set. nullptr removes it.
    template <class Function>
    void set_monitor(Function function, status &result TERRACE_OR_THROW) {
        if constexpr (std::is_null_pointer_v<Function>) {
            remove(monitor_, terrace_solver_set_monitor(get(), nullptr, nullptr), result);
        } else {
            if constexpr (detail::may_be_empty<Function>::value) {
                if (!function) return remove(monitor_, terrace_solver_set_monitor(get(), nullptr, nullptr), result);
            }
            using Monitor = detail::monitor_of<Function>;
            auto own = std::make_unique<Monitor>(std::move(function));
            const terrace_status code = terrace_solver_set_monitor(get(), &Monitor::call, own.get());
            if (code == TERRACE_SUCCESS) monitor_ = std::move(own);
            end(code, result);
        }
    }

    /// The value of an option as the last set-up used it: what was set, or what `auto` became (terrace_solver_get_option). Errors:
    /// TERRACE_ERROR_NOT_SET_UP, TERRACE_ERROR_UNKNOWN_OPTION.
    std::string option(detail::zstring key, status &result TERRACE_OR_THROW) const {
        std::string value;
        finish(detail::text(
                   [&](char *b, std::size_t l, std::size_t *n) { return terrace_solver_get_option(get(), key.c_str(), b, l, n); },
                   value),
               result);
        return value;
    }

    /// Builds preconditioner and workspace (terrace_solver_setup). The matrix may be destroyed afterwards, arrays that it borrowed must
    /// stay. Returns when everything is built. Errors: TERRACE_ERROR_SIZE_MISMATCH, TERRACE_ERROR_OPTION_VALUE, TERRACE_ERROR_UNSUPPORTED,
    /// TERRACE_ERROR_PRECISION_LOST, TERRACE_ERROR_OUT_OF_MEMORY, TERRACE_ERROR_DEVICE.
    void setup(const matrix &a, status &result TERRACE_OR_THROW) {
        if (get() && !a)
            return end(terrace_solver_set_error(get(), TERRACE_ERROR_NULL_ARGUMENT,
                                                "matrix is empty: it was moved from or not created"),
                       result);
        build(a.get(), result);
    }
    /// Without a matrix: with an operator callback, and a preconditioner callback or the option "solver.preconditioner" = "none".
    void setup(status &result TERRACE_OR_THROW) { build(nullptr, result); }

    /// Takes over new values of the matrix (terrace_solver_update). Returns when it is done. Errors: TERRACE_ERROR_NOT_SET_UP,
    /// TERRACE_ERROR_MATRIX_VALUES, TERRACE_ERROR_PRECISION_LOST, TERRACE_ERROR_OUT_OF_MEMORY, TERRACE_ERROR_DEVICE.
    void update(status &result TERRACE_OR_THROW) { end(terrace_solver_update(get()), result); }

    /// Solves A x = b (terrace_solver_solve).
    ///
    /// - `b`: one or several right-hand sides of rows() elements, one after the other; double or float, that of the solver. On the host or in
    ///   the memory of the context's GPU.
    /// - `x`: where b is, as long, of the same format, not overlapping it.
    /// - `guess`: TERRACE_ZERO_GUESS, which does not read x, or TERRACE_GIVEN_GUESS, which starts from it.
    ///
    /// Returns when x is written, or, in device memory with a stream of the caller's, when what writes it is on the stream. Conditions:
    /// TERRACE_NOT_CONVERGED, TERRACE_STAGNATED; x is the best iterate. Errors: TERRACE_ERROR_NOT_SET_UP, TERRACE_ERROR_SIZE_MISMATCH,
    /// TERRACE_ERROR_INVALID_ARGUMENT, TERRACE_ERROR_BREAKDOWN, TERRACE_ERROR_DIVERGED, TERRACE_ERROR_NON_FINITE,
    /// TERRACE_ERROR_PRECISION_LOST, TERRACE_ERROR_MATRIX_VALUES, TERRACE_ERROR_CALLBACK, TERRACE_ERROR_OUT_OF_MEMORY,
    /// TERRACE_ERROR_DEVICE.
    void solve(value_array b, value_buffer x, terrace_guess guess, status &result TERRACE_OR_THROW) {
        solve_by(terrace_solver_solve, b, x, guess, result);
    }
    /// From zero.
    void solve(value_array b, value_buffer x, status &result TERRACE_OR_THROW) { solve(b, x, TERRACE_ZERO_GUESS, result); }

    /// Solves A^T x = b (terrace_solver_solve_transposed): of a symmetric matrix as solve(), else by a second solver that the first call
    /// makes. Arguments, blocking and conditions as for solve(); errors also as for setup(), and TERRACE_ERROR_UNSUPPORTED with callbacks.
    void solve_transposed(value_array b, value_buffer x, terrace_guess guess, status &result TERRACE_OR_THROW) {
        solve_by(terrace_solver_solve_transposed, b, x, guess, result);
    }
    /// From zero.
    void solve_transposed(value_array b, value_buffer x, status &result TERRACE_OR_THROW) {
        solve_transposed(b, x, TERRACE_ZERO_GUESS, result);
    }

    /// Scalar rows of the system (terrace_solver_get_rows). Errors: TERRACE_ERROR_NOT_SET_UP.
    std::int64_t rows(status &result TERRACE_OR_THROW) const {
        std::int64_t rows = 0;
        finish(terrace_solver_get_rows(get(), &rows), result);
        return rows;
    }

    /// What set-up and the last solve did (terrace_solver_report).
    terrace::report report(status &result TERRACE_OR_THROW) const {
        terrace::report made(log_);
        made.create([&](terrace_report **out) { return terrace_solver_report(get(), out); }, result);
        return made;
    }

    /// As context::set_error (terrace_solver_set_error).
    void set_error(terrace_status code, detail::zstring sentence, status &result TERRACE_OR_THROW) {
        finish(terrace_solver_set_error(get(), code, sentence.c_str()), result);
    }

private:
    // The library has their addresses.
    std::unique_ptr<detail::callback> operator_, preconditioner_;
    std::unique_ptr<detail::monitor> monitor_;
    // What it gives to the callbacks.
    terrace_type works_in_ = TERRACE_F64;

    static std::int64_t estimate(const context &on, const matrix &a, const terrace_config *options, bool updates,
                                 status &result) {
        std::int64_t bytes = 0;
        const terrace_status code = terrace_solver_memory_estimate(on.get(), a.get(), options, updates ? 1 : 0, &bytes);
        if (const auto &log = detail::logs::of(on)) log->release();
        detail::conclude(code, result);
        return bytes;
    }
    void make(const context &on, const terrace_config *options, status &result) {
        create([&](terrace_solver **out) { return terrace_solver_create(on.get(), options, out); }, result);
    }

    template <class Solve>
    void solve_by(Solve solve, const value_array &b, const value_buffer &x, terrace_guess guess, status &result) {
        std::int64_t rows = 0;
        terrace_status code = terrace_solver_get_rows(get(), &rows);
        std::int64_t count = rows > 0 ? b.size / rows : 1;
        if (count < 1) count = 1;
        if (code == TERRACE_SUCCESS && b.size != count * rows) code = refuse_size("b", b.size, count * rows);
        if (code == TERRACE_SUCCESS && x.size != b.size) code = refuse_size("x", x.size, b.size);
        if (code == TERRACE_SUCCESS && b.type != x.type) code = refuse("b and x differ in their number format");
        for (const auto &own : {operator_.get(), preconditioner_.get()})
            if (code == TERRACE_SUCCESS && own && own->type != works_in_)
                code = refuse(own->type == TERRACE_F64
                                  ? "a callback is for double, the solver works in f32; see the option solver.precision"
                                  : "a callback is for float, the solver works in f64; see the option solver.precision");
        if (code == TERRACE_SUCCESS) code = solve(get(), b.type, count, b.data, x.data, guess);
        end(code, result);
    }

    void build(const terrace_matrix *a, status &result) {
        const terrace_status code = terrace_solver_setup(get(), a);
        if (code == TERRACE_SUCCESS && (operator_ || preconditioner_)) {
            terrace_report *made = nullptr;
            std::string method;
            if (terrace_solver_report(get(), &made) == TERRACE_SUCCESS)
                detail::text(
                    [&](char *b, std::size_t l, std::size_t *n) { return terrace_report_get_str(made, "solver", 0, b, l, n); },
                    method);
            terrace_report_destroy(made);
            works_in_ = method.size() > 3 && method.substr(method.size() - 3) == "f32" ? TERRACE_F32 : TERRACE_F64;
        }
        end(code, result);
    }

    /// The library calls what it was given until then.
    template <class Own>
    void remove(std::unique_ptr<Own> &place, terrace_status code, status &result) {
        if (code == TERRACE_SUCCESS) place.reset();
        end(code, result);
    }

    template <class T, class Function, class Set>
    void set(std::unique_ptr<detail::callback> &place, Function &&function, status &result, Set &&set) {
        static_assert(std::is_same_v<T, double> || std::is_same_v<T, float>, "vectors are double or float");
        static_assert(std::is_invocable_v<Function &, span<const T>, span<T>>, "function(span<const T>, span<T>)");
        using Callback = detail::callback_of<T, std::decay_t<Function>>;
        if constexpr (detail::may_be_empty<std::decay_t<Function>>::value) {
            if (!function) return remove(place, set(nullptr, nullptr), result);
        }
        auto own = std::make_unique<Callback>(std::move(function));
        const terrace_status code = set(&Callback::call, own.get());
        if (code == TERRACE_SUCCESS) place = std::move(own);
        end(code, result);
    }

    void end(terrace_status code, status &result) {
        if (operator_) operator_->exception.release();
        if (preconditioner_) preconditioner_->exception.release();
        if (monitor_) monitor_->exception.release();
        finish(code, result);
    }
    terrace_status refuse(const char *sentence) {
        return terrace_solver_set_error(get(), TERRACE_ERROR_INVALID_ARGUMENT, sentence);
    }
    terrace_status refuse_size(const char *argument, std::int64_t given, std::int64_t needed) {
        return terrace_solver_set_error(get(), TERRACE_ERROR_SIZE_MISMATCH, detail::misfit(argument, given, needed).c_str());
    }
};

} // namespace TERRACE_FORM
} // namespace terrace

#undef TERRACE_OR_THROW
#undef TERRACE_FORM

#endif // TERRACE_HPP

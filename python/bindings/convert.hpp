// What goes between Python and the library: errors, dtypes, shapes, elements on the host, and calls without the GIL.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "vkfuse/vkfuse.hpp"

namespace vkfuse::python {

namespace nb = nanobind;

/// An Error of the library, or of these bindings, on its way to an exception of vkfuse._errors.
class Failure : public std::exception {
 public:
  explicit Failure(Error error) : error_(std::move(error)), text_(error_.text()) {}
  [[nodiscard]] const Error& error() const { return error_; }
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  Error error_;
  std::string text_;
};

/// TypeError with one sentence.
[[noreturn]] void wrong_type(const std::string& sentence);

inline void check_ok(Result<void> result) {
  if (!result.ok()) throw Failure(std::move(result).error());
}
template <typename T>
T value_of(Result<T> result) {
  if (!result.ok()) throw Failure(std::move(result).error());
  return *std::move(result);
}

/// The interpreter is about to end: its threads must not be waited for with the GIL, nor called back.
bool is_closing();

/// Other threads of Python run while this lives; what happens then touches nothing of theirs. Where the interpreter has
/// begun to end meanwhile, a thread that wants the GIL back is ended by CPython in a way that C++ does not survive: it
/// waits for the end of the process instead.
class GilReleased {
 public:
  GilReleased();
  ~GilReleased();
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* state_;
};

template <typename Call>
auto without_gil(Call&& call) {
  if (is_closing()) return call();
  const GilReleased released;
  return call();
}

/// A handle of the library that may wait, or join threads which call back, when it is dropped: that happens without
/// the GIL.
template <typename T>
class Dropped {
 public:
  explicit Dropped(T value) : value_(std::move(value)) {}
  Dropped(const Dropped&) = delete;
  Dropped& operator=(const Dropped&) = delete;
  ~Dropped() {
    without_gil([this] { value_.reset(); });
  }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
};

/// A function of Python that any thread may call. What it raises is thrown as text; once the interpreter is closing it
/// is not called.
class Callback {
 public:
  explicit Callback(nb::object function);
  /// Calls it with what `make_arguments` returns, a tuple, and gives its result to `use`.
  template <typename Arguments, typename Use>
  void call(const Arguments& make_arguments, const Use& use) const {
    const Inside inside;
    if (!inside.allowed()) return;
    const nb::gil_scoped_acquire acquired;
    try {
      use(nb::object(held_->function(*make_arguments())));
    } catch (const nb::python_error& raised) {
      throw std::runtime_error(first_line_of(raised));
    }
  }

 private:
  struct Held {
    explicit Held(nb::object given) : function(std::move(given)) {}
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held();
    nb::object function;
  };
  /// What close_callbacks() waits for.
  class Inside {
   public:
    Inside();
    ~Inside();
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    [[nodiscard]] bool allowed() const { return allowed_; }

   private:
    bool allowed_;
  };
  static std::string first_line_of(const nb::python_error& raised);

  std::shared_ptr<Held> held_;
};

/// No function of Python is called from now on, and none is running. Called by atexit, with the GIL.
void close_callbacks();

/// NumPy's name: "float32", "bfloat16", "bool".
std::string_view numpy_name(DType dtype);
/// A name, a dtype of NumPy or ml_dtypes, or a type of Python.
DType to_dtype(nb::handle object);
/// numpy.dtype; of bf16 that of ml_dtypes, or the name where that is not installed.
nb::object dtype_object(DType dtype);

std::int64_t to_integer(nb::handle object, const char* what);
/// None: empty. One integer, or a sequence of them.
std::vector<std::int64_t> to_integers(nb::handle object, const char* what);
std::vector<int> to_axes(nb::handle object);
/// One dimension or a sequence of them: integers, and symbols, which are texts or vkfuse.Dim.
Shape to_shape(nb::handle object);
nb::tuple shape_object(const Shape& shape);
nb::tuple sizes_object(std::span<const std::int64_t> sizes);

/// Elements that an argument holds, dense and row-major, as long as this lives: of anything with the buffer protocol or
/// DLPack on the host, a device array, a number or a list. Copied only where the argument is not contiguous, or is not
/// on the host.
class HostArray {
 public:
  /// `wanted`: the dtype that it must have, which numbers and lists get; `what` names it in messages: "input 'x'".
  HostArray(nb::handle object, std::optional<DType> wanted, const std::string& what);
  HostArray(HostArray&&) noexcept = default;
  HostArray& operator=(HostArray&&) noexcept = default;

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const std::vector<std::int64_t>& sizes() const { return sizes_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  /// Whether the argument's own memory is read.
  [[nodiscard]] bool is_view() const { return is_view_; }

 private:
  struct ReleaseBuffer {
    void operator()(Py_buffer* view) const;
  };
  bool from_buffer(nb::handle object, const std::string& what);
  void from_device(nb::handle object);
  void from_dlpack(nb::handle object, const std::string& what);
  void from_numpy(nb::handle object, const std::string& what);

  DType dtype_ = DType::f32;
  std::vector<std::int64_t> sizes_;
  std::span<const std::byte> bytes_;
  bool is_view_ = true;
  std::unique_ptr<Py_buffer, ReleaseBuffer> view_;
  nb::object keeps_;
  std::vector<std::byte> copied_;
};

/// The dtype of ml_dtypes for elements that ONNX names so ("FLOAT8E4M3FN"), which no DType is: each in a byte, floats
/// as their codes, integers as their values. An error where ml_dtypes is not installed.
nb::object narrow_dtype(std::string_view onnx_name);
/// Such an array as bytes; another as it is.
nb::object narrow_bytes(nb::handle object, std::string_view onnx_name);

/// An array of NumPy that owns these bytes.
nb::object to_numpy(DType dtype, std::span<const std::int64_t> sizes, std::vector<std::byte> bytes);
/// A capsule of DLPack that does.
nb::object to_dlpack(DType dtype, std::span<const std::int64_t> sizes, std::vector<std::byte> bytes);

}  // namespace vkfuse::python

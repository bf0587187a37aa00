#include "convert.hpp"

#include <nanobind/ndarray.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <thread>

#include "device.hpp"

namespace vkfuse::python {

namespace {

std::atomic<bool> closing{false};
std::atomic<int> inside{0};

/// "ndarray": the type of an object, for messages.
std::string type_of(nb::handle object) { return nb::cast<std::string>(nb::str(object.type().attr("__name__"))); }

std::string text_of(nb::handle object) { return nb::cast<std::string>(nb::str(object)); }

/// numpy, looked for once. Never given back: the interpreter may be gone by then.
nb::handle numpy() {
  static nb::object* const module = new nb::object(nb::module_::import_("numpy"));
  return *module;
}

}  // namespace

void wrong_type(const std::string& sentence) { throw nb::type_error(sentence.c_str()); }

bool is_closing() { return closing.load(std::memory_order_relaxed); }

GilReleased::GilReleased() : state_(PyEval_SaveThread()) {}

GilReleased::~GilReleased() {
  inside.fetch_add(1);
  if (closing.load()) {
    inside.fetch_sub(1);
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  PyEval_RestoreThread(state_);
  inside.fetch_sub(1);
}

Callback::Inside::Inside() {
  inside.fetch_add(1);
  allowed_ = !closing.load();
}
Callback::Inside::~Inside() { inside.fetch_sub(1); }

Callback::Callback(nb::object function) : held_(std::make_shared<Held>(std::move(function))) {}

Callback::Held::~Held() {
  const Inside now;
  if (!now.allowed()) {
    static_cast<void>(function.release());  // there is no interpreter to give it back to
    return;
  }
  const nb::gil_scoped_acquire acquired;
  function.reset();
}

std::string Callback::first_line_of(const nb::python_error& raised) {
  return fmt::format("{}: {}", text_of(raised.type().attr("__name__")), text_of(raised.value()));
}

void close_callbacks() {
  closing = true;
  const nb::gil_scoped_release released;  // of the one thread that ends the interpreter
  // A fork may have taken away the thread that would count down.
  for (int waited = 0; inside.load() > 0 && waited < 2000; ++waited)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

std::string_view numpy_name(DType dtype) {
  constexpr std::string_view names[kDTypeCount] = {"float32", "float16", "bfloat16", "float64", "int8",
                                                   "uint8",   "int16",   "uint16",   "int32",   "uint32",
                                                   "int64",   "uint64",  "bool"};
  return names[static_cast<int>(dtype)];
}

namespace {

std::optional<DType> dtype_of_name(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (numpy_name(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  }
  return dtype_named(name);
}

Failure big_endian(const std::string& what) {
  return Failure(invalid("The {} is big-endian; convert it with array.astype(array.dtype.newbyteorder('<')).", what));
}

}  // namespace

DType to_dtype(nb::handle object) {
  if (nb::isinstance<nb::str>(object)) {
    if (const auto known = dtype_of_name(nb::cast<std::string>(object))) return *known;
  }
  nb::object dtype;
  try {
    dtype = numpy().attr("dtype")(object);
  } catch (const nb::python_error&) {
    throw Failure(invalid("{} is no dtype of NumPy or ml_dtypes.", text_of(nb::repr(object))));
  }
  const std::string name = text_of(dtype.attr("name"));
  const auto known = dtype_of_name(name);
  if (!known) throw Failure(unsupported("vkfuse has no elements of type {}.", name));
  if (text_of(dtype.attr("byteorder")) == ">") throw big_endian("dtype");
  return *known;
}

nb::object dtype_object(DType dtype) {
  // Never given back, as numpy() is not.
  static nb::object* const known = [] {
    auto* all = new nb::object[kDTypeCount];
    for (int i = 0; i < kDTypeCount; ++i) {
      const std::string name(numpy_name(static_cast<DType>(i)));
      if (name != "bfloat16") {
        all[i] = numpy().attr("dtype")(name);
        continue;
      }
      try {
        all[i] = numpy().attr("dtype")(nb::module_::import_("ml_dtypes").attr("bfloat16"));
      } catch (const nb::python_error&) {
        all[i] = nb::str(name.c_str());
      }
    }
    return all;
  }();
  return known[static_cast<int>(dtype)];
}

std::int64_t to_integer(nb::handle object, const char* what) {
  const nb::object index = nb::steal(PyNumber_Index(object.ptr()));
  if (!index.is_valid()) {
    PyErr_Clear();
    wrong_type(fmt::format("The {} must be an integer, and not of type {}.", what, type_of(object)));
  }
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow != 0) throw Failure(invalid("The {} {} does not fit 64 bits.", what, text_of(index)));
  return value;
}

std::vector<std::int64_t> to_integers(nb::handle object, const char* what) {
  if (object.is_none()) return {};
  if (!nb::isinstance<nb::sequence>(object)) return {to_integer(object, what)};
  std::vector<std::int64_t> all;
  for (const nb::handle one : object) all.push_back(to_integer(one, what));
  return all;
}

std::vector<int> to_axes(nb::handle object) {
  std::vector<int> axes;
  for (const std::int64_t axis : to_integers(object, "axis")) {
    if (axis < INT_MIN || axis > INT_MAX) throw Failure(invalid("There is no axis {}.", axis));
    axes.push_back(static_cast<int>(axis));
  }
  return axes;
}

namespace {

nb::handle dim_type() {
  static nb::object* const type = new nb::object(nb::module_::import_("vkfuse._dim").attr("Dim"));
  return *type;
}

Dim to_dim(nb::handle object) {
  if (!nb::isinstance<nb::str>(object)) return to_integer(object, "size of a dimension");
  DimFacts facts;
  if (nb::isinstance(object, dim_type())) {
    facts.min = to_integer(object.attr("min"), "least size of a dimension");
    if (!object.attr("max").is_none()) facts.max = to_integer(object.attr("max"), "largest size of a dimension");
    facts.multiple_of = to_integer(object.attr("multiple_of"), "divisor of a dimension");
  }
  return Dim::any(nb::cast<std::string>(object), facts);
}

nb::object dim_object(const Dim& dim) {
  if (!dim.is_symbol()) return nb::int_(dim.size());
  const DimFacts facts = dim.facts();
  nb::object max = facts.max == INT64_MAX ? nb::none() : nb::object(nb::int_(facts.max));
  return dim_type()(dim.name(), facts.min, max, facts.multiple_of);
}

}  // namespace

Shape to_shape(nb::handle object) {
  if (nb::isinstance<nb::str>(object) || !nb::isinstance<nb::sequence>(object)) return {to_dim(object)};
  Shape shape;
  for (const nb::handle one : object) shape.push_back(to_dim(one));
  return shape;
}

nb::tuple shape_object(const Shape& shape) {
  nb::list all;
  for (const Dim& dim : shape) all.append(dim_object(dim));
  return nb::tuple(all);
}

nb::tuple sizes_object(std::span<const std::int64_t> sizes) {
  nb::list all;
  for (const std::int64_t size : sizes) all.append(nb::int_(size));
  return nb::tuple(all);
}

// ---- elements on the host ----

void HostArray::ReleaseBuffer::operator()(Py_buffer* view) const {
  PyBuffer_Release(view);
  delete view;
}

namespace {

std::optional<DType> dtype_of_format(std::string_view format, Py_ssize_t itemsize) {
  if (!format.empty() && (format[0] == '@' || format[0] == '=' || format[0] == '<')) format.remove_prefix(1);
  if (format.size() != 1) return std::nullopt;
  const std::string_view integers = "bhilqn", naturals = "BHILQN";
  const bool is_signed = integers.find(format[0]) != std::string_view::npos;
  if (is_signed || naturals.find(format[0]) != std::string_view::npos) {
    switch (itemsize) {
      case 1: return is_signed ? DType::i8 : DType::u8;
      case 2: return is_signed ? DType::i16 : DType::u16;
      case 4: return is_signed ? DType::i32 : DType::u32;
      case 8: return is_signed ? DType::i64 : DType::u64;
      default: return std::nullopt;
    }
  }
  switch (format[0]) {
    case '?': return DType::boolean;
    case 'e': return DType::f16;
    case 'f': return DType::f32;
    case 'd': return DType::f64;
    default: return std::nullopt;
  }
}

std::optional<DType> dtype_of_dlpack(nb::dlpack::dtype dtype) {
  using Code = nb::dlpack::dtype_code;
  if (dtype.lanes != 1) return std::nullopt;
  const auto is = [&](Code code, int bits) {
    return dtype.code == static_cast<std::uint8_t>(code) && dtype.bits == bits;
  };
  constexpr std::pair<Code, int> kinds[kDTypeCount] = {
      {Code::Float, 32}, {Code::Float, 16}, {Code::Bfloat, 16}, {Code::Float, 64}, {Code::Int, 8},
      {Code::UInt, 8},   {Code::Int, 16},   {Code::UInt, 16},   {Code::Int, 32},   {Code::UInt, 32},
      {Code::Int, 64},   {Code::UInt, 64},  {Code::Bool, 8}};
  for (int i = 0; i < kDTypeCount; ++i) {
    if (is(kinds[i].first, kinds[i].second)) return static_cast<DType>(i);
  }
  return std::nullopt;
}

nb::dlpack::dtype dlpack_of(DType dtype) {
  using Code = nb::dlpack::dtype_code;
  const Code code = dtype == DType::bf16       ? Code::Bfloat
                    : dtype == DType::boolean  ? Code::Bool
                    : is_float(dtype)          ? Code::Float
                    : is_signed_integer(dtype) ? Code::Int
                                               : Code::UInt;
  return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(size_of(dtype) * 8), 1};
}

struct NarrowName {
  std::string_view onnx, ml_dtypes;
};

constexpr NarrowName kNarrowNames[] = {
    {"FLOAT8E4M3FN", "float8_e4m3fn"},
    {"FLOAT8E4M3FNUZ", "float8_e4m3fnuz"},
    {"FLOAT8E5M2", "float8_e5m2"},
    {"FLOAT8E5M2FNUZ", "float8_e5m2fnuz"},
    {"FLOAT8E8M0", "float8_e8m0fnu"},
    {"FLOAT6E2M3", "float6_e2m3fn"},
    {"FLOAT6E3M2", "float6_e3m2fn"},
    {"FLOAT4E2M1", "float4_e2m1fn"},
    {"UINT4", "uint4"},
    {"INT4", "int4"},
    {"UINT2", "uint2"},
    {"INT2", "int2"},
};

/// ONNX's own name where there is none, which ml_dtypes has not either.
std::string_view ml_dtypes_name(std::string_view onnx_name) {
  const auto* found = std::ranges::find(kNarrowNames, onnx_name, &NarrowName::onnx);
  return found == std::end(kNarrowNames) ? onnx_name : found->ml_dtypes;
}

}  // namespace

nb::object narrow_dtype(std::string_view onnx_name) {
  const std::string name(ml_dtypes_name(onnx_name));
  try {
    return numpy().attr("dtype")(nb::module_::import_("ml_dtypes").attr(name.c_str()));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_ImportError) && !error.matches(PyExc_AttributeError)) throw;
    throw Failure(unsupported("NumPy has no {}: install a version of ml_dtypes that has it.", name));
  }
}

nb::object narrow_bytes(nb::handle object, std::string_view onnx_name) {
  if (!nb::hasattr(object, "dtype") || text_of(object.attr("dtype")) != ml_dtypes_name(onnx_name))
    return nb::borrow(object);
  if (onnx_name.starts_with("FLOAT")) return numpy().attr("ascontiguousarray")(object).attr("view")("uint8");
  return object.attr("astype")(onnx_name.starts_with("U") ? "uint8" : "int8");
}

HostArray::HostArray(nb::handle object, std::optional<DType> wanted, const std::string& what) {
  if (nb::isinstance<Value>(object)) {
    wrong_type(fmt::format("The {} is a Tensor, which has no elements before its program runs: give an array.", what));
  }
  if (nb::isinstance<Array>(object)) {
    from_device(object);
  } else if (!from_buffer(object, what)) {
    if (nb::hasattr(object, "__dlpack__") && nb::hasattr(object, "__dlpack_device__")) {
      from_dlpack(object, what);
    } else if (wanted) {
      from_numpy(numpy().attr("asarray")(object, dtype_object(*wanted == DType::bf16 ? DType::f32 : *wanted)), what);
      if (*wanted == DType::bf16)
        from_numpy(numpy().attr("asarray")(keeps_).attr("astype")(dtype_object(*wanted)), what);
    } else {
      from_numpy(numpy().attr("asarray")(object), what);
    }
  }
  if (wanted && dtype_ != *wanted) {
    throw Failure(invalid("The {} is of {}, and an array of {} is given: convert it with astype().", what,
                          numpy_name(*wanted), numpy_name(dtype_)));
  }
}

void HostArray::from_device(nb::handle object) {
  const Array& array = nb::cast<const Array&>(object);
  dtype_ = array.dtype();
  sizes_ = array.sizes();
  copied_ = array.read();
  bytes_ = copied_;
  is_view_ = false;
}

/// Whether it has the buffer protocol, or is of bfloat16, which that does not know.
bool HostArray::from_buffer(nb::handle object, const std::string& what) {
  if (PyObject_CheckBuffer(object.ptr()) == 0) return false;
  auto view = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(object.ptr(), view.get(), PyBUF_RECORDS_RO) != 0) {
    PyErr_Clear();
    if (!nb::hasattr(object, "dtype")) throw Failure(invalid("The {} does not show its memory.", what));
    const std::string name = text_of(object.attr("dtype").attr("name"));
    if (name != "bfloat16")
      throw Failure(unsupported("The {} has elements of type {}, which vkfuse has not.", what, name));
    // As integers of the same bits, which have a format.
    const nb::object bits = numpy().attr("ascontiguousarray")(object).attr("view")("uint16");
    const bool copied = !nb::cast<bool>(object.attr("flags").attr("c_contiguous"));
    const nb::object shape = object.attr("shape");
    if (!from_buffer(bits.attr("reshape")(shape), what)) return false;
    dtype_ = DType::bf16;
    is_view_ = !copied;
    return true;
  }
  view_.reset(view.release());
  const std::string_view format = view_->format == nullptr ? "B" : view_->format;
  if (!format.empty() && (format[0] == '>' || format[0] == '!') && view_->itemsize > 1) throw big_endian(what);
  const auto dtype = dtype_of_format(format, view_->itemsize);
  if (!dtype) {
    const std::string name = nb::hasattr(object, "dtype") ? text_of(object.attr("dtype")) : std::string(format);
    throw Failure(unsupported("The {} has elements of type {}, which vkfuse has not.", what, name));
  }
  if (PyBuffer_IsContiguous(view_.get(), 'C') == 0) {
    const nb::object dense = numpy().attr("ascontiguousarray")(object);
    view_.reset();
    if (!from_buffer(dense, what)) return false;
    is_view_ = false;
    return true;
  }
  dtype_ = *dtype;
  sizes_.assign(view_->shape, view_->shape + view_->ndim);
  bytes_ = {static_cast<const std::byte*>(view_->buf), static_cast<std::size_t>(view_->len)};
  return true;
}

void HostArray::from_dlpack(nb::handle object, const std::string& what) {
  // Asked first: what lies on another device is not exported at all.
  const nb::object where = object.attr("__dlpack_device__")();
  const std::int64_t device = to_integer(where[0], "type of the device");
  constexpr int on_host[] = {nb::device::cpu::value, nb::device::cuda_host::value, nb::device::rocm_host::value};
  if (std::find(std::begin(on_host), std::end(on_host), device) == std::end(on_host)) {
    throw Failure(invalid("The {} is on a device of another library (DLPack's type {}): copy it to the host first.",
                          what, device));
  }
  using Given = nb::ndarray<nb::ro>;
  Given given;
  if (!nb::try_cast<Given>(object, given)) throw Failure(invalid("The {} cannot be read through DLPack.", what));
  const auto dtype = dtype_of_dlpack(given.dtype());
  if (!dtype) {
    throw Failure(unsupported("The {} has elements of DLPack's type {} with {} bits, which vkfuse has not.", what,
                              given.dtype().code, given.dtype().bits));
  }
  dtype_ = *dtype;
  std::int64_t expected = 1;
  bool dense = true;
  for (std::size_t i = given.ndim(); i-- > 0;) {
    if (given.shape(i) != 1 && given.stride(i) != expected) dense = false;
    expected *= static_cast<std::int64_t>(given.shape(i));
  }
  if (!dense && expected > 0) {
    throw Failure(invalid("The {} is not contiguous: make a contiguous copy of it first.", what));
  }
  for (std::size_t i = 0; i < given.ndim(); ++i) sizes_.push_back(static_cast<std::int64_t>(given.shape(i)));
  bytes_ = {static_cast<const std::byte*>(given.data()), static_cast<std::size_t>(expected) * size_of(dtype_)};
  keeps_ = nb::cast(std::move(given));
}

void HostArray::from_numpy(nb::handle object, const std::string& what) {
  view_.reset();
  keeps_ = nb::borrow(object);
  if (!from_buffer(object, what))
    wrong_type(fmt::format("The {} must be an array, and not of type {}.", what, type_of(object)));
  is_view_ = false;
}

namespace {

template <typename Framework>
nb::object exported(DType dtype, nb::dlpack::dtype as, std::span<const std::int64_t> sizes,
                    std::vector<std::byte> bytes) {
  static_cast<void>(dtype);
  auto* const held = new std::vector<std::byte>(std::move(bytes));
  if (held->empty()) held->resize(1);  // a pointer that is none is refused
  const nb::capsule owner(held, [](void* data) noexcept { delete static_cast<std::vector<std::byte>*>(data); });
  const std::vector<std::size_t> shape(sizes.begin(), sizes.end());
  using Made = nb::ndarray<Framework>;
  Made made(held->data(), shape.size(), shape.data(), owner, nullptr, as);
  return nb::cast(std::move(made));
}

}  // namespace

nb::object to_numpy(DType dtype, std::span<const std::int64_t> sizes, std::vector<std::byte> bytes) {
  if (dtype != DType::bf16) return exported<nb::numpy>(dtype, dlpack_of(dtype), sizes, std::move(bytes));
  const nb::object as = dtype_object(dtype);
  if (nb::isinstance<nb::str>(as)) {
    throw Failure(
        unsupported("NumPy has no bfloat16: install ml_dtypes, or convert with astype() or bitcast() first."));
  }
  return exported<nb::numpy>(dtype, dlpack_of(DType::u16), sizes, std::move(bytes)).attr("view")(as);
}

nb::object to_dlpack(DType dtype, std::span<const std::int64_t> sizes, std::vector<std::byte> bytes) {
  return exported<nb::no_framework>(dtype, dlpack_of(dtype), sizes, std::move(bytes));
}

}  // namespace vkfuse::python

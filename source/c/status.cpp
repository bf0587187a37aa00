// Errors, and the C structures as C++ values.
#include <cstdlib>
#include <new>

#include "c/handles.hpp"

namespace vkfuse::c {

namespace {

/// Of the last call of this thread that failed. The literal is for when there is no memory for a sentence.
struct LastError {
  std::string text;
  const char* literal = nullptr;
};
thread_local LastError last_error;

vkf_status status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return VKF_INVALID_ARGUMENT;
    case ErrorCode::unsupported: return VKF_UNSUPPORTED;
    case ErrorCode::not_found: return VKF_NOT_FOUND;
    case ErrorCode::no_device: return VKF_NO_DEVICE;
    case ErrorCode::device_error: return VKF_DEVICE_ERROR;
    case ErrorCode::device_lost: return VKF_DEVICE_LOST;
    case ErrorCode::out_of_memory: return VKF_OUT_OF_MEMORY;
    case ErrorCode::io: return VKF_IO;
    case ErrorCode::internal: return VKF_INTERNAL;
  }
  return VKF_INTERNAL;
}

vkf_status out_of_memory() noexcept {
  last_error.literal = "The host has no memory left.";
  return VKF_OUT_OF_MEMORY;
}

}  // namespace

vkf_status fail(const Error& error) noexcept {
  try {
    last_error.text = error.text();
    last_error.literal = nullptr;
    return status_of(error.code);
  } catch (...) {
    return out_of_memory();
  }
}

vkf_status fail_thrown() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::length_error&) {
    return fail({ErrorCode::out_of_memory, "The host cannot hold a container this large.", {}});
  } catch (const std::exception& thrown) {
    return fail({ErrorCode::internal,
                 std::string("A defect in vkfuse: an invariant does not hold: ") + thrown.what() + ".",
                 {}});
  } catch (...) {
    return fail({ErrorCode::internal, "A defect in vkfuse: something unknown was thrown.", {}});
  }
}

ErrorCode code_of(vkf_status status) {
  for (const ErrorCode code :
       {ErrorCode::invalid_argument, ErrorCode::unsupported, ErrorCode::not_found, ErrorCode::no_device,
        ErrorCode::device_error, ErrorCode::device_lost, ErrorCode::out_of_memory, ErrorCode::io}) {
    if (status_of(code) == status) return code;
  }
  return ErrorCode::internal;
}

Result<DType> to_dtype(std::int64_t dtype) {
  if (dtype < 0 || dtype >= kDTypeCount)
    return invalid("{} is not a dtype: they are numbered from 0 to {}.", dtype, kDTypeCount - 1);
  return static_cast<DType>(dtype);
}

namespace {

Result<Dim> to_dim(const vkf_dim& dim) {
  if (dim.symbol == nullptr) return Dim(dim.size);
  if (*dim.symbol == '\0') return invalid("A symbolic dimension has an empty name.");
  DimFacts facts;
  facts.min = dim.min;
  if (dim.max != 0) facts.max = dim.max;
  if (dim.multiple_of != 0) facts.multiple_of = dim.multiple_of;
  if (facts.min < 0 || facts.max < facts.min || facts.multiple_of < 1) {
    return invalid("The dimension '{}' has impossible facts: min {}, max {}, multiple of {}.", dim.symbol, facts.min,
                   facts.max, facts.multiple_of);
  }
  return Dim::any(dim.symbol, facts);
}

}  // namespace

Result<Shape> to_shape(const vkf_dim* dims, std::size_t rank) {
  VKF_TRY(given, list(dims, rank, "dimensions"));
  Shape shape;
  for (const vkf_dim& one : given) {
    VKF_TRY(dim, to_dim(one));
    shape.push_back(std::move(dim));
  }
  return shape;
}

Result<TensorType> to_type(const vkf_type* type) {
  VKF_CHECK_OK(need(type, "type"));
  VKF_TRY(dtype, to_dtype(static_cast<int>(type->dtype)));
  VKF_TRY(shape, to_shape(type->shape, type->rank));
  return TensorType{dtype, std::move(shape)};
}

Result<SizedType> to_sized_type(const vkf_type* type) {
  VKF_CHECK_OK(need(type, "type"));
  VKF_TRY(dtype, to_dtype(static_cast<int>(type->dtype)));
  VKF_TRY(dims, list(type->shape, type->rank, "dimensions"));
  SizedType made{dtype, {}};
  for (const vkf_dim& dim : dims) {
    if (dim.symbol != nullptr)
      return invalid("The dimension '{}' is a symbol, but a tensor of a stream and a buffer have sizes.", dim.symbol);
    made.sizes.push_back(dim.size);
  }
  return made;
}

Result<SymbolValues> to_symbols(const vkf_symbol* symbols, std::size_t count) {
  VKF_TRY(given, list(symbols, count, "symbols"));
  SymbolValues values;
  for (const vkf_symbol& symbol : given) {
    VKF_CHECK_OK(need(symbol.name, "name of a symbol"));
    if (!values.emplace(symbol.name, symbol.size).second)
      return invalid("The symbol '{}' is given twice.", symbol.name);
  }
  return values;
}

Result<char*> copy_of(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

Result<void> hand_out(const std::string& text, char** made) {
  VKF_CHECK_OK(need(made, "place for the text"));
  VKF_TRY(copy, copy_of(text));
  *made = copy;
  return {};
}

}  // namespace vkfuse::c

static_assert(static_cast<int>(vkfuse::DType::boolean) == VKF_BOOL && static_cast<int>(vkfuse::DType::f64) == VKF_F64 &&
                  static_cast<int>(vkfuse::DType::i8) == VKF_I8 && static_cast<int>(vkfuse::DType::u64) == VKF_U64,
              "dtypes have the same numbers in both languages");
static_assert(static_cast<int>(vkfuse::Stage::graph) == VKF_STAGE_GRAPH &&
                  static_cast<int>(vkfuse::Stage::html) == VKF_STAGE_HTML,
              "stages have the same numbers in both languages");

const char* vkf_last_error(void) {
  using vkfuse::c::last_error;
  return last_error.literal != nullptr ? last_error.literal : last_error.text.c_str();
}

const char* vkf_version(void) { return VKFUSE_VERSION; }

size_t vkf_dtype_size(vkf_dtype dtype) {
  const auto known = vkfuse::c::to_dtype(static_cast<int>(dtype));
  return known ? static_cast<size_t>(vkfuse::size_of(*known)) : 0;
}

void vkf_string_free(char* string) { std::free(string); }

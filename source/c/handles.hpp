// What is behind the handles of vkfuse.h, and how errors become statuses.
#pragma once

#include <cstring>
#include <span>
#include <string>

#include "api/program.hpp"
#include "vkfuse/composites.hpp"
#include "vkfuse/interop.hpp"
#include "vkfuse/parallel.hpp"
#include "vkfuse/stream.hpp"
#include "vkfuse/vkfuse.h"

struct vkf_device {
  vkfuse::Device device;
  std::string name;
  std::string folder;  // of the store
  std::string off;
};

struct vkf_recording {
  vkfuse::Recording recording;
};

struct vkf_graph {
  vkfuse::ir::Graph graph;
  std::vector<vkfuse::ir::NodeId> constants;  // to gradients, of composites
};

struct vkf_program {
  vkfuse::Executable executable;
  std::vector<vkfuse::Port> inputs;
  std::vector<vkfuse::Port> outputs;
};

struct vkf_buffer {
  vkfuse::Buffer buffer;
};

struct vkf_submission {
  vkfuse::Submission submission;
};

struct vkf_stream {
  vkfuse::Stream stream;
};

struct vkf_tensor {
  vkfuse::Tensor tensor;
};

struct vkf_transport {
  std::shared_ptr<vkfuse::Transport> transport;
};

struct vkf_parallel_program {
  vkfuse::ParallelProgram program;
  std::vector<vkfuse::Port> inputs;
  std::vector<vkfuse::Port> outputs;
};

namespace vkfuse::c {

/// Remembers the error for vkf_last_error() of this thread.
vkf_status fail(const Error& error) noexcept;
/// The error of what is being thrown: no exception leaves the library.
vkf_status fail_thrown() noexcept;
/// What a function of the caller's returns; ErrorCode::internal for what is no status.
ErrorCode code_of(vkf_status status);

/// Calls what returns a Result<void>.
template <typename Call>
vkf_status guarded(Call&& call) noexcept {
  try {
    const Result<void> done = call();
    return done ? VKF_OK : fail(done.error());
  } catch (...) {
    return fail_thrown();
  }
}

/// Calls what returns a Result of something to be owned by the caller, and hands it out through `made`.
template <typename T, typename Call>
vkf_status make(T** made, const char* what, Call&& call) noexcept {
  if (made != nullptr) *made = nullptr;
  return guarded([&]() -> Result<void> {
    if (made == nullptr) return invalid("The place for the new {} is null.", what);
    VKF_TRY(value, call());
    *made = new T(std::move(value));
    return {};
  });
}

/// An error unless the pointer is there.
inline Result<void> need(const void* pointer, const char* what) {
  if (pointer == nullptr) return invalid("The {} is null.", what);
  return {};
}

/// `count` elements, as long as there are any.
template <typename T>
Result<std::span<const T>> list(const T* first, std::size_t count, const char* what) {
  if (first == nullptr && count > 0) return invalid("The list of {} is null, but has a count of {}.", what, count);
  return std::span<const T>(first, count);
}

/// The caller's options as this version knows them: what an older caller does not have is zero. Null is all zero.
template <typename T>
Result<T> options(const T* given, const char* what) {
  T known{};
  known.size = sizeof known;
  if (given == nullptr) return known;
  if (given->size < sizeof given->size)
    return invalid("The {} say that they have {} bytes; set `size` to sizeof.", what, given->size);
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t i = sizeof known; i < given->size; ++i) {
    if (bytes[i] != 0)
      return unsupported("The {} set something at byte {}, which this version of vkfuse does not know.", what, i);
  }
  std::memcpy(&known, given, std::min(given->size, sizeof known));
  return known;
}

/// A type without symbols, as tensors of streams and buffers have.
struct SizedType {
  DType dtype = DType::f32;
  std::vector<std::int64_t> sizes;
};

Result<DType> to_dtype(std::int64_t dtype);
Result<Shape> to_shape(const vkf_dim* dims, std::size_t rank);
Result<TensorType> to_type(const vkf_type* type);
Result<SizedType> to_sized_type(const vkf_type* type);
Result<SymbolValues> to_symbols(const vkf_symbol* symbols, std::size_t count);
Result<CompileOptions> to_options(const vkf_compile_options* options);

/// Null where there is none of that name.
const Port* find(const std::vector<Port>& ports, std::string_view name);
/// ErrorCode::not_found where there is none.
Result<const Port*> port_named(const std::vector<Port>& inputs, const std::vector<Port>& outputs, const char* name);
/// Null beyond the last one, and for null.
const char* name_at(const std::vector<Port>* ports, std::size_t index);

Result<Inputs> to_inputs(const vkf_host_input* inputs, std::size_t count);
Result<Bindings> to_bindings(const vkf_program& program, const vkf_bindings* bindings);

/// The answer to a question about a value's type.
Result<void> report_type(DType dtype, const Shape& shape, vkf_type_report* report);

/// Before anything is measured.
Result<void> check_report(const vkf_profile_report* report);
Result<void> report_times(const std::vector<KernelTime>& times, vkf_profile_report& report);

/// A string that vkf_string_free() takes.
Result<char*> copy_of(const std::string& text);
/// The same through the caller's place for it.
Result<void> hand_out(const std::string& text, char** made);

/// An op that takes operands or attributes, by its name.
Result<const ops::OpRow*> find_op(const vkf_op* op, std::size_t operands);
/// A node of it with everything that the attributes say, but without operands.
Result<ir::Node> to_node(const ops::OpRow* row, const vkf_op& op);

/// Tensors of a stream.
Result<std::vector<Tensor>> to_tensors(const vkf_tensor* const* tensors, std::size_t count, const char* what);

/// Whether the op is a composite's name; and then its attributes.
bool is_composite(const vkf_op* op);
Result<CompositeAttributes> composite_attributes(const vkf_op& op);

/// Appends an op, or a composite, by its name.
Result<ir::NodeId> apply(vkf_graph& to, const vkf_op* op, const vkf_value* operands, std::size_t operand_count);

}  // namespace vkfuse::c

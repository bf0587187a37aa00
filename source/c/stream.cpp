// Lazy evaluation through C.
#include <algorithm>

#include "api/tensor_node.hpp"
#include "c/handles.hpp"

namespace vkfuse::c {

Result<std::vector<Tensor>> to_tensors(const vkf_tensor* const* tensors, std::size_t count, const char* what) {
  VKF_TRY(given, list(tensors, count, what));
  std::vector<Tensor> all;
  for (const vkf_tensor* one : given) {
    VKF_CHECK_OK(need(one, "tensor"));
    all.push_back(one->tensor);
  }
  return all;
}

namespace {

/// An invalid tensor is its error: C has no use for one.
Result<vkf_tensor> checked(Tensor tensor) {
  if (!tensor.valid()) return Error(tensor.error());
  return vkf_tensor{std::move(tensor)};
}

}  // namespace

}  // namespace vkfuse::c

using namespace vkfuse;  // NOLINT: this file is the C side

vkf_status vkf_stream_create(const vkf_device* device, const vkf_compile_options* options, vkf_stream** made) {
  return c::make(made, "stream", [&]() -> Result<vkf_stream> {
    VKF_CHECK_OK(c::need(device, "device"));
    VKF_TRY(requested, c::to_options(options));
    return vkf_stream{Stream(device->device, requested)};
  });
}

void vkf_stream_free(vkf_stream* stream) { delete stream; }

vkf_status vkf_tensor_create(const vkf_stream* stream, const vkf_type* type, const void* data, size_t bytes,
                             vkf_tensor** made) {
  return c::make(made, "tensor", [&]() -> Result<vkf_tensor> {
    VKF_CHECK_OK(c::need(stream, "stream"));
    VKF_TRY(sized, c::to_sized_type(type));
    VKF_TRY(given, c::list(static_cast<const std::byte*>(data), bytes, "elements"));
    VKF_TRY(tensor, stream->stream.tensor(sized.dtype, std::move(sized.sizes), given));
    return vkf_tensor{std::move(tensor)};
  });
}

vkf_status vkf_tensor_wrap(const vkf_stream* stream, const vkf_buffer* buffer, const vkf_type* type,
                           vkf_tensor** made) {
  return c::make(made, "tensor", [&]() -> Result<vkf_tensor> {
    VKF_CHECK_OK(c::need(stream, "stream"));
    VKF_CHECK_OK(c::need(buffer, "buffer"));
    VKF_TRY(sized, c::to_sized_type(type));
    VKF_TRY(tensor, stream->stream.wrap(buffer->buffer, sized.dtype, std::move(sized.sizes)));
    return vkf_tensor{std::move(tensor)};
  });
}

vkf_status vkf_tensor_scalar(vkf_dtype dtype, double value, vkf_tensor** made) {
  return c::make(made, "tensor", [&]() -> Result<vkf_tensor> {
    VKF_TRY(type, c::to_dtype(static_cast<int>(dtype)));
    return c::checked(Tensor::scalar(type, value));
  });
}

vkf_status vkf_tensor_apply(const vkf_op* op, const vkf_tensor* const* operands, size_t operand_count,
                            vkf_tensor** made) {
  return c::make(made, "tensor", [&]() -> Result<vkf_tensor> {
    if (c::is_composite(op)) {
      VKF_TRY(given, c::to_tensors(operands, operand_count, "operands"));
      VKF_TRY(attributes, c::composite_attributes(*op));
      return c::checked(apply_composite(op->name, given, attributes));
    }
    VKF_TRY(row, c::find_op(op, operand_count));
    VKF_TRY(tensors, c::to_tensors(operands, operand_count, "operands"));
    VKF_TRY(node, c::to_node(row, *op));
    return c::checked(api::build_tensor(*row, std::move(tensors), std::move(node.type), std::move(node.payload)));
  });
}

vkf_status vkf_tensor_append(const vkf_stream* stream, const vkf_tensor* tensor, const vkf_tensor* rows,
                             vkf_tensor** made) {
  return c::make(made, "tensor", [&]() -> Result<vkf_tensor> {
    VKF_CHECK_OK(c::need(stream, "stream"));
    VKF_CHECK_OK(c::need(tensor, "tensor"));
    VKF_CHECK_OK(c::need(rows, "tensor of rows"));
    VKF_TRY(longer, stream->stream.append(tensor->tensor, rows->tensor));
    return vkf_tensor{std::move(longer)};
  });
}

void vkf_tensor_free(vkf_tensor* tensor) { delete tensor; }

vkf_status vkf_tensor_type(const vkf_tensor* tensor, vkf_type_report* report) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(tensor, "tensor"));
    return c::report_type(tensor->tensor.dtype(), tensor->tensor.shape(), report);
  });
}

vkf_status vkf_stream_eval(const vkf_stream* stream, const vkf_tensor* const* tensors, size_t count) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(stream, "stream"));
    VKF_TRY(asked, c::to_tensors(tensors, count, "tensors"));
    return stream->stream.eval(asked);
  });
}

vkf_status vkf_stream_read(const vkf_stream* stream, const vkf_tensor* tensor, void* data, size_t bytes) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(stream, "stream"));
    VKF_CHECK_OK(c::need(tensor, "tensor"));
    VKF_TRY(place, c::list(static_cast<const std::byte*>(data), bytes, "bytes"));
    VKF_TRY(result, stream->stream.read(tensor->tensor));
    if (result.bytes.size() != place.size())
      return invalid("The tensor has {} bytes, but {} are asked for.", result.bytes.size(), place.size());
    std::copy(result.bytes.begin(), result.bytes.end(), static_cast<std::byte*>(data));
    return {};
  });
}

vkf_status vkf_stream_dump(const vkf_stream* stream, const vkf_tensor* const* tensors, size_t count, char** made) {
  if (made != nullptr) *made = nullptr;
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(stream, "stream"));
    VKF_TRY(asked, c::to_tensors(tensors, count, "tensors"));
    VKF_TRY(text, stream->stream.dump(asked));
    return c::hand_out(text, made);
  });
}

vkf_status vkf_stream_explain(const vkf_stream* stream, char** made) {
  if (made != nullptr) *made = nullptr;
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(stream, "stream"));
    return c::hand_out(stream->stream.explain(), made);
  });
}

vkf_status vkf_stream_status(const vkf_stream* stream, vkf_stream_report* report) {
  return c::guarded([&]() -> Result<void> {
    VKF_CHECK_OK(c::need(stream, "stream"));
    VKF_CHECK_OK(c::need(report, "stream report"));
    VKF_TRY(known, c::options(report, "members of the stream report"));
    const StreamReport now = stream->stream.report();
    known.evaluations = now.evaluations;
    known.plans = now.plans;
    known.kept = now.kept;
    known.held = now.held;
    known.recorded = now.recorded;
    known.kernels = static_cast<std::uint64_t>(now.kernels);
    known.bytes = now.bytes;
    known.buffer_bytes = now.buffer_bytes;
    known.size = report->size;
    std::memcpy(report, &known, std::min(report->size, sizeof known));
    return {};
  });
}

#include "onnx/tensor_proto.hpp"

#include <cstring>

#include "base/shape.hpp"
#include "onnx/external_data.hpp"
#include "onnx/proto_file.hpp"
#include "onnx/text.hpp"

namespace vkfuse::onnx {
namespace {

std::string label(const pb::TensorProto& tensor) { return fmt::format("Tensor {}", in_quotes(tensor.name())); }

/// Dtype and sizes, with a byte count that is known not to overflow.
struct Header {
  TensorData data;
  const NarrowType* narrow = nullptr;
  std::int64_t count = 0;
  std::int64_t byte_count = 0;
};

Result<Header> read_header(const pb::TensorProto& tensor) {
  VKF_TRY(type, element_type_from(tensor.data_type(), label(tensor)));
  Header header{{tensor.name(), type.dtype, {}, {}}, type.narrow};
  for (const std::int64_t size : tensor.dims()) {
    if (size < 0) return invalid("{} has a dimension of {}; sizes are not negative.", label(tensor), size);
    header.data.sizes.push_back(size);
  }
  const Result<std::int64_t> count = vkfuse::element_count(header.data.sizes);
  const Result<std::int64_t> bytes = byte_count(type.dtype, header.data.sizes);
  if (!count || !bytes) {
    return invalid("{} has the shape [{}], whose size in bytes does not fit 64 bits.", label(tensor),
                   fmt::join(header.data.sizes, ", "));
  }
  header.count = *count;
  header.byte_count = *bytes;
  return header;
}

Error wrong_length(const pb::TensorProto& tensor, const Header& header, std::size_t got, std::string_view unit) {
  return invalid("{} is {}[{}], {} elements, but {} {} are stored.", label(tensor), name_of(header.data.dtype),
                 fmt::join(header.data.sizes, ", "), header.count, got, unit);
}

/// Elements from a repeated field, narrowed to the stored type: ONNX keeps small integers and the
/// bits of 16-bit floats in int32_data, u32 in uint64_data.
template <typename Stored, typename Field>
Result<TensorData> from_field(const pb::TensorProto& tensor, Header header, const Field& field) {
  if (static_cast<std::int64_t>(field.size()) != header.count) {
    return wrong_length(tensor, header, static_cast<std::size_t>(field.size()), "elements");
  }
  header.data.bytes.resize(static_cast<std::size_t>(header.byte_count));
  for (int i = 0; i < field.size(); ++i) {
    const auto value = static_cast<Stored>(field.Get(i));
    std::memcpy(header.data.bytes.data() + static_cast<std::size_t>(i) * sizeof(Stored), &value, sizeof(Stored));
  }
  return std::move(header.data);
}

Result<TensorData> from_fields(const pb::TensorProto& tensor, Header header) {
  switch (header.data.dtype) {
    case DType::f32: return from_field<float>(tensor, std::move(header), tensor.float_data());
    case DType::f64: return from_field<double>(tensor, std::move(header), tensor.double_data());
    case DType::i64: return from_field<std::int64_t>(tensor, std::move(header), tensor.int64_data());
    case DType::u64: return from_field<std::uint64_t>(tensor, std::move(header), tensor.uint64_data());
    case DType::u32: return from_field<std::uint32_t>(tensor, std::move(header), tensor.uint64_data());
    case DType::i32: return from_field<std::int32_t>(tensor, std::move(header), tensor.int32_data());
    case DType::i8:
    case DType::u8: return from_field<std::uint8_t>(tensor, std::move(header), tensor.int32_data());
    case DType::boolean: return from_field<bool>(tensor, std::move(header), tensor.int32_data());
    case DType::f16:
    case DType::bf16:
    case DType::i16:
    case DType::u16: return from_field<std::uint16_t>(tensor, std::move(header), tensor.int32_data());
  }
  return unsupported("{} has a dtype that cannot be read.", label(tensor));
}

Result<TensorData> from_raw(const pb::TensorProto& tensor, Header header) {
  const std::string& raw = tensor.raw_data();
  if (static_cast<std::int64_t>(raw.size()) != header.byte_count) {
    return wrong_length(tensor, header, raw.size(), "bytes");
  }
  header.data.bytes.resize(raw.size());
  if (!raw.empty()) std::memcpy(header.data.bytes.data(), raw.data(), raw.size());
  return std::move(header.data);
}

Result<TensorData> from_external(const pb::TensorProto& tensor, Header header, const ExternalFiles& files) {
  if (files.refused()) {
    return unsupported("{} keeps its elements in another file, which is only supported beside a model.", label(tensor));
  }
  VKF_TRY(bytes, read_external_data(tensor, files, header.byte_count));
  header.data.bytes = std::move(bytes);
  return std::move(header.data);
}

/// Narrow elements, packed from the lowest bit of the first byte on; those of 6 and 8 bits stand alone in int32_data.
Result<TensorData> from_packed(const pb::TensorProto& tensor, Header header, const ExternalFiles& files) {
  const bool is_raw = tensor.has_raw_data() || tensor.data_location() == pb::TensorProto::EXTERNAL;
  const int bits = is_raw || header.narrow->bits <= 4 ? header.narrow->bits : 8;
  constexpr std::int64_t kMost = std::int64_t{1} << 56;
  if (header.count > kMost) return unsupported("{} has {} elements.", label(tensor), header.count);
  VKF_TRY(bytes, stored_bytes(tensor, files, (header.count * bits + 7) / 8));
  header.data.bytes.resize(static_cast<std::size_t>(header.byte_count));
  const bool is_signed = is_signed_integer(header.data.dtype);
  for (std::int64_t i = 0; i < header.count; ++i) {
    const auto at = static_cast<std::size_t>(i * bits / 8);
    unsigned pair = std::to_integer<unsigned>(bytes[at]);
    if (at + 1 < bytes.size()) pair |= std::to_integer<unsigned>(bytes[at + 1]) << 8;
    unsigned element = pair >> (i * bits % 8) & ((1U << bits) - 1);
    if (is_signed && (element >> (bits - 1)) != 0) element |= 0xffU << bits;
    header.data.bytes[static_cast<std::size_t>(i)] = static_cast<std::byte>(element);
  }
  return std::move(header.data);
}

/// A stored boolean may be any non-zero byte; ours are 0 or 1.
TensorData with_normal_booleans(TensorData data) {
  if (data.dtype == DType::boolean) {
    for (std::byte& byte : data.bytes) byte = byte == std::byte{0} ? std::byte{0} : std::byte{1};
  }
  return data;
}

Result<TensorData> read_elements(const pb::TensorProto& tensor, Header header, const ExternalFiles& files) {
  if (header.narrow != nullptr) return from_packed(tensor, std::move(header), files);
  if (tensor.data_location() == pb::TensorProto::EXTERNAL) return from_external(tensor, std::move(header), files);
  return tensor.has_raw_data() ? from_raw(tensor, std::move(header)) : from_fields(tensor, std::move(header));
}

Error no_dtype(int data_type, const std::string& what) {
  return unsupported("{} has the element type {}, which is not supported{}.", what, data_type_name(data_type),
                     find_narrow(data_type) != nullptr ? " there" : "");
}

}  // namespace

Result<DType> dtype_from(int data_type, const std::string& what) {
  switch (data_type) {
    case pb::TensorProto::FLOAT: return DType::f32;
    case pb::TensorProto::FLOAT16: return DType::f16;
    case pb::TensorProto::BFLOAT16: return DType::bf16;
    case pb::TensorProto::DOUBLE: return DType::f64;
    case pb::TensorProto::INT8: return DType::i8;
    case pb::TensorProto::UINT8: return DType::u8;
    case pb::TensorProto::INT16: return DType::i16;
    case pb::TensorProto::UINT16: return DType::u16;
    case pb::TensorProto::INT32: return DType::i32;
    case pb::TensorProto::UINT32: return DType::u32;
    case pb::TensorProto::INT64: return DType::i64;
    case pb::TensorProto::UINT64: return DType::u64;
    case pb::TensorProto::BOOL: return DType::boolean;
    case pb::TensorProto::UNDEFINED: return invalid("{} states no element type.", what);
    default: break;
  }
  return no_dtype(data_type, what);
}

Result<ElementType> element_type_from(int data_type, const std::string& what) {
  if (const NarrowType* narrow = find_narrow(data_type)) return ElementType{narrow->held, narrow};
  VKF_TRY(dtype, dtype_from(data_type, what));
  return ElementType{dtype, nullptr};
}

std::string name_of(const ElementType& type) {
  return std::string(type.narrow != nullptr ? type.narrow->name : vkfuse::name_of(type.dtype));
}

Result<std::vector<std::byte>> stored_bytes(const pb::TensorProto& tensor, const ExternalFiles& files,
                                            std::int64_t needed) {
  if (tensor.data_location() == pb::TensorProto::EXTERNAL) {
    if (!files.refused()) return read_external_data(tensor, files, needed);
    return unsupported("{} keeps its elements in another file, which is only supported beside a model.", label(tensor));
  }
  std::vector<std::byte> bytes;
  if (tensor.has_raw_data()) {
    bytes.resize(tensor.raw_data().size());
    if (!bytes.empty()) std::memcpy(bytes.data(), tensor.raw_data().data(), bytes.size());
  } else {
    for (const std::int32_t packed : tensor.int32_data()) bytes.push_back(static_cast<std::byte>(packed));
  }
  if (static_cast<std::int64_t>(bytes.size()) == needed) return bytes;
  return invalid("{} holds {} elements, for which {} bytes are needed, but {} bytes are stored.", label(tensor),
                 data_type_name(tensor.data_type()), needed, bytes.size());
}

Result<TensorData> decode_tensor(const pb::TensorProto& tensor, const ExternalFiles& files) {
  if (tensor.has_segment()) return unsupported("{} is stored in segments, which is not supported.", label(tensor));
  VKF_TRY(header, read_header(tensor));
  VKF_TRY(data, read_elements(tensor, std::move(header), files));
  return with_normal_booleans(std::move(data));
}

Result<TensorData> read_tensor_proto(const std::filesystem::path& path) try {
  VKF_TRY(tensor, read_tensor_file(path));
  return decode_tensor(tensor, {});
} catch (const std::bad_alloc&) {
  return make_error(ErrorCode::out_of_memory, "There is not enough host memory to read {}.", in_quotes(path.string()));
}

}  // namespace vkfuse::onnx

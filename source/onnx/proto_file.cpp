#include "onnx/proto_file.hpp"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>

#include <climits>
#include <fstream>

#include "base/files.hpp"
#include "onnx/text.hpp"

namespace vkfuse::onnx {
namespace {

/// Messages nest only through subgraphs and types; a file nested deeper than this is an attack on
/// the stack.
constexpr int kMaxNesting = 64;

bool parse(google::protobuf::io::ZeroCopyInputStream& stream, google::protobuf::MessageLite& message) {
  google::protobuf::io::CodedInputStream input(&stream);
  input.SetTotalBytesLimit(INT_MAX);
  input.SetRecursionLimit(kMaxNesting);
  return message.ParseFromCodedStream(&input) && input.ConsumedEntireMessage();
}

Error not_a(std::string_view kind, const std::string& what) {
  return invalid("{} is not an ONNX {}, or it is truncated: it does not parse as that protobuf message.", what, kind);
}

Result<void> check_readable(const std::filesystem::path& path) {
  std::error_code code;
  const auto status = std::filesystem::status(path, code);
  if (!std::filesystem::exists(status)) {
    return make_error(ErrorCode::not_found, "There is no file {}.", in_quotes(path.string()));
  }
  // A pipe or a device could feed data for ever.
  if (!std::filesystem::is_regular_file(status)) {
    return make_error(ErrorCode::io, "{} is not a regular file.", in_quotes(path.string()));
  }
  VKF_CHECK_OK(check_whole_file(path));
  const std::uintmax_t size = std::filesystem::file_size(path, code);
  if (code) return make_error(ErrorCode::io, "{} cannot be read: {}.", in_quotes(path.string()), code.message());
  if (size > INT_MAX) {
    return unsupported(
        "{} has {} bytes; a protobuf file holds at most {} (larger models keep their weights in files "
        "beside it).",
        in_quotes(path.string()), size, INT_MAX);
  }
  return {};
}

template <typename Message>
Result<Message> read_file(const std::filesystem::path& path, std::string_view kind) {
  VKF_CHECK_OK(check_readable(path));
  std::ifstream file(path, std::ios::binary);
  if (!file) return make_error(ErrorCode::io, "{} cannot be opened for reading.", in_quotes(path.string()));
  google::protobuf::io::IstreamInputStream stream(&file, 1 << 20);
  Message message;
  if (!parse(stream, message)) return not_a(kind, in_quotes(path.string()));
  return message;
}

/// Any short run of bytes can parse as a message of nothing but unknown fields.
Result<pb::ModelProto> with_graph(pb::ModelProto model, const std::string& what) {
  if (!model.has_graph()) return invalid("{} is not an ONNX model: it holds no graph.", what);
  return model;
}

}  // namespace

Result<pb::ModelProto> read_model_file(const std::filesystem::path& path) {
  VKF_TRY(model, read_file<pb::ModelProto>(path, "model"));
  return with_graph(std::move(model), in_quotes(path.string()));
}

Result<pb::TensorProto> read_tensor_file(const std::filesystem::path& path) {
  return read_file<pb::TensorProto>(path, "tensor");
}

Result<pb::ModelProto> parse_model(std::span<const std::byte> bytes, const std::string& what) {
  if (bytes.size() > INT_MAX) return unsupported("{} has {} bytes; the limit is {}.", what, bytes.size(), INT_MAX);
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  pb::ModelProto model;
  if (!parse(stream, model)) return not_a("model", what);
  return with_graph(std::move(model), what);
}

}  // namespace vkfuse::onnx

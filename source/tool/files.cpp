#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/files.hpp"
#include "tool/model.hpp"
#include "vkfuse/onnx.hpp"

namespace vkfuse::tool {

namespace fs = std::filesystem;

Result<std::string> read_text(const fs::path& path) { return read_whole_file(path, kMostText); }

Result<void> write_file(const fs::path& path, std::string_view bytes) { return write_whole_file(path, bytes); }

namespace {

struct NpyType {
  DType dtype;
  const char* descr;
};
// bfloat16 has no NumPy name; the two-byte void type is what ml_dtypes-aware writers fall back to.
constexpr NpyType kNpyTypes[] = {{DType::f32, "<f4"}, {DType::f16, "<f2"}, {DType::f64, "<f8"}, {DType::i8, "|i1"},
                                 {DType::u8, "|u1"},  {DType::i16, "<i2"}, {DType::u16, "<u2"}, {DType::i32, "<i4"},
                                 {DType::u32, "<u4"}, {DType::i64, "<i8"}, {DType::u64, "<u8"}, {DType::boolean, "|b1"},
                                 {DType::bf16, "<V2"}};

/// The header of a .npy file: a Python dictionary of a string, a bool and a tuple of numbers, in any order.
class NpyHeader {
 public:
  explicit NpyHeader(std::string_view text) : rest_(text) {}

  /// False where it is anything else, or lacks one of the three.
  bool parse() {
    if (!take('{')) return false;
    while (!take('}')) {
      if (!entry()) return false;
      if (!take(',')) {
        if (!take('}')) return false;
        break;
      }
    }
    skip_spaces();
    return rest_.empty() && has_descr_ && has_order_ && has_shape_;
  }

  std::string descr;
  bool fortran_order = false;
  std::vector<std::int64_t> sizes;
  bool too_large = false;  ///< a size is no 64-bit number

 private:
  void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }
  bool take(char c) {
    skip_spaces();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool word(std::string_view text) {
    skip_spaces();
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  bool string(std::string& into) {
    skip_spaces();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return false;
    const std::size_t end = rest_.find(rest_[0], 1);
    if (end == std::string_view::npos) return false;
    into = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return true;
  }
  bool entry() {
    std::string key;
    if (!string(key) || !take(':')) return false;
    if (key == "descr") return !std::exchange(has_descr_, true) && string(descr);
    if (key == "shape") return !std::exchange(has_shape_, true) && tuple();
    if (key != "fortran_order" || std::exchange(has_order_, true)) return false;
    fortran_order = word("True");
    return fortran_order || word("False");
  }
  bool tuple() {
    if (!take('(')) return false;
    while (!take(')')) {
      skip_spaces();
      std::int64_t size = 0;
      const auto [end, failed] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), size);
      if (failed != std::errc() && failed != std::errc::result_out_of_range) return false;
      too_large = too_large || failed == std::errc::result_out_of_range;
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      static_cast<void>(take('L'));  // Python 2 wrote numbers of type long like this
      sizes.push_back(size);
      if (!take(',')) return take(')');
    }
    return true;
  }

  std::string_view rest_;
  bool has_descr_ = false, has_order_ = false, has_shape_ = false;
};

}  // namespace

Result<HostTensor> read_npy(const fs::path& path) {
  VKF_TRY(text, read_whole_file(path));
  const auto bad = [&](std::string_view what) {
    return invalid("'{}' is not a usable .npy file: {}.", path.string(), what);
  };
  if (text.size() < 12 || text.compare(0, 6, "\x93NUMPY") != 0) return bad("it does not start with the NumPy magic");
  const int version = static_cast<unsigned char>(text[6]);
  if (version < 1 || version > 3) return bad(fmt::format("its version is {}, and not 1, 2 or 3", version));
  const bool v1 = version == 1;
  std::uint32_t length = 0;
  std::memcpy(&length, text.data() + 8, v1 ? 2 : 4);
  const std::size_t start = v1 ? 10 : 12;
  if (length > text.size() - start) return bad("its header is cut off");
  NpyHeader header(std::string_view(text).substr(start, length));
  if (!header.parse()) return bad("its header is not the dictionary of 'descr', 'fortran_order' and 'shape'");
  const auto* type = std::find_if(std::begin(kNpyTypes), std::end(kNpyTypes),
                                  [&](const NpyType& one) { return header.descr == one.descr; });
  if (type == std::end(kNpyTypes))
    return bad(fmt::format("its type '{}' is not supported", header.descr.substr(0, 40)));
  if (header.fortran_order) return bad("it is in Fortran order");
  if (header.too_large) return bad("a size has more than 64 bits");
  if (std::any_of(header.sizes.begin(), header.sizes.end(), [](std::int64_t size) { return size < 0; }))
    return bad("it has a negative size");
  HostTensor tensor{type->dtype, std::move(header.sizes), {}};
  VKF_TRY(bytes, byte_count(tensor.dtype, tensor.sizes));
  const std::size_t held = text.size() - start - length;
  if (static_cast<std::int64_t>(held) != bytes)
    return bad(fmt::format("its shape needs {} bytes, and it holds {}", bytes, held));
  tensor.bytes.resize(held);
  if (held > 0) std::memcpy(tensor.bytes.data(), text.data() + start + length, held);
  return tensor;
}

Result<HostTensor> read_tensor(const fs::path& path) {
  if (path.extension() != ".pb") return read_npy(path);
  auto tensor = onnx::read_tensor_proto(path);
  if (!tensor) return std::move(tensor).error().within("reading " + path.string());
  return HostTensor{tensor->dtype, std::move(tensor->sizes), std::move(tensor->bytes)};
}

HostTensor converted(const HostTensor& tensor, DType dtype) {
  HostTensor result{dtype, tensor.sizes, {}};
  for (std::size_t at = 0; at < tensor.bytes.size(); at += static_cast<std::size_t>(size_of(tensor.dtype))) {
    ir::encode(dtype, ir::decode(tensor.dtype, tensor.bytes.data() + at), result.bytes);
  }
  return result;
}

Result<void> write_npy(const fs::path& path, const HostTensor& tensor) {
  std::string descr;
  for (const NpyType& type : kNpyTypes) {
    if (type.dtype == tensor.dtype) descr = type.descr;
  }
  std::string shape;
  for (std::int64_t size : tensor.sizes) shape += fmt::format("{},", size);
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  const auto length = static_cast<std::uint16_t>(header.size());
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(length & 0xff);
  file += static_cast<char>(length >> 8);
  file += header;
  file.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  return write_file(path, file);
}

}  // namespace vkfuse::tool

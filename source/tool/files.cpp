#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include <algorithm>
#include <cctype>
#include "tool/model.hpp"
#include "vkfuse/onnx.hpp"

namespace vkfuse::tool {

namespace fs = std::filesystem;

Result<std::string> read_text(const fs::path& path) {
  std::error_code failed;
  if (!fs::is_regular_file(path, failed)) return make_error(ErrorCode::not_found, "There is no file '{}'.", path.string());
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return make_error(ErrorCode::io, "The file '{}' could not be read.", path.string());
  return text.str();
}

Result<void> write_file(const fs::path& path, std::string_view bytes) {
  const fs::path temporary = path.string() + fmt::format(".{}.tmp", ::getpid());
  std::ofstream file(temporary, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  std::error_code failed;
  if (file) fs::rename(temporary, path, failed);
  if (!file || failed) {
    fs::remove(temporary, failed);
    return make_error(ErrorCode::io, "The file '{}' could not be written.", path.string());
  }
  return {};
}

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

std::string value_of(const std::string& header, const std::string& key) {
  const std::size_t at = header.find("'" + key + "':");
  if (at == std::string::npos) return {};
  std::size_t start = header.find_first_not_of(' ', at + key.size() + 3);
  if (start == std::string::npos) return {};
  const char open = header[start];
  const char close = open == '\'' ? '\'' : open == '(' ? ')' : ',';
  if (open == '\'' || open == '(') ++start;
  return header.substr(start, header.find(close, start) - start);
}

}  // namespace

Result<HostTensor> read_npy(const fs::path& path) {
  VKF_TRY(text, read_text(path));
  const auto bad = [&](std::string_view what) { return invalid("'{}' is not a usable .npy file: {}.", path.string(), what); };
  if (text.size() < 12 || text.compare(0, 6, "\x93NUMPY") != 0) return bad("it does not start with the NumPy magic");
  const bool v1 = text[6] == 1;
  std::size_t length = 0;
  std::memcpy(&length, text.data() + 8, v1 ? 2 : 4);
  const std::size_t start = v1 ? 10 : 12;
  if (start + length > text.size()) return bad("its header is cut off");
  const std::string header = text.substr(start, length);
  HostTensor tensor;
  const std::string descr = value_of(header, "descr");
  bool known = false;
  for (const NpyType& type : kNpyTypes) {
    if (descr != type.descr) continue;
    tensor.dtype = type.dtype;
    known = true;
  }
  if (!known) return bad(fmt::format("its type '{}' is not supported", descr));
  if (value_of(header, "fortran_order") != "False") return bad("it is in Fortran order");
  std::istringstream sizes(value_of(header, "shape"));
  for (std::string item; std::getline(sizes, item, ',');) {
    if (item.find_first_of("0123456789") == std::string::npos) continue;
    char* end = nullptr;
    const std::int64_t size = std::strtoll(item.c_str(), &end, 10);
    if (size < 0) return bad("it has a negative size");
    tensor.sizes.push_back(size);
  }
  VKF_TRY(bytes, byte_count(tensor.dtype, tensor.sizes));
  if (static_cast<std::int64_t>(text.size() - start - length) != bytes) {
    return bad(fmt::format("its shape needs {} bytes, and it holds {}", bytes, text.size() - start - length));
  }
  tensor.bytes.resize(static_cast<std::size_t>(bytes));
  std::memcpy(tensor.bytes.data(), text.data() + start + length, tensor.bytes.size());
  return tensor;
}

Result<HostTensor> read_tensor(const fs::path& path) {
  if (path.extension() != ".pb") return read_npy(path);
  auto tensor = onnx::read_tensor_proto(path);
  if (!tensor) return std::move(tensor).error().within("reading " + path.string());
  return HostTensor{tensor->dtype, std::move(tensor->sizes), std::move(tensor->bytes)};
}

std::string file_stem(const std::string& name) {
  std::string safe = name;
  std::replace_if(
      safe.begin(), safe.end(),
      [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '-'; }, '_');
  return safe;
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

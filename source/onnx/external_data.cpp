#include "onnx/external_data.hpp"

#include <charconv>
#include <fstream>
#include <string_view>

#include "onnx/text.hpp"

namespace vkfuse::onnx {
namespace {

namespace fs = std::filesystem;

struct Place {
  std::string location;
  std::int64_t offset = 0;
  std::optional<std::int64_t> length;
};

Result<std::int64_t> parse_number(const pb::StringStringEntryProto& entry, const std::string& tensor) {
  const std::string& text = entry.value();
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size() || value < 0) {
    return invalid("The external data of tensor {} has the {} {}, which is not a number of bytes.", tensor, entry.key(),
                   in_quotes(text));
  }
  return value;
}

Result<Place> read_place(const pb::TensorProto& proto) {
  const std::string tensor = in_quotes(proto.name());
  Place place;
  for (const pb::StringStringEntryProto& entry : proto.external_data()) {
    if (entry.key() == "location") {
      place.location = entry.value();
    } else if (entry.key() == "offset") {
      VKF_TRY(offset, parse_number(entry, tensor));
      place.offset = offset;
    } else if (entry.key() == "length") {
      VKF_TRY(length, parse_number(entry, tensor));
      place.length = length;
    }
  }
  if (place.location.empty()) return invalid("The external data of tensor {} states no location.", tensor);
  return place;
}

/// Walks down from the folder one component at a time, refusing whatever leads out of it.
Result<fs::path> resolve_inside(const fs::path& folder, const std::string& location, const std::string& tensor) {
  const fs::path relative(location);
  if (location.find('\0') != std::string::npos || relative.is_absolute() || relative.has_root_name()) {
    return invalid("The external data of tensor {} lies in {}; only a path relative to the model is allowed.", tensor,
                   in_quotes(location));
  }
  fs::path path = folder;
  std::error_code code;
  for (const fs::path& component : relative) {
    if (component == "..") {
      return invalid("The external data of tensor {} lies in {}; '..' is not allowed in it.", tensor,
                     in_quotes(location));
    }
    path /= component;
    if (fs::is_symlink(fs::symlink_status(path, code))) {
      return invalid("The external data of tensor {} lies in {}, which goes through a symbolic link.", tensor,
                     in_quotes(location));
    }
  }
  if (!fs::is_regular_file(path, code)) {
    return make_error(ErrorCode::not_found, "The external data of tensor {} lies in {}, which is not a file.", tensor,
                      in_quotes(location));
  }
  return path;
}

Result<void> check_range(const Place& place, std::uintmax_t file_size, std::int64_t expected,
                         const std::string& tensor) {
  if (place.length && *place.length != expected) {
    return invalid("The external data of tensor {} has {} bytes; its shape needs {}.", tensor, *place.length, expected);
  }
  const auto offset = static_cast<std::uintmax_t>(place.offset);
  if (offset > file_size || static_cast<std::uintmax_t>(expected) > file_size - offset) {
    return invalid("The external data of tensor {} is bytes {} to {} of {}, which has only {}.", tensor, place.offset,
                   offset + static_cast<std::uintmax_t>(expected), in_quotes(place.location), file_size);
  }
  return {};
}

}  // namespace

Result<std::vector<std::byte>> read_external_data(const pb::TensorProto& proto, const fs::path& folder,
                                                  std::int64_t expected) {
  const std::string tensor = in_quotes(proto.name());
  VKF_TRY(place, read_place(proto));
  VKF_TRY(path, resolve_inside(folder, place.location, tensor));
  std::error_code code;
  const std::uintmax_t size = fs::file_size(path, code);
  if (code) return make_error(ErrorCode::io, "{} cannot be read: {}.", in_quotes(place.location), code.message());
  VKF_CHECK_OK(check_range(place, size, expected, tensor));

  std::ifstream file(path, std::ios::binary);
  std::vector<std::byte> bytes(static_cast<std::size_t>(expected));
  file.seekg(place.offset);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) return make_error(ErrorCode::io, "{} could not be read to its end.", in_quotes(place.location));
  return bytes;
}

}  // namespace vkfuse::onnx

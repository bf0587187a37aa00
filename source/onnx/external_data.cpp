#include "onnx/external_data.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "onnx/text.hpp"
#include "os/files.hpp"
#include "os/system.hpp"

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

Error not_a_file(const std::string& location, const std::string& tensor) {
  return make_error(ErrorCode::not_found, "The external data of tensor {} lies in {}, which is not a file.", tensor,
                    in_quotes(location));
}

/// Walks down from a folder one component at a time, without links: `below` has been resolved, and a link that is put
/// in its place afterwards is not followed.
Result<os::Handle> open_inside(const fs::path& folder, const fs::path& below, const std::string& location,
                               const std::string& tensor) {
  os::Handle at = os::open_folder(folder);
  for (auto component = below.begin(); component != below.end(); ++component) {
    const bool is_last = std::next(component) == below.end();
    at = is_last ? os::open_file_in(at, *component) : os::open_folder_in(at, *component);
    if (!at.is_open()) return not_a_file(location, tensor);
  }
  return at;
}

/// Nothing where the variable is not set, or names no absolute path.
std::optional<fs::path> folder_in(const char* variable) {
  const fs::path folder = os::to_path(os::variable(variable).value_or(""));
  return folder.is_absolute() ? std::optional(folder) : std::nullopt;
}

/// The folders of the user's own that hold what downloads share.
std::vector<fs::path> cache_folders() {
  std::vector<fs::path> folders;
  for (const char* variable : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"}) {
    if (auto folder = folder_in(variable)) folders.push_back(*std::move(folder));
  }
  if (const auto home = os::home_folder()) folders.push_back(*home / ".cache");
  return folders;
}

/// The same repository's blobs, where the folder of a model is a snapshot as the Hugging Face hub lays it out:
/// models--NAME/snapshots/REVISION/..., whose files are links to models--NAME/blobs/HASH.
std::optional<fs::path> blobs_beside(const fs::path& folder) {
  for (fs::path at = folder; at.has_relative_path(); at = at.parent_path()) {
    if (at.parent_path().filename() == "snapshots") return at.parent_path().parent_path() / "blobs";
  }
  return std::nullopt;
}

/// `path` as it goes on from `folder`, if it lies below it; both have been resolved.
std::optional<fs::path> path_below(const fs::path& folder, const fs::path& path) {
  const auto [of_folder, of_path] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  if (of_folder != folder.end() || of_path == path.end()) return std::nullopt;
  fs::path below;
  for (auto component = of_path; component != path.end(); ++component) below /= *component;
  return below;
}

/// Opens what the location names in the model's folder. Links are followed as long as they end below it, in the blobs
/// that belong to it, or in the user's own cache. Where they lead is looked at first, and opened without following any.
Result<os::Handle> open_allowed(const fs::path& folder, const std::string& location, const std::string& tensor) {
  const fs::path relative = os::to_path(location);
  if (location.find('\0') != std::string::npos || relative.has_root_path()) {
    return invalid("The external data of tensor {} lies in {}; only a path relative to the model is allowed.", tensor,
                   in_quotes(location));
  }
  if (std::find(relative.begin(), relative.end(), "..") != relative.end()) {
    return invalid("The external data of tensor {} lies in {}; '..' is not allowed in it.", tensor,
                   in_quotes(location));
  }
  const auto root = os::resolve(folder);
  const auto target = root ? os::resolve(*root / relative) : std::nullopt;
  if (!target) return not_a_file(location, tensor);
  if (const auto below = path_below(*root, *target)) return open_inside(*root, *below, location, tensor);
  std::vector<fs::path> allowed;
  // Not resolved: it is beside the snapshots, and no link to elsewhere.
  if (auto blobs = blobs_beside(*root)) allowed.push_back(*std::move(blobs));
  for (const fs::path& cache : cache_folders()) {
    const auto resolved = os::resolve(cache);
    if (resolved && resolved->has_relative_path()) allowed.push_back(*resolved);
  }
  for (const fs::path& other : allowed) {
    if (const auto below = path_below(other, *target)) return open_inside(other, *below, location, tensor);
  }
  return invalid(
      "The external data of tensor {} lies in {}, a link to {}, which is neither below the model's folder nor in the "
      "user's cache.",
      tensor, in_quotes(location), in_quotes(target->string()));
}

/// The size of what is open, if it is a file.
Result<std::uint64_t> size_of_file(const os::Handle& file, const std::string& location, const std::string& tensor) {
  const auto size = os::size_of_regular(file);
  if (!size) return not_a_file(location, tensor);
  return *size;
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

/// Null if the file is not in the caller's memory.
const std::span<const std::byte>* find_given(const ExternalFiles& files, const std::string& location) {
  if (files.given == nullptr) return nullptr;
  const auto found = files.given->find(location);
  return found == files.given->end() ? nullptr : &found->second;
}

}  // namespace

Result<std::vector<std::byte>> read_external_data(const pb::TensorProto& proto, const ExternalFiles& files,
                                                  std::int64_t expected) {
  const std::string tensor = in_quotes(proto.name());
  VKF_TRY(place, read_place(proto));
  if (const auto* bytes = find_given(files, place.location)) {
    VKF_CHECK_OK(check_range(place, bytes->size(), expected, tensor));
    const auto part = bytes->subspan(static_cast<std::size_t>(place.offset), static_cast<std::size_t>(expected));
    return std::vector<std::byte>(part.begin(), part.end());
  }
  if (files.folder.empty()) {
    return make_error(ErrorCode::not_found, "The external data of tensor {} lies in {}, whose bytes are not given.",
                      tensor, in_quotes(place.location));
  }
  VKF_TRY(file, open_allowed(files.folder, place.location, tensor));
  VKF_TRY(size, size_of_file(file, place.location, tensor));
  VKF_CHECK_OK(check_range(place, size, expected, tensor));

  std::vector<std::byte> bytes(static_cast<std::size_t>(expected));
  for (std::span<std::byte> rest = bytes; !rest.empty();) {
    const std::size_t done = bytes.size() - rest.size();
    const std::ptrdiff_t got = os::read_some_at(file, static_cast<std::uint64_t>(place.offset) + done, rest);
    if (got <= 0) return make_error(ErrorCode::io, "{} could not be read to its end.", in_quotes(place.location));
    rest = rest.subspan(static_cast<std::size_t>(got));
  }
  return bytes;
}

}  // namespace vkfuse::onnx

#include "onnx/external_data.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>

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

/// An open file or folder.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

/// Why a component could not be opened: found out afterwards, for the sentence alone.
Error not_opened(const Descriptor& folder, const char* component, const std::string& location, const std::string& tensor) {
  struct stat about {};
  if (::fstatat(folder.number(), component, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(about.st_mode)) {
    return invalid("The external data of tensor {} lies in {}, which goes through a symbolic link.", tensor,
                   in_quotes(location));
  }
  return make_error(ErrorCode::not_found, "The external data of tensor {} lies in {}, which is not a file.", tensor,
                    in_quotes(location));
}

/// Walks down from the folder one component at a time, refusing whatever leads out of it. What was looked at is what is
/// opened: nobody can put a link in its place between the two.
Result<Descriptor> open_inside(const fs::path& folder, const std::string& location, const std::string& tensor) {
  const fs::path relative(location);
  if (location.find('\0') != std::string::npos || relative.is_absolute() || relative.has_root_name()) {
    return invalid("The external data of tensor {} lies in {}; only a path relative to the model is allowed.", tensor,
                   in_quotes(location));
  }
  Descriptor at(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (auto component = relative.begin(); component != relative.end(); ++component) {
    if (*component == "..") {
      return invalid("The external data of tensor {} lies in {}; '..' is not allowed in it.", tensor,
                     in_quotes(location));
    }
    const bool is_last = std::next(component) == relative.end();
    // A pipe would keep us waiting.
    const int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | (is_last ? O_NONBLOCK : O_DIRECTORY);
    Descriptor next(::openat(at.number(), component->c_str(), flags));
    if (next.number() < 0) return not_opened(at, component->c_str(), location, tensor);
    at = std::move(next);
  }
  return at;
}

/// The size of what is open, if it is a file of the model's alone.
Result<std::uintmax_t> size_of_file(const Descriptor& file, const std::string& location, const std::string& tensor) {
  struct stat about {};
  if (::fstat(file.number(), &about) != 0 || !S_ISREG(about.st_mode)) {
    return make_error(ErrorCode::not_found, "The external data of tensor {} lies in {}, which is not a file.", tensor,
                      in_quotes(location));
  }
  if (about.st_nlink > 1) {
    return invalid("The external data of tensor {} lies in {}, which has {} names (hard links); it may have one.", tensor,
                   in_quotes(location), about.st_nlink);
  }
  return static_cast<std::uintmax_t>(about.st_size);
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
  VKF_TRY(file, open_inside(folder, place.location, tensor));
  VKF_TRY(size, size_of_file(file, place.location, tensor));
  VKF_CHECK_OK(check_range(place, size, expected, tensor));

  std::vector<std::byte> bytes(static_cast<std::size_t>(expected));
  for (std::size_t done = 0; done < bytes.size();) {
    constexpr std::size_t kAtOnce = std::size_t{1} << 30;  // Linux reads no more than 2 GiB
    const ssize_t got = ::pread(file.number(), bytes.data() + done, std::min(bytes.size() - done, kAtOnce),
                                place.offset + static_cast<std::int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return make_error(ErrorCode::io, "{} could not be read to its end.", in_quotes(place.location));
    done += static_cast<std::size_t>(got);
  }
  return bytes;
}

}  // namespace vkfuse::onnx

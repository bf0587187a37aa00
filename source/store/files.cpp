#include "store/files.hpp"

#include <fmt/format.h>

#include <atomic>
#include <chrono>

#include "os/files.hpp"
#include "os/system.hpp"
#include "store/entry.hpp"

namespace vkfuse::store {
namespace {

constexpr const char* kTemporary = "vkfuse-";  // the beginning of names of files that are being written

/// No other process, thread or earlier life of this process id has it.
std::string temporary_name() {
  static std::atomic<std::uint64_t> count = 0;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return fmt::format("{}{}-{}-{:x}.tmp", kTemporary, os::process_id(), count++,
                     std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

}  // namespace

std::optional<std::vector<std::byte>> read_file(const Folder& folder, const std::string& name, std::uint64_t limit) {
  const os::Handle file = os::open_file_in(folder.handle(), os::to_path(name));
  const auto size = file.is_open() ? os::size_of_regular(file) : std::nullopt;
  if (!size || *size > limit) return std::nullopt;
  std::vector<std::byte> bytes(static_cast<std::size_t>(*size));
  for (std::span<std::byte> rest = bytes; !rest.empty();) {
    const std::ptrdiff_t got = os::read_some(file, rest);
    if (got <= 0) return std::nullopt;
    rest = rest.subspan(static_cast<std::size_t>(got));
  }
  os::touch(file);  // refused on a read-only file system, where nothing is evicted either
  return bytes;
}

bool write_file(const Folder& folder, const std::string& name, std::span<const std::byte> bytes) {
  const std::string beside = temporary_name();
  bool whole = false;
  {
    const os::Handle file = os::create_file_in(folder.handle(), beside);
    if (!file.is_open()) return false;
    whole = os::write_all(file, bytes);
  }
  // No fsync: after a power cut the hash tells what arrived.
  if (whole && os::replace_in(folder.handle(), beside, name)) return true;
  remove_file(folder, beside);
  return false;
}

std::vector<Listed> list_files(const Folder& folder) {
  std::vector<Listed> all;
  for (const os::Entry& entry : os::list_files(folder.handle())) {
    const bool temporary = entry.name.starts_with(kTemporary) && entry.name.ends_with(".tmp");
    if (temporary || is_file_name(entry.name)) all.push_back({entry.name, entry.bytes, entry.changed_ns, temporary});
  }
  return all;
}

void remove_file(const Folder& folder, const std::string& name) { os::remove_in(folder.handle(), name); }

}  // namespace vkfuse::store

#include "store/entry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/mutations.hpp"

namespace vkfuse::store {
namespace {

static_assert(std::endian::native == std::endian::little, "files are written as the host has its words");

constexpr std::array<char, 8> kMagic = {'v', 'k', 'f', 's', 't', 'o', 'r', 'e'};
constexpr std::uint32_t kVersion = 1;
constexpr std::array<std::string_view, kKindCount> kNames = {"spirv",    "pipeline", "probe", "costs",
                                                             "schedule", "plan",     "passed"};
constexpr std::size_t kDigits = 16;

struct Header {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t kind = 0;
  std::uint64_t key_bytes = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t hash = 0;  ///< of the header with 0 here, the key and the payload
};
static_assert(sizeof(Header) == 40, "no padding is written");

/// 64 bits over words of 8 bytes. Every step is a bijection of the state, so a change of one word always shows; it
/// guards against accidents, and the folder's owner against malice.
class Hash {
 public:
  Hash& add(std::span<const std::byte> bytes) {
    step(bytes.size());
    for (; bytes.size() >= 8; bytes = bytes.subspan(8)) step(word(bytes.first(8)));
    if (!bytes.empty()) step(word(bytes));
    return *this;
  }
  [[nodiscard]] std::uint64_t value() const { return state_; }

 private:
  static std::uint64_t word(std::span<const std::byte> bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  void step(std::uint64_t value) {
    state_ = (state_ ^ value) * 0x9e3779b97f4a7c15U;
    state_ ^= state_ >> 32;
  }
  std::uint64_t state_ = 0x243f6a8885a308d3U;
};

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::uint64_t hash_of(Header header, std::string_view key, std::span<const std::byte> payload) {
  header.hash = 0;
  return Hash().add(std::as_bytes(std::span(&header, 1))).add(bytes_of(key)).add(payload).value();
}

}  // namespace

std::string file_name(Kind kind, std::string_view key) {
  return fmt::format("{:016x}.{}", Hash().add(bytes_of(key)).value(), kNames[static_cast<std::size_t>(kind)]);
}

bool is_file_name(std::string_view name) {
  if (name.size() <= kDigits + 1 || name[kDigits] != '.') return false;
  const std::string_view digits = name.substr(0, kDigits);
  return digits.find_first_not_of("0123456789abcdef") == std::string_view::npos &&
         std::find(kNames.begin(), kNames.end(), name.substr(kDigits + 1)) != kNames.end();
}

std::vector<std::byte> encode(Kind kind, std::string_view key, std::span<const std::byte> payload) {
  Header header;
  header.kind = static_cast<std::uint32_t>(kind);
  header.key_bytes = key.size();
  header.payload_bytes = payload.size();
  header.hash = hash_of(header, key, payload);
  std::vector<std::byte> file;
  file.reserve(sizeof header + key.size() + payload.size());
  for (const std::span<const std::byte> part : {std::as_bytes(std::span(&header, 1)), bytes_of(key), payload}) {
    file.insert(file.end(), part.begin(), part.end());
  }
  return file;
}

std::optional<std::span<const std::byte>> decode(Kind kind, std::string_view key, std::span<const std::byte> file) {
  Header header;
  if (file.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, file.data(), sizeof header);
  if (header.magic != kMagic || header.version != kVersion || header.kind != static_cast<std::uint32_t>(kind))
    return std::nullopt;
  const std::span<const std::byte> rest = file.subspan(sizeof header);
  // One after the other: their sum may be anything.
  if (header.key_bytes != key.size() || header.key_bytes > rest.size()) return std::nullopt;
  const std::span<const std::byte> payload = rest.subspan(key.size());
  if (header.payload_bytes != payload.size()) return std::nullopt;
  if (std::memcmp(rest.data(), key.data(), key.size()) != 0) return std::nullopt;
  if (VKF_PLANT(unchecked_store_hash, header.hash, hash_of(header, key, payload)) != hash_of(header, key, payload))
    return std::nullopt;
  return payload;
}

}  // namespace vkfuse::store

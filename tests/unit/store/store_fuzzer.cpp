// Any bytes as a file of the store: exactly what was written, or nothing. Any bytes as a payload and as a key: they
// come back.

#include "support/fuzzer.hpp"
#include "unit/store/fixture.hpp"

namespace vkfuse::store::test {
namespace {

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Files of every kind, the first byte of each being its kind.
std::vector<std::string> inputs() {
  std::vector<std::string> all;
  for (int kind = 0; kind < kKindCount; ++kind) {
    for (const std::size_t size : {0, 1, 4, 80, 700}) {
      all.push_back(std::string(1, static_cast<char>(kind)) +
                    text_of(encode(static_cast<Kind>(kind), "a key", noise(size, 1 + size))));
    }
  }
  return all;
}

/// A folder of this process, gone with it.
struct Folder {
  Folder() : path(scratch() / ("vkfuse-store-fuzzer-" + std::to_string(os::process_id()))) {
    fs::create_directory(path);
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  fs::path path;
};

bool is_file(const std::string& bytes) {
  if (bytes.empty()) return false;
  const auto kind = static_cast<Kind>(static_cast<unsigned char>(bytes[0]) % kKindCount);
  const std::vector<std::byte> file = bytes_of(std::string_view(bytes).substr(1));
  const auto payload = decode(kind, "a key", file);
  if (payload && encode(kind, "a key", *payload) != file)
    vkfuse::test::fault("A file was accepted that is not what encode() makes of its payload.");

  // Through a folder, as a process finds it.
  static const Folder folder;
  static Store store({true, folder.path.string(), std::uint64_t{1} << 20});
  if (!store.off().empty()) vkfuse::test::fault(store.off());
  write(folder.path / file_name(kind, "a key"), file);
  const auto loaded = store.load(kind, "a key");
  if (loaded.has_value() != payload.has_value()) vkfuse::test::fault("The store says otherwise than decode() does.");
  if (loaded && !std::equal(loaded->begin(), loaded->end(), payload->begin(), payload->end()))
    vkfuse::test::fault("The store gives other bytes than decode() does.");

  // The bytes as a payload, and half of them as a key.
  const std::string key = bytes.substr(0, bytes.size() / 2);
  store.save(kind, key, file);
  if (store.load(kind, key) != file) vkfuse::test::fault("What was saved does not come back.");
  if (decode(kind, key + "x", encode(kind, key, file))) vkfuse::test::fault("Another key takes the file.");
  static_cast<void>(is_file_name(bytes));
  return payload.has_value();
}

/// Damage of the kind that disks do, beside any other; a few files stay as they are.
std::string damaged_file(const std::string& bytes, const std::string& other, std::mt19937_64& random) {
  if (random() % 32 == 0) return bytes;
  if (bytes.size() < 40 || random() % 2 == 0) return vkfuse::test::mutated_bytes(bytes, other, random);
  return bytes.substr(0, 1) + text_of(damaged(bytes_of(std::string_view(bytes).substr(1)), random()));
}

}  // namespace
}  // namespace vkfuse::store::test

VKFUSE_FUZZER(Store, vkfuse::store::test::is_file, vkfuse::store::test::inputs, 3000, vkfuse::store::test::damaged_file)

// Device memory of a stream: values, buffers that wait to be used again, and what the device is still working on.
#pragma once

#include <deque>

#include "api/states.hpp"

namespace vkfuse::api {

class StreamMemory;

/// One buffer, of one value or of several: those that were made of each other by appending.
struct StreamStorage {
  Buffer buffer;
  std::uint64_t used = 0;            ///< bytes that some value has; more can be appended behind them
  std::weak_ptr<StreamMemory> home;  ///< none: the buffer is somebody else's
  bool is_handed_out = false;        ///< the user has the buffer, maybe longer than tensors

  StreamStorage() = default;
  StreamStorage(const StreamStorage&) = delete;
  StreamStorage& operator=(const StreamStorage&) = delete;
  ~StreamStorage();  ///< the buffer goes home, unless it is handed out
};

/// Where the elements of a tensor are: at the start of the storage.
struct StreamValue {
  std::shared_ptr<StreamStorage> storage;
  std::uint64_t bytes = 0;
};

/// Used by one thread at a time. Work on one queue runs in order, so a buffer is used again for results before the
/// device is done with it; only what the host writes has to wait for that.
class StreamMemory : public std::enable_shared_from_this<StreamMemory> {
 public:
  explicit StreamMemory(Device device) : device_(std::move(device)) {}

  /// Room for at least `bytes`. `idle`: the device does not work with it any more.
  Result<std::shared_ptr<StreamStorage>> take(std::uint64_t bytes, bool idle = false);
  void give_back(Buffer buffer);
  /// It is none of the stream's any more.
  void part_with(const Buffer& buffer) { bytes_ -= buffer.size(); }

  /// Bytes from the start of one buffer to a place in another, after everything submitted before.
  Result<void> copy(const Buffer& from, const Buffer& to, std::uint64_t to_offset, std::uint64_t bytes);
  /// What was submitted, to be kept alive until it is done. Waits for the oldest where too much is under way.
  Result<void> add(Submission submission);

  [[nodiscard]] const Device& device() const { return device_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  struct Waiting {
    Buffer buffer;
    std::uint64_t submitted = 0;  ///< before it came back
  };
  void look();

  Device device_;
  std::deque<Waiting> waiting_;  // oldest first
  std::deque<Submission> running_;
  std::uint64_t submitted_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace vkfuse::api

// Devices, arrays on them, and values of graphs, as Python holds them.
#pragma once

#include <atomic>
#include <mutex>

#include "convert.hpp"

namespace vkfuse::python {

/// An open device, as Python's Device. Equal where they are of one open device.
class OpenDevice {
 public:
  explicit OpenDevice(Device device) : device_(std::move(device)) {}
  [[nodiscard]] const Device& get() const { return *device_; }
  [[nodiscard]] bool is(const Device& other) const { return device_->state() == other.state(); }

 private:
  Dropped<Device> device_;
};

/// The one given, or where that is None the default one of vkfuse._default.
Device device_of(nb::handle object);

/// A dense tensor in device memory. Thread-safe.
class Array {
 public:
  /// `made_by`: the run that writes it, which lives as long as it does.
  Array(Device device, Buffer buffer, DType dtype, std::vector<std::int64_t> sizes,
        std::optional<Submission> made_by = {})
      : held_(Held{std::move(device), std::move(buffer), std::move(made_by)}),
        dtype_(dtype),
        sizes_(std::move(sizes)) {}

  /// Room for one; nothing in particular is in it.
  static std::unique_ptr<Array> allocate(const Device& device, DType dtype, std::vector<std::int64_t> sizes);
  static std::unique_ptr<Array> upload(const Device& device, const HostArray& elements);
  /// Bytes of memory that another interface of the machine can map.
  static std::unique_ptr<Array> allocate_shared(const Device& device, std::int64_t bytes);
  /// Part of its memory, from a byte on, as an array of this dtype and these sizes. It keeps the whole.
  [[nodiscard]] std::unique_ptr<Array> view(DType dtype, std::vector<std::int64_t> sizes, std::int64_t offset) const;

  [[nodiscard]] const Device& device() const { return held_->device; }
  /// ErrorCode::invalid_argument if it was donated.
  [[nodiscard]] const Buffer& buffer() const;
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const std::vector<std::int64_t>& sizes() const { return sizes_; }
  [[nodiscard]] std::int64_t byte_size() const;
  /// Waits for what was submitted before.
  [[nodiscard]] std::vector<std::byte> read() const;
  void write(const HostArray& elements);
  void wait() const;
  /// Its memory is another's from now on.
  void give_away() { given_away_ = true; }
  [[nodiscard]] bool is_given_away() const { return given_away_; }

 private:
  struct Held {
    Device device;
    Buffer buffer;
    std::optional<Submission> made_by;
  };
  Dropped<Held> held_;
  DType dtype_;
  std::vector<std::int64_t> sizes_;
  std::atomic<bool> given_away_{false};
  mutable std::mutex mutex_;  ///< over copies, which are made without the GIL
};

/// A timeline of a device.
class OpenTimeline {
 public:
  explicit OpenTimeline(Timeline timeline) : timeline_(std::move(timeline)) {}
  [[nodiscard]] const Timeline& get() const { return *timeline_; }

 private:
  Dropped<Timeline> timeline_;
};

/// A stream and its tensors are used by one thread at a time: whoever works with one holds this. Taken without the GIL
/// where it has to be waited for.
class StreamTurn {
 public:
  StreamTurn();
  ~StreamTurn();
  StreamTurn(const StreamTurn&) = delete;
  StreamTurn& operator=(const StreamTurn&) = delete;

  /// In a child of a fork: threads that held it are gone.
  static void forget();
};

/// A Tensor. Those of a stream are dropped when it is their turn.
class Value {
 public:
  explicit Value(Tensor tensor) : tensor_(std::move(tensor)) {}
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;
  ~Value();
  [[nodiscard]] const Tensor& get() const { return tensor_; }

 private:
  Tensor tensor_;
};

/// Whether it is recorded by a stream.
bool is_of_stream(const Tensor& tensor);

/// The tensor as an object of Python; an invalid one is its error.
nb::object value_object(Tensor tensor);
/// The tensor that an operand is: of a number the dtype of `like`, of an array a constant.
Tensor to_tensor(nb::handle object, const Tensor* like);
/// The same of operands that go together: numbers take the dtype of the first that has one.
std::vector<Tensor> to_tensors(std::span<const nb::handle> objects);

/// `call()` is a tensor that is made of these, in their stream's turn if they are of one.
template <typename Call>
nb::object made_of(std::span<const Tensor> operands, const Call& call) {
  bool streamed = false;
  for (const Tensor& one : operands) streamed = streamed || is_of_stream(one);
  if (!streamed) return value_object(call());
  const StreamTurn turn;
  return value_object(call());
}
template <typename Call>
nb::object made_of(std::initializer_list<Tensor> operands, const Call& call) {
  return made_of(std::span<const Tensor>(operands.begin(), operands.size()), call);
}

}  // namespace vkfuse::python

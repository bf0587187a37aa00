// Lazy evaluation: programs that are written down while they run.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "vkfuse/device.hpp"
#include "vkfuse/executable.hpp"
#include "vkfuse/tensor.hpp"
#include "vkfuse/visibility.hpp"

namespace vkfuse VKFUSE_PUBLIC {

/// What a stream has done so far, and what its last evaluation was.
struct StreamReport {
  std::uint64_t evaluations = 0;  ///< that had something to compute
  std::uint64_t plans = 0;        ///< programs compiled; every other evaluation took one that was there
  std::uint64_t kept = 0;         ///< values computed because their handle had been held for long
  int kernels = 0;                ///< of the last evaluation, as the two that follow
  std::uint64_t bytes = 0;        ///< that its kernels read and write
  std::uint64_t held = 0;         ///< handles that are alive, were not asked for, and have no value
  std::uint64_t recorded = 0;  ///< tensors that are recorded and have no value, those that only others need among them
  std::uint64_t buffer_bytes =
      0;  ///< device memory of values that are alive and of buffers that wait for the next ones
};

/// Tensors whose elements are on a device, and the ops on them as they are called. An op on such a tensor is recorded:
/// it takes less than a microsecond, checks dtypes and shapes, and neither compiles nor waits. eval() and read()
/// compile what has been recorded for the tensors they are asked for, hand it to the device, and from then on those
/// tensors have values and have forgotten how they came about. Programs are kept by their structure, so the second pass
/// of a loop compiles nothing; where only sizes of values differ from one pass to the next, they become symbols of a
/// program for all sizes.
///
/// A handle that is alive at eval() but is not asked for is not computed: that costs nothing, and it is recomputed if
/// it is asked for later. So that a loop that holds a handle of every pass does not hold all that these were made from,
/// a handle that stays unasked for four evaluations is computed along with the next.
///
///     Stream stream(*device);
///     Tensor x = *stream.tensor(DType::f32, {4}, bytes);
///     for (int i = 0; i < 100; ++i) {
///       x = x * 0.5 + 1.0;
///       stream.eval({x});
///     }
///     Result<HostTensor> result = stream.read(x);
///
/// Copies share the stream. A stream and its tensors are used by one thread at a time. Tensors keep the device alive;
/// when the last copy of the stream is gone, those that have no value can no longer get one.
class Stream {
 public:
  // Copied where it could be moved, so that none is ever empty.
  Stream(const Stream&) = default;
  Stream& operator=(const Stream&) = default;

  /// `options.name` names the programs; `options.output_names` is not looked at.
  explicit Stream(const Device& device, const CompileOptions& options = {});

  /// A tensor of these elements: dense, row-major, little-endian, copied before this returns. It waits for nothing
  /// where device memory is mapped, and for the copy elsewhere.
  [[nodiscard]] Result<Tensor> tensor(DType dtype, std::vector<std::int64_t> sizes,
                                      std::span<const std::byte> bytes) const;
  template <typename T>
  [[nodiscard]] Result<Tensor> tensor(DType dtype, std::vector<std::int64_t> sizes,
                                      const std::vector<T>& elements) const {
    return tensor(dtype, std::move(sizes), std::as_bytes(std::span<const T>(elements)));
  }
  /// A tensor of what is in a buffer of the stream's device, which is read whenever it is computed with.
  [[nodiscard]] Result<Tensor> wrap(const Buffer& buffer, DType dtype, std::vector<std::int64_t> sizes) const;

  /// `tensor` with `rows` behind it, along axis 0; both get values. The rows are copied in place as long as there is
  /// room behind the tensor (there is twice its size at first, and `tensor` is not appended to again), so that a cache
  /// of n rows grows by k in time k. Both must be of this stream, with all dimensions but the first in common.
  [[nodiscard]] Result<Tensor> append(const Tensor& tensor, const Tensor& rows) const;

  /// Hands the computation of these tensors to the device without waiting for its end; it only waits where 64
  /// evaluations are under way. A tensor that has a value is nothing to do. After an error the tensors are as before.
  Result<void> eval(std::span<const Tensor> tensors) const;
  Result<void> eval(std::initializer_list<Tensor> tensors) const;
  /// eval(), then waits and copies to the host.
  [[nodiscard]] Result<HostTensor> read(const Tensor& tensor) const;
  /// The value's memory on the device, after eval(). It is the tensor's: written to, it changes what is computed with
  /// it. It stays as it is where the tensor is gone and the Buffer is not.
  [[nodiscard]] Result<Buffer> buffer(const Tensor& tensor) const;

  [[nodiscard]] StreamReport report() const;
  /// What the last evaluation computed, and for every handle that is alive without a value what will become of it, a
  /// line each.
  [[nodiscard]] std::string explain() const;
  /// The program that eval() of these tensors would compile, in the text form of docs/text-ir.md. Nothing is evaluated.
  [[nodiscard]] Result<std::string> dump(std::span<const Tensor> tensors) const;
  [[nodiscard]] Result<std::string> dump(std::initializer_list<Tensor> tensors) const;

  struct State;  // internal

 private:
  std::shared_ptr<State> state_;
};

}  // namespace VKFUSE_PUBLIC

// Vulkan devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vkfuse/dtype.hpp"
#include "vkfuse/result.hpp"
#include "vkfuse/visibility.hpp"

namespace vkfuse VKFUSE_PUBLIC {

/// A number that the planner believes of an architecture, and where it is from.
struct ArchitectureFigure {
  std::string name;  ///< "units.shared_memory"
  double value = 0;
  std::string unit;    ///< "bytes a cycle"; empty: a count or a share
  std::string source;  ///< "document: CUDA programming guide, table of compute capabilities"
};

/// What one Vulkan device is and can do.
struct DeviceDescription {
  int index = 0;                                ///< accepted as a device name
  std::string name;                             ///< "NVIDIA H200"
  std::string uuid;                             ///< 32 hexadecimal digits
  std::string driver;                           ///< name and version
  std::string api;                              ///< "1.3.230"
  std::string type;                             ///< discrete, integrated, virtual, cpu or other
  std::uint64_t memory_bytes = 0;               ///< of the largest device-local heap
  std::map<std::string, std::uint64_t> limits;  ///< by name; these names are accepted by DeviceOptions::limits
  std::vector<std::string> features;            ///< optional features it has
  /// For each feature tier (T0 to T5): "yes", or one sentence that says what is missing.
  std::map<std::string, std::string> feature_tiers;
  /// What the planner takes work to cost, as measured (and kept in the store): copy_gb_per_s, launch_us, gflops (fused
  /// multiply-adds), accesses_per_us, compute_units (used where neither the device nor a table tells them). Empty where
  /// the constants of the device's type are used, as on CPUs.
  std::map<std::string, double> costs;
  std::string architecture;                 ///< the row that it is planned with (docs/device-models.md)
  std::vector<ArchitectureFigure> figures;  ///< of that row
};

/// Everything of a description as one JSON object.
std::string to_json(const DeviceDescription& device);

/// Compiled kernels are kept in a folder, so that the next process that needs them does not compile. The folder may be
/// shared by any number of processes. It is never a source of errors: what cannot be read or is damaged is compiled
/// again, what cannot be written is not kept, and Device::store() says why if nothing is kept at all. It is used only
/// if it belongs to the user who runs the program and nobody else may write to it.
struct StoreOptions {
  bool enabled = true;
  /// Empty: $VKFUSE_CACHE ("off" for none), else $XDG_CACHE_HOME/vkfuse, else $HOME/.cache/vkfuse. Made if missing.
  std::string folder;
  /// Bytes the folder may hold, about; the least recently used files go.
  std::uint64_t limit_bytes = std::uint64_t{256} << 20;
};

/// What a device's store has done so far.
struct StoreReport {
  std::string folder;                ///< empty if none could be named
  std::string off;                   ///< one sentence if nothing is kept; else empty
  std::uint64_t loaded = 0;          ///< files that were there and whole
  std::uint64_t missed = 0;          ///< files that were not
  std::uint64_t saved = 0;           ///< files written
  std::uint64_t compiler_calls = 0;  ///< shaders this process has compiled from GLSL, on any device
};

/// How much a message matters: debug for what was compiled and how long that took, info for what was opened, warning
/// for what is not used because it does not work.
enum class LogLevel : std::uint8_t { debug, info, warning };

struct HostDevice;  // interop.hpp

struct DeviceOptions {
  /// An index, a UUID, or a part of the name. Empty: $VKFUSE_DEVICE, else the best device (discrete
  /// before integrated before virtual before CPU).
  std::string name;
  /// Feature tiers or features to do without, by name: "T2", "int64"; "calibration": plan with the constants of the
  /// device's type.
  std::vector<std::string> disable;
  /// Limits to lower, by name: {"max_invocations", 128}. Raising one is an error.
  std::map<std::string, std::uint64_t> limits;
  StoreOptions store;
  /// Is told, one sentence at a time, what errors do not say. Called by any thread that uses the device, several at
  /// once where kernels are compiled side by side; it must not call vkfuse. What it throws is the error of the call
  /// that it is told about. Empty: nobody is told.
  std::function<void(LogLevel level, std::string_view sentence)> log;
  /// For tests and validation: defects show themselves. Intermediate values and scratch memory are filled before each
  /// run, with 0xA5 and with 0x5A in turn. Executable::run() runs twice, its outputs filled likewise, and fails with
  /// ErrorCode::internal where the two runs differ: a result then depends on memory that no kernel wrote. A kernel that
  /// the compiler refuses is an error; without the check, its ops get a kernel each and `log` hears of it. Unset: on
  /// with VKFUSE_SELF_CHECK=1 in the environment.
  std::optional<bool> self_check;
};

// Processes: programs that tune in the background end that by themselves when the process exits. A device does not
// survive a fork: what a child does with its parent's is ErrorCode::unsupported, and what it destroys stays as it is.
// Fork first, or let the child exec.

/// Device memory outside this library: what cuImportExternalMemory, hipImportExternalMemory and VkImportMemoryFdInfoKHR
/// take.
struct ExportedMemory {
  /// A new file descriptor of VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD. It is the caller's until an import takes it
  /// over.
  int fd = -1;
  std::uint64_t bytes = 0;  ///< of the allocation, which begins with the buffer
  bool dedicated = false;   ///< allocated for this buffer alone, which an import has to be told
};

/// Memory on a device. Copies share it; it is freed when the last one is gone. Not thread-safe.
class Buffer {
 public:
  Buffer() = default;
  /// Bytes asked for; the memory behind is padded to 16.
  [[nodiscard]] std::uint64_t size() const;
  /// Copies host bytes to the start of the buffer (or `offset`); waits until that is done.
  Result<void> write(std::span<const std::byte> bytes, std::uint64_t offset = 0) const;
  /// Copies from the buffer to the host; waits for the runs that were submitted before on this device. A result of at
  /// most 4 KiB of a run with donated inputs may be there before that run has ended: Submission::wait() waits for it.
  Result<void> read(std::span<std::byte> bytes, std::uint64_t offset = 0) const;
  /// Part of its memory, which it keeps: `bytes` from `offset`, a multiple of 256 (or of the device's
  /// minStorageBufferOffsetAlignment). Kernels write whole 16 bytes, so what the part leaves of its last 16 is
  /// overwritten. The whole from 0 is the Buffer itself; 0 bytes are none of it, and have another handle.
  /// ErrorCode::unsupported for a part of what lies in pieces.
  [[nodiscard]] Result<Buffer> part(std::uint64_t offset, std::uint64_t bytes) const;
  /// The memory of a buffer that Device::allocate_shared made, as another interface of the machine takes it.
  /// ErrorCode::invalid_argument for another buffer.
  [[nodiscard]] Result<ExportedMemory> export_memory() const;
  /// The VkBuffer, as a host program uses it beside vkfuse; 0 for an empty Buffer and for one in pieces.
  [[nodiscard]] std::uint64_t vulkan_handle() const;

  struct State;  // internal
  explicit Buffer(std::shared_ptr<State> state) : state_(std::move(state)) {}
  [[nodiscard]] const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

/// An open device. Copies share it. Thread-safe.
class Device {
 public:
  // Copied where it could be moved, so that none is ever empty.
  Device(const Device&) = default;
  Device& operator=(const Device&) = default;

  /// Opens a device; an error says which devices there are when none matches, or that there is no
  /// Vulkan loader.
  static Result<Device> open(const DeviceOptions& options = {});
  /// Works on the device of a host program, which interop.hpp describes, and does not destroy it. `options.name` is not
  /// looked at. When the last copy is gone, waits until the queue is idle. ErrorCode::invalid_argument for null handles
  /// or a queue family that does not compute.
  static Result<Device> adopt(const HostDevice& host, const DeviceOptions& options = {});
  /// Every Vulkan device of this machine. Self-tests of the feature tiers are run if `self_test`.
  static Result<std::vector<DeviceDescription>> list(bool self_test = false);

  [[nodiscard]] DeviceDescription description() const;
  [[nodiscard]] StoreReport store() const;
  /// Device memory that lives as long as a copy of the Buffer does. What the device does not allocate at once lies in
  /// pieces of a power of two bytes.
  [[nodiscard]] Result<Buffer> allocate(std::uint64_t bytes) const;
  /// For a tensor of these sizes: what the device does not allocate at once lies in pieces of whole rows of the
  /// outermost axis. Larger tensors than that are bound to such buffers. ErrorCode::out_of_memory beyond the device's
  /// memory.
  [[nodiscard]] Result<Buffer> allocate(DType dtype, std::span<const std::int64_t> sizes) const;
  /// The same with elements of the host, row-major and little-endian, as many bytes as the tensor has: runs that are
  /// submitted from now on see them. What was submitted before is not waited for, as Buffer::write() does, unless eight
  /// such copies (of 4 MiB each, or less) are behind it already.
  [[nodiscard]] Result<Buffer> upload(DType dtype, std::span<const std::int64_t> sizes,
                                      std::span<const std::byte> elements) const;
  /// Device memory that another interface of the machine can map (Buffer::export_memory). To allocate it and to import
  /// it takes far longer than a run, so keep it. It lives until both the Buffer and what was imported are gone. Who
  /// reads it and who writes it wait for each other by a Timeline, or on the host. ErrorCode::unsupported where the
  /// driver exports no memory, ErrorCode::out_of_memory beyond what the device allocates at once.
  [[nodiscard]] Result<Buffer> allocate_shared(std::uint64_t bytes) const;
  /// Whether allocate_shared() and Timeline::export_fd() work.
  [[nodiscard]] bool shares_memory() const;
  [[nodiscard]] bool shares_timelines() const;
  /// `bytes` of a host's VkBuffer from `offset`, a multiple of 256 (or of the device's
  /// minStorageBufferOffsetAlignment). The buffer is of this VkDevice, with usage STORAGE_BUFFER, TRANSFER_SRC and
  /// TRANSFER_DST, shared with the queue's family, and stays the host's: it must live as long as the Buffer and what it
  /// is bound to. Kernels read and write whole 16 bytes, so a tensor bound to it takes its bytes rounded up to a
  /// multiple of 16, and what it leaves of the last is overwritten.
  [[nodiscard]] Result<Buffer> wrap(std::uint64_t vk_buffer, std::uint64_t bytes, std::uint64_t offset = 0) const;

  struct State;  // internal
  explicit Device(std::shared_ptr<State> state) : state_(std::move(state)) {}
  [[nodiscard]] const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace VKFUSE_PUBLIC

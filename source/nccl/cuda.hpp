// CUDA's driver, as far as memory and timelines of Vulkan are used there. Loaded at run time; no header of CUDA is
// needed, types and numbers are those of cuda.h.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "vkfuse/device.hpp"
#include "vkfuse/timeline.hpp"

namespace vkfuse::nccl {

using CudaStatus = int;             // CUresult
using CudaDevice = int;             // CUdevice
using CudaPointer = std::uint64_t;  // CUdeviceptr
using CudaHandle = void*;           // CUcontext, CUstream, CUexternalMemory, CUexternalSemaphore

/// The fd of CUDA_EXTERNAL_MEMORY_HANDLE_DESC and CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC lies in a union of two pointers.
union CudaShared {
  int fd;
  void* pointers[2];
};
struct CudaMemory {  // CUDA_EXTERNAL_MEMORY_HANDLE_DESC
  int type = 1;      // CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD
  CudaShared handle{};
  std::uint64_t size = 0;
  unsigned flags = 0;
  unsigned reserved[16] = {};
};
struct CudaRange {  // CUDA_EXTERNAL_MEMORY_BUFFER_DESC
  std::uint64_t offset = 0, size = 0;
  unsigned flags = 0;
  unsigned reserved[16] = {};
};
struct CudaSemaphore {  // CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC
  int type = 9;         // CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD
  CudaShared handle{};
  unsigned flags = 0;
  unsigned reserved[16] = {};
};
struct CudaPoint {  // CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, and ..._WAIT_PARAMS, which is as large and begins alike
  std::uint64_t value = 0;
  std::uint64_t others[8] = {};
  unsigned flags = 0;
  unsigned reserved[16] = {};
};

/// Functions of the library, by their names there.
struct CudaFunctions {
  CudaStatus (*init)(unsigned) = nullptr;
  CudaStatus (*error_string)(CudaStatus, const char**) = nullptr;
  CudaStatus (*device_count)(int*) = nullptr;
  CudaStatus (*device)(CudaDevice*, int) = nullptr;
  CudaStatus (*uuid)(std::array<std::uint8_t, 16>*, CudaDevice) = nullptr;
  CudaStatus (*retain)(CudaHandle*, CudaDevice) = nullptr;
  CudaStatus (*release)(CudaDevice) = nullptr;
  CudaStatus (*push)(CudaHandle) = nullptr;
  CudaStatus (*pop)(CudaHandle*) = nullptr;
  CudaStatus (*create_stream)(CudaHandle*, unsigned) = nullptr;
  CudaStatus (*destroy_stream)(CudaHandle) = nullptr;
  CudaStatus (*synchronize)(CudaHandle) = nullptr;
  CudaStatus (*query)(CudaHandle) = nullptr;
  CudaStatus (*import_memory)(CudaHandle*, const CudaMemory*) = nullptr;
  CudaStatus (*map)(CudaPointer*, CudaHandle, const CudaRange*) = nullptr;
  CudaStatus (*unmap)(CudaPointer) = nullptr;
  CudaStatus (*destroy_memory)(CudaHandle) = nullptr;
  CudaStatus (*import_semaphore)(CudaHandle*, const CudaSemaphore*) = nullptr;
  CudaStatus (*destroy_semaphore)(CudaHandle) = nullptr;
  CudaStatus (*signal)(const CudaHandle*, const CudaPoint*, unsigned, CudaHandle) = nullptr;
  CudaStatus (*wait)(const CudaHandle*, const CudaPoint*, unsigned, CudaHandle) = nullptr;
  // --- of memory that NCCL allocates, and of flags ---
  CudaStatus (*retain_allocation)(std::uint64_t*, void*) = nullptr;
  CudaStatus (*release_allocation)(std::uint64_t) = nullptr;
  CudaStatus (*export_allocation)(void*, std::uint64_t, int, std::uint64_t) = nullptr;
  CudaStatus (*host_alloc)(void**, std::size_t, unsigned) = nullptr;
  CudaStatus (*host_free)(void*) = nullptr;
  CudaStatus (*host_pointer)(CudaPointer*, void*, unsigned) = nullptr;
  CudaStatus (*write_value)(CudaHandle, CudaPointer, std::uint32_t, unsigned) = nullptr;
  CudaStatus (*wait_value)(CudaHandle, CudaPointer, std::uint32_t, unsigned) = nullptr;
  bool has_flags = false;  ///< those of the second part are all there
};
Result<CudaFunctions> load_cuda(const std::string& library);

/// One device of CUDA with a stream, in the context that every library of the process uses of it. Thread-safe.
class Cuda {
 public:
  /// The device that is this one. ErrorCode::unsupported where CUDA has none such.
  static Result<std::unique_ptr<Cuda>> open(const CudaFunctions& functions, const DeviceDescription& device);
  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;
  ~Cuda();

  /// Makes the context that of this thread, as long as it lives.
  class Current {
   public:
    explicit Current(const Cuda& cuda) : functions_(cuda.functions_) { functions_.push(cuda.context_); }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    ~Current() {
      CudaHandle popped = nullptr;
      functions_.pop(&popped);
    }

   private:
    const CudaFunctions& functions_;
  };

  [[nodiscard]] const CudaFunctions& functions() const { return functions_; }
  [[nodiscard]] CudaHandle stream() const { return stream_; }
  [[nodiscard]] Result<void> checked(std::string_view call, CudaStatus status) const;

 private:
  Cuda(const CudaFunctions& functions, CudaDevice device) : functions_(functions), device_(device) {}

  const CudaFunctions functions_;
  CudaDevice device_;
  CudaHandle context_ = nullptr, stream_ = nullptr;
};

/// Memory of Device::allocate_shared(), mapped for CUDA as long as this lives.
class MappedMemory {
 public:
  static Result<std::unique_ptr<MappedMemory>> create(std::shared_ptr<Cuda> cuda, Buffer buffer);
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;
  ~MappedMemory();
  [[nodiscard]] CudaPointer pointer() const { return pointer_; }

 private:
  MappedMemory(std::shared_ptr<Cuda> cuda, Buffer buffer) : cuda_(std::move(cuda)), buffer_(std::move(buffer)) {}

  std::shared_ptr<Cuda> cuda_;
  Buffer buffer_;
  CudaHandle memory_ = nullptr;
  CudaPointer pointer_ = 0;
};

/// Two counters in memory of the host, by which the host and a stream wait for each other. A stream that waits for a
/// flag, or sets one, leaves the device's compute engine to the interface that has it; where it waits for a semaphore,
/// the engine changes over to CUDA, and back.
class Flags {
 public:
  static Result<std::unique_ptr<Flags>> create(std::shared_ptr<Cuda> cuda);
  Flags(const Flags&) = delete;
  Flags& operator=(const Flags&) = delete;
  ~Flags();
  /// What the stream is given from now on waits for open_gate() of this number or a later one.
  [[nodiscard]] Result<void> close_gate(std::uint32_t number) const;
  void open_gate(std::uint32_t number) const;
  /// is_passed() of this number when the stream has done what it was given.
  [[nodiscard]] Result<void> mark(std::uint32_t number) const;
  [[nodiscard]] bool is_passed(std::uint32_t number) const;

 private:
  explicit Flags(std::shared_ptr<Cuda> cuda) : cuda_(std::move(cuda)) {}

  std::shared_ptr<Cuda> cuda_;
  void* words_ = nullptr;
  CudaPointer pointer_ = 0;
};

/// A timeline that CUDA's stream waits for and signals, too.
class MappedTimeline {
 public:
  static Result<std::unique_ptr<MappedTimeline>> create(std::shared_ptr<Cuda> cuda, Timeline timeline);
  MappedTimeline(const MappedTimeline&) = delete;
  MappedTimeline& operator=(const MappedTimeline&) = delete;
  ~MappedTimeline();
  /// What the stream is given from now on waits for the value.
  [[nodiscard]] Result<void> wait(std::uint64_t value) const;
  /// The value is reached when the stream has done what it was given.
  [[nodiscard]] Result<void> signal(std::uint64_t value) const;

 private:
  MappedTimeline(std::shared_ptr<Cuda> cuda, Timeline timeline)
      : cuda_(std::move(cuda)), timeline_(std::move(timeline)) {}

  std::shared_ptr<Cuda> cuda_;
  Timeline timeline_;
  CudaHandle semaphore_ = nullptr;
};

}  // namespace vkfuse::nccl

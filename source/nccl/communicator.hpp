// NCCL, as far as parts of buffers go from rank to rank. Loaded at run time; types and numbers are those of nccl.h.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "nccl/cuda.hpp"

namespace vkfuse::nccl {

using NcclStatus = int;                       // ncclResult_t
using NcclHandle = void*;                     // ncclComm_t
using UniqueId = std::array<std::byte, 128>;  // ncclUniqueId

struct UniqueIdValue {  // as it is passed by value
  char internal[128];
};
struct NcclConfig {  // ncclConfig_t of NCCL 2.14, which later ones take
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
};

struct NcclFunctions {
  NcclStatus (*version)(int*) = nullptr;
  NcclStatus (*unique_id)(UniqueId*) = nullptr;
  NcclStatus (*init)(NcclHandle*, int, UniqueIdValue, int, NcclConfig*) = nullptr;
  NcclStatus (*abort)(NcclHandle) = nullptr;
  NcclStatus (*state)(NcclHandle, NcclStatus*) = nullptr;
  const char* (*error_string)(NcclStatus) = nullptr;
  NcclStatus (*group_start)() = nullptr;
  NcclStatus (*group_end)() = nullptr;
  NcclStatus (*send)(const void*, std::size_t, int, int, NcclHandle, CudaHandle) = nullptr;
  NcclStatus (*receive)(void*, std::size_t, int, int, NcclHandle, CudaHandle) = nullptr;
};
Result<NcclFunctions> load_nccl(const std::string& library);

/// Ranks that send each other parts of memory, on a stream. Calls return before NCCL has done what they ask for, so
/// that a rank which is gone is no wait without end.
class Communicator {
 public:
  struct Place {
    int rank = 0, size = 1;
    UniqueId id{};  ///< the same on every rank, of unique_id() of one of them
    std::chrono::steady_clock::time_point deadline;
  };
  static Result<std::unique_ptr<Communicator>> create(const NcclFunctions& functions, std::shared_ptr<Cuda> cuda,
                                                      const Place& place);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator() { abort(); }

  struct Part {
    int rank = 0;
    CudaPointer at = 0;
    std::uint64_t bytes = 0;
  };
  /// Gives the stream all of it as one. ErrorCode::io at the deadline where NCCL has not done so.
  Result<void> exchange(const std::vector<Part>& sends, const std::vector<Part>& receives,
                        std::chrono::steady_clock::time_point deadline);
  /// Ends what the stream is at, whatever it leaves.
  void abort();

 private:
  Communicator(const NcclFunctions& functions, std::shared_ptr<Cuda> cuda)
      : functions_(functions), cuda_(std::move(cuda)) {}
  [[nodiscard]] Result<void> checked(std::string_view call, NcclStatus status) const;
  /// Until NCCL has done what it was asked for.
  Result<void> settle(std::string_view call, std::chrono::steady_clock::time_point deadline);

  const NcclFunctions functions_;
  std::shared_ptr<Cuda> cuda_;
  NcclHandle handle_ = nullptr;
};

}  // namespace vkfuse::nccl

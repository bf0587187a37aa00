// NCCL, as far as parts of buffers go from rank to rank. Loaded at run time; types and numbers are those of nccl.h.
#pragma once

#include <array>
#include <chrono>
#include <climits>
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
struct NcclConfig {  // ncclConfig_t of NCCL 2.28; earlier and later ones take what they know
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;  ///< as of which fields are looked at
  int blocking = 0;
  int unused[3] = {INT_MIN, INT_MIN, INT_MIN};  // cgaClusterSize, minCTAs, maxCTAs
  const char* network = nullptr;
  int split_share = INT_MIN, traffic_class = INT_MIN;
  const char* name = nullptr;
  int collective_network = INT_MIN;
  int cta_policy = INT_MIN;
  int others[4] = {INT_MIN, INT_MIN, INT_MIN, INT_MIN};  // shrinkShare, nvlsCTAs, nChannelsPerNetPeer, ...
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
  int number = 0;  ///< of the version: 22809 is 2.28.9
  // --- of windows: memory that ranks copy to with copy engines alone ---
  NcclStatus (*mem_alloc)(void**, std::size_t) = nullptr;
  NcclStatus (*mem_free)(void*) = nullptr;
  NcclStatus (*add_window)(NcclHandle, void*, std::size_t, void**, int) = nullptr;
  NcclStatus (*all_gather)(const void*, void*, std::size_t, int, NcclHandle, CudaHandle) = nullptr;
  NcclStatus (*all_to_all)(const void*, void*, std::size_t, int, NcclHandle, CudaHandle) = nullptr;
  bool has_windows = false;
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
  /// Whether memory can be a window. Ranks on several machines, or that do not reach each other's memory, have none.
  [[nodiscard]] bool has_windows() const { return has_windows_; }
  /// Memory for a window, of a multiple of 2 MiB.
  [[nodiscard]] Result<CudaPointer> allocate(std::uint64_t bytes);
  void free(CudaPointer memory) const;
  /// Every rank calls it, with memory of the same size.
  Result<void> add_window(CudaPointer memory, std::uint64_t bytes, std::chrono::steady_clock::time_point deadline);
  /// Between windows: `bytes` of each rank at `from` go to all, one after the other at `to`, or, divided, part i to
  /// rank i. By copy engines where NCCL has that, as it has from 2.28 on.
  Result<void> exchange_windows(bool is_divided, const Part& from, const Part& to,
                                std::chrono::steady_clock::time_point deadline);
  /// Ends what the stream is at, whatever it leaves; what copy engines wait for does not end.
  void abort();
  /// Gives up a stream that does not come to an end: nothing is freed.
  void leak() { handle_ = nullptr; }

 private:
  Communicator(const NcclFunctions& functions, std::shared_ptr<Cuda> cuda)
      : functions_(functions), cuda_(std::move(cuda)) {}
  [[nodiscard]] Result<void> checked(std::string_view call, NcclStatus status) const;
  /// Until NCCL has done what it was asked for.
  Result<void> settle(std::string_view call, std::chrono::steady_clock::time_point deadline);

  const NcclFunctions functions_;
  std::shared_ptr<Cuda> cuda_;
  NcclHandle handle_ = nullptr;
  bool has_windows_ = false;
};

}  // namespace vkfuse::nccl

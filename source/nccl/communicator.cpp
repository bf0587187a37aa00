#include "nccl/communicator.hpp"

#include <cstring>
#include <thread>

#include "base/error.hpp"
#include "nccl/functions.hpp"

namespace vkfuse::nccl {

namespace {

constexpr NcclStatus kSuccess = 0, kInProgress = 7;  // ncclSuccess, ncclInProgress
constexpr int kBytes = 0;                            // ncclInt8
constexpr int kOldest = 21400;                       // 2.14: calls that do not block
constexpr int kFirstWindows = 22800;                 // 2.28: collectives by copy engines
constexpr int kSymmetric = 1;                        // NCCL_WIN_COLL_SYMMETRIC
constexpr int kCopyEngines = 2;                      // NCCL_CTA_POLICY_ZERO
/// A rank that waits for NCCL looks so often at once, and then after so long.
constexpr int kEagerLooks = 1000;
constexpr std::chrono::microseconds kLookAgain{50};

Error aborted(std::uint64_t bytes) {
  return make_error(ErrorCode::io, "NCCL was given up after an error, and parts of {} bytes are not sent.", bytes);
}

}  // namespace

Result<NcclFunctions> load_nccl(const std::string& library) {
  NcclFunctions all;
  Loader loader(library, "NCCL");
  loader.load("ncclGetVersion", all.version);
  loader.load("ncclGetUniqueId", all.unique_id);
  loader.load("ncclCommInitRankConfig", all.init);
  loader.load("ncclCommAbort", all.abort);
  loader.load("ncclCommGetAsyncError", all.state);
  loader.load("ncclGetErrorString", all.error_string);
  loader.load("ncclGroupStart", all.group_start);
  loader.load("ncclGroupEnd", all.group_end);
  loader.load("ncclSend", all.send);
  loader.load("ncclRecv", all.receive);
  VKF_CHECK_OK(loader.loaded());
  if (all.version(&all.number) != kSuccess || all.number < kOldest) {
    return unsupported("NCCL is not used: '{}' is of version {}, and {} or later is needed.", library, all.number,
                       kOldest);
  }
  all.has_windows = loader.try_load("ncclMemAlloc", all.mem_alloc) && loader.try_load("ncclMemFree", all.mem_free) &&
                    loader.try_load("ncclCommWindowRegister", all.add_window) &&
                    loader.try_load("ncclAllGather", all.all_gather) &&
                    loader.try_load("ncclAlltoAll", all.all_to_all) && all.number >= kFirstWindows;
  return all;
}

Result<void> Communicator::checked(std::string_view call, NcclStatus status) const {
  if (status == kSuccess || status == kInProgress) return {};
  return make_error(ErrorCode::io, "{} failed: {} ({}).", call, functions_.error_string(status), status);
}

Result<void> Communicator::settle(std::string_view call, std::chrono::steady_clock::time_point deadline) {
  for (int looks = 0;; ++looks) {
    NcclStatus state = kSuccess;
    VKF_CHECK_OK(checked("ncclCommGetAsyncError", functions_.state(handle_, &state)));
    VKF_CHECK_OK(checked(call, state));
    if (state == kSuccess) return {};
    if (std::chrono::steady_clock::now() >= deadline)
      return make_error(ErrorCode::io, "{} has not ended until the timeout, with state {}.", call, state);
    if (looks < kEagerLooks) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kLookAgain);
    }
  }
}

Result<std::unique_ptr<Communicator>> Communicator::create(const NcclFunctions& functions, std::shared_ptr<Cuda> cuda,
                                                           const Place& place) {
  std::unique_ptr<Communicator> made(new Communicator(functions, std::move(cuda)));
  const Cuda::Current current(*made->cuda_);
  UniqueIdValue id{};
  std::memcpy(id.internal, place.id.data(), place.id.size());
  NcclConfig config;
  if (functions.has_windows && made->cuda_->functions().has_flags) {
    config.version = kFirstWindows;
    config.cta_policy = kCopyEngines;
    made->has_windows_ = true;
  }
  VKF_CHECK_OK(
      made->checked("ncclCommInitRankConfig", functions.init(&made->handle_, place.size, id, place.rank, &config)));
  VKF_CHECK_OK(made->settle("ncclCommInitRankConfig", place.deadline));
  return made;
}

Result<void> Communicator::exchange(const std::vector<Part>& sends, const std::vector<Part>& receives,
                                    std::chrono::steady_clock::time_point deadline) {
  if (handle_ == nullptr) return aborted(sends.empty() ? 0 : sends.front().bytes);
  VKF_CHECK_OK(checked("ncclGroupStart", functions_.group_start()));
  // A group that was begun is ended, after an error, too: NCCL counts them by thread.
  Result<void> made;
  for (const Part& part : sends) {
    if (!made) break;
    made = checked("ncclSend", functions_.send(reinterpret_cast<const void*>(part.at), part.bytes, kBytes, part.rank,
                                               handle_, cuda_->stream()));
  }
  for (const Part& part : receives) {
    if (!made) break;
    made = checked("ncclRecv", functions_.receive(reinterpret_cast<void*>(part.at), part.bytes, kBytes, part.rank,
                                                  handle_, cuda_->stream()));
  }
  Result<void> ended = checked("ncclGroupEnd", functions_.group_end());
  if (!made) return made;
  if (!ended) return ended;
  return settle("ncclGroupEnd", deadline);
}

Result<CudaPointer> Communicator::allocate(std::uint64_t bytes) {
  void* memory = nullptr;
  VKF_CHECK_OK(checked("ncclMemAlloc", functions_.mem_alloc(&memory, bytes)));
  return reinterpret_cast<CudaPointer>(memory);
}

void Communicator::free(CudaPointer memory) const { functions_.mem_free(reinterpret_cast<void*>(memory)); }

Result<void> Communicator::add_window(CudaPointer memory, std::uint64_t bytes,
                                      std::chrono::steady_clock::time_point deadline) {
  void* window = nullptr;
  VKF_CHECK_OK(checked("ncclCommWindowRegister",
                       functions_.add_window(handle_, reinterpret_cast<void*>(memory), bytes, &window, kSymmetric)));
  return settle("ncclCommWindowRegister", deadline);
}

Result<void> Communicator::exchange_windows(bool is_divided, const Part& from, const Part& to,
                                            std::chrono::steady_clock::time_point deadline) {
  if (handle_ == nullptr) return aborted(from.bytes);
  const auto* const sent = reinterpret_cast<const void*>(from.at);
  auto* const received = reinterpret_cast<void*>(to.at);
  VKF_CHECK_OK(is_divided ? checked("ncclAlltoAll",
                                    functions_.all_to_all(sent, received, from.bytes, kBytes, handle_, cuda_->stream()))
                          : checked("ncclAllGather", functions_.all_gather(sent, received, from.bytes, kBytes, handle_,
                                                                           cuda_->stream())));
  return settle(is_divided ? "ncclAlltoAll" : "ncclAllGather", deadline);
}

void Communicator::abort() {
  if (handle_ == nullptr) return;
  const Cuda::Current current(*cuda_);
  functions_.abort(std::exchange(handle_, nullptr));
}

}  // namespace vkfuse::nccl

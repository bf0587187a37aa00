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
/// A rank that waits for NCCL looks so often at once, and then after so long.
constexpr int kEagerLooks = 1000;
constexpr std::chrono::microseconds kLookAgain{50};

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
  int version = 0;
  if (all.version(&version) == kSuccess && version >= kOldest) return all;
  return unsupported("NCCL is not used: '{}' is of version {}, and {} or later is needed.", library, version, kOldest);
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
  VKF_CHECK_OK(
      made->checked("ncclCommInitRankConfig", functions.init(&made->handle_, place.size, id, place.rank, &config)));
  VKF_CHECK_OK(made->settle("ncclCommInitRankConfig", place.deadline));
  return made;
}

Result<void> Communicator::exchange(const std::vector<Part>& sends, const std::vector<Part>& receives,
                                    std::chrono::steady_clock::time_point deadline) {
  if (handle_ == nullptr)
    return make_error(ErrorCode::io, "NCCL was aborted after an error, and {} parts are not sent.", sends.size());
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

void Communicator::abort() {
  if (handle_ == nullptr) return;
  const Cuda::Current current(*cuda_);
  functions_.abort(std::exchange(handle_, nullptr));
}

}  // namespace vkfuse::nccl

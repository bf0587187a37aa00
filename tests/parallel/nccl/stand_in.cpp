// What CUDA and NCCL do for ranks that are threads of one process, without a GPU: a library with the functions that
// source/nccl loads. Memory of a device is mapped into the process by its descriptor, and parts are copied by a thread
// of each rank, after the call that asks for it has returned.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace {

struct Told {
  std::array<std::uint8_t, 16> uuid{};
  std::uint64_t offset = 0;  ///< of a buffer in what its descriptor names: drivers put something of theirs before
} told;

struct Mapped {
  std::byte* base = nullptr;
  std::size_t bytes = 0;
};

/// Ranks with one unique id.
struct Job {
  std::mutex mutex;
  std::condition_variable changed;
  int joined = 0;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> letters;  ///< by sender and receiver
};
std::mutex jobs_mutex;
std::map<std::uint64_t, std::shared_ptr<Job>> jobs;
std::uint64_t next_job = 1;

struct Part {
  bool is_send = false;
  std::byte* at = nullptr;
  std::size_t bytes = 0;
  int rank = 0;
};

struct Rank {
  std::shared_ptr<Job> job;
  int rank = 0, size = 0;
  std::atomic<bool> is_aborted{false};
  std::atomic<int> state{7};  // ncclInProgress
  std::thread work;
  void run(const std::vector<Part>& parts) {
    for (const Part& part : parts) {
      if (!part.is_send) continue;
      const std::scoped_lock lock(job->mutex);
      job->letters[{rank, part.rank}].emplace_back(part.at, part.at + part.bytes);
      job->changed.notify_all();
    }
    for (const Part& part : parts) {
      if (part.is_send) continue;
      std::unique_lock lock(job->mutex);
      auto& box = job->letters[{part.rank, rank}];
      while (box.empty() && !is_aborted) job->changed.wait_for(lock, std::chrono::milliseconds(1));
      if (is_aborted) return;
      std::memcpy(part.at, box.front().data(), part.bytes);
      box.pop_front();
    }
    state = 0;
  }
};

thread_local std::vector<Part> group;
thread_local Rank* group_of = nullptr;

int add(bool is_send, void* at, std::size_t bytes, int rank, void* of) {
  group.push_back({is_send, static_cast<std::byte*>(at), bytes, rank});
  group_of = static_cast<Rank*>(of);
  return 0;
}

struct MemoryHandle {
  int type;
  union {
    int fd;
    void* pointers[2];
  };
  std::uint64_t size;
};

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

/// What the test tells of the device.
EXPORTED void stand_in_tell(const std::uint8_t* uuid, std::uint64_t offset) {
  std::memcpy(told.uuid.data(), uuid, 16);
  told.offset = offset;
}

EXPORTED int cuInit(unsigned) { return 0; }
EXPORTED int cuGetErrorString(int, const char** text) {
  *text = "a fault of the stand-in";
  return 0;
}
EXPORTED int cuDeviceGetCount(int* count) {
  *count = 1;
  return 0;
}
EXPORTED int cuDeviceGet(int* device, int index) {
  *device = index;
  return 0;
}
EXPORTED int cuDeviceGetUuid(std::uint8_t* uuid, int) {
  std::memcpy(uuid, told.uuid.data(), 16);
  return 0;
}
EXPORTED int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = &told;
  return 0;
}
EXPORTED int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
EXPORTED int cuCtxPushCurrent_v2(void*) { return 0; }
EXPORTED int cuCtxPopCurrent_v2(void**) { return 0; }
EXPORTED int cuStreamCreate(void** stream, unsigned) {
  *stream = &told;
  return 0;
}
EXPORTED int cuStreamDestroy_v2(void*) { return 0; }
EXPORTED int cuStreamSynchronize(void*) { return 0; }
EXPORTED int cuStreamQuery(void*) { return 0; }
EXPORTED int cuImportExternalMemory(void** memory, const MemoryHandle* handle) {
  struct stat status {};
  if (fstat(handle->fd, &status) != 0) return 1;
  auto made = std::make_unique<Mapped>();
  made->bytes = static_cast<std::size_t>(status.st_size);
  void* const base = mmap(nullptr, made->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, handle->fd, 0);
  if (base == MAP_FAILED) return 1;
  close(handle->fd);
  made->base = static_cast<std::byte*>(base);
  *memory = made.release();
  return 0;
}
EXPORTED int cuExternalMemoryGetMappedBuffer(std::uint64_t* pointer, void* memory, const void*) {
  *pointer = reinterpret_cast<std::uintptr_t>(static_cast<Mapped*>(memory)->base) + told.offset;
  return 0;
}
EXPORTED int cuMemFree_v2(std::uint64_t) { return 0; }
EXPORTED int cuDestroyExternalMemory(void* memory) {
  const std::unique_ptr<Mapped> mapped(static_cast<Mapped*>(memory));
  munmap(mapped->base, mapped->bytes);
  return 0;
}
// CPU drivers export no timelines: the host waits in between, and these are not called.
EXPORTED int cuImportExternalSemaphore(void**, const void*) { return 1; }
EXPORTED int cuDestroyExternalSemaphore(void*) { return 1; }
EXPORTED int cuSignalExternalSemaphoresAsync(void* const*, const void*, unsigned, void*) { return 1; }
EXPORTED int cuWaitExternalSemaphoresAsync(void* const*, const void*, unsigned, void*) { return 1; }

struct UniqueId {
  char bytes[128];
};

EXPORTED int ncclGetVersion(int* version) {
  *version = 22000;
  return 0;
}
EXPORTED int ncclGetUniqueId(UniqueId* id) {
  const std::scoped_lock lock(jobs_mutex);
  std::memset(id->bytes, 0, sizeof id->bytes);
  std::memcpy(id->bytes, &next_job, sizeof next_job);
  jobs[next_job++] = std::make_shared<Job>();
  return 0;
}
EXPORTED int ncclCommInitRankConfig(void** made, int size, UniqueId id, int rank, void*) {
  std::uint64_t number = 0;
  std::memcpy(&number, id.bytes, sizeof number);
  auto one = std::make_unique<Rank>();
  {
    const std::scoped_lock lock(jobs_mutex);
    one->job = jobs.at(number);
  }
  one->rank = rank;
  one->size = size;
  const std::scoped_lock lock(one->job->mutex);
  ++one->job->joined;
  *made = one.release();
  return 7;
}
EXPORTED int ncclCommGetAsyncError(void* of, int* state) {
  auto* const rank = static_cast<Rank*>(of);
  if (!rank->work.joinable()) {
    const std::scoped_lock lock(rank->job->mutex);
    *state = rank->job->joined == rank->size ? 0 : 7;
    return 0;
  }
  *state = rank->state;
  return 0;
}
EXPORTED int ncclCommAbort(void* of) {
  const std::unique_ptr<Rank> rank(static_cast<Rank*>(of));
  rank->is_aborted = true;
  if (rank->work.joinable()) rank->work.join();
  return 0;
}
EXPORTED const char* ncclGetErrorString(int) { return "a fault of the stand-in"; }
EXPORTED int ncclGroupStart() {
  group.clear();
  group_of = nullptr;
  return 0;
}
EXPORTED int ncclSend(const void* at, std::size_t bytes, int, int rank, void* of, void*) {
  return add(true, const_cast<void*>(at), bytes, rank, of);
}
EXPORTED int ncclRecv(void* at, std::size_t bytes, int, int rank, void* of, void*) {
  return add(false, at, bytes, rank, of);
}
EXPORTED int ncclGroupEnd() {
  if (group_of == nullptr) return 0;
  Rank* const rank = group_of;
  if (rank->work.joinable()) rank->work.join();
  rank->state = 7;
  rank->work = std::thread([rank, parts = group] { rank->run(parts); });
  return 7;
}

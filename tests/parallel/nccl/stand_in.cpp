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
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
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

/// Does what it is given, one after the other.
struct Stream {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> work;
  bool is_busy = false;

  void give(std::function<void()> one) {
    const std::scoped_lock lock(mutex);
    work.push_back(std::move(one));
    changed.notify_all();
  }
  [[nodiscard]] bool is_idle() {
    const std::scoped_lock lock(mutex);
    return work.empty() && !is_busy;
  }
  [[noreturn]] void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return !work.empty(); });
      const std::function<void()> one = std::move(work.front());
      work.pop_front();
      is_busy = true;
      lock.unlock();
      one();
      lock.lock();
      is_busy = false;
    }
  }
};

struct Rank {
  std::shared_ptr<Job> job;
  int rank = 0, size = 0;
  std::shared_ptr<std::atomic<bool>> is_aborted = std::make_shared<std::atomic<bool>>(false);
};

/// Work of a stream: every part that is sent, then every part that is received.
std::function<void()> exchange_of(const Rank& of, std::vector<Part> parts) {
  return [job = of.job, rank = of.rank, is_aborted = of.is_aborted, parts = std::move(parts)] {
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
      while (box.empty() && !*is_aborted) job->changed.wait_for(lock, std::chrono::milliseconds(1));
      if (*is_aborted) return;
      std::memcpy(part.at, box.front().data(), part.bytes);
      box.pop_front();
    }
  };
}

/// Memory of the device that the test has exported, for windows.
struct Provided {
  int fd = -1;
  std::uint64_t bytes = 0;
};
std::mutex provided_mutex;
std::deque<Provided> provided;
std::atomic<int> copies{0};
std::map<void*, int> descriptors;  ///< of what was taken

thread_local std::vector<Part> group;
thread_local Rank* group_of = nullptr;
thread_local Stream* group_on = nullptr;

int add(const Part& part, void* of, void* on) {
  group.push_back(part);
  group_of = static_cast<Rank*>(of);
  group_on = static_cast<Stream*>(on);
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
/// Memory of the device, for windows; without any, NCCL is one that has none.
EXPORTED void stand_in_provide(int fd, std::uint64_t bytes) {
  const std::scoped_lock lock(provided_mutex);
  provided.push_back({fd, bytes});
}
/// Collectives between windows so far.
EXPORTED int stand_in_copies() { return copies; }
EXPORTED void stand_in_withdraw() {
  const std::scoped_lock lock(provided_mutex);
  for (const Provided& one : provided) close(one.fd);
  provided.clear();
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
EXPORTED int cuStreamCreate(void** made, unsigned) {
  auto* const stream = new Stream();  // its thread goes on until the process ends
  std::thread([stream] { stream->run(); }).detach();
  *made = stream;
  return 0;
}
EXPORTED int cuStreamDestroy_v2(void*) { return 0; }
EXPORTED int cuStreamQuery(void* stream) { return static_cast<Stream*>(stream)->is_idle() ? 0 : 600; }
EXPORTED int cuStreamSynchronize(void* stream) {
  while (!static_cast<Stream*>(stream)->is_idle()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  return 0;
}
EXPORTED int cuStreamWaitValue32_v2(void* stream, std::uint64_t at, std::uint32_t value, unsigned) {
  static_cast<Stream*>(stream)->give([at, value] {
    std::atomic_ref word(*reinterpret_cast<std::uint32_t*>(at));
    while (static_cast<std::int32_t>(word.load() - value) < 0) std::this_thread::yield();
  });
  return 0;
}
EXPORTED int cuStreamWriteValue32_v2(void* stream, std::uint64_t at, std::uint32_t value, unsigned) {
  static_cast<Stream*>(stream)->give(
      [at, value] { std::atomic_ref(*reinterpret_cast<std::uint32_t*>(at)).store(value); });
  return 0;
}
EXPORTED int cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  *memory = std::calloc(1, bytes);
  return 0;
}
EXPORTED int cuMemFreeHost(void* memory) {
  std::free(memory);
  return 0;
}
EXPORTED int cuMemHostGetDevicePointer_v2(std::uint64_t* pointer, void* memory, unsigned) {
  *pointer = reinterpret_cast<std::uintptr_t>(memory);
  return 0;
}
EXPORTED int cuMemRetainAllocationHandle(std::uint64_t* handle, void* memory) {
  *handle = reinterpret_cast<std::uintptr_t>(memory);
  return 0;
}
EXPORTED int cuMemRelease(std::uint64_t) { return 0; }
EXPORTED int cuMemExportToShareableHandle(int* fd, std::uint64_t handle, int, std::uint64_t) {
  const std::scoped_lock lock(provided_mutex);
  *fd = dup(descriptors.at(reinterpret_cast<void*>(handle)));
  return 0;
}
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
  const std::scoped_lock lock(provided_mutex);
  *version = provided.empty() ? 22000 : 22809;
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
  const std::scoped_lock lock(rank->job->mutex);
  *state = rank->job->joined == rank->size ? 0 : 7;
  return 0;
}
EXPORTED int ncclCommAbort(void* of) {
  const std::unique_ptr<Rank> rank(static_cast<Rank*>(of));
  *rank->is_aborted = true;
  return 0;
}
EXPORTED int ncclMemAlloc(void** memory, std::size_t bytes) {
  const std::scoped_lock lock(provided_mutex);
  if (provided.empty() || provided.front().bytes < bytes) return 1;
  const Provided one = provided.front();
  provided.pop_front();
  struct stat status {};
  if (fstat(one.fd, &status) != 0) return 1;
  const auto all = static_cast<std::size_t>(status.st_size);
  void* const base = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_SHARED, one.fd, 0);
  if (base == MAP_FAILED) return 1;
  *memory = static_cast<std::byte*>(base) + told.offset;
  descriptors[*memory] = one.fd;
  return 0;
}
EXPORTED int ncclMemFree(void*) { return 0; }
EXPORTED int ncclCommWindowRegister(void*, void* memory, std::size_t, void** window, int) {
  *window = memory;
  return 0;
}
EXPORTED int ncclAllGather(const void* from, void* to, std::size_t bytes, int, void* of, void* stream) {
  const Rank& rank = *static_cast<Rank*>(of);
  std::vector<Part> parts;
  for (int other = 0; other < rank.size; ++other) {
    parts.push_back({true, static_cast<std::byte*>(const_cast<void*>(from)), bytes, other});
    parts.push_back({false, static_cast<std::byte*>(to) + static_cast<std::size_t>(other) * bytes, bytes, other});
  }
  static_cast<Stream*>(stream)->give(exchange_of(rank, std::move(parts)));
  ++copies;
  return 0;
}
EXPORTED int ncclAlltoAll(const void* from, void* to, std::size_t bytes, int, void* of, void* stream) {
  const Rank& rank = *static_cast<Rank*>(of);
  std::vector<Part> parts;
  for (int other = 0; other < rank.size; ++other) {
    const std::size_t at = static_cast<std::size_t>(other) * bytes;
    parts.push_back({true, static_cast<std::byte*>(const_cast<void*>(from)) + at, bytes, other});
    parts.push_back({false, static_cast<std::byte*>(to) + at, bytes, other});
  }
  static_cast<Stream*>(stream)->give(exchange_of(rank, std::move(parts)));
  ++copies;
  return 0;
}
EXPORTED const char* ncclGetErrorString(int) { return "a fault of the stand-in"; }
EXPORTED int ncclGroupStart() {
  group.clear();
  group_of = nullptr;
  return 0;
}
EXPORTED int ncclSend(const void* at, std::size_t bytes, int, int rank, void* of, void* on) {
  return add({true, static_cast<std::byte*>(const_cast<void*>(at)), bytes, rank}, of, on);
}
EXPORTED int ncclRecv(void* at, std::size_t bytes, int, int rank, void* of, void* on) {
  return add({false, static_cast<std::byte*>(at), bytes, rank}, of, on);
}
EXPORTED int ncclGroupEnd() {
  if (group_of != nullptr) group_on->give(exchange_of(*group_of, group));
  return 0;
}

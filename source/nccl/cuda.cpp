#include "nccl/cuda.hpp"

#include <atomic>
#include <cstring>

#include "base/error.hpp"
#include "nccl/functions.hpp"
#include "os/files.hpp"

namespace vkfuse::nccl {

namespace {

constexpr CudaStatus kNoMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY
constexpr unsigned kDedicated = 1;   // CUDA_EXTERNAL_MEMORY_DEDICATED
constexpr unsigned kHostMapped = 2;  // CU_MEMHOSTALLOC_DEVICEMAP
constexpr unsigned kAtLeast = 0;     // CU_STREAM_WAIT_VALUE_GEQ, which counts past 2^32 as is_passed() does
constexpr std::size_t kFlagBytes = 4096, kMarkOffset = 128;
constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING

Error cuda_error(const CudaFunctions& functions, std::string_view call, CudaStatus status) {
  const char* text = nullptr;
  functions.error_string(status, &text);
  return make_error(status == kNoMemory ? ErrorCode::out_of_memory : ErrorCode::io, "{} failed: {} ({}).", call,
                    text != nullptr ? text : "unknown error", status);
}

Result<void> checked_by(const CudaFunctions& functions, std::string_view call, CudaStatus status) {
  if (status != 0) return cuda_error(functions, call, status);
  return {};
}

std::string hexadecimal(const std::array<std::uint8_t, 16>& uuid) {
  std::string text;
  for (const std::uint8_t byte : uuid) text += fmt::format("{:02x}", byte);
  return text;
}

Result<CudaDevice> device_of(const CudaFunctions& functions, const DeviceDescription& description) {
  int count = 0;
  VKF_CHECK_OK(checked_by(functions, "cuDeviceGetCount", functions.device_count(&count)));
  for (int i = 0; i < count; ++i) {
    CudaDevice device = 0;
    std::array<std::uint8_t, 16> uuid{};
    VKF_CHECK_OK(checked_by(functions, "cuDeviceGet", functions.device(&device, i)));
    VKF_CHECK_OK(checked_by(functions, "cuDeviceGetUuid", functions.uuid(&uuid, device)));
    if (hexadecimal(uuid) == description.uuid) return device;
  }
  return unsupported("CUDA has {} devices, and none of them is {} ({}).", count, description.name, description.uuid);
}

}  // namespace

Result<CudaFunctions> load_cuda(const std::string& library) {
  CudaFunctions all;
  Loader loader(library, "CUDA's driver");
  loader.load("cuInit", all.init);
  loader.load("cuGetErrorString", all.error_string);
  loader.load("cuDeviceGetCount", all.device_count);
  loader.load("cuDeviceGet", all.device);
  loader.load("cuDeviceGetUuid", all.uuid);
  loader.load("cuDevicePrimaryCtxRetain", all.retain);
  loader.load("cuDevicePrimaryCtxRelease_v2", all.release);
  loader.load("cuCtxPushCurrent_v2", all.push);
  loader.load("cuCtxPopCurrent_v2", all.pop);
  loader.load("cuStreamCreate", all.create_stream);
  loader.load("cuStreamDestroy_v2", all.destroy_stream);
  loader.load("cuStreamSynchronize", all.synchronize);
  loader.load("cuStreamQuery", all.query);
  loader.load("cuImportExternalMemory", all.import_memory);
  loader.load("cuExternalMemoryGetMappedBuffer", all.map);
  loader.load("cuMemFree_v2", all.unmap);
  loader.load("cuDestroyExternalMemory", all.destroy_memory);
  loader.load("cuImportExternalSemaphore", all.import_semaphore);
  loader.load("cuDestroyExternalSemaphore", all.destroy_semaphore);
  loader.load("cuSignalExternalSemaphoresAsync", all.signal);
  loader.load("cuWaitExternalSemaphoresAsync", all.wait);
  VKF_CHECK_OK(loader.loaded());
  all.has_flags = loader.try_load("cuMemRetainAllocationHandle", all.retain_allocation) &&
                  loader.try_load("cuMemRelease", all.release_allocation) &&
                  loader.try_load("cuMemExportToShareableHandle", all.export_allocation) &&
                  loader.try_load("cuMemHostAlloc", all.host_alloc) &&
                  loader.try_load("cuMemFreeHost", all.host_free) &&
                  loader.try_load("cuMemHostGetDevicePointer_v2", all.host_pointer) &&
                  loader.try_load("cuStreamWriteValue32_v2", all.write_value) &&
                  loader.try_load("cuStreamWaitValue32_v2", all.wait_value);
  VKF_CHECK_OK(checked_by(all, "cuInit", all.init(0)));
  return all;
}

Result<std::unique_ptr<Cuda>> Cuda::open(const CudaFunctions& functions, const DeviceDescription& device) {
  VKF_TRY(number, device_of(functions, device));
  std::unique_ptr<Cuda> cuda(new Cuda(functions, number));
  VKF_CHECK_OK(cuda->checked("cuDevicePrimaryCtxRetain", functions.retain(&cuda->context_, number)));
  const Current current(*cuda);
  VKF_CHECK_OK(cuda->checked("cuStreamCreate", functions.create_stream(&cuda->stream_, kNonBlocking)));
  return cuda;
}

Cuda::~Cuda() {
  if (context_ == nullptr) return;
  if (stream_ != nullptr) {
    const Current current(*this);
    functions_.destroy_stream(stream_);
  }
  functions_.release(device_);
}

Result<void> Cuda::checked(std::string_view call, CudaStatus status) const {
  return checked_by(functions_, call, status);
}

Result<std::unique_ptr<MappedMemory>> MappedMemory::create(std::shared_ptr<Cuda> cuda, Buffer buffer) {
  VKF_TRY(shared, buffer.export_memory());
  os::Handle fd(shared.fd);  // CUDA closes what it has taken
  std::unique_ptr<MappedMemory> made(new MappedMemory(std::move(cuda), std::move(buffer)));
  const Cuda& on = *made->cuda_;
  const Cuda::Current current(on);
  CudaMemory given;
  given.handle.fd = shared.fd;
  given.size = shared.bytes;
  given.flags = shared.dedicated ? kDedicated : 0;
  VKF_CHECK_OK(on.checked("cuImportExternalMemory", on.functions().import_memory(&made->memory_, &given)));
  fd.release();
  CudaRange range;
  range.size = shared.bytes;
  VKF_CHECK_OK(
      on.checked("cuExternalMemoryGetMappedBuffer", on.functions().map(&made->pointer_, made->memory_, &range)));
  return made;
}

MappedMemory::~MappedMemory() {
  const Cuda::Current current(*cuda_);
  if (pointer_ != 0) cuda_->functions().unmap(pointer_);
  if (memory_ != nullptr) cuda_->functions().destroy_memory(memory_);
}

Result<std::unique_ptr<Flags>> Flags::create(std::shared_ptr<Cuda> cuda) {
  std::unique_ptr<Flags> made(new Flags(std::move(cuda)));
  const Cuda& on = *made->cuda_;
  const Cuda::Current current(on);
  VKF_CHECK_OK(on.checked("cuMemHostAlloc", on.functions().host_alloc(&made->words_, kFlagBytes, kHostMapped)));
  std::memset(made->words_, 0, kFlagBytes);
  VKF_CHECK_OK(on.checked("cuMemHostGetDevicePointer", on.functions().host_pointer(&made->pointer_, made->words_, 0)));
  return made;
}

Flags::~Flags() {
  if (words_ == nullptr) return;
  const Cuda::Current current(*cuda_);
  cuda_->functions().host_free(words_);
}

Result<void> Flags::close_gate(std::uint32_t number) const {
  return cuda_->checked("cuStreamWaitValue32",
                        cuda_->functions().wait_value(cuda_->stream(), pointer_, number, kAtLeast));
}

void Flags::open_gate(std::uint32_t number) const {
  std::atomic_ref(*static_cast<std::uint32_t*>(words_)).store(number, std::memory_order_release);
}

Result<void> Flags::mark(std::uint32_t number) const {
  return cuda_->checked("cuStreamWriteValue32",
                        cuda_->functions().write_value(cuda_->stream(), pointer_ + kMarkOffset, number, 0));
}

bool Flags::is_passed(std::uint32_t number) const {
  auto* const word = reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(words_) + kMarkOffset);
  const std::uint32_t passed = std::atomic_ref(*word).load(std::memory_order_acquire);
  return static_cast<std::int32_t>(passed - number) >= 0;
}

Result<std::unique_ptr<MappedTimeline>> MappedTimeline::create(std::shared_ptr<Cuda> cuda, Timeline timeline) {
  VKF_TRY(exported, timeline.export_fd());
  os::Handle fd(exported);
  std::unique_ptr<MappedTimeline> made(new MappedTimeline(std::move(cuda), std::move(timeline)));
  const Cuda& on = *made->cuda_;
  const Cuda::Current current(on);
  CudaSemaphore given;
  given.handle.fd = exported;
  VKF_CHECK_OK(on.checked("cuImportExternalSemaphore", on.functions().import_semaphore(&made->semaphore_, &given)));
  fd.release();
  return made;
}

MappedTimeline::~MappedTimeline() {
  if (semaphore_ == nullptr) return;
  const Cuda::Current current(*cuda_);
  cuda_->functions().destroy_semaphore(semaphore_);
}

Result<void> MappedTimeline::wait(std::uint64_t value) const {
  CudaPoint point;
  point.value = value;
  return cuda_->checked("cuWaitExternalSemaphoresAsync",
                        cuda_->functions().wait(&semaphore_, &point, 1, cuda_->stream()));
}

Result<void> MappedTimeline::signal(std::uint64_t value) const {
  CudaPoint point;
  point.value = value;
  return cuda_->checked("cuSignalExternalSemaphoresAsync",
                        cuda_->functions().signal(&semaphore_, &point, 1, cuda_->stream()));
}

}  // namespace vkfuse::nccl

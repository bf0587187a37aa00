// The host has no memory left: each allocation of this program's own code fails in turn.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "fault/flow.hpp"
#include "support/fuzz.hpp"
#include "vkfuse/contractions.hpp"

namespace {

// Only of the thread under test: threads of a driver are not ours to fail.
thread_local bool counting = false;
thread_local long allocations = 0;
thread_local long fail_at = -1;

void* allocate(std::size_t bytes) {
  if (counting && allocations++ == fail_at) throw std::bad_alloc();
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
// As the standard library's would; a sanitizer has its own, whose memory must not come back through ours.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept try {
  return allocate(bytes);
} catch (const std::bad_alloc&) {
  return nullptr;
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept try {
  return allocate(bytes);
} catch (const std::bad_alloc&) {
  return nullptr;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace vkfuse::test {
namespace {

Tensor program() {
  const Tensor x = Tensor::input("x", DType::f32, {9, 64});
  const Tensor w = Tensor::input("w", DType::f32, {64, 33});
  return softmax(matmul(x, w));
}

// supports() does all that compile() does before a driver is called, whose allocations cannot be told from ours.
// Tensors are values: making one may throw std::bad_alloc, as copying a string may.
TEST(HostMemory, ThatRunsOutIsAnError) {
  const Device& on = device();
  const std::vector<Tensor> outputs = {program()};
  must(supports(on, outputs));
  counting = true;
  allocations = 0;
  fail_at = -1;
  const bool works = supports(on, outputs).ok();
  const long all = allocations;
  counting = false;
  ASSERT_TRUE(works);
  const long tries = static_cast<long>(number_in("VKFUSE_FAULT_CASES").value_or(400));
  long refused = 0;
  for (long k = 0; k < all; k += std::max(1L, all / tries)) {
    allocations = 0;
    fail_at = k;
    counting = true;
    std::optional<ErrorCode> code;
    try {
      const auto result = supports(on, outputs);
      counting = false;
      if (!result.ok()) code = result.error().code;
    } catch (const std::bad_alloc&) {
      counting = false;
      ADD_FAILURE() << "allocation " << k << " of " << all << " came out as an exception";
    }
    if (!code) continue;
    ++refused;
    EXPECT_EQ(*code, ErrorCode::out_of_memory) << "allocation " << k << " of " << all;
  }
  std::printf("%ld of %ld allocations failed\n", refused, all);
  EXPECT_GT(refused, 20);
  must(supports(on, outputs));
}

}  // namespace
}  // namespace vkfuse::test

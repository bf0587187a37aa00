// Which barriers a run records. Software drivers run dispatches one after the other, so a missing
// barrier gives right numbers there: the calls themselves are watched.
#include <gtest/gtest.h>

#include <string>

#include "api/program.hpp"
#include "api/states.hpp"
#include "support/device.hpp"
#include "support/run.hpp"

namespace vkfuse::test {
namespace {

std::string recorded;  // 'D' for a dispatch, 'B' for a barrier
PFN_vkCmdDispatch real_dispatch = nullptr;
PFN_vkCmdPipelineBarrier real_barrier = nullptr;

VKAPI_ATTR void VKAPI_CALL watched_dispatch(VkCommandBuffer commands, std::uint32_t x, std::uint32_t y,
                                            std::uint32_t z) {
  recorded += 'D';
  real_dispatch(commands, x, y, z);
}

VKAPI_ATTR void VKAPI_CALL watched_barrier(VkCommandBuffer commands, VkPipelineStageFlags before,
                                           VkPipelineStageFlags after, VkDependencyFlags flags, std::uint32_t memories,
                                           const VkMemoryBarrier* memory, std::uint32_t buffers,
                                           const VkBufferMemoryBarrier* buffer, std::uint32_t images,
                                           const VkImageMemoryBarrier* image) {
  recorded += 'B';
  real_barrier(commands, before, after, flags, memories, memory, buffers, buffer, images, image);
}

/// The dispatches and barriers of one submission with one kernel per op, of values made from %0; the barriers before
/// the first dispatch and after the last belong to the submission itself.
std::string calls_of(std::string_view body, const std::map<std::string, std::string>& in_place = {}) {
  // A device of its own: its table of calls is changed.
  const Device own = must(Device::open());
  auto& calls = const_cast<vulkan::DeviceFunctions&>(own.state()->context->device()->functions());
  real_dispatch = calls.CmdDispatch.pointer;
  real_barrier = calls.CmdPipelineBarrier.pointer;
  calls.CmdDispatch.pointer = watched_dispatch;
  calls.CmdPipelineBarrier.pointer = watched_barrier;
  CompileOptions options;
  options.fusion = false;
  const ir::Graph graph = must(ir::parse(fmt::format("graph \"g\" {{\n %0 = input \"x\" : f32[64]\n{}}}", body)));
  const Executable program = must(api::compile_graph(own, graph, options));
  Bindings bindings;
  for (ir::NodeId id : graph.inputs())
    bindings.inputs[std::get<ir::InputPayload>(graph.node(id).payload).name] =
        must(own.allocate(bytes_of(graph, id, {})));
  for (const ir::Output& output : graph.outputs()) {
    const auto shared = in_place.find(output.name);
    bindings.outputs[output.name] = shared == in_place.end() ? must(own.allocate(bytes_of(graph, output.value, {})))
                                                             : bindings.inputs.at(shared->second);
  }
  recorded.clear();
  must(must(program.submit(bindings)).wait());
  const std::size_t first = recorded.find('D');
  return recorded.substr(first, recorded.rfind('D') - first + 1);
}

TEST(Barriers, ReadersWaitForTheirWriter) {
  EXPECT_EQ(calls_of(" %1 = neg %0 : f32[64]\n %2 = exp %1 : f32[64]\n %3 = neg %2 : f32[64]\n output \"y\" = %3\n"),
            "DBDBD");
}

TEST(Barriers, StrangersDoNotWait) {
  EXPECT_EQ(calls_of(" %1 = neg %0 : f32[64]\n %2 = exp %0 : f32[64]\n %3 = abs %0 : f32[64]\n"
                     " output \"a\" = %1\n output \"b\" = %2\n output \"c\" = %3\n"),
            "DDD");
}

TEST(Barriers, OneBarrierServesSeveralReaders) {
  EXPECT_EQ(calls_of(" %1 = neg %0 : f32[64]\n %2 = exp %1 : f32[64]\n %3 = abs %1 : f32[64]\n"
                     " output \"b\" = %2\n output \"c\" = %3\n"),
            "DBDD");
}

TEST(Barriers, WritersWaitForReadersOfWhatTheyReplace) {
  // The second kernel writes y over x, which the first one reads.
  EXPECT_EQ(calls_of(" %1 = abs %0 : f32[64]\n %2 = neg %0 : f32[64]\n output \"a\" = %1\n output \"y\" = %2\n",
                     {{"y", "x"}}),
            "DBD");
}

TEST(Barriers, ReusedMemoryWaitsToo) {
  // The third value takes the place of the first in the arena, whose reader must be done.
  EXPECT_EQ(calls_of(" %1 = neg %0 : f32[64]\n %2 = exp %1 : f32[64]\n %3 = abs %2 : f32[64]\n %4 = neg %3 : f32[64]\n "
                     "output \"y\" = %4\n"),
            "DBDBDBD");
}

}  // namespace
}  // namespace vkfuse::test

#include "fault/flow.hpp"

#include <filesystem>

#include "api/states.hpp"
#include "os/system.hpp"

namespace vkfuse::test {

std::vector<FlowGraph> flow_graphs() {
  const auto parsed = [](const char* text) { return must(ir::parse(text)); };
  return {{"elementwise", parsed(R"(graph "elementwise" {
  %0 = input "x" : f32[130]
  %1 = input "z" : f16[130]
  %2 = cast %1 : f32[130]
  %3 = add %0 %2 : f32[130]
  %4 = slice starts=[1] steps=[2] %0 : f32[60]
  output "y" = %3
  output "y1" = %4
})")},
          {"folds", parsed(R"(graph "folds" {
  %0 = input "x" : f32[9, 64]
  %1 = input "w" : f32[64, 33]
  %2 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %0 %1 : f32[9, 33]
  %3 = reduce_max axes=[0] %2 : f32[33]
  %4 = sub %2 %3 : f32[9, 33]
  output "y" = %4
})")},
          {"sort", parsed(R"(graph "sort" {
  %0 = input "x" : i32[3, 700]
  %1 = argsort axis=1 descending=true count=5 %0 : i32[3, 5]
  %2 = take_along axis=1 %0 %1 : i32[3, 5]
  output "y" = %2
})")}};
}

std::string store_folder() {
  static const std::string made = [] {
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / fmt::format("vkfuse-fault-{}", os::process_id());
    std::filesystem::create_directory(path);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path.string();
  }();
  return made;
}

Result<NamedBytes> whole_flow(const ir::Graph& graph, const Data& data, const std::string& store,
                              vulkan::FaultPlan* faults, bool floor) {
  return api::guarded([&]() -> Result<NamedBytes> {
    DeviceOptions options;
    options.store = {.enabled = !store.empty(), .folder = store};
    vulkan::DeviceOptions without{.timeline = !floor, .push_descriptors = !floor, .map_device_memory = !floor};
    without.faults = faults;
    VKF_TRY(context, runtime::Context::open(options, without));
    const Device device(std::make_shared<Device::State>(Device::State{context}));
    VKF_TRY(program, runtime::Program::create(context, graph, {}));
    const Executable executable(std::make_shared<Executable::State>(program));

    Inputs inputs;
    Bindings bindings;
    for (const Port& port : executable.inputs()) {
      const std::vector<std::byte>& bytes = data.inputs.at(port.name);
      inputs.emplace(port.name, HostView(std::span<const std::byte>(bytes), must(resolve(port.shape, {}))));
      VKF_TRY(buffer, device.allocate(bytes.size()));
      VKF_CHECK_OK(buffer.write(bytes));
      bindings.inputs.emplace(port.name, std::move(buffer));
    }
    VKF_TRY(first, executable.run(inputs));
    NamedBytes outputs;
    for (const Port& port : executable.outputs()) {
      VKF_TRY(buffer, device.allocate(first.at(port.name).bytes.size()));
      bindings.outputs.emplace(port.name, std::move(buffer));
    }
    VKF_TRY(submission, executable.submit(bindings));
    VKF_CHECK_OK(submission.wait());
    for (const auto& [name, tensor] : first) {
      std::vector<std::byte>& bytes = outputs[name];
      bytes.resize(tensor.bytes.size());
      VKF_CHECK_OK(bindings.outputs.at(name).read(bytes));
      if (bytes != tensor.bytes)
        return make_error(ErrorCode::device_error, "Output '{}' on a buffer is not what it is on the host.", name);
    }
    return outputs;
  });
}

}  // namespace vkfuse::test

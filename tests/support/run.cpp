#include "support/run.hpp"

#include <algorithm>
#include <set>

#include "api/states.hpp"
#include "support/device.hpp"

namespace vkfuse::test {

namespace {

constexpr std::size_t kGuardBytes = 64;
constexpr std::byte kPoison{0xff};
constexpr std::byte kGuard{0xc3};

std::size_t whole_words(std::size_t bytes) { return (bytes + 3) / 4 * 4; }

Buffer filled(const Device& on, std::size_t bytes, std::span<const std::byte> content) {
  Buffer buffer = must(on.allocate(std::max<std::size_t>(bytes, 1)));
  must(buffer.write(content));
  return buffer;
}

/// `content` in so many bytes of poison, then guard words.
std::vector<std::byte> padded(std::size_t bytes, std::span<const std::byte> content) {
  std::vector<std::byte> all(whole_words(bytes) + kGuardBytes, kGuard);
  std::fill_n(all.begin(), whole_words(bytes), kPoison);
  std::copy(content.begin(), content.end(), all.begin());
  return all;
}

Buffer guarded(const Device& on, std::size_t bytes, std::span<const std::byte> content) {
  const std::vector<std::byte> all = padded(bytes, content);
  return filled(on, all.size(), all);
}

const std::string& input_name(const ir::Graph& graph, ir::NodeId id) {
  return std::get<ir::InputPayload>(graph.node(id).payload).name;
}

}  // namespace

std::size_t bytes_of(const ir::Graph& graph, ir::NodeId value, const SymbolValues& symbols) {
  const TensorType& type = graph.node(value).type;
  return static_cast<std::size_t>(must(byte_count(type.dtype, must(resolve(type.shape, symbols)))));
}

GuardedRun run_guarded(const Executable& program, const ir::Graph& graph, const Data& data,
                       const std::map<std::string, std::string>& in_place) {
  // The device that the program was compiled for, whichever that is.
  const Device on(std::make_shared<Device::State>(Device::State{program.state()->program->context()}));
  Bindings bindings;
  bindings.symbols.insert(data.symbols.begin(), data.symbols.end());
  for (ir::NodeId id : graph.inputs()) {
    const std::vector<std::byte>& bytes = data.inputs.at(input_name(graph, id));
    bindings.inputs[input_name(graph, id)] = guarded(on, bytes.size(), bytes);
  }
  for (const ir::Output& output : graph.outputs()) {
    const auto shared = in_place.find(output.name);
    bindings.outputs[output.name] =
        shared != in_place.end() ? bindings.inputs.at(shared->second) : guarded(on, bytes_of(graph, output.value, data.symbols), {});
  }
  must(must(program.submit(bindings)).wait());

  GuardedRun run;
  std::set<std::string> written;
  for (const auto& entry : in_place) written.insert(entry.second);
  for (const auto& [name, bytes] : data.inputs) {
    if (written.contains(name) || !bindings.inputs.contains(name)) continue;
    std::vector<std::byte> all(whole_words(bytes.size()) + kGuardBytes);
    must(bindings.inputs.at(name).read(all));
    if (all != padded(bytes.size(), bytes) && run.broken.empty()) run.broken = fmt::format("The buffer of input '{}' was written.", name);
  }
  for (const ir::Output& output : graph.outputs()) {
    const std::size_t bytes = bytes_of(graph, output.value, data.symbols);
    std::vector<std::byte> all(whole_words(bytes) + kGuardBytes);
    must(bindings.outputs.at(output.name).read(all));
    const auto touched = std::find_if(all.begin() + static_cast<std::ptrdiff_t>(whole_words(bytes)), all.end(),
                                      [](std::byte b) { return b != kGuard; });
    if (touched != all.end() && run.broken.empty()) {
      run.broken = fmt::format("Output '{}' has {} bytes, but the byte at {} was written.", output.name, bytes, touched - all.begin());
    }
    all.resize(bytes);
    run.outputs[output.name] = std::move(all);
  }
  return run;
}

std::map<std::string, reference::Column> expected(const ir::Graph& graph, const Data& data) {
  reference::Feeds feeds;
  feeds.symbols = data.symbols;
  for (const auto& input : data.inputs) feeds.inputs[input.first] = input.second;
  std::map<std::string, reference::Column> columns;
  for (const ir::Output& output : graph.outputs()) columns[output.name] = must(reference::evaluate(graph, output.value, feeds));
  return columns;
}

Verdict check_outputs(const ir::Graph& graph, const Data& data, const NamedBytes& outputs) {
  const std::map<std::string, reference::Column> columns = expected(graph, data);
  Verdict verdict;
  for (const ir::Output& output : graph.outputs()) {
    const TensorType& type = graph.node(output.value).type;
    const std::vector<std::byte>& got = outputs.at(output.name);
    const std::size_t bytes = bytes_of(graph, output.value, data.symbols);
    if (got.size() != bytes) {
      verdict.wrong = fmt::format("Output '{}' has {} bytes instead of {}.", output.name, got.size(), bytes);
      return verdict;
    }
    const reference::Comparison found = reference::compare(type.dtype, got, columns.at(output.name));
    verdict.elements += found.elements;
    verdict.undecided += found.undecided;
    verdict.ratios.add(found.ratios);
    verdict.max_ratio = std::max(verdict.max_ratio, found.max_ratio);
    if (found.wrong != 0 && verdict.wrong.empty()) {
      verdict.wrong = fmt::format("Output '{}' of type {}: {} ({} of {} elements are wrong.)", output.name, to_text(type),
                                  found.first_wrong, found.wrong, found.elements);
    }
  }
  return verdict;
}

}  // namespace vkfuse::test

#include "support/run.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>
#include <thread>

#include "api/states.hpp"
#include "reference/output_comparison.hpp"
#include "support/device.hpp"

namespace vkfuse::test {

namespace {

constexpr std::size_t kGuardBytes = 64;
/// Of outputs before the first run and before the second one.
constexpr std::byte kPoison[] = {std::byte{0xa5}, std::byte{0x5a}};
constexpr std::byte kGuard{0xc3};

std::size_t whole_words(std::size_t bytes) { return (bytes + 3) / 4 * 4; }

/// `content` in so many bytes of poison, then guard words.
std::vector<std::byte> padded(std::size_t bytes, std::span<const std::byte> content, std::byte poison) {
  std::vector<std::byte> all(whole_words(bytes) + kGuardBytes, kGuard);
  std::fill_n(all.begin(), whole_words(bytes), poison);
  std::copy(content.begin(), content.end(), all.begin());
  return all;
}

/// Tensors between guards: each in a buffer of its own, or all of them in one, at offsets.
class Placed {
 public:
  Placed(const Device& on, Placement placement, std::byte poison)
      : on_(on), one_buffer_(placement == Placement::one_buffer), poison_(poison) {
    if (one_buffer_) bytes_.assign(kFirstOffset, kGuard);
  }

  /// A tensor of so many bytes; what `content` leaves of them is poison.
  void add(const std::string& name, std::size_t bytes, std::span<const std::byte> content) {
    Region& region = regions_[name];
    const std::vector<std::byte> all = padded(bytes, content, poison_);
    region.size = all.size();
    region.offset = bytes_.size();
    bytes_.insert(bytes_.end(), all.begin(), all.end());
    if (one_buffer_) bytes_.resize((bytes_.size() + kAlignment - 1) / kAlignment * kAlignment, kGuard);
  }
  void share(const std::string& name, const std::string& with) { regions_[name] = regions_.at(with); }

  void upload() {
    if (one_buffer_) whole_ = filled(std::span(bytes_));
    std::map<std::size_t, Buffer> made;
    for (auto& [name, region] : regions_) {
      Buffer& buffer = made[region.offset];
      if (buffer.state() == nullptr) {
        buffer = one_buffer_ ? must(on_.wrap(whole_.vulkan_handle(), region.size, region.offset))
                             : filled(std::span(bytes_).subspan(region.offset, region.size));
      }
      region.buffer = buffer;
    }
  }
  [[nodiscard]] const Buffer& buffer(const std::string& name) const { return regions_.at(name).buffer; }
  /// A tensor with the guard behind it, as the device has it now.
  [[nodiscard]] std::vector<std::byte> read(const std::string& name) const {
    std::vector<std::byte> all(regions_.at(name).size);
    must(regions_.at(name).buffer.read(all));
    return all;
  }
  /// Whether what stands before the first tensor and between the others is as it was.
  [[nodiscard]] bool gaps_are_whole() const {
    if (!one_buffer_) return true;
    std::vector<std::byte> now(bytes_.size());
    must(whole_.read(now));
    for (const auto& entry : regions_)
      std::fill_n(now.begin() + static_cast<std::ptrdiff_t>(entry.second.offset), entry.second.size, kGuard);
    return std::all_of(now.begin(), now.end(), [](std::byte b) { return b == kGuard; });
  }

 private:
  static constexpr std::size_t kAlignment = 256;  // what every device takes
  static constexpr std::size_t kFirstOffset = 3 * kAlignment;
  struct Region {
    std::size_t offset = 0;
    std::size_t size = 0;
    Buffer buffer;
  };
  [[nodiscard]] Buffer filled(std::span<const std::byte> content) const {
    Buffer buffer = must(on_.allocate(content.size()));
    must(buffer.write(content));
    return buffer;
  }

  const Device& on_;
  bool one_buffer_;
  std::byte poison_;
  std::vector<std::byte> bytes_;
  Buffer whole_;
  std::map<std::string, Region> regions_;
};

const std::string& input_name(const ir::Graph& graph, ir::NodeId id) {
  return std::get<ir::InputPayload>(graph.node(id).payload).name;
}

}  // namespace

std::size_t bytes_of(const ir::Graph& graph, ir::NodeId value, const SymbolValues& symbols) {
  const TensorType& type = graph.node(value).type;
  return static_cast<std::size_t>(must(byte_count(type.dtype, must(resolve(type.shape, symbols)))));
}

namespace {

/// One run whose outputs hold `poison` before.
GuardedRun run_poisoned(const Executable& program, const ir::Graph& graph, const Data& data,
                        const std::map<std::string, std::string>& in_place, Placement placement, std::byte poison) {
  // The device that the program was compiled for, whichever that is.
  const Device on(std::make_shared<Device::State>(Device::State{program.state()->program->context()}));
  Placed placed(on, placement, poison);
  for (ir::NodeId id : graph.inputs()) {
    const std::vector<std::byte>& bytes = data.inputs.at(input_name(graph, id));
    placed.add("in " + input_name(graph, id), bytes.size(), bytes);
  }
  for (const ir::Output& output : graph.outputs()) {
    const auto shared = in_place.find(output.name);
    if (shared != in_place.end()) {
      placed.share("out " + output.name, "in " + shared->second);
    } else {
      placed.add("out " + output.name, bytes_of(graph, output.value, data.symbols), {});
    }
  }
  placed.upload();
  Bindings bindings;
  for (const ir::Node& node :
       graph.nodes()) {  // a case that was made for sizes, or shrunk, may have more than its graph
    for (const Dim& dim : node.type.shape) {
      if (dim.is_symbol()) bindings.symbols[dim.name()] = data.symbols.at(dim.name());
    }
  }
  for (ir::NodeId id : graph.inputs())
    bindings.inputs[input_name(graph, id)] = placed.buffer("in " + input_name(graph, id));
  for (const ir::Output& output : graph.outputs()) bindings.outputs[output.name] = placed.buffer("out " + output.name);
  must(must(program.submit(bindings)).wait());

  GuardedRun run;
  std::set<std::string> written;
  for (const auto& entry : in_place) written.insert(entry.second);
  for (const auto& [name, bytes] : data.inputs) {
    if (written.contains(name) || !bindings.inputs.contains(name)) continue;
    if (placed.read("in " + name) != padded(bytes.size(), bytes, poison) && run.broken.empty())
      run.broken = fmt::format("The buffer of input '{}' was written.", name);
  }
  for (const ir::Output& output : graph.outputs()) {
    const std::size_t bytes = bytes_of(graph, output.value, data.symbols);
    std::vector<std::byte> all = placed.read("out " + output.name);
    const auto touched = std::find_if(all.begin() + static_cast<std::ptrdiff_t>(whole_words(bytes)), all.end(),
                                      [](std::byte b) { return b != kGuard; });
    if (touched != all.end() && run.broken.empty()) {
      run.broken = fmt::format("Output '{}' has {} bytes, but the byte at {} was written.", output.name, bytes,
                               touched - all.begin());
    }
    all.resize(bytes);
    run.outputs[output.name] = std::move(all);
  }
  if (run.broken.empty() && !placed.gaps_are_whole())
    run.broken = "What stands between the tensors of one buffer was written.";
  return run;
}

}  // namespace

GuardedRun run_guarded(const Executable& program, const ir::Graph& graph, const Data& data,
                       const std::map<std::string, std::string>& in_place, Placement placement) {
  GuardedRun run = run_poisoned(program, graph, data, in_place, placement, kPoison[0]);
  const GuardedRun again = run_poisoned(program, graph, data, in_place, placement, kPoison[1]);
  if (run.broken.empty()) run.broken = again.broken;
  for (const ir::Output& output : graph.outputs()) {
    if (!run.broken.empty() || run.outputs.at(output.name) == again.outputs.at(output.name)) continue;
    run.broken = fmt::format(
        "Output '{}' depends on memory that no kernel wrote: a run on memory filled with 0xa5 and one on 0x5a give "
        "other bits.",
        output.name);
  }
  return run;
}

namespace {

void add(Verdict& verdict, const ir::Graph& graph, const ir::Output& output, const reference::Comparison& found) {
  verdict.elements += found.elements;
  verdict.undecided += found.undecided;
  verdict.ratios.add(found.ratios);
  verdict.max_ratio = std::max(verdict.max_ratio, found.max_ratio);
  if (found.wrong != 0 && verdict.wrong.empty()) {
    verdict.wrong = fmt::format("Output '{}' of type {}: {} ({} of {} elements are wrong.)", output.name,
                                to_text(graph.node(output.value).type), found.first_wrong, found.wrong, found.elements);
  }
}

/// The largest error over its bound, where it is, and a map of what is wrong; empty if nothing is.
std::string where_wrong(const ir::Graph& graph, const Data& data, const ir::Output& output,
                        std::span<const std::byte> got, const reference::Column& column) {
  const TensorType& type = graph.node(output.value).type;
  const reference::OutputComparison found = reference::compare_with_bounds(type.dtype, got, {column, {}, {}, true});
  if (found.right()) return {};
  const Sizes sizes = must(resolve(type.shape, data.symbols));
  return fmt::format("\nLargest error / bound {:.3g} at [{}]; its last axis across, all others down:\n{}",
                     found.by_reference.max_ratio,
                     fmt::join(reference::position_of(found.by_reference.worst, sizes), ", "),
                     reference::to_text(reference::map_of_wrong(sizes, {}, found.wrong)));
}

/// One sentence where an output has another number of bytes than its type; else empty.
std::string wrong_size(const ir::Graph& graph, const Data& data, const ir::Output& output,
                       std::span<const std::byte> got) {
  const std::size_t bytes = bytes_of(graph, output.value, data.symbols);
  return got.size() == bytes ? ""
                             : fmt::format("Output '{}' has {} bytes instead of {}.", output.name, got.size(), bytes);
}

reference::InputBindings input_bindings_of(const Data& data) {
  reference::InputBindings input_bindings;
  input_bindings.symbols = data.symbols;
  for (const auto& input : data.inputs) input_bindings.inputs[input.first] = input.second;
  return input_bindings;
}

}  // namespace

std::map<std::string, reference::Column> expected(const ir::Graph& graph, const Data& data) {
  std::vector<reference::Request> requests;
  for (const ir::Output& output : graph.outputs()) requests.push_back({output.value, std::nullopt});
  std::vector<reference::Column> evaluated = must(reference::evaluate_each(graph, requests, input_bindings_of(data)));
  std::map<std::string, reference::Column> columns;
  for (std::size_t i = 0; i < requests.size(); ++i) columns[graph.outputs()[i].name] = std::move(evaluated[i]);
  return columns;
}

Verdict check_outputs(const ir::Graph& graph, const Data& data, const NamedBytes& outputs) {
  const std::map<std::string, reference::Column> columns = expected(graph, data);
  Verdict verdict;
  for (const ir::Output& output : graph.outputs()) {
    const std::vector<std::byte>& got = outputs.at(output.name);
    if (const std::string wrong = wrong_size(graph, data, output, got); !wrong.empty()) {
      verdict.wrong = wrong;
      return verdict;
    }
    const bool is_first = verdict.wrong.empty();
    add(verdict, graph, output, reference::compare(graph.node(output.value).type.dtype, got, columns.at(output.name)));
    if (is_first && !verdict.wrong.empty())
      verdict.wrong += where_wrong(graph, data, output, got, columns.at(output.name));
  }
  return verdict;
}

Verdict check_rows(const ir::Graph& graph, const Data& data, const NamedBytes& outputs) {
  const reference::InputBindings input_bindings = input_bindings_of(data);
  Verdict verdict;
  for (const ir::Output& output : graph.outputs()) {
    const TensorType& type = graph.node(output.value).type;
    const std::vector<std::byte>& got = outputs.at(output.name);
    if (const std::string wrong = wrong_size(graph, data, output, got); !wrong.empty()) {
      verdict.wrong = wrong;
      return verdict;
    }
    const Sizes sizes = must(resolve(type.shape, data.symbols));
    const std::int64_t rows = sizes.at(0);
    const std::int64_t width = rows == 0 ? 0 : must(element_count(sizes)) / rows;
    std::vector<Result<reference::Comparison>> found(static_cast<std::size_t>(rows), reference::Comparison{});
    std::atomic<std::int64_t> next = 0;
    const auto work = [&] {
      for (std::int64_t row = next++; row < rows; row = next++) {
        std::vector<std::int64_t> elements(static_cast<std::size_t>(width));
        std::iota(elements.begin(), elements.end(), row * width);
        auto column = reference::evaluate_at(graph, output.value, elements, input_bindings);
        found[static_cast<std::size_t>(row)] =
            column ? Result(reference::compare(type.dtype, got, *column, elements)) : std::move(column).error();
      }
    };
    std::vector<std::thread> workers;
    for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) workers.emplace_back(work);
    for (std::thread& worker : workers) worker.join();
    for (Result<reference::Comparison>& row : found) add(verdict, graph, output, must(std::move(row)));
  }
  return verdict;
}

OutputMemory ResultMemory::giver() {
  return
      [this](std::string_view name, DType dtype, std::span<const std::int64_t> sizes) -> Result<std::span<std::byte>> {
        VKF_TRY(bytes, byte_count(dtype, sizes));
        std::vector<std::byte>& block = blocks_[std::string(name)];
        block.assign(static_cast<std::size_t>(bytes) + kGuardBytes, kGuard);
        return std::span(block).first(static_cast<std::size_t>(bytes));
      };
}

void ResultMemory::expect(const NamedBytes& outputs) const {
  for (const auto& [name, bytes] : outputs) {
    std::vector<std::byte> wanted = bytes;
    wanted.resize(bytes.size() + kGuardBytes, kGuard);
    const auto block = blocks_.find(name);
    if (block == blocks_.end()) throw std::runtime_error("No memory was asked for output " + name);
    if (block->second != wanted) throw std::runtime_error("Output " + name + " has other bytes in the caller's memory");
  }
  if (blocks_.size() != outputs.size()) throw std::runtime_error("Memory was asked for more than the outputs");
}

NamedBytes run_on_host(const Executable& program, const ir::Graph& graph, const Data& data) {
  Inputs inputs;
  for (ir::NodeId id : graph.inputs()) {
    const std::string& name = input_name(graph, id);
    inputs.emplace(name, HostView(std::span<const std::byte>(data.inputs.at(name)),
                                  must(resolve(graph.node(id).type.shape, data.symbols))));
  }
  return run_both_ways(program, inputs);
}

}  // namespace vkfuse::test

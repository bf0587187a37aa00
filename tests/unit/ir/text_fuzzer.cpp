// Any text: a sentence that names a line, or a graph that prints and reads back, and that the passes take or refuse
// with a sentence.
#include <algorithm>

#include "passes/passes.hpp"
#include "support/cases.hpp"
#include "support/device.hpp"
#include "support/fuzzer.hpp"
#include "unit/ir/every_op.hpp"

namespace vkfuse::test {
namespace {

constexpr const char* kOwnCode = R"(graph "own" {
  %0 = input "x" : f32[n, 4]
  %1 = custom name="swish" code="float e = exp(-x0); if (e > 1.0) return x0;\x0areturn x0 / (1.0 + e);" )"
                                 R"(ulps=16 cost=8 %0 : f32[n, 4]
  %2 = custom_kernel name="reversed" code="#version 450\x0alayout(local_size_x_id = 0) in;\x0avoid main() { }" )"
                                 R"(workgroup=64 tile=[1, 256] %1 : f32[n, 4]
  output "y" = %2
}
)";

std::vector<std::string> texts() {
  std::vector<std::string> all = {kEveryOp, kOwnCode};
  CaseOptions options;
  options.caps.arithmetic.int64 = options.caps.arithmetic.float64 = true;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    options.every_class = seed % 2 == 0;
    all.push_back(ir::print(random_case(seed, options).graph));
  }
  return all;
}

void expect_sentence(const Error& error) {
  const bool sentence = error.message.ends_with(".") && error.message.find('\n') == std::string::npos &&
                        error.code != ErrorCode::internal;
  if (!sentence) fault(fmt::format("No sentence: {}", error.text()));
}

bool reads_back(const std::string& text) {
  const ir::ParseOptions allowed{.allow_custom = true};
  const auto graph = ir::parse(text, allowed);
  const bool holds_code = graph && std::any_of(graph->nodes().begin(), graph->nodes().end(), [](const ir::Node& node) {
                            return std::holds_alternative<ir::CustomPayload>(node.payload) ||
                                   std::holds_alternative<ir::KernelPayload>(node.payload);
                          });
  if (holds_code && ir::parse(text)) fault("Code of the text's own is taken without being allowed.");
  if (!graph) {
    expect_sentence(graph.error());
    if (!graph.error().message.starts_with("Line ")) fault(fmt::format("No line is named: {}", graph.error().text()));
    return false;
  }
  must(ir::verify(*graph));
  const std::string printed = ir::print(*graph);
  const auto again = ir::parse(printed, allowed);
  if (!again) fault(fmt::format("What was printed is refused: {}\n{}", again.error().text(), printed));
  if (ir::print(*again) != printed)
    fault(fmt::format("What was read again prints otherwise:\n{}{}", printed, ir::print(*again)));
  const auto prepared = passes::run_pipeline(*graph);
  if (prepared) {
    must(ir::verify(*prepared));
  } else {
    expect_sentence(prepared.error());
  }
  return true;
}

}  // namespace
}  // namespace vkfuse::test

VKFUSE_FUZZER(Text, vkfuse::test::reads_back, vkfuse::test::texts, 6000)

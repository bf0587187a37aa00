#include "support/judge_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "reference/judge.hpp"

namespace vkfuse::test {

double judge_model(const Executable& program, const ir::Graph& graph, const Data& data, const std::string& what) {
  const GuardedRun run = run_guarded(program, graph, data);
  EXPECT_EQ(run.broken, "") << what;
  Build one_per_op;
  one_per_op.fusion = false;
  return judge_outputs(graph, data, run.outputs, run_guarded(compile_graph(graph, one_per_op), graph, data).outputs, what);
}

double judge_outputs(const ir::Graph& graph, const Data& data, const NamedBytes& outputs, const NamedBytes& unfused, const std::string& what) {
  double largest = 0;
  for (const auto& entry : expected(graph, data)) {
    const std::string& name = entry.first;
    const auto output = std::find_if(graph.outputs().begin(), graph.outputs().end(), [&](const ir::Output& one) { return one.name == name; });
    const TensorType& type = graph.node(output->value).type;
    const std::vector<std::byte>& got = outputs.at(name);
    if (got.size() != bytes_of(graph, output->value, data.symbols)) {
      ADD_FAILURE() << what << ": output '" << name << "' has " << got.size() << " bytes";
      continue;
    }
    reference::Expected want{entry.second, {}, {}, false};
    if (const auto other = unfused.find(name); other != unfused.end()) want.unfused = other->second;
    const reference::Judgement found = reference::judge(type.dtype, got, want);
    largest = std::max(largest, found.by_reference.max_ratio);
    if (found.right()) continue;
    const Sizes sizes = must(resolve(type.shape, data.symbols));
    ADD_FAILURE() << what << ": output '" << name << "': " << found.by_reference.wrong << " of " << found.elements << " elements are wrong, largest error / bound "
                  << found.by_reference.max_ratio << fmt::format(" at [{}]. ", fmt::join(reference::position_of(found.by_reference.worst, sizes), ", ")) << found.by_reference.first_wrong
                  << "\n" << reference::to_text(reference::map_of_wrong(sizes, {}, found.wrong));
  }
  return largest;
}

}  // namespace vkfuse::test

#include "support/compare_model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "reference/output_comparison.hpp"
#include "reference/tolerance.hpp"

namespace vkfuse::test {

double compare_model(const Executable& program, const ir::Graph& graph, const Data& data, const std::string& what,
                     bool as_files) {
  const GuardedRun run = run_guarded(program, graph, data);
  EXPECT_EQ(run.broken, "") << what;
  Build one_per_op;
  one_per_op.fusion = false;
  return compare_outputs(graph, data, run.outputs, run_guarded(compile_graph(graph, one_per_op), graph, data).outputs,
                         what, as_files);
}

double compare_outputs(const ir::Graph& graph, const Data& data, const NamedBytes& outputs, const NamedBytes& unfused,
                       const std::string& what, bool as_files) {
  double largest = 0;
  for (const auto& entry : expected(graph, data)) {
    const std::string& name = entry.first;
    const auto output = std::find_if(graph.outputs().begin(), graph.outputs().end(),
                                     [&](const ir::Output& one) { return one.name == name; });
    const TensorType& type = graph.node(output->value).type;
    const std::vector<std::byte>& got = outputs.at(name);
    if (got.size() != bytes_of(graph, output->value, data.symbols)) {
      ADD_FAILURE() << what << ": output '" << name << "' has " << got.size() << " bytes";
      continue;
    }
    reference::Expected want{entry.second, {}, {}, false};
    if (const auto other = unfused.find(name); other != unfused.end()) want.unfused = other->second;
    const reference::OutputComparison found = reference::compare_with_bounds(type.dtype, got, want);
    largest = std::max(largest, found.by_reference.max_ratio);
    if (as_files && type.dtype == DType::f32) {
      const reference::Tolerance tolerance = reference::tolerance_for(type.dtype, entry.second.value);
      for (std::size_t i = 0; i < entry.second.value.size(); ++i) {
        const double value = ir::decode(type.dtype, got.data() + i * sizeof(float)), bound = entry.second.bound[i];
        if (std::isfinite(value) &&
            reference::agrees(value, entry.second.value[i], tolerance, std::isinf(bound) ? 0 : bound))
          continue;
        ADD_FAILURE() << what << ": output '" << name << "': element " << i << " is " << value << ", not "
                      << entry.second.value[i];
        break;
      }
    }
    if (found.right()) continue;
    const Sizes sizes = must(resolve(type.shape, data.symbols));
    ADD_FAILURE() << what << ": output '" << name << "': " << found.by_reference.wrong << " of " << found.elements
                  << " elements are wrong, largest error / bound " << found.by_reference.max_ratio
                  << fmt::format(" at [{}]. ", fmt::join(reference::position_of(found.by_reference.worst, sizes), ", "))
                  << found.by_reference.first_wrong << "\n"
                  << reference::to_text(reference::map_of_wrong(sizes, {}, found.wrong));
  }
  return largest;
}

}  // namespace vkfuse::test

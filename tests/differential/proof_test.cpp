// Every access of the differential suite and of the golden graphs counts.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "golden/targets.hpp"
#include "passes/passes.hpp"
#include "support/folder.hpp"
#include "support/proof_rate.hpp"

namespace vkfuse::test {
namespace {

const testing::Environment* const registered = testing::AddGlobalTestEnvironment(new ProofRate);

TEST(Proof, CoversTheGoldenGraphs) {
  int graphs = 0;
  for (const char* folder : {"golden", "portability/graphs"}) {
    for (const auto& entry : std::filesystem::directory_iterator(tests_folder() / folder)) {
      if (entry.path().extension() != ".vkf") continue;
      std::stringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      for (const Target& target : {discrete_gpu(), minimum_device(), cpu_driver()}) {
        const plan::Plan plan = must(plan::make_plan(must(passes::run_pipeline(must(ir::parse(text.str())))), target));
        const segment::Proof proof = must(plan::totals(plan, schedule::representative_symbols(plan.graph))).proof;
        EXPECT_EQ(proof.proven, proof.accesses) << entry.path();
        count_proof(proof);
      }
      ++graphs;
    }
  }
  EXPECT_GE(graphs, 20);
}

}  // namespace
}  // namespace vkfuse::test

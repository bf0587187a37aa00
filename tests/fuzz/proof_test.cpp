// Every access of the random graphs counts.
#include "support/proof_rate.hpp"

namespace vkfuse::test {
namespace {

const testing::Environment* const registered = testing::AddGlobalTestEnvironment(new ProofRate);

}  // namespace
}  // namespace vkfuse::test
